# SPDX-License-Identifier: Apache-2.0
#
# For bats files that need a daemon: a bus of its own (dbus-daemon as a system bus in a directory of this test, reached
# through DBUS_SYSTEM_BUS_ADDRESS), qschedd on it with a runtime and a state directory of this test, worker processes.
# Everything that was started is ended by pid in teardown_all. Load it, call setup_all in setup, teardown_all in
# teardown.
#
#   setup_all                 directories and the bus; sets $D
#   start_qschedd [ARGS]      waits until the name is on the bus; its log is $D/qschedd.log
#   stop_qschedd [SIGNAL]     TERM unless named; waits
#   worker [ARGS]             tests/helpers/worker; its pid is $last and appended to ${workers[@]}
#   masks PID                 every mask that a thread of PID has, each once ("0" when all have it)
#   call METHOD [SIG ARGS]    busctl call of org.qsched1; prints the string that came back, unescaped
#   as_nobody COMMAND         as another user (needs root)

build=${TOP_BUILDDIR:?TOP_BUILDDIR is not set (make check sets it)}
PATH=$build:$PATH

setup_all() {
        D=$(mktemp -d "${TMPDIR:-/tmp}/qsched-test.XXXXXX")
        chmod 755 "$D"
        pids=() workers=() qschedd=
        mkdir "$D/run" "$D/state"
        export RUNTIME_DIRECTORY=$D/run STATE_DIRECTORY=$D/state DBUS_SYSTEM_BUS_ADDRESS=unix:path=$D/bus
        : >"$D/qschedd.conf"
        start_bus
}

need() { # commands
        local c
        for c in "$@"; do
                command -v "$c" >/dev/null || skip "$c is not installed"
        done
}

need_root() {
        [ "$(id -u)" = 0 ] || skip "needs root"
}

cpus_online() {
        getconf _NPROCESSORS_ONLN
}

need_cpus() {
        [ "$(cpus_online)" -ge "$1" ] || skip "needs $1 CPUs"
}

start_bus() {
        need dbus-daemon busctl jq
        cat >"$D/bus.conf" <<END
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>$DBUS_SYSTEM_BUS_ADDRESS</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <allow own="org.qsched1"/>
    <allow own="org.freedesktop.PolicyKit1"/>
    <allow send_destination="*"/>
    <allow receive_sender="*"/>
  </policy>
</busconfig>
END
        dbus-daemon --config-file="$D/bus.conf" --nofork --nopidfile >"$D/bus.log" 2>&1 3>&- &
        bus=$!
        pids+=("$bus")
        wait_until 5 test -S "$D/bus"
        chmod 666 "$D/bus"
}

# Tries a command for so many seconds.
wait_until() { # seconds command...
        local end=$((SECONDS + $1 + 1))
        shift
        until "$@" >/dev/null 2>&1; do
                [ $SECONDS -lt $end ] || { echo "gave up waiting for: $*" >&2; return 1; }
                sleep 0.1
        done
}

bus_has() { # name
        [ "$(busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" call org.freedesktop.DBus / org.freedesktop.DBus NameHasOwner s "$1")" = "b true" ]
}

started() {
        kill -0 "$qschedd" || return 0 # ended: no use in waiting
        bus_has org.qsched1
}

start_qschedd() {
        qschedd "$@" --config "${CONFIG:-$D/qschedd.conf}" >>"$D/qschedd.log" 2>&1 3>&- &
        qschedd=$!
        pids+=("$qschedd")
        wait_until 20 started
        kill -0 "$qschedd" 2>/dev/null || { cat "$D/qschedd.log" >&2; return 1; }
        wait_until 10 grep -q ' runs$' "$D/qschedd.log"
}

stop_qschedd() {
        kill -s "${1:-TERM}" "$qschedd"
        wait "$qschedd" 2>/dev/null || true
        qschedd=
}

worker() {
        [ -x "$build/tests/helpers/worker" ] || skip "tests/helpers/worker is not built"
        "$build/tests/helpers/worker" "$@" >/dev/null 2>&1 3>&- &
        last=$!
        pids+=("$last")
        workers+=("$last")
        sleep 0.3
}

