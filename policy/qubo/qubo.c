/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building the model. Couplings are collected as (i, j, w) with i < j and brought into order by two counting sorts, so
 * building costs O(couplings + n); equal pairs are then added up in int64. The list is also merged whenever it has
 * doubled, so that adding to the same pairs again and again does not grow it. Everything that could overflow is
 * checked here, once; the solvers compute without checks, because
 * offset + sum |linear| + sum |w| <= INT64_MAX / 4 bounds every energy, field and difference they form.
 */
#include "policy/qubo/qubo.h"

#include <errno.h>

typedef struct Entry {
        uint32_t i, j;
        int64_t w;
} Entry;

struct QuboBuilder {
        uint32_t n, n_groups, groups_allocated;
        int64_t offset;
        int64_t *linear;
        Entry *entries;
        size_t n_entries, entries_allocated;
        uint32_t *group_first, *group_size, *group_kind, *group_of;
        uint32_t n_tables, tables_allocated;
        QuboTable *tables;
        uint32_t *transposed; /* by table: 1 + the one with rows and columns exchanged, 0: not made yet */
        uint32_t *table_of;
        size_t cells;
        bool permutation;
        int32_t *flow, *distance;
};

int qubo_builder_new(uint32_t n, QuboBuilder **ret) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = calloc(1, sizeof(*b));

        if (n == QUBO_NO_GROUP)
                return -EOVERFLOW;
        if (!b)
                return -ENOMEM;
        b->n = n;
        b->linear = calloc((size_t) n + 1, sizeof(*b->linear));
        b->group_of = calloc((size_t) n + 1, sizeof(*b->group_of));
        if (!b->linear || !b->group_of)
                return -ENOMEM;
        for (uint32_t i = 0; i < n; i++)
                b->group_of[i] = QUBO_NO_GROUP;
        *ret = TAKE_PTR(b);
        return 0;
}

QuboBuilder *qubo_builder_free(QuboBuilder *b) {
        if (!b)
                return NULL;
        free(b->linear);
        free(b->entries);
        free(b->group_first);
        free(b->group_size);
        free(b->group_kind);
        free(b->group_of);
        for (uint32_t t = 0; b->tables && t < b->n_tables; t++)
                free(b->tables[t].w);
        free(b->tables);
        free(b->transposed);
        free(b->table_of);
        free(b->flow);
        free(b->distance);
        free(b);
        return NULL;
}

int qubo_add_offset(QuboBuilder *b, int64_t w) {
        return __builtin_add_overflow(b->offset, w, &b->offset) ? -EOVERFLOW : 0;
}

int qubo_add_linear(QuboBuilder *b, uint32_t i, int64_t w) {
        if (i >= b->n)
                return -EINVAL;
        return __builtin_add_overflow(b->linear[i], w, &b->linear[i]) ? -EOVERFLOW : 0;
}

/* Stable counting sort by one of the two ends. */
static void sort_pass(const Entry *in, Entry *out, size_t n_entries, size_t *count, uint32_t n, bool by_i) {
        size_t sum = 0;

        memset(count, 0, ((size_t) n + 1) * sizeof(*count));
        for (size_t k = 0; k < n_entries; k++)
                count[by_i ? in[k].i : in[k].j]++;
        for (uint32_t v = 0; v < n; v++) {
                size_t c = count[v];

                count[v] = sum;
                sum += c;
        }
        for (size_t k = 0; k < n_entries; k++)
                out[count[by_i ? in[k].i : in[k].j]++] = in[k];
}

static int entries_add_up(QuboBuilder *b) {
        size_t m = 0;

        for (size_t k = 0; k < b->n_entries; k++) {
                Entry e = b->entries[k];

                if (m > 0 && b->entries[m - 1].i == e.i && b->entries[m - 1].j == e.j) {
                        if (__builtin_add_overflow(b->entries[m - 1].w, e.w, &b->entries[m - 1].w))
                                return -EOVERFLOW;
                } else
                        b->entries[m++] = e;
        }
        b->n_entries = m;
        return 0;
}

