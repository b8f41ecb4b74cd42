/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers as passes over memory. Each pass takes the mixers of some dimensions that follow each other: it gathers the
 * amplitudes that differ in those alone, a few columns at a time, into a tile that stays in the first cache, applies
 * one mixer after the other there, and puts them back; rows a power of two apart would fall on the same few cache lines
 * if they were worked on where they lie. The first pass takes a block as it lies, and the phase with it. So 24 qubits go
 * through memory three times a layer. The cosines of the tangent form and the norm are one factor that the next phase or the
 * next expectation brings in.
 *
 * Where there are fewer than three qubits, the inner dimensions have strides that are no whole chunks: eight rows are
 * turned, so that lanes are rows, and turned back.
 */
#include "policy/qubo/qaoa-state.h"

#include <errno.h>
#include <math.h>
#include <sys/mman.h>

#define CHUNK (2 * (size_t) QAOA_LANES) /* floats */
#define BLOCK_CHUNKS ((size_t) 512)     /* of the first pass */
#define SUM_CHUNKS ((size_t) 64)        /* summed in single precision; a sample looks at so many */
#define TILE_CHUNKS ((size_t) 512)
#define COLUMNS_MIN ((size_t) 2)
#define ROW_MIN 64U    /* rows of so many amplitudes have little padding, whatever they are */
#define ROW_MAX 4096U  /* so the smaller of two groups can always be a row */
#define TANGENT_MAX 16 /* its 24th power is far from the end of the range of a float */
#define FACTOR_MIN 1e-9
#define HUGE_PAGE ((size_t) 2 << 20)

/* The mixer of one group, or of some qubits; stride: in units of what is 1 for the first of the pass. */
typedef struct Op {
        size_t stride;
        uint32_t size;
        unsigned qubits; /* 0: a group */
} Op;

typedef struct Pass {
        size_t rows, stride, columns; /* chunks; columns: at once */
        unsigned n_ops;
        Op ops[QAOA_DIMS_MAX];
} Pass;

struct QaoaState {
        const Qubo *q;
        const Kernels *k;
        Limit *limit;
        QaoaShape shape;
        QaoaEnergies energies;
        float *amplitude, *tile;
        size_t chunks;
        bool turned; /* the inner dimensions' mixers work on rows that are turned */
        Pass inner;  /* of the inner dimensions, turned */
        Pass first;  /* its rows are a block */
        Pass passes[QAOA_DIMS_MAX];
        unsigned n_passes;
        double factor;      /* what all amplitudes are still to be multiplied by */
        double *cumulative; /* squares of blocks, from an expectation */
        uint64_t layers, work;
};

static int dim_cmp(const void *a, const void *b) {
        const QaoaDim *x = a, *y = b;
        bool whole_x = x->size % QAOA_LANES == 0, whole_y = y->size % QAOA_LANES == 0;

        if (x->qubit != y->qubit)
                return CMP(y->qubit, x->qubit);
        if (whole_x != whole_y)
                return CMP(whole_y, whole_x);
        return x->size != y->size ? CMP(x->size, y->size) : CMP(x->first, y->first);
}

static bool add_dim(QaoaShape *s, uint32_t first, uint32_t size, bool qubit) {
        if (s->n_dims == QAOA_DIMS_MAX || size > QAOA_CHOICES_MAX || s->amplitudes > QAOA_AMPLITUDES_MAX / size)
                return false;
        s->amplitudes *= size;
        s->dims[s->n_dims++] = (QaoaDim){ .first = first, .size = size, .qubit = qubit };
        return true;
}

static unsigned count_qubits(const QaoaShape *s) {
        unsigned n = 0;

        while (n < s->n_dims && s->dims[n].qubit)
                n++;
        return n;
}

