/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of formats, and how one is recognised. Content decides where it is unmistakable (qbsolv's p line: such
 * files are often called .qubo), then the suffix, then what the first lines look like, for standard input.
 */
#include "policy/formats/internal.h"

#include <errno.h>
#include <strings.h>

#define DETECT_LINES 200000U /* that are looked at for an entry on the diagonal */

const Format formats[] = {
        /* name, suffix, help, what it begins with, reader, writer */
        { "mc", "mc", "MaxCut: \"n m\", then \"i j w\", from 1; maximised", mc_detect, mc_read, mc_write },
        { "qubo", "qubo",
          "OR-Library's QUBO: \"n nnz\", then \"i j q\", from 1, i <= j; off the diagonal q counts twice; maximised",
          qubo_detect, qubo_read, qubo_write },
        { "qbsolv", "qbsolv",
          "D-Wave's qbsolv: \"p qubo 0 maxNodes nNodes nCouplers\", then \"i j v\", from 0; minimised", qbsolv_detect,
          qbsolv_read, qbsolv_write },
        { "coo", "coo", "D-Wave's dimod COO: \"i j v\", from 0, \"# vartype=BINARY\" or SPIN; minimised", coo_detect,
          coo_read, coo_write },
        { "qaplib", "dat", "QAPLIB: n and two n x n matrices; minimised", qaplib_detect, qaplib_read, qaplib_write },
        { "placement", "txt", "Placement: loads, costs, distances and traffic of tasks and devices; minimised",
          placement_detect, placement_read, placement_write },
        {}
};

const Format *format_by_name(const char *name) {
        for (const Format *f = formats; f->name; f++)
                if (streq(f->name, name))
                        return f;
        return NULL;
}

const Format *format_by_suffix(const char *path) {
        size_t n = strlen(path);

        if (n > 3 && strcasecmp(path + n - 3, ".gz") == 0)
                n -= 3;
        for (const Format *f = formats; f->name; f++) {
                size_t m = strlen(f->suffix);

                if (n > m + 1 && path[n - m - 1] == '.' && strncasecmp(path + n - m, f->suffix, m) == 0)
                        return f;
        }
        return NULL;
}

char *format_names(void) {
        char *names = NULL;

        for (const Format *f = formats; f->name; f++) {
                char *s;

                if (asprintf(&s, "%s%s%s", strempty(names), names ? ", " : "", f->name) < 0)
                        s = NULL;
                free(names);
                names = s;
                if (!s)
                        return NULL;
        }
        return names;
}

/* Words on the first line that is no comment; 0: there is none. */
static size_t first_words(Scan *s) {
        const char *word;
        size_t n = 0, length;

        if (scan_line(s) <= 0)
                return 0;
        while (n < 16 && scan_word(s, &word, &length))
                n++;
        return n;
}

static size_t words_of(const char *text, size_t size, const char *marks) {
        Scan s = scan_begin("", text, size, marks, NULL);

        return first_words(&s);
}

/* Of files that begin with two numbers: whether they have an entry i i, which OR-Library's form has and no cut. */
static bool has_diagonal(const char *text, size_t size) {
        Scan s = scan_begin("", text, size, "#%", NULL);

        (void) scan_line(&s);
        for (unsigned i = 0; i < DETECT_LINES && scan_line(&s) > 0; i++) {
                const char *a, *b;
                size_t n, m;

                if (scan_word(&s, &a, &n) && scan_word(&s, &b, &m) && n == m && memcmp(a, b, n) == 0)
                        return true;
        }
        return false;
}

/* Without a diagonal it could be either: neither detects it. */
bool mc_detect(const char *text, size_t size) {
        return false;
}

bool qubo_detect(const char *text, size_t size) {
        return words_of(text, size, "#%") == 2 && has_diagonal(text, size);
}

bool qbsolv_detect(const char *text, size_t size) {
        Scan s = scan_begin("", text, size, "c#", NULL);
        const char *word;
        size_t n;

        return scan_line(&s) > 0 && scan_word(&s, &word, &n) && n == 1 && *word == 'p' && scan_word(&s, &word, &n) &&
               n == 4 && memcmp(word, "qubo", n) == 0;
}

bool coo_detect(const char *text, size_t size) {
        return words_of(text, size, "#%c") == 3;
}

bool qaplib_detect(const char *text, size_t size) {
        return words_of(text, size, NULL) == 1;
}

bool placement_detect(const char *text, size_t size) {
        return words_of(text, size, "#%") == 6 && !qbsolv_detect(text, size);
}

int format_detect(const char *path, const char *text, size_t size, const Format **ret, char **ret_message) {
        _cleanup_free_ char *names = NULL;
        const Format *f = NULL;

        if (qbsolv_detect(text, size))
                f = format_by_name("qbsolv");
        if (!f && path)
                f = format_by_suffix(path);
        for (const Format *i = formats; i->name && !f; i++)
                if (i->detect(text, size))
                        f = i;
        if (f) {
                *ret = f;
                return 0;
        }
        names = format_names();
        if (words_of(text, size, "#%") == 2)
                return text_fail(-EINVAL, ret_message,
                                 "%s: could be mc or qubo; say which with --format=", strempty(path));
        return text_fail(-EINVAL, ret_message,
                         "%s: neither its name nor its first line tells its format; give --format= with one of %s",
                         path ? path : "standard input", strempty(names));
}

int instance_read(const Format *format, const char *name, const char *text, size_t size, Instance **ret,
                  char **ret_message) {
        _cleanup_(instance_freep) Instance *in = NULL;
        int r = 0;

        if (!format)
                r = format_detect(name, text, size, &format, ret_message);
        if (r < 0)
                return r;
        in = calloc(1, sizeof(*in));
        if (!in)
                return -ENOMEM;
        in->format = format;
        r = format->read(name, text, size, in, ret_message);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(in);
        return 0;
}

int instance_write(const Instance *in, const Format *format, Written *ret, char **ret_message) {
        *ret = (Written){};
        return format->write(in, ret, ret_message);
}

void written_done(Written *w) {
        free(w->text);
        w->text = NULL;
}
