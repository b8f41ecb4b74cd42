#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Interrupts in the guest that tests/vm/run boots: for this suite a virtio network device hangs beside each edu device,
# 0000:22:00.0 on node 1 and 0000:42:00.0 on node 3, with three vectors each. They stand for accelerators. What is
# asserted is /proc/irq and /proc/interrupts.
#
# vm: hierarchies=unified,legacy devices=net

load helpers

setup_file() {
        printf '[Daemon]\nInterval=500ms\n[Device near]\nKind=nic\nPCI=0000:22:00.0\n[Device far]\nKind=nic\nPCI=0000:42:00.0\n' \
                >/etc/qsched/qschedd.conf.d/irq.conf
        systemctl restart qschedd
}

setup() {
        cd "$BATS_TEST_TMPDIR"
        workers=()
        for i in 1 2; do
                "$T/worker" </dev/null >/dev/null 2>&1 3>&- &
                workers+=($!)
        done
}

teardown() {
        qschedctl revert >/dev/null 2>&1
        kill "${workers[@]}" 2>/dev/null
        return 0
}

vectors() { # PCI address
        ls "/sys/bus/pci/devices/$1/msi_irqs"
}

vector_masks() { # PCI address
        local irq
        for irq in $(vectors "$1"); do
                cat "/proc/irq/$irq/smp_affinity_list"
        done | sort -u | paste -sd' '
}

vector() { # PCI address, end of the handler's name
        local irq
        for irq in $(vectors "$1"); do
                grep -qE "^ *$irq:.*$2$" /proc/interrupts && echo "$irq" && return 0
        done
        return 1
}

applied() {
        printf '[Job]\nName=pair\n[Ranks a]\nCount=1\nCPUs=1\nDevice=%s\nMatch=pid:%s\n[Ranks b]\nCount=1\nCPUs=1\nDevice=%s\nMatch=pid:%s\n' \
                near "${workers[0]}" far "${workers[1]}" >pair.job
        qschedctl apply --json pair.job >plan.json || { cat plan.json; return 1; }
        near=$(jq -r '.tasks[] | select(.name == "pair/0") | .irq_cpus' plan.json)
        far=$(jq -r '.tasks[] | select(.name == "pair/1") | .irq_cpus' plan.json)
        jq -c '.tasks[] | {name, device, cpus, irq_cpus}' plan.json
}

state() { # irq
        qschedctl status --json | jq -r --argjson i "$1" '.interrupts[] | select(.irq == $i) | .state'
}

is_state() {
        [ "$(state "$1")" = "$2" ]
}

goes_to() { # irq CPU
        [ "$(cat "/proc/irq/$1/effective_affinity_list")" = "$2" ]
}

@test "two devices on nodes 1 and 3 with three vectors each" {
        lsmod | grep virtio_net
        [ "$(cat /sys/bus/pci/devices/0000:22:00.0/numa_node)" = 1 ]
        [ "$(cat /sys/bus/pci/devices/0000:42:00.0/numa_node)" = 3 ]
        [ "$(vectors 0000:22:00.0 | wc -l)" = 3 ]
        [ "$(vectors 0000:42:00.0 | wc -l)" = 3 ]
        qschedctl devices
        qschedctl devices --json | jq -e '[(.devices? // .)[] | select(.kind == "nic") | .numa_node] | sort == [1, 3]'
}

@test "vectors go to a CPU of their device's node that no rank has, and back" {
        before="$(vector_masks 0000:22:00.0)/$(vector_masks 0000:42:00.0)"
        applied
        grep . /proc/irq/*/smp_affinity_list | tail -n 12
        [[ $near = [23] && $far = [67] ]]
        [ "$(vector_masks 0000:22:00.0)" = "$near" ]
        [ "$(vector_masks 0000:42:00.0)" = "$far" ]
        for w in "${workers[@]}"; do
                [ "$(sed -n 's/^Cpus_allowed_list:\t//p' "/proc/$w/status")" != "$near" ]
                [ "$(sed -n 's/^Cpus_allowed_list:\t//p' "/proc/$w/status")" != "$far" ]
        done
        qschedctl revert pair
        [ "$(vector_masks 0000:22:00.0)/$(vector_masks 0000:42:00.0)" = "$before" ]
}

@test "pending until the vector fires, then it goes where it was sent" {
        local irq link
        irq=$(vector 0000:22:00.0 input.0)
        link=$(basename /sys/bus/pci/devices/0000:22:00.0/virtio*/net/*)
        ip link set "$link" up
        ip address replace 10.0.2.15/24 dev "$link"
        sleep 2 # what comes with the link's start is over
        echo 0 >"/proc/irq/$irq/smp_affinity_list"
        timeout 5 bash -c 'echo x >/dev/udp/10.0.2.2/9' || true
        until_true goes_to "$irq" 0
        echo 0-7 >"/proc/irq/$irq/smp_affinity_list"
        applied
        cat "/proc/irq/$irq/effective_affinity_list"
        state "$irq"
        if [ "$(cat "/proc/irq/$irq/effective_affinity_list")" != "$near" ]; then
                is_state "$irq" pending
        fi
        ip neighbour flush dev "$link"
        timeout 5 bash -c 'echo x >/dev/udp/10.0.2.2/9' || true
        until_true is_state "$irq" ok
        [ "$(cat "/proc/irq/$irq/effective_affinity_list")" = "$near" ]
        grep -E "^ *$irq:" /proc/interrupts
        ip link set "$link" down
}

@test "its CPU goes offline and comes back: the vector too" {
        local irq
        applied
        irq=$(vector 0000:42:00.0 input.0)
        [ "$(cat "/proc/irq/$irq/smp_affinity_list")" = "$far" ]
        echo 0 >"/sys/devices/system/cpu/cpu$far/online"
        sleep 2
        cat "/proc/irq/$irq/smp_affinity_list"
        echo 1 >"/sys/devices/system/cpu/cpu$far/online"
        near_again() {
                local cpus
                cpus=$(qschedctl status --json | jq -r --argjson i "$irq" '.interrupts[] | select(.irq == $i) | .wanted')
                [ "$(cat "/proc/irq/$irq/smp_affinity_list")" = "$cpus" ] && [[ $cpus = [67] ]]
        }
        until_true near_again
}

@test "a vector that the kernel manages stays, and apply says so and succeeds" {
        local disk
        disk=$(readlink -f /sys/block/vda/device/..)
        disk=${disk##*/}
        printf '[Device disk0]\nKind=nic\nPCI=%s\n' "$disk" >/etc/qsched/qschedd.conf.d/disk.conf
        systemctl reload qschedd
        sleep 1
        printf '[Job]\nName=disk\n[Ranks]\nCount=1\nCPUs=1\nDevice=disk0\nMatch=pid:%s\n' "${workers[0]}" >disk.job
        run qschedctl apply disk.job
        rm /etc/qsched/qschedd.conf.d/disk.conf
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $(tr -s ' \n' ' ' <<<"$output") = *"managed by the kernel"* ]]
        qschedctl revert disk
        systemctl reload qschedd
}

@test "the daemon killed and started again: they stay, and a revert still knows what was before" {
        before="$(vector_masks 0000:22:00.0)"
        applied
        systemctl kill -s KILL qschedd
        sleep 1
        [ "$(vector_masks 0000:22:00.0)" = "$near" ]
        systemctl reset-failed qschedd 2>/dev/null || true
        systemctl start qschedd
        sleep 2
        [ "$(vector_masks 0000:22:00.0)" = "$near" ]
        qschedctl revert pair
        [ "$(vector_masks 0000:22:00.0)" = "$before" ]
}
