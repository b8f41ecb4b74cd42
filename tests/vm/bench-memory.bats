#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The benchmark of page moves, for tests/bench/far-memory: a worker that waits for memory (one word of each page) on the
# wrong node, before and after `qschedctl apply`. Where its pages are is what numa_maps says, the rest is the daemon's
# report. Prints a row per case, fields parted by blanks, after "bench: ".
# vm: timeout=900

# shellcheck disable=SC2030,SC2031 # each test has its far
load helpers

setup() {
        cd "$BATS_TEST_TMPDIR" || return 1
        far=()
        echo 0 >/proc/sys/kernel/numa_balancing
        printf '[Daemon]\nInterval=1s\n[Placement]\nHoldOff=0\n[Memory]\nStall=100ms\nPressure=100\n' >/etc/qsched/qschedd.conf.d/bench.conf
}

teardown() {
        systemctl -q is-active qschedd && qschedctl revert >/dev/null 2>&1
        if [ ${#far[@]} -gt 0 ]; then
                kill "${far[@]}" 2>/dev/null
        fi
        rm -f /etc/qsched/qschedd.conf.d/bench.conf
}

on() { # pid node: pages
        sed -n "s/.* anon=.* N$2=\([0-9]*\).*/\1/p" "/proc/$1/numa_maps" | awk '{ n += $1 } END { print n + 0 }'
}

answers() { # number
        [ "$(wc -l <out)" -gt "$1" ]
}

# Median of five passes, in microseconds.
pass() { # pid
        local i n
        for ((i = 0; i < 5; i++)); do
                n=$(wc -l <out)
                kill -USR1 "$1"
                until_true answers "$n"
        done
        tail -n 5 out | sed -n 's/^intact read_us=\([0-9]*\).*/\1/p' | sort -n | sed -n 3p
}

idle() {
        [ "$(qschedctl status --json | jq '.moves | .running == null and .waiting == 0')" = true ]
}

measure() { # name MiB [option of far-memory]
        local name=$1 size=$2 pid local_before remote_before before after move
        shift 2
        "$T/far-memory" "$@" "$size" 3 >out 2>&1 3>&- &
        pid=$!
        far+=("$pid")
        until_true grep -q ready out
        taskset -a -p -c 2-3 "$pid" >/dev/null
        remote_before=$(on "$pid" 3) local_before=$(on "$pid" 1)
        before=$(pass "$pid")
        printf '[Job]\nName=bench\n[Ranks]\nCount=1\nDevice=%s\nMatch=pid:%s\n' "$(device 1)" "$pid" >bench.job
        qschedctl apply bench.job >/dev/null
        until_true idle || until_true idle
        after=$(pass "$pid")
        move=$(qschedctl status --json | jq -r '.moves.last[-1] | "\(.pages.moved) \(.stall_max_us) \(.stall_us) \(.calls) \(.took_us) \(.stop)"')
        echo "# bench: $name $size $local_before $remote_before $(on "$pid" 1) $(on "$pid" 3) $move $before $after" >&3
        [ "$(on "$pid" 3)" -lt "$remote_before" ]
        grep -q '^intact' out
        [ "$(grep -c '^broken' out)" = 0 ]
}

@test "32 MiB" {
        measure small-pages 32
}

@test "128 MiB" {
        measure small-pages 128
}

@test "128 MiB in transparent huge pages" {
        measure huge-pages 128 --huge
}

@test "32 MiB, read all the while" {
        measure busy 32 --watch
}
