#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# qschedctl doctor on this system, with no bus, with a bus of its own, with a daemon. What it finds on recorded hosts is
# tests/unit/test-doctor.c's business.

# shellcheck disable=SC2154,SC2030,SC2031 # bats and helpers set stderr, qschedd, last; each test has its pids
bats_require_minimum_version 1.5.0
load helpers

setup() {
        need jq
        setup_all
        devices=()
        export LC_ALL=C.UTF-8
}

teardown() {
        teardown_all
}

doctor() { # leaves the report in $D/report, the exit code in $code
        code=0
        qschedctl doctor --json "${devices[@]}" >"$D/report" || code=$?
}

finding() { # check level: the first such sentence
        jq -re --arg c "$1" --arg l "$2" '[.findings[] | select(.check == $c and .level == $l)][0].sentence' "$D/report"
}

@test "every check of the table says something; the exit code is 1 with a problem only" {
        doctor
        qschedctl --dump-tables | awk -F'\t' '$1 == "check" { print $2 }' | sort >"$D/checks"
        [ "$(wc -l <"$D/checks")" -ge 25 ]
        diff "$D/checks" <(jq -r '.findings[].check' "$D/report" | sort -u)
        [ "$(jq '[.findings[] | select(.level == "problem")] | length > 0' "$D/report")" = "$([ $code = 1 ] && echo true || echo false)" ]
        [ "$code" -le 1 ]
        [ "$(jq '[.counts[]] | add' "$D/report")" = "$(jq '.findings | length' "$D/report")" ]
        # whoever is warned is told what to do
        [ "$(jq '[.findings[] | select((.level == "warning" or .level == "problem") and .remedy == null)] | length' "$D/report")" = 0 ]
}

@test "as text: 80 columns, the worst first, what is well last" {
        cp "$(command -v sleep)" "$D/numad"
        "$D/numad" 60 3>&- &
        pids+=($!)
        wait_until 5 grep -qx numad "/proc/${pids[-1]}/comm"
        run --separate-stderr qschedctl doctor
        [ "$status" = 1 ]
        [ -z "$stderr" ]
        [ "${lines[0]}" = "● problem: rivals" ]
        [[ ${lines[1]} == "  numad (pid ${pids[-1]}) runs: "* ]]
        grep -q '^  → systemctl disable --now numad$' <<<"$output"
        tail -n 5 <<<"$output" | grep -q '^● ok: '
        [ "$(wc -L <<<"$output")" -le 80 ]
}

# A device of the test's own: a node like /dev/zero, which nobody else holds.
fake_device() {
        need_root
        mknod "$D/npu0" c 1 5 2>/dev/null || skip "device nodes cannot be made here"
        (: <"$D/npu0") 2>/dev/null || skip "device nodes cannot be opened in ${D%/*}"
        printf '[Device fake0]\nKind=ascend\nNUMANode=0\nNodes=%s/npu0\n' "$D" >"$D/devices"
        devices=(--devices="$D/devices")
}

@test "processes on a device: variables, masks, CPUs in common" {
        need_cpus 2
        fake_device
        CPU_AFFINITY_CONF=1 TOKEN=secret worker --open="$D/npu0"
        taskset -p 1 "$last"
        worker --open="$D/npu0"
        taskset -p 1 "$last"
        OMP_PROC_BIND=false OMP_PLACES=cores worker --open="$D/npu0"
        doctor
        finding pins warning | grep -q "^1 accelerator process has CPU_AFFINITY_CONF=1, .*(pid ${workers[0]})"
        finding masks warning | grep -q "^2 of 3 accelerator processes .*: pid ${workers[0]} (worker) 0, 1 of "
        finding shared warning | grep -q "pid ${workers[0]} and pid ${workers[1]} share 1 CPU"
        run ! grep -q 'secret\|OMP_PLACES' "$D/report"
        taskset -p "$(taskset -p "$BASHPID" | sed 's/.* //')" "${workers[0]}" >/dev/null
        taskset -p "$(taskset -p "$BASHPID" | sed 's/.* //')" "${workers[1]}" >/dev/null
        doctor
        finding masks ok
        finding shared ok
}

