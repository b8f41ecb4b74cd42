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

static bool same_choice(const Candidate *a, const Candidate *b) {
        if (a->kind != b->kind || a->n_devices != b->n_devices)
                return false;
        return a->kind == CANDIDATE_CPUS ? a->block == b->block
                                         : memcmp(a->devices, b->devices, a->n_devices * sizeof(*a->devices)) == 0;
}

/* Where in chosen the rank is that has what candidate `alternative` offers; n when nobody has. */
static size_t occupant(const Placement *p, uint32_t alternative, const uint32_t *chosen, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (p->candidates[chosen[i]].rank != p->candidates[alternative].rank &&
                    same_choice(p->candidates + chosen[i], p->candidates + alternative))
                        return i;
        return n;
}

/* The candidate of another rank that offers what `now` offers; UINT32_MAX when it has none. */
static uint32_t counterpart(const Placement *p, uint32_t now, unsigned rank) {
        const Candidate *c = p->candidates + now;
        const PlacementRank *k = p->ranks + rank;
        uint32_t first = c->kind == CANDIDATE_CPUS ? k->first_block : k->first_device;
        uint32_t count = c->kind == CANDIDATE_CPUS ? k->n_block_candidates : k->n_device_candidates;

        for (uint32_t i = first; i < first + count; i++)
                if (same_choice(p->candidates + i, c))
                        return i;
        return UINT32_MAX;
}

/* Adds what the choice at position b costs beside all but the one at position a. */
static void add_cost(const Placement *p, uint32_t *chosen, size_t n, size_t a, size_t b, double *terms) {
        uint32_t kept = chosen[a];

        chosen[a] = chosen[b]; /* the pair of the two is counted already: a variable has no price with itself */
        placement_share(p, chosen[b], chosen, n, 1, terms);
        chosen[a] = kept;
}

/* Terms now and then when position `at` takes `alternative`, by swapping with who has it where that is possible. `here`:
 * what the choice at `at` costs now. */
static void weigh(const Placement *p, uint32_t *chosen, size_t n, size_t at, uint32_t alternative, const double *here,
                  double *now, double *then, bool *ret_swap) {
        uint32_t old = chosen[at], theirs = UINT32_MAX;
        size_t other = occupant(p, alternative, chosen, n);

        if (other < n)
                theirs = counterpart(p, old, p->candidates[chosen[other]].rank);
        if (theirs == UINT32_MAX)
                other = n;
        memcpy(now, here, PLACEMENT_TERM_MAX * sizeof(double));
        memset(then, 0, PLACEMENT_TERM_MAX * sizeof(double));
        if (other < n)
                add_cost(p, chosen, n, at, other, now);
        chosen[at] = alternative;
        if (other < n) {
                uint32_t kept = chosen[other];

                chosen[other] = theirs;
                placement_share(p, alternative, chosen, n, 1, then);
                add_cost(p, chosen, n, at, other, then);
                chosen[other] = kept;
        } else
                placement_share(p, alternative, chosen, n, 1, then);
        chosen[at] = old;
        *ret_swap = other < n;
}

static const char *no_choice(const Placement *p, const Candidate *c) {
        if (c->kind == CANDIDATE_CPUS && p->ranks[c->rank].fixed)
                return "somebody else has set them, and they are left to them until its job is applied again";
        if (c->kind == CANDIDATE_CPUS)
                return "no other node can be had";
        return c->current ? "its process holds it" : "no other can be had";
}

static int explain_group(const Placement *p, size_t at, uint32_t first, uint32_t count, uint32_t *chosen, size_t n,
                         char ***reasons) {
        const Candidate *c = p->candidates + chosen[at];
        double alone[PLACEMENT_TERM_MAX] = {}, here[PLACEMENT_TERM_MAX] = {}, best[PLACEMENT_TERM_MAX] = {}, gap;
        _cleanup_free_ char *what = NULL, *other = NULL, *why = NULL;
        const char *as_now = c->current ? " (as now)" : "";
        uint32_t next = UINT32_MAX;
        bool swaps = false;
        int r;

        r = describe(p, c, &what);
        if (r < 0)
                return r;
        placement_share(p, chosen[at], chosen, n, 1, alone);
        for (uint32_t i = first; i < first + count; i++) {
                double now[PLACEMENT_TERM_MAX], then[PLACEMENT_TERM_MAX];
                bool swap;

                if (!materially_different(p, c, p->candidates + i))
                        continue;
                weigh(p, chosen, n, at, i, alone, now, then, &swap);
                if (next != UINT32_MAX && total(then) - total(now) >= total(best) - total(here))
                        continue;
                next = i;
                swaps = swap;
                memcpy(here, now, sizeof(here));
                memcpy(best, then, sizeof(best));
        }
        if (next == UINT32_MAX)
                return strv_extendf(reasons, "%s%s: %s", what, as_now, no_choice(p, c));
        r = describe(p, p->candidates + next, &other);
        if (r >= 0)
                r = differences(here, best, &why);
        if (r < 0)
                return r;
        gap = total(best) - total(here);
        if (fabs(gap) < 0.001)
                return strv_extendf(reasons, "%s%s: %s%s would cost the same%s", what, as_now,
                                    swaps ? "swapping for " : "", other, why);
        return strv_extendf(reasons, "%s%s: the next best, %s%s, would cost %.3g %s%s", what, as_now,
                            swaps ? "swapping for " : "", other, fabs(gap), gap > 0 ? "more" : "less", why);
}

int explain_rank(const Placement *p, unsigned rank, const uint32_t *chosen, size_t n, char ***reasons) {
        const PlacementRank *k = p->ranks + rank;
        _cleanup_free_ uint32_t *tried = calloc(MAX(n, (size_t) 1), sizeof(uint32_t));

        if (!tried)
                return -ENOMEM;
        memcpy(tried, chosen, n * sizeof(uint32_t));

        for (size_t i = 0; i < n; i++) {
                const Candidate *c = p->candidates + chosen[i];
                int r;

                if (c->rank != rank)
                        continue;
                r = c->kind == CANDIDATE_DEVICES
                            ? explain_group(p, i, k->first_device, k->n_device_candidates, tried, n, reasons)
                            : explain_group(p, i, k->first_block, k->n_block_candidates, tried, n, reasons);
                if (r < 0)
                        return r;
        }
        return 0;
}
