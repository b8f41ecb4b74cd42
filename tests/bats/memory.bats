#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Page moves where there is one memory node: nothing can be elsewhere, so nothing is looked for and nothing is said. What
# moves, what stops it, and walls are tested in the four-node guest (tests/vm/memory.bats) and by tests/unit/test-move-*.

# shellcheck disable=SC2154,SC2016,SC2030,SC2031 # helpers set build, qschedd, last, pids; what is written for another shell
bats_require_minimum_version 1.5.0
load helpers

setup() {
        setup_daemon
        memory_nodes=$(grep -l 'MemTotal: *[1-9]' /sys/devices/system/node/node*/meminfo 2>/dev/null | wc -l)
}

teardown() {
        teardown_all
}

one_node() {
        [ "$memory_nodes" -le 1 ] || skip "this machine has $memory_nodes memory nodes"
}

moves() {
        status | jq -c .moves
}

@test "on one memory node nothing waits, moves or is told after an apply" {
        one_node
        start_qschedd
        two_placed
        [ "$(moves)" = '{"enabled":true,"waiting":0,"running":null,"last":[]}' ]
        sleep 1
        [ "$(moves)" = '{"enabled":true,"waiting":0,"running":null,"last":[]}' ]
        run ! grep -q 'memory of' "$D/qschedd.log"
        run ! bash -c "'$build/qschedctl' status | grep Memory"
        [ "$(call Explain s one/0 | jq -c '.tasks[0].moves')" = '[]' ]
}

@test "Move=no is taken over by a reload, and shown" {
        start_qschedd
        [ "$(moves | jq .enabled)" = true ]
        printf '[Memory]\nMove=no\n' >>"$D/qschedd.conf"
        kill -HUP "$qschedd"
        wait_until 5 eval '[ "$(moves | jq .enabled)" = false ]'
}

@test "a key of [Memory] out of its range is told with the range" {
        local key
        for key in Stall=1us Stall=2s Pressure=101 Reserve=0.95 GroupReserve=-1 Move=maybe WalkBudget=2d; do
                printf '[Memory]\n%s\n' "$key" >"$D/bad.conf"
                run qschedd --config "$D/bad.conf" --check-config
                echo "$key: $output"
                [ "$status" -ne 0 ]
                [[ $output = *bad.conf:2:*"${key%=*}"* ]]
        done
}

@test "MemoryWall= is yes or no; where there is one memory node a wall is pointless, and none is set" {
        printf '[Job]\nName=x\n[Ranks]\nMemoryWall=perhaps\n' >"$D/x.job"
        run qschedctl plan "$D/x.job"
        [ "$status" -ne 0 ]
        [[ $output = *x.job:4:*MemoryWall* ]]
        one_node
        start_qschedd
        worker
        apply "$(job wall "$last")"$'\n'MemoryWall=yes >"$D/applied"
        [ "$(jq '.outcome.messages | length' "$D/applied")" = 0 ]
        [ "$(call GetStatus | jq -c .walls)" = '[]' ]
        [ "$(sed -n 's/^Mems_allowed_list:[[:space:]]*//p' "/proc/$last/status")" = "$(sed -n 's/^Mems_allowed_list:[[:space:]]*//p' /proc/$$/status)" ]
}

@test "the daemon's own code finds all pages of a live process where they are" {
        one_node
        [ -x "$build/tests/helpers/move-memory" ] || skip "tests/helpers/move-memory is not built"
        need_root
        "$build/tests/helpers/far-memory" 32 any >"$D/far" 2>&1 3>&- &
        pids+=($!)
        wait_until 20 grep -q ready "$D/far"
        "$build/tests/helpers/move-memory" --pressure=100 --reserve=0 "${pids[-1]}" 0 >"$D/moved.json" || true
        cat "$D/moved.json"
        if jq -e '.stop == "refused"' "$D/moved.json" >/dev/null; then
                skip "move_pages is not allowed here"
        fi
        # budget: sanitizers map terabytes
        jq -e '(.stop == "done" or .stop == "budget") and .pages.moved == 0 and .bytes_moved == 0 and .pages.already >= 8192 and .found["0"] >= 33554432' "$D/moved.json"
}
