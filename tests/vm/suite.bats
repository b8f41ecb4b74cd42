#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Runs in the guest that tests/vm/run boots: four NUMA nodes of two CPUs, an edu device on node 1 and one on node 3,
# qschedd as installed. What is asserted is what the kernel and systemd say, not what qschedd says of itself.
#
# vm: hierarchies=unified,legacy

load helpers

@test "the guest is up and no unit failed" {
        run systemctl is-system-running --wait
        systemctl --failed --no-legend
        [ "$output" = running ]
}

@test "the guest has four NUMA nodes, two devices on nodes 1 and 3, and the control groups that were asked for" {
        for n in 0 1 2 3; do
                [ "$(cat /sys/devices/system/node/node$n/cpulist)" = "$((2 * n))-$((2 * n + 1))" ]
        done
        [ ! -e /sys/devices/system/node/node4 ]
        [ "$(cat /sys/bus/pci/devices/0000:21:00.0/numa_node)" = 1 ]
        [ "$(cat /sys/bus/pci/devices/0000:41:00.0/numa_node)" = 3 ]
        if unified; then
                grep -qw cpuset /sys/fs/cgroup/cgroup.controllers
                [[ $(cat /proc/cmdline) != *unified_cgroup_hierarchy=0* ]]
        else
                [ "$(cat /sys/fs/cgroup/cpuset/cpuset.cpus)" = 0-7 ]
                [ ! -e /sys/fs/cgroup/unified ]
        fi
}

@test "a call on the bus starts the daemon, and systemd counts it as ready" {
        [ "$(systemctl is-active qschedd)" = inactive ]
        busctl call org.qsched1 /org/qsched1 org.qsched1.Manager GetStatus
        [ "$(systemctl is-active qschedd)" = active ]
        [ "$(systemctl show -P SubState qschedd)" = running ]
}

@test "installed as the README says: its user is there, and systemctl enable has it started at boot" {
        getent passwd qsched
        systemctl daemon-reload
        systemctl enable --now qschedd
        [ "$(systemctl is-enabled qschedd)" = enabled ]
        [ "$(systemctl show -P WantedBy qschedd)" = multi-user.target ]
        [ -L /etc/systemd/system/multi-user.target.wants/qschedd.service ]
}

@test "both devices are found on the nodes that the kernel names" {
        [ -n "$(device 1)" ]
        [ -n "$(device 3)" ]
        [ -z "$(device 0)$(device 2)" ]
}

@test "plan writes nothing" {
        worker --threads=3
        worker --threads=3
        pair_job
        qschedctl plan --json pair.job >plan.json
        [ "$(jq -r .feasible plan.json)" = true ]
        everywhere "${workers[0]}"
        everywhere "${workers[1]}"
}

@test "apply puts all threads of each rank on its device's node, those born later too" {
        worker --threads=3 --late=3:8
        worker --threads=3
        pair_job
        qschedctl apply pair.job
        on_node "${workers[0]}" 3
        on_node "${workers[1]}" 1
        until_true has_threads "${workers[0]}" 6
        on_node "${workers[0]}" 3
}

@test "applying twice writes nothing the second time" {
        worker --threads=3
        worker --threads=3
        pair_job
        qschedctl apply pair.job
        qschedctl apply --json pair.job >second.json
        jq -c .outcome second.json
        [ "$(jq -r .outcome.written second.json)" = 0 ]
        on_node "${workers[0]}" 3
}

@test "revert gives every thread its old mask back" {
        worker --threads=3
        worker --threads=3
        taskset -a -p -c 0-5 "${workers[1]}"
        pair_job
        sed -i "s/Device=$(device 1)/Device=none/" pair.job
        qschedctl apply pair.job
        on_node "${workers[0]}" 3
        qschedctl revert pair
        everywhere "${workers[0]}"
        [ "$(masks "${workers[1]}")" = 0-5 ]
}

@test "a task of another unit stays in its group and inside its cpuset; afterwards it follows it again" {
        confined foreign 0-3 "$T/worker" --threads=3
        until_true has_threads "$pid" 3
        cpuset=$(cpuset_of "$pid")
        printf '[Job]\nName=foreign\n[Ranks]\nCount=1\nCPUs=1\nDevice=%s\nMatch=pid:%s\n' "$(device 3)" "$pid" >foreign.job
        qschedctl apply foreign.job
        masks "$pid"
        [[ $(masks "$pid") =~ ^[0-3]$ ]]
        [ "$(group_of "$pid")" = /system.slice/qsched-test-foreign.service ]
        [ "$(cpuset_of "$pid")" = "$cpuset" ]
        [ "$(cat "$cpuset/cpuset.cpus")" = 0-3 ]
        qschedctl revert foreign
        [ "$(masks "$pid")" = 0-3 ]
        confine foreign 0-7
        everywhere "$pid"
}

run_owned() { # sets pid
        systemd-run -q --scope --slice=user.slice qschedctl run --name=owned --cpus=1 --device=edu:1 -- \
                "$T/worker" --threads=3 >run.log 2>&1 3>&- &
        workers+=($!)
        until_true grep -q ready run.log
        pid=${workers[0]}
        cat run.log "/proc/$pid/cgroup"
        [[ $(readlink "/proc/$pid/exe") = */worker ]]
}

