/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of page moves: the kernel is a table of pages, with a clock that runs by what each call costs, and the
 * machine a directory with a fake /proc and /sys of two nodes, made anew for each test (move_setup).
 */
#pragma once

#include "daemon/move-pages-internal.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define PID 4242
#define BASE UINT64_C(0x10000000)
#define PAGES_MAX 200000

typedef enum Trait { FREE, BUSY, SHARED, ABSENT, STUCK, REFUSES } Trait; /* STUCK: the rest of its call is not tried */

typedef struct FakeKernel {
        char root[64];
        uint64_t clock, per_page, per_call, per_query;
        int node[PAGES_MAX];
        Trait trait[PAGES_MAX];
        unsigned n_pages;
        unsigned moves, queries;
        size_t largest;
        pid_t last;           /* whose pages were moved or asked about */
        long fail_with;       /* moves fail with this … */
        unsigned fail_after;  /* … after so many */
        void (*before)(void); /* each move */
} FakeKernel;
extern FakeKernel kernel;
extern const MoveOps fake_ops; /* processes 100 to 109 share one address space */

int move_setup(void **state);
int move_teardown(void **state);
#define with_tree(f) cmocka_unit_test_setup_teardown(f, move_setup, move_teardown)

uint64_t page_size(void);
void put(const char *path, const char *format, ...) _printf_(2, 3);
void put_node(unsigned node, uint64_t total_kb, uint64_t free_kb);
void put_pressure(const char *path, double avg10);
void put_status(pid_t pid, const char *mems);
/* n pages, all on node 0, in mappings of at most `each`, with a guard between. Every process has the same ones. */
void put_pages(pid_t pid, unsigned n, unsigned each);
MovePages *new_move(const char *nodes, const MoveParams *params); /* of PID */
void check_sum(const MoveReport *r);
const MoveReport *run(MovePages *m);
