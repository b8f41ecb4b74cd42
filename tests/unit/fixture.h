/* SPDX-License-Identifier: Apache-2.0 */
/* Machines, devices, tasks and jobs made in code, for tests of policy/ that must not depend on a reader. */
#pragma once

#include <errno.h>

#include "policy/decide.h"

typedef struct Shape {
        unsigned packages, nodes, cores, smt; /* nodes per package, cores per node */
        double near, far;                     /* SLIT within a package and across; 0: 12 and 24 */
        uint64_t memory;                      /* per node; 0: 64 GiB */
} Shape;

/* CPU numbers run through threads, then cores, then nodes: node 0 has 0 .. cores*smt-1. */
Topology *fixture_topology(const Shape *shape);
Snapshot *fixture_snapshot(const Shape *shape);
/* `per_node` devices of a kind on each node, named PREFIX0.. */
void fixture_devices(Snapshot *s, const char *kind, const char *prefix, unsigned per_node);
void fixture_link(Snapshot *s, unsigned a, unsigned b, LinkType type, double bandwidth);
Task *fixture_task(Snapshot *s, pid_t pid, const char *cpus, const char *allowed);
/* One [Ranks] section; change what differs afterwards. */
Job *fixture_job(const char *name, unsigned count, unsigned cpus, const char *kind, unsigned n_devices);
void fixture_parallel(Job *j, unsigned tp, unsigned pp, unsigned dp, double tp_bytes, double pp_bytes, double dp_bytes);
/* Asserts that it works; names the failure. */
Plan *fixture_decide(const Snapshot *s, Job *const *jobs, size_t n, const char *solver);
/* cmocka assertions on what must hold for every feasible plan. */
void fixture_check_plan(const Snapshot *s, const Plan *p, bool disjoint);
