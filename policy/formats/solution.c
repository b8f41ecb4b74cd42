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

uint8_t *instance_any_point(const Instance *in) {
        const Qubo *q = in->q;
        uint8_t *x = calloc((size_t) q->n + 1, 1);

        for (uint32_t g = 0; x && g < q->n_groups; g++)
                x[q->group_first[g] + (q->permutation ? g : 0)] = 1;
        return x;
}