static int entries_merge(QuboBuilder *b) {
        _cleanup_free_ Entry *tmp = NULL;
        _cleanup_free_ size_t *count = NULL;

        if (b->n_entries == 0)
                return 0;
        tmp = calloc(b->n_entries, sizeof(*tmp));
        count = calloc((size_t) b->n + 1, sizeof(*count));
        if (!tmp || !count)
                return -ENOMEM;
        sort_pass(b->entries, tmp, b->n_entries, count, b->n, false);
        sort_pass(tmp, b->entries, b->n_entries, count, b->n, true);
        return entries_add_up(b);
}

static int entries_make_room(QuboBuilder *b) {
        size_t want;
        Entry *e;
        int r;

        if (b->n_entries < b->entries_allocated)
                return 0;
        /* Below n a merge would cost more than the room it could win. */
        if (b->n_entries >= (size_t) b->n + 1024) {
                r = entries_merge(b);
                if (r < 0)
                        return r;
                if (b->n_entries <= b->entries_allocated / 2)
                        return 0;
        }
        want = MAX(b->entries_allocated * 2, (size_t) 256);
        e = reallocarray(b->entries, want, sizeof(*e));
        if (!e)
                return -ENOMEM;
        b->entries = e;
        b->entries_allocated = want;
        return 0;
}

int qubo_add_quadratic(QuboBuilder *b, uint32_t i, uint32_t j, int64_t w) {
        int r;

        if (i >= b->n || j >= b->n)
                return -EINVAL;
        if (i == j)
                return qubo_add_linear(b, i, w);
        if (w == 0)
                return 0;
        r = entries_make_room(b);
        if (r < 0)
                return r;
        b->entries[b->n_entries++] = (Entry){ .i = MIN(i, j), .j = MAX(i, j), .w = w };
        return 0;
}

int qubo_add_group(QuboBuilder *b, uint32_t first, uint32_t size) {
        if (b->table_of || size == 0 || first >= b->n || size > b->n - first)
                return -EINVAL;
        for (uint32_t i = first; i < first + size; i++)
                if (b->group_of[i] != QUBO_NO_GROUP)
                        return -EINVAL;
        if (b->n_groups == b->groups_allocated) {
                uint32_t want = MAX(b->groups_allocated * 2, 16U), *p;

                p = reallocarray(b->group_first, want, sizeof(*p));
                if (!p)
                        return -ENOMEM;
                b->group_first = p;
                p = reallocarray(b->group_size, want, sizeof(*p));
                if (!p)
                        return -ENOMEM;
                b->group_size = p;
                p = reallocarray(b->group_kind, want, sizeof(*p));
                if (!p)
                        return -ENOMEM;
                b->group_kind = p;
                b->groups_allocated = want;
        }
        for (uint32_t i = first; i < first + size; i++)
                b->group_of[i] = b->n_groups;
        b->group_first[b->n_groups] = first;
        b->group_kind[b->n_groups] = 0;
        b->group_size[b->n_groups++] = size;
        return 0;
}

int qubo_set_kind(QuboBuilder *b, uint32_t group, uint32_t kind) {
        if (group >= b->n_groups)
                return -EINVAL;
        b->group_kind[group] = kind;
        return 0;
}

static int tables_make_room(QuboBuilder *b) {
        uint32_t want = MAX(b->tables_allocated * 2, 16U);
        QuboTable *t;
        uint32_t *p;

        if (b->n_tables < b->tables_allocated)
                return 0;
        t = reallocarray(b->tables, want, sizeof(*t));
        if (!t)
                return -ENOMEM;
        b->tables = t;
        p = reallocarray(b->transposed, want, sizeof(*p));
        if (!p)
                return -ENOMEM;
        b->transposed = p;
        b->tables_allocated = want;
        return 0;
}

int qubo_add_table(QuboBuilder *b, uint32_t rows, uint32_t cols, int32_t *w, uint32_t *ret) {
        _cleanup_free_ int32_t *owned = w;
        size_t cells = (size_t) rows * cols;
        uint64_t size = 0;
        int r;

        if (cells == 0 || !w)
                return -EINVAL;
        if (cells > QUBO_CELLS_MAX - b->cells)
                return -EFBIG;
        r = tables_make_room(b);
        if (r < 0)
                return r;
        for (size_t i = 0; i < cells; i++) {
                if (w[i] == INT32_MIN)
                        return -EOVERFLOW;
                size += (uint64_t) labs(w[i]);
        }
        b->cells += cells;
        b->transposed[b->n_tables] = 0;
        b->tables[b->n_tables] = (QuboTable){ .rows = rows, .cols = cols, .w = TAKE_PTR(owned), .size = size };
        *ret = b->n_tables++;
        return 0;
}

