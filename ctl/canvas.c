/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A grid of cells, each one code point and one ink, that grows downwards as it is drawn on. Pictures are drawn in any
 * order and printed once, line by line, blanks at the end of lines left out.
 */
#include "common/text.h"
#include "ctl/output.h"

typedef struct Cell {
        uint32_t codepoint; /* 0: blank */
        Ink ink;
} Cell;

struct Canvas {
        unsigned width, height;
        Cell *cells;
};

int canvas_new(unsigned width, Canvas **ret) {
        Canvas *c = calloc(1, sizeof(*c));

        if (!c)
                return -ENOMEM;
        c->width = width;
        *ret = c;
        return 0;
}

Canvas *canvas_free(Canvas *c) {
        if (c)
                free(c->cells);
        free(c);
        return NULL;
}

static bool grow(Canvas *c, unsigned height) {
        unsigned n = MAX(height, c->height + c->height / 2);
        Cell *cells;

        if (height <= c->height)
                return true;
        cells = reallocarray(c->cells, (size_t) n * c->width, sizeof(*cells));
        if (!cells)
                return false;
        memset(cells + (size_t) c->height * c->width, 0, (size_t) (n - c->height) * c->width * sizeof(*cells));
        c->cells = cells;
        c->height = n;
        return true;
}

void canvas_put(Canvas *c, int x, int y, Ink ink, uint32_t codepoint) {
        if (x < 0 || y < 0 || (unsigned) x >= c->width || !grow(c, (unsigned) y + 1))
                return;
        c->cells[(size_t) y * c->width + (unsigned) x] = (Cell){ codepoint, ink };
}

static uint32_t decode(const char **s) {
        const unsigned char *p = (const unsigned char *) *s;
        unsigned n = *p < 0xC0 ? 0 : *p < 0xE0 ? 1 : *p < 0xF0 ? 2 : 3;
        uint32_t v = n == 0 ? *p : *p & (0x3FU >> n);

        for (p++; n > 0 && (*p & 0xC0) == 0x80; n--, p++)
                v = v << 6 | (*p & 0x3F);
        *s = (const char *) p;
        return v;
}

unsigned canvas_text(Canvas *c, int x, int y, Ink ink, const char *format, ...) {
        _cleanup_free_ char *s = NULL;
        unsigned n = 0;
        va_list ap;
        int r;

        va_start(ap, format);
        r = vasprintf(&s, format, ap);
        va_end(ap);
        if (r < 0)
                return 0;
        for (const char *p = s; *p; n++)
                canvas_put(c, x + (int) n, y, ink, decode(&p));
        return n;
}

void canvas_box(Canvas *c, int x, int y, int w, int h, bool round, Ink ink) {
        for (int i = x + 1; i < x + w - 1; i++) {
                canvas_put(c, i, y, ink, 0x2500);
                canvas_put(c, i, y + h - 1, ink, 0x2500);
        }
        for (int i = y + 1; i < y + h - 1; i++) {
                canvas_put(c, x, i, ink, 0x2502);
                canvas_put(c, x + w - 1, i, ink, 0x2502);
        }
        canvas_put(c, x, y, ink, round ? 0x256D : 0x250C);
        canvas_put(c, x + w - 1, y, ink, round ? 0x256E : 0x2510);
        canvas_put(c, x, y + h - 1, ink, round ? 0x2570 : 0x2514);
        canvas_put(c, x + w - 1, y + h - 1, ink, round ? 0x256F : 0x2518);
}

static char *encode(char *p, uint32_t v) {
        if (v < 0x80)
                *p++ = (char) v;
        else if (v < 0x800) {
                *p++ = (char) (0xC0 | v >> 6);
                *p++ = (char) (0x80 | (v & 0x3F));
        } else if (v < 0x10000) {
                *p++ = (char) (0xE0 | v >> 12);
                *p++ = (char) (0x80 | (v >> 6 & 0x3F));
                *p++ = (char) (0x80 | (v & 0x3F));
        } else {
                *p++ = (char) (0xF0 | v >> 18);
                *p++ = (char) (0x80 | (v >> 12 & 0x3F));
                *p++ = (char) (0x80 | (v >> 6 & 0x3F));
                *p++ = (char) (0x80 | (v & 0x3F));
        }
        return p;
}

static void print_line(const Cell *line, unsigned width, char *buffer) {
        unsigned end = width;

        while (end > 0 &&
               (line[end - 1].codepoint == 0 || (line[end - 1].codepoint == ' ' && line[end - 1].ink < INK_RANK)))
                end--;
        for (unsigned x = 0; x < end;) {
                Ink ink = line[x].ink;
                char *p = buffer;

                for (; x < end && line[x].ink == ink; x++)
                        p = encode(p, line[x].codepoint ? line[x].codepoint : ' ');
                *p = '\0';
                out_ink(ink, "%s", buffer);
        }
        out("\n");
}

void canvas_print(const Canvas *c) {
        _cleanup_free_ char *buffer = malloc((size_t) c->width * 4 + 1);
        unsigned height = c->height;

        while (height > 0) { /* growth allocates ahead */
                const Cell *line = c->cells + (size_t) (height - 1) * c->width;
                unsigned x = 0;

                while (x < c->width && line[x].codepoint == 0)
                        x++;
                if (x < c->width)
                        break;
                height--;
        }
        for (unsigned y = 0; buffer && y < height; y++)
                print_line(c->cells + (size_t) y * c->width, c->width, buffer);
}
