#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# A rank's CPUs split between its threads by role: qschedd on a bus of its own, live processes whose threads have the
# names that frameworks give them. What is asserted is what /proc says.

load helpers

setup() {
        setup_all
        need_cpus 2
        printf '[Daemon]\nInterval=300ms\n[Placement]\nHoldOff=0\nHousekeepingCores=0\n' >"$D/qschedd.conf"
}

teardown() {
        teardown_all
}

# The mask of each thread of that name, each once.
masks_of() { # pid name
        local t
        for t in /proc/"$1"/task/*; do
                [ "$(cat "$t/comm" 2>/dev/null)" != "$2" ] || sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "$t/status"
        done | sort -u | paste -sd' '
}

every_mask() { # pid; one line per thread
        local t
        for t in /proc/"$1"/task/*; do
                echo "${t##*/} $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "$t/status")"
        done
}

# A job of one rank with two CPUs.
two_cpus() { # name pid
        printf '[Job]\nName=%s\n[Ranks]\nCount=1\nCPUs=2\nMatch=pid:%d\n' "$1" "$2"
}

ticks() {
        status | jq .ticks
}

ticked_since() {
        [ "$(ticks)" -ge $(($1 + 2)) ]
}

# Waits for two whole ticks.
two_ticks() {
        wait_until 10 ticked_since "$(ticks)"
}

is_split() {
        [[ $(masks_of "$last" acl_thread) =~ ^[0-9]+$ ]] && [[ $(masks_of "$last" worker) =~ ^[0-9]+$ ]]
}

has_masks() { # how many different ones
        [ "$(masks "$last" | wc -w)" = "$1" ]
}

has_drift() { # how many threads
        [ "$(status | jq '.drift | length')" = "$1" ]
}

# Applied, with the pool in $pool, the main thread's core in $compute.
place() { # pid
        apply "$(two_cpus roles "$1")" >"$D/applied"
        pool=$(jq -r '.tasks[0].cpus' "$D/applied")
        compute=$(masks_of "$1" worker)
        [[ $pool = *[-,]* ]]
}

journal() {
        stat -c %s "$D/run/undo.journal"
}

@test "two cores: compute threads on one, runtime and communication threads on the other; told by explain and status" {
        worker --threads=3 --named=acl_thread,hcclComm_watchd
        start_qschedd
        place "$last"
        [[ $compute =~ ^[0-9]+$ ]]
        [[ $(masks_of "$last" acl_thread) =~ ^[0-9]+$ ]]
        [ "$(masks_of "$last" acl_thread)" != "$compute" ]
        [ "$(masks_of "$last" hcclComm_watchd)" = "$(masks_of "$last" acl_thread)" ]
        jq -e --arg c "$compute" '.tasks[0].roles[] | select(.role == "compute") | .cpus == $c and .threads == 3' "$D/applied"
        status | jq -e '.plan.tasks[0].roles | map(.role) == ["compute", "runtime", "communication"]'
        run qschedctl explain "$last"
        echo "$output"
        [ "$status" -eq 0 ]
        grep -E "^compute +3 +- +$compute" <<<"$output"
        grep -E "^runtime +1 +shared +$(masks_of "$last" acl_thread)" <<<"$output"
        [ "$(qschedctl explain "$last" --json | jq -r '.tasks[0].now.cpus')" = "$pool" ]
}

@test "a rank without helper threads: all of them have all of its CPUs" {
        worker --threads=4
        start_qschedd
        place "$last"
        [ "$(masks "$last")" = "$pool" ]
}

@test "helper threads that start late, with the mask of the thread that started them, are found at the next tick" {
        worker --threads=2 --late=1:1 --late-named=acl_thread
        start_qschedd
        place "$last"
        [ "$(masks "$last")" = "$pool" ]
        wait_until 10 is_split
        [ "$(masks_of "$last" acl_thread)" != "$(masks_of "$last" worker)" ]
        has_drift 0
}

@test "children get all of the rank's CPUs, not their parent's one core" {
        worker --threads=2 --named=acl_thread --children=2
        start_qschedd
        place "$last"
        [ "$compute" != "$pool" ]
        for child in $(pgrep -P "$last"); do
                [ "$(masks "$child")" = "$pool" ]
        done
}

@test "affinity set twice does not un-pin: nothing is written again, not by apply, tick, kill -9 or restart" {
        worker --threads=3 --named=acl_thread,release_thread
        start_qschedd
        place "$last"
        every_mask "$last" >"$D/placed"
        apply "$(two_cpus roles "$last")" >"$D/again"
        jq -e '.changed == false and .outcome.written == 0' "$D/again"
        size=$(journal)
        two_ticks
        [ "$(journal)" = "$size" ]
        stop_qschedd KILL
        start_qschedd
        two_ticks
        [ "$(journal)" = "$size" ]
        stop_qschedd TERM
        start_qschedd
        two_ticks
        apply "$(two_cpus roles "$last")" >"$D/again"
        jq -e '.changed == false and .outcome.written == 0' "$D/again"
        diff "$D/placed" <(every_mask "$last")
        has_drift 0
        [ "$(grep -c 're-plan' "$D/qschedd.log")" = 0 ]
}

