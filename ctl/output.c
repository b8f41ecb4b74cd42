/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ink, character set and the stream. Colours are chosen from the terminal's sixteen, or from a palette where TERM says
 * that there are 256. A write error is remembered by stdio and told once, at the end; that the reader has gone (| head)
 * is none.
 */
#include "ctl/output.h"

#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <poll.h>

#include "common/log.h"

static struct { bool terminal, color, palette, utf8; } style;

static const struct {
        const char *from;
        const char *to;
} stand_ins[] = {
        /* same width: tables and pictures stay aligned */
        { "─", "-" }, { "│", "|" }, { "┌", "+" }, { "┐", "+" }, { "└", "+" }, { "┘", "+" }, { "├", "+" }, { "┤", "+" },
        { "┬", "+" }, { "╭", "+" }, { "╮", "+" }, { "╰", "+" }, { "╯", "+" }, { "╴", "-" }, { "╶", "-" }, { "┊", ":" },
        { "·", "." }, { "░", "." }, { "█", "#" }, { "▉", "#" }, { "▊", "#" }, { "▋", "#" }, { "▌", "#" }, { "▍", "#" },
        { "▎", "|" }, { "▏", "|" }, { "…", "~" }, { "–", "-" }, { "→", ">" }, { "←", "<" }, { "°", " " }, { "≤", "<" },
        { "×", "x" }, { "●", "*" }, { "○", "o" }, { "Δ", "d" },
};

static bool wants_color(const Options *o) {
        const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

        if (o->no_color || (no && *no) || !style.terminal)
                return false;
        return term && *term && !streq(term, "dumb");
}

void output_open(const Options *o) {
        const char *term = getenv("TERM"), *depth = getenv("COLORTERM");

        (void) setlocale(LC_CTYPE, "");
        style.terminal = isatty(STDOUT_FILENO);
        style.color = wants_color(o);
        style.palette = (term && strstr(term, "256color")) || (depth && *depth);
        style.utf8 = streq(nl_langinfo(CODESET), "UTF-8");
}

bool output_is_terminal(void) {
        return style.terminal;
}

static bool reader_has_gone(void) {
        struct pollfd p = { .fd = STDOUT_FILENO };

        return poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP));
}

int output_finish(int code) {
        bool bad = ferror(stdout);

        bad = fflush(stdout) != 0 || bad;
        if (bad && reader_has_gone())
                return code;
        if (bad || (fclose(stdout) != 0 && errno != EBADF)) {
                log_error_errno(-errno, "Failed to write to standard output: %m");
                return EXIT_FAILED;
        }
        return code;
}

static void ink_on(Ink ink) {
        static const char *const fixed[INK_RANK] = {
                [INK_BOLD] = "1",   [INK_DIM] = "2",    [INK_GOOD] = "32", [INK_WARN] = "33",
                [INK_BAD] = "1;31", [INK_FRAME] = "36", [INK_TITLE] = "1",
        };
        static const char *const sixteen[] = { "32", "33", "34", "35", "36", "31", "92", "93", "94", "95", "96", "91" };
        static const unsigned char palette[] = { 114, 215, 75,  211, 80,  222, 141, 150,
                                                 173, 110, 204, 43,  185, 104, 174, 72 };

        if (ink < INK_RANK) {
                if (fixed[ink])
                        fprintf(stdout, "\033[%sm", fixed[ink]);
        } else if (style.palette)
                fprintf(stdout, "\033[30;48;5;%um", palette[(ink - INK_RANK) % ELEMENTSOF(palette)]);
        else
                fprintf(stdout, "\033[7;%sm", sixteen[(ink - INK_RANK) % ELEMENTSOF(sixteen)]);
}

/* Length of the UTF-8 sequence at s, 1 for what is none. */
static size_t sequence_length(const char *s) {
        unsigned char c = (unsigned char) s[0];
        size_t n = c < 0x80 ? 1 : (c & 0xE0) == 0xC0 ? 2 : (c & 0xF0) == 0xE0 ? 3 : (c & 0xF8) == 0xF0 ? 4 : 1;

        for (size_t i = 1; i < n; i++)
                if (((unsigned char) s[i] & 0xC0) != 0x80)
                        return 1;
        return n;
}

unsigned text_width(const char *s) {
        unsigned n = 0;

        for (; *s; s += sequence_length(s))
                n++;
        return n;
}

static const char *stand_in(const char *s, size_t n) {
        for (size_t i = 0; i < ELEMENTSOF(stand_ins); i++)
                if (strlen(stand_ins[i].from) == n && memcmp(stand_ins[i].from, s, n) == 0)
                        return stand_ins[i].to;
        return "?";
}