static void lay_out(QaoaShape *s) {
        unsigned most = count_qubits(s) >= 3 ? 3 : s->n_dims;

        s->row = s->padded_row = 1;
        for (unsigned i = 0; i < s->n_dims; i++) {
                QaoaDim *d = &s->dims[i];

                if (i == s->n_inner && i < most && s->row < ROW_MIN && (i == 0 || s->row % QAOA_LANES != 0) &&
                    s->row * d->size <= ROW_MAX) {
                        d->stride = s->row;
                        s->row *= d->size;
                        s->n_inner++;
                        s->padded_row = (s->row + QAOA_LANES - 1) / QAOA_LANES * QAOA_LANES;
                        continue;
                }
                if (i == 0)
                        s->padded_row = QAOA_LANES;
                d->stride = s->padded_row * s->rows;
                s->rows *= d->size;
        }
        if (s->n_dims == 0)
                s->padded_row = QAOA_LANES;
}

bool qaoa_shape(const Qubo *q, QaoaShape *ret) {
        QaoaShape s = { .amplitudes = 1, .rows = 1 };

        for (uint32_t v = 0; v < q->n; v++)
                if (q->group_of[v] == QUBO_NO_GROUP && !add_dim(&s, v, 2, true))
                        return false;
        for (uint32_t g = 0; g < q->n_groups; g++)
                if (q->group_size[g] > 1 && !add_dim(&s, q->group_first[g], q->group_size[g], false))
                        return false;
        qsort(s.dims, s.n_dims, sizeof(*s.dims), dim_cmp);
        lay_out(&s);
        *ret = s;
        return s.padded_row * s.rows <= QAOA_PADDED_MAX;
}

/* Adds a dimension's mixer to a pass that has "rows" rows so far. */
static void pass_add(Pass *p, const QaoaDim *d, size_t stride) {
        Op *last = p->n_ops > 0 ? &p->ops[p->n_ops - 1] : NULL;

        if (d->size == 2 && last && last->qubits > 0)
                last->qubits++;
        else
                p->ops[p->n_ops++] = (Op){ .stride = stride, .size = d->size, .qubits = d->size == 2 };
        p->rows *= d->size;
}

static void plan_first(QaoaState *s, unsigned *at) {
        const QaoaShape *h = &s->shape;
        size_t row = h->padded_row / QAOA_LANES;

        s->turned = h->n_inner > 0 && !h->dims[h->n_inner - 1].qubit;
        s->inner.rows = s->first.rows = 1;
        for (*at = 0; *at < h->n_inner; ++*at)
                if (s->turned)
                        pass_add(&s->inner, &h->dims[*at], h->dims[*at].stride);
        for (; *at < h->n_dims && s->first.rows * h->dims[*at].size * row <= BLOCK_CHUNKS; ++*at)
                pass_add(&s->first, &h->dims[*at], h->dims[*at].stride / QAOA_LANES);
}

static void plan(QaoaState *s) {
        const QaoaShape *h = &s->shape;
        unsigned at;

        plan_first(s, &at);
        while (at < h->n_dims) {
                Pass *p = &s->passes[s->n_passes++];

                *p = (Pass){ .rows = 1, .stride = h->dims[at].stride / QAOA_LANES };
                do
                        pass_add(p, &h->dims[at], p->rows);
                while (++at < h->n_dims && p->rows * h->dims[at].size * COLUMNS_MIN <= TILE_CHUNKS);
                p->columns = MIN(MAX(TILE_CHUNKS / p->rows, 1U), p->stride);
        }
}

static size_t tile_chunks(const QaoaState *s) {
        size_t n = s->turned ? 2 * s->shape.padded_row : 1;

        for (unsigned i = 0; i < s->n_passes; i++)
                n = MAX(n, s->passes[i].rows * s->passes[i].columns);
        return n;
}

/* Large pages, where the system has them: returning memory to it must not take milliseconds. */
static void *allocate(size_t bytes) {
        size_t alignment = bytes >= HUGE_PAGE ? HUGE_PAGE : 64, size = (bytes + alignment - 1) / alignment * alignment;
        void *p = aligned_alloc(alignment, size);

        if (p && alignment == HUGE_PAGE)
                (void) madvise(p, size, MADV_HUGEPAGE);
        return p;
}

