/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pool, split: cores in the order of their place (node, L3, cluster, core), compute from the front, helpers from the
 * end. The table is in roles.h; the same threads, pool and machine always give the same sets.
 */
#include <errno.h>

#include "common/json.h"
#include "common/text.h"
#include "policy/roles.h"

#define LONE_IRQ_CORES 4U

_Static_assert(ROLES_MAX <= 64, "RoleSplit.seen has a bit for each");

typedef struct Core {      /* what of it is in the pool */
        unsigned place[4]; /* node, l3, cluster, core */
        unsigned first;    /* lowest CPU: the order of cores of which nothing is known */
        Bitset cpus;
} Core;

typedef struct Split { /* while one is made */
        const Roles *roles;
        const Topology *topology;
        Bitset pool; /* what is dealt out */
        Core *cores;
        unsigned n_cores;
        unsigned *order; /* roles by falling priority */
        RoleSplit *out;
} Split;

static void split_done(Split *s) {
        for (unsigned i = 0; i < s->n_cores; i++)
                bitset_done(&s->cores[i].cpus);
        free(s->cores);
        free(s->order);
        bitset_done(&s->pool);
}

void role_split_done(RoleSplit *s) {
        for (size_t i = 0; s->grants && i < s->n_grants; i++)
                bitset_done(&s->grants[i].cpus);
        for (size_t i = 0; s->single && i < s->n_threads; i++)
                bitset_done(&s->single[i]);
        free(s->grants);
        free(s->role);
        free(s->single);
        free(s->main_comm);
        bitset_done(&s->irq_cpus);
        strv_free(s->messages);
        *s = (RoleSplit){};
}

static int core_cmp(const void *a, const void *b) {
        const Core *x = a, *y = b;

        for (size_t i = 0; i < ELEMENTSOF(x->place); i++)
                if (x->place[i] != y->place[i])
                        return CMP(x->place[i], y->place[i]);
        return CMP(x->first, y->first);
}

static bool same_core(const Core *a, const Core *b) {
        return a->place[3] != TOPOLOGY_NONE && a->place[3] == b->place[3];
}

/* A CPU of which the machine does not tell is a core of its own, after all others. */
static Core core_of(const Split *s, unsigned os) {
        const TopologyCpu *c = s->topology ? topology_cpu(s->topology, os) : NULL;
        unsigned none = TOPOLOGY_NONE;

        return (Core){ .place = { c ? c->node : none, c ? c->l3 : none, c ? c->cluster : none, c ? c->core : none },
                       .first = os };
}

static int find_cores(Split *s) {
        unsigned n = 0;

        s->cores = calloc(bitset_weight(&s->pool), sizeof(*s->cores));
        if (!s->cores)
                return -ENOMEM;
        BITSET_FOREACH (os, &s->pool) {
                Core c = core_of(s, (unsigned) os);
                int r = bitset_set(&c.cpus, (unsigned) os);

                s->cores[n++] = c;
                s->n_cores = n;
                if (r < 0)
                        return r;
        }
        qsort(s->cores, n, sizeof(*s->cores), core_cmp);
        s->n_cores = 0;
        for (unsigned i = 0; i < n; i++) {
                Core *last = s->n_cores > 0 ? &s->cores[s->n_cores - 1] : NULL;

                if (!last || !same_core(last, &s->cores[i])) {
                        s->cores[s->n_cores++] = s->cores[i];
                        continue;
                }
                /* Its only CPU goes to its core: the set there has the room or gets it. */
                int r = bitset_or(&last->cpus, &s->cores[i].cpus);

                bitset_done(&s->cores[i].cpus);
                if (r < 0) {
                        for (unsigned k = i + 1; k < n; k++)
                                bitset_done(&s->cores[k].cpus);
                        return r;
                }
        }
        return 0;
}

static int order_roles(Split *s) {
        size_t n = s->roles->n_roles;

        s->order = calloc(MAX(n, (size_t) 1), sizeof(*s->order));
        if (!s->order)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                size_t k = i;

                for (; k > 0 && s->roles->roles[s->order[k - 1]].priority < s->roles->roles[i].priority; k--)
                        s->order[k] = s->order[k - 1];
                s->order[k] = (unsigned) i;
        }
        return 0;
}

