#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# qschedd's start, end and bus, on a bus of its own with real processes.

load helpers

setup() {
        setup_daemon
}

teardown() {
        teardown_all
}

# --- start and end -----------------------------------------------------------------------------------------------

@test "no bus: one sentence, exit 1" {
        DBUS_SYSTEM_BUS_ADDRESS=unix:path=$D/none run qschedd --config "$D/qschedd.conf"
        echo "$status $output"
        [ "$status" -eq 1 ]
        [[ $output = *"system bus cannot be reached"* ]]
        [ "${#lines[@]}" -eq 1 ]
}

@test "a second daemon for the same runtime directory: one sentence, exit 1, the first goes on" {
        start_qschedd
        run qschedd --config "$D/qschedd.conf"
        echo "$status $output"
        [ "$status" -eq 1 ]
        [[ $output = *"Another qschedd runs"* ]]
        call GetStatus
}

@test "the name is taken: one sentence, exit 1" {
        start_qschedd
        mkdir "$D/run2"
        RUNTIME_DIRECTORY=$D/run2 run qschedd --config "$D/qschedd.conf"
        echo "$status $output"
        [ "$status" -eq 1 ]
        [[ $output = *"name org.qsched1 is taken"* ]]
}

@test "options: help, version, unknown ones, arguments" {
        run qschedd --help
        [ "$status" -eq 0 ]
        [[ $output = *--devices* ]]
        run qschedd --version
        [[ $output = "qschedd "* ]]
        run qschedd --no-such-option
        [ "$status" -eq 2 ]
        run qschedd argument
        [ "$status" -eq 2 ]
}

@test "a bad configuration: file, line and what is allowed; exit 1" {
        printf '[Daemon]\nInterval=300ms\nNoSuchKey=1\n' >"$D/qschedd.conf"
        run qschedd --config "$D/qschedd.conf"
        echo "$output"
        [ "$status" -eq 1 ]
        [[ $output = *"qschedd.conf:3"* ]]
        run qschedd --config "$D/qschedd.conf" --check-config
        [ "$status" -eq 1 ]
        : >"$D/qschedd.conf"
        printf '[Device npu0]\nKind=ascend\nNUMANode=77\n' >"$D/devices"
        run qschedd --config "$D/qschedd.conf" --devices "$D/devices"
        echo "$output"
        [ "$status" -eq 1 ]
        [[ $output = *"devices:3"* ]]
}

@test "SIGHUP with a bad configuration: the old one stays in force" {
        start_qschedd
        printf '[Daemon]\nInterval=-3\n' >"$D/qschedd.conf"
        kill -HUP "$qschedd"
        wait_until 5 grep -q 'old one stays in force' "$D/qschedd.log"
        [ "$(status | jq .interval_us)" = 300000 ]
        printf '[Daemon]\nInterval=400ms\n[Device npu0]\nKind=ascend\nNUMANode=77\n' >"$D/qschedd.conf"
        kill -HUP "$qschedd"
        wait_until 5 eval '[ "$(grep -c "old one stays in force" "$D/qschedd.log")" = 2 ]'
        printf '[Daemon]\nInterval=400ms\n' >"$D/qschedd.conf"
        kill -HUP "$qschedd"
        wait_until 5 grep -q 'was read again' "$D/qschedd.log"
        [ "$(status | jq .interval_us)" = 400000 ]
}

@test "SIGTERM ends it with 0 and leaves placements" {
        need_cpus 2
        start_qschedd
        two_placed
        before=$(masks "$last")
        kill "$qschedd"
        wait "$qschedd"
        [ "$(masks "$last")" = "$before" ]
        [ -e "$D/state/jobs/one.job" ]
}

@test "SIGUSR1 puts everything back and ends it; what is applied comes back with the next start" {
        need_cpus 2
        start_qschedd
        before=$(all_cpus)
        two_placed
        kill -USR1 "$qschedd"
        wait "$qschedd"
        [ "$(masks "$last")" = "$before" ]
        [ "$(masks "${workers[0]}")" = "$before" ]
        start_qschedd
        wait_until 5 eval "[[ \$(masks $last) =~ ^[0-9]+\$ ]]"
}

@test "the bus goes away: a sentence, exit 1, placements stay" {
        need_cpus 2
        start_qschedd
        two_placed
        mask=$(masks "$last")
        kill "$bus"
        code=0
        wait "$qschedd" || code=$?
        [ "$code" -eq 1 ]
        grep -q 'connection to the system bus was lost' "$D/qschedd.log"
        [ "$(masks "$last")" = "$mask" ]
}

# --- the bus -----------------------------------------------------------------------------------------------------