masks() {
        cat /proc/"$1"/task/*/status | sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' | sort -u | paste -sd' '
}

threads() {
        find /proc/"$1"/task -mindepth 1 -maxdepth 1 | wc -l
}

call() {
        local answer
        answer=$(busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" --timeout=60 --json=short call org.qsched1 /org/qsched1 org.qsched1.Manager "$@") || return
        jq -r '.data[0]' <<<"$answer"
}

property() { # name
        busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" --json=short get-property org.qsched1 /org/qsched1 org.qsched1.Manager "$1" | jq -r .data
}

status() {
        call GetStatus
}

apply() { # job text...
        local args=() t
        for t in "$@"; do
                args+=("$t" "")
        done
        call Apply 'a(ss)a{sv}' $# "${args[@]}" 0
}

plan() {
        local args=() t
        for t in "$@"; do
                args+=("$t" "")
        done
        call Plan 'a(ss)a{sv}' $# "${args[@]}" 0
}

# A job with a rank for each pid: job NAME PID...
job() {
        local name=$1 pids
        shift
        pids=$(IFS=,; echo "$*")
        printf '[Job]\nName=%s\n[Ranks]\nCount=%d\nCPUs=1\nMatch=pid:%s\n' "$name" $# "$pids"
}

as_nobody() {
        need setpriv
        setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$build/qschedctl" ||
                skip "another user cannot reach the build directory, or qschedctl is not built"
        setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all "$@"
}

teardown_all() {
        local i
        if [ -z "$BATS_TEST_COMPLETED" ] && [ -s "$D/qschedd.log" ]; then
                sed 's/^/qschedd.log: /' "$D/qschedd.log" | tail -n 30
        fi
        for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
                kill -CONT "${pids[i]}" 2>/dev/null || true
                kill "${pids[i]}" 2>/dev/null || continue
                wait "${pids[i]}" 2>/dev/null || true
        done
        # a report of a sanitizer, also that of a leak at the end, fails the test
        grep -A 20 -E 'ERROR: .*Sanitizer|WARNING: ThreadSanitizer|runtime error:' "$D/qschedd.log" 2>/dev/null && reported=1
        for i in run state; do
                mountpoint -q "$D/$i" && umount -l "$D/$i"
        done
        rm -rf "$D"
        [ -z "${reported:-}" ]
}

# A daemon with short ticks, no hold-off and no housekeeping.
setup_daemon() {
        setup_all
        printf '[Daemon]\nInterval=300ms\n[Placement]\nHoldOff=0\nHousekeepingCores=0\n' >"$D/qschedd.conf"
}

all_cpus() {
        masks $$
}

written() {
        jq -r .outcome.written
}

# Two workers as job "one", each on a CPU of its own: $last and ${workers[0]}.
two_placed() {
        worker --threads=2
        worker --threads=2
        apply "$(job one "${workers[@]}")" >"$D/applied"
        [[ $(masks "${workers[0]}") =~ ^[0-9]+$ ]]
        [[ $(masks "$last") =~ ^[0-9]+$ ]]
        [ "$(masks "${workers[0]}")" != "$(masks "$last")" ]
}

# Signals of the daemon, into $D/signals.
listen() {
        busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" monitor org.qsched1 >"$D/signals" 2>&1 3>&- &
        pids+=($!)
        wait_until 5 grep -q . "$D/signals"
}

# Annealing with so many sweeps ends with the budget, on any host.
slow_apply() { # in the background; its output is $D/slow
        printf '[Job]\nName=slow\n[Ranks]\nCount=100\n' >"$D/slow.job"
        "$build/qschedctl" apply --solver=sa --sweeps=10000000 --json "$D/slow.job" >"$D/slow" 2>&1 3>&- &
        slow=$!
        pids+=("$slow")
        wait_until 5 eval '[ "$(status | jq -r .state)" = solving ]'
}

nobody() { # qschedctl arguments; busctl would not print the sentence of AccessDenied
        as_nobody "$build/qschedctl" "$@"
}

nobody_worker() { # a command to start it by
        as_nobody true
        setpriv --reuid=65534 --regid=65534 --clear-groups "$@" "$build/tests/helpers/worker" --threads=2 ${comm:+--name="$comm"} >/dev/null 2>&1 3>&- &
        last=$!
        pids+=("$last")
        workers+=("$last")
        wait_until 5 eval "[[ \$(readlink /proc/$last/exe) = */worker ]]"
        sleep 0.3
}

job_file() { # name pid...
        job "$@" >"$D/$1.job"
        chmod 644 "$D/$1.job"
}