@test "run from a login session: a scope in qsched.slice with the CPUs of the plan; memory prefers the device's node" {
        run_owned
        group=$(group_of "$pid")
        cpuset=$(cpuset_of "$pid")
        [[ $group = /qsched.slice/*.scope ]]
        [[ $cpuset = */qsched.slice/*.scope ]]
        effective=$(cpuset_cpus "$cpuset")
        [ "$(masks "$pid")" = "$effective" ]
        [[ $effective = [2367] ]]
        [ "$(cat "$cpuset/cpuset.cpus")" = "$effective" ]
        [ "$(cat "$cpuset/cgroup.procs")" = "$pid" ]
        [ "$(systemctl show -P ControlGroup "${group##*/}")" = "$group" ]
        if unified; then
                [ "$(systemctl show -P AllowedCPUs "${group##*/}")" = "$effective" ]
        fi
        node=$((effective / 2))
        [ "$(cpuset_mems "$cpuset")" = 0-3 ]
        head -n 3 "/proc/$pid/numa_maps"
        [ "$(grep -cE " prefer( \(many\))?:$node " "/proc/$pid/numa_maps")" -gt 0 ]
        [ "$(grep -cE ' bind' "/proc/$pid/numa_maps")" = 0 ]
        kill "$pid"
        until_true gone "$cpuset"
        until_true is_inactive "${group##*/}"
}

is_inactive() {
        ! systemctl -q is-active "$1"
}

@test "revert of what run started gives the process its CPUs back and removes our group" {
        run_owned
        cpuset=$(cpuset_of "$pid")
        qschedctl revert owned
        cat "/proc/$pid/cgroup"
        everywhere "$pid"
        if ! unified; then
                [ "$(cpuset_of "$pid")" = /sys/fs/cgroup/cpuset/ ]
                until_true gone "$cpuset"
        fi
        kill "$pid"
        until_true gone "$cpuset"
        until_true is_inactive "$(basename "$cpuset")"
}

@test "run from inside a unit stays in the unit's group and narrows the mask only" {
        qschedctl run --name=guestrun --cpus=1 --device=edu:1 -- "$T/worker" --threads=3 >run.log 2>&1 3>&- &
        workers+=($!)
        until_true grep -q ready run.log
        pid=${workers[0]}
        cat run.log
        [ "$(group_of "$pid")" = /system.slice/qsched-tests.service ]
        [ "$(cpuset_of "$pid")" = "$(cpuset_of $$)" ]
        [[ $(masks "$pid") = [2367] ]]
}

@test "another user may read, may not place others' processes" {
        worker --threads=3
        worker --threads=3
        pair_job
        as_nobody qschedctl status
        as_nobody qschedctl plan pair.job
        run as_nobody qschedctl apply pair.job
        echo "$status $output"
        [ "$status" -eq 1 ]
        everywhere "${workers[0]}"
        qschedctl apply pair.job
        run as_nobody qschedctl revert pair
        echo "$status $output"
        [ "$status" -eq 1 ]
        on_node "${workers[0]}" 3
        run as_nobody busctl call org.qsched1 /org/qsched1 org.qsched1.Manager Reload
        echo "$status $output"
        [ "$status" -ne 0 ]
}

@test "polkit's word counts: without a rule another user places not even own processes, with a rule does" {
        "${nobody[@]}" taskset -c 4-7 "$T/worker" --threads=3 >worker.out 2>&1 3>&- &
        workers+=($!)
        until_true grep -q ready worker.out
        printf '[Job]\nName=mine\n[Ranks]\nCount=1\nCPUs=1\nDevice=none\nMatch=pid:%s\n' "${workers[0]}" >mine.job
        run as_nobody qschedctl apply mine.job
        [ "$status" -eq 1 ]
        [ "$(masks "${workers[0]}")" = 4-7 ]
        let_nobody
        as_nobody qschedctl apply mine.job
        masks "${workers[0]}"
        [[ $(masks "${workers[0]}") = [0-7] ]]
        as_nobody qschedctl revert mine
        [ "$(masks "${workers[0]}")" = 4-7 ]
        let_nobody_no_more
}

@test "a mask changed by hand is left alone, also by revert" {
        worker --threads=3
        worker --threads=3
        pair_job
        qschedctl apply pair.job
        taskset -a -p -c 4 "${workers[1]}"
        run qschedctl apply pair.job
        echo "$output"
        [ "$(masks "${workers[1]}")" = 4 ]
        qschedctl revert pair
        [ "$(masks "${workers[1]}")" = 4 ]
        everywhere "${workers[0]}"
}

@test "kill -9 of the daemon loses nothing: systemd starts it again, and revert still knows the old masks" {
        worker --threads=3
        worker --threads=3
        pair_job
        qschedctl apply pair.job
        old=$(systemctl show -P MainPID qschedd)
        systemctl kill -s KILL qschedd
        until_true gone "/proc/$old"
        until_true systemctl -q is-active qschedd
        on_node "${workers[0]}" 3
        qschedctl revert pair
        everywhere "${workers[0]}"
        everywhere "${workers[1]}"
}

@test "systemctl restart undoes nothing, systemctl stop undoes all" {
        worker --threads=3
        worker --threads=3
        pair_job
        qschedctl apply pair.job
        systemctl restart qschedd
        on_node "${workers[0]}" 3
        on_node "${workers[1]}" 1
        systemctl stop qschedd
        everywhere "${workers[0]}"
        everywhere "${workers[1]}"
}

@test "the daemon did not die and nothing of ours is left" {
        systemctl start qschedd
        [ "$(systemctl is-failed qschedd)" = active ]
        left=$(find /sys/fs/cgroup -path '*qsched.slice/*' -type d)
        echo "$left"
        [ -z "$left" ]
        died=$(journalctl -o cat -k | grep -E 'segfault|general protection' || true)
        echo "$died"
        [ -z "$died" ]
}
