/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices a process holds: open file descriptors against the compute nodes of this host. */
#pragma once

#include "policy/snapshot.h"

typedef struct DeviceNode {
        char *path;      /* as on this host: "/dev/davinci3" */
        dev_t rdev;      /* 0: no such node here, only the path is compared */
        unsigned device; /* index into the snapshot's devices; TOPOLOGY_NONE unknown */
        bool opens;      /* holding it makes a task; a render node alone does not, without the compute node beside it */
        const char *kind; /* borrowed; NULL unknown */
        unsigned number;  /* in its name; UINT_MAX none */
} DeviceNode;

typedef struct NodeTable { /* made anew at each tick: nodes come and go with drivers */
        char *root;
        DeviceNode *nodes;
        size_t n_nodes;
        char **globs; /* all patterns, for paths that are no node on this host */
        const Snapshot *snapshot;
} NodeTable;

int node_table_read(const char *root, char *const *globs, const Snapshot *s, NodeTable *ret);
void node_table_done(NodeTable *t);
/* Nothing on this host can be held: no need to look. */
bool node_table_empty(const NodeTable *t);

typedef struct Holding {
        bool compute;      /* holds a compute node */
        unsigned *devices; /* sorted, each once */
        size_t n_devices;
} Holding;

/* -ESRCH gone, -EACCES not ours to look at. */
int holding_read(const NodeTable *t, int proc_fd, pid_t pid, Holding *ret);
void holding_done(Holding *h);
/* Narrows what is held (or, when nothing is held yet, foretells it) by what the environment makes visible. */
int holding_apply_environ(const NodeTable *t, int proc_fd, pid_t pid, const char *block, size_t size, Holding *h);