@test "methods and signals have the signatures of org.qsched1(5)" {
        start_qschedd
        busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" introspect org.qsched1 /org/qsched1 org.qsched1.Manager >"$D/api"
        cat "$D/api"
        for row in '.Plan method a(ss)a{sv} s' '.Apply method a(ss)a{sv} s' '.Run method sa{sv} s' '.Revert method s s' \
                '.Explain method s s' '.GetStatus method - s' '.DumpByFileDescriptor method - h' '.Reload method - -' \
                '.PlanApplied signal sbu' '.Drift signal uussss' '.DeviceFault signal ss' '.Version property s' '.Energy property d'; do
                tr -s ' ' <"$D/api" | grep -qF -- "$row" || { echo "missing: $row"; return 1; }
        done
}

@test "devices, jobs and tasks are objects; they come and go with signals" {
        printf '[Device npu0]\nKind=ascend\nNUMANode=0\nMemory=64G\n' >"$D/devices"
        start_qschedd --devices "$D/devices"
        listen
        tree() { busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" --list tree org.qsched1; }
        tree | grep -qx /org/qsched1/device/npu0
        [ "$(busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" get-property org.qsched1 /org/qsched1/device/npu0 org.qsched1.Device Kind)" = 's "ascend"' ]
        worker --threads=2
        apply "$(job one "$last")"
        tree | grep -qx /org/qsched1/job/one
        tree | grep -qx "/org/qsched1/task/$last"
        [ "$(busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" get-property org.qsched1 "/org/qsched1/task/$last" org.qsched1.Task Name)" = 's "one/0"' ]
        [ "$(property Jobs)" = 1 ]
        call Revert s one
        wait_until 5 eval '! tree | grep -q /org/qsched1/job/one'
        [ "$(property Jobs)" = 0 ]
        for word in InterfacesAdded InterfacesRemoved PropertiesChanged PlanApplied; do
                grep -q "Member=$word" "$D/signals" || { echo "no signal $word"; return 1; }
        done
}

@test "a device that goes bad is told of, once" {
        device() { printf '[Device npu0]\nKind=ascend\nNUMANode=0\nHealth=%s\n' "$1" >"$D/devices"; }
        device ok
        start_qschedd --devices "$D/devices"
        listen
        device critical
        kill -HUP "$qschedd"
        wait_until 5 grep -q "Member=DeviceFault" "$D/signals"
        kill -HUP "$qschedd"
        sleep 1
        [ "$(grep -c "Member=DeviceFault" "$D/signals")" = 1 ]
        [ "$(busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" get-property org.qsched1 /org/qsched1/device/npu0 org.qsched1.Device Health)" = 's "critical"' ]
}

@test "errors have names and sentences" {
        start_qschedd
        run call Revert s nosuch
        [[ $output = *'no job "nosuch"'* ]]
        run call Explain s nosuch
        [[ $output = *'no task, process or applied job "nosuch"'* ]]
        run plan "$(printf '[Job]\nNoSuch=1\n')"
        echo "$output"
        [[ $output = *":2"* ]]
        run call Plan 'a(ss)a{sv}' 0 1 colour s red
        [[ $output = *'Option "colour" is not known'* ]]
        run call Plan 'a(ss)a{sv}' 0 1 seed s red
        [[ $output = *'"seed" is of a wrong type'* ]]
        run call Plan 'a(ss)a{sv}' 1 "$(printf '[Job]\nName=x\n[Ranks]\nCount=1\n')" "" 1 seed t 18446744073709551615
        [[ $output = *'seed=18446744073709551615 is too large'* ]]
        run call Plan 'a(ss)a{sv}' 0 0
        [[ $output = *'nothing to plan'* ]]
        run plan "$(printf '[Job]\nName=../x\n[Ranks]\nCount=1\n')"
        [ "$status" -ne 0 ] || [[ $output != *feasible* ]]
        [ ! -e "$D/state/x.job" ]
        call GetStatus
}

@test "the record comes by file descriptor and is a record" {
        need gdbus
        start_qschedd
        [ -x "$build/qschedctl" ] || skip "qschedctl is not built"
        qschedctl dump >"$D/record"
        [ "$(jq -r .format "$D/record")" = qsched-record-1 ]
}

# --- much --------------------------------------------------------------------------------------------------------

@test "texts of more than 64 KiB are refused, callers that vanish and floods do no harm" {
        printf '[Solver]\nBudget=20ms\n' >>"$D/qschedd.conf"
        start_qschedd
        "$build/tests/helpers/bus-flood" >"$D/flood"
        cat "$D/flood"
        grep -q '^big: .*at most 65536' "$D/flood"
        grep -q '^busy: .*wait for the solver already' "$D/flood"
        grep -q '^served: [1-9]' "$D/flood"
        run grep 'timed out' "$D/flood"
        [ "$status" -eq 1 ]
        idle() { call GetStatus | jq -e '.state == "idle" and .queued == 0'; }
        wait_until 60 idle
        ticks=$(cut -d' ' -f14 "/proc/$qschedd/stat")
        sleep 2
        [ $(($(cut -d' ' -f14 "/proc/$qschedd/stat") - ticks)) -lt 100 ] # of 200: it does not spin
}
