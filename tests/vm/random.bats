#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# vm: hierarchies=unified,legacy timeout=900
#
# Random sequences (tests/helpers/sequences) where there are four nodes, CPUs that can be unplugged and, on one of the
# boots, the unified hierarchy: as many as fit in a third of the boot's limit (five minutes), of a new seed. The driver
# starts the daemon itself, in a unit whose groups are delegated to it, so that it can kill it and own cpusets.

load helpers

sequences() { # options
        systemctl stop qschedd
        systemd-run -q --wait --pipe --unit=qsched-test-random -p Delegate=yes -p AllowedCPUs=0-7 \
                -p Environment="PATH=$PATH" "$T/sequences" --hotplug "$@" >sequences.out 2>&1 || r=$?
        tail -n 150 sequences.out
        return "${r:-0}"
}

teardown() {
        systemctl stop 'qsched-test-*.service' 2>/dev/null
        for cpu in /sys/devices/system/cpu/cpu*/online; do
                echo 1 >"$cpu"
        done
        systemctl start qschedd
}

@test "random sequences for minutes: no invariant is broken, after the last revert all is as at the start" {
        seed=$((RANDOM * 32768 + RANDOM))
        echo "seed $seed"
        sequences --seed=$seed --count=1000 --seconds=$((${BATS_TEST_TIMEOUT:-450} * 2 / 3))
        grep '^[1-9][0-9]* sequences' sequences.out | sed 's/^/# /' >&3
        grep -q '^[1-9][0-9]* sequences' sequences.out
}
