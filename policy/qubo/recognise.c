/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding cliques of equal couplings. For a variable v and a positive value w, S is v with all that w couples it to. A
 * group of that value is S itself, or one of the two lines that S consists of where w is also the value of another kind
 * of clique (rows and columns of a square): the line through v and u is what S(v) and S(u) have in common. Each variable
 * claims its lines by a hash of their members, and a line that all its members claim is a candidate. Where other couplings
 * happen to have that value too, lines are claimed all the same (up to LINES_MAX), but then only a proof counts. Nothing
 * is searched: a random model hardly has three variables that claim the same. Pairs are claimed where their penalty is
 * plainly large enough, or their largest coupling.
 *
 * Candidates may overlap. Three orders of taking them are tried, and the proof tells which is right (recognise-prove.c).
 */
#include <errno.h>

#include "policy/qubo/recognise-internal.h"
#include "policy/qubo/rng.h"

#define LINES_MAX 6U             /* of one value through one variable */
#define LARGE ((size_t) 1 << 15) /* positive couplings, both directions */
#define ROUNDS_MAX 8U            /* of dropping lines: then there is too much that is none */

typedef struct Claim {
        uint64_t hash;
        int32_t w;
        uint32_t size, v;
        bool clean;
} Claim;

typedef struct Finder {
        const Qubo *q;
        size_t *first; /* n + 1: positive couplings of each variable, by value and then by column */
        Entry *entries;
        uint32_t *seen;       /* 1 + the variable in whose claims it last was */
        uint64_t *mark;       /* a random number for each variable */
        int32_t *largest;     /* of each variable's couplings, by size */
        int64_t *clear, *set; /* what clearing and setting costs at most, nothing being known */
        Claim *claims;
        size_t n_claims, allocated;
} Finder;

static void finder_done(Finder *f) {
        free(f->first);
        free(f->entries);
        free(f->seen);
        free(f->mark);
        free(f->largest);
        free(f->clear);
        free(f->set);
        free(f->claims);
}

static int entry_cmp(const void *a, const void *b) {
        const Entry *x = a, *y = b;

        return x->w != y->w ? CMP(x->w, y->w) : CMP(x->u, y->u);
}

/* What is known of each variable by itself. Returns how many couplings are positive. */
static size_t look_around(Finder *f) {
        const Qubo *q = f->q;
        size_t n = 0;

        for (uint32_t v = 0; v < q->n; v++) {
                uint64_t seed = v;
                int64_t above = 0, below = 0;
                int32_t most = 0, least = 0;

                for (size_t k = q->row[v]; k < q->row[v + 1]; k++) {
                        int32_t w = q->val[k];

                        above += MAX(w, 0);
                        below += MIN(w, 0);
                        most = MAX(most, w);
                        least = MIN(least, w);
                        n += w > 0;
                }
                f->mark[v] = rng_splitmix(&seed);
                f->largest[v] = MAX(most, -least);
                f->clear[v] = -q->linear[v] - below;
                f->set[v] = q->linear[v] + above;
        }
        return n;
}

/* In a large model only what may be a group by itself: as of any line, for one of any two of its members, in is_strong(). */
static bool is_kept(const Finder *f, uint32_t v, uint32_t u, int32_t w) {
        return w >= f->largest[v] || w >= f->largest[u] || w >= f->clear[v] || w >= f->clear[u];
}

static int list_entries(Finder *f, size_t most) {
        const Qubo *q = f->q;
        size_t n = 0;

        f->entries = malloc((most + 1) * sizeof(*f->entries));
        if (!f->entries)
                return -ENOMEM;
        for (uint32_t v = 0; v < q->n; v++) {
                for (size_t k = q->row[v]; k < q->row[v + 1]; k++)
                        if (q->val[k] > 0 && (most < LARGE || is_kept(f, v, q->col[k], q->val[k])))
                                f->entries[n++] = (Entry){ .w = q->val[k], .u = q->col[k] };
                f->first[v + 1] = n;
                if (n > f->first[v])
                        qsort(f->entries + f->first[v], n - f->first[v], sizeof(*f->entries), entry_cmp);
        }
        return 0;
}