static int say_left_out(Split *s, const Bitset *isolated) {
        _cleanup_free_ char *text = NULL;
        int r = bitset_format(isolated, &text);

        return r < 0 ? r
                     : strv_extendf(
                               &s->out->messages,
                               "CPUs %s of the pool are isolated and left out: the kernel balances no threads there",
                               text);
}

/* Isolated CPUs leave a pool that has others. */
static int sort_out_isolated(Split *s) {
        _cleanup_(bitset_done) Bitset isolated = BITSET_EMPTY;
        int r;

        if (!s->topology || !bitset_intersects(&s->pool, &s->topology->isolated))
                return 0;
        s->out->isolated = bitset_subset(&s->pool, &s->topology->isolated);
        if (s->out->isolated)
                return 0;
        r = bitset_copy(&isolated, &s->pool);
        if (r < 0)
                return r;
        bitset_and(&isolated, &s->topology->isolated);
        bitset_andnot(&s->pool, &isolated);
        return say_left_out(s, &isolated);
}

static int assign_roles(Split *s, const RoleThread *threads, size_t n, bool interrupts, uint64_t seen) {
        RoleSplit *o = s->out;

        o->grants = calloc(MAX(s->roles->n_roles, (size_t) 1), sizeof(*o->grants));
        o->role = calloc(MAX(n, (size_t) 1), sizeof(*o->role));
        if (!o->grants || !o->role)
                return -ENOMEM;
        o->n_grants = s->roles->n_roles;
        for (size_t i = 0; i < n && !o->main_comm; i++)
                if (threads[i].is_main && threads[i].comm && !(o->main_comm = strdup(threads[i].comm)))
                        return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                o->role[i] = role_of(s->roles, &threads[i], o->main_comm);
                o->grants[o->role[i]].n_threads++;
        }
        o->n_threads = n;
        for (size_t i = 0; i < o->n_grants; i++) {
                uint64_t bit = UINT64_C(1) << i;

                o->seen |= o->grants[i].n_threads > 0 ? bit : seen & bit;
                o->grants[i].own = s->roles->roles[i].share == ROLE_OWN &&
                                   (s->roles->roles[i].interrupts ? interrupts : (o->seen & bit) != 0);
        }
        return 0;
}

/* A rank of few cores without helpers keeps all of them for itself: its interrupts stay where they are. */
static void drop_lone_interrupts(Split *s) {
        for (size_t i = 0; i < s->out->n_grants; i++)
                if (s->out->grants[i].own && (!s->roles->roles[i].interrupts || s->n_cores >= LONE_IRQ_CORES))
                        return;
        for (size_t i = 0; i < s->out->n_grants; i++)
                s->out->grants[i].own = false;
}

static int grant_cores(Split *s, RoleGrant *g, unsigned first, unsigned n) {
        int r = 0;

        for (unsigned i = first; i < first + n && r >= 0; i++)
                r = bitset_or(&g->cpus, &s->cores[i].cpus);
        return r;
}

static unsigned cores_wanted(const Split *s, const Role *role) {
        unsigned least = UINT_MAX;

        for (unsigned i = 0; i < s->n_cores; i++)
                least = MIN(least, bitset_weight(&s->cores[i].cpus));
        return (MAX(role->cpus, 1U) + least - 1) / least;
}

/* Of the helpers: how many roles they are, how many cores they want. */
static unsigned count_helpers(const Split *s, uint64_t *ret_need) {
        unsigned n = 0;

        *ret_need = 0;
        for (size_t i = 0; i < s->out->n_grants; i++)
                if (s->out->grants[i].own) {
                        *ret_need += cores_wanted(s, s->roles->roles + i);
                        n++;
                }
        return n;
}

