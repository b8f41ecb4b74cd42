#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Runs in the guest that tests/vm/run boots: four NUMA nodes of two CPUs, an edu device on node 1 and one on node 3.
# What is asserted is what the kernel and systemd say, not what qschedd says of itself.

@test "the guest is up and no unit failed" {
        run systemctl is-system-running --wait
        systemctl --failed --no-legend
        [ "$output" = running ]
}

@test "four NUMA nodes with two CPUs each" {
        for n in 0 1 2 3; do
                [ "$(cat /sys/devices/system/node/node$n/cpulist)" = "$((2 * n))-$((2 * n + 1))" ]
        done
        [ ! -e /sys/devices/system/node/node4 ]
}

@test "the devices sit on nodes 1 and 3" {
        [ "$(cat /sys/bus/pci/devices/0000:21:00.0/vendor)" = 0x1234 ]
        [ "$(cat /sys/bus/pci/devices/0000:21:00.0/numa_node)" = 1 ]
        [ "$(cat /sys/bus/pci/devices/0000:41:00.0/numa_node)" = 3 ]
}

@test "control groups are v2 and have cpuset" {
        [ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ]
        grep -qw cpuset /sys/fs/cgroup/cgroup.controllers
}
