#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# qschedctl's verbs against a daemon on a bus of its own.

# shellcheck disable=SC2154,SC2016 # helpers set last; what is written for another shell
bats_require_minimum_version 1.5.0
load helpers
load ctl-helpers

with_daemon() {
        export RUNTIME_DIRECTORY=$D/run STATE_DIRECTORY=$D/state DBUS_SYSTEM_BUS_ADDRESS=unix:path=$D/bus
        mkdir "$D/run" "$D/state"
        [ -e "$D/qschedd.conf" ] ||
                printf '[Daemon]\nInterval=300ms\n[Placement]\nHoldOff=0\nHousekeepingCores=0\n[Device npu0]\nKind=ascend\nMemory=64G\n' >"$D/qschedd.conf"
        need_root
        start_bus
        start_qschedd
}

@test "daemon: plan, apply, status, explain, topology, revert; text within 80 columns" {
        need_cpus 2
        with_daemon
        worker --threads=3
        job one "$last" >"$D/one.job"
        before=$(masks "$last")
        run -0 qschedctl plan "$D/one.job"
        narrow
        [ "$(masks "$last")" = "$before" ]
        run -0 qschedctl apply --dry-run "$D/one.job"
        [[ $output == *"nothing was written"* ]]
        [ "$(masks "$last")" = "$before" ]
        run -0 qschedctl apply "$D/one.job"
        narrow
        [[ $output == *" written"* ]]
        after=$(masks "$last")
        [ "$after" != "$before" ]
        [ "$(expand <<<"$after" | wc -l)" -eq 1 ]
        run -0 qschedctl apply --json "$D/one.job"
        jq -e '.changed == false and .outcome.written == 0' <<<"$output"
        run -0 qschedctl status
        narrow
        [[ $output == *"one/0"* ]]
        run -0 qschedctl status --json
        jq -e '.jobs[0].name == "one" and .jobs[0].matched == 1' <<<"$output"
        run -0 qschedctl explain one/0
        [[ $output == "one/0 (pid $last)"* ]]
        run -0 qschedctl explain "$last" --json
        [ "$(jq -r '.tasks[0].name' <<<"$output")" = one/0 ]
        run -0 qschedctl topology
        narrow
        [[ $output == *"0 one/0"* ]]
        run -0 qschedctl topology "$D/one.job" --json
        jq -e '.plan.feasible' <<<"$output"
        run -0 qschedctl devices
        [[ $output == *"npu0"*"ascend"* ]]
        run -0 qschedctl revert one
        [ "$(masks "$last")" = "$before" ]
        run -0 qschedctl revert
        fails 1 qschedctl revert none
        fails 1 qschedctl explain none
}

@test "daemon: status tells what the plan has to say; revert without a job tells what it put back" {
        need_cpus 2
        with_daemon
        stop_qschedd
        sed -i 's/^HousekeepingCores=0/HousekeepingCPUs=4095/' "$D/qschedd.conf"
        start_qschedd
        worker --threads=3
        job one "$last" >"$D/one.job"
        before=$(masks "$last")
        run -0 qschedctl apply "$D/one.job"
        run -0 qschedctl status
        narrow
        [[ $output == *"Housekeeping CPUs 4095 are not online"* ]]
        stop_qschedd KILL
        rm "$D"/state/jobs/one.*
        [ "$(masks "$last")" != "$before" ]
        start_qschedd
        run -0 qschedctl revert
        [ "$(masks "$last")" = "$before" ]
        [[ ${lines[0]} == "No job was in force; what was still changed is put back:" ]]
        narrow
        run -0 qschedctl revert
        [[ ${lines[0]} == "Nothing to revert." ]]
}

@test "daemon: its plan is the one that is made without it, and neither counts a tool that holds the device" {
        need_cpus 2
        printf '[Device npu0]\nKind=ascend\nMemory=64G\nNodes=%s\n' "$D/node" >"$D/one.devices"
        cp "$D/one.devices" "$D/qschedd.conf"
        : >"$D/node"
        cp "$(command -v sleep)" "$D/qs-smi"
        cpu=$(qschedctl topology --devices "$D/one.devices" --json | jq -r .allowed | expand | head -n 1)
        taskset -c "$cpu" "$D/qs-smi" 60 9<"$D/node" >/dev/null 2>&1 3>&- &
        pids+=($!)
        worker --threads=2
        printf '[Job]\nName=t\n[Ranks]\nCPUs=1\nDevice=npu0\nMatch=pid:%d\n' "$last" >"$D/t.job"
        with_daemon
        qschedctl plan --json "$D/t.job" | jq -S 'del(.elapsed_us)' >"$D/online"
        qschedctl plan --devices "$D/one.devices" --json "$D/t.job" | jq -S 'del(.elapsed_us)' >"$D/offline"
        diff "$D/online" "$D/offline"
        jq -e '.feasible and .tasks[0].device == ["npu0"]' "$D/online"
        qschedctl status --json | jq -e '[.tasks[].comm] | index("qs-smi") == null'
        cp "$D/qs-smi" "$D/rank" # of another name it is a task: this is what is looked for
        "$D/rank" 60 9<"$D/node" >/dev/null 2>&1 3>&- &
        pids+=($!)
        listed() { qschedctl status --json | jq -e '[.tasks[].comm] | index("rank") != null'; }
        wait_until 10 listed
}

