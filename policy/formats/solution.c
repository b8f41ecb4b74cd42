/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A solution as text: a comment with what the two columns are, then a line for each variable ("variable value") or,
 * where the file knows groups, for each of these ("task device"); numbered as in the file.
 */
#include "policy/formats/internal.h"

#include <errno.h>

static void write_choices(const Instance *in, const uint8_t *x, FILE *f) {
        const Qubo *q = in->q;

        fprintf(f, "# %s %s\n", in->group, in->choice);
        for (uint32_t g = 0; g < q->n_groups; g++)
                for (uint32_t c = 0; c < q->group_size[g]; c++)
                        if (x[q->group_first[g] + c])
                                fprintf(f, "%" PRIu32 " %" PRIu32 "\n", g + in->first, c + in->first);
}

static void write_variables(const Instance *in, const uint8_t *x, FILE *f) {
        fprintf(f, "# variable value\n");
        for (uint32_t i = 0; i < in->q->n; i++)
                fprintf(f, "%" PRIu32 " %d\n", i + in->first, in->spins ? 2 * x[i] - 1 : x[i]);
}

char *instance_solution(const Instance *in, const uint8_t *x) {
        char *text = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);

        if (!f)
                return NULL;
        if (in->group)
                write_choices(in, x, f);
        else
                write_variables(in, x, f);
        if (fclose(f) != 0) {
                free(text);
                return NULL;
        }
        return text;
}

/* The cheapest that is still free, as far as is decided by now. */
static uint32_t cheapest(const Qubo *q, uint32_t g, const int64_t *field, const bool *taken) {
        uint32_t first = q->group_first[g], best = QUBO_NO_GROUP;

        for (uint32_t c = 0; c < q->group_size[g]; c++)
                if (!(q->permutation && taken[c]) && (best == QUBO_NO_GROUP || field[first + c] < field[best]))
                        best = first + c;
        return best;
}

uint8_t *instance_any_point(const Instance *in) {
        const Qubo *q = in->q;
        _cleanup_free_ uint8_t *x = calloc((size_t) q->n + 1, 1);
        _cleanup_free_ int64_t *field = calloc((size_t) q->n + 1, sizeof(*field));
        _cleanup_free_ bool *taken = calloc((size_t) q->n + 1, sizeof(*taken));

        if (!x || !field || !taken)
                return NULL;
        for (uint32_t i = 0; i < q->n; i++)
                field[i] = q->linear[i];
        for (uint32_t g = 0; g < q->n_groups; g++) {
                uint32_t v = cheapest(q, g, field, taken);

                x[v] = 1;
                taken[v - q->group_first[g]] = true;
                qubo_add_couplings(q, v, 1, field);
        }
        for (uint32_t i = 0; i < q->n; i++)
                if (q->group_of[i] == QUBO_NO_GROUP && field[i] < 0) {
                        x[i] = 1;
                        qubo_add_couplings(q, i, 1, field);
                }
        return TAKE_PTR(x);
}