static bool clear(QaoaState *s, float *at, size_t n) {
        for (size_t i = 0; i < n; i += 1U << 16) {
                memset(at + i, 0, MIN(n - i, (size_t) 1 << 16) * sizeof(*at));
                if (limit_work(s->limit, 1U << 13))
                        return false;
        }
        return true;
}

int qaoa_state_new(const Qubo *q, const Kernels *k, Limit *l, QaoaState **ret) {
        _cleanup_(qaoa_state_freep) QaoaState *s = calloc(1, sizeof(*s));
        size_t padded;
        int r;

        if (!s)
                return -ENOMEM;
        s->q = q;
        s->k = k;
        s->limit = l;
        if (!qaoa_shape(q, &s->shape))
                return -EINVAL;
        plan(s);
        padded = s->shape.padded_row * s->shape.rows;
        s->chunks = padded / QAOA_LANES;
        s->amplitude = allocate(padded * 2 * sizeof(float));
        s->energies.above = allocate(padded * sizeof(float));
        s->tile = allocate(tile_chunks(s) * CHUNK * sizeof(float));
        s->cumulative = calloc(s->chunks / SUM_CHUNKS + 1, sizeof(*s->cumulative));
        if (!s->amplitude || !s->energies.above || !s->tile || !s->cumulative)
                return -ENOMEM;
        if (!clear(s, s->energies.above, padded))
                return -ECANCELED;
        r = qaoa_energies(q, &s->shape, l, s->amplitude, &s->energies);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s);
        return 0;
}

QaoaState *qaoa_state_free(QaoaState *s) {
        if (!s)
                return NULL;
        free(s->amplitude);
        free(s->energies.above);
        free(s->tile);
        free(s->cumulative);
        free(s);
        return NULL;
}

/* One layer's angles, as the kernels take them. */
typedef struct Layer {
        bool has_phase, fresh;
        float turns, factor, tangent;
        double beta;
        float re, im; /* exp(2 i beta) - 1 */
} Layer;

static void apply(const QaoaState *s, const Pass *p, float *tile, size_t columns, size_t chunks, const Layer *l) {
        for (unsigned i = 0; i < p->n_ops; i++) {
                const Op *op = &p->ops[i];

                if (op->qubits > 0)
                        s->k->qaoa_rx(tile, op->stride * columns, op->qubits, chunks, l->tangent);
                else
                        s->k->qaoa_mix(tile, op->stride * columns, op->size, chunks, l->re / (float) op->size,
                                       l->im / (float) op->size);
        }
}

/* Padding is where nothing is. */
static void clear_padding(const QaoaState *s, float *a, size_t rows) {
        const QaoaShape *h = &s->shape;

        for (size_t i = 0; i < rows && h->row < h->padded_row; i++)
                for (size_t k = h->row; k < h->padded_row; k++) {
                        size_t at = i * h->padded_row + k;

                        a[at / QAOA_LANES * CHUNK + at % QAOA_LANES] = 0;
                        a[at / QAOA_LANES * CHUNK + QAOA_LANES + at % QAOA_LANES] = 0;
                }
}

/* The inner dimensions of eight rows, or of fewer. */
static void mix_turned(const QaoaState *s, float *a, size_t rows, const Layer *l) {
        size_t row = s->shape.padded_row / QAOA_LANES, floats = row * QAOA_LANES * CHUNK;
        float *turned = s->tile, *copy = s->tile + floats, *from = rows < QAOA_LANES ? copy : a;

        if (from == copy) {
                memset(copy, 0, floats * sizeof(*copy));
                memcpy(copy, a, rows * row * CHUNK * sizeof(*a));
        }
        s->k->qaoa_turn(turned, from, row);
        apply(s, &s->inner, turned, 1, s->shape.row, l);
        s->k->qaoa_turn_back(from, turned, row);
        if (from == copy)
                memcpy(a, copy, rows * row * CHUNK * sizeof(*a));
}

