/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The prices of a placement as a model. What couples two ranks hardly ever depends on who they are: devices by what they
 * are and the traffic between the two, CPU sets by the kind of set (where it lies, how large it is) and the demand of
 * the two. So groups get a signature (the list of what they choose from) and a class (what of a rank enters a pair
 * price), and a pair of groups is a look-up: the same pair of signatures, classes and traffic is the same table of the
 * model, priced once, however many ranks there are. Which concrete CPUs two sets have in common is what no kind tells:
 * those prices, of sets that meet, are single couplings in the model's rows.
 *
 * Prices are doubles in units of cost; the model's integers are those times p->scale, chosen as fine as int32 allows.
 * Memory: tables of PRICES_MAX cells at most, of 16 bytes while the model is built; couplings of meeting sets are kept
 * few (placement-kinds.c).
 */
#include <errno.h>

#include "policy/problems/placement-internal.h"

#define PRICES_MAX ((size_t) 8 << 20)

/* Small tables of what was met before: the number of an equal entry, which is added where there is none. */
typedef struct Interned {
        void *list;
        size_t width;
        uint32_t n, allocated;
        uint32_t *bucket, n_buckets; /* 1 + entry; open addressing */
} Interned;

static void interned_done(Interned *t) {
        free(t->list);
        free(t->bucket);
}

static uint64_t hash_bytes(const void *data, size_t n) {
        const uint8_t *b = data;
        uint64_t h = UINT64_C(0xcbf29ce484222325);

        for (size_t i = 0; i < n; i++)
                h = (h ^ b[i]) * UINT64_C(0x100000001b3);
        return h ^ (h >> 29);
}

static uint32_t *find_bucket(const Interned *t, const void *entry) {
        uint32_t at = (uint32_t) hash_bytes(entry, t->width) & (t->n_buckets - 1);

        while (t->bucket[at] != 0 && memcmp((char *) t->list + (t->bucket[at] - 1) * t->width, entry, t->width) != 0)
                at = (at + 1) & (t->n_buckets - 1);
        return t->bucket + at;
}

static int interned_grow(Interned *t) {
        uint32_t want = MAX(2 * t->allocated, 64U);
        void *list = reallocarray(t->list, want, t->width);
        uint32_t *bucket = calloc((size_t) 2 * want, sizeof(*bucket));

        if (list)
                t->list = list;
        if (!list || !bucket) {
                free(bucket);
                return -ENOMEM;
        }
        free(t->bucket);
        t->bucket = bucket;
        t->n_buckets = 2 * want;
        t->allocated = want;
        for (uint32_t i = 0; i < t->n; i++)
                *find_bucket(t, (char *) t->list + i * t->width) = i + 1;
        return 0;
}

/* Entries are compared byte by byte: their padding must be zero. 1: it is new. */
static int intern(Interned *t, const void *entry, uint32_t *ret) {
        uint32_t *bucket;
        int r;

        if (t->n == t->allocated) {
                r = interned_grow(t);
                if (r < 0)
                        return r;
        }
        bucket = find_bucket(t, entry);
        if (*bucket != 0) {
                *ret = *bucket - 1;
                return 0;
        }
        memcpy((char *) t->list + t->n * t->width, entry, t->width);
        *ret = t->n++;
        *bucket = t->n;
        return 1;
}

typedef struct Cons { /* a list is its last element and the number of what is before it */
        uint32_t before, last;
} Cons;

typedef struct Class { /* what of a rank enters a pair price of CPU sets */
        double demand, memory;
        uint64_t has_devices;
} Class;

typedef struct Type { /* groups that cost the same beside others */
        uint32_t kind, signature, class;
} Type;

typedef struct Like { /* pairs of groups with the same prices, but for traffic */
        uint32_t kind, types[2];
} Like;

typedef struct Priced { /* … and of the same traffic: one table */
        uint32_t like, reserved;
        double traffic;
} Priced;

typedef struct Price { /* base + traffic * slope */
        double base, slope;
} Price;

typedef struct Prices {
        Price *cells;
        uint32_t rows, cols, plain; /* plain: 1 + the table without traffic */
        bool has_slope;
} Prices;

typedef struct Group {
        CandidateKind kind;
        uint32_t first, n, type;
        unsigned rank;
} Group;

typedef struct Join {
        uint32_t g, h, table;
} Join;

typedef struct Coupling {
        uint32_t i, j;
        double price;
} Coupling;