@test "daemon: the dump is a record that can be planned without it" {
        with_daemon
        worker
        job one "$last" >"$D/one.job"
        qschedctl apply "$D/one.job" >/dev/null
        qschedctl dump >"$D/dump.json"
        jq -e '.format == "qsched-record-1" and (.tasks | any(.job == "one"))' "$D/dump.json"
        DBUS_SYSTEM_BUS_ADDRESS=unix:path=$D/none run -0 qschedctl plan --machine "$D/dump.json" "$D/one.job" --json
        jq -e '.feasible and .tasks[0].pid == '"$last" <<<"$output"
        DBUS_SYSTEM_BUS_ADDRESS=unix:path=$D/none run -0 qschedctl devices --machine "$D/dump.json"
        [[ $output == *npu0* ]]
}

@test "daemon: a job without Name= is called like its file" {
        with_daemon
        worker
        for text in "[Ranks]\nMatch=pid:$last\n" "[Job]\nPriority=3\n[Ranks]\nMatch=pid:$last\n" "# c\n[job]\n# c\n[Ranks]\nMatch=pid:$last\n"; do
                printf "%b" "$text" >"$D/like-this.job"
                run -0 qschedctl plan --json "$D/like-this.job"
                [ "$(jq -r '.tasks[0].name' <<<"$output")" = like-this/0 ]
        done
}

@test "daemon: infeasible is exit code 4, and run does not start the command" {
        with_daemon
        printf '[Ranks]\nCount=1\nMinCPUs=30000\n' >"$D/big.job"
        run -4 qschedctl plan "$D/big.job"
        [[ $output == *30000* ]]
        run -4 qschedctl apply "$D/big.job"
        run -4 qschedctl run --job "$D/big.job" touch "$D/started"
        run -4 qschedctl run --device=nosuch touch "$D/started"
        [ ! -e "$D/started" ]
}

@test "daemon: run places the command, prefers its memory, passes its exit code" {
        with_daemon
        run -0 qschedctl run --quiet --cpus=1 -- sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status
        [ "$(expand <<<"$output" | wc -l)" -eq 1 ]
        run -7 qschedctl run --quiet -- sh -c 'exit 7'
        run -0 qschedctl run --name=mine true
        [ "${#lines[@]}" -ge 1 ]
        [[ ${lines[0]} == "qschedctl: mine/0 on CPUs "*"memory node"* ]]
        # the command gets the usual SIGPIPE back
        run -0 qschedctl run --quiet -- sh -c 'sh -c "kill -PIPE \$\$"; echo $?'
        [ "$output" = 141 ]
        [ -e /proc/self/numa_maps ] || skip "no numa_maps here: memory policy not checked"
        run -0 qschedctl run --quiet -- cat /proc/self/numa_maps
        [[ $output == *prefer* ]]
}

@test "daemon: another user may read, and gets a sentence for what may not be" {
        with_daemon
        worker
        job one "$last" >"$D/one.job"
        chmod 644 "$D/one.job"
        run -0 as_nobody qschedctl status
        run -0 as_nobody qschedctl plan "$D/one.job"
        before=$(masks "$last")
        as_nobody qschedctl apply "$D/one.job" >"$D/out" 2>"$D/err" || r=$?
        cat "$D/out" "$D/err"
        [ "${r:-0}" -eq 1 ]
        [ "$(wc -l <"$D/err")" -eq 1 ]
        [ "$(masks "$last")" = "$before" ]
}

@test "daemon: --host asks over ssh, here one that goes nowhere; what cannot go that way says so" {
        need systemd-stdio-bridge
        with_daemon
        mkdir "$D/bin"
        printf '#!/bin/sh\necho "$@" >%s\nexec systemd-stdio-bridge -p "$DBUS_SYSTEM_BUS_ADDRESS"\n' "$D/arguments" >"$D/bin/ssh"
        chmod 755 "$D/bin/ssh"
        ranks 1 >"$D/one.job"
        PATH=$D/bin:$PATH run -0 qschedctl -H me@box status
        [[ $output == *"qschedd "* ]]
        grep -q me@box "$D/arguments"
        PATH=$D/bin:$PATH run -0 qschedctl --host=box plan --json "$D/one.job"
        jq -e .feasible <<<"$output"
        PATH=$D/bin:$PATH fails 1 qschedctl --host=box dump
        printf '#!/bin/sh\nexit 255\n' >"$D/bin/ssh"
        PATH=$D/bin:$PATH fails 1 qschedctl --host=box status
        grep -q ssh "$D/err"
}
