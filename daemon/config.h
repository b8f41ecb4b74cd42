/* SPDX-License-Identifier: Apache-2.0 */
/* qschedd.conf(5): one table with bounds and prose; /etc/qsched/qschedd.conf, then qschedd.conf.d/ *.conf by name. */
#pragma once

#include "common/ini.h"
#include "daemon/move-pages.h"
#include "daemon/readers/devices.h"
#include "daemon/readers/rolefile.h"
#include "policy/decide.h"

typedef struct Config {
        /* [Daemon] */
        uint64_t interval_usec; /* tick */
        char *log_level;
        /* [Tasks] */
        char **device_nodes; /* further globs of compute nodes */
        char **ignore;       /* comm globs */
        /* [Devices] */
        char **pci_ids; /* "1234:11e8=edu" */
        /* [Placement] */
        int housekeeping_cores; /* -1 auto */
        Bitset housekeeping_cpus;
        double hysteresis;      /* share of the energy before */
        uint64_t hold_off_usec; /* no automatic re-plan sooner after the last change */
        double temperature_target;
        bool thread_roles; /* a rank's CPUs are split between its threads by `roles` */
        /* [Enforce] */
        char *drift;     /* drift_policy_names[] */
        bool interrupts; /* vectors of a plan's devices go to the CPUs it keeps for them */
        /* [Memory] */
        bool move;
        MoveParams move_params;
        /* [Solver] */
        char *solver;
        uint64_t budget_usec;
        unsigned seed;
        /* [Weights]: Alpha Beta Gamma Delta and one key per placement term, made from placement_terms[] */
        PlacementWeights weights;
        DeviceText devices;
        Roles roles; /* [Role NAME] over the built-in ones */
} Config;

extern const ConfigItem config_items[]; /* all but the terms' weights */

typedef struct ConfigTable { /* config_items[] and a row per placement term: "memory_distance" is MemoryDistance= */
        ConfigItem *items;
        char **strings; /* that the rows point to */
} ConfigTable;

int config_table(ConfigTable *ret);
void config_table_done(ConfigTable *t);

/* path NULL: the compiled-in default, whose absence is no error; a named one must exist. Then PATH.d/ *.conf, if there
 * is such a directory. devices_path may be NULL. Errors with a sentence; *ret is only set on success. */
int config_load(const char *path, const char *devices_path, Config **ret, char **ret_message);
Config *config_free(Config *c);
DEFINE_CLEANUP(Config *, config_free);
int config_print(
        FILE *f); /* --print-config: every key commented out with default, range and help; is the shipped file */