/* Helpers from the end of the pool, by falling priority. *ret_rest: cores that are left at its front. */
static int grant_helpers(Split *s, unsigned *ret_rest) {
        unsigned left = s->n_cores / 2, end = s->n_cores, n = 0;
        bool crowd = false; /* all from here on share one core */
        uint64_t need;
        unsigned helpers = count_helpers(s, &need);
        bool scarce = need > left;
        int r = 0;

        for (size_t i = 0; i < s->out->n_grants && s->n_cores > 1 && r >= 0; i++) {
                RoleGrant *g = s->out->grants + s->order[i];

                if (!g->own)
                        continue;
                if (!crowd) {
                        crowd = scarce && left == 1 && helpers > 1;
                        n = MIN(cores_wanted(s, s->roles->roles + s->order[i]), left);
                        if (scarce && left > 1 && helpers > 1)
                                n = MIN(n, left - 1);
                        end -= n;
                        left -= n;
                }
                g->shared = crowd;
                helpers--;
                r = grant_cores(s, g, end, n);
        }
        *ret_rest = end;
        return r;
}

static int grant_others(Split *s, unsigned rest) {
        int r = 0;

        for (size_t i = 0; i < s->out->n_grants && r >= 0; i++) {
                RoleGrant *g = s->out->grants + i;

                if (s->roles->roles[i].share == ROLE_POOL)
                        r = bitset_copy(&g->cpus, &s->pool);
                else if (bitset_isempty(&g->cpus)) {
                        g->shared |= g->own;
                        r = grant_cores(s, g, 0, rest);
                }
        }
        return r;
}

/* "runtime, release and interrupts share CPUs 7" */
static int say_shared(Split *s) {
        _cleanup_free_ char *cpus = NULL, *names = NULL;
        unsigned n = 0;
        int r;

        for (size_t i = 0; i < s->out->n_grants; i++) {
                const RoleGrant *g = s->out->grants + s->order[i];
                char *more;

                if (!g->own || !g->shared)
                        continue;
                if (asprintf(&more, "%s%s%s", strempty(names), names ? ", " : "", s->roles->roles[s->order[i]].name) <
                    0)
                        return -ENOMEM;
                free(names);
                names = more;
                if (n++ == 0 && (r = bitset_format(&g->cpus, &cpus)) < 0)
                        return r;
        }
        if (n == 0)
                return 0;
        return s->n_cores == 1
                       ? strv_extendf(&s->out->messages, "all threads share CPU %s: the pool has one core", cpus)
                       : strv_extendf(&s->out->messages,
                                      "threads of %s share CPU %s: the pool has %u cores, half of them for helpers",
                                      names, cpus, s->n_cores);
}

static int take_irq_cpus(Split *s) {
        int r = 0;

        for (size_t i = 0; i < s->out->n_grants && r >= 0; i++)
                if (s->roles->roles[i].interrupts && s->out->grants[i].own)
                        r = bitset_or(&s->out->irq_cpus, &s->out->grants[i].cpus);
        return r;
}

static int split_balanced(Split *s) {
        unsigned rest;
        int r;

        drop_lone_interrupts(s);
        r = grant_helpers(s, &rest);

        if (r >= 0)
                r = grant_others(s, rest);
        if (r >= 0)
                r = take_irq_cpus(s);
        return r < 0 ? r : say_shared(s);
}

typedef struct Turn {                       /* who takes a core first */
        unsigned child, not_main, priority; /* falling */
        pid_t tid;
        size_t i;
} Turn;

static int turn_cmp(const void *a, const void *b) {
        const Turn *x = a, *y = b;

        if (x->child != y->child)
                return CMP(x->child, y->child);
        if (x->not_main != y->not_main)
                return CMP(x->not_main, y->not_main);
        if (x->priority != y->priority)
                return CMP(y->priority, x->priority);
        if (x->tid != y->tid)
                return CMP(x->tid, y->tid);
        return CMP(x->i, y->i);
}

/* The k-th member, counted round. */
static unsigned nth_cpu(const Bitset *b, unsigned k) {
        int cpu = bitset_first(b);

        for (k %= bitset_weight(b); k > 0; k--)
                cpu = bitset_next(b, cpu);
        return (unsigned) cpu;
}

