#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# vm: hierarchies=unified,legacy devices=slots,cpus timeout=1500
#
# The world moves under placed ranks: CPUs and devices come and go, cpusets are rewritten by systemd and by others,
# controllers are handed down, units start again. Each time what the kernel says is right within two ticks (Interval= and
# HoldOff= at their defaults), and a watcher that samples all the time sees no thread without CPUs or outside its cpuset.

load helpers

setup() {
        cd "$BATS_TEST_TMPDIR" || return 1
        workers=() watcher='' dirs=() unplugged=()
        systemctl start qschedd
}

teardown() {
        local r=0 c i
        watch_ends || r=1
        [ ${#unplugged[@]} -eq 0 ] || plug "${unplugged[@]}"
        if [ -z "$BATS_TEST_COMPLETED" ]; then
                journalctl -u qschedd -o cat -n 30 --no-pager
        fi
        systemctl -q is-active qschedd && qschedctl revert >/dev/null 2>&1
        if [ ${#workers[@]} -gt 0 ]; then
                kill "${workers[@]}" 2>/dev/null
        fi
        systemctl stop 'qsched-test-*.service' 2>/dev/null
        confined_gone
        for ((i = ${#dirs[@]} - 1; i >= 0; i--)); do
                until_true remove "${dirs[i]}" || r=1
        done
        return $r
}

remove() {
        [ ! -d "$1" ] || rmdir "$1" 2>/dev/null
}

# From here on: no thread of these is ever without CPUs, or outside of its cpuset.
watch_masks() { # pid...
        "$T/mask-watch" watched "$@" 3>&- &
        watcher=$!
}

watch_ends() {
        local r=0 pid=$watcher
        [ -n "$watcher" ] || return 0
        watcher=
        kill "$pid"
        wait "$pid" || r=$?
        cat watched
        return $r
}

status() {
        busctl --json=short call org.qsched1 /org/qsched1 org.qsched1.Manager GetStatus | jq -r '.data[0]'
}

mark() {
        marked=$(status | jq .ticks)
}

# What the world was changed by after mark, is right two ticks later; the tick that was on does not count.
within_two_ticks() { # command...
        local now w
        while :; do
                "$@" >/dev/null 2>&1 && return 0
                now=$(status | jq .ticks)
                [ "$now" -le $((marked + 3)) ] || break
                sleep 0.2
        done
        echo "not so after two ticks: $*"
        "$@"
        for w in "${workers[@]}" "${pid:-}"; do
                [ ! -d "/proc/$w" ] || echo "worker $w: $(masks "$w") in $(cpuset_of "$w")"
        done
        echo "online: $(cat /sys/devices/system/cpu/online)"
        status | jq -c '.plan.tasks[] | [.name, .cpus]'
        return 1
}

unplug() { # cpu...
        local c
        for c in "$@"; do
                echo 0 >"/sys/devices/system/cpu/cpu$c/online"
                unplugged+=("$c")
        done
}

plug() { # cpu...
        local c
        for c in "$@"; do
                echo 1 >"/sys/devices/system/cpu/cpu$c/online"
        done
        unplugged=()
}

have() { # pid cpus
        [ "$(masks "$1")" = "$2" ]
}

without() { # pid cpu: one mask for all threads, and the CPU is not in it
        local m
        m=$(masks "$1")
        echo "process $1: masks $m, wanted without $2"
        [[ $m =~ ^([0-9])(-([0-9]))?$ ]] || return 1
        [ "${BASH_REMATCH[1]}" -gt "$2" ] || [ "${BASH_REMATCH[3]:-${BASH_REMATCH[1]}}" -lt "$2" ]
}

# One mask for all threads, a part of the whole range given.
inside() { # pid first last
        local m
        m=$(masks "$1")
        echo "process $1: masks $m, wanted inside $2-$3"
        [[ $m =~ ^([0-9])(-([0-9]))?$ ]] || return 1
        [ "${BASH_REMATCH[1]}" -ge "$2" ] && [ "${BASH_REMATCH[3]:-${BASH_REMATCH[1]}}" -le "$3" ]
}

# … and it is the plan's word, not just what the kernel left.
planned_as_is() { # rank pid
        [ "$(status | jq -r --arg n "$1" '.plan.tasks[] | select(.name == $n) | .cpus')" = "$(masks "$2")" ]
}

no_drift() {
        local d
        d=$(status | jq -c .drift)
        echo "drift: $d"
        [ "$d" = '[]' ]
}

said() { # text that the daemon logged in this test
        journalctl -u qschedd -o cat --since="@$since" --no-pager | grep -qF -- "$1"
}

one_job() { # name pid device
        printf '[Job]\nName=%s\n[Ranks]\nCount=1\nCPUs=1\nDevice=%s\nMatch=pid:%s\n' "$1" "$3" "$2" >"$1.job"
        qschedctl apply "$1.job" >/dev/null
}

two_ranks() {
        worker --threads=3
        worker --threads=3
        pair_job
        qschedctl apply pair.job >/dev/null
        a=${workers[0]} b=${workers[1]}
        on_node "$a" 3
        on_node "$b" 1
}

pci_of() { # device
        qschedctl devices --json | jq -r --arg n "$1" '(.devices? // .)[] | select(.name == $n) | .pci'
}

@test "a rank's CPU is unplugged: it has others, as planned; plugged again: nothing is taken for drift" {
        two_ranks
        own=$(masks "$a")
        own=${own##*-}
        watch_masks "$a" "$b"
        mark
        unplug "$own"
        within_two_ticks without "$a" "$own"
        within_two_ticks planned_as_is pair/0 "$a"
        on_node "$b" 1
        no_drift
        mark
        plug "$own"
        sleep 16
        inside "$a" 4 7
        planned_as_is pair/0 "$a"
        on_node "$b" 1
        no_drift
        qschedctl revert
        everywhere "$a"
        everywhere "$b"
}

@test "all CPUs of a rank's node are unplugged: it runs elsewhere, apart from the other rank; plugged again: it is back" {
        two_ranks
        watch_masks "$a" "$b"
        mark
        unplug 6 7
        within_two_ticks inside "$a" 0 5
        within_two_ticks planned_as_is pair/0 "$a"
        on_node "$b" 1
        [ "$(masks "$a")" != "$(masks "$b")" ]
        no_drift
        mark
        plug 6 7
        within_two_ticks on_node "$a" 3
        no_drift
}

@test "a CPU is unplugged and plugged between two ticks: nothing is taken for drift" {
        two_ranks
        own=$(masks "$a")
        own=${own##*-}
        kill -STOP "$(systemctl show -P MainPID qschedd)"
        unplug "$own"
        plug "$own"
        kill -CONT "$(systemctl show -P MainPID qschedd)"
        mark
        within_two_ticks on_node "$a" 3
        no_drift
}

@test "a CPU is unplugged and plugged between two ticks under a rank in a unit's cpuset: nothing is taken for drift" {
        confined twice 4-7 "$T/worker" --threads=3
        until_true has_threads "$pid" 3
        one_job twice "$pid" "$(device 3)"
        on_node "$pid" 3
        own=$(masks "$pid")
        own=${own##*-}
        kill -STOP "$(systemctl show -P MainPID qschedd)"
        unplug "$own"
        plug "$own"
        masks "$pid"
        kill -CONT "$(systemctl show -P MainPID qschedd)"
        mark
        if unified; then
                within_two_ticks on_node "$pid" 3
        else
                # The legacy kernel takes the CPU out of the cpuset for good
                within_two_ticks planned_as_is twice/0 "$pid"
                without "$pid" "$own"
                inside "$pid" 4 7
        fi
        no_drift
}

@test "unplugged while the daemon is down: its start puts it right" {
        two_ranks
        own=$(masks "$a")
        own=${own##*-}
        watch_masks "$a" "$b"
        systemctl kill -s KILL qschedd
        unplug "$own"
        until_true systemctl -q is-active qschedd
        until_true without "$a" "$own"
        until_true planned_as_is pair/0 "$a"
        no_drift
}

@test "a CPU that the machine gets while it runs is one to plan with" {
        monitor device_add max-x86_64-cpu,id=cpu8,socket-id=0,core-id=4,thread-id=0
        until_true test -e /sys/devices/system/cpu/cpu8
        mark
        echo 1 >/sys/devices/system/cpu/cpu8/online || true
        until_true grep -q 8 /sys/devices/system/cpu/online
        worker --threads=3
        printf '[Job]\nName=eight\n[Ranks]\nCount=1\nCPUs=1\nDevice=none\nMatch=pid:%s\n' "${workers[0]}" >eight.job
        within_two_ticks eval "status | jq -e '.machine | tostring | contains(\"8\")'"
        since=$(date +%s)
        qschedctl apply eight.job
        mark
        echo 0 >/sys/devices/system/cpu/cpu8/online # pulling it out for good crashes QEMU
        within_two_ticks inside "${workers[0]}" 0 7
}

@test "a unit's cpuset is cut under a rank and widened again, as kubelet does: planned anew inside, in its group" {
        confined cut 0-7 "$T/worker" --threads=3
        until_true has_threads "$pid" 3
        one_job cut "$pid" "$(device 3)"
        on_node "$pid" 3
        group=$(group_of "$pid")
        watch_masks "$pid"
        mark
        confine cut 0-1
        within_two_ticks inside "$pid" 0 1
        within_two_ticks planned_as_is cut/0 "$pid"
        no_drift
        mark
        confine cut 0-7
        within_two_ticks on_node "$pid" 3
        no_drift
        [ "$(group_of "$pid")" = "$group" ]
        qschedctl revert
        have "$pid" 0-7
}

@test "a cpuset is cut and widened again between two ticks: nothing is taken for a person's taskset" {
        confined flip 4-7 "$T/worker" --threads=3
        until_true has_threads "$pid" 3
        one_job flip "$pid" "$(device 3)"
        on_node "$pid" 3
        kill -STOP "$(systemctl show -P MainPID qschedd)"
        confine flip 4-5
        confine flip 4-7
        masks "$pid"
        kill -CONT "$(systemctl show -P MainPID qschedd)"
        mark
        within_two_ticks on_node "$pid" 3
        no_drift
}

@test "a CPU is unplugged under a rank in a unit's cpuset, whose masks the kernel resets: put right, and again when it is back" {
        confined hot 4-7 "$T/worker" --threads=3
        until_true has_threads "$pid" 3
        one_job hot "$pid" "$(device 3)"
        own=$(masks "$pid")
        own=${own##*-}
        watch_masks "$pid"
        mark
        unplug "$own"
        within_two_ticks planned_as_is hot/0 "$pid"
        without "$pid" "$own"
        inside "$pid" 4 7
        no_drift
        mark
        plug "$own"
        sleep 16
        inside "$pid" 4 7
        planned_as_is hot/0 "$pid"
        no_drift
}

@test "set-property of a slice above: the ranks below are planned anew inside, and again when it is lifted" {
        unified || skip "systemd has no AllowedCPUs= on the legacy hierarchy"
        systemd-run -q --unit=qsched-test-below --slice=qschedtest.slice "$T/worker" --threads=3
        pid=$(systemctl show -P MainPID qsched-test-below)
        until_true has_threads "$pid" 3
        one_job below "$pid" "$(device 3)"
        on_node "$pid" 3
        watch_masks "$pid"
        mark
        systemctl set-property --runtime qschedtest.slice AllowedCPUs=0-3
        within_two_ticks inside "$pid" 0 3
        no_drift
        mark
        systemctl set-property --runtime qschedtest.slice AllowedCPUs=
        within_two_ticks on_node "$pid" 3
        no_drift
}

@test "set-property of qsched.slice: what runs in a scope of ours is planned anew inside" {
        unified || skip "systemd has no AllowedCPUs= on the legacy hierarchy"
        systemd-run -q --scope --slice=user.slice qschedctl run --name=owned --cpus=1 --device="$(device 3)" -- \
                "$T/worker" --threads=3 >run.log 2>&1 3>&- &
        workers+=($!)
        until_true grep -q ready run.log
        pid=${workers[0]}
        on_node "$pid" 3
        mark
        systemctl set-property --runtime qsched.slice AllowedCPUs=0-3
        within_two_ticks inside "$pid" 0 3
        mark
        systemctl set-property --runtime qsched.slice AllowedCPUs=0-7 # 6.1 does not empty one that is in use
        cat /sys/fs/cgroup/qsched.slice/cpuset.cpus.effective
        within_two_ticks on_node "$pid" 3
        systemctl set-property --runtime qsched.slice AllowedCPUs=
}

@test "daemon-reload resets a delegated cpuset: seen and put right" {
        unified || skip "systemd writes no cpusets on the legacy hierarchy"
        confined reload 0-7 "$T/worker" --threads=3
        until_true has_threads "$pid" 3
        echo 4-7 >"$(cpuset_of "$pid")/cpuset.cpus" # by a container runtime, past systemd
        one_job reload "$pid" "$(device 3)"
        on_node "$pid" 3
        own=$(masks "$pid")
        watch_masks "$pid"
        mark
        systemctl daemon-reload
        cpuset_cpus "$(cpuset_of "$pid")"
        masks "$pid"
        within_two_ticks have "$pid" "$own"
        sleep 6
        have "$pid" "$own"
        no_drift
}

@test "daemon-reload with a rank in a scope of ours: the scope and the rank keep their CPUs" {
        systemd-run -q --scope --slice=user.slice qschedctl run --name=owned --cpus=1 --device="$(device 3)" -- \
                "$T/worker" --threads=3 >run.log 2>&1 3>&- &
        workers+=($!)
        until_true grep -q ready run.log
        pid=${workers[0]}
        own=$(masks "$pid")
        watch_masks "$pid"
        mark
        systemctl daemon-reload
        within_two_ticks have "$pid" "$own"
        sleep 6
        have "$pid" "$own"
        [ "$(cpuset_cpus "$(cpuset_of "$pid")")" = "$own" ]
        no_drift
}

@test "the cpuset controller is handed down above a rank, which resets its masks: seen and put right" {
        unified || skip "the legacy hierarchy hands nothing down"
        dirs+=(/sys/fs/cgroup/qsched-test-outer /sys/fs/cgroup/qsched-test-outer/inner)
        mkdir "${dirs[0]}" "${dirs[1]}"
        worker --threads=3
        a=${workers[0]}
        echo "$a" >"${dirs[1]}/cgroup.procs"
        one_job handed "$a" "$(device 3)"
        on_node "$a" 3
        own=$(masks "$a")
        watch_masks "$a"
        mark
        kill -STOP "$(systemctl show -P MainPID qschedd)"
        grep -qw cpuset /sys/fs/cgroup/cgroup.subtree_control || echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control
        echo +cpuset >"${dirs[0]}/cgroup.subtree_control"
        echo "after the controller was handed down: $(masks "$a")"
        kill -CONT "$(systemctl show -P MainPID qschedd)"
        within_two_ticks have "$a" "$own"
        no_drift
        mark
        kill -STOP "$(systemctl show -P MainPID qschedd)"
        echo -cpuset >"${dirs[0]}/cgroup.subtree_control"
        kill -CONT "$(systemctl show -P MainPID qschedd)"
        within_two_ticks have "$a" "$own"
        no_drift
}

@test "a partition takes CPUs away from all others, and gives them back" {
        unified || skip "partitions are of the unified hierarchy"
        dirs+=(/sys/fs/cgroup/qsched-test-part)
        grep -qw cpuset /sys/fs/cgroup/cgroup.subtree_control || echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control
        mkdir "${dirs[0]}"
        two_ranks
        watch_masks "$a" "$b"
        mark
        echo 6-7 >"${dirs[0]}/cpuset.cpus"
        echo root >"${dirs[0]}/cpuset.cpus.partition"
        cat "${dirs[0]}/cpuset.cpus.partition"
        [ "$(cat /sys/fs/cgroup/cpuset.cpus.effective)" = 0-5 ]
        within_two_ticks inside "$a" 0 5
        no_drift
        mark
        echo member >"${dirs[0]}/cpuset.cpus.partition"
        within_two_ticks on_node "$a" 3
        no_drift
}

@test "a unit is restarted: its new processes have their place by the same job" {
        confined again 0-7 "$T/worker" --threads=3 --name=qsworldagain
        until_true has_threads "$pid" 3
        printf '[Job]\nName=again\n[Ranks]\nCount=1\nCPUs=1\nDevice=%s\nMatch=comm:qsworldagain\n' "$(device 3)" >again.job
        qschedctl apply again.job
        on_node "$pid" 3
        old=$pid
        systemctl stop qsched-test-again
        until_true gone "/proc/$old"
        sleep 6
        mark
        confined again 0-7 "$T/worker" --threads=3 --name=qsworldagain
        until_true has_threads "$pid" 3
        [ "$pid" != "$old" ]
        within_two_ticks on_node "$pid" 3
}

# Devices that can be pulled: edu on the spare ports of nodes 1 and 3. Sets new.
plug_device() { # id bus
        local before
        before=$(qschedctl devices --json | jq -r '(.devices? // .)[].name' | sort)
        monitor device_add "edu,id=$1,bus=$2"
        until_true more_devices "$before"
        new=$(qschedctl devices --json | jq -r '(.devices? // .)[].name' | sort | comm -13 <(echo "$before") -)
        [ -n "$new" ]
}

more_devices() { # names
        [ "$(qschedctl devices --json | jq -r '(.devices? // .)[].name' | sort)" != "$1" ]
}

has_device() { # name node
        [ "$(qschedctl devices --json | jq --arg n "$1" '(.devices? // .)[] | select(.name == $n) | .numa_node')" = "$2" ]
}

@test "devices are plugged and pulled: the rank of one that went stays, that is said, on the bus too; names stay with the others" {
        since=$(date +%s)
        busctl --json=short monitor org.qsched1 >bus.log 2>/dev/null 3>&- &
        workers+=($!)
        sleep 2
        plug_device hot1 spare1
        one=$new
        plug_device hot3 spare3
        three=$new
        until_true said "Device $three (edu) has come"
        has_device "$one" 1
        has_device "$three" 3
        until_true grep -q "InterfacesAdded" bus.log
        worker --threads=3
        worker --threads=3
        a=${workers[1]} b=${workers[2]}
        one_job first "$a" "$one"
        one_job third "$b" "$three"
        on_node "$a" 1
        on_node "$b" 3
        own=$(masks "$a")
        watch_masks "$a" "$b"
        mark
        monitor device_del hot1
        until_true said "Device $one is gone"
        until_true said "what is placed stays"
        have "$a" "$own"
        on_node "$b" 3
        has_device "$three" 3
        until_true grep -q "\"$one\",\"gone\"" bus.log
        until_true grep -q 'InterfacesRemoved' bus.log
        no_drift
        plug_device hot1 spare1
        [ "$new" = "$one" ]
        mark
        within_two_ticks on_node "$a" 1
        on_node "$b" 3
        no_drift
        monitor device_del hot1
        monitor device_del hot3
        until_true said "Device $three is gone"
}

@test "the daemon did not die in all this" {
        [ "$(systemctl is-failed qschedd)" = active ]
        ! journalctl -o cat -k | grep -E 'segfault|general protection'
}
