/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replicas of parallel tempering, see pt.h.
 *
 * Exchanges: replicas at T1 < T2 change places with min(1, exp((1/T1 - 1/T2) (E1 - E2))) (Hukushima, Nemoto 1996), pairs
 * that begin at even and at odd temperatures in turns. Temperatures are placed so that the shares of rejected exchanges
 * are even: their sum up to T, interpolated, is cut into equal parts (Syed, Bouchard-Cote, Deligiannidis, Doucet 2022).
 *
 * Cluster moves are those of Houdayer 2001 as Zhu, Ochoa, Katzgraber 2015 use them: of two replicas at one temperature take
 * a variable in which they differ and all that is connected to it through such variables, and exchange its values. The sum of the
 * energies stays the same. If that is most of what differs, the rest is exchanged instead, which is the same move with the
 * two replicas renamed.
 *
 * Memory: 64 bytes a variable for each block (1 to 8 of them), 32 KiB each for thresholds, 5 bytes a variable, the rows.
 */
#include <errno.h>
#include <math.h>

#include "policy/qubo/kernels.h"
#include "policy/qubo/pt.h"
#include "policy/qubo/search.h"
#include "policy/qubo/width.h"

#define TEMPS_NARROW 32U
#define TEMPS_WIDE 16U /* where fields take four bytes or more */
#define LANE_SHIFT 61U /* lanes take their draws from the same table, so far apart */
#define LEAST_REJECTED 0.02

static AnnealLanes *block_of(const PtReplicas *p, unsigned replica, unsigned *ret_lane) {
        *ret_lane = replica % p->lanes;
        return (AnnealLanes *) &p->block[replica / p->lanes];
}

static bool is_one(const PtReplicas *p, unsigned replica, uint32_t i) {
        unsigned lane;
        const AnnealLanes *a = block_of(p, replica, &lane);

        return width_get(a->spin, 1U << p->type, (size_t) i * p->lanes + lane) != 0;
}

static void flip(PtReplicas *p, unsigned replica, uint32_t i) {
        unsigned lane, lanes = p->lanes;
        AnnealLanes *a = block_of(p, replica, &lane);
        const Rows *r = p->rows;
        int64_t was = width_get(a->spin, 1U << p->type, (size_t) i * lanes + lane), sign = was ? -1 : 1;

        width_put(a->spin, 1U << p->type, (size_t) i * lanes + lane, was ? 0 : -1);
        for (size_t k = r->first[i]; k < r->first[i + 1]; k++) {
                size_t at = (size_t) r->col[k] * lanes + lane;

                width_put(a->field, 1U << p->type, at,
                          width_get(a->field, 1U << p->type, at) + sign * rows_weight(r, k));
        }
}

void pt_get(const PtReplicas *p, unsigned replica, uint8_t *x) {
        for (uint32_t i = 0; i < p->q->n; i++)
                x[i] = is_one(p, replica, i);
}

void pt_put(PtReplicas *p, unsigned replica, const uint8_t *x) {
        for (uint32_t i = 0; i < p->q->n; i++)
                if (is_one(p, replica, i) != (x[i] != 0))
                        flip(p, replica, i);
}

/* Zeros, with thresholds that nothing or everything passes, with even chances. */
static void scatter(PtReplicas *p, unsigned block, uint64_t seed) {
        AnnealLanes *a = &p->block[block];
        const Rows *r = p->rows;

        rng_seed(&a->rng, seed, block + 1);
        memset(a->spin, 0, (size_t) r->n * ANNEAL_VECTOR);
        for (uint32_t i = 0; i < r->n; i++)
                for (unsigned k = 0; k < p->lanes; k++)
                        width_put(a->field, 1U << p->type, (size_t) i * p->lanes + k, r->linear[i]);
        for (size_t i = 0; i < (size_t) ANNEAL_DRAWS * p->lanes; i++)
                width_put(p->threshold[block], 1U << p->type, i, rng_next(&a->rng) >> 63 ? r->most : -r->most - 1);
}

static void set_lane(PtReplicas *p, unsigned replica, double t) {
        unsigned lane = replica % p->lanes;
        void *threshold = p->threshold[replica / p->lanes];
        int64_t column[ANNEAL_DRAWS]; /* room for any type */

        p->kernels->anneal_thresholds[p->type](column, p->logs, ANNEAL_DRAWS, (float) t);
        for (size_t i = 0; i < ANNEAL_DRAWS; i++)
                width_put(threshold, 1U << p->type, i * p->lanes + lane,
                          width_get(column, 1U << p->type, (i + lane * LANE_SHIFT) % ANNEAL_DRAWS));
}

static int init_block(PtReplicas *p, unsigned block, uint64_t seed) {
        size_t bytes = ((size_t) p->q->n + 1) * ANNEAL_VECTOR;
        AnnealLanes *a = &p->block[block];

        p->threshold[block] = aligned_alloc(ANNEAL_VECTOR, (size_t) ANNEAL_DRAWS * ANNEAL_VECTOR);
        *a = (AnnealLanes){
                .rows = p->rows,
                .field = aligned_alloc(ANNEAL_VECTOR, bytes),
                .spin = aligned_alloc(ANNEAL_VECTOR, bytes),
                .threshold = p->threshold[block],
                .draw = p->lanes,
        };
        if (!a->field || !a->spin || !p->threshold[block])
                return -ENOMEM;
        scatter(p, block, seed);
        return 0;
}

