#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The unit as systemd reads it, without booting anything, and what keeps a service from starting: broken state files.
# How systemd ends and starts it is tests/vm/service.bats' business.

# shellcheck disable=SC2154,SC2030,SC2031,SC2016,SC2013,SC2046 # helpers set variables; each test has its pids; eval expands later; words
bats_require_minimum_version 1.5.0
load helpers

setup() {
        setup_all
        unit=$build/units/qschedd.service
}

teardown() {
        teardown_all
}

need_systemd() { # version
        need systemd-analyze
        local version
        version=$(systemd-analyze --version | sed -n '1s/^systemd \([0-9]*\).*/\1/p')
        [ "$version" -ge "$1" ] || skip "systemd-analyze is of systemd $version, this takes $1"
}

# ---- the unit --------------------------------------------------------------------------------------------------------------

@test "systemd-analyze security: the unit's exposure is 2.5 at most" {
        need_systemd 250
        systemd-analyze security --offline=true --no-pager "$unit" | tail -n 1
        systemd-analyze security --offline=true --threshold=25 --no-pager "$unit" >/dev/null
}

@test "systemd-analyze verify: no unknown key, no wrong value" {
        need_systemd 250
        sed "s,=[^ ]*/qschedd\( \|$\),=$build/qschedd\1," "$unit" >"$D/qschedd.service"
        systemd-analyze verify --man=no "$D/qschedd.service" 2>&1 | tee "$D/verify"
        run ! grep -v dbus.socket "$D/verify"
}

@test "no network: local sockets alone, no address" {
        grep -qx RestrictAddressFamilies=AF_UNIX "$unit"
        grep -qx IPAddressDeny=any "$unit"
}

@test "each protection that is left out, and each capability that is kept, has its reason in the unit" {
        for option in ProtectKernelTunables ProtectControlGroups ProtectProc ProcSubset PrivateDevices PrivateNetwork PrivateUsers; do
                if ! grep -q "^$option=" "$unit"; then
                        echo "$option"
                        grep -qE "^# .*$option=.* (is|are) not set: " "$unit"
                fi
        done
        for capability in $(sed -n 's/^CapabilityBoundingSet=//p' "$unit"); do
                echo "$capability"
                grep -qE "^# $capability +[^ ]" "$unit"
        done
}

@test "a call that the filter leaves out gives an error and kills nothing" {
        grep -qx SystemCallErrorNumber=EPERM "$unit"
        need_systemd 250
        # what the daemon is for is in the list
        systemd-analyze syscall-filter @system-service @resources @process >"$D/calls"
        for call in sched_setaffinity move_pages kcmp pidfd_open get_mempolicy tgkill; do
                grep -qw "$call" "$D/calls"
        done
        systemd-analyze syscall-filter $(sed -n 's/^SystemCallFilter=~//p' "$unit") >"$D/out"
        run ! grep -qwE 'sched_setaffinity|move_pages|kcmp|pidfd_open|get_mempolicy|tgkill|process_vm_readv' "$D/out"
}

@test "every system call that the daemon makes is one that the unit lets through" {
        need strace
        need_root
        need_systemd 250
        need_cpus 2
        strace -f -qq -o "$D/trace" true 2>/dev/null || skip "strace does not work here"
        start_qschedd
        strace -f -qq -p "$qschedd" -o "$D/trace" 2>/dev/null 3>&- &
        pids+=($!)
        worker
        apply "$(job traced "$last")" | jq -e .feasible
        kill -HUP "$qschedd"
        call Revert s traced >/dev/null
        stop_qschedd USR1
        allowed_calls >"$D/allowed"
        sed -n 's/^[0-9]* *\([a-z_0-9]*\)(.*/\1/p' "$D/trace" | sort -u >"$D/made"
        [ "$(wc -l <"$D/made")" -gt 10 ]
        comm -23 "$D/made" "$D/allowed"
        [ -z "$(comm -23 "$D/made" "$D/allowed")" ]
}

calls_of() { # sets and calls: the calls, each once
        local set
        for set in "$@"; do
                case $set in
                @*) systemd-analyze syscall-filter "$set" | sed -n 's/^    \([-@a-z_0-9]*\)$/\1/p' | while read -r call; do calls_of "$call"; done ;;
                *) echo "$set" ;;
                esac
        done | sort -u
}

allowed_calls() {
        # shellcheck disable=SC2046 # words
        comm -23 <(calls_of $(sed -n 's/^SystemCallFilter=\([^~]\)/\1/p' "$unit")) <(calls_of $(sed -n 's/^SystemCallFilter=~//p' "$unit"))
}

# ---- a corrupt state file keeps the service from starting: set aside, start, say so ------------------------------------------

# Two ranks placed, the daemon killed; good/ is what it left.
good_state() {
        need_root
        need_cpus 2
        start_qschedd
        worker --threads=2
        worker --threads=2
        apply "$(job pair "${workers[@]}")" | jq -e .feasible
        stop_qschedd KILL
        mkdir "$D/good"
        cp -a "$D/run" "$D/state" "$D/good/"
        cp -a "$D/qschedd.conf" "$D/good/"
}

refill() {
        local i
        for i in run state; do
                rm -rf "${D:?}/$i"
                cp -a "$D/good/$i" "$D/$i"
        done
        cp -a "$D/good/qschedd.conf" "$D/qschedd.conf"
        : >"$D/qschedd.log"
}

# It starts, answers, leaves nobody without CPUs.
starts() { # what for people
        echo "$1"
        start_qschedd
        status | jq -e 'has("interval_us")' >/dev/null
        for w in "${workers[@]}"; do
                [ -n "$(masks "$w")" ]
        done
        stop_qschedd KILL
}

