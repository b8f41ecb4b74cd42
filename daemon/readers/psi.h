/* SPDX-License-Identifier: Apache-2.0 */
/* Pressure stall information: how long tasks waited for memory lately, of the host and of a cgroup (v2 only). Shares
 * are percent of the last ten or sixty seconds. A kernel without it (no CONFIG_PSI, psi=0) is -ENODATA, no error. */
#pragma once

#include "common/macro.h"

typedef struct Psi {
        double some_avg10, some_avg60;   /* at least one task waited */
        double full_avg10, full_avg60;   /* all did */
        uint64_t some_total, full_total; /* usec since boot */
} Psi;

int psi_parse(const char *text, Psi *ret); /* -EBADMSG */
int psi_read(const char *path, Psi *ret);
/* Memory, of the host: ROOT/proc/pressure/memory. */
int psi_memory(const char *root, Psi *ret);
/* Memory, of a cgroup by its directory, as CgroupInfo.memory_directory tells. */
int psi_memory_group(const char *directory, Psi *ret);
