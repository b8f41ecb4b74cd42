/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines and numbers. A decimal of at most 2^53 and 22 digits behind the point is the quotient of two doubles that are
 * exact, so one division gives the nearest double (Clinger 1990, "How to read floating point numbers accurately"); the
 * rest is libc's.
 */
#include "policy/formats/scan.h"

#include <ctype.h>
#include <errno.h>

#define NUMBER_LENGTH_MAX 400U
#define DIGITS_MAX 18
#define EXPONENT_MAX 100000
#define MANTISSA_DOUBLE (INT64_C(1) << 53)

Scan scan_begin(const char *name, const char *text, size_t size, const char *marks, char **ret_message) {
        return (Scan){ .name = name,
                       .text = text,
                       .end = text + size,
                       .p = text,
                       .line_end = text,
                       .marks = marks,
                       .ret_message = ret_message };
}

int scan_fail(const Scan *s, int r, const char *format, ...) {
        _cleanup_free_ char *what = NULL;
        va_list ap;
        int n;

        va_start(ap, format);
        n = vasprintf(&what, format, ap);
        va_end(ap);
        if (n < 0)
                return -ENOMEM;
        return text_fail(r, s->ret_message, "%s:%u: %s", s->name, MAX(s->line, 1U), what);
}

static bool is_blank(char c) {
        return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

static void skip_blanks(Scan *s) {
        while (s->p < s->line_end && is_blank(*s->p))
                s->p++;
}

static bool next_line(Scan *s) {
        const char *newline;

        if (s->line > 0 && s->line_end < s->end)
                s->p = s->line_end + 1;
        else if (s->line > 0)
                s->p = s->end;
        if (s->p >= s->end)
                return false;
        newline = memchr(s->p, '\n', (size_t) (s->end - s->p));
        s->line_end = newline ? newline : s->end;
        s->line++;
        return true;
}

static int pass_comment(Scan *s) {
        const char *p = s->p + 1, *end = s->line_end;

        while (p < end && is_blank(*p))
                p++;
        while (end > p && is_blank(end[-1]))
                end--;
        return s->comment ? s->comment(s, p, (size_t) (end - p)) : 0;
}

/* 'c' is a mark only as a word of its own. */
static bool is_comment(const Scan *s) {
        if (!s->marks || *s->p == '\0' || !strchr(s->marks, *s->p))
                return false;
        return !isalpha((unsigned char) *s->p) || s->p + 1 == s->line_end || is_blank(s->p[1]);
}

int scan_line(Scan *s) {
        while (next_line(s)) {
                int r;

                skip_blanks(s);
                if (s->p == s->line_end)
                        continue;
                if (!is_comment(s))
                        return 1;
                r = pass_comment(s);
                if (r < 0)
                        return r;
        }
        return 0;
}

bool scan_at_line_end(Scan *s) {
        skip_blanks(s);
        return s->p == s->line_end;
}

bool scan_word(Scan *s, const char **ret, size_t *ret_n) {
        const char *p;

        if (scan_at_line_end(s))
                return false;
        for (p = s->p; p < s->line_end && !is_blank(*p);)
                p++;
        *ret = s->p;
        *ret_n = (size_t) (p - s->p);
        s->p = p;
        return true;
}

int64_t power_of_ten(unsigned digits) {
        int64_t p = 1;

        if (digits > DIGITS_MAX)
                return 0;
        while (digits-- > 0)
                p *= 10;
        return p;
}

bool number_scaled(const Number *v, unsigned digits, int64_t *ret) {
        if (!v->exact || v->digits > digits)
                return false;
        return v->mantissa == 0 ? (*ret = 0, true)
                                : digits - v->digits <= DIGITS_MAX &&
                                          !__builtin_mul_overflow(v->mantissa, power_of_ten(digits - v->digits), ret);
}

/* Exponent behind the digits; false: not one. */
static bool parse_exponent(const char *s, const char *end, int *ret) {
        bool negative = s < end && *s == '-';
        int v = 0;

        if (s < end && (*s == '-' || *s == '+'))
                s++;
        if (s == end)
                return false;
        for (; s < end; s++) {
                if (!isdigit((unsigned char) *s))
                        return false;
                v = MIN(v * 10 + (*s - '0'), EXPONENT_MAX);
        }
        *ret = negative ? -v : v;
        return true;
}

/* The shortest mantissa and number of digits; not exact if they do not fit. */
static void normalise(Number *v, int64_t mantissa, int digits) {
        while (digits > 0 && mantissa % 10 == 0 && mantissa != 0) {
                mantissa /= 10;
                digits--;
        }
        if (mantissa == 0)
                digits = 0;
        if (digits > DIGITS_MAX || digits < -DIGITS_MAX)
                v->exact = false;
        if (digits < 0 && v->exact) {
                v->exact = !__builtin_mul_overflow(mantissa, power_of_ten((unsigned) -digits), &mantissa);
                digits = 0;
        }
        v->mantissa = v->exact ? mantissa : 0;
        v->digits = v->exact ? (unsigned) digits : 0;
}

static int parse_by_libc(const char *s, size_t n, double *ret) {
        char copy[NUMBER_LENGTH_MAX + 1];

        if (n > NUMBER_LENGTH_MAX)
                return -ERANGE;
        memcpy(copy, s, n);
        copy[n] = '\0';
        return text_parse_double(copy, ret);
}

int number_parse(const char *s, size_t n, Number *ret) {
        const char *p = s + (n > 0 && *s == '+'), *end = s + n, *first = p;
        Number v = { .exact = true };
        bool negative = p == s && p < end && *p == '-', point = false, any = false;
        int64_t mantissa = 0;
        int digits = 0, exponent = 0, r;

        for (p += negative; p < end; p++) {
                if (*p == '.' && !point) {
                        point = true;
                        continue;
                }
                if (!isdigit((unsigned char) *p))
                        break;
                any = true;
                digits += point ? 1 : 0;
                if (v.exact && (__builtin_mul_overflow(mantissa, INT64_C(10), &mantissa) ||
                                __builtin_add_overflow(mantissa, (int64_t) (*p - '0'), &mantissa)))
                        v.exact = false;
        }
        if (!any || (p < end && ((*p != 'e' && *p != 'E') || !parse_exponent(p + 1, end, &exponent))))
                return -EINVAL;
        normalise(&v, negative ? -mantissa : mantissa, MIN(digits, EXPONENT_MAX) - exponent);
        if (v.exact && llabs(v.mantissa) <= MANTISSA_DOUBLE)
                v.value = (double) v.mantissa / (double) power_of_ten(v.digits);
        else if ((r = parse_by_libc(first, (size_t) (end - first), &v.value)) < 0)
                return r;
        *ret = v;
        return 0;
}

/* A word of the file in a message: what is not printable becomes '?', and not much of it. */
static const char *quoted(const char *word, size_t n, char buf[32]) {
        size_t m = MIN(n, (size_t) 24);

        for (size_t i = 0; i < m; i++)
                buf[i] = (char) (word[i] > ' ' && word[i] < 0x7f ? word[i] : '?');
        strcpy(buf + m, n > m ? "..." : "");
        return buf;
}

static int parse_word(Scan *s, const char *word, size_t n, const char *what, Number *ret) {
        int r = number_parse(word, n, ret);
        char buf[32];

        if (r == -ERANGE)
                return scan_fail(
                        s, r,
                        "%s \"%s\" is too large or too long; allowed are numbers below 1.8e308 of at most %u characters",
                        what, quoted(word, n, buf), NUMBER_LENGTH_MAX);
        if (r < 0)
                return scan_fail(
                        s, r,
                        "%s \"%s\" is not a number; allowed are whole numbers, decimals and exponents as in -12, 0.5, 1e-3",
                        what, quoted(word, n, buf));
        return 0;
}

int scan_number(Scan *s, const char *what, Number *ret) {
        const char *word;
        size_t n;

        if (!scan_word(s, &word, &n))
                return scan_fail(s, -EINVAL, "the line ends where %s should follow", what);
        return parse_word(s, word, n, what, ret);
}

int scan_next_number(Scan *s, const char *what, Number *ret) {
        while (scan_at_line_end(s)) {
                int r = scan_line(s);

                if (r < 0)
                        return r;
                if (r == 0)
                        return scan_fail(s, -EINVAL, "the file ends where %s should follow", what);
        }
        return scan_number(s, what, ret);
}

int scan_whole(Scan *s, const char *what, uint64_t min, uint64_t max, uint64_t *ret) {
        const char *word;
        char buf[32];
        Number v;
        size_t n;

        if (!scan_word(s, &word, &n))
                return scan_fail(s, -EINVAL, "the line ends where %s should follow", what);
        if (number_parse(word, n, &v) < 0 || !number_is_whole(&v) || v.mantissa < 0 || (uint64_t) v.mantissa < min ||
            (uint64_t) v.mantissa > max)
                return scan_fail(s, -EINVAL, "%s is \"%s\"; allowed are whole numbers from %" PRIu64 " to %" PRIu64,
                                 what, quoted(word, n, buf), min, max);
        *ret = (uint64_t) v.mantissa;
        return 0;
}

int scan_line_done(Scan *s, const char *allowed) {
        const char *word;
        char buf[32];
        size_t n;

        if (!scan_word(s, &word, &n))
                return 0;
        return scan_fail(s, -EINVAL, "\"%s\" is too much on this line; allowed is %s", quoted(word, n, buf), allowed);
}
