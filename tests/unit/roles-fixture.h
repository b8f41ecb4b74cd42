/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of thread roles: the built-in roles, a split that must work, and a set of CPUs as a list. */
#pragma once

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/text.h"
#include "policy/roles.h"

static inline Roles defaults(void) {
        Roles r;

        assert_int_equal(roles_default(&r), 0);
        return r;
}

static inline RoleSplit split(const Roles *r, const Topology *t, const char *pool, const RoleThread *threads, size_t n,
                              bool irq) {
        _cleanup_(bitset_done) Bitset b = BITSET_EMPTY;
        RoleSplit s;

        assert_int_equal(bitset_parse(pool, &b), 0);
        assert_int_equal(roles_split(r, t, &b, threads, n, irq, 0, &s), 0);
        return s;
}

static inline void assert_set(const Bitset *b, const char *expected, const char *what) {
        _cleanup_free_ char *s = NULL;

        assert_int_equal(bitset_format(b, &s), 0);
        if (!streq(s, expected))
                fail_msg("%s: got \"%s\", expected \"%s\"", what, s, expected);
}
