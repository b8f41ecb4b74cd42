/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is the machine still the one that was read? A fingerprint of what a topology is made of, cheap enough for each tick:
 * four one-line files, this process's own cpuset, the names in one directory, and the node of each function that is a
 * device. Polled, since the daemon opens no netlink socket.
 */
#pragma once

#include "common/bitset.h"

typedef struct MachineWatch MachineWatch;

int machine_watch_new(const char *root, MachineWatch **ret); /* root "" for this system; looks for the first time */
MachineWatch *machine_watch_free(MachineWatch *w);
DEFINE_CLEANUP(MachineWatch *, machine_watch_free);
/* functions: PCI addresses of the devices, whose node is looked at; one that was not asked for before is no change. 1: another
 * machine than at the last look, a sentence for each thing that changed is appended to *messages; 0 the same. */
int machine_watch_look(MachineWatch *w, char *const *functions, char ***messages);
const Bitset *machine_watch_online(const MachineWatch *w); /* CPUs, at the last look */
