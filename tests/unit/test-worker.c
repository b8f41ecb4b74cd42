/* SPDX-License-Identifier: Apache-2.0 */
/* The solver's thread as the watchdog sees it: at work, past its deadline, hung. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/worker.h"
#include "fixture.h"

#define LATE_USEC 30000000U

static void done(void *userdata, Solve *s) {
        *(bool *) userdata = true;
        assert_int_equal(s->r, 0);
        solve_free(s);
}

static Solve *solve_new(uint64_t deadline) {
        Solve *s = calloc(1, sizeof(*s));

        assert_non_null(s);
        decide_params_default(&s->params);
        s->snapshot = fixture_snapshot(&(Shape){ .packages = 1, .nodes = 1, .cores = 2, .smt = 1 });
        s->jobs = calloc(1, sizeof(*s->jobs));
        s->solver = strdup("auto");
        s->params.solver = s->solver;
        s->deadline_usec = deadline;
        return s;
}

/* Until the loop has run the solve is not given back, so it counts as at work. */
static void test_hangs(void **state) {
        const uint64_t deadline = now_monotonic() + 3600000000U;
        bool ended = false;
        sd_event *event;
        Worker *w;

        assert_true(sd_event_new(&event) >= 0);
        assert_int_equal(worker_new(event, done, &ended, &w), 0);
        assert_false(worker_hangs(w, UINT64_MAX));
        assert_int_equal(worker_submit(w, solve_new(deadline)), 0);
        assert_false(worker_hangs(w, now_monotonic()));
        assert_false(worker_hangs(w, deadline + LATE_USEC));
        assert_true(worker_hangs(w, deadline + LATE_USEC + 1));
        while (!ended)
                assert_true(sd_event_run(event, UINT64_MAX) >= 0);
        assert_false(worker_hangs(w, UINT64_MAX));

        ended = false;
        assert_int_equal(worker_submit(w, solve_new(0)), 0); /* no deadline */
        assert_false(worker_hangs(w, UINT64_MAX));
        while (!ended)
                assert_true(sd_event_run(event, UINT64_MAX) >= 0);
        worker_free(w);
        sd_event_unref(event);
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_hangs) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
