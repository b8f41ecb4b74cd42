/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aligned columns. All cells are kept until the table is printed, since only then the widths are known; the flexible
 * column gets what the others leave of OUTPUT_WIDTH and continues on further lines, broken after ',' or ' ' where it
 * can. Out of memory is remembered and tells itself by an incomplete table; output is for people here.
 */
#include "common/text.h"
#include "ctl/output.h"

#define TABLE_COLUMNS_MAX 12U
#define TABLE_FLEX_MIN 12U

typedef struct Cell {
        char *text;
        Ink ink;
} Cell;

struct Table {
        const char *const *columns;
        unsigned n_columns;
        Cell *cells;
        size_t n_cells, n_allocated;
};

int table_new(const char *const *columns, Table **ret) {
        Table *t = calloc(1, sizeof(*t));

        if (!t)
                return -ENOMEM;
        t->columns = columns;
        while (t->n_columns < TABLE_COLUMNS_MAX && columns[t->n_columns])
                t->n_columns++;
        *ret = t;
        return 0;
}

Table *table_free(Table *t) {
        if (!t)
                return NULL;
        for (size_t i = 0; i < t->n_cells; i++)
                free(t->cells[i].text);
        free(t->cells);
        free(t);
        return NULL;
}

int table_add(Table *t, Ink ink, const char *format, ...) {
        char *s = NULL;
        va_list ap;
        int r;

        if (t->n_cells == t->n_allocated) {
                size_t n = t->n_allocated ? t->n_allocated * 2 : 64;
                Cell *c = reallocarray(t->cells, n, sizeof(*c));

                if (!c)
                        return -ENOMEM;
                t->cells = c;
                t->n_allocated = n;
        }
        va_start(ap, format);
        r = vasprintf(&s, format, ap);
        va_end(ap);
        if (r < 0)
                return -ENOMEM;
        t->cells[t->n_cells++] = (Cell){ s, ink };
        return 0;
}

static const char *column_title(const char *column) {
        return column + (*column == '>' || *column == '*');
}

static void measure(const Table *t, unsigned *width) {
        unsigned total = 0;
        int flexible = -1;

        for (unsigned c = 0; c < t->n_columns; c++) {
                width[c] = text_width(column_title(t->columns[c]));
                for (size_t i = c; i < t->n_cells; i += t->n_columns)
                        width[c] = MAX(width[c], text_width(t->cells[i].text));
                if (*t->columns[c] == '*')
                        flexible = (int) c;
                total += width[c] + (c > 0 ? 2 : 0);
        }
        if (flexible >= 0 && total > OUTPUT_WIDTH) {
                unsigned over = total - OUTPUT_WIDTH;

                width[flexible] = width[flexible] > over + TABLE_FLEX_MIN ? width[flexible] - over : TABLE_FLEX_MIN;
        }
}

/* Bytes of s that fit into width cells, broken after the last comma or blank before that. */
static size_t fitting(const char *s, unsigned width) {
        size_t best = 0, i = 0;

        if (text_width(s) <= width)
                return strlen(s);
        for (unsigned cells = 0; s[i] && cells < width; cells++) {
                do
                        i++;
                while (((unsigned char) s[i] & 0xC0) == 0x80);
                if (s[i - 1] == ',' || s[i - 1] == ' ')
                        best = i;
        }
        return best ? best : i;
}

static void print_cell(const Table *t, unsigned c, unsigned width, Ink ink, const char *text, size_t n, bool last) {
        _cleanup_free_ char *s = strndup(text, n);
        unsigned w = s ? text_width(s) : 0, pad = w < width ? width - w : 0;
        bool right = *t->columns[c] == '>';

        if (c > 0)
                out("  ");
        if (right)
                out("%*s", (int) pad, "");
        out_ink(ink, "%s", strempty(s));
        if (!right && !last)
                out("%*s", (int) pad, "");
}

/* One line of a row; what of the flexible cell does not fit stays in *rest. */
static void print_line(const Table *t, const unsigned *width, const Cell *row, const char **rest) {
        unsigned n = t->n_columns;

        while (n > 1 && !*rest[n - 1]) /* no blanks at the end of a line */
                n--;
        for (unsigned c = 0; c < n; c++) {
                size_t bytes = *t->columns[c] == '*' ? fitting(rest[c], width[c]) : strlen(rest[c]);

                print_cell(t, c, width[c], row[c].ink, rest[c], bytes, c + 1 == n);
                rest[c] += bytes;
        }
        out("\n");
}

static void print_row(const Table *t, const unsigned *width, const Cell *row) {
        const char *rest[TABLE_COLUMNS_MAX];
        bool more = true;

        for (unsigned c = 0; c < t->n_columns; c++)
                rest[c] = row[c].text;
        while (more) {
                print_line(t, width, row, rest);
                more = false;
                for (unsigned c = 0; c < t->n_columns; c++)
                        more = more || *rest[c];
        }
}

void table_print(const Table *t) {
        unsigned width[TABLE_COLUMNS_MAX];
        Cell titles[TABLE_COLUMNS_MAX];

        measure(t, width);
        for (unsigned c = 0; c < t->n_columns; c++)
                titles[c] = (Cell){ (char *) column_title(t->columns[c]), INK_BOLD };
        print_row(t, width, titles);
        for (size_t i = 0; i + t->n_columns <= t->n_cells; i += t->n_columns)
                print_row(t, width, t->cells + i);
}
