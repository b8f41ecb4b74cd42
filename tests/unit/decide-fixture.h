/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of decide(): what a plan says, and a worker of a job that may use all that is online. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/text.h"
#include "fixture.h"

static inline bool has_message(const Plan *p, const char *part) {
        for (char **m = p->messages; m && *m; m++)
                if (strstr(*m, part))
                        return true;
        return false;
}

static inline void assert_message(const Plan *p, const char *part) {
        if (has_message(p, part))
                return;
        for (char **m = p->messages; m && *m; m++)
                print_message("message: %s\n", *m);
        fail_msg("no message says \"%s\"", part);
}

static inline void assert_set(const Bitset *b, const char *list) {
        _cleanup_free_ char *s = NULL;

        assert_int_equal(bitset_format(b, &s), 0);
        assert_string_equal(s, list);
}

static inline Task *worker(Snapshot *s, pid_t pid, const char *job) {
        _cleanup_free_ char *all = NULL;
        Task *t;

        assert_int_equal(bitset_format(&s->topology->online, &all), 0);
        t = fixture_task(s, pid, all, all);
        t->job = strdup(job);
        return t;
}