static bool is_symmetric(const QuboTable *t) {
        if (t->rows != t->cols)
                return false;
        for (uint32_t i = 0; i < t->rows; i++)
                for (uint32_t j = 0; j < i; j++)
                        if (t->w[(size_t) i * t->cols + j] != t->w[(size_t) j * t->cols + i])
                                return false;
        return true;
}

static int transpose(QuboBuilder *b, uint32_t table, uint32_t *ret) {
        const QuboTable t = b->tables[table];
        int32_t *w;
        int r;

        if (b->transposed[table] == 0) {
                if (is_symmetric(&t)) {
                        b->transposed[table] = table + 1;
                        *ret = table;
                        return 0;
                }
                w = calloc((size_t) t.rows * t.cols, sizeof(*w));
                if (!w)
                        return -ENOMEM;
                for (uint32_t i = 0; i < t.rows; i++)
                        for (uint32_t j = 0; j < t.cols; j++)
                                w[(size_t) j * t.rows + i] = t.w[(size_t) i * t.cols + j];
                r = qubo_add_table(b, t.cols, t.rows, w, ret);
                if (r < 0)
                        return r;
                b->transposed[table] = *ret + 1;
                b->transposed[*ret] = table + 1;
        }
        *ret = b->transposed[table] - 1;
        return 0;
}

int qubo_join(QuboBuilder *b, uint32_t g, uint32_t h, uint32_t table) {
        uint32_t other;
        int r;

        if (g >= b->n_groups || h >= b->n_groups || g == h || table >= b->n_tables ||
            b->group_size[g] != b->tables[table].rows || b->group_size[h] != b->tables[table].cols)
                return -EINVAL;
        if (!b->table_of) {
                b->table_of = calloc((size_t) b->n_groups * b->n_groups, sizeof(*b->table_of));
                if (!b->table_of)
                        return -ENOMEM;
        }
        if (b->table_of[(size_t) g * b->n_groups + h] != 0)
                return -EINVAL;
        r = transpose(b, table, &other);
        if (r < 0)
                return r;
        b->table_of[(size_t) g * b->n_groups + h] = table + 1;
        b->table_of[(size_t) h * b->n_groups + g] = other + 1;
        return 0;
}

/* No cost of an assignment can leave a quarter of int64. */
static bool product_fits(const int32_t *flow, const int32_t *distance, size_t n) {
        uint64_t sum = 0, most = 0, product;

        for (size_t k = 0; k < n * n; k++) {
                sum += (uint64_t) labs(flow[k]);
                most = MAX(most, (uint64_t) labs(distance[k]));
        }
        return !__builtin_mul_overflow(sum, most, &product) && product <= INT64_MAX / 8;
}

int qubo_set_permutation(QuboBuilder *b, int32_t *flow, int32_t *distance) {
        _cleanup_free_ int32_t *own_flow = flow, *own_distance = distance;

        if (b->permutation || !flow != !distance || (size_t) b->n_groups * b->n_groups != b->n)
                return -EINVAL;
        for (uint32_t g = 0; g < b->n_groups; g++)
                if (b->group_first[g] != g * b->n_groups || b->group_size[g] != b->n_groups)
                        return -EINVAL;
        if (flow && !product_fits(flow, distance, b->n_groups))
                return -EOVERFLOW;
        b->permutation = true;
        b->flow = TAKE_PTR(own_flow);
        b->distance = TAKE_PTR(own_distance);
        return 0;
}

static bool entry_counts(const QuboBuilder *b, const Entry *e) {
        return e->w != 0 && (b->group_of[e->i] == QUBO_NO_GROUP || b->group_of[e->i] != b->group_of[e->j]);
}

