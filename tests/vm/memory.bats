#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Page moves in the guest that tests/vm/run boots: four NUMA nodes of 512 MB. far-memory makes a process whose pages are
# on one node, move-memory drives the daemon's own code; what is asserted is numa_maps and meminfo.

T=/usr/lib/qsched-tests

# The kernel's own balancing moves pages to where a process runs, which here is anywhere.
setup() {
        cd "$BATS_TEST_TMPDIR"
        far=()
        echo 0 >/proc/sys/kernel/numa_balancing
}

teardown() {
        if [ ${#far[@]} -gt 0 ]; then
                kill "${far[@]}" 2>/dev/null
        fi
        systemctl stop 'qsched-memory-*.service' 2>/dev/null
        echo 1 >/proc/sys/kernel/numa_balancing
        return 0
}

until_true() {
        local i
        for ((i = 0; i < 300; i++)); do
                "$@" && return 0
                sleep 0.2
        done
        echo "waited a minute in vain for: $*"
        return 1
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

free_on() { # node: MiB
        awk '$3 == "MemFree:" { print int($4 / 1024) }' "/sys/devices/system/node/node$1/meminfo"
}

# Emulation is slow and uneven, so a stall of 20 ms there says nothing: the bound is wider, and the pressure that a busy
# host makes in the guest does not count, except where the test is about it.
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
        ! grep -qE ' (bind|prefer|interleave)' maps
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
        far_unit mems AllowedMemoryNodes=3 -- 32 3
        [ "$(sed -n 's/^Mems_allowed_list:\s*//p' "/proc/$pid/status")" = 3 ]
        move "$pid" 1
        [ "$result" = 3 ]
        [ "$(field stop)" = node-denied ]
        [ "$(field pages.moved)" = 0 ]
        [ "$(on "$pid" 3)" -ge 32 ]
        [ "$(on "$pid" 1)" -eq 0 ]
}

@test "nothing is moved in a cgroup that is near its limit; page cache does not count" {
        far_unit full MemoryMax=66M -- 63 3
        cat "/sys/fs/cgroup/system.slice/qsched-memory-full.service/memory.current"
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


# One word per page, so that it is the memory that is waited for. Emulation has no slow far memory: the times say how
# long it takes here, not what it would gain.
@test "benchmark: a memory-bound worker on the wrong node, before and after" {
        far_memory 128 3
        taskset -a -p -c 2 "$pid" # node 1
        kill -USR1 "$pid"
        until_true lines $out 2
        before=$(sed -n '2s/.*read_us=\([0-9]*\).*/\1/p' $out)
        remote=$(on "$pid" 3)
        start=$(date +%s%N)
        move "$pid" 1
        took=$((($(date +%s%N) - start) / 1000000))
        kill -USR1 "$pid"
        until_true lines $out 3
        after=$(sed -n '3s/.*read_us=\([0-9]*\).*/\1/p' $out)
        echo "# emulated: remote $remote MiB before, $(on "$pid" 3) MiB after; $(field pages.moved) pages in $took ms, longest stall" \
                "$(field stall_max_us) us; one pass $before us before, $after us after" >&3
        [ "$(on "$pid" 1)" -ge 128 ]
}
