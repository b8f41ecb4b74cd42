#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The world changes under placed tasks: cpusets are rewritten, pids are used again. What is asserted of placements is
# what /proc says.

load helpers

setup() {
        setup_all
        printf '[Daemon]\nInterval=300ms\n[Placement]\nHoldOff=0\nHousekeepingCores=0\n' >"$D/qschedd.conf"
        group=
}

teardown() {
        local r=0
        teardown_all || r=1
        if [ -n "$group" ]; then
                sleep 0.2
                rmdir "$group"
        fi
        return $r
}

# A foreign cpuset with all CPUs, for the processes given.
foreign_cpuset() { # pid...
        need_root
        local root=/sys/fs/cgroup/cpuset
        [ -w $root/cpuset.cpus ] || skip "no cpuset controller on the legacy hierarchy here"
        group=$root/qsched-bats-$$
        mkdir "$group"
        cat $root/cpuset.mems >"$group/cpuset.mems"
        cat $root/cpuset.cpus >"$group/cpuset.cpus"
        local p
        for p in "$@"; do
                echo "$p" >"$group/cgroup.procs"
        done
}

@test "a cpuset that is cut under a placed task: it is planned anew inside, once, and stays in its group" {
        need_cpus 2
        start_qschedd
        worker --threads=3
        worker --threads=3
        a=${workers[0]} b=$last
        foreign_cpuset "$a"
        apply "$(job one "$a")" "$(job two "$b")" >/dev/null
        other=$(masks "$b")
        [ "$(masks "$a")" != "$other" ]
        echo "$other" >"$group/cpuset.cpus"
        wait_until 5 eval "[ \"\$(masks $a)\" = $other ]"
        wait_until 5 eval "[ \"\$(call GetStatus | jq -r '.plan.tasks[] | select(.name == \"one/0\") | .cpus')\" = $other ]"
        grep -qx "3:cpuset:/${group##*/}\|.*:cpuset:/${group##*/}" /proc/"$a"/cgroup
        sleep 1.5
        n=$(grep -c 'refused' "$D/qschedd.log" || true)
        sleep 1.5
        [ "$(grep -c 'refused' "$D/qschedd.log" || true)" = "$n" ]
        [ "$n" -le 6 ]
}

@test "a pid that is used again is a stranger's: not touched, also not after a start" {
        need_root
        [ -w /proc/sys/kernel/ns_last_pid ] || skip "this kernel does not let a pid be chosen (no ns_last_pid)"
        need_cpus 2
        start_qschedd
        before=$(masks $$)
        worker --threads=2
        a=$last
        apply "$(job one "$a")" >/dev/null
        [[ $(masks "$a") =~ ^[0-9]+$ ]]
        kill "$a"
        wait "$a" || true
        for _ in {1..200}; do
                echo $((a - 1)) >/proc/sys/kernel/ns_last_pid
                sleep 60 3>&- &
                stranger=$!
                [ $stranger = "$a" ] && break
                kill $stranger
        done
        [ $stranger = "$a" ] || skip "the pid $a could not be had again"
        pids+=($stranger)
        sleep 1.2
        [ "$(masks $stranger)" = "$before" ]
        stop_qschedd
        start_qschedd
        sleep 1.2
        [ "$(masks $stranger)" = "$before" ]
}
