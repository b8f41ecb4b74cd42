/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building and reading the state of the path-integral walk, see sqa.h. The scale is the largest power of two with which no
 * field leaves a quarter of its lane: of int16 where that keeps integers integers, else of int32. A model beyond that is
 * rounded to it for the walk; what a solver returns is recomputed from the model in any case.
 *
 * Memory: 128 bytes a variable, 2 or 4 bytes a coupling and direction, and under 40 KB.
 */
#include <errno.h>
#include <math.h>

#include "policy/qubo/kernels.h"
#include "policy/qubo/search.h"
#include "policy/qubo/sqa.h"
#include "policy/qubo/width.h"

#define NARROW_MOST 8000
#define WIDE_MOST (1 << 28)
#define TALLEST_LOG 9.1 /* > ln(2 SQA_DRAWS) */
#define SCALE_MOST 0x1p12

static bool is_over(Limit *l, uint64_t entries) {
        return l && limit_work(l, 4 + entries);
}

/* The largest that a field can be, and the typical cost of a flip. */
static double measure_rows(const Qubo *q, Limit *l, double *ret_unit) {
        double most = 0, squares = 0;

        for (uint32_t i = 0; i < q->n && !is_over(l, q->row[i + 1] - q->row[i]); i++) {
                double sum = fabs((double) q->linear[i]), mean = q->linear[i], square = 0;

                for (size_t k = q->row[i]; k < q->row[i + 1]; k++) {
                        double w = q->val[k];

                        sum += fabs(w);
                        mean += w / 2;
                        square += w * w / 4;
                }
                most = fmax(most, sum);
                squares += mean * mean + square;
        }
        *ret_unit = q->n > 0 && squares > 0 ? sqrt(squares / q->n) : 1;
        return most;
}

static double fitting_scale(double most, double limit) {
        double scale = SCALE_MOST;

        while (most * scale > limit)
                scale /= 2;
        return scale;
}

static unsigned width_of(const SqaModel *m) {
        return m->narrow ? sizeof(int16_t) : sizeof(int32_t);
}

static void fill_rows(SqaModel *m, Limit *l) {
        const Qubo *q = m->q;

        for (uint32_t i = 0; i < q->n && !is_over(l, 2 * (q->row[i + 1] - q->row[i])); i++) {
                int32_t same = 0;

                m->linear[i] = (int32_t) rint(q->linear[i] * m->scale);
                m->exact = m->exact && m->linear[i] == q->linear[i] * m->scale;
                for (size_t k = q->row[i]; k < q->row[i + 1]; k++) {
                        int32_t v = (int32_t) rint(q->val[k] * m->scale);

                        m->exact = m->exact && v == q->val[k] * m->scale;
                        width_put(m->walk.weight, width_of(m), k, v);
                        same = k == q->row[i] || v == same ? v : 0;
                }
                width_put(m->walk.same, width_of(m), i, same);
        }
}

/* Quantiles of -ln(u), shuffled. */
static void fill_logs(SqaModel *m, uint64_t seed) {
        Rng r;

        rng_seed(&r, seed, UINT64_MAX);
        for (uint32_t i = 0; i < SQA_DRAWS; i++) {
                uint32_t j = rng_below(&r, i + 1);

                m->logs[i] = m->logs[j];
                m->logs[j] = (float) -log((i + 0.5) / SQA_DRAWS);
        }
}

int sqa_model_init(SqaModel *m, const Qubo *q, const Kernels *kernels, uint64_t seed, double hot, Limit *l) {
        double unit, most = measure_rows(q, l, &unit), room = fmax(most, hot * unit * TALLEST_LOG);
        bool narrow = fitting_scale(room, NARROW_MOST) >= 1;
        size_t size = narrow ? sizeof(int16_t) : sizeof(int32_t), links = q->row[q->n];
        SqaWalk *w = &m->walk;

        *m = (SqaModel){
                .q = q,
                .kernels = kernels,
                .narrow = narrow,
                .slices = narrow ? SQA_NARROW_SLICES : SQA_WIDE_SLICES,
                /* rounding moves each weight by a half at most */
                .scale = narrow ? fitting_scale(room, NARROW_MOST) : fitting_scale(room, WIDE_MOST - q->n),
                .exact = true,
                .unit = unit,
                .most = narrow ? NARROW_MOST : WIDE_MOST,
                .linear = calloc((size_t) q->n + 1, sizeof(int32_t)),
                .logs = calloc(SQA_DRAWS, sizeof(float)),
                .walk = { .n = q->n, .row = q->row, .col = q->col },
        };
        w->weight = malloc((links + 1) * size); /* not cleared, which takes long */
        w->same = calloc((size_t) q->n + 1, size);
        w->field = aligned_alloc(2 * SQA_VECTOR, ((size_t) q->n + 1) * 2 * SQA_VECTOR);
        w->spin = aligned_alloc(2 * SQA_VECTOR, ((size_t) q->n + 1) * 2 * SQA_VECTOR);
        w->threshold = calloc(SQA_DRAWS + SQA_NARROW_LANES, size);
        if (!m->linear || !m->logs || !w->weight || !w->same || !w->field || !w->spin || !w->threshold)
                return -ENOMEM;
        fill_rows(m, l);
        fill_logs(m, seed);
        return l && l->hit ? -ECANCELED : 0;
}

