#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The world changes under placed tasks: cpusets are rewritten, pids are used again. What is asserted of placements is
# what /proc says.

load helpers

# The hold-off is an hour: what changes in the world does not wait for it.
setup() {
        setup_all
        printf '[Daemon]\nInterval=500ms\n[Placement]\nHoldOff=1h\nHousekeepingCores=0\n' >"$D/qschedd.conf"
        root=/sys/fs/cgroup/cpuset groups=() watcher=
}

teardown() {
        local r=0 i
        watch_ends || r=1
        teardown_all || r=1
        [ ${#groups[@]} -eq 0 ] || sleep 0.3
        for ((i = ${#groups[@]} - 1; i >= 0; i--)); do
                [ ! -d "${groups[i]}" ] || rmdir "${groups[i]}" || r=1
        done
        return $r
}

# A foreign cpuset with all CPUs, for the processes given.
foreign_cpuset() { # pid...
        need_root
        [ -w $root/cpuset.cpus ] || skip "no cpuset controller on the legacy hierarchy here"
        group=$root/qsched-bats-$$-${#groups[@]}
        groups+=("$group")
        make_cpuset "$group"
        move_in "$group" "$@"
}

make_cpuset() { # group
        mkdir "$1"
        cat $root/cpuset.mems >"$1/cpuset.mems"
        cat $root/cpuset.cpus >"$1/cpuset.cpus"
}

move_in() { # group pid...
        local p dir=$1
        shift
        for p in "$@"; do
                echo "$p" >"$dir/cgroup.procs"
        done
}

# From here on: no thread of these is ever without CPUs, or outside of its cpuset.
watch_masks() { # pid...
        "$build/tests/helpers/mask-watch" "$D/watched" "$@" 3>&- &
        watcher=$!
}

watch_ends() {
        local r=0 pid=$watcher
        [ -n "$watcher" ] || return 0
        watcher=
        kill "$pid"
        wait "$pid" || r=$?
        [ $r -eq 0 ] || cat "$D/watched"
        return $r
}

ticks() {
        call GetStatus | jq .ticks
}

# What the world is changed by between mark and this, is right two ticks later: the tick that was on does not count.
within_two_ticks() { # command...
        local now
        while :; do
                "$@" >/dev/null 2>&1 && return 0
                now=$(ticks)
                [ "$now" -le $((marked + 3)) ] || break
                sleep 0.05
        done
        echo "not so after two ticks: $*"
        local w
        for w in "${workers[@]}"; do
                [ ! -d "/proc/$w" ] || echo "worker $w: $(masks "$w") in $(grep cpuset "/proc/$w/cgroup")"
        done
        call GetStatus | jq -c '.plan.tasks[] | [.name, .cpus]'
        return 1
}

mark() {
        marked=$(ticks)
}

have() { # pid cpus
        [ "$(masks "$1")" = "$2" ]
}

plan_has() { # rank cpus
        [ "$(call GetStatus | jq -r --arg n "$1" '.plan.tasks[] | select(.name == $n) | .cpus')" = "$2" ]
}

apart() { # pid pid: one CPU each, and not the same
        [[ $(masks "$1") =~ ^[0-9]+$ && $(masks "$2") =~ ^[0-9]+$ && $(masks "$1") != "$(masks "$2")" ]]
}

# Jobs "one" and "two" with $a and $b, each on a CPU of its own ($b on $other), $a in a foreign cpuset. From here on their
# masks are watched and ticks count.
two_jobs() {
        need_cpus 2
        start_qschedd
        worker --threads=3
        worker --threads=3
        a=${workers[0]} b=$last
        foreign_cpuset "$a"
        apply "$(job one "$a")" "$(job two "$b")" >/dev/null
        apart "$a" "$b"
        other=$(masks "$b")
        watch_masks "$a" "$b"
        mark
}

@test "a cpuset that is cut under a placed task: it is planned anew inside, once, and stays in its group" {
        two_jobs
        echo "$other" >"$group/cpuset.cpus"
        within_two_ticks have "$a" "$other"
        within_two_ticks plan_has one/0 "$other"
        grep -qx "3:cpuset:/${group##*/}\|.*:cpuset:/${group##*/}" /proc/"$a"/cgroup
        sleep 1.5
        n=$(grep -c 'refused' "$D/qschedd.log" || true)
        sleep 1.5
        [ "$(grep -c 'refused' "$D/qschedd.log" || true)" = "$n" ]
        [ "$n" -le 6 ]
}

@test "a cpuset that is widened again: who was squeezed has a CPU of its own again" {
        two_jobs
        echo "$other" >"$group/cpuset.cpus"
        within_two_ticks have "$a" "$other"
        mark
        cat $root/cpuset.cpus >"$group/cpuset.cpus"
        within_two_ticks apart "$a" "$b"
        [ "$(call GetStatus | jq -c .drift)" = '[]' ]
}

@test "a cpuset that is cut and widened between two ticks: nothing is taken for somebody's taskset" {
        two_jobs
        kill -STOP "$qschedd"
        echo "$other" >"$group/cpuset.cpus"
        cat $root/cpuset.cpus >"$group/cpuset.cpus"
        taskset -a -p -c "$(cat $root/cpuset.cpus)" "$a" >/dev/null # what kernels before 6.2 do by themselves
        kill -CONT "$qschedd"
        within_two_ticks apart "$a" "$b"
        [ "$(call GetStatus | jq -c .drift)" = '[]' ]
}

@test "moved by its owner into another cpuset, with all masks reset: put right, not taken for somebody's taskset" {
        two_jobs
        foreign_cpuset
        mark
        kill -STOP "$qschedd"
        move_in "$group" "$a"
        taskset -a -p -c "$(cat $root/cpuset.cpus)" "$a" >/dev/null # what kernels before 6.2 do by themselves
        kill -CONT "$qschedd"
        within_two_ticks apart "$a" "$b"
        [ "$(call GetStatus | jq -c .drift)" = '[]' ]
        grep -q ":cpuset:/${group##*/}\$" "/proc/$a/cgroup"
}

@test "a person's taskset in a cpuset that nobody touched is that person's" {
        need_cpus 2
        start_qschedd
        worker --threads=3
        a=$last
        foreign_cpuset "$a"
        apply "$(job one "$a")" >/dev/null
        taskset -a -p -c "$(cat $root/cpuset.cpus)" "$a" >/dev/null
        mark
        sleep 1.6
        have "$a" "$(cat $root/cpuset.cpus)"
        [ "$(call GetStatus | jq '.drift | length')" = 3 ]
}

@test "a container that is stopped and started again is placed anew, by the same job" {
        need_cpus 2
        start_qschedd
        worker --threads=3 --name=wb$$rank0
        worker --threads=3 --name=wb$$rank1
        a=${workers[0]} b=$last
        foreign_cpuset "$a"
        apply "$(printf '[Job]\nName=c\n[Ranks]\nCount=2\nCPUs=1\nMatch=comm:wb%srank*\n' $$)" >/dev/null
        apart "$a" "$b"
        kill "$a"
        wait "$a" || true
        rmdir "$group"
        sleep 1
        mark
        worker --threads=3 --name=wb$$rank0
        a=$last
        make_cpuset "$group"
        move_in "$group" "$a"
        watch_masks "$a" "$b"
        within_two_ticks apart "$a" "$b"
        mark
        other=$(masks "$b")
        echo "$other" >"$group/cpuset.cpus"
        within_two_ticks have "$a" "$other"
}

@test "a rank that ended leaves the others where they are while a change is fresh" {
        need_cpus 2
        start_qschedd
        worker --threads=2
        worker --threads=2
        a=${workers[0]} b=$last
        apply "$(job one "$a" "$b")" >/dev/null
        before=$(masks "$b")
        kill "$a"
        wait "$a" || true
        sleep 1.6
        have "$b" "$before"
}

@test "the cpuset of our own slice is cut: who lives in it is planned anew inside" {
        need_cpus 2
        need_root
        [ -w $root/cpuset.cpus ] || skip "no cpuset controller on the legacy hierarchy here"
        find $root/qsched.slice -depth -type d -exec rmdir {} \; 2>/dev/null || true # what earlier tests left empty
        [ ! -d $root/qsched.slice ] || skip "there is a qsched.slice with processes in it already"
        groups+=("$root/qsched.slice") # with the limit that is written below, which would stand
        start_qschedd
        "$build/qschedctl" run --name=ours --cpus=1 -- "$build/tests/helpers/worker" --threads=3 >"$D/out" 2>&1 3>&- &
        pids+=($!) a=$!
        workers+=("$a")
        wait_until 10 grep -q ready "$D/out"
        own=$(masks "$a")
        [[ $own =~ ^[0-9]+$ ]]
        dir=$root$(sed -n 's/^[0-9]*:cpuset://p' "/proc/$a/cgroup")
        [[ $dir = $root/qsched.slice/* ]]
        groups+=("$dir")
        other=$((1 - own))
        mark
        echo "$other" >"$dir/cpuset.cpus"
        echo "$other" >$root/qsched.slice/cpuset.cpus
        within_two_ticks have "$a" "$other"
        [ "$(cat "$dir/cpuset.cpus")" = "$other" ]
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