typedef struct Builder {
        Placement *p;
        Group *groups;
        uint32_t n_groups;
        Interned lists, classes, types, likes, tables;
        Prices *prices; /* by like */
        bool *is_zero;  /* by table */
        size_t n_prices, prices_allocated, zeros_allocated;
        Join *joins;
        size_t n_joins, joins_allocated;
        Coupling *couplings; /* of sets that meet, and of groups without a choice */
        size_t n_couplings, couplings_allocated;
        double *unary, largest;
} Builder;

static void builder_done(Builder *b) {
        for (size_t i = 0; i < MIN((size_t) b->likes.n, b->prices_allocated);
             i++) /* the last one may have got no room */
                free(b->prices[i].cells);
        interned_done(&b->lists);
        interned_done(&b->classes);
        interned_done(&b->types);
        interned_done(&b->likes);
        interned_done(&b->tables);
        free(b->prices);
        free(b->is_zero);
        free(b->groups);
        free(b->joins);
        free(b->couplings);
        free(b->unary);
}

/* Room for one more than n, what is new zeroed. */
static int make_room(void *list, size_t n, size_t width, size_t *allocated) {
        size_t want = MAX(2 * *allocated, (size_t) 64);
        void *old, *grown;

        if (n < *allocated)
                return 0;
        memcpy(&old, list, sizeof(old));
        grown = reallocarray(old, want, width);
        if (!grown)
                return -ENOMEM;
        memset((char *) grown + *allocated * width, 0, (want - *allocated) * width);
        memcpy(list, &grown, sizeof(grown));
        *allocated = want;
        return 0;
}

static int add_coupling(Builder *b, uint32_t i, uint32_t j, double price) {
        int r;

        if (price == 0)
                return 0;
        r = make_room(&b->couplings, b->n_couplings, sizeof(*b->couplings), &b->couplings_allocated);
        if (r < 0)
                return r;
        b->couplings[b->n_couplings++] = (Coupling){ i, j, price };
        b->largest = MAX(b->largest, fabs(price));
        return 0;
}

/* What a candidate is to the terms: a kind of CPU set, or a list of devices. */
static int candidate_id(Builder *b, const Candidate *c, uint32_t *ret) {
        uint32_t list = UINT32_MAX - 1;

        if (c->kind == CANDIDATE_CPUS) {
                *ret = b->p->kind[c->block];
                return 0;
        }
        for (unsigned i = 0; i < c->n_devices; i++) {
                int r = intern(&b->lists, &(Cons){ .before = list, .last = c->devices[i] }, &list);

                if (r < 0)
                        return r;
        }
        *ret = list;
        return 0;
}

static int add_group(Builder *b, unsigned rank, CandidateKind kind, uint32_t first, uint32_t n) {
        const PlacementRank *k = b->p->ranks + rank;
        Class class = { .demand = k->demand, .memory = k->pair_memory, .has_devices = k->n_device_candidates > 0 };
        Group *g = b->groups + b->n_groups;
        Type type = { .kind = kind, .signature = UINT32_MAX };
        int r = 0;

        if (n == 0)
                return 0;
        for (uint32_t i = first; i < first + n && r >= 0; i++) {
                uint32_t id;

                r = candidate_id(b, b->p->candidates + i, &id);
                if (r >= 0)
                        r = intern(&b->lists, &(Cons){ .before = type.signature, .last = id }, &type.signature);
        }
        if (r >= 0 && kind == CANDIDATE_CPUS)
                r = intern(&b->classes, &class, &type.class);
        *g = (Group){ .kind = kind, .first = first, .n = n, .rank = rank };
        if (r >= 0)
                r = intern(&b->types, &type, &g->type);
        b->n_groups++;
        return MIN(r, 0);
}

static PairKind group_pair_kind(const Group *a, const Group *b) {
        if (a->rank == b->rank)
                return PAIR_OWN;
        if (a->kind != b->kind)
                return PAIR_NONE;
        return a->kind == CANDIDATE_CPUS ? PAIR_CPUS : PAIR_DEVICES;
}

/* Apart from traffic, and for each byte/s of it; what two sets have in common by chance is left out. */
static Price price_pair(const Placement *p, PairKind kind, const Candidate *a, const Candidate *b) {
        Price price = {};

        for (size_t t = 0; placement_terms[t].name; t++) {
                const PlacementTerm *term = placement_terms + t;
                double value;

                if (term->pair_kind != kind ||
                    (term->factor == FACTOR_MEETING && placement_meets_singly(p, a->block, b->block)))
                        continue;
                value = placement_term_weight(p, t) * term->pair(p, a, b);
                if (term->factor == FACTOR_TRAFFIC)
                        price.slope += value;
                else
                        price.base += value;
        }
        return price;
}