/* C1 controls (U+0080 to U+009F) move the cursor on some terminals, as those below blank do on all. */
static bool is_control(const char *s, size_t n) {
        unsigned char c = (unsigned char) s[0];

        return n == 1 ? (c < 0x20 && c != '\n' && c != '\t') || c >= 0x7F
                      : n == 2 && c == 0xC2 && (unsigned char) s[1] < 0xA0;
}

static void write_text(const char *s) {
        for (size_t n; *s; s += n) {
                n = sequence_length(s);
                if (is_control(s, n))
                        fputc('?', stdout);
                else if (n == 1 || style.utf8)
                        fwrite(s, 1, n, stdout);
                else
                        fputs(stand_in(s, n), stdout);
        }
}

static void _printf_(2, 0) write_inked(Ink ink, const char *format, va_list ap) {
        _cleanup_free_ char *s = NULL;

        if (vasprintf(&s, format, ap) < 0)
                return;
        if (style.color && ink != INK_NONE)
                ink_on(ink);
        write_text(s);
        if (style.color && ink != INK_NONE)
                fputs("\033[0m", stdout);
}

void out(const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        write_inked(INK_NONE, format, ap);
        va_end(ap);
}

void out_ink(Ink ink, const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        write_inked(ink, format, ap);
        va_end(ap);
}

void out_heading(const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        out("\n");
        write_inked(INK_BOLD, format, ap);
        va_end(ap);
        out("\n");
}

/* Bytes of the next piece of a paragraph: a word, or, of one that does not fit a line, as many parts up to a comma as
 * fit into `room` cells, at least one. */
static size_t next_piece(const char *p, unsigned room, unsigned line) {
        size_t word = strcspn(p, " "), n = 0;

        if (word <= line)
                return word;
        for (size_t i = 0; i < word; i++)
                if (p[i] == ',' && (n == 0 || i + 1 <= room))
                        n = i + 1;
        return n > 0 ? n : word;
}

void out_wrapped(const char *first, const char *rest, Ink ink, const char *text) {
        unsigned at = text_width(first), start = at;
        bool blank = false;

        out_ink(ink, "%s", first);
        for (const char *p = text; *p;) {
                unsigned room = at + blank < OUTPUT_WIDTH ? OUTPUT_WIDTH - at - blank : 0;
                size_t n = next_piece(p, room, OUTPUT_WIDTH - text_width(rest));
                _cleanup_free_ char *piece = strndup(p, n);
                unsigned width = piece ? text_width(piece) : 0;

                if (at > start && width > room) {
                        out("\n%s", rest);
                        at = start = text_width(rest);
                        blank = false;
                }
                out("%s%s", blank ? " " : "", strempty(piece));
                at += width + blank;
                p += n;
                blank = *p == ' ';
                p += strspn(p, " ");
        }
        out("\n");
}

void out_bar(Ink ink, double share, unsigned width) {
        static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
        _cleanup_free_ char *s = NULL;
        unsigned n, full;

        share = !(share > 0) ? 0 : MIN(share, 1.0);
        n = (unsigned) lround(share * width * 8);
        if (share > 0 && n == 0)
                n = 1;
        full = n / 8;
        s = calloc((size_t) width * 3 + 4, 1);
        if (!s)
                return;
        for (unsigned i = 0; i < full; i++)
                strcat(s, "█");
        if (full < width)
                strcat(s, eighths[n % 8]);
        out_ink(ink, "%s", s);
        out("%*s", (int) (width - text_width(s)), "");
}

unsigned out_change_bar(double now, double before, unsigned width) {
        double lesser = isnan(before) ? now : fmin(now, before);
        unsigned full = (unsigned) lround(fmin(fmax(lesser, 0), 1) * width), end;

        if (isnan(before))
                before = now;
        end = (unsigned) lround(fmin(fmax(fmax(now, before), 0), 1) * width);
        if (now > 0 && end == 0) {
                out_ink(INK_FRAME, "▏");
                return 1;
        }
        for (unsigned i = 0; i < end; i++)
                if (i < full)
                        out_ink(INK_FRAME, "█");
                else
                        out_ink(now > before ? INK_BAD : INK_GOOD, now > before ? "█" : "░");
        return end;
}

void out_json_digits(const json_t *j, unsigned digits) {
        (void) json_dumpf(j, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
        fputc('\n', stdout);
}

void out_json(const json_t *j) {
        out_json_digits(j, 12);
}
