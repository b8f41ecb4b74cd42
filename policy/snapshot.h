/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is true on one host at one moment: machine, devices, links, tasks. Made by daemon/collect.c (or read from a
 * record), const for everybody after, freed by its owner at the end of the tick. The current placement is part of it,
 * read back from the kernel: a plan is a difference against the truth.
 */
#pragma once

#include <math.h>
#include <sys/types.h>

#include "policy/topology.h"

typedef enum Health { HEALTH_UNKNOWN, HEALTH_OK, HEALTH_WARNING, HEALTH_ALARM, HEALTH_CRITICAL, _HEALTH_MAX } Health;
extern const char *const health_names[]; /* NULL-terminated, by Health */

typedef struct Device {
        char *name;    /* "npu0"; unique */
        char *kind;    /* "ascend", "cambricon", "hygon", "iluvatar", "nvidia", "amd", or what the configuration says */
        char *pci;     /* NULL: none */
        unsigned node; /* index into topology nodes; TOPOLOGY_NONE unknown: priced neutrally */
        char *root;    /* shared PCIe uplink, NULL unknown */
        uint64_t memory;    /* bytes of HBM; 0 unknown */
        double temperature; /* degrees C; NAN unknown, also below */
        double power;       /* W */
        double price;       /* per hour, any unit */
        Health health;
        char **nodes; /* device nodes that a task on it holds: "/dev/davinci0"; NULL unknown */
} Device;

typedef enum LinkType {
        LINK_SYS,
        LINK_PHB,
        LINK_PXB,
        LINK_PIX,
        LINK_SIO,
        LINK_HCCS,
        LINK_MLULINK,
        LINK_XGMI,
        LINK_NVLINK,
        _LINK_MAX
} LinkType;
extern const char *const link_names[]; /* "SYS", …, NULL-terminated, by LinkType */

typedef struct Link {  /* between two devices, both directions */
        unsigned a, b; /* indices into devices[] */
        LinkType type;
        double bandwidth; /* bytes/s; NAN unknown: the type's usual one is assumed */
} Link;

typedef struct Process {
        pid_t pid;
        uint64_t start_time; /* field 22 of /proc/PID/stat, clock ticks: with pid the identity of a process */
} Process;

typedef enum OwnerKind { /* whose cgroup it is in: who may have opinions on its CPUs */
                         OWNER_NONE,
                         OWNER_QSCHED,
                         OWNER_UNIT,
                         OWNER_SCOPE,
                         OWNER_POD,
                         OWNER_CONTAINER,
                         OWNER_SLURM,
                         OWNER_GROUP, /* a cgroup of somebody else: made by hand, or by a manager that is not known here */
                         _OWNER_MAX
} OwnerKind;
extern const char *const owner_names[];

typedef struct Task { /* a process that uses devices, was matched by a job, or was started by `qschedctl run` */
        pid_t pid;    /* 0 in a record: planned only */
        uint64_t start_time;
        uid_t uid;
        char *name;  /* "train/0" for a rank of a job, else the comm */
        char *job;   /* NULL: foreign */
        char *ranks; /* the [Ranks NAME] section it fills, NULL: any */
        char *comm;
        char *cmdline;     /* blanks between words; never logged, never recorded */
        int rank;          /* RANK and its relatives; -1 unknown */
        pid_t parent_task; /* pid of the task it is a descendant of; 0 none: such children belong to that rank */
        Process *children; /* descendants that go where it goes (data loaders), also those that are tasks themselves */
        size_t n_children;
        unsigned *devices; /* indices into snapshot devices */
        size_t n_devices;
        Bitset cpus;         /* what its threads may use now (union over threads) */
        Bitset allowed_cpus; /* what its cgroup allows */
        Bitset mems;         /* Mems_allowed, os numbers */
        unsigned threads;
        uint64_t *memory_by_node; /* bytes by topology node index; NULL unknown */
        double cpu_use;           /* CPUs used lately; NAN unknown */
        double quota;      /* CPUs its cgroup's quota grants, its share where several tasks are in it; NAN none */
        char *quota_group; /* directory of the group whose quota that is; not recorded */
        double request;    /* CPUs its owner promised (pod request, Slurm allocation), shared likewise; NAN unknown */
        char *cgroup;      /* path below the cpuset (v1) or unified (v2) mount */
        char *owner;       /* "ssh.service", "pod 3f…/worker", "docker 9d…", "job 77 step 0" */
        OwnerKind owner_kind;
        bool applied; /* qschedd placed it (undo journal knows it) */
        bool fixed; /* somebody else has set its CPUs, and they are left to them: planned where it is, others around it */
} Task;

typedef struct Snapshot {
        uint64_t time_usec;       /* CLOCK_REALTIME; 0 in records without it */
        const Topology *topology; /* borrowed unless owned_topology */
        Topology *owned_topology;
        Device *devices;
        size_t n_devices;
        Link *links;
        size_t n_links;
        Task *tasks; /* sorted by start_time, pid */
        size_t n_tasks;
        Bitset reserved;       /* CPUs that are somebody else's to hand out (kubelet's guaranteed pool) */
        char *reserved_reason; /* by whom, for messages */
        char **warnings;
} Snapshot;

int snapshot_new(Snapshot **ret);
Snapshot *snapshot_free(Snapshot *s);
DEFINE_CLEANUP(Snapshot *, snapshot_free);

void device_done(Device *d);
void task_done(Task *t);
/* Zeroed new last element; NULL on OOM. NAN and UNKNOWN fields are set so. */
Device *snapshot_add_device(Snapshot *s);
Link *snapshot_add_link(Snapshot *s);
Task *snapshot_add_task(Snapshot *s);
void snapshot_sort(Snapshot *s);
const Device *snapshot_device(const Snapshot *s, const char *name, unsigned *ret_index);
const Task *snapshot_task(const Snapshot *s, pid_t pid);

int enum_from_name(const char *const *names, const char *s); /* case-insensitive; -EINVAL */
