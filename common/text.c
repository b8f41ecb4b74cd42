/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers are read by a grammar of our own before libc converts them: digits, one '.', an exponent. So "inf", "nan",
 * "0x10", " 5" and "5 " are no numbers anywhere, and the decimal point is '.' whatever the locale is.
 * Sizes, rates and times take whole numbers exactly and fractions by double (a fraction of a byte is rounded).
 */
#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <strings.h>

int text_parse_u64(const char *s, uint64_t *ret) {
        uint64_t v = 0;
        bool overflow = false;

        if (*s == '\0')
                return -EINVAL;
        for (; *s; s++) {
                if (!isdigit((unsigned char) *s))
                        return -EINVAL;
                overflow |= __builtin_mul_overflow(v, UINT64_C(10), &v);
                overflow |= __builtin_add_overflow(v, (uint64_t) (*s - '0'), &v);
        }
        if (overflow)
                return -ERANGE;
        *ret = v;
        return 0;
}

int text_parse_uint(const char *s, unsigned min, unsigned max, unsigned *ret) {
        uint64_t v;
        int r;

        r = text_parse_u64(s, &v);
        if (r < 0)
                return r;
        if (v < min || v > max)
                return -ERANGE;
        *ret = (unsigned) v;
        return 0;
}

int text_parse_pid(const char *s, pid_t *ret) {
        unsigned v;
        int r;

        r = text_parse_uint(s, 1, INT_MAX, &v);
        if (r < 0)
                return r;
        *ret = (pid_t) v;
        return 0;
}

static const char *skip_digits(const char *s) {
        while (isdigit((unsigned char) *s))
                s++;
        return s;
}

/* "12", "1.5", ".5"; the end of it, or NULL when there is no number. */
static const char *skip_decimal(const char *s) {
        const char *end = skip_digits(s);
        size_t n = (size_t) (end - s);

        if (*end == '.') {
                const char *fraction = end + 1;

                end = skip_digits(fraction);
                n += (size_t) (end - fraction);
        }
        return n > 0 ? end : NULL;
}

static double convert(const char *s) {
        locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t) 0);
        double v;

        if (c == (locale_t) 0)
                return NAN;
        v = strtod_l(s, NULL, c);
        freelocale(c);
        return v;
}

int text_parse_double(const char *s, double *ret) {
        const char *p = skip_decimal(s + (*s == '-'));
        double v;

        if (!p)
                return -EINVAL;
        if (*p == 'e' || *p == 'E') {
                const char *digits = p + 1 + (p[1] == '-' || p[1] == '+');

                p = skip_digits(digits);
                if (p == digits)
                        return -EINVAL;
        }
        if (*p != '\0')
                return -EINVAL;
        v = convert(s);
        if (!isfinite(v))
                return -ERANGE;
        *ret = v;
        return 0;
}

/* The number at the start of s (its digits end at `end`) times `factor`. */
static int scaled(const char *s, const char *end, uint64_t factor, uint64_t *ret) {
        _cleanup_free_ char *number = strndup(s, (size_t) (end - s));
        uint64_t v;
        double d;
        int r;

        if (!number)
                return -ENOMEM;
        r = text_parse_u64(number, &v);
        if (r >= 0) {
                if (__builtin_mul_overflow(v, factor, &v))
                        return -ERANGE;
                *ret = v;
                return 0;
        }
        if (r == -ERANGE)
                return r;
        d = round(convert(number) * (double) factor);
        if (!(d < 0x1p64))
                return -ERANGE;
        *ret = (uint64_t) d;
        return 0;
}

int text_parse_size(const char *s, unsigned base, uint64_t *ret) {
        static const char suffixes[] = "KMGTP";
        const char *end = skip_decimal(s);
        uint64_t factor = 1;

        if (!end)
                return -EINVAL;
        if (*end != '\0') {
                const char *suffix = strchr(suffixes, *end);

                if (!suffix || end[1] != '\0')
                        return -EINVAL;
                for (const char *p = suffixes; p <= suffix; p++)
                        factor *= base;
        }
        return scaled(s, end, factor, ret);
}

int text_parse_usec(const char *s, uint64_t *ret) {
        static const struct {
                const char *unit;
                uint64_t usec;
        } units[] = {
                { "", 1000000 },         { "us", 1 },         { "ms", 1000 },       { "s", 1000000 },
                { "min", 60 * 1000000 }, { "h", 3600000000 }, { "d", 86400000000 },
        };
        const char *end = skip_decimal(s);

        if (!end)
                return -EINVAL;
        for (size_t i = 0; i < ELEMENTSOF(units); i++)
                if (streq(end, units[i].unit))
                        return scaled(s, end, units[i].usec, ret);
        return -EINVAL;
}

