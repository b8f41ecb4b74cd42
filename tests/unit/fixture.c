/* SPDX-License-Identifier: Apache-2.0 */
/* See fixture.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/text.h"
#include "fixture.h"

static char *print(const char *format, ...) {
        va_list ap;
        char *s;

        va_start(ap, format);
        assert_true(vasprintf(&s, format, ap) >= 0);
        va_end(ap);
        return s;
}

static void fill_distances(Topology *t, const Shape *shape) {
        for (unsigned a = 0; a < t->n_nodes; a++)
                for (unsigned b = 0; b < t->n_nodes; b++)
                        t->distance[a * t->n_nodes + b] = a == b ? 10
                                                          : a / shape->nodes == b / shape->nodes
                                                                  ? (shape->near > 0 ? shape->near : 12)
                                                                  : (shape->far > 0 ? shape->far : 24);
}

Topology *fixture_topology(const Shape *shape) {
        Topology *t = calloc(1, sizeof(Topology));
        unsigned per_node = shape->cores * shape->smt;

        assert_non_null(t);
        t->source = print("fixture");
        t->n_nodes = shape->packages * shape->nodes;
        t->n_cpus = t->n_nodes * per_node;
        t->cpus = calloc(t->n_cpus, sizeof(TopologyCpu));
        t->nodes = calloc(t->n_nodes, sizeof(TopologyNode));
        t->distance = calloc((size_t) t->n_nodes * t->n_nodes, sizeof(double));
        t->distances_known = true;
        for (unsigned i = 0; i < t->n_cpus; i++) {
                unsigned node = i / per_node;

                t->cpus[i] = (TopologyCpu){ .os = i,
                                            .node = node,
                                            .package = node / shape->nodes,
                                            .l3 = node,
                                            .cluster = TOPOLOGY_NONE,
                                            .core = i / shape->smt,
                                            .smt = i % shape->smt };
                assert_int_equal(bitset_set(&t->online, i), 0);
                assert_int_equal(bitset_set(&t->allowed, i), 0);
                assert_int_equal(bitset_set(&t->nodes[node].cpus, i), 0);
        }
        for (unsigned n = 0; n < t->n_nodes; n++) {
                t->nodes[n].os = n;
                t->nodes[n].memory = shape->memory ? shape->memory : UINT64_C(64) << 30;
                t->nodes[n].free = UINT64_MAX;
                t->nodes[n].allowed = true;
                t->nodes[n].bandwidth = t->nodes[n].latency = NAN;
                assert_int_equal(bitset_set(&t->allowed_nodes, n), 0);
        }
        fill_distances(t, shape);
        return t;
}

Snapshot *fixture_snapshot(const Shape *shape) {
        Snapshot *s;

        assert_int_equal(snapshot_new(&s), 0);
        s->owned_topology = fixture_topology(shape);
        s->topology = s->owned_topology;
        return s;
}

void fixture_devices(Snapshot *s, const char *kind, const char *prefix, unsigned per_node) {
        for (unsigned i = 0; i < per_node * s->topology->n_nodes; i++) {
                Device *d = snapshot_add_device(s);

                assert_non_null(d);
                d->name = print("%s%u", prefix, i);
                d->kind = print("%s", kind);
                d->node = i / per_node;
                d->health = HEALTH_OK;
        }
}

void fixture_link(Snapshot *s, unsigned a, unsigned b, LinkType type, double bandwidth) {
        Link *l = snapshot_add_link(s);

        assert_non_null(l);
        *l = (Link){ a, b, type, bandwidth };
}

Task *fixture_task(Snapshot *s, pid_t pid, const char *cpus, const char *allowed) {
        Task *t = snapshot_add_task(s);

        assert_non_null(t);
        t->pid = pid;
        t->start_time = 1000 + (uint64_t) pid;
        t->name = print("task%d", pid);
        t->comm = print("task%d", pid);
        t->threads = 1;
        assert_int_equal(bitset_parse(cpus, &t->cpus), 0);
        assert_int_equal(bitset_parse(allowed, &t->allowed_cpus), 0);
        return t;
}

Job *fixture_job(const char *name, unsigned count, unsigned cpus, const char *kind, unsigned n_devices) {
        Job *j = calloc(1, sizeof(Job));

        assert_non_null(j);
        j->name = print("%s", name);
        j->priority = 50;
        j->ranks = calloc(1, sizeof(Ranks));
        j->n_ranks = 1;
        j->ranks[0] = (Ranks){ .count = count, .cpus = cpus, .min_cpus = 1, .n_devices = n_devices };
        if (kind)
                j->ranks[0].device_kind = print("%s", kind);
        return j;
}

void fixture_parallel(Job *j, unsigned tp, unsigned pp, unsigned dp, double tp_bytes, double pp_bytes,
                      double dp_bytes) {
        j->traffic = (Traffic){ .kind = TRAFFIC_PARALLEL,
                                .tp = tp,
                                .pp = pp,
                                .dp = dp,
                                .tp_bytes = tp_bytes,
                                .pp_bytes = pp_bytes,
                                .dp_bytes = dp_bytes };
}

Plan *fixture_decide(const Snapshot *s, Job *const *jobs, size_t n, const char *solver) {
        _cleanup_free_ char *message = NULL;
        DecideParams p;
        Plan *plan = NULL;
        int r;

        decide_params_default(&p);
        p.solver = solver;
        p.sweeps = streq(solver, "exact") ? 0 : 2000; /* an oracle runs to its end */
        r = decide(s, (const Job *const *) jobs, n, &p, &plan, &message);
        if (r < 0)
                fail_msg("decide: %s: %s", strerror(-r), strempty(message));
        return plan;
}

void fixture_check_plan(const Snapshot *s, const Plan *p, bool disjoint) {
        _cleanup_(bitset_done) Bitset seen = BITSET_EMPTY;
        const Topology *t = s->topology;

        assert_true(p->feasible);
        for (size_t i = 0; i < p->n_tasks; i++) {
                const PlanTask *k = p->tasks + i;
                const Task *task = k->process.pid ? snapshot_task(s, k->process.pid) : NULL;

                assert_false(bitset_isempty(&k->cpus));
                assert_true(bitset_subset(&k->cpus, &t->online));
                assert_true(bitset_subset(&k->cpus, task ? &task->allowed_cpus : &t->allowed));
                if (!task)
                        assert_false(bitset_intersects(&k->cpus, &p->housekeeping));
                if (disjoint)
                        assert_false(bitset_intersects(&k->cpus, &seen));
                assert_int_equal(bitset_or(&seen, &k->cpus), 0);
                assert_false(bitset_isempty(&k->mems));
                BITSET_FOREACH (node, &k->mems) {
                        unsigned n = topology_node_by_os(t, (unsigned) node);

                        assert_true(n != TOPOLOGY_NONE && t->nodes[n].memory > 0);
                }
        }
}
