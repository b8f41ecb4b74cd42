#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Complaints from real hosts, each a test that is named by its symptom: here as far as recorded or made-up machines and
# live processes show it, in the guest (tests/vm) where it takes nodes, systemd or CPUs that go away. The table says where
# each is held; the last test here reads it. A line: complaint | file | name of the test (a part of it will do).
#
# complaint: two servers on devices of one node bind the same cores | tests/bats/complaints.bats | two servers on devices of one node
# complaint: a container's cpuset excludes the wanted CPUs | tests/bats/complaints.bats | a container's cpuset excludes the wanted CPUs
# complaint: constrained mask makes the binder skip | tests/bats/complaints.bats | a constrained mask
# complaint: PF_NO_SETAFFINITY | tests/bats/complaints.bats | threads that refuse
# complaint: CPU numbers interleaved across nodes | tests/bats/complaints.bats | CPU numbers that are interleaved across nodes
# complaint: node numbers with holes | tests/bats/complaints.bats | node numbers with holes
# complaint: CPU 0 offline | tests/bats/complaints.bats | CPU 0 is offline
# complaint: 640 CPUs | tests/bats/complaints.bats | 640 CPUs
# complaint: node without CPUs | tests/bats/complaints.bats | a node without CPUs
# complaint: numa_node -1 behind a switch | tests/bats/complaints.bats | numa_node -1
# complaint: vendor affinity "0-111" meaning nothing | tests/bats/complaints.bats | an affinity of all CPUs
# complaint: a serving framework binds itself at start | tests/bats/drift.bats | a framework binds itself: which, by its variable, and its off switch
# complaint: only the main thread is rebound | tests/bats/roles.bats | only the main thread is rebound
# complaint: affinity set twice un-pins | tests/bats/roles.bats | affinity set twice does not un-pin
# complaint: late binding leaves memory on the far node | tests/vm/memory.bats | pages of a process that began on the wrong node follow its CPUs, and it is told how much
# complaint: cpuset.mems forced to one node | tests/vm/memory.bats | a full node stops it, with what to do
# complaint: cpuset.mems forced to one node | tests/vm/memory.bats | nothing goes to a node outside the process's cpuset.mems
# complaint: irqbalance undoes the mask although banned | tests/bats/irq.bats | a mask that somebody else changes is told and left alone
# complaint: isolcpus | tests/unit/test-enforce-roles.c | static void test_isolated(
# complaint: empty parent cpuset gives ENOSPC | tests/unit/test-enforce-group.c | static void test_empty_cpuset(
# complaint: daemon-reload resets a delegated cpuset | tests/vm/world.bats | daemon-reload resets a delegated cpuset
# complaint: enabling the cpuset controller widens masks | tests/vm/world.bats | the cpuset controller is handed down above a rank
# complaint: a corrupt state file keeps the service from starting | tests/vm/service.bats | a corrupt state file keeps the service from starting
# complaint: default pinning costs a fifth of throughput | tests/unit/test-decide-sharing.c | leaving_alone_wins_where_pinning_does_not_fit(

# shellcheck disable=SC2154,SC2016 # helpers set last; what is written for another shell
load helpers

setup() {
        setup_daemon
        group=
}

teardown() {
        local r=0
        teardown_all || r=1
        if [ -n "$group" ]; then
                for _ in 1 2 3 4 5 6 7 8 9 10; do
                        rmdir "$group" 2>/dev/null && break
                        sleep 0.1
                done
        fi
        return $r
}

# --- machines that are made up: a /sys as the kernel shows it, one core for each CPU -------------------------------------

