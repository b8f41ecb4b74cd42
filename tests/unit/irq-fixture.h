/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of interrupts: a copy of a recorded host (tests/data/irq), where a write of a mask is a write of a file
 * and the refusals of a kernel are played; an enforcer with its journal on it; wishes, and what came of them. A program
 * that uses it is linked with -Wl,--wrap=irq_set_affinity.
 */
#pragma once

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/enforce-irq.h"
#include "daemon/readers/irq.h"

#define CARD "0000:c1:00.0"
#define OTHER_CARD "0000:01:00.0"

/* The one that writes. */
int __real_irq_set_affinity(const char *root, unsigned irq, const Bitset *cpus);

typedef struct PlayedKernel {
        int refuse;       /* every write; 0: none */
        int full_cpu;     /* no vector is free there; -1: there is on all */
        unsigned n_calls; /* writes asked for */
} PlayedKernel;
extern PlayedKernel kernel;

typedef struct Fixture {
        char root[64], *journal;
        Undo *undo;
        IrqEnforcer *e;
        Outcome outcome;
        IrqWishes wishes;
        pid_t balancer; /* ended by teardown; 0: none */
} Fixture;

int setup(void **state);
int teardown(void **state);
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

void put(const Fixture *f, const char *path, const char *text); /* a file of the host */
void restart(Fixture *f);                                       /* journal and enforcer opened again */

/* One wish; cpus NULL: none at all. */
void wish(Fixture *f, const char *pci, const char *cpus);
int place(Fixture *f);
int place_on(Fixture *f, const char *cpus); /* the vectors of CARD */

void assert_mask(const Fixture *f, unsigned irq, const char *expected);
const IrqStatus *status(const Fixture *f, unsigned irq);
void assert_state(const Fixture *f, unsigned irq, IrqState state);
void assert_said(const Fixture *f, const char *part);
size_t n_entries(const Fixture *f);
off_t journal_size(const Fixture *f);
