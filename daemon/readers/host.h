/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is on a host beside its machine: devices, tasks, CPUs that kubelet hands out, and which task fills which rank.
 * One order of steps for the daemon's ticks and for qschedctl's plans without it, so that both decide on the same.
 */
#pragma once

#include "daemon/readers/devices.h"
#include "daemon/readers/tasks.h"

/* Programs that never are tasks although they hold device nodes: the default of qschedd.conf's Ignore=. */
#define HOST_IGNORE_DEFAULT                                                                                            \
        "*-smi ixsmi cnmon *exporter* *device-p* dcgm* nv-hostengine nvidia-persiste* ascend-docker-* hccn_tool "      \
        "msnpureport"

/* Fills a snapshot that has its topology. root: where var/lib/kubelet is, "" for this system; the reader has its own.
 * On failure a sentence, except when out of memory. */
int host_read(const char *root, const DeviceText *devices, TaskReader *reader, const TaskReadParams *p, Snapshot *s,
              char **ret_message);