/* Each coefficient within int32, and the sum of all absolute values within a quarter of int64. */
static int check_range(const QuboBuilder *b) {
        uint64_t sum = b->offset < 0 ? -(uint64_t) b->offset : (uint64_t) b->offset;

        for (uint32_t i = 0; i < b->n; i++) {
                if (b->linear[i] < -INT32_MAX || b->linear[i] > INT32_MAX || sum > INT64_MAX / 4)
                        return -EOVERFLOW;
                sum += (uint64_t) llabs(b->linear[i]);
        }
        for (size_t k = 0; k < b->n_entries; k++) {
                const Entry *e = &b->entries[k];

                if (!entry_counts(b, e))
                        continue;
                if (e->w < -INT32_MAX || e->w > INT32_MAX || sum > INT64_MAX / 4)
                        return -EOVERFLOW;
                sum += (uint64_t) llabs(e->w);
        }
        for (uint32_t g = 0; b->table_of && g < b->n_groups; g++)
                for (uint32_t h = 0; h < g; h++) {
                        uint32_t t = b->table_of[(size_t) g * b->n_groups + h];

                        if (sum > INT64_MAX / 4)
                                return -EOVERFLOW;
                        sum += t > 0 ? b->tables[t - 1].size : 0;
                }
        return sum > INT64_MAX / 4 ? -EOVERFLOW : 0;
}

/* Entries come ordered by (i, j): row r gets its columns below r, in order, before its own entries add those above. */
static int fill_rows(const QuboBuilder *b, Qubo *q) {
        _cleanup_free_ size_t *at = calloc((size_t) b->n + 1, sizeof(*at));

        if (!at)
                return -ENOMEM;
        for (size_t k = 0; k < b->n_entries; k++)
                if (entry_counts(b, &b->entries[k])) {
                        q->row[b->entries[k].i + 1]++;
                        q->row[b->entries[k].j + 1]++;
                }
        for (uint32_t i = 0; i < b->n; i++) {
                q->row[i + 1] += q->row[i];
                at[i] = q->row[i];
        }
        q->col = calloc(q->row[b->n] + 1, sizeof(*q->col));
        q->val = calloc(q->row[b->n] + 1, sizeof(*q->val));
        if (!q->col || !q->val)
                return -ENOMEM;
        for (size_t k = 0; k < b->n_entries; k++) {
                const Entry *e = &b->entries[k];

                if (!entry_counts(b, e))
                        continue;
                q->col[at[e->i]] = e->j;
                q->val[at[e->i]++] = (int32_t) e->w;
                q->col[at[e->j]] = e->i;
                q->val[at[e->j]++] = (int32_t) e->w;
        }
        return 0;
}

static int copy_u32(const uint32_t *from, size_t n, uint32_t **ret) {
        *ret = calloc(n + 1, sizeof(**ret));
        if (!*ret)
                return -ENOMEM;
        if (n > 0)
                memcpy(*ret, from, n * sizeof(**ret));
        return 0;
}

int qubo_build(QuboBuilder *b, Qubo **ret) {
        _cleanup_(qubo_freep) Qubo *q = NULL;
        int r;

        r = entries_merge(b);
        if (r < 0)
                return r;
        r = check_range(b);
        if (r < 0)
                return r;
        q = calloc(1, sizeof(*q));
        if (!q)
                return -ENOMEM;
        q->n = b->n;
        q->offset = b->offset;
        q->n_groups = b->n_groups;
        q->linear = calloc((size_t) b->n + 1, sizeof(*q->linear));
        q->row = calloc((size_t) b->n + 1, sizeof(*q->row));
        if (!q->linear || !q->row)
                return -ENOMEM;
        for (uint32_t i = 0; i < b->n; i++)
                q->linear[i] = (int32_t) b->linear[i];
        if (copy_u32(b->group_first, b->n_groups, &q->group_first) < 0 ||
            copy_u32(b->group_size, b->n_groups, &q->group_size) < 0 ||
            copy_u32(b->group_kind, b->n_groups, &q->group_kind) < 0 || copy_u32(b->group_of, b->n, &q->group_of) < 0)
                return -ENOMEM;
        r = fill_rows(b, q);
        if (r < 0)
                return r;
        if (b->table_of) {
                q->n_tables = b->n_tables;
                q->tables = TAKE_PTR(b->tables);
                q->table_of = TAKE_PTR(b->table_of);
                b->n_tables = b->tables_allocated = 0;
        }
        q->permutation = b->permutation;
        q->flow = TAKE_PTR(b->flow);
        q->distance = TAKE_PTR(b->distance);
        *ret = TAKE_PTR(q);
        return 0;
}