static bool run_first(QaoaState *s, const Layer *l) {
        size_t row = s->shape.padded_row / QAOA_LANES, block = s->first.rows * row;

        /* Blocks of few rows are taken together, so that turned lanes are full. */
        if (s->turned && s->first.rows < 2 * QAOA_LANES)
                block *= QAOA_LANES;
        for (size_t i = 0; i < s->chunks; i += block) {
                size_t n = MIN(block, s->chunks - i), rows = n / row;
                float *a = s->amplitude + i * CHUNK;

                if (l->has_phase)
                        s->k->qaoa_phase(a, s->energies.above + i * QAOA_LANES, n, l->turns, l->factor, l->fresh);
                if (l->fresh)
                        clear_padding(s, a, rows);
                for (size_t k = 0; s->turned && k < rows; k += QAOA_LANES)
                        mix_turned(s, a + k * row * CHUNK, MIN(rows - k, QAOA_LANES), l);
                if (!s->turned)
                        s->k->qaoa_rx_low(a, s->shape.n_inner, n, l->tangent);
                apply(s, &s->first, a, 1, n, l);
                if (limit_work(s->limit, 3 * n))
                        return false;
        }
        return true;
}

static bool run_pass(QaoaState *s, const Pass *p, const Layer *l) {
        for (size_t i = 0; i < s->chunks; i += p->rows * p->stride)
                for (size_t k = 0; k < p->stride; k += p->columns) {
                        size_t columns = MIN(p->columns, p->stride - k);
                        float *a = s->amplitude + (i + k) * CHUNK;

                        s->k->qaoa_gather(s->tile, a, p->rows, p->stride, columns);
                        apply(s, p, s->tile, columns, p->rows * columns, l);
                        s->k->qaoa_scatter(a, s->tile, p->rows, p->stride, columns);
                        if (limit_work(s->limit, 3 * p->rows * columns))
                                return false;
                }
        return true;
}

static unsigned count_rotations(const QaoaState *s) {
        unsigned n = 0;

        for (unsigned i = 0; i < s->shape.n_dims; i++)
                n += s->shape.dims[i].size == 2;
        return n;
}

static bool run_layer(QaoaState *s, Layer l) {
        bool far;

        l.beta -= M_PI * round(l.beta / M_PI);
        far = fabs(tan(l.beta)) > TANGENT_MAX;
        if (far)
                l.beta /= 2;
        l.tangent = (float) tan(l.beta);
        l.re = (float) (cos(2 * l.beta) - 1);
        l.im = (float) sin(2 * l.beta);
        for (unsigned k = 0; k < 1U + far; k++) {
                if (!run_first(s, &l))
                        return false;
                for (unsigned i = 0; i < s->n_passes; i++)
                        if (!run_pass(s, &s->passes[i], &l))
                                return false;
                s->factor *= pow(cos(l.beta), count_rotations(s));
                l.has_phase = l.fresh = false;
        }
        s->layers++;
        s->work += s->shape.amplitudes * s->shape.n_dims;
        return true;
}

int qaoa_run(QaoaState *s, unsigned layers, const double *gamma, const double *beta) {
        s->factor = 1 / sqrt((double) s->shape.amplitudes);
        for (unsigned i = 0; i < MAX(layers, 1U); i++) {
                Layer l = { .fresh = i == 0, .factor = (float) s->factor };

                if (layers > 0) {
                        l.beta = beta[i];
                        l.turns = (float) (gamma[i] / (2 * M_PI));
                }
                /* A phase of 0 is needed only where the factor would leave the range of a float. */
                l.has_phase = l.fresh || l.turns != 0 || s->factor < FACTOR_MIN;
                if (l.has_phase)
                        s->factor = 1;
                if (!run_layer(s, l))
                        return -ECANCELED;
        }
        return 0;
}

int qaoa_expectation(QaoaState *s, double *ret) {
        double sum[2] = {};

        for (size_t i = 0; i < s->chunks; i += SUM_CHUNKS) {
                size_t n = MIN(SUM_CHUNKS, s->chunks - i);

                s->k->qaoa_moments(s->amplitude + i * CHUNK, s->energies.above + i * QAOA_LANES, n, sum);
                s->cumulative[i / SUM_CHUNKS] = sum[0];
                if (limit_work(s->limit, n))
                        return -ECANCELED;
        }
        *ret = (double) s->energies.least + sum[1] / sum[0];
        return 0;
}

