/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time from snapshot to plan, by size, on machines made in code: median and worst of N runs with different seeds, the
 * energy against the bound, and what ran. Not a test: nothing fails on a clock. Usage: bench-decide [RUNS [SOLVER]]
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "common/text.h"
#include "../unit/fixture.h"

static const struct {
        const char *name;
        Shape shape;
        unsigned devices_per_node, ranks, tp, pp, dp;
} sizes[] = {
        { "2 sockets, 4 nodes, 8 devices, 8 ranks", { 2, 2, 32, 1, 0, 0, 0 }, 2, 8, 4, 2, 1 },
        { "4 sockets, 8 nodes, 16 devices, 16 ranks", { 4, 2, 40, 2, 0, 0, 0 }, 2, 16, 8, 2, 1 },
        { "the same, no traffic", { 4, 2, 40, 2, 0, 0, 0 }, 2, 16, 0, 0, 0 },
        { "the same, no devices", { 4, 2, 40, 2, 0, 0, 0 }, 0, 16, 0, 0, 0 },
        { "8 nodes, 64 devices, 64 ranks", { 4, 2, 40, 2, 0, 0, 0 }, 8, 64, 8, 8, 1 },
        { "8 nodes, 128 ranks without devices", { 4, 2, 40, 2, 0, 0, 0 }, 0, 128, 0, 0, 0 },
};

static uint64_t microseconds(void *userdata) {
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t) ts.tv_sec * 1000000 + (uint64_t) ts.tv_nsec / 1000;
}

static int u64_cmp(const void *a, const void *b) {
        return CMP(*(const uint64_t *) a, *(const uint64_t *) b);
}

static Snapshot *make(size_t i, Job **ret_job) {
        Snapshot *s = fixture_snapshot(&sizes[i].shape);
        unsigned n = sizes[i].devices_per_node * s->topology->n_nodes;

        if (n > 0)
                fixture_devices(s, "ascend", "npu", sizes[i].devices_per_node);
        for (unsigned a = 0; a < n; a++)
                for (unsigned b = a + 1; b < n; b++)
                        if (a * 4 / n == b * 4 / n)
                                fixture_link(s, a, b, LINK_HCCS, 30e9);
        *ret_job = fixture_job("bench", sizes[i].ranks, 0, n > 0 ? "ascend" : NULL, n > 0);
        if (sizes[i].tp)
                fixture_parallel(*ret_job, sizes[i].tp, sizes[i].pp, sizes[i].dp, 10e9, 1e9, 1e9);
        return s;
}

int main(int argc, char **argv) {
        unsigned runs = argc > 1 ? (unsigned) atoi(argv[1]) : 11;
        _cleanup_free_ uint64_t *times = calloc(MAX(runs, 1U), sizeof(uint64_t));

        setvbuf(stdout, NULL, _IOLBF, 0);
        printf("%-42s %8s %8s %10s %10s  %s\n", "size", "median", "worst", "energy", "bound", "solver");
        for (size_t i = 0; times && i < ELEMENTSOF(sizes); i++) {
                _cleanup_(job_freep) Job *job = NULL;
                _cleanup_(snapshot_freep) Snapshot *s = make(i, &job);
                double energy = -INFINITY, bound = INFINITY;
                const char *ran = "";

                for (unsigned k = 0; k < runs; k++) {
                        _cleanup_(plan_freep) Plan *plan = NULL;
                        DecideParams p;

                        decide_params_default(&p);
                        p.clock = microseconds;
                        p.seed = k + 1;
                        p.solver = argc > 2 ? argv[2] : "auto";
                        if (decide(s, (const Job *const *) &job, 1, &p, &plan, NULL) < 0)
                                return EXIT_FAILURE;
                        times[k] = plan->elapsed_us;
                        energy = MAX(energy, plan->energy.total); /* the worst of the seeds */
                        bound = MIN(bound, plan->lower_bound);
                        ran = plan->solver;
                }
                qsort(times, runs, sizeof(uint64_t), u64_cmp);
                printf("%-42s %5.1f ms %5.1f ms %10.4f %10.4f  %s\n", sizes[i].name, (double) times[runs / 2] / 1000,
                       (double) times[runs - 1] / 1000, energy, bound, ran);
        }
        return EXIT_SUCCESS;
}
