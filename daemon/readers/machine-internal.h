/* SPDX-License-Identifier: Apache-2.0 */
/* What machine.c, machine-topology.c and machine-check.c share; for nobody else but tests and fuzzers. */
#pragma once

#include <hwloc.h>

#include "policy/topology.h"

#define MACHINE_XML_MAX (16U << 20)    /* bytes of hwloc XML; a host with 1,000 CPUs has 2 MiB */
#define MACHINE_GUARD_MEMORY (2ULL << 30) /* address space a load of an outside file may take */
#define MACHINE_GUARD_SECONDS 30U      /* a captured host with 1,000 CPUs takes 2 s */

typedef struct MachineSource {
        const char *label;  /* "this system", or the path, for messages */
        const char *fsroot; /* "" this system, directory of a captured one; NULL: XML */
        const char *xml;    /* NULL: not XML */
        size_t size;
        bool this_system;
} MachineSource;

/* hwloc's view -> ours. machine-topology.c */
int machine_convert(hwloc_topology_t h, const MachineSource *source, Topology **ret, char **ret_message);

/* Reads outside XML before hwloc does, refuses what hwloc 2.x crashes or swells on, and writes all that is left in the
 * plain form that hwloc's own parser takes. machine-check.c */
int machine_check_xml(const char *label, const char *xml, size_t size, char **ret, size_t *ret_size, char **ret_message);

/* Runs try(userdata) in a forked child with bounded memory and time and a silent stderr. 0 when it returned 0, else
 * -EBADMSG and a sentence. Costs the work twice, so it is for outside files only. machine-check.c */
int machine_guard(const char *label, int (*try)(void *userdata), void *userdata, char **ret_message);