static int finder_init(Finder *f) {
        size_t n = (size_t) f->q->n + 1;

        f->first = calloc(n, sizeof(*f->first));
        f->seen = calloc(n, sizeof(*f->seen));
        f->mark = calloc(n, sizeof(*f->mark));
        f->largest = calloc(n, sizeof(*f->largest));
        f->clear = calloc(n, sizeof(*f->clear));
        f->set = calloc(n, sizeof(*f->set));
        if (!f->first || !f->seen || !f->mark || !f->largest || !f->clear || !f->set)
                return -ENOMEM;
        return list_entries(f, look_around(f));
}

/* The first of v's entries, from one on, that is not before the key; near ones are found soon. */
static size_t lower_entry(const Finder *f, uint32_t v, size_t low, Entry key) {
        size_t end = f->first[v + 1], step = 1, high = low;

        while (high < end && entry_cmp(&f->entries[high], &key) < 0) {
                low = high + 1;
                high += step;
                step *= 2;
        }
        high = MIN(high, end);
        while (low < high) {
                size_t mid = low + (high - low) / 2;

                if (entry_cmp(&f->entries[mid], &key) < 0)
                        low = mid + 1;
                else
                        high = mid;
        }
        return low;
}

static int claim(Finder *f, Claim c) {
        if (f->n_claims == f->allocated) {
                size_t want = MAX(f->allocated * 2, (size_t) 1024);
                Claim *p = reallocarray(f->claims, want, sizeof(*p));

                if (!p)
                        return -ENOMEM;
                f->claims = p;
                f->allocated = want;
        }
        f->claims[f->n_claims++] = c;
        return 0;
}

/* Pairs are everywhere: one counts if its penalty is large enough whatever the rest does, or is v's largest coupling. */
static bool is_candidate_pair(const Finder *f, uint32_t u, uint32_t v, int32_t w) {
        if (w >= f->largest[v] && w >= f->largest[u])
                return true;
        return MIN(f->clear[u], f->clear[v]) <= w && MIN(f->set[u], f->set[v]) - w <= 0;
}

/* The line through v and u, of v's entries from..end: those that w couples u to as well. They are seen then. */
static Claim line(Finder *f, uint32_t v, uint32_t u, size_t from, size_t end) {
        int32_t w = f->entries[from].w;
        Claim c = { .hash = f->mark[v], .w = w, .size = 1, .v = v };
        size_t at = f->first[u];

        for (size_t k = from; k < end; k++) {
                uint32_t x = f->entries[k].u;
                Entry key = { .w = w, .u = x };

                at = lower_entry(f, u, at, key);
                if (x != u && (at == f->first[u + 1] || entry_cmp(&f->entries[at], &key) != 0))
                        continue;
                c.hash += f->mark[x];
                c.size++;
                f->seen[x] = v + 1;
        }
        return c;
}

/* What v claims of one value. It is clean if that is all it couples to, once, in two lines at most. */
static int claim_value(Finder *f, uint32_t v, size_t from, size_t end) {
        Claim lines[LINES_MAX];
        uint32_t n = 0, members = 0;
        uint64_t all = 0, sum = 0;
        bool clean;
        int r = 0;

        if (end - from == 1 && !is_candidate_pair(f, v, f->entries[from].u, f->entries[from].w))
                return 0;
        for (size_t k = from; k < end; k++)
                f->seen[f->entries[k].u] = 0;
        for (size_t k = from; k < end; k++) {
                uint32_t u = f->entries[k].u;

                all += f->mark[u];
                if (f->seen[u] == v + 1 || n == LINES_MAX)
                        continue;
                lines[n] = line(f, v, u, from, end);
                sum += lines[n].hash - f->mark[v];
                members += lines[n++].size - 1;
        }
        clean = n <= 2 && members == end - from && sum == all;
        for (uint32_t i = 0; i < n && r >= 0; i++) {
                lines[i].clean = clean;
                if (lines[i].size > 2 || end - from == 1)
                        r = claim(f, lines[i]);
        }
        return r;
}

static int claim_all(Finder *f) {
        int r = 0;

        for (uint32_t v = 0; v < f->q->n; v++)
                for (size_t k = f->first[v], end = k; k < f->first[v + 1] && r >= 0; k = end) {
                        while (end < f->first[v + 1] && f->entries[end].w == f->entries[k].w)
                                end++;
                        r = claim_value(f, v, k, end);
                }
        return r;
}

