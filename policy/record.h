/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record: one JSON text holds machine, devices, tasks and samples (qsched.record(5)); what `dump` prints, what a
 * bug report attaches and what a test replays. Its machine is hwloc XML, which policy cannot read: the reader in
 * daemon/readers/machine.c makes the Topology from record_machine_xml() and passes it in.
 */
#pragma once

#include <jansson.h>

#include "policy/snapshot.h"

#define RECORD_FORMAT "qsched-record-1"

/* Checks the format and returns the machine's XML (borrowed from root). -EBADMSG and a sentence. */
int record_machine_xml(const json_t *root, const char **ret, char **ret_message);
/* topology: owned by the new snapshot on success. Bad or inconsistent members are -EBADMSG and a sentence naming the
 * member ("tasks[3].devices[0]: no device \"npu9\""). Unknown members are ignored (a later version may have more). */
int record_to_snapshot(const json_t *root, Topology *topology, Snapshot **ret, char **ret_message);
/* The same in two steps, for one who adds devices between them: all but the tasks, then these, whose devices may be
 * any that the snapshot has by then. */
int record_to_host(const json_t *root, Topology *topology, Snapshot **ret, char **ret_message);
int record_add_tasks(const json_t *root, Snapshot *s, char **ret_message);
int record_from_snapshot(const Snapshot *s, const char *machine_xml, json_t **ret);
json_t *record_device(const Snapshot *s, const Device *d); /* one element, also used by status; NULL on OOM */
/* {"NODE":n} by the kernel's numbers, without those of the value `unknown`. */
json_t *record_by_node(const Topology *t, const uint64_t *values, uint64_t unknown);
json_t *record_link(const Snapshot *s, const Link *l);
json_t *record_task(const Snapshot *s, const Task *t);
