/* SPDX-License-Identifier: Apache-2.0 */
/* Reasons as sentences (see explain.h). Prices are those of the model's own terms, nothing is judged anew. */
#include "policy/explain.h"

#include <errno.h>

#include "common/text.h"

static unsigned home_node(const Placement *p, const Candidate *c) {
        const Topology *t = p->snapshot->topology;
        unsigned home = 0;

        for (unsigned n = 1; n < t->n_nodes; n++)
                if (p->blocks[c->block].share[n] > p->blocks[c->block].share[home])
                        home = n;
        return home;
}

/* "npu3" or "CPUs 0-11 on node 0"; caller frees. */
static int describe(const Placement *p, const Candidate *c, char **ret) {
        _cleanup_free_ char *list = NULL;
        size_t size;
        FILE *f;
        int r;

        if (c->kind == CANDIDATE_CPUS) {
                r = bitset_format(&p->blocks[c->block].cpus, &list);
                if (r < 0)
                        return r;
                r = asprintf(ret, "CPUs %s on node %u", list, p->snapshot->topology->nodes[home_node(p, c)].os);
                return r < 0 ? -ENOMEM : 0;
        }
        f = open_memstream(ret, &size);
        if (!f)
                return -ENOMEM;
        for (unsigned i = 0; i < c->n_devices; i++)
                fprintf(f, "%s%s", i ? "+" : "", p->snapshot->devices[c->devices[i]].name);
        return fclose(f) == 0 ? 0 : -ENOMEM;
}

static bool materially_different(const Placement *p, const Candidate *a, const Candidate *b) {
        if (a->kind == CANDIDATE_DEVICES)
                return a != b;
        return home_node(p, a) != home_node(p, b);
}

static double total(const double *terms) {
        double sum = 0;

        for (size_t i = 0; i < PLACEMENT_TERM_MAX; i++)
                sum += terms[i];
        return sum;
}

/* " (distance +4.00, traffic -0.12)": the terms that differ by more than a thousandth; "" when none does. */
static int differences(const double *now, const double *then, char **ret) {
        size_t size;
        FILE *f = open_memstream(ret, &size);
        bool any = false;

        if (!f)
                return -ENOMEM;
        for (size_t i = 0; placement_terms[i].name; i++)
                if (fabs(then[i] - now[i]) >= 0.001) {
                        fprintf(f, "%s%s %+.3g", any ? ", " : " (", placement_terms[i].name, then[i] - now[i]);
                        any = true;
                }
        if (any)
                fputc(')', f);
        return fclose(f) == 0 ? 0 : -ENOMEM;
}

static int explain_group(const Placement *p, uint32_t now, uint32_t first, uint32_t count, const uint32_t *chosen, size_t n,
                         char ***reasons) {
        const Candidate *c = p->candidates + now;
        double here[PLACEMENT_TERM_MAX] = {}, best[PLACEMENT_TERM_MAX] = {};
        _cleanup_free_ char *what = NULL, *other = NULL, *why = NULL;
        uint32_t next = UINT32_MAX;
        int r;

        r = describe(p, c, &what);
        if (r < 0)
                return r;
        placement_share(p, now, chosen, n, 1, here);
        for (uint32_t i = first; i < first + count; i++) {
                double there[PLACEMENT_TERM_MAX] = {};

                if (!materially_different(p, c, p->candidates + i))
                        continue;
                placement_share(p, i, chosen, n, 1, there);
                if (next == UINT32_MAX || total(there) < total(best)) {
                        next = i;
                        memcpy(best, there, sizeof(best));
                }
        }
        if (next == UINT32_MAX)
                return strv_extendf(reasons, "%s%s: %s", what, c->current ? " (as now)" : "",
                                    c->kind == CANDIDATE_CPUS ? "no other node can be had" : c->current ? "its process holds it"
                                                                                              : "no other can be had");
        r = describe(p, p->candidates + next, &other);
        if (r >= 0)
                r = differences(here, best, &why);
        if (r < 0)
                return r;
        if (fabs(total(best) - total(here)) < 0.001)
                return strv_extendf(reasons, "%s%s: %s would cost the same with all else as it is%s", what,
                                    c->current ? " (as now)" : "", other, why);
        return strv_extendf(reasons, "%s%s: the next best, %s, would cost %.3g %s%s", what, c->current ? " (as now)" : "", other,
                            fabs(total(best) - total(here)), total(best) > total(here) ? "more" : "less", why);
}

int explain_rank(const Placement *p, unsigned rank, const uint32_t *chosen, size_t n, char ***reasons) {
        const PlacementRank *k = p->ranks + rank;

        for (size_t i = 0; i < n; i++) {
                const Candidate *c = p->candidates + chosen[i];
                int r;

                if (c->rank != rank)
                        continue;
                r = c->kind == CANDIDATE_DEVICES
                            ? explain_group(p, chosen[i], k->first_device, k->n_device_candidates, chosen, n, reasons)
                            : explain_group(p, chosen[i], k->first_block, k->n_block_candidates, chosen, n, reasons);
                if (r < 0)
                        return r;
        }
        return 0;
}
