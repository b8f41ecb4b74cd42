/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines and numbers of a text in memory, for the readers here. Numbers are kept twice, as an exact decimal where 18
 * digits do and as the nearest double; "nan", "inf", "0x10" are none. Each scan_ function that fails stores one
 * sentence with the line and returns a negative errno.
 */
#pragma once

#include "common/text.h"
#include "policy/formats/format.h"

typedef struct Scan {
        const char *name; /* of the file, for messages */
        const char *text, *end;
        const char *p;        /* next */
        const char *line_end; /* of the current line */
        unsigned line;        /* 1 is the first; 0: before it */
        const char *marks;    /* a line whose first word begins with one of these is a comment */
        /* Of comments, without marks and blanks around, not NUL-terminated; may be NULL. Negative errno ends the scan. */
        int (*comment)(struct Scan *s, const char *text, size_t n);
        void *userdata; /* the comment function's */
        char **ret_message;
} Scan;

typedef struct Number {
        bool exact; /* mantissa * 10^-digits is what stands there */
        int64_t mantissa;
        unsigned digits; /* least that do, at most 18 */
        double value;
} Number;

Scan scan_begin(const char *name, const char *text, size_t size, const char *marks, char **ret_message);
int scan_fail(const Scan *s, int r, const char *format, ...) _printf_(3, 4); /* "NAME:LINE: …" */
/* Moves to the next line that is neither blank nor a comment: 1, or 0 at the end, or what the comment function said. */
int scan_line(Scan *s);
bool scan_at_line_end(Scan *s);
/* Next word of the line; *ret is not NUL-terminated. false: the line has none left. */
bool scan_word(Scan *s, const char **ret, size_t *ret_n);
int scan_number(Scan *s, const char *what, Number *ret);
/* A whole number from min to max. */
int scan_whole(Scan *s, const char *what, uint64_t min, uint64_t max, uint64_t *ret);
int scan_line_done(Scan *s, const char *allowed); /* fails if there is more on the line */
/* Next number of the text, whatever lines it stands on. */
int scan_next_number(Scan *s, const char *what, Number *ret);

int number_parse(const char *s, size_t n, Number *ret); /* -EINVAL, -ERANGE */
static inline bool number_is_whole(const Number *v) {
        return v->exact && v->digits == 0;
}
/* number * 10^digits, if that is whole and fits. */
bool number_scaled(const Number *v, unsigned digits, int64_t *ret);
int64_t power_of_ten(unsigned digits); /* 0: beyond int64 */