each() { # list of numbers such as 0-3,8
        local part
        for part in ${1//,/ }; do
                seq "${part%-*}" "${part#*-}"
        done
}

bits() { # list: the kernel's words of 32 bits in hex
        local words=() c i top=0 out=
        for c in $(each "$1"); do
                i=$((c / 32))
                words[i]=$((${words[i]:-0} | 1 << c % 32))
                [ $i -le $top ] || top=$i
        done
        for ((i = top; i >= 0; i--)); do
                out+=$(printf '%08x,' "${words[i]:-0}")
        done
        echo "${out%,}"
}

# In $D/machine; a node's list may be empty. CPUs that no node has are offline.
machine() { # possible node=cpus...
        local possible=$1 n m cpus c all nodes topology sys=$D/machine/sys/devices/system
        shift
        nodes=$(printf '%s\n' "${@%%=*}" | paste -sd,)
        all=$(for n in "$@"; do each "${n#*=}"; done | sort -n | paste -sd,)
        mkdir -p "$sys/cpu" "$sys/node" "$D/machine/proc" "$D/machine/sys/bus/pci/devices"
        echo "$all" >"$sys/cpu/online"
        echo "$possible" | tee "$sys/cpu/possible" >"$sys/cpu/present"
        echo "$nodes" >"$sys/node/online"
        : >"$D/machine/proc/cpuinfo"
        printf 'MemTotal: 268435456 kB\nMemFree: 200000000 kB\n' >"$D/machine/proc/meminfo"
        for n in "$@"; do
                cpus=${n#*=} n=${n%%=*}
                mkdir -p "$sys/node/node$n"
                echo "$cpus" >"$sys/node/node$n/cpulist"
                bits "$cpus" >"$sys/node/node$n/cpumap"
                printf 'Node %d MemTotal: 67108864 kB\nNode %d MemFree: 60000000 kB\n' "$n" "$n" >"$sys/node/node$n/meminfo"
                for m in ${nodes//,/ }; do
                        [ "$m" = "$n" ] && echo 10 || echo 20
                done | paste -sd' ' >"$sys/node/node$n/distance"
                for c in $(each "$cpus"); do
                        topology=$sys/cpu/cpu$c/topology
                        mkdir -p "$topology"
                        echo "$c" >"$topology/core_id"
                        echo "$n" >"$topology/physical_package_id"
                        bits "$c" | tee "$topology/thread_siblings" >"$topology/core_cpus"
                        bits "$cpus" | tee "$topology/core_siblings" >"$topology/package_cpus"
                done
        done
}

# A PCI function of a kind that is known as an NPU.
npu() { # address numa_node local_cpulist
        local dir=$D/machine/sys/devices/pci0000:00/$1
        mkdir -p "$dir"
        ln -s "../../../devices/pci0000:00/$1" "$D/machine/sys/bus/pci/devices/$1"
        echo 0x120000 >"$dir/class"
        echo 0x19e5 >"$dir/vendor"
        echo 0xd802 >"$dir/device"
        echo 0x0000 | tee "$dir/subsystem_vendor" "$dir/subsystem_device" >"$dir/revision"
        echo "$2" >"$dir/numa_node"
        echo "$3" >"$dir/local_cpulist"
        bits "$3" >"$dir/local_cpus"
        head -c 256 /dev/zero >"$dir/config"
}

ranks() { # count [device]
        printf '[Ranks]\nCount=%d\n%s' "$1" "${2:+Device=$2$'\n'}" >"$D/ranks.job"
}

# What is wrong with a plan by the machine's own account; nothing when all is well. Each rank has CPUs of one node, that
# are there, nobody else has, and are not kept for housekeeping; memory of that node; where its device has a node, that one.
wrong='
def cpus: if . == "" then [] else split(",") | map(split("-") | map(tonumber) | if length == 2 then [range(.[0]; .[1] + 1)] else . end) | add end;
$machine[0] as $m
| ($devices[0] | map({key: .name, value: .numa_node}) | from_entries) as $place
| [.tasks[].cpus | cpus[]] as $all
| (if .feasible then empty else "not feasible: \(.messages)" end),
  ($all - ($m.allowed | cpus) | select(length > 0) | "not there: \(.)"),
  ($all | select(length != (unique | length)) | "sets overlap"),
  (.tasks[] | . as $t | ($m.nodes | map(select(($t.cpus | cpus) - (.cpus | cpus) == []))) as $on
        | if $t.cpus == "" then "\($t.name) has no CPUs"
          elif $on == [] then "\($t.name) has CPUs of several nodes: \($t.cpus)"
          elif $t.mems != "\($on[0].node)" then "\($t.name) on node \($on[0].node) has memory of \($t.mems)"
          else ($t.device[] | $place[.]) as $d | if $d == null or $d == $on[0].node then empty else "\($t.name) is on node \($on[0].node), its device on \($d)" end end)
'

planned_well() { # machine [options]
        qschedctl plan --machine "$@" --json "$D/ranks.job" >"$D/plan" || return
        qschedctl topology --machine "$1" --json >"$D/topology"
        qschedctl devices --machine "$@" --json | jq '.devices? // .' >"$D/devices.json"
        jq -r --slurpfile machine "$D/topology" --slurpfile devices "$D/devices.json" "$wrong" "$D/plan" >"$D/wrong"
        cat "$D/wrong"
        jq -r '.tasks[] | "\(.name): \(.cpus) mems \(.mems) \(.device)"' "$D/plan"
        [ ! -s "$D/wrong" ]
}

@test "CPU numbers that are interleaved across nodes: each rank has CPUs of one node, its device's" {
        machine 0-15 0=0,2,4,6,8,10,12,14 1=1,3,5,7,9,11,13,15
        npu 0000:03:00.0 1 1,3,5,7,9,11,13,15
        npu 0000:04:00.0 0 0,2,4,6,8,10,12,14
        ranks 2 ascend:1
        planned_well "$D/machine"
        jq -e '.tasks | map(.mems) | sort == ["0", "1"]' "$D/plan"
        ranks 4
        planned_well "$D/machine"
}

@test "node numbers with holes: a plan by the kernel's numbers, not by their order" {
        machine 0-11 0=0-3 4=4-7 33=8-11
        npu 0000:03:00.0 33 8-11
        npu 0000:04:00.0 4 4-7
        ranks 2 ascend:1
        planned_well "$D/machine"
        jq -e '.tasks | map(.mems) | sort == ["33", "4"]' "$D/plan"
}

@test "CPU 0 is offline, and others: nothing is planned on what is not there" {
        machine 0-11 0=1-4 1=6-7,9-11
        ranks 3
        planned_well "$D/machine"
        npu 0000:03:00.0 0 1-4
        ranks 1 ascend:1
        echo CPUs=3 >>"$D/ranks.job"
        planned_well "$D/machine"
        jq -e '.tasks[0].mems == "0"' "$D/plan"
}

@test "640 CPUs: sixteen ranks, two on each of eight nodes, beyond what one mask of 64 bits or 1024 bytes of text holds" {
        local data=$TOP_SRCDIR/tests/data
        ranks 16 ascend:1
        planned_well "$data/a3.xml" --devices "$data/a3.devices"
        jq -e '[.tasks[].mems] | group_by(.) | length == 8 and all(.[]; length == 2)' "$D/plan"
        grep -q '6[0-3][0-9]' "$D/plan"
}

@test "a node without CPUs: no rank is put there, its memory is nobody's first" {
        machine 0-7 0=0-3 1=4-7 2= 3=
        ranks 4
        planned_well "$D/machine"
        jq -e '.tasks | all(.mems == "0" or .mems == "1")' "$D/plan"
}

@test "numa_node -1 behind a switch: neutral, never node 0" {
        machine 0-15 0=0-7 1=8-15
        npu 0000:03:00.0 -1 0-15
        npu 0000:04:00.0 -1 0-15
        qschedctl devices --machine "$D/machine" --json | jq -e '(.devices? // .) | length == 2 and all(.numa_node == null)'
        ranks 2 ascend:1
        planned_well "$D/machine"
        jq -e '.tasks | map(.mems) | sort == ["0", "1"]' "$D/plan" # spread, not both on node 0
        # no node is nearer than another to a device whose place nobody knows
        [ "$(jq '[.tasks[].energy.terms.distance] | unique | length' "$D/plan")" = 1 ]
}

@test "an affinity of all CPUs (a vendor's 0-111) means nothing: neutral, not the first node" {
        machine 0-111 0=0-55 1=56-111
        npu 0000:03:00.0 -1 0-111
        npu 0000:04:00.0 1 56-111
        qschedctl devices --machine "$D/machine" --json | jq -e '(.devices? // .) | map(.numa_node) == [null, 1]'
        # the one that is known stays at its place, so the other rank is put where there is room
        ranks 2 ascend:1
        planned_well "$D/machine"
        jq -e '.tasks | map(.mems) | sort == ["0", "1"]' "$D/plan"
}

# --- live processes ----------------------------------------------------------------------------------------------------

two_devices() { # of one node
        printf '[Device npu0]\nKind=fake\nNUMANode=0\n[Device npu1]\nKind=fake\nNUMANode=0\n' >"$D/devices"
}

server() { # name comm: a job of all the processes of that name, without a number of CPUs
        printf '[Job]\nName=%s\n[Ranks]\nDevice=fake:1\nMatch=comm:%s\n' "$1" "$2"
}

both_have_one_cpu_each() { # pid pid
        [[ $(masks "$1") =~ ^[0-9]+$ && $(masks "$2") =~ ^[0-9]+$ && $(masks "$1") != $(masks "$2") ]]
}

has_mask() { # pid mask
        [ "$(masks "$1")" = "$2" ]
}

@test "two servers on devices of one node bind the same cores: disjoint sets, split anew when one arrives or leaves" {
        need_cpus 2
        [ "$(cpus_online)" -eq 2 ] || skip "made for two CPUs"
        two_devices
        start_qschedd --devices "$D/devices"
        a=qca$RANDOM b=qcb$RANDOM
        worker --threads=3 --name=$a
        first=$last
        apply "$(server one $a)" >/dev/null
        has_mask "$first" "$(all_cpus)"
        # one arrives, and is told by hand
        worker --threads=3 --name=$b
        second=$last
        apply "$(server two $b)" >/dev/null
        both_have_one_cpu_each "$first" "$second"
        # one leaves: the other has all again; one arrives by itself: they are split again
        call Revert s two >/dev/null
        wait_until 5 has_mask "$first" "$(all_cpus)"
        has_mask "$second" "$(all_cpus)" # as before it was placed
        apply "$(server two $b)" >/dev/null
        wait_until 5 both_have_one_cpu_each "$first" "$second"
        kill "$second"
        wait "$second" || true
        wait_until 5 eval '[ "$(call GetStatus | jq ".jobs[] | select(.name == \"two\") | .matched")" = 0 ]'
        worker --threads=3 --name=$b
        wait_until 5 both_have_one_cpu_each "$first" "$last"
}

# A foreign cpuset for the processes given.
container() { # cpus pid...
        local p root=/sys/fs/cgroup/cpuset
        need_root
        [ -w $root/cpuset.cpus ] || skip "no cpuset controller on the legacy hierarchy here"
        group=$root/qsched-complaint-$$
        mkdir "$group"
        cat $root/cpuset.mems >"$group/cpuset.mems"
        echo "$1" >"$group/cpuset.cpus"
        shift
        for p in "$@"; do
                echo "$p" >"$group/cgroup.procs"
        done
}

@test "a container's cpuset excludes the wanted CPUs: inside it, in its group, alive, and it is said" {
        need_cpus 2
        start_qschedd
        worker --threads=3
        inside=$last
        container 1 "$inside"
        # it asks for more than its cpuset has
        apply "$(job one "$inside" | sed 's/^CPUs=1/CPUs=2/')" >"$D/applied"
        [ "$(jq -r .feasible "$D/applied")" = true ]
        jq -r '.messages[], .outcome.messages[]' "$D/applied"
        has_mask "$inside" 1
        jq -r '.messages[], .outcome.messages[]' "$D/applied" | grep -q .
        grep -q ":cpuset:/${group##*/}$" "/proc/$inside/cgroup"
        [ "$(cat "$group/cpuset.cpus")" = 1 ]
        # its cpuset is exchanged for one without any of them
        echo 0 >"$group/cpuset.cpus"
        wait_until 5 eval '[ "$(call GetStatus | jq -r ".plan.tasks[0].cpus")" = 0 ]'
        has_mask "$inside" 0
        kill -0 "$inside"
        call Revert s one >/dev/null
        echo 0-1 >"$group/cpuset.cpus"
        has_mask "$inside" 0-1
}

@test "a constrained mask makes the binder skip: bound inside what is allowed, and the others around it" {
        need_cpus 2
        start_qschedd
        worker --threads=3
        inside=$last
        worker --threads=3
        free=$last
        container 0 "$inside"
        apply "$(job one "$inside")" "$(job two "$free")" >"$D/applied"
        jq -c '.tasks[] | [.name, .cpus]' "$D/applied"
        [ "$(jq -r '.tasks[] | select(.job == "one") | .cpus' "$D/applied")" = 0 ]
        has_mask "$inside" 0
        has_mask "$free" 1
        # wider now: bound still, not left as wide as its cpuset
        echo 0-1 >"$group/cpuset.cpus"
        wait_until 5 both_have_one_cpu_each "$inside" "$free"
        sleep 1
        both_have_one_cpu_each "$inside" "$free"
}

@test "threads that refuse (PF_NO_SETAFFINITY): skipped, counted and said; the other ranks are placed" {
        need_root
        need_cpus 2
        local stubborn
        stubborn=$(awk '/^Name:[[:space:]]*ksoftirqd\/0$/ { print FILENAME }' /proc/[0-9]*/status 2>/dev/null | cut -d/ -f3 | head -n 1)
        [ -n "$stubborn" ] || skip "no kernel thread ksoftirqd/0 is to be seen here"
        before=$(masks "$stubborn")
        ! taskset -p -c 1 "$stubborn" || skip "it lets itself be moved here"
        start_qschedd
        worker --threads=3
        apply "$(job one "$last" "$stubborn")" >"$D/applied"
        jq -c .outcome "$D/applied"
        [ "$(jq -r .feasible "$D/applied")" = true ]
        [[ $(masks "$last") =~ ^[0-9]+$ ]]
        [ "$(masks "$stubborn")" = "$before" ]
        call GetStatus | jq -c '.plan.tasks[] | [.name, .pid, .cpus]'
}

# --- the others ----------------------------------------------------------------------------------------------------------

@test "every complaint of the table has its test, and none is skipped for good" {
        local me=$BATS_TEST_FILENAME bad=0 n=0 line complaint file name body
        while read -r line; do
                IFS='|' read -r complaint file name <<<"${line#\# complaint: }"
                file=$(xargs <<<"$file")
                name=$(sed 's/^ *//; s/ *$//' <<<"$name")
                n=$((n + 1))
                body=$(awk -v name="$name" '/^@test / { on = index($0, name) > 0 } on' "$TOP_SRCDIR/$file" 2>/dev/null)
                if [[ $file = *.c ]]; then
                        body=$(grep -F "$name" "$TOP_SRCDIR/$file" || true)
                fi
                [ -n "$body" ] || { echo "${complaint}: no test \"$name\" in $file"; bad=1; }
                # a skip that no condition leads to
                ! grep -qE '^[[:space:]]*skip( |$)' <<<"$body" || { echo "$complaint: skipped: $name"; bad=1; }
        done < <(grep '^# complaint: ' "$me")
        [ $n -ge 24 ]
        # eighteen complaints; those about numbering and about places of devices have several lines
        [ "$(grep '^# complaint: ' "$me" | cut -d'|' -f1 | sort -u | wc -l)" -ge 18 ]
        [ $bad = 0 ]
}
