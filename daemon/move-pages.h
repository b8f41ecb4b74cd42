/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves the pages of a process towards the nodes of its plan, in steps that a loop calls from a timer: each step reads
 * a bit of the address space or moves one chunk, and is over within the stall bound. Nobody's policy is changed: pages
 * that are born later go where the process's own policy says.
 *
 * Walk: the mappings once (/proc/PID/maps), then per step some thousand addresses: /proc/PID/pagemap tells which are
 * there, move_pages(2) without nodes tells where. Reserved address space (no access), mappings of devices and huge page
 * files are passed over. Only pages that are elsewhere are moved.
 * Chunk: from few pages on, doubled while a call takes less than half of the bound, cut when it takes longer.
 * Before each chunk: is the process still that one, is there pressure, has the node room above its reserve, has the
 * cgroup? The first no ends the move, with a sentence; where nothing is elsewhere, none of it is asked. The kernel skips
 * pages that other processes map as well.
 *
 * Nothing is undone at revert: where pages are is no setting.
 */
#pragma once

#include <jansson.h>

#include "policy/snapshot.h"

typedef enum MoveStop {
        MOVE_RUNNING,
        MOVE_DONE, /* all that can be moved is there */
        MOVE_GONE, /* the process ended */
        MOVE_CANCELLED,
        MOVE_PRESSURE,    /* tasks wait for memory */
        MOVE_NODE_FULL,   /* no target has room above its reserve */
        MOVE_NODE_DENIED, /* no target is in its cpuset.mems, or has memory at all */
        MOVE_GROUP_FULL,  /* its cgroup is near its limit */
        MOVE_BUDGET,      /* the time for walking is used up */
        MOVE_REFUSED,     /* the kernel said no: error tells */
        _MOVE_STOP_MAX
} MoveStop;
extern const char *const move_stop_names[];

typedef struct MoveParams {
        uint64_t stall_usec;   /* longest that one call may take */
        uint64_t walk_usec;    /* in all, for finding pages; 0 no limit */
        double pressure_max;   /* percent: some avg10 of memory, of the host or the cgroup */
        double reserve;        /* share of a node's memory that stays free */
        double group_reserve;  /* share of memory.max that stays free */
        const char *root;      /* "" or NULL: this system; a directory with a fake /proc and /sys in tests */
        const char *group_dir; /* CgroupInfo.memory_directory; NULL: no limit is known */
} MoveParams;
extern const MoveParams move_params_default; /* 20 ms, 10 s, 10 %, 5 %, 5 % */

typedef struct MoveReport {
        Process process;
        MoveStop stop;
        int error;     /* MOVE_REFUSED: positive errno */
        uint64_t seen; /* pages asked about; each is counted once below */
        uint64_t moved, already, busy, shared, absent, failed;
        uint64_t left;   /* found elsewhere, and not tried before the end */
        uint64_t *found; /* pages by os number of the node they were found on; n_found of them */
        unsigned n_found;
        uint64_t passed_over; /* bytes of mappings that were not looked at (huge page files, devices) */
        uint64_t page_size;
        uint64_t stall_max_usec, stall_usec; /* calls that move */
        unsigned calls, overruns;            /* … and how many took longer than the bound */
        uint64_t walk_usec, walk_max_usec;   /* maps, pagemap, queries */
        unsigned chunk;                      /* pages a call moves now */
        bool pressure_known;                 /* false: the kernel has no PSI, nothing was watched */
        char *why;                           /* sentence; NULL while it runs */
} MoveReport;

typedef struct NodeRoom {
        bool exists;
        uint64_t total, free; /* bytes */
        uint64_t cache;       /* beside that, page cache that the kernel drops for who needs memory */
} NodeRoom;

int node_room(const char *root, unsigned os, NodeRoom *ret); /* no such node: exists is false */

/* The kernel, replaced in tests. move: as move_pages(2) with MPOL_MF_MOVE (nodes NULL: query); >= 0 or negative errno. */
typedef struct MoveOps {
        uint64_t (*now)(void *userdata); /* monotonic usec */
        long (*move)(void *userdata, pid_t pid, size_t n, void *const *pages, const int *nodes, int *status);
        /* Do two processes share one address space? No, where the kernel cannot compare (no kcmp). */
        bool (*same_space)(void *userdata, pid_t a, pid_t b);
        void *userdata;
} MoveOps;
extern const MoveOps move_ops_kernel;

typedef struct MovePages MovePages;

/* nodes: os numbers of the targets. params and ops may be NULL; params' strings are copied. -ESRCH: gone; -EINVAL: no
 * nodes. A move that cannot even begin (no permission) is made nonetheless, ends at its first step and says why. */
int move_pages_new(Process process, const Bitset *nodes, const MoveParams *params, const MoveOps *ops, MovePages **ret);
MovePages *move_pages_free(MovePages *m);
DEFINE_CLEANUP(MovePages *, move_pages_free);
/* 1: call again, 0: it is over, see the report. Negative only on ENOMEM and the like; it is over then, too. */
int move_pages_step(MovePages *m);
void move_pages_cancel(MovePages *m); /* over at once; the report stays */
const MoveReport *move_pages_report(const MovePages *m);
void move_pages_take_report(MovePages *m, MoveReport *ret); /* of a move that is over; move_report_done() */
void move_report_done(MoveReport *r);
int move_report_to_json(const MoveReport *r, json_t **ret);
/* "1.2 GiB moved, 300 MiB were there, 4 pages busy, 12 shared; longest stall 11 ms: done"; NULL on OOM */
char *move_report_sentence(const MoveReport *r);
/* What to do about what stopped it; NULL: nothing. */
const char *move_stop_advice(MoveStop stop);