static int claim_cmp(const void *a, const void *b) {
        const Claim *x = a, *y = b;

        if (x->w != y->w)
                return CMP(y->w, x->w);
        if (x->size != y->size)
                return CMP(y->size, x->size);
        return x->hash != y->hash ? CMP(x->hash, y->hash) : CMP(x->v, y->v);
}

/* That two members are set does not pay, whatever the rest does, or w is the largest coupling that any of them has. */
static bool is_strong(const Finder *f, int32_t w, const uint32_t *members, uint32_t n) {
        uint32_t weak = 0, smaller = 0;

        for (uint32_t k = 0; k < n; k++) {
                weak += f->clear[members[k]] > w;
                smaller += f->largest[members[k]] > w;
        }
        return weak <= 1 || smaller == 0;
}

/* The members of each line that all of them claim, largest value first. */
static int list_lines(Finder *f, Lines *ret) {
        if (f->n_claims > 0)
                qsort(f->claims, f->n_claims, sizeof(*f->claims), claim_cmp);
        ret->lines = calloc(f->n_claims + 1, sizeof(*ret->lines));
        ret->members = calloc(f->n_claims + 1, sizeof(*ret->members));
        if (!ret->lines || !ret->members)
                return -ENOMEM;
        for (size_t k = 0, end = 0, n = 0; k < f->n_claims; k = end) {
                uint64_t sum = 0;
                bool clean = true;

                for (; end < f->n_claims && f->claims[end].w == f->claims[k].w &&
                       f->claims[end].size == f->claims[k].size && f->claims[end].hash == f->claims[k].hash;
                     end++) {
                        ret->members[n + (end - k)] = f->claims[end].v;
                        sum += f->mark[f->claims[end].v];
                        clean &= f->claims[end].clean;
                }
                if (end - k != f->claims[k].size || sum != f->claims[k].hash ||
                    (!clean && !is_strong(f, f->claims[k].w, ret->members + n, f->claims[k].size)))
                        continue;
                ret->lines[ret->n++] = (Line){
                        .w = f->claims[k].w, .size = f->claims[k].size, .first = n, .clean = clean
                };
                n += end - k;
        }
        return 0;
}

int recognise_lines(const Qubo *q, Lines *ret) {
        _cleanup_(finder_done) Finder f = { .q = q };
        int r = finder_init(&f);

        if (r >= 0)
                r = claim_all(&f);
        return r < 0 ? r : list_lines(&f, ret);
}

void lines_done(Lines *l) {
        free(l->lines);
        free(l->members);
}

typedef enum Order {
        ORDER_COUPLING,
        ORDER_SIZE,
        ORDER_COUPLING_UP,
        _ORDER_MAX,
} Order;

static int line_cmp(const void *a, const void *b, void *userdata) {
        const Lines *l = userdata;
        uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;

        return l->lines[x].size != l->lines[y].size ? CMP(l->lines[y].size, l->lines[x].size) : CMP(x, y);
}

/* Takes lines in order as long as they do not overlap. Returns how many; *ret_left tells that some were not. */
static uint32_t choose(const Qubo *q, const Lines *l, Order order, const bool *banned, uint32_t *chosen, bool *taken,
                       bool *ret_left) {
        uint32_t n = 0, m = (uint32_t) l->n;

        for (uint32_t i = 0; i < m; i++)
                chosen[i] = order == ORDER_COUPLING_UP ? m - 1 - i : i;
        if (order == ORDER_SIZE)
                qsort_r(chosen, m, sizeof(*chosen), line_cmp, (void *) l);
        memset(taken, 0, q->n);
        *ret_left = false;
        for (uint32_t i = 0; i < m; i++) {
                const Line *line = &l->lines[chosen[i]];
                const uint32_t *members = l->members + line->first;
                bool free_of = !banned[chosen[i]];

                for (uint32_t k = 0; k < line->size && free_of; k++)
                        free_of = !taken[members[k]];
                *ret_left |= !free_of && !banned[chosen[i]];
                for (uint32_t k = 0; k < line->size && free_of; k++)
                        taken[members[k]] = true;
                if (free_of)
                        chosen[n++] = chosen[i];
        }
        return n;
}

typedef struct Search {
        const Qubo *q;
        const Lines *lines;
        bool *banned, *taken;
        uint32_t *chosen;
        Trial best;
} Search;

static void search_done(Search *s) {
        free(s->banned);
        free(s->taken);
        free(s->chosen);
        trial_done(&s->best);
}