static int deal_cores(Split *s, const RoleThread *threads, size_t n) {
        _cleanup_free_ Turn *turns = calloc(MAX(n, (size_t) 1), sizeof(*turns));
        int r = 0;

        s->out->single = calloc(MAX(n, (size_t) 1), sizeof(Bitset));
        if (!turns || !s->out->single)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                turns[i] = (Turn){ threads[i].is_child, !threads[i].is_main, s->roles->roles[s->out->role[i]].priority,
                                   threads[i].tid, i };
        qsort(turns, n, sizeof(*turns), turn_cmp);
        for (size_t k = 0; k < n && r >= 0; k++)
                r = bitset_set(&s->out->single[turns[k].i],
                               nth_cpu(&s->cores[k % s->n_cores].cpus, (unsigned) (k / s->n_cores)));
        return r;
}

static int split_isolated(Split *s, const RoleThread *threads, size_t n, bool interrupts) {
        int r = deal_cores(s, threads, n);

        for (size_t i = 0; i < s->out->n_grants && r >= 0; i++) {
                s->out->grants[i].own = false;
                r = bitset_copy(&s->out->grants[i].cpus, &s->pool);
        }
        if (r >= 0 && interrupts && n < s->n_cores)
                r = bitset_copy(&s->out->irq_cpus, &s->cores[s->n_cores - 1].cpus);
        if (r < 0 || n <= s->n_cores)
                return r;
        s->out->refused = true;
        return strv_extendf(&s->out->messages,
                            "%zu threads for %u isolated cores: the kernel would not balance them, one core each is "
                            "not possible; give the rank CPUs that are not isolated, or more of them",
                            n, s->n_cores);
}

int roles_split(const Roles *r, const Topology *topology, const Bitset *pool, const RoleThread *threads,
                size_t n_threads, bool interrupts, uint64_t seen, RoleSplit *ret) {
        RoleSplit out = {};
        Split s = { .roles = r, .topology = topology, .out = &out };
        int k;

        if (bitset_isempty(pool) || r->n_roles == 0)
                return -EINVAL;
        k = bitset_copy(&s.pool, pool);
        if (k >= 0)
                k = sort_out_isolated(&s);
        if (k >= 0)
                k = find_cores(&s);
        if (k >= 0)
                k = order_roles(&s);
        if (k >= 0)
                k = assign_roles(&s, threads, n_threads, interrupts, seen);
        out.n_cores = s.n_cores;
        if (k >= 0)
                k = out.isolated ? split_isolated(&s, threads, n_threads, interrupts) : split_balanced(&s);
        split_done(&s);
        if (k < 0) {
                role_split_done(&out);
                return k;
        }
        *ret = out;
        return 0;
}

const Bitset *role_split_cpus(const RoleSplit *s, size_t i) {
        return s->single ? &s->single[i] : &s->grants[s->role[i]].cpus;
}

const Bitset *role_split_late(const RoleSplit *s, const Roles *r, const RoleThread *t) {
        return s->single ? NULL : &s->grants[role_of(r, t, s->main_comm)].cpus;
}

static int role_json(const RoleGrant *g, const Role *role, json_t *array) {
        json_t *o = json_pack("{s:s, s:o, s:I, s:b, s:b}", "role", role->name, "cpus", json_bitset(&g->cpus), "threads",
                              (json_int_t) g->n_threads, "own", (int) g->own, "shared", (int) g->shared);

        return json_array_append_new(array, o) < 0 ? -ENOMEM : 0;
}

int role_split_to_json(const RoleSplit *s, const Roles *r, json_t **ret) {
        json_t *array = json_array();
        int k = array ? 0 : -ENOMEM;

        for (size_t i = 0; i < s->n_grants && k >= 0; i++)
                if (s->grants[i].n_threads > 0 || s->grants[i].own)
                        k = role_json(s->grants + i, r->roles + i, array);
        if (k < 0) {
                json_decref(array);
                return k;
        }
        *ret = array;
        return 0;
}