static int price_like(Builder *b, uint32_t like, PairKind kind, const Group *g, const Group *h) {
        bool mirrored = kind != PAIR_OWN && g->type == h->type;
        Prices *t;
        int r;

        b->n_prices += (size_t) g->n * h->n;
        if (b->n_prices > PRICES_MAX)
                return -EFBIG;
        r = make_room(&b->prices, like, sizeof(*b->prices), &b->prices_allocated);
        if (r < 0)
                return r;
        t = b->prices + like;
        *t = (Prices){ .rows = g->n, .cols = h->n, .cells = calloc((size_t) g->n * h->n, sizeof(Price)) };
        if (!t->cells)
                return -ENOMEM;
        for (uint32_t i = 0; i < g->n; i++)
                for (uint32_t j = 0; j < h->n; j++) {
                        Price *cell = t->cells + (size_t) i * h->n + j;

                        *cell = mirrored && j < i ? t->cells[(size_t) j * h->n + i]
                                                  : price_pair(b->p, kind, b->p->candidates + g->first + i,
                                                               b->p->candidates + h->first + j);
                        t->has_slope = t->has_slope || cell->slope != 0;
                }
        return 0;
}

static int price_table(Builder *b, uint32_t like, double traffic, uint32_t *ret) {
        const Prices *t = b->prices + like;
        double most = 0;
        int r;

        r = intern(&b->tables, &(Priced){ .like = like, .traffic = traffic }, ret);
        if (r <= 0)
                return r;
        r = make_room(&b->is_zero, *ret, sizeof(*b->is_zero), &b->zeros_allocated);
        if (r < 0)
                return r;
        for (size_t i = 0; i < (size_t) t->rows * t->cols; i++)
                most = MAX(most, fabs(t->cells[i].base + traffic * t->cells[i].slope));
        b->is_zero[*ret] = most == 0;
        b->largest = MAX(b->largest, most);
        return 0;
}

static int find_like(Builder *b, PairKind kind, const Group *g, const Group *h, uint32_t *ret) {
        int r = intern(&b->likes, &(Like){ .kind = kind, .types = { g->type, h->type } }, ret);

        return r <= 0 ? r : price_like(b, *ret, kind, g, h);
}

static int pair_groups(Builder *b, PairKind kind, uint32_t g, uint32_t h) {
        const Placement *p = b->p;
        const Group *x = b->groups + g, *y = b->groups + h;
        double traffic = 0;
        uint32_t like, table;
        Prices *t;
        int r;

        r = find_like(b, kind, x, y, &like);
        if (r < 0)
                return r;
        t = b->prices + like;
        if (p->traffic && kind != PAIR_OWN && t->has_slope)
                traffic = p->traffic[(size_t) x->rank * p->n_ranks + y->rank];
        if (t->rows == 1 && t->cols == 1)
                return add_coupling(b, x->first, y->first, t->cells->base + traffic * t->cells->slope);
        if (traffic == 0 && t->plain > 0)
                table = t->plain - 1;
        else {
                r = price_table(b, like, traffic, &table);
                if (r < 0)
                        return r;
                if (traffic == 0)
                        t->plain = table + 1;
        }
        if (b->is_zero[table])
                return 0;
        r = make_room(&b->joins, b->n_joins, sizeof(*b->joins), &b->joins_allocated);
        if (r < 0)
                return r;
        b->joins[b->n_joins++] = (Join){ g, h, table };
        return 0;
}

static int pair_all(Builder *b) {
        int r = 0;

        for (uint32_t h = 1; h < b->n_groups; h++)
                for (uint32_t g = 0; g < h && r >= 0; g++) {
                        PairKind kind = group_pair_kind(b->groups + g, b->groups + h);
                        bool swap = b->groups[g].type > b->groups[h].type;

                        if (kind != PAIR_NONE)
                                r = pair_groups(b, kind, swap ? h : g, swap ? g : h);
                }
        return r;
}

static double meeting_price(const Placement *p, const Candidate *a, const Candidate *b) {
        double sum = 0;

        for (size_t t = 0; placement_terms[t].name; t++)
                if (placement_terms[t].factor == FACTOR_MEETING)
                        sum += placement_term_weight(p, t) * placement_terms[t].pair(p, a, b);
        return sum;
}