/* Lines that are neither proved nor evident are banned: true if there were any. */
static bool ban(Search *s, const Trial *t, uint32_t n) {
        bool some = false;

        for (uint32_t g = 0; g < n; g++) {
                /* groups of q are in another order than chosen: by their first variable */
                const Line *line = &s->lines->lines[s->chosen[g]];
                uint32_t of = t->q->group_of[t->new_of[s->lines->members[line->first]]];

                if (t->one[of] || (line->clean && trial_is_evident(t, of)))
                        continue;
                s->banned[s->chosen[g]] = true;
                some = true;
        }
        return some;
}

/* A few pairs that are proved, as sparse random models have, make no model of groups. */
static bool is_worth_it(const Trial *t) {
        bool wide = false;

        for (uint32_t g = 0; g < t->q->n_groups; g++)
                wide |= t->q->group_size[g] > 2;
        return t->covered * 2 >= t->q->n || (t->exact && wide && t->covered * 8 >= t->q->n);
}

static bool is_better(const Trial *a, const Trial *b) {
        if (!b->q || a->exact != b->exact)
                return !b->q || a->exact;
        return a->covered > b->covered;
}

/* One order: what can be neither proved nor believed is dropped, and the rest is tried again without it. */
static int try_order(Search *s, Order order, bool *ret_left) {
        memset(s->banned, 0, s->lines->n);
        for (unsigned round = 0; round < ROUNDS_MAX; round++) {
                uint32_t n = choose(s->q, s->lines, order, s->banned, s->chosen, s->taken, ret_left);
                _cleanup_(trial_done) Trial t = {};
                int r;

                if (n == 0)
                        return 0;
                r = trial_build(s->q, s->lines, s->chosen, n, &t);
                if (r >= 0)
                        r = trial_find_columns(&t);
                if (r >= 0)
                        r = trial_prove(&t);
                if (r < 0)
                        return r == -EINVAL ? 0 : r; /* hashes that were equal by malice */
                if (ban(s, &t, n))
                        continue;
                if (is_worth_it(&t) && is_better(&t, &s->best)) {
                        trial_done(&s->best);
                        s->best = t;
                        t = (Trial){};
                }
                return 0;
        }
        return 0;
}

static int search(Search *s, Recognised **ret) {
        Recognised *found;
        bool left = true;
        int r = 0;

        s->banned = calloc(s->lines->n + 1, sizeof(*s->banned));
        s->taken = calloc((size_t) s->q->n + 1, sizeof(*s->taken));
        s->chosen = calloc(s->lines->n + 1, sizeof(*s->chosen));
        if (!s->banned || !s->taken || !s->chosen)
                return -ENOMEM;
        for (Order o = 0; o < _ORDER_MAX && left && r >= 0 && !(s->best.exact && s->best.covered == s->q->n); o++)
                r = try_order(s, o, &left);
        if (r >= 0 && s->best.q)
                r = trial_finish(&s->best);
        if (r < 0 || !s->best.q)
                return r;
        found = calloc(1, sizeof(*found));
        if (!found)
                return -ENOMEM;
        *found = (Recognised){ .q = TAKE_PTR(s->best.q), .old_of = TAKE_PTR(s->best.old_of), .exact = s->best.exact };
        *ret = found;
        return 0;
}

int qubo_recognise(const Qubo *q, Recognised **ret) {
        _cleanup_(lines_done) Lines lines = {};
        _cleanup_(search_done) Search s = { .q = q, .lines = &lines };
        int r;

        *ret = NULL;
        if (q->n_groups > 0)
                return 0;
        r = recognise_lines(q, &lines);
        if (r >= 0 && lines.n > 0 && lines.n < UINT32_MAX)
                r = search(&s, ret);
        return r;
}

Recognised *recognised_free(Recognised *r) {
        if (!r)
                return NULL;
        qubo_free(r->q);
        free(r->old_of);
        free(r);
        return NULL;
}

void recognised_to_plain(const Recognised *r, const uint8_t *x, uint8_t *plain) {
        for (uint32_t v = 0; v < r->q->n; v++)
                plain[r->old_of[v]] = x[v];
}

void recognised_from_plain(const Recognised *r, const uint8_t *plain, uint8_t *x) {
        for (uint32_t v = 0; v < r->q->n; v++)
                x[v] = plain[r->old_of[v]];
}
