/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device candidates (see device-sets.h). One device per rank: every usable device of the kind. Several: all sets while
 * they are few, else from each device the ones nearest to it by link.
 */
#include "policy/problems/device-sets.h"

#include <errno.h>

#include "common/text.h"

#define DEVICE_SETS_MAX 64U

static int add_set(Placement *p, unsigned rank, const unsigned *devices, unsigned n) {
        PlacementRank *r = p->ranks + rank;
        unsigned *copy, **grown;
        Candidate *c;

        copy = calloc(MAX(n, 1U), sizeof(unsigned));
        grown = realloc(p->device_sets, (p->n_device_sets + 1) * sizeof(unsigned *));
        if (grown)
                p->device_sets = grown;
        c = copy && grown ? placement_add_candidate(p) : NULL;
        if (!c) {
                free(copy);
                return -ENOMEM;
        }
        memcpy(copy, devices, n * sizeof(unsigned));
        p->device_sets[p->n_device_sets++] = copy;
        *c = (Candidate){ .kind = CANDIDATE_DEVICES, .rank = rank, .devices = copy, .n_devices = n };
        if (r->n_device_candidates == 0)
                r->first_device = p->n_candidates - 1;
        r->n_device_candidates++;
        return 0;
}

/* Kind and number a section asks for; a single name that is no device but a kind means one of that kind. */
static bool wants_kind(const Snapshot *s, const Ranks *section, const char **ret_kind, unsigned *ret_n) {
        if (section->device_kind) {
                *ret_kind = section->device_kind;
                *ret_n = MAX(section->n_devices, 1U);
                return true;
        }
        if (strv_length(section->device_names) == 1 && !snapshot_device(s, section->device_names[0], NULL))
                for (size_t i = 0; i < s->n_devices; i++)
                        if (streq(s->devices[i].kind, section->device_names[0])) {
                                *ret_kind = section->device_names[0];
                                *ret_n = 1;
                                return true;
                        }
        return false;
}

static int names_of(const Snapshot *s, char **ret) {
        FILE *f;
        size_t size;

        f = open_memstream(ret, &size);
        if (!f)
                return -ENOMEM;
        for (size_t i = 0; i < s->n_devices; i++)
                fprintf(f, "%s%s", i ? " " : "", s->devices[i].name);
        return fclose(f) == 0 ? 0 : -ENOMEM;
}

static int named_device(Placement *p, unsigned rank, unsigned index) {
        const Rank *r = p->ranks[rank].rank;
        unsigned n = (unsigned) strv_length(r->section->device_names), device;
        const Device *d;
        int q;

        if (index >= n) {
                if (index > n)
                        return 0; /* said once */
                return strv_extendf(&p->causes, "Job %s names %u device%s for %u ranks: name one for each",
                                    r->job->name, n, n == 1 ? "" : "s", r->section->count);
        }
        d = snapshot_device(p->snapshot, r->section->device_names[index], &device);
        if (!d) {
                _cleanup_free_ char *names = NULL;

                q = names_of(p->snapshot, &names);
                return q < 0 ? q
                             : strv_extendf(&p->causes, "%s: there is no device \"%s\" here; there %s%s", r->name,
                                            r->section->device_names[index],
                                            p->snapshot->n_devices ? "are " : "is none", strempty(names));
        }
        if (d->health == HEALTH_CRITICAL)
                return strv_extendf(&p->causes, "%s: device %s is %s", r->name, d->name, health_names[d->health]);
        return add_set(p, rank, &device, 1);
}

static bool usable(const Placement *p, unsigned device, const char *kind, const bool *taken) {
        const Device *d = p->snapshot->devices + device;

        return strcasecmp(d->kind, kind) == 0 && d->health != HEALTH_CRITICAL && !taken[device];
}

static double binomial(unsigned n, unsigned k) {
        double c = 1;

        for (unsigned i = 0; i < k; i++)
                c = c * (n - i) / (i + 1);
        return c;
}

/* All k-subsets of list, in lexical order. */
static int all_sets(Placement *p, unsigned rank, const unsigned *list, unsigned n, unsigned k) {
        _cleanup_free_ unsigned *at = calloc(k, sizeof(unsigned)), *set = calloc(k, sizeof(unsigned));

        if (!at || !set)
                return -ENOMEM;
        for (unsigned i = 0; i < k; i++)
                at[i] = i;
        for (;;) {
                unsigned i = k;
                int r;

                for (unsigned j = 0; j < k; j++)
                        set[j] = list[at[j]];
                r = add_set(p, rank, set, k);
                if (r < 0)
                        return r;
                while (i > 0 && at[i - 1] == n - k + i - 1)
                        i--;
                if (i == 0)
                        return 0;
                at[i - 1]++;
                for (; i < k; i++)
                        at[i] = at[i - 1] + 1;
        }
}

