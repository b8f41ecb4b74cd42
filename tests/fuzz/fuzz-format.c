/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of models: a line with the name of a format (or of none: it is detected), then the file; packed files are
 * unpacked. What is read is written in each format and read again, which has to be worth the same at some points.
 */
#include <math.h>

#include "common/gzip.h"
#include "policy/formats/format.h"

#include "tests/fuzz/fuzz.h"

#define TEXT_MAX ((size_t) 1 << 20)
#define VARIABLES_MAX 64U /* of what is written again */

static void check_written(const Instance *in, const Format *f) {
        _cleanup_(written_done) Written w = {};
        _cleanup_(instance_freep) Instance *again = NULL;
        _cleanup_free_ char *message = NULL;
        _cleanup_free_ uint8_t *x = NULL;
        int r = instance_write(in, f, &w, &message);
        double a, b;

        must(r >= 0 || (!w.text && (message || r == -12)));
        if (r < 0)
                return;
        r = instance_read(f, "again", w.text, w.size, &again, &message);
        if (r < 0) { /* sums of huge numbers may not fit any more */
                must(message && !strchr(message, '\n'));
                return;
        }
        x = calloc((size_t) again->q->n + 1, 1);
        for (uint32_t g = 0; g < in->q->n_groups; g++)
                x[in->q->group_first[g] + (in->q->permutation ? g : 0)] = 1;
        if (in->q->n_groups == 0)
                for (uint32_t i = 0; i < in->q->n; i++)
                        x[i] = i % 3 != 0;
        a = (double) instance_value_of(in, x) * w.factor + w.constant;
        b = (double) instance_value_of(again, x);
        must(!(fabs(a) < 1e6) || in->real || fabs(a - b) <= 1e-6);
}

static void check_instance(const Instance *in) {
        _cleanup_free_ uint8_t *x = instance_any_point(in);
        _cleanup_free_ char *value = NULL, *solution = NULL;

        must(x && qubo_feasible(in->q, x));
        must(in->q->n >= 1 && in->q->n <= FORMAT_VARIABLES_MAX);
        must(in->scale.exact || in->real);
        value = instance_format_value(in, instance_value_of(in, x));
        must(value && *value);
        if (in->q->n > VARIABLES_MAX)
                return;
        solution = instance_solution(in, x);
        must(solution);
        for (const Format *f = formats; f->name; f++)
                check_written(in, f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const uint8_t *newline = size ? memchr(data, '\n', size) : NULL;
        size_t n = newline ? (size_t) (newline - data) : 0;
        _cleanup_free_ char *word = strndup((const char *) data, n), *text = NULL, *message = NULL;
        _cleanup_(instance_freep) Instance *in = NULL;
        int r;

        if (!newline)
                return 0;
        size -= n + 1;
        if (gzip_is((const char *) newline + 1, size)) {
                if (gzip_unpack((const char *) newline + 1, size, TEXT_MAX, &text, &size) < 0)
                        return 0;
        } else {
                text = malloc(size + 1);
                memcpy(text, newline + 1, size);
                text[size] = '\0';
        }
        r = instance_read(format_by_name(word), "fuzz", text, size, &in, &message);
        if (r < 0)
                must(!in && (r == -12 || (message && !strchr(message, '\n'))));
        else
                check_instance(in);
        return 0;
}