static inline double square(const QaoaState *s, size_t at) {
        const float *a = s->amplitude + at / QAOA_LANES * CHUNK + at % QAOA_LANES;

        return (double) a[0] * (double) a[0] + (double) a[QAOA_LANES] * (double) a[QAOA_LANES];
}

static void decode(const QaoaState *s, size_t at, uint8_t *x) {
        const QaoaShape *h = &s->shape;

        for (unsigned i = 0; i < h->n_dims; i++) {
                const QaoaDim *d = &h->dims[i];
                size_t in_row = i < h->n_inner ? at % h->padded_row : at;
                size_t choice = in_row / d->stride % d->size;

                if (d->qubit)
                        x[d->first] = (uint8_t) choice;
                else
                        x[d->first + choice] = 1;
        }
}

static size_t encode(const QaoaState *s, const uint8_t *x) {
        size_t at = 0;

        for (unsigned i = 0; i < s->shape.n_dims; i++) {
                const QaoaDim *d = &s->shape.dims[i];
                size_t choice = d->qubit ? x[d->first] : 0;

                while (!d->qubit && !x[d->first + choice])
                        choice++;
                at += choice * d->stride;
        }
        return at;
}

static size_t find_block(const QaoaState *s, double u) {
        size_t low = 0, high = (s->chunks - 1) / SUM_CHUNKS;

        while (low < high) {
                size_t middle = (low + high) / 2;

                if (s->cumulative[middle] > u)
                        high = middle;
                else
                        low = middle + 1;
        }
        return low;
}

size_t qaoa_sample(const QaoaState *s, Rng *rng) {
        size_t last = (s->chunks - 1) / SUM_CHUNKS, block, at, end, seen = SIZE_MAX;
        double u = (double) (rng_next(rng) >> 11) * 0x1p-53 * s->cumulative[last];

        block = find_block(s, u);
        u -= block > 0 ? s->cumulative[block - 1] : 0;
        at = block * SUM_CHUNKS * QAOA_LANES;
        end = MIN(at + SUM_CHUNKS * QAOA_LANES, s->chunks * QAOA_LANES);
        /* Rounding can leave a little at the end of a block: the last point that can be seen at all stands for it. */
        for (; at < end && (u >= 0 || seen == SIZE_MAX); at++) {
                double p = square(s, at);

                seen = p > 0 ? at : seen;
                u -= p;
        }
        return seen == SIZE_MAX ? 0 : seen;
}

void qaoa_point(const QaoaState *s, size_t at, uint8_t *x) {
        const Qubo *q = s->q;

        memset(x, 0, q->n);
        for (uint32_t g = 0; g < q->n_groups; g++)
                if (q->group_size[g] == 1)
                        x[q->group_first[g]] = 1;
        decode(s, at, x);
}

float qaoa_above(const QaoaState *s, size_t at) {
        return s->energies.above[at];
}

void qaoa_amplitude(const QaoaState *s, const uint8_t *x, double ret[static 2]) {
        size_t at = encode(s, x);
        const float *a = s->amplitude + at / QAOA_LANES * CHUNK + at % QAOA_LANES;

        ret[0] = s->factor * (double) a[0];
        ret[1] = s->factor * (double) a[QAOA_LANES];
}

double qaoa_probability(const QaoaState *s, float above) {
        const QaoaShape *h = &s->shape;
        double sum = 0;

        for (size_t row = 0; row < h->rows; row++)
                for (size_t i = row * h->padded_row; i < row * h->padded_row + h->row; i++)
                        sum += s->energies.above[i] <= above ? square(s, i) : 0;
        return sum * s->factor * s->factor;
}

const QaoaShape *qaoa_state_shape(const QaoaState *s) {
        return &s->shape;
}

const QaoaEnergies *qaoa_state_energies(const QaoaState *s) {
        return &s->energies;
}

uint64_t qaoa_state_layers(const QaoaState *s) {
        return s->layers;
}

uint64_t qaoa_state_work(const QaoaState *s) {
        return s->work;
}
