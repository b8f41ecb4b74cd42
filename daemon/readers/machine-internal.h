/* SPDX-License-Identifier: Apache-2.0 */
/* What machine.c, machine-topology.c and machine-check.c share; for nobody else but tests and fuzzers. */
#pragma once

#include <hwloc.h>

#include "policy/topology.h"

#define MACHINE_XML_MAX (16U << 20)       /* bytes of hwloc XML; a host with 1,000 CPUs has 2 MiB */
#define MACHINE_GUARD_MEMORY (2ULL << 30) /* address space a load of an outside file may take */
#define MACHINE_GUARD_SECONDS 30U         /* a captured host with 1,000 CPUs takes 2 s */

typedef struct MachineSource {
        const char *label;  /* "this system", or the path, for messages */
        const char *fsroot; /* "" this system, directory of a captured one; NULL: XML */
        const char *xml;    /* NULL: not XML */
        size_t size;
        bool this_system;
} MachineSource;

/* hwloc's view -> ours. machine-topology.c */
int machine_convert(hwloc_topology_t h, const MachineSource *source, Topology **ret, char **ret_message);
/* Adds the PCI functions to a Topology that has its CPUs and nodes. machine-pci.c */
int machine_convert_pci(hwloc_topology_t h, const MachineSource *source, Topology *t);

/* First line of a file below the file system the machine came from; NULL when there is none (XML) or no such file. */
char *machine_source_read(const MachineSource *s, const char *path);

/* Reads outside XML before hwloc does, refuses what hwloc 2.x crashes or swells on, and writes all that is left in the
 * plain form that hwloc's own parser takes. machine-check.c */
int machine_check_xml(const char *label, const char *xml, size_t size, char **ret, size_t *ret_size,
                      char **ret_message);

/* Runs try(userdata) in a forked child with bounded memory and time and a silent stderr. 0 when it returned 0; else
 * -EBADMSG and the sentence it gave, or one that says that it crashed, swelled or did not end. Costs the work twice, so
 * it is for outside files only. machine-guard.c */
int machine_guard(const char *label, int (*try)(void *userdata, char **ret_message), void *userdata,
                  char **ret_message);