@test "the daemon's own masks are not somebody's" {
        need_cpus 2
        fake_device
        cp "$D/devices" "$D/qschedd.conf"
        start_qschedd
        worker --open="$D/npu0"
        worker --open="$D/npu0"
        apply "$(job train "${workers[@]}")" | jq -e .feasible
        [ "$(masks "${workers[0]}")" != "$(masks $$)" ]
        doctor
        finding daemon ok | grep -q 'has placed 2 processes'
        finding masks ok
        stop_qschedd KILL
        doctor
        finding daemon warning | grep -q "did not end by itself: masks of 2 processes stay as it left them ($D/run/undo.journal)"
        finding masks ok
        : >"$D/run/undo.journal"
        doctor
        finding masks warning | grep -q '^2 of 2 '
}

@test "the daemon is asked when it runs" {
        doctor
        finding daemon warning | grep -q 'does not run'
        need_cpus 2
        start_qschedd
        worker
        apply "$(job train "$last")" | jq -e .feasible
        doctor
        finding daemon ok | grep -q 'has placed 1 process\.'
}

@test "a daemon that hangs is told of, and does not hang it" {
        start_qschedd
        kill -STOP "$qschedd"
        local before=$SECONDS
        doctor
        kill -CONT "$qschedd"
        [ $((SECONDS - before)) -lt 30 ]
        finding daemon warning | grep -q 'does not answer'
}

@test "the daemon is not started by being asked" {
        mkdir "$D/services"
        printf '[D-BUS Service]\nName=org.qsched1\nExec=/usr/bin/touch %s/started\nUser=root\n' "$D" >"$D/services/org.qsched1.service"
        sed "s,<type>.*,<type>session</type><servicedir>$D/services</servicedir>,; s,path=$D/bus,path=$D/bus2," "$D/bus.conf" >"$D/bus2.conf"
        dbus-daemon --config-file="$D/bus2.conf" --nofork --nopidfile >"$D/bus2.log" 2>&1 3>&- &
        pids+=($!)
        wait_until 5 test -S "$D/bus2"
        export DBUS_SYSTEM_BUS_ADDRESS=unix:path=$D/bus2
        doctor
        finding daemon warning | grep -q 'does not run'
        [ ! -e "$D/started" ]
        # the file above does start it, when somebody asks for that
        busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" call org.qsched1 / org.freedesktop.DBus.Peer Ping 2>/dev/null || true
        wait_until 5 test -e "$D/started"
}

@test "without a bus, and as somebody without rights" {
        export DBUS_SYSTEM_BUS_ADDRESS=unix:path=$D/none
        doctor
        finding daemon warning | grep -q 'does not run'
        need_root
        as_nobody qschedctl doctor --json >"$D/report" || [ $? = 1 ]
        finding rights unknown | grep -q 'As user 65534'
}

@test "nothing below /proc and /sys is opened for writing, nobody else's mask is set" {
        need strace
        strace -f -o "$D/trace" qschedctl doctor --json >/dev/null || [ $? = 1 ]
        [ "$(wc -l <"$D/trace")" -gt 100 ] || skip "strace does not work here"
        run ! grep -E 'open(at)?\(.*"/(proc|sys)/.*O_(WRONLY|RDWR)' "$D/trace"
        # hwloc visits each CPU itself to read its cpuid: of itself only
        run ! grep -E '(sched_setaffinity\([^0]|(move_pages|migrate_pages|kill|tgkill|setpriority|unlink|rename)\()' "$D/trace"
}

@test "usage: no arguments, and only its own options" {
        run -2 qschedctl doctor x
        run -2 qschedctl doctor --solver=sa
        run -1 qschedctl doctor --devices="$D/none.devices"
}
