/* SPDX-License-Identifier: Apache-2.0 */
/* What move-pages.c (steps and chunks), move-walk.c (which pages) and move-limits.c (may it go on) share. */
#pragma once

#include "common/text.h"
#include "daemon/move-pages.h"

#define MOVE_CHUNK_FIRST 32U
#define MOVE_CHUNK_MAX 8192U
#define MOVE_WINDOW 8192U /* pages of one look into pagemap: 64 KiB of it */
#define MOVE_PENDING_MAX (MOVE_CHUNK_MAX + MOVE_WINDOW)

typedef struct Mapping {
        uint64_t start, end;
} Mapping;

typedef enum MappingKind {
        MAPPING_MOVABLE,
        MAPPING_RESERVED, /* no access: address space without pages */
        MAPPING_SPECIAL,  /* the kernel's: vdso and the like */
        MAPPING_HUGE,     /* huge page files: one page may take longer than any bound */
        MAPPING_DEVICE,
} MappingKind;

typedef enum WalkState { WALK_MAPS, WALK_PAGES, WALK_END } WalkState;

struct MovePages {
        MoveParams params; /* root and group_dir are owned below */
        char *root, *group_dir;
        MoveOps ops;
        Bitset nodes;
        int pidfd; /* -1 none: root is not this system, or the kernel is older than 5.3 */
        MoveReport report;
        bool begun, over;

        WalkState state;
        int maps_fd, pagemap_fd; /* the latter -1: every page is asked about */
        char *text;              /* of maps: what has not ended in a newline yet */
        size_t text_size;
        Mapping *mappings;
        size_t n_mappings, n_allocated;
        size_t at;       /* mapping, */
        uint64_t cursor; /* and address that are looked at next */
        void **queue;    /* in memory, not asked where: MOVE_WINDOW of them */
        size_t n_queue, queue_at;
        uint64_t *entries; /* of pagemap: a window */
        unsigned ask;      /* pages of one query */

        void **pending; /* elsewhere: MOVE_PENDING_MAX of them */
        size_t n_pending;
        size_t long_n; /* size and time of the call before, if it took too long; 0 it did not */
        uint64_t long_usec;
        void **pages; /* scratch of a call */
        int *target, *status;
};

/* Ends the move. Returns 0, or -ENOMEM. */
int move_finish(MovePages *m, MoveStop stop, int error, const char *format, ...) _printf_(4, 5);
/* A call of ops.move without nodes, timed. */
long move_query(MovePages *m, size_t n, void *const *pages, int *status);

MappingKind mapping_parse(const char *line, Mapping *ret); /* a malformed line is MAPPING_SPECIAL, and empty */
int walk_open(MovePages *m);                               /* negative errno: no permission, gone */
int walk_unit(MovePages *m);                               /* a bit of it */
void walk_done(MovePages *m);

/* May it go on, where to, how many pages at most? It has ended the move when *ret_pages is 0. */
int limits_check(MovePages *m, unsigned *ret_node, uint64_t *ret_pages);