@test "affinity set twice does not un-pin: a taskset to another of our masks is told from ours, and stays" {
        worker --threads=2 --named=acl_thread
        start_qschedd
        place "$last"
        helper=$(for t in /proc/"$last"/task/*; do [ "$(cat "$t/comm")" != acl_thread ] || echo "${t##*/}"; done)
        taskset -pc "$compute" "$helper"
        wait_until 5 has_drift 1
        [ "$(status | jq '.drift[0].tid')" = "$helper" ]
        two_ticks
        [ "$(masks_of "$last" acl_thread)" = "$compute" ]
}

@test "only the main thread is rebound: every thread is, by its role, however many there are" {
        worker --threads=200 --named=acl_thread,release_thread,NCCLProgress
        start_qschedd
        taskset -pc 0 "$last"
        place "$last"
        [[ $compute =~ ^[0-9]+$ ]]
        [ "$(masks "$last" | wc -w)" = 2 ]
        [ "$(jq .outcome.written "$D/applied")" -ge 202 ]
}

@test "revert gives every thread exactly the mask that it had" {
        worker --threads=3 --named=acl_thread,release_thread
        set -- /proc/"$last"/task/*
        taskset -pc 0 "${2##*/}"
        taskset -pc 1 "${4##*/}"
        every_mask "$last" >"$D/before"
        start_qschedd
        place "$last"
        [ "$(cat "$D/before")" != "$(every_mask "$last")" ]
        call Revert s roles
        diff "$D/before" <(every_mask "$last")
}

@test "ThreadRoles=no: every thread has all of the rank's CPUs; switched by a reload, masks follow at a tick" {
        worker --threads=2 --named=acl_thread
        sed -i 's/^HoldOff/ThreadRoles=no\n&/' "$D/qschedd.conf"
        start_qschedd
        place "$last"
        [ "$(masks "$last")" = "$pool" ]
        status | jq -e '.plan.tasks[0] | has("roles") | not'
        sed -i 's/^ThreadRoles=no/ThreadRoles=yes/' "$D/qschedd.conf"
        kill -HUP "$qschedd"
        wait_until 10 has_masks 2
        sed -i 's/^ThreadRoles=yes/ThreadRoles=no/' "$D/qschedd.conf"
        kill -HUP "$qschedd"
        wait_until 10 has_masks 1
        [ "$(masks "$last")" = "$pool" ]
        has_drift 0
        call Revert s roles
        [ "$(masks "$last")" = "$(masks $$)" ]
}

@test "a [Role] of the configuration, changed by a reload; a bad one is refused with file and line" {
        worker --threads=2 --named=my_proxy
        start_qschedd
        place "$last"
        [ "$(masks "$last")" = "$pool" ]
        printf '[Role proxies]\nComm=my_*\n' >>"$D/qschedd.conf"
        kill -HUP "$qschedd"
        wait_until 10 has_masks 2
        qschedctl explain "$last" | grep -E "^proxies +1 +(own|shared)"
        printf 'CPUs=none\n' >>"$D/qschedd.conf"
        run qschedd --config "$D/qschedd.conf" --check-config
        echo "$output"
        [ "$status" -eq 1 ]
        [[ $output = *"qschedd.conf:8"* ]]
}

@test "run: the process is placed before its helpers start, and they are split from it then" {
        start_qschedd
        qschedctl run --name roles --cpus 2 -- "$build/tests/helpers/worker" --threads=2 --late=0:0.5 --late-named=acl_thread >/dev/null 2>&1 3>&- &
        last=$!
        pids+=("$last")
        wait_until 10 is_split
        [ "$(masks_of "$last" acl_thread)" != "$(masks_of "$last" worker)" ]
}

@test "Drift=yield: a thread that was put onto another role's CPU stays there at the revert, one born later does not" {
        printf '[Enforce]\nDrift=yield\n' >>"$D/qschedd.conf"
        start_qschedd
        worker --threads=3 --named=acl_thread --late=1:40
        apply "$(two_cpus one "$last")"
        wait_until 10 is_split
        two_ticks # all of them are noted: none is younger than a second
        two_ticks
        theirs=$(every_mask "$last" | awk -v own="$(masks_of "$last" worker)" -v pid="$last" '$1 != pid && $2 == own { print $1; exit }')
        on=$(masks_of "$last" acl_thread)
        taskset -p -c "$on" "$theirs"
        wait_until 10 eval '[ "$(status | jq -r ".plan.tasks[0].fixed")" = true ]'
        wait_until 10 eval '[ "$(every_mask "$last" | wc -l)" = 4 ]'
        call Revert s one >/dev/null
        [ "$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$last/task/$theirs/status")" = "$on" ]
        [ "$(every_mask "$last" | grep -vc "^$theirs ")" = 3 ]
        [ "$(every_mask "$last" | grep -v "^$theirs " | cut -d' ' -f2 | sort -u)" = "$(all_cpus)" ]
}