int pt_init(PtReplicas *p, const Qubo *q, const Kernels *kernels, uint64_t seed, unsigned sets, Limit *l) {
        int r;

        *p = (PtReplicas){ .q = q, .kernels = kernels, .sets = sets };
        p->logs = anneal_logs(seed);
        p->queue = calloc((size_t) q->n + 1, sizeof(*p->queue));
        p->mark = calloc((size_t) q->n + 1, 1);
        if (!p->logs || !p->queue || !p->mark)
                return -ENOMEM;
        r = rows_new_within(q, l, &p->rows);
        if (r < 0)
                return r;
        p->type = anneal_type(p->rows);
        p->lanes = anneal_lanes(p->rows);
        p->temps = p->rows->width <= 2 ? TEMPS_NARROW : TEMPS_WIDE;
        p->blocks = p->temps * sets / p->lanes;
        for (unsigned k = 0; k < p->blocks; k++) {
                r = init_block(p, k, seed);
                if (r < 0)
                        return r;
                if (l && limit_work(l, 16 * (uint64_t) q->n))
                        return -ECANCELED;
        }
        for (unsigned s = 0; s < sets; s++)
                for (unsigned k = 0; k < p->temps; k++)
                        p->at[s][k] = (uint8_t) (s * p->temps + k);
        rng_seed(&p->rng, seed, 0);
        return 0;
}

void pt_done(PtReplicas *p) {
        for (unsigned k = 0; k < p->blocks; k++) {
                free(p->block[k].field);
                free(p->block[k].spin);
                free(p->threshold[k]);
        }
        rows_free(p->rows);
        free(p->logs);
        free(p->queue);
        free(p->mark);
        *p = (PtReplicas){};
}

void pt_set_temperatures(PtReplicas *p, const double *t) {
        memcpy(p->t, t, p->temps * sizeof(*t));
        memset(p->rejected, 0, sizeof(p->rejected));
        p->rounds = 0;
        for (unsigned s = 0; s < p->sets; s++)
                for (unsigned k = 0; k < p->temps; k++)
                        set_lane(p, p->at[s][k], t[k]);
}

uint32_t pt_sweep(PtReplicas *p, unsigned block, uint32_t from, uint32_t to) {
        return p->kernels->anneal_lanes[p->type](&p->block[block], from, to);
}

void pt_measure(PtReplicas *p) {
        for (unsigned k = 0; k < p->blocks; k++) {
                int64_t twice[ANNEAL_LANES_MAX];

                p->kernels->anneal_energies[p->type](&p->block[k], twice);
                for (unsigned i = 0; i < p->lanes; i++)
                        p->energy[k * p->lanes + i] = twice[i] / 2;
        }
}

static void exchange(PtReplicas *p, unsigned set, unsigned k) {
        uint8_t *cold = &p->at[set][k], *hot = &p->at[set][k + 1], was = *cold;
        double gain = (1 / p->t[k] - 1 / p->t[k + 1]) * (double) (p->energy[*cold] - p->energy[*hot]);
        double u = ((double) (rng_next(&p->rng) >> 11) + 0.5) * 0x1p-53, pass = gain < 0 ? exp(gain) : 1;

        p->rejected[k] += 1 - pass;
        if (u >= pass)
                return;
        *cold = *hot;
        *hot = was;
        set_lane(p, *cold, p->t[k]);
        set_lane(p, *hot, p->t[k + 1]);
}

void pt_exchange(PtReplicas *p, unsigned parity) {
        for (unsigned s = 0; s < p->sets; s++)
                for (unsigned k = parity % 2; k + 1 < p->temps; k += 2)
                        exchange(p, s, k);
        p->rounds++;
}

void pt_even_out(PtReplicas *p) {
        double sum[PT_TEMPS_MAX] = {}, t[PT_TEMPS_MAX], each = (double) p->rounds * p->sets / 2;

        for (unsigned k = 0; k + 1 < p->temps; k++)
                sum[k + 1] = sum[k] + fmax(p->rejected[k] / each, LEAST_REJECTED);
        for (unsigned k = 0, j = 0; k < p->temps; k++) {
                double want = sum[p->temps - 1] * k / (p->temps - 1);

                while (j + 2 < p->temps && sum[j + 1] < want)
                        j++;
                t[k] = p->t[j] * pow(p->t[j + 1] / p->t[j], fmin((want - sum[j]) / (sum[j + 1] - sum[j]), 1));
        }
        t[0] = p->t[0];
        t[p->temps - 1] = p->t[p->temps - 1];
        pt_set_temperatures(p, t);
}

/* Marks what differs (1), and the cluster of one such variable (2), which is in the queue; tells its size. */
static uint32_t find_cluster(PtReplicas *p, unsigned a, unsigned b, uint32_t *ret_differ) {
        uint32_t n = p->q->n, differ = 0, size = 0, pick;
        const Rows *r = p->rows;

        for (uint32_t i = 0; i < n; i++) {
                p->mark[i] = is_one(p, a, i) != is_one(p, b, i);
                if (p->mark[i])
                        p->queue[differ++] = i;
        }
        *ret_differ = differ;
        if (differ == 0)
                return 0;
        pick = p->queue[rng_below(&p->rng, differ)];
        p->queue[size++] = pick;
        p->mark[pick] = 2;
        for (uint32_t at = 0; at < size; at++)
                for (size_t k = r->first[p->queue[at]]; k < r->first[p->queue[at] + 1]; k++)
                        if (p->mark[r->col[k]] == 1) {
                                p->mark[r->col[k]] = 2;
                                p->queue[size++] = r->col[k];
                        }
        return size;
}

uint32_t pt_cluster(PtReplicas *p, unsigned temp) {
        unsigned a = p->at[0][temp], b = p->at[1][temp];
        uint32_t differ, size = find_cluster(p, a, b, &differ);
        uint8_t which = size > differ / 2 ? 1 : 2;

        for (uint32_t i = 0; i < p->q->n; i++)
                if (p->mark[i] == which) {
                        flip(p, a, i);
                        flip(p, b, i);
                }
        return which == 2 ? size : differ - size;
}
