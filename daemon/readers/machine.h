/* SPDX-License-Identifier: Apache-2.0 */
/* hwloc -> Topology: the running system, an hwloc XML file, a captured /sys (a directory), or the XML in a record. */
#pragma once

#include <jansson.h>

#include "policy/topology.h"

int machine_read_this_system(Topology **ret, char **ret_message);
/* Live free memory of each node (nodeX/meminfo), so that a cached Topology tells the truth at each tick. */
int machine_refresh_memory(Topology *t);
int machine_read_xml(const char *label, const char *xml, size_t size, Topology **ret, char **ret_message);
/* What --machine takes: XML file, directory with sys/devices/system/cpu in it or in one of its subdirectories (asserts
 * is_thissystem == 0), or a record, recognised by content; for a record *ret_record is the parsed JSON (else NULL).
 * Errors with a sentence. */
int machine_read_path(const char *path, Topology **ret, json_t **ret_record, char **ret_message);
/* XML of the running system, for a record. */
int machine_export_xml(char **ret, char **ret_message);