static int meet(Builder *b, unsigned x, unsigned y) {
        const Placement *p = b->p;

        for (uint32_t k = p->of_block_first[x]; k < p->of_block_first[x + 1]; k++)
                for (uint32_t m = p->of_block_first[y]; m < (x == y ? k : p->of_block_first[y + 1]); m++) {
                        const Candidate *c = p->candidates + p->of_block[k], *d = p->candidates + p->of_block[m];
                        int r;

                        if (c->rank == d->rank)
                                continue;
                        r = add_coupling(b, p->of_block[k], p->of_block[m], meeting_price(p, c, d));
                        if (r < 0)
                                return r;
                }
        return 0;
}

static int collect_prices(Builder *b) {
        const Placement *p = b->p;
        int r = 0;

        b->groups = calloc(2 * (size_t) p->n_ranks + 1, sizeof(*b->groups));
        b->unary = calloc((size_t) p->n_variables + 1, sizeof(double));
        if (!b->groups || !b->unary)
                return -ENOMEM;
        for (uint32_t i = 0; i < p->n_variables; i++) {
                for (size_t t = 0; placement_terms[t].name; t++)
                        if (placement_terms[t].unary)
                                b->unary[i] += placement_term_weight(p, t) *
                                               placement_terms[t].unary(p, p->candidates + i);
                b->largest = MAX(b->largest, fabs(b->unary[i]));
        }
        for (unsigned i = 0; i < p->n_ranks && r >= 0; i++) {
                const PlacementRank *k = p->ranks + i;

                r = add_group(b, i, CANDIDATE_DEVICES, k->first_device, k->n_device_candidates);
                if (r >= 0)
                        r = add_group(b, i, CANDIDATE_CPUS, k->first_block, k->n_block_candidates);
        }
        if (r >= 0)
                r = pair_all(b);
        for (unsigned x = 0; x < p->n_blocks; x++)
                for (unsigned y = 0; y <= x && r >= 0; y++)
                        if (placement_meets_singly(p, x, y))
                                r = meet(b, x, y);
        return r;
}

/* A power of two, so that scaling loses nothing; 2^29 leaves room for sums in int32 coefficients. */
static double choose_scale(double largest) {
        double scale = 1 << 20;

        while (largest * scale > (double) (1 << 29))
                scale /= 2;
        return scale;
}

static int add_table(const Builder *b, uint32_t table, QuboBuilder *q, uint32_t *ret) {
        const Priced *priced = (const Priced *) b->tables.list + table;
        const Prices *t = b->prices + priced->like;
        size_t n = (size_t) t->rows * t->cols;
        int32_t *w = calloc(n, sizeof(*w));

        if (!w)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                w[i] = (int32_t) llround((t->cells[i].base + priced->traffic * t->cells[i].slope) * b->p->scale);
        return qubo_add_table(q, t->rows, t->cols, w, ret);
}

static int add_tables(const Builder *b, QuboBuilder *q) {
        _cleanup_free_ uint32_t *number = calloc((size_t) b->tables.n + 1, sizeof(*number));
        int r = 0;

        if (!number)
                return -ENOMEM;
        for (uint32_t t = 0; t < b->tables.n && r >= 0; t++)
                if (!b->is_zero[t])
                        r = add_table(b, t, q, number + t);
        for (size_t i = 0; i < b->n_joins && r >= 0; i++)
                r = qubo_join(q, b->joins[i].g, b->joins[i].h, number[b->joins[i].table]);
        return r;
}

int placement_build(Placement *p, Qubo **ret) {
        _cleanup_(qubo_builder_freep) QuboBuilder *q = NULL;
        _cleanup_(builder_done) Builder b = {
                .p = p,
                .lists.width = sizeof(Cons),
                .classes.width = sizeof(Class),
                .types.width = sizeof(Type),
                .likes.width = sizeof(Like),
                .tables.width = sizeof(Priced),
        };
        int r;

        r = collect_prices(&b);
        if (r < 0)
                return r;
        p->scale = choose_scale(b.largest);
        r = qubo_builder_new(p->n_variables, &q);
        for (uint32_t g = 0; g < b.n_groups && r >= 0; g++)
                r = qubo_add_group(q, b.groups[g].first, b.groups[g].n) ?: qubo_set_kind(q, g, b.groups[g].type);
        for (uint32_t i = 0; i < p->n_variables && r >= 0; i++)
                r = qubo_add_linear(q, i, llround(b.unary[i] * p->scale));
        for (size_t i = 0; i < b.n_couplings && r >= 0; i++)
                r = qubo_add_quadratic(q, b.couplings[i].i, b.couplings[i].j, llround(b.couplings[i].price * p->scale));
        if (r >= 0)
                r = add_tables(&b, q);
        return r < 0 ? r : qubo_build(q, ret);
}