state_files=(run/undo.journal state/jobs/pair.job state/jobs/pair.owner)

@test "corrupt state: each file cut off at every line, and in the middle of one" {
        good_state
        for file in "${state_files[@]}"; do
                n=$(wc -l <"$D/good/$file")
                # the journal's first lines and its last: those between are alike
                for ((i = 0; i <= n; i = i < 4 || i >= n - 2 ? i + 1 : n - 2)); do
                        refill
                        head -n "$i" "$D/good/$file" >"$D/$file"
                        starts "$file: $i of $n lines"
                        refill
                        { head -n "$i" "$D/good/$file"; sed -n "$((i + 1))p" "$D/good/$file" | head -c 9; } >"$D/$file"
                        starts "$file: $i of $n lines and a bit"
                done
        done
}

@test "corrupt state: garbage, a directory, another owner, not to be read, empty, huge, a FIFO, a dangling link" {
        good_state
        for file in "${state_files[@]}" state/jobs state/config; do
                for how in garbage directory owner unreadable empty huge fifo link; do
                        refill
                        [ $how = owner ] || [ $how = unreadable ] || rm -rf "${D:?}/$file"
                        case $how in
                        garbage) head -c 5000 /dev/urandom >"$D/$file" ;;
                        directory) mkdir "$D/$file" && : >"$D/$file/x" ;;
                        owner) chown -R 65534:65534 "$D/$file" ;;
                        unreadable) chmod 0 "$D/$file" ;;
                        empty) : >"$D/$file" ;;
                        huge) truncate -s 3G "$D/$file" ;;
                        fifo) mkfifo "$D/$file" ;;
                        link) ln -s /nowhere/at/all "$D/$file" ;;
                        esac
                        starts "$file: $how"
                        case $file:$how in
                        state/config:* | *:owner | *:unreadable | state/jobs:directory | run/*:empty) ;;
                        *) grep -q 'set aside as' "$D/qschedd.log" ;;
                        esac
                done
        done
}

@test "corrupt state: a hundred journals set aside already keep nothing from starting" {
        good_state
        for ((i = 1; i < 100; i++)); do
                : >"$D/run/undo.journal.bad-$i"
        done
        cp -a "$D/run" "$D/good/"
        for how in lines whole; do
                refill
                case $how in
                lines) echo rubbish >>"$D/run/undo.journal" ;;
                whole) rm "$D/run/undo.journal" && mkdir "$D/run/undo.journal" ;;
                esac
                starts "$how"
                grep -q 'set aside as .*bad-100' "$D/qschedd.log"
        done
}

@test "what can be read of a corrupt state stays in force: revert still knows the old masks" {
        good_state
        before=$(masks $$)
        { echo rubbish; cat "$D/good/run/undo.journal"; printf '{"t":"affin'; } >"$D/run/undo.journal"
        chown 65534 "$D/run/undo.journal"
        start_qschedd
        [ "$(masks "${workers[0]}")" != "$before" ]
        call Revert s '' >/dev/null
        [ "$(masks "${workers[0]}")" = "$before" ]
        [ "$(masks "${workers[1]}")" = "$before" ]
}

@test "a broken configuration: garbage, a directory, cut off at every line; the last good one is in force" {
        printf '[Daemon]\nInterval=1234ms\n[Placement]\nHoldOff=3s\n' >"$D/qschedd.conf"
        mkdir "$D/qschedd.conf.d"
        printf '[Solver]\nSeed=7\n' >"$D/qschedd.conf.d/seed.conf"
        good_state
        for how in garbage directory cut fifo huge key drop-in; do
                refill
                rm -f "$D/qschedd.conf.d/bad.conf"
                case $how in
                garbage) head -c 5000 /dev/urandom >"$D/qschedd.conf" ;;
                directory) rm "$D/qschedd.conf" && mkdir "$D/qschedd.conf" ;;
                cut) head -c 11 "$D/good/qschedd.conf" >"$D/qschedd.conf" ;;
                fifo) rm "$D/qschedd.conf" && mkfifo "$D/qschedd.conf" ;;
                huge) truncate -s 3G "$D/qschedd.conf" ;;
                key) echo NoSuchKey=1 >>"$D/qschedd.conf" ;;
                drop-in) printf '[Daemon]\nInterval=-1\n' >"$D/qschedd.conf.d/bad.conf" ;;
                esac
                echo "$how"
                start_qschedd
                grep "qschedd.conf.*the last good configuration is in force ($D/state/config/qschedd.conf)" "$D/qschedd.log"
                [ "$(status | jq .interval_us)" = 1234000 ]
                stop_qschedd KILL
                [ ! -d "$D/qschedd.conf" ] || rmdir "$D/qschedd.conf"
                rm -f "$D/qschedd.conf"
        done
}

@test "a broken configuration at the very first start: exit 1, file and line" {
        printf '[Daemon]\nNoSuchKey=1\n' >"$D/qschedd.conf"
        run -1 qschedd --config "$D/qschedd.conf"
        [[ $output = *qschedd.conf:2* ]]
        [ ! -e "$D/state/config" ]
}

# ---- a line of a later version ----------------------------------------------------------------------------------------------

@test "a journal with lines of a later version: what is known stays in force" {
        good_state
        before=$(masks $$)
        printf '{"t":"later","id":1,"job":"pair","what":[1,2]}\n' >>"$D/run/undo.journal"
        sed -i 's/^{"t":"affinity",/&"later":true,/' "$D/run/undo.journal"
        start_qschedd
        grep -h -q '"t":"later"' "$D"/run/undo.journal*
        call Revert s '' >/dev/null
        [ "$(masks "${workers[0]}")" = "$before" ]
        [ "$(masks "${workers[1]}")" = "$before" ]
}
