#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Random sequences of what happens to a host (tests/helpers/sequences): after each step its checker, which asks the
# kernel, looks. A few of fixed seeds and one of a new seed; QSCHED_RANDOM=N (make random N=200 SEED=1) runs so many. A
# failed one prints its seed, its steps, what was expected and what is there: sequences --seed=N --print replays it.

# shellcheck disable=SC2154 # helpers set build
load helpers

setup() {
        need_root
        need_cpus 2
        setup_all
        [ -x "$build/tests/helpers/sequences" ] || skip "tests/helpers/sequences is not built"
}

teardown() {
        teardown_all
}

sequences() { # options
        run "$build/tests/helpers/sequences" "$@" 3>&-
        echo "$output" | head -c 20000
        [ "$status" -ne 77 ] || skip "${lines[0]}"
        ! grep -E 'ERROR: .*Sanitizer|WARNING: ThreadSanitizer|runtime error:' <<<"$output" || false
        [ "$status" -eq 0 ]
}

@test "sequences that broke something once: 9, a thread had by chance the mask that its rank was to get" {
        sequences --seed=9
}

@test "sequences that broke something once: 11, a thread just born kept its mask while the one that made it got another" {
        sequences --seed=11
}

@test "sequences of a new seed: one, or as many as QSCHED_RANDOM= says from QSCHED_SEED= on" {
        sequences --seed="${QSCHED_SEED:-$((RANDOM * 32768 + RANDOM))}" --count="${QSCHED_RANDOM:-1}"
}
