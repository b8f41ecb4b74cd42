/* SPDX-License-Identifier: Apache-2.0 */
/* All readers -> one Snapshot. Keeps what is expensive to read (the machine) between ticks. */
#pragma once

#include "daemon/config.h"
#include "daemon/readers/machine.h"
#include "daemon/readers/tasks.h"

typedef struct Collector Collector;

int collector_new(const Config *config, Collector **ret, char **ret_message); /* borrows config */
Collector *collector_free(Collector *c);
DEFINE_CLEANUP(Collector *, collector_free);
void collector_set_config(Collector *c, const Config *config);
/* Are the devices that a configuration describes possible on this machine? */
int collector_check(const Collector *c, const Config *config, char **ret_message);
int collector_reload_machine(Collector *c, char **ret_message);
/* 1: it is another machine than at the last look, with a sentence for each thing that changed; 0. Reads no topology. */
int collector_watch(Collector *c, char ***messages);
const Bitset *collector_online(const Collector *c); /* CPUs, at that look */
const Topology *collector_topology(const Collector *c);
const Cgroups *collector_cgroups(const Collector *c);
/* XML of the machine as it was last read, for a record; the collector's. */
int collector_xml(Collector *c, const char **ret, char **ret_message);

typedef struct CollectParams {
        const Job *const *jobs;
        const uid_t *job_users; /* by job: TASK_ANY_USER, or whose tasks alone fill its ranks */
        size_t n_jobs;
        const Process *extra; /* looked at in any case */
        const char *const *extra_jobs;
        size_t n_extra;
        bool solving;  /* a solver reads the machine: its free memory is left as it is */
        bool keep_use; /* not the tick: CPU use is counted from tick to tick */
} CollectParams;

int collect(Collector *c, const CollectParams *p, Snapshot **ret, char **ret_message);
