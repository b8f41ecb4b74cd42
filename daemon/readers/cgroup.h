/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups v1, v2 and hybrid, read only: where a process is, what that allows, whose it is. */
#pragma once

#include "policy/snapshot.h"

typedef enum CgroupMode { CGROUP_NONE, CGROUP_V1, CGROUP_HYBRID, CGROUP_V2 } CgroupMode;
extern const char *const cgroup_mode_names[];

/* The hierarchies that are read. */
typedef enum CgroupTree {
        CGROUP_CPUSET,
        CGROUP_CPU,
        CGROUP_MEMORY,
        CGROUP_SYSTEMD,
        CGROUP_UNIFIED,
        _CGROUP_TREE_MAX
} CgroupTree;

typedef struct Cgroups { /* mounts, found once through /proc/self/mountinfo */
        CgroupMode mode;
        char *cpuset;                  /* mount of the v1 cpuset controller; NULL when on the unified hierarchy */
        char *cpu;                     /* v1 cpu */
        char *memory;                  /* v1 memory */
        char *systemd;                 /* v1 name=systemd */
        char *unified;                 /* cgroup2 mount; NULL none */
        bool unified_cpuset;           /* the cpuset controller is on the unified hierarchy */
        char *shown[_CGROUP_TREE_MAX]; /* what each mount shows of its hierarchy: "/", in a container often deeper */
} Cgroups;

/* root: "" for this system; a directory with a fake /proc and /sys in tests. */
int cgroups_read(const char *root, Cgroups *ret);
void cgroups_done(Cgroups *c);

typedef struct CgroupInfo {
        char *path;             /* as in Task.cgroup */
        Bitset cpus, mems;      /* effective cpuset; empty when there is no cpuset controller */
        Bitset outer_cpus;      /* of a group of ours: what the group above allows; else empty */
        char *cpuset_directory; /* of the group that cpus is told by: itself, or the nearest above; NULL none */
        char *quota_group;      /* whose quota that is: all in it share it; NULL none */
        double request;      /* CPUs promised: a pod's cpu.shares or cpu.weight, a Slurm step's cpuset; NAN unknown */
        double quota;        /* CPUs: the tightest cpu.max / cfs_quota of it and its ancestors; NAN none */
        uint64_t memory_max; /* bytes; UINT64_MAX none */
        char *memory_directory; /* its group in the tree that accounts memory; NULL none */
        char *owner;
        OwnerKind owner_kind;
} CgroupInfo;

/* -ESRCH when the process is gone. Facts that the host does not tell stay empty: no error. */
int cgroup_of_pid(const Cgroups *c, const char *root, pid_t pid, CgroupInfo *ret);
void cgroup_info_done(CgroupInfo *i);
/* The same, but path, cpus and cpuset_directory only: a sixth of the reads. */
int cgroup_cpuset_of_pid(const Cgroups *c, const char *root, pid_t pid, CgroupInfo *ret);

typedef struct CgroupMemo { /* of the last process asked for: hundreds may be in one group */
        char *text;         /* of its /proc/PID/cgroup; NULL: of none yet */
        CgroupInfo info;
} CgroupMemo;

/* As cgroup_of_pid(), for many processes at one moment; *ret belongs to the memo and lasts until the next call. */
int cgroup_recall(const Cgroups *c, const char *root, pid_t pid, CgroupMemo *memo, const CgroupInfo **ret);
void cgroup_memo_done(CgroupMemo *memo);
/* Pure: name and kind of the owner from a cgroup path. *ret_owner NULL for the root. */
OwnerKind cgroup_owner(const char *path, char **ret_owner);
/* memory.numa_stat of the process's cgroup: bytes by topology node index (array of t->n_nodes), or -ENODATA when it
 * holds more than this process or the kernel has none. */
int cgroup_memory_by_node(const Cgroups *c, const CgroupInfo *i, const Topology *t, uint64_t **ret);
/* kubelet's CPU manager: CPUs given, or kept to be given, to guaranteed pods. Empty when there is no kubelet here. */
int kubelet_reserved(const char *root, Bitset *ret, char **ret_reason);

/* Pure parts, for tests and the fuzzer. */
int cgroups_parse_mountinfo(const char *text, const char *root, Cgroups *ret);
int cgroup_parse_pid(const char *text, char *paths[_CGROUP_TREE_MAX]); /* /proc/PID/cgroup; caller frees each */
/* v1 counts pages, v2 bytes. */
int cgroup_parse_numa_stat(const char *text, uint64_t page_size, const Topology *t, uint64_t *bytes);
int kubelet_parse_state(const char *state, const char *kubelet_config, Bitset *ret, char **ret_reason);
