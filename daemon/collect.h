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
const Topology *collector_topology(const Collector *c);
const Cgroups *collector_cgroups(const Collector *c);
int collect(Collector *c, const Job *const *jobs, size_t n_jobs, const Process *extra, const char *const *extra_jobs,
            size_t n_extra, Snapshot **ret, char **ret_message);