void sqa_model_done(SqaModel *m) {
        SqaWalk *w = &m->walk;

        free(m->linear);
        free(m->logs);
        free(w->weight);
        free(w->same);
        free(w->field);
        free(w->spin);
        free(w->threshold);
        *m = (SqaModel){};
}

/* Where a slice lies in the two vectors of a variable. */
static size_t slice_at(const SqaModel *m, uint32_t i, unsigned slice) {
        return (size_t) i * m->slices + (slice % 2) * (m->slices / 2) + slice / 2;
}

static void repeat_first(SqaModel *m) {
        void *threshold = m->walk.threshold;

        for (unsigned i = 0; i < SQA_NARROW_LANES; i++)
                width_put(threshold, width_of(m), SQA_DRAWS + i, width_get(threshold, width_of(m), i));
}

void sqa_scatter(SqaModel *m) {
        SqaWalk *w = &m->walk;
        uint8_t *field = w->field;

        memset(w->spin, 0, (size_t) m->q->n * 2 * SQA_VECTOR);
        for (uint32_t i = 0; i < m->q->n; i++, field += 2 * SQA_VECTOR)
                for (unsigned k = 0; k < m->slices; k++)
                        width_put(field, width_of(m), k, m->linear[i]);
        for (unsigned i = 0; i < SQA_DRAWS; i++)
                width_put(w->threshold, width_of(m), i, rng_next(&w->rng) >> 63 ? m->most : -m->most - 1);
        repeat_first(m);
        w->bond = 0;
}

void sqa_set_temperature(SqaModel *m, double pt) {
        void *threshold = m->walk.threshold;
        float factor = (float) (pt * m->scale), most = (float) m->most;

        for (unsigned i = 0; i < SQA_DRAWS; i++) {
                float t = m->logs[i] * factor;

                width_put(threshold, width_of(m), i, pt > 0 ? (int32_t) (t < most ? t : most) : -1);
        }
        repeat_first(m);
}

double sqa_bond(double pt, double field) {
        return -2 * pt * log(tanh(field));
}

void sqa_set_bond(SqaModel *m, double bond) {
        m->walk.bond = (int32_t) fmin(rint(bond * m->scale), 2.0 * m->most);
}

uint32_t sqa_sweep(SqaModel *m, uint32_t from, uint32_t to) {
        return (m->narrow ? m->kernels->sqa_sweep16 : m->kernels->sqa_sweep32)(&m->walk, from, to);
}

uint32_t sqa_lines(SqaModel *m, uint32_t from, uint32_t to) {
        return (m->narrow ? m->kernels->sqa_lines16 : m->kernels->sqa_lines32)(&m->walk, from, to);
}

static void add_narrow(const int16_t *field, const int16_t *spin, int32_t linear, int64_t *sum) {
        for (unsigned k = 0; k < SQA_NARROW_SLICES; k++)
                sum[k] += (field[k] + linear) & spin[k];
}

static void add_wide(const int32_t *field, const int32_t *spin, int32_t linear, int64_t *sum) {
        for (unsigned k = 0; k < SQA_WIDE_SLICES; k++)
                sum[k] += (field[k] + linear) & spin[k];
}

void sqa_energies(const SqaModel *m, double *ret) {
        const SqaWalk *w = &m->walk;
        int64_t sum[SQA_NARROW_SLICES] = {};

        for (uint32_t i = 0; i < m->q->n; i++) {
                size_t at = (size_t) i * m->slices;

                if (m->narrow)
                        add_narrow((const int16_t *) w->field + at, (const int16_t *) w->spin + at, m->linear[i], sum);
                else
                        add_wide((const int32_t *) w->field + at, (const int32_t *) w->spin + at, m->linear[i], sum);
        }
        for (unsigned k = 0; k < m->slices; k++)
                ret[k] = (double) m->q->offset + (double) sum[slice_at(m, 0, k)] / (2 * m->scale);
}

void sqa_get_slice(const SqaModel *m, unsigned slice, uint8_t *ret) {
        for (uint32_t i = 0; i < m->q->n; i++)
                ret[i] = width_get(m->walk.spin, width_of(m), slice_at(m, i, slice)) != 0;
}
