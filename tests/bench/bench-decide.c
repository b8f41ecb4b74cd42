/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time from snapshot to plan, by size, on machines made in code: median and p99 of N runs with different seeds, the
 * worst energy of the seeds against the bound, and what ran. Time is CPU time of the thread, so that what else runs
 * here does not count. Not a test: nothing fails on a clock.
 *
 *   bench-decide [RUNS [SOLVER [TEXT [SWEEPS]]]]      31 runs of auto; only sizes with TEXT in their name
 *
 * "running": the ranks are processes that may run everywhere, as nobody has placed them yet.
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
        unsigned more;   /* ranks of a second job, without devices */
        bool is_running; /* that many processes match */
} sizes[] = {
        { "2 sockets, 4 nodes, 8 devices, 8 ranks", { 2, 2, 32, 1, 0, 0, 0 }, 2, 8, 4, 2, 1, 0, false },
        { "4 sockets, 8 nodes, 16 devices, 16 ranks", { 4, 2, 40, 2, 0, 0, 0 }, 2, 16, 8, 2, 1, 0, false },
        { "the same, no traffic", { 4, 2, 40, 2, 0, 0, 0 }, 2, 16, 0, 0, 0, 0, false },
        { "the same, no devices", { 4, 2, 40, 2, 0, 0, 0 }, 0, 16, 0, 0, 0, 0, false },
        { "8 nodes, 64 devices, 64 ranks", { 4, 2, 40, 2, 0, 0, 0 }, 8, 64, 8, 8, 1, 0, false },
        { "8 nodes, 64 devices, 64 ranks and 64 more", { 4, 2, 40, 2, 0, 0, 0 }, 8, 64, 8, 8, 1, 64, false },
        { "8 nodes, 128 ranks without devices", { 4, 2, 40, 2, 0, 0, 0 }, 0, 128, 0, 0, 0, 0, false },
        { "8 nodes, 500 ranks without devices", { 4, 2, 40, 2, 0, 0, 0 }, 0, 500, 0, 0, 0, 0, false },
        { "8 nodes, 500 ranks, running", { 4, 2, 40, 2, 0, 0, 0 }, 0, 500, 0, 0, 0, 0, true },
        { "2 CPUs, 500 ranks", { 1, 1, 2, 1, 0, 0, 0 }, 0, 500, 0, 0, 0, 0, false },
        { "2 CPUs, 500 ranks, running", { 1, 1, 2, 1, 0, 0, 0 }, 0, 500, 0, 0, 0, 0, true },
        { "8 nodes, 1000 ranks, running, sharing CPUs", { 4, 2, 40, 2, 0, 0, 0 }, 0, 1000, 0, 0, 0, 0, true },
};

static uint64_t microseconds(void *userdata) {
        struct timespec ts;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
        return (uint64_t) ts.tv_sec * 1000000 + (uint64_t) ts.tv_nsec / 1000;
}

static int u64_cmp(const void *a, const void *b) {
        return CMP(*(const uint64_t *) a, *(const uint64_t *) b);
}

static void make_running(Snapshot *s, unsigned n) {
        _cleanup_free_ char *all = NULL;

        if (bitset_format(&s->topology->online, &all) < 0)
                return;
        for (unsigned i = 0; i < n; i++) {
                Task *t = fixture_task(s, (pid_t) (1000 + i), all, all);

                t->job = strdup("bench");
                t->cpu_use = 0.1;
        }
}

static Snapshot *make(size_t i, Job *jobs[static 2]) {
        Snapshot *s = fixture_snapshot(&sizes[i].shape);
        unsigned n = sizes[i].devices_per_node * s->topology->n_nodes;

        if (n > 0)
                fixture_devices(s, "ascend", "npu", sizes[i].devices_per_node);
        for (unsigned a = 0; a < n; a++)
                for (unsigned b = a + 1; b < n; b++)
                        if (a * 4 / n == b * 4 / n)
                                fixture_link(s, a, b, LINK_HCCS, 30e9);
        jobs[0] = fixture_job("bench", sizes[i].ranks, 0, n > 0 ? "ascend" : NULL, n > 0);
        if (sizes[i].tp)
                fixture_parallel(jobs[0], sizes[i].tp, sizes[i].pp, sizes[i].dp, 10e9, 1e9, 1e9);
        jobs[1] = fixture_job("more", sizes[i].more, 0, NULL, 0);
        if (sizes[i].is_running)
                make_running(s, sizes[i].ranks);
        return s;
}

typedef struct Measured {
        uint64_t *times;
        double energy, bound;
        bool changed;
        const char *ran;
} Measured;

static int measure(size_t i, unsigned runs, const char *solver, uint64_t sweeps, Measured *m) {
        Job *jobs[2];
        _cleanup_(snapshot_freep) Snapshot *s = make(i, jobs);
        int r = 0;

        m->energy = -INFINITY;
        m->bound = INFINITY;
        for (unsigned k = 0; k < runs && r >= 0; k++) {
                _cleanup_(plan_freep) Plan *plan = NULL;
                DecideParams p;

                decide_params_default(&p);
                p.clock = microseconds;
                p.seed = k + 1;
                p.solver = solver;
                p.sweeps = sweeps;
                r = decide(s, (const Job *const *) jobs, sizes[i].more ? 2 : 1, &p, &plan, NULL);
                if (r < 0)
                        break;
                m->times[k] = plan->elapsed_us;
                m->energy = MAX(m->energy, plan->energy.total); /* the worst of the seeds */
                m->bound = MIN(m->bound, plan->lower_bound);
                m->changed = plan->changed;
                m->ran = plan->feasible ? plan->solver : "infeasible";
        }
        qsort(m->times, runs, sizeof(uint64_t), u64_cmp);
        job_free(jobs[0]);
        job_free(jobs[1]);
        return r;
}

int main(int argc, char **argv) {
        unsigned runs = argc > 1 ? (unsigned) MAX(atoi(argv[1]), 1) : 31;
        _cleanup_free_ uint64_t *times = calloc(runs, sizeof(uint64_t));

        setvbuf(stdout, NULL, _IOLBF, 0);
        printf("%u runs: ", runs);
        for (int i = 0; i < argc; i++)
                printf("%s ", argv[i]);
        printf("\n%-42s %11s %11s %12s %12s  %s\n", "size", "median", "p99", "energy", "bound", "solver");
        for (size_t i = 0; times && i < ELEMENTSOF(sizes); i++) {
                Measured m = { .times = times, .ran = "" };

                if (argc > 3 && !strstr(sizes[i].name, argv[3]))
                        continue;
                if (measure(i, runs, argc > 2 ? argv[2] : "auto", argc > 4 ? strtoull(argv[4], NULL, 10) : 0, &m) < 0)
                        return EXIT_FAILURE;
                printf("%-42s %8.2f ms %8.2f ms %12.4f %12.4f  %s%s\n", sizes[i].name, (double) times[runs / 2] / 1000,
                       (double) times[(runs - 1) * 99 / 100] / 1000, m.energy, m.bound, m.ran,
                       m.changed ? "" : ", as it is");
        }
        return EXIT_SUCCESS;
}