/* From one device, again and again the one that is nearest to those chosen; and the list cut into runs of k. */
static int near_sets(Placement *p, unsigned rank, const unsigned *list, unsigned n, unsigned k) {
        _cleanup_free_ unsigned *set = calloc(k, sizeof(unsigned));
        _cleanup_free_ bool *in = calloc(n, sizeof(bool));
        size_t width = p->snapshot->n_devices;
        int r;

        if (!set || !in)
                return -ENOMEM;
        for (unsigned from = 0; from + k <= n; from += k) {
                r = add_set(p, rank, list + from, k);
                if (r < 0)
                        return r;
        }
        for (unsigned from = 0; from < n; from++) {
                memset(in, 0, n * sizeof(bool));
                in[from] = true;
                set[0] = list[from];
                for (unsigned m = 1; m < k; m++) {
                        unsigned best = UINT_MAX;
                        double best_time = INFINITY;

                        for (unsigned i = 0; i < n; i++) {
                                double time = 0;

                                for (unsigned j = 0; j < m; j++)
                                        time += p->link_time[list[i] * width + set[j]];
                                if (!in[i] && time < best_time) {
                                        best = i;
                                        best_time = time;
                                }
                        }
                        in[best] = true;
                        set[m] = list[best];
                }
                r = add_set(p, rank, set, k);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int kind_sets(Placement *p, unsigned rank, const char *kind, unsigned k, const bool *taken) {
        _cleanup_free_ unsigned *list = calloc(MAX(p->snapshot->n_devices, (size_t) 1), sizeof(unsigned));
        unsigned n = 0;

        if (!list)
                return -ENOMEM;
        for (unsigned i = 0; i < p->snapshot->n_devices; i++)
                if (usable(p, i, kind, taken))
                        list[n++] = i;
        if (n < k)
                return 0; /* check_kinds() has said it */
        return binomial(n, k) <= DEVICE_SETS_MAX ? all_sets(p, rank, list, n, k) : near_sets(p, rank, list, n, k);
}

/* "npu3 is critical", for those of a kind that cannot be used; NULL when all can. */
static int unusable_names(const Placement *p, const char *kind, const bool *taken, char **ret) {
        size_t size;
        FILE *f = open_memstream(ret, &size);
        bool any = false;

        if (!f)
                return -ENOMEM;
        for (unsigned i = 0; i < p->snapshot->n_devices; i++) {
                const Device *d = p->snapshot->devices + i;

                if (strcasecmp(d->kind, kind) != 0 || usable(p, i, kind, taken))
                        continue;
                fprintf(f, "%s%s is %s", any ? ", " : ": ", d->name,
                        taken[i] ? "another rank's" : health_names[d->health]);
                any = true;
        }
        return fclose(f) == 0 ? 0 : -ENOMEM;
}

/* For each kind asked for: are there enough devices for all ranks that may still choose? */
static int check_kinds(Placement *p, const bool *taken, const bool *fixed) {
        for (unsigned i = 0; i < p->n_ranks; i++) {
                const char *kind, *other;
                unsigned n, want = 0, have = 0, ranks = 0;
                _cleanup_free_ char *bad = NULL;
                bool seen = false;
                int r;

                if (fixed[i] || !wants_kind(p->snapshot, p->ranks[i].rank->section, &kind, &n))
                        continue;
                for (unsigned k = 0; k < p->n_ranks; k++) {
                        if (fixed[k] || !wants_kind(p->snapshot, p->ranks[k].rank->section, &other, &n) ||
                            strcasecmp(kind, other) != 0)
                                continue;
                        seen = seen || k < i;
                        want += n;
                        ranks++;
                }
                for (unsigned d = 0; d < p->snapshot->n_devices; d++)
                        have += usable(p, d, kind, taken);
                if (seen || want <= have)
                        continue;
                r = unusable_names(p, kind, taken, &bad);
                if (r >= 0)
                        r = strv_extendf(&p->causes, "%u rank%s for %u %s device%s, %u can be used%s", ranks,
                                         ranks == 1 ? " asks" : "s ask", want, kind, want == 1 ? "" : "s", have, bad);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* What is settled: devices a process holds, and those that a section names. */
static int fixed_device(Placement *p, unsigned rank, unsigned index, bool *taken, bool *ret_fixed) {
        const Rank *r = p->ranks[rank].rank;
        const char *kind;
        unsigned n, first = p->n_candidates;
        int q = 0;

        if (r->task && r->task->n_devices > 0) {
                q = add_set(p, rank, r->task->devices, (unsigned) r->task->n_devices);
                if (q < 0)
                        return q;
                p->candidates[first].current = true;
                p->ranks[rank].current_device = (int) first;
        } else if (r->section->device_names && !wants_kind(p->snapshot, r->section, &kind, &n))
                q = named_device(p, rank, index);
        else
                return 0;
        *ret_fixed = true;
        for (uint32_t c = first; c < p->n_candidates; c++)
                for (unsigned i = 0; i < p->candidates[c].n_devices; i++)
                        taken[p->candidates[c].devices[i]] = true;
        return q;
}

int device_sets_make(Placement *p) {
        _cleanup_free_ bool *taken = calloc(MAX(p->snapshot->n_devices, (size_t) 1), sizeof(bool));
        _cleanup_free_ bool *fixed = calloc(MAX(p->n_ranks, 1U), sizeof(bool));
        int r;

        if (!taken || !fixed)
                return -ENOMEM;
        for (unsigned i = 0, index = 0; i < p->n_ranks; i++) {
                index = i > 0 && p->ranks[i - 1].rank->section == p->ranks[i].rank->section ? index + 1 : 0;
                r = fixed_device(p, i, index, taken, fixed + i);
                if (r < 0)
                        return r;
        }
        r = check_kinds(p, taken, fixed);
        for (unsigned i = 0; i < p->n_ranks && r >= 0; i++) {
                const char *kind;
                unsigned n;

                if (!fixed[i] && wants_kind(p->snapshot, p->ranks[i].rank->section, &kind, &n))
                        r = kind_sets(p, i, kind, n, taken);
        }
        return r < 0 ? r : 0;
}
