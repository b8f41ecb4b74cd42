#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Page moves in the guest that tests/vm/run boots: four NUMA nodes of 512 MB. far-memory makes a process whose pages are
# on one node, move-memory drives the daemon's own code, then the daemon does it; what is asserted is numa_maps, meminfo
# and cpusets.
# vm: hierarchies=unified,legacy timeout=900

# shellcheck disable=SC2016,SC2030,SC2031 # what is written for another shell; each test has its far
bats_require_minimum_version 1.5.0
load helpers

# The kernel's own balancing moves pages to where a process runs, which here is anywhere. Emulation is slow and uneven, so
# a stall of 20 ms there says nothing: the bound is wider, and the pressure that a busy host makes in the guest does not
# count, except where the test is about it.
setup() {
        cd "$BATS_TEST_TMPDIR" || return 1
        far=()
        echo 0 >/proc/sys/kernel/numa_balancing
        configure Stall=100ms Pressure=100
}

teardown() {
        if [ -z "$BATS_TEST_COMPLETED" ]; then
                journalctl -u qschedd -o cat -n 25 --no-pager
        fi
        systemctl -q is-active qschedd && qschedctl revert >/dev/null 2>&1
        if [ ${#far[@]} -gt 0 ]; then
                kill "${far[@]}" 2>/dev/null
        fi
        systemctl stop 'qsched-memory-*.service' 'qsched-test-*.service' 2>/dev/null
        confined_gone
        let_nobody_no_more
        rm -f /etc/qsched/qschedd.conf.d/memory.conf
        if [ -n "${held:-}" ]; then
                sleep 0.5
                rmdir "$held"
        fi
        echo 1 >/proc/sys/kernel/numa_balancing
        return 0
}

configure() { # keys of [Memory]; the daemon takes them over if it runs
        printf '[Daemon]\nInterval=1s\n[Placement]\nHoldOff=0\n[Memory]\n' >/etc/qsched/qschedd.conf.d/memory.conf
        printf '%s\n' "$@" >>/etc/qsched/qschedd.conf.d/memory.conf
        if systemctl -q is-active qschedd; then
                systemctl reload qschedd
        fi
}

ready() {
        grep -q ready "$1"
}

lines() { # file number
        [ "$(wc -l <"$1")" -ge "$2" ]
}

far_memory() { # arguments; sets pid, out
        out=far.$RANDOM
        "$T/far-memory" "$@" >$out 2>&1 3>&- &
        pid=$!
        far+=("$pid")
        until_true ready $out
}

far_unit() { # unit, properties and arguments of far-memory, parted by --
        local unit=qsched-memory-$1 properties=()
        shift
        while [ "$1" != -- ]; do
                properties+=(-p "$1")
                shift
        done
        shift
        out=$PWD/far.$RANDOM
        systemd-run -q --unit="$unit" "${properties[@]}" -p StandardOutput="file:$out" "$T/far-memory" "$@"
        until_true ready "$out"
        pid=$(systemctl show -P MainPID "$unit")
}

# MiB of a process's anonymous memory on a node.
on() { # pid node
        sed -n "s/.* anon=.* N$2=\([0-9]*\).*/\1/p" "/proc/$1/numa_maps" | awk '{ n += $1 } END { print int(n / 256) }'
}

# For walls page cache that can go counts as room, so its amount must not vary.
drop_caches() {
        sync
        echo 3 >/proc/sys/vm/drop_caches
}

# Leaves some MiB of a node free above a reserve of 30 %.
fill_all_but() { # MiB node
        local total
        drop_caches
        total=$(awk '$3 == "MemTotal:" { print int($4 / 1024) }' "/sys/devices/system/node/node$2/meminfo")
        far_memory $(($(free_on "$2") - total * 3 / 10 - $1)) "$2"
}

free_on() { # node: MiB
        awk '$3 == "MemFree:" { print int($4 / 1024) }' "/sys/devices/system/node/node$1/meminfo"
}

move() { # arguments of move-memory
        result=0
        "$T/move-memory" --stall=100 --pressure=100 "$@" >move.json || result=$?
        cat move.json
}

field() {
        jq -r ".$1" move.json
}

@test "pages of a process go to the node they are sent to, whole and unharmed" {
        far_memory 64 3
        [ "$(on "$pid" 3)" -ge 64 ]
        [ "$(on "$pid" 1)" -eq 0 ]
        move "$pid" 1
        [ "$result" = 0 ]
        echo "node 3: $(on "$pid" 3) MiB, node 1: $(on "$pid" 1) MiB"
        [ "$(on "$pid" 1)" -ge 64 ]
        [ "$(on "$pid" 3)" -eq 0 ]
        [ "$(field pages.moved)" -ge $((64 * 256)) ]
        [ "$(field stall_max_us)" -gt 0 ]
        kill -USR1 "$pid"
        until_true lines $out 2
        cat $out
        grep -q '^intact' $out
        echo "# moved $(field bytes_moved) bytes in $(field calls) calls (emulated): longest stall $(field stall_max_us) us of 100000," \
                "in all $(field stall_us) us, $(field overruns) too long; longest wait the process saw: $(sed -n 's/.*longest_us=//p' $out) us" >&3
}

@test "what is moved sums up, and a second move finds nothing to do" {
        far_memory 64 3
        move "$pid" 1
        [ "$(jq '.pages | .seen == .moved + .already + .busy + .shared + .absent + .failed + .left' move.json)" = true ]
        move "$pid" 1
        [ "$result" = 0 ]
        [ "$(field pages.moved)" = 0 ]
        [ "$(field pages.already)" -ge $((64 * 256)) ]
}

@test "the process's policy stays as it was" {
        far_memory 32 3
        address=$(sed -n 's/^ready //p' $out)
        move "$pid" 2
        grep -i "anon=" "/proc/$pid/numa_maps" >maps
        cat maps
        run ! grep -qE ' (bind|prefer|interleave)' maps
        [ -n "$address" ]
}

@test "transparent huge pages move as a whole and stay huge" {
        [ -e /sys/kernel/mm/transparent_hugepage/enabled ] || skip "the kernel has none"
        far_memory --huge 64 3
        before=$(awk '/^AnonHugePages/ { n += $2 } END { print n }' "/proc/$pid/smaps")
        [ "$before" -gt 0 ] || skip "the kernel gave none"
        move "$pid" 1
        [ "$result" = 0 ]
        [ "$(on "$pid" 3)" -eq 0 ]
        after=$(awk '/^AnonHugePages/ { n += $2 } END { print n }' "/proc/$pid/smaps")
        echo "huge before $before kB, after $after kB"
        [ "$after" -ge $((before * 9 / 10)) ]
        [ "$(field pages.moved)" -ge $((60 * 256)) ]
}

@test "pages that another process maps as well are left, and counted" {
        far_memory --fork 32 3
        move "$pid" 1
        [ "$(field pages.shared)" -ge $((32 * 256)) ]
        [ "$(on "$pid" 3)" -ge 32 ]
}

@test "a node is not filled beyond its reserve" {
        drop_caches
        have=$(free_on 2)
        total=$(awk '$3 == "MemTotal:" { print int($4 / 1024) }' /sys/devices/system/node/node2/meminfo)
        far_memory 160 3
        victim=$pid
        far_memory $((have - total / 20 - 60)) 2 # leaves room for 60 MiB or so
        move "$victim" 2
        [ "$result" = 3 ]
        [ "$(field stop)" = node-full ]
        [ "$(field pages.left)" -gt 0 ]
        moved=$(($(field bytes_moved) >> 20))
        echo "# node 2: $have of $total MiB were free, $moved MiB moved there, $(free_on 2) MiB free now" >&3
        [ "$(free_on 2)" -ge $((total / 20 - 8)) ]
        [ "$moved" -lt 100 ]
}

@test "nothing goes to a node outside the process's cpuset.mems" {
        if unified; then
                far_unit mems AllowedMemoryNodes=3 -- 32 3
        else # where systemd has no such setting
                far_memory 32 3
                held=/sys/fs/cgroup/cpuset/qsched-memory-mems
                mkdir -p $held
                cat /sys/fs/cgroup/cpuset/cpuset.cpus >$held/cpuset.cpus
                echo 3 >$held/cpuset.mems
                echo "$pid" >$held/cgroup.procs
        fi
        walled "$pid" 3
        move "$pid" 1
        [ "$result" = 3 ]
        [ "$(field stop)" = node-denied ]
        [ "$(field pages.moved)" = 0 ]
        [ "$(on "$pid" 3)" -ge 32 ]
        [ "$(on "$pid" 1)" -eq 0 ]
}

@test "nothing is moved in a cgroup that is near its limit; page cache does not count" {
        far_unit full MemoryMax=66M -- 63 3
        grep -s . /sys/fs/cgroup/{,memory/}system.slice/qsched-memory-full.service/memory.{current,max,usage_in_bytes,limit_in_bytes} || true
        move "$pid" 1
        [ "$(field stop)" = group-full ]
        [ "$(on "$pid" 3)" -ge 62 ]
        systemctl set-property --runtime qsched-memory-full MemoryMax=200M
        move "$pid" 1
        [ "$(field stop)" = "done" ]
        [ "$(on "$pid" 1)" -ge 62 ]
}

@test "a process that ends on the way ends its move" {
        far_memory 200 3
        "$T/move-memory" --stall=5 --pressure=100 "$pid" 1 >move.json &
        mover=$!
        sleep 0.3
        kill "$pid"
        result=0
        wait $mover || result=$?
        cat move.json
        [ "$(field stop)" = gone ] || [ "$(field stop)" = "done" ]
        [ "$(jq '.pages | .seen == .moved + .already + .busy + .shared + .absent + .failed + .left' move.json)" = true ]
}


# ---- the daemon ------------------------------------------------------------------------------------------------------------

job_on() { # node NAME [line of [Ranks]…]; a rank beside the device there, for the process $pid unless a line says Match=
        local node=$1 name=$2 match="Match=pid:$pid"
        shift 2
        [[ $* != *Match=* ]] || match=
        printf '[Job]\nName=%s\n[Ranks]\nCount=1\nDevice=%s\n%s\n' "$name" "$(device "$node")" "$match" >"$name.job"
        printf '%s\n' "$@" >>"$name.job"
}

moves() { # jq filter on "moves"
        qschedctl status --json | jq -r ".moves | $1"
}

has() { # pid node MiB
        [ "$(on "$1" "$2")" -ge "$3" ]
}

placed() { # pid: on the CPUs of node 1
        [[ $(masks "$1") =~ ^[23](-3)?$ ]]
}

stopped() { # why
        [ "$(moves '.last[0].stop')" = "$1" ]
}

pressed() { # the unit qsched-memory-pressed has waited for memory for 3 % of the last ten seconds
        awk -F'[= ]' '/^some/ { exit !($3 > 3) }' /sys/fs/cgroup/system.slice/qsched-memory-pressed.service/memory.pressure
}

idle() {
        [ "$(moves '.running == null and .waiting == 0')" = true ]
}

said() { # what the daemon has logged since the test began
        journalctl -u qschedd -o cat --no-pager --since "@$BATS_TEST_BEGAN"
}

began() {
        BATS_TEST_BEGAN=$(date +%s)
        sleep 1
}

@test "apply: pages of a process that began on the wrong node follow its CPUs, and it is told how much" {
        began
        far_memory 64 3
        job_on 1 near
        qschedctl apply near.job
        placed "$pid"
        until_true has "$pid" 1 64
        until_true idle
        echo "node 3: $(on "$pid" 3) MiB, node 1: $(on "$pid" 1) MiB"
        [ "$(on "$pid" 3)" -eq 0 ]
        moves .
        [ "$(moves '.last | length')" = 1 ]
        [ "$(moves '.last[0] | "\(.job) \(.task) \(.pid) \(.nodes) \(.stop)"')" = "near near/0 $pid 1 done" ]
        [ "$(moves '.last[0].pages.moved')" -ge $((64 * 256)) ]
        [ "$(moves '.last[0].found["3"]')" -ge $((64 << 20)) ]
        [ "$(moves '.last[0].stall_max_us')" -gt 0 ]
        qschedctl status
        qschedctl status | grep -q 'Memory: near/0 6[0-9]\(\.[0-9]\)\? MiB of .* on node 1, longest stall'
        qschedctl explain "$pid"
        qschedctl explain "$pid" | grep -q 'had .*6[0-9]\(\.[0-9]\)\? MiB on node 3.* before it was moved to node 1'
        [ "$(said | grep -c "Job near: memory of near/0 (pid $pid) to node 1: .* moved")" = 1 ]
        kill -USR1 "$pid"
        until_true lines "$out" 2
        grep -q '^intact' "$out"
}

@test "applied again nothing is moved; for another node, it is; a revert leaves pages where they are" {
        began
        far_memory 32 3
        job_on 1 near
        qschedctl apply near.job
        until_true has "$pid" 1 32
        until_true idle
        qschedctl apply near.job
        until_true idle
        [ "$(said | grep -c 'Job near: memory of')" = 1 ]
        [ "$(moves '.last | length')" = 1 ]
        job_on 3 near
        qschedctl apply near.job
        until_true has "$pid" 3 32
        until_true idle
        [ "$(said | grep -c 'Job near: memory of')" = 2 ]
        qschedctl revert
        [ "$(moves '.last | length')" = 0 ]
        [ "$(on "$pid" 3)" -ge 32 ]
        everywhere "$pid"
}

@test "a process whose memory is there already: it ends at once and says nothing" {
        began
        far_memory 16 1
        job_on 1 near
        qschedctl apply near.job
        until_true idle
        [ "$(moves '.last[0].pages.already')" -ge $((16 * 256)) ]
        [ "$(moves '.last[0].pages.moved')" -lt 256 ] # of its libraries at most
        [ "$(on "$pid" 1)" -ge 16 ]
}

@test "processes that share an address space: their memory is moved once" {
        began
        far_memory --share 32 3
        job_on 1 near
        child=$(cat "/proc/$pid/task/$pid/children")
        [ -n "$child" ]
        qschedctl apply near.job
        until_true has "$pid" 1 32
        until_true idle
        placed "${child% }"
        moves .
        [ "$(moves '.last | length')" = 1 ]
        [ "$(said | grep -c 'Job near: memory of')" = 1 ]
}

@test "a process that comes after its job: a tick places it and its pages follow" {
        systemctl start qschedd
        job_on 1 late Match=comm:qm-late
        qschedctl apply late.job
        far_memory --name=qm-late 32 3
        until_true placed "$pid"
        until_true has "$pid" 1 32
}

@test "revert while pages move: the move is called off and the rest stays" {
        began
        configure Stall=1ms Pressure=100
        far_memory 160 3
        job_on 1 near
        qschedctl apply near.job
        until_true has "$pid" 1 4
        qschedctl revert near
        [ "$(moves '.running == null and .waiting == 0 and (.last | length) == 0')" = true ]
        here=$(on "$pid" 1) there=$(on "$pid" 3)
        echo "# called off with $here MiB moved and $there MiB left" >&3
        [ "$there" -gt 0 ]
        sleep 2
        [ "$(on "$pid" 1)" = "$here" ]
        [ "$(on "$pid" 3)" = "$there" ]
        said | grep -q 'Job near: memory of .* stopped: it was called off'
        kill -USR1 "$pid"
        until_true lines "$out" 2
        grep -q '^intact' "$out"
}

@test "Move=no: a reload calls off what moves, and nothing is moved after" {
        began
        configure Stall=1ms Pressure=100
        far_memory 160 3
        job_on 1 near
        qschedctl apply near.job
        until_true has "$pid" 1 4
        configure Move=no
        until_true idle
        here=$(on "$pid" 1)
        [ "$(on "$pid" 3)" -gt 0 ]
        qschedctl apply near.job
        sleep 2
        [ "$(on "$pid" 1)" = "$here" ]
        [ "$(moves .enabled)" = false ]
        configure Move=yes Stall=100ms Pressure=100
        qschedctl apply near.job # goes on
        until_true has "$pid" 1 160
}

@test "a full node stops it, with what to do; once there is room, apply goes on" {
        began
        configure Stall=100ms Pressure=100 Reserve=0.3
        far_memory 120 3
        victim=$pid
        fill_all_but 40 1
        filler=$pid pid=$victim
        job_on 1 near
        qschedctl apply near.job
        until_true stopped node-full
        qschedctl status
        qschedctl status | tr -s ' \n' ' ' | grep -q 'stopped: node 1 has no room: .*; free memory there and apply the job again'
        said | grep -q 'Job near: memory of .* stopped: node 1 has no room'
        [ "$(on "$victim" 3)" -gt 0 ]
        placed "$victim"
        kill "$filler"
        until_true gone "/proc/$filler"
        qschedctl apply near.job
        until_true has "$victim" 1 120
}

@test "pressure in its cgroup stops it" {
        unified || skip "groups tell no pressure on the legacy hierarchy"
        began
        configure Stall=100ms Pressure=1
        # shellcheck disable=SC2016 # for the unit's shell
        systemd-run -q --unit=qsched-memory-pressed -p MemoryHigh=80M -p StandardOutput="file:$PWD/pressed" bash -c \
                '"$0/far-memory" 64 3 & while :; do dd if=/dev/zero of=/var/tmp/qsched-pressed bs=1M count=64 2>/dev/null; done' "$T"
        until_true ready pressed
        pid=$(pgrep -f 'far-memory 64 3')
        until_true pressed
        before=$(on "$pid" 3)
        job_on 1 near
        qschedctl apply near.job
        until_true stopped pressure
        moves .
        [ "$(on "$pid" 3)" -gt $((before / 2)) ]
        said | grep -q 'Job near: memory of .* waited for memory .* of the last ten seconds'
        rm -f /var/tmp/qsched-pressed
}

@test "a user's job moves the memory of that user's process alone" {
        began
        "${nobody[@]}" "$T/far-memory" 32 3 >far.nobody 2>&1 3>&- &
        pid=$!
        far+=("$pid")
        until_true ready far.nobody
        printf '[Job]\nName=mine\n[Ranks]\nCount=1\nDevice=%s\nMatch=pid:%s\n' "$(device 1)" "$pid" >mine.job
        let_nobody
        as_nobody qschedctl apply - <mine.job
        until_true has "$pid" 1 32
        [ "$(moves '.last[0].job')" = mine ]
}

# ---- walls -----------------------------------------------------------------------------------------------------------------

walled() { # pid node
        [ "$(sed -n 's/^Mems_allowed_list:[[:space:]]*//p' "/proc/$1/status")" = "$2" ]
}

# A command of ours that takes 32 MiB wherever it gets them once there is a file "go"; sets pid.
run_walled() { # [line of [Ranks]…]
        job_on 1 wall Match= MemoryWall=yes "$@"
        sed -i '/^Match=$/d' wall.job
        # shellcheck disable=SC2016 # for the command's shell
        systemd-run -q --scope --slice=user.slice qschedctl run --job=wall.job -- bash -c \
                'echo ready; while [ ! -e go ]; do sleep 0.2; done; exec "$0/far-memory" 32 any' "$T" >run.log 2>&1 3>&- &
        pid=$!
        far+=("$pid")
        until_true ready run.log
        cat run.log
}

memory_line() { # text: a line of status, however it is wrapped
        qschedctl status | tr -s ' \n' ' ' | grep -q "$1"
}

@test "MemoryWall=yes: what run starts has memory on the plan's nodes alone; a revert takes the wall away" {
        began
        run_walled
        until_true walled "$pid" 1
        dir=$(cpuset_of "$pid")
        [ "$(cpuset_mems "$dir")" = 1 ]
        if unified; then
                [ "$(systemctl show -P AllowedMemoryNodes "$(basename "$dir")")" = 1 ]
        fi
        memory_line 'Memory wall: wall/0 on node 1'
        touch go
        until_true has "$pid" 1 32
        systemctl restart qschedd # the journal knows it
        walled "$pid" 1
        qschedctl revert
        until_true walled "$pid" 0-3
        [ "$(qschedctl status --json | jq '.walls | length')" = 0 ]
}

@test "a wall whose node is down to its reserve is taken away, said once, and stays away until its job is applied again" {
        began
        configure Stall=100ms Pressure=100 Reserve=0.3
        drop_caches
        run_walled
        command=$pid
        until_true walled "$command" 1
        fill_all_but -20 1
        until_true walled "$command" 0-3
        memory_line 'Memory wall: wall/0 has none: node 1 is down to its reserve, and other nodes have room'
        kill "$pid"
        until_true gone "/proc/$pid"
        sleep 3
        walled "$command" 0-3
        [ "$(said | grep -c 'has no wall any more')" = 1 ]
        touch go
        until_true grep -q '^ready [0-9a-f]' run.log
        kill -0 "$command"
}

@test "a wall that somebody else has set otherwise is theirs: told once, left so, also by a revert" {
        began
        run_walled
        until_true walled "$pid" 1
        dir=$(cpuset_of "$pid")
        echo 0-1 >"$dir/cpuset.mems"
        until_true memory_line 'Memory wall: wall/0 has none: somebody else has given its group memory on node 0-1'
        walled "$pid" 0-1
        [ "$(said | grep -c 'has no wall any more')" = 1 ]
        qschedctl revert
        [ "$(said | grep -c 'has no wall any more')" = 1 ]
}

@test "a wall is not set around more than its node has room for" {
        began
        configure Stall=100ms Pressure=100 Reserve=0.3
        fill_all_but 50 1
        run_walled Memory=100M
        until_true memory_line 'Memory wall: wall/0 has none: node 1 has room for'
        walled "$pid" 0-3
        [ "$(said | grep -c 'Job wall: the memory of wall/0 .* has no wall: node 1 has room for')" = 1 ]
}

@test "somebody else's process gets no wall, and is told why" {
        far_unit foreign -- 16 3
        job_on 1 foreign MemoryWall=yes
        qschedctl apply foreign.job >applied
        cat applied
        tr -s ' \n' ' ' <applied | grep -q "gets no memory wall: MemoryWall=yes is for processes that .qschedctl run. starts"
        walled "$pid" 0-3
        until_true has "$pid" 1 16
        walled "$pid" 0-3
}