int text_parse_bool(const char *s) {
        static const char *const words[] = { "no", "yes", "false", "true", "off", "on", "0", "1" };

        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                if (strcasecmp(s, words[i]) == 0)
                        return (int) (i % 2);
        return -EINVAL;
}

/* tenths: ten times the number to print; "60.3 GiB", "64 GiB". */
static char *format_tenths(char *buf, size_t size, uint64_t tenths, const char *prefix, const char *unit) {
        if (tenths % 10)
                (void) snprintf(buf, size, "%" PRIu64 ".%u %s%s", tenths / 10, (unsigned) (tenths % 10), prefix, unit);
        else
                (void) snprintf(buf, size, "%" PRIu64 " %s%s", tenths / 10, prefix, unit);
        return buf;
}

static char *format_scaled(char *buf, size_t size, double v, double base, const char *const *prefixes,
                           const char *unit) {
        size_t i = 0;

        while (prefixes[i + 1] && v >= base * (1 - 0.00005)) {
                v /= base;
                i++;
        }
        return format_tenths(buf, size, (uint64_t) llround(v * 10), prefixes[i], unit);
}

char *text_format_bytes(char *buf, size_t size, uint64_t bytes) {
        static const char *const prefixes[] = { "", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", NULL };

        return format_scaled(buf, size, (double) bytes, 1024, prefixes, "B");
}

char *text_format_rate(char *buf, size_t size, double bytes_per_second) {
        static const char *const prefixes[] = { "", "k", "M", "G", "T", "P", "E", NULL };

        if (!isfinite(bytes_per_second) || bytes_per_second < 0 || bytes_per_second > 1e24)
                (void) snprintf(buf, size, "%g B/s", bytes_per_second);
        else
                format_scaled(buf, size, bytes_per_second, 1000, prefixes, "B/s");
        return buf;
}

int text_fail(int r, char **ret_message, const char *format, ...) {
        char *message;
        va_list ap;

        if (!ret_message)
                return r;
        va_start(ap, format);
        if (vasprintf(&message, format, ap) < 0)
                message = NULL;
        va_end(ap);
        free(*ret_message);
        *ret_message = message;
        return r;
}

bool name_is_valid(const char *s) {
        size_t n = 0;

        if (*s == '.' || *s == '-')
                return false;
        while ((s[n] >= '0' && s[n] <= '9') || (s[n] >= 'A' && s[n] <= 'Z') || (s[n] >= 'a' && s[n] <= 'z') ||
               (s[n] && strchr("._-", s[n])))
                n++;
        return n > 0 && n <= 64 && s[n] == '\0';
}

char **strv_free(char **v) {
        for (char **s = v; s && *s; s++)
                free(*s);
        free(v);
        return NULL;
}

size_t strv_length(char *const *v) {
        size_t n = 0;

        while (v && v[n])
                n++;
        return n;
}

bool strv_contains(char *const *v, const char *s) {
        for (; v && *v; v++)
                if (streq(*v, s))
                        return true;
        return false;
}

int strv_push(char ***v, char *s) {
        size_t n = strv_length(*v);
        char **w;

        if (!s)
                return -ENOMEM;
        w = realloc(*v, (n + 2) * sizeof(*w));
        if (!w) {
                free(s);
                return -ENOMEM;
        }
        w[n] = s;
        w[n + 1] = NULL;
        *v = w;
        return 0;
}

int strv_extend(char ***v, const char *s) {
        return strv_push(v, strdup(s));
}

int strv_extendf(char ***v, const char *format, ...) {
        char *s;
        va_list ap;

        va_start(ap, format);
        if (vasprintf(&s, format, ap) < 0)
                s = NULL;
        va_end(ap);
        return strv_push(v, s);
}

int strv_split(const char *s, const char *separators, char ***ret) {
        _cleanup_(strv_freep) char **v = calloc(1, sizeof(*v));
        int r;

        if (!v)
                return -ENOMEM;
        for (s += strspn(s, separators); *s; s += strspn(s, separators)) {
                size_t n = strcspn(s, separators);

                r = strv_push(&v, strndup(s, n));
                if (r < 0)
                        return r;
                s += n;
        }
        *ret = TAKE_PTR(v);
        return 0;
}
