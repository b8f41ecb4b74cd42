/* SPDX-License-Identifier: Apache-2.0 */
/* What the energies of an instance are worth in its file. */
#include "policy/formats/internal.h"

#include <errno.h>
#include <math.h>

#define COMMENTS_MAX 100U /* are kept, each up to this many bytes */
#define COMMENT_SIZE 200U

Instance *instance_free(Instance *in) {
        if (!in)
                return NULL;
        qubo_free(in->q);
        real_free(in->real);
        strv_free(in->comments);
        free(in->source);
        free(in);
        return NULL;
}

int comment_keep(Scan *s, const char *text, size_t n) {
        Instance *in = s->userdata;
        char *line;

        if (strv_length(in->comments) >= COMMENTS_MAX)
                return 0;
        line = strndup(text, MIN(n, (size_t) COMMENT_SIZE));
        for (char *p = line; p && *p; p++)
                if ((unsigned char) *p < ' ' || *p == 0x7f)
                        *p = ' ';
        return strv_push(&in->comments, line);
}

long double instance_value(const Instance *in, int64_t energy) {
        long double v = (long double) energy * (long double) in->scale.unit / in->scale.scale;

        return in->maximise ? -v : v;
}

long double instance_value_of(const Instance *in, const uint8_t *x) {
        long double v;

        if (in->scale.exact || !in->real)
                return instance_value(in, qubo_energy(in->q, x));
        v = real_energy(in->real, x);
        return in->maximise ? -v : v;
}

int64_t instance_target(const Instance *in, double value) {
        return real_target(&in->scale, in->maximise ? -value : value);
}

/* Digits behind the point that values of a decimal scale need; -1: it is none. */
static int decimal_digits(const RealScale *s) {
        if (!s->exact)
                return -1;
        for (unsigned k = 0; k <= 18; k++)
                if ((double) power_of_ten(k) == s->scale)
                        return (int) k;
        return -1;
}

char *instance_format_value(const Instance *in, long double value) {
        int digits = decimal_digits(&in->scale);
        char buf[64];
        char *s;

        /* Scaled by a power of ten it is whole, and long double holds all whole numbers of 63 bits. */
        if (digits >= 0 && fabsl(value) * in->scale.scale < 0x1p63L) {
                if (asprintf(&s, "%.*Lf", digits, value == 0 ? 0 : value) < 0)
                        return NULL;
                if (digits > 0) {
                        char *end = s + strlen(s);

                        while (end[-1] == '0')
                                *--end = '\0';
                        if (end[-1] == '.')
                                *--end = '\0';
                }
                return s;
        }
        for (int n = 6; n <= 17; n++) {
                snprintf(buf, sizeof(buf), "%.*g", n, (double) value);
                if (strtod(buf, NULL) == (double) value)
                        break;
        }
        return strdup(buf);
}