Qubo *qubo_free(Qubo *q) {
        if (!q)
                return NULL;
        free(q->linear);
        free(q->row);
        free(q->col);
        free(q->val);
        free(q->group_first);
        free(q->group_size);
        free(q->group_kind);
        free(q->group_of);
        for (uint32_t t = 0; t < q->n_tables; t++)
                free(q->tables[t].w);
        free(q->tables);
        free(q->table_of);
        free(q->flow);
        free(q->distance);
        free(q);
        return NULL;
}

void qubo_add_couplings(const Qubo *q, uint32_t v, int32_t sign, int64_t *field) {
        for (size_t k = q->row[v]; k < q->row[v + 1]; k++)
                field[q->col[k]] += (int64_t) sign * q->val[k];
        for (uint32_t h = 0; q->table_of && h < q->n_groups; h++) {
                const int32_t *w = qubo_table_row(q, v, h);

                for (uint32_t i = 0; w && i < q->group_size[h]; i++)
                        field[q->group_first[h] + i] += (int64_t) sign * w[i];
        }
}

static int64_t table_energy(const Qubo *q, const uint8_t *x, uint32_t v) {
        int64_t e = 0;

        for (uint32_t h = 0; q->table_of && h < q->group_of[v] && q->group_of[v] != QUBO_NO_GROUP; h++) {
                const int32_t *w = qubo_table_row(q, v, h);

                for (uint32_t i = 0; w && i < q->group_size[h]; i++)
                        e += x[q->group_first[h] + i] ? w[i] : 0;
        }
        return e;
}

/* Flow times distance of choice c of group g and choice d of group h. */
static int64_t product(const Qubo *q, size_t g, size_t c, size_t h, size_t d) {
        size_t n = q->n_groups;

        return g == h ? 0
                      : (int64_t) q->flow[g * n + h] * q->distance[c * n + d] +
                                (int64_t) q->flow[h * n + g] * q->distance[d * n + c];
}

/* Of any bits, feasible or not. */
static int64_t product_energy(const Qubo *q, const uint8_t *x) {
        _cleanup_free_ uint32_t *set = calloc((size_t) q->n + 1, sizeof(*set));
        uint32_t n = q->n_groups;
        size_t ones = 0;
        int64_t e = 0;

        for (uint32_t u = 0; u < q->n; u++)
                for (uint32_t v = 0; !set && x[u] && v < u; v++) /* no memory: slowly */
                        e += x[v] ? product(q, u / n, u % n, v / n, v % n) : 0;
        for (uint32_t u = 0; set && u < q->n; u++) {
                if (!x[u])
                        continue;
                for (size_t k = 0; k < ones; k++)
                        e += product(q, u / n, u % n, set[k] / n, set[k] % n);
                set[ones++] = u;
        }
        return e;
}

/* The couplings of i to later ones, without branches: large models are recomputed when the time is already over. */
static int64_t row_energy(const Qubo *q, const uint8_t *x, uint32_t i) {
        size_t end = q->row[i + 1], low = qubo_row_find(q, q->row[i], end, i + 1);
        int64_t e = 0;

        if (end - low == q->n - 1 - i) { /* all of them: columns need not be read */
                const uint8_t *later = x + i + 1;
                const int32_t *w = q->val + low;

                for (size_t k = 0; k < end - low; k++)
                        e += w[k] & -(int32_t) (later[k] != 0);
                return e;
        }
        for (; low < end; low++)
                e += q->val[low] & -(int32_t) (x[q->col[low]] != 0);
        return e;
}

int64_t qubo_energy(const Qubo *q, const uint8_t *x) {
        int64_t e = q->offset + (q->flow ? product_energy(q, x) : 0);

        for (uint32_t i = 0; i < q->n; i++)
                if (x[i])
                        e += q->linear[i] + table_energy(q, x, i) + row_energy(q, x, i);
        return e;
}

bool qubo_feasible(const Qubo *q, const uint8_t *x) {
        for (uint32_t g = 0; g < q->n_groups; g++) {
                uint32_t ones = 0;

                for (uint32_t i = 0; i < q->group_size[g]; i++)
                        ones += x[q->group_first[g] + i] != 0;
                if (ones != 1)
                        return false;
        }
        for (uint32_t column = 0; q->permutation && column < q->n_groups; column++) {
                uint32_t ones = 0;

                for (uint32_t g = 0; g < q->n_groups; g++)
                        ones += x[(size_t) g * q->n_groups + column] != 0;
                if (ones != 1)
                        return false;
        }
        return true;
}
