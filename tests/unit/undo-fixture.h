/* SPDX-License-Identifier: Apache-2.0 */
/* A journal on a real file in a folder of its own, for tests of the undo journal. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/fileio.h"
#include "daemon/undo.h"

typedef struct Fixture {
        char dir[64];
        char *journal;
        Undo *undo;
        char **messages;
} Fixture;

int setup(void **state);
int teardown(void **state);
void reopen(Fixture *f); /* as a restart of the daemon */
off_t size_of(const Fixture *f);
size_t count(Undo *u);
/* The mask of a thread of process 80, in list format. */
int note(Undo *u, uint64_t id, const char *job, pid_t tid, const char *old, const char *new);
void add_text(const Fixture *f, const char *text); /* to the file, behind the journal's back */
void assert_set(const Bitset *b, const char *text);
