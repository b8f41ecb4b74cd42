#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# qschedd as a service of systemd: sandbox, watchdog, reload, stop and restart in all their forms, broken state files,
# doctor. What is asserted is what systemd (systemctl show, the journal) and the kernel (masks) say.
# vm: hierarchies=unified,legacy timeout=900

# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # eval expands later; each test has its workers
load helpers
bats_require_minimum_version 1.5.0

D=/run/systemd/system/qschedd.service.d
C=/etc/qsched/qschedd.conf.d

setup() {
        cd "$BATS_TEST_TMPDIR" || return 1
        workers=()
        since=$(date +%s)
        systemctl start qschedd
}

teardown() {
        if [ -z "$BATS_TEST_COMPLETED" ]; then
                journalctl -u qschedd -o cat -n 25 --no-pager
        fi
        rm -rf "$D"
        rm -f "$C/broken.conf" "$C/later.conf"
        systemctl daemon-reload
        systemctl stop 'qsched-test-*.service' 2>/dev/null
        rm -f /run/systemd/system/qsched-test-*
        systemctl -q is-active qschedd && qschedctl revert >/dev/null 2>&1
        if [ ${#workers[@]} -gt 0 ]; then
                kill "${workers[@]}" 2>/dev/null
        fi
        return 0
}

drop_in() { # lines of [Service], in force from now on
        mkdir -p "$D"
        printf '%s\n' '[Service]' "$@" >"$D/test.conf"
        systemctl daemon-reload
        systemctl restart qschedd
}

main_pid() {
        systemctl show -P MainPID qschedd
}

other_pid() { # pid: the daemon runs, as another process than that
        local now
        now=$(main_pid)
        [ "$now" != 0 ] && [ "$now" != "$1" ] && systemctl -q is-active qschedd
}

said() { # regular expression: in the journal since the test began
        journalctl -u qschedd --since="@$since" -o cat --no-pager | grep -E "$1"
}

status_says() { # regular expression
        systemctl show -P StatusText qschedd | grep -E "$1"
}

placed_pair() { # two workers, placed
        worker --threads=3
        worker --threads=3
        pair_job
        qschedctl apply pair.job
        still_placed
}

still_placed() {
        on_node "${workers[0]}" 3 && on_node "${workers[1]}" 1
}

put_back() {
        everywhere "${workers[0]}" && everywhere "${workers[1]}"
}

# Placed as before, the daemon knows that, and can put it back.
taken_over() {
        still_placed
        until_true status_says '^1 job applied, 2 processes placed'
        qschedctl apply --json pair.job >again.json
        [ "$(jq -r .outcome.written again.json)" = 0 ]
        qschedctl revert pair
        put_back
}

# ---- sandbox ---------------------------------------------------------------------------------------------------------------

@test "systemd-analyze security: 2.5 at most" {
        systemd-analyze security --no-pager qschedd | tail -n 1
        systemd-analyze security --threshold=25 --no-pager qschedd >/dev/null
}

@test "in its sandbox it places the processes of another user, and knows what they hold" {
        "${nobody[@]}" "$T/worker" --threads=3 >worker.out 2>&1 3>&- &
        workers+=($!)
        until_true grep -q ready worker.out
        printf '[Job]\nName=other\n[Ranks]\nCount=1\nCPUs=1\nDevice=%s\nMatch=pid:%s\n' "$(device 3)" "${workers[0]}" >other.job
        qschedctl apply other.job
        on_node "${workers[0]}" 3
        run ! said 'Operation not permitted|Permission denied'
        qschedctl revert other
        everywhere "${workers[0]}"
}

@test "in its sandbox it can write control groups and interrupts, and nothing else of /sys and /proc/sys" {
        pid=$(main_pid)
        cat "/proc/$pid/mountinfo"
        in_sandbox() { nsenter --mount --target "$pid" "$@"; }
        run ! in_sandbox sh -c 'cat /proc/sys/kernel/numa_balancing >/proc/sys/kernel/numa_balancing'
        run ! in_sandbox sh -c 'cat /sys/kernel/mm/transparent_hugepage/enabled >/sys/kernel/mm/transparent_hugepage/enabled'
        run ! in_sandbox touch /etc/qsched/x /usr/x
        in_sandbox touch /run/qsched/probe /var/lib/qsched/probe
        in_sandbox rm /run/qsched/probe /var/lib/qsched/probe
        in_sandbox sh -c 'cat /proc/irq/default_smp_affinity >/proc/irq/default_smp_affinity'
        if unified; then
                in_sandbox mkdir /sys/fs/cgroup/qsched-test-probe
                in_sandbox rmdir /sys/fs/cgroup/qsched-test-probe
        else
                in_sandbox mkdir /sys/fs/cgroup/cpuset/qsched-test-probe
                in_sandbox rmdir /sys/fs/cgroup/cpuset/qsched-test-probe
        fi
}

@test "it has the capabilities that the unit names, and no network" {
        pid=$(main_pid)
        # CAP_DAC_OVERRIDE 1, CAP_DAC_READ_SEARCH 2, CAP_SYS_PTRACE 19, CAP_SYS_NICE 23
        [ "$(sed -n 's/^CapEff:[[:space:]]*//p' "/proc/$pid/status")" = 0000000000880006 ]
        [ "$(sed -n 's/^Seccomp:[[:space:]]*//p' "/proc/$pid/status")" = 2 ]
        [ "$(systemctl show -P RestrictAddressFamilies qschedd)" = AF_UNIX ]
}

@test "CAP_SYS_NICE is needed: without it another user's process cannot be placed, and that is said" {
        drop_in CapabilityBoundingSet= 'CapabilityBoundingSet=CAP_SYS_PTRACE CAP_DAC_READ_SEARCH'
        "${nobody[@]}" "$T/worker" --threads=3 >worker.out 2>&1 3>&- &
        workers+=($!)
        until_true grep -q ready worker.out
        printf '[Job]\nName=other\n[Ranks]\nCount=1\nCPUs=1\nDevice=%s\nMatch=pid:%s\n' "$(device 3)" "${workers[0]}" >other.job
        run qschedctl apply other.job
        echo "$status $output"
        [[ $output = *"not permitted"* ]]
        everywhere "${workers[0]}"
}

@test "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH are needed: without, what another user's process holds is not seen" {
        printf '[Device probe0]\nKind=ascend\nNUMANode=0\nNodes=%s\n' /dev/qsched-test-npu >"$C/later.conf"
        rm -f /dev/qsched-test-npu
        mknod -m 666 /dev/qsched-test-npu c 1 5
        systemctl restart qschedd
        "${nobody[@]}" "$T/worker" --open=/dev/qsched-test-npu >worker.out 2>&1 3>&- &
        workers+=($!)
        until_true grep -q ready worker.out
        sees() { qschedctl dump | jq -e --argjson p "${workers[0]}" '[.tasks[] | select(.pid == $p)] | length == 1' >/dev/null; }
        until_true sees
        for cap in CAP_SYS_PTRACE CAP_DAC_READ_SEARCH; do
                drop_in CapabilityBoundingSet= "CapabilityBoundingSet=CAP_SYS_NICE $cap"
                sleep 2
                run ! sees
        done
        rm /dev/qsched-test-npu
}

@test "a system call that the filter leaves out fails with an error, and kills nothing" {
        [ "$(systemctl show -P SystemCallErrorNumber qschedd)" = 1 ] || [ "$(systemctl show -P SystemCallErrorNumber qschedd)" = EPERM ]
        mkdir -p "$D"
        printf '[Service]\nExecReload=\nExecReload=/usr/sbin/chroot / true\n' >"$D/test.conf"
        systemctl daemon-reload
        run systemctl reload qschedd
        [ "$status" -ne 0 ]
        until_true said "chroot: .*Operation not permitted"
        systemctl -q is-active qschedd
        run ! said 'SIGSYS|status=31'
}

# ---- watchdog --------------------------------------------------------------------------------------------------------------

@test "watchdog: a daemon that hangs is ended and started anew; placements stay and are taken over" {
        drop_in WatchdogSec=5s
        placed_pair
        old=$(main_pid)
        restarts=$(systemctl show -P NRestarts qschedd)
        kill -STOP "$old"
        until_true said 'Watchdog timeout'
        still_placed
        until_true other_pid "$old"
        [ "$(systemctl show -P NRestarts qschedd)" -gt "$restarts" ]
        gone "/proc/$old"
        taken_over
}

@test "watchdog: one that works is let alone, however long its interval" {
        printf '[Daemon]\nInterval=1h\n' >"$C/later.conf"
        drop_in WatchdogSec=4s
        pid=$(main_pid)
        sleep 12
        [ "$(main_pid)" = "$pid" ]
        run ! said 'Watchdog timeout'
}

# ---- reload ----------------------------------------------------------------------------------------------------------------

interval() {
        qschedctl status --json | jq .interval_us
}

@test "systemctl reload takes a new file over, in the same process" {
        pid=$(main_pid)
        printf '[Daemon]\nInterval=1234ms\n' >"$C/later.conf"
        systemctl reload qschedd
        until_true eval '[ "$(interval)" = 1234000 ]'
        [ "$(main_pid)" = "$pid" ]
        [ "$(systemctl show -P SubState qschedd)" = running ]
}

@test "systemctl reload with a broken file fails, says file and line, and the old configuration stays" {
        pid=$(main_pid)
        before=$(interval)
        printf '[Daemon]\nInterval=9s\nIntervall=3s\n' >"$C/broken.conf"
        run systemctl reload qschedd
        echo "$output"
        [ "$status" -ne 0 ]
        said "broken.conf:3"
        systemctl status --no-pager qschedd | grep -F "broken.conf:3"
        [ "$(systemctl is-active qschedd)" = active ]
        [ "$(main_pid)" = "$pid" ]
        [ "$(interval)" = "$before" ]
}

@test "SIGHUP with a broken file: the old configuration stays, systemctl status says why until it is mended" {
        before=$(interval)
        printf '[Daemon]\nInterval=1ms\n' >"$C/broken.conf"
        systemctl kill -s HUP qschedd
        until_true status_says 'old configuration stays in force: .*broken.conf:2'
        systemctl status --no-pager qschedd | grep -F 'broken.conf:2'
        [ "$(systemctl show -P SubState qschedd)" = running ]
        [ "$(interval)" = "$before" ]
        rm "$C/broken.conf"
        systemctl reload qschedd
        until_true eval '! status_says broken.conf'
}

@test "a broken configuration keeps nothing from starting: the last good one is in force, and that is said" {
        printf '[Daemon]\nInterval=1234ms\n' >"$C/later.conf"
        systemctl restart qschedd
        placed_pair
        printf 'rubbish\n' >"$C/later.conf"
        systemctl restart qschedd
        [ "$(interval)" = 1234000 ]
        status_says 'later.conf:1.*last good configuration is in force'
        said 'later.conf:1.*last good configuration is in force'
        taken_over
        run systemctl reload qschedd
        [ "$status" -ne 0 ]
        rm "$C/later.conf"
        systemctl reload qschedd
        until_true eval '[ "$(interval)" = 5000000 ]'
}

# ---- stop, restart, upgrade ------------------------------------------------------------------------------------------------

@test "restart, try-restart, reload-or-restart, restart with others, restart by a dependency: placements stay" {
        printf '[Service]\nExecStart=/bin/sleep infinity\n' >/run/systemd/system/qsched-test-other.service
        mkdir -p "$D"
        printf '[Unit]\nPartOf=qsched-test-other.service\n' >"$D/test.conf"
        systemctl daemon-reload
        systemctl start qsched-test-other
        placed_pair
        for command in 'restart qschedd' 'try-restart qschedd' 'restart qschedd.service qsched-test-other.service' \
                'restart qsched-test-other' 'restart --no-block qschedd'; do
                old=$(main_pid)
                # shellcheck disable=SC2086 # words
                systemctl $command
                until_true other_pid "$old"
                echo "after systemctl $command"
                still_placed
        done
        taken_over
}

@test "daemon-reload and daemon-reexec: nothing happens" {
        placed_pair
        pid=$(main_pid)
        systemctl daemon-reload
        systemctl daemon-reexec
        [ "$(main_pid)" = "$pid" ]
        taken_over
        [ "$(systemctl is-active qschedd)" = active ]
}

@test "kill -9, abort, a plain SIGTERM: placements stay" {
        placed_pair
        for signal in KILL ABRT SEGV; do
                old=$(main_pid)
                systemctl kill -s "$signal" qschedd
                until_true other_pid "$old"
                still_placed
        done
        systemctl kill -s TERM qschedd
        until_true eval '[ "$(systemctl is-active qschedd)" = inactive ]'
        still_placed
        systemctl start qschedd
        taken_over
}

@test "stop, stop by a dependency, a conflicting unit: everything is put back, and comes again with the next start" {
        printf '[Service]\nExecStart=/bin/sleep infinity\n' >/run/systemd/system/qsched-test-other.service
        printf '[Unit]\nConflicts=qschedd.service\n[Service]\nExecStart=/bin/sleep infinity\n' >/run/systemd/system/qsched-test-rival.service
        mkdir -p "$D"
        printf '[Unit]\nPartOf=qsched-test-other.service\n' >"$D/test.conf"
        systemctl daemon-reload
        placed_pair
        for command in 'stop qschedd' 'stop qsched-test-other qschedd.service' 'stop qsched-test-other' 'start qsched-test-rival'; do
                systemctl start qsched-test-other
                until_true still_placed
                # shellcheck disable=SC2086 # words
                systemctl $command
                until_true eval '[ "$(systemctl is-active qschedd)" = inactive ]'
                echo "after systemctl $command"
                put_back
                systemctl stop qsched-test-rival
                systemctl start qschedd
                until_true still_placed
        done
        [ "$(systemctl show -P Result qschedd)" = success ]
}

@test "restarted again and again while orders come in: nobody is left without CPUs, and all can be put back" {
        placed_pair
        for _ in 1 2 3 4 5; do
                qschedctl apply pair.job >/dev/null 2>&1 &
                workers+=($!)
                systemctl restart qschedd
                masks "${workers[0]}" | grep -q .
        done
        wait "${workers[@]:2}" || true
        workers=("${workers[@]:0:2}")
        qschedctl apply pair.job
        taken_over
        systemctl -q is-active qschedd
}

@test "an upgrade is a new binary and a restart: it reads what the one before wrote" {
        placed_pair
        cp /usr/sbin/qschedd qschedd.new
        old=$(main_pid)
        mv qschedd.new /usr/sbin/qschedd
        systemctl try-restart qschedd
        until_true other_pid "$old"
        [ "$(readlink "/proc/$(main_pid)/exe")" = /usr/sbin/qschedd ]
        taken_over
}

@test "a downgrade meets a line it does not know: what it knows stays in force, nothing is lost" {
        placed_pair
        printf '{"t":"of-a-later-version","id":1,"job":"pair","pid":1}\n' >>/run/qsched/undo.journal
        old=$(main_pid)
        systemctl restart qschedd
        said 'undo.journal'
        grep -h -q of-a-later-version /run/qsched/undo.journal*
        taken_over
        rm -f /run/qsched/undo.journal.bad-*
}

# ---- state files -----------------------------------------------------------------------------------------------------------

ended() { # by a plain signal: nothing is put back
        systemctl kill -s TERM qschedd
        until_true eval '[ "$(systemctl is-active qschedd)" = inactive ]'
}

refill() { # FOLDER FROM
        find "$1" -mindepth 1 -delete
        cp -a "$2/." "$1/"
}

@test "a corrupt state file keeps the service from starting: set aside, start, say so" {
        placed_pair
        ended
        cp -a /run/qsched run
        cp -a /var/lib/qsched state
        for file in /run/qsched/undo.journal /var/lib/qsched/jobs/pair.job /var/lib/qsched/jobs/pair.owner /var/lib/qsched/jobs; do
                for how in garbage directory foreign empty huge; do
                        case $how in
                        garbage) rm -rf "$file"; head -c 3000 /dev/urandom >"$file" ;;
                        directory) rm -rf "$file"; mkdir "$file" ;;
                        foreign) chown -R nobody "$file"; chmod 0600 "$file" ;;
                        empty) rm -rf "$file"; : >"$file" ;;
                        huge) rm -rf "$file"; truncate -s 3G "$file" ;;
                        esac
                        echo "$file: $how"
                        systemctl start qschedd
                        qschedctl status >/dev/null
                        masks "${workers[0]}" | grep -q .
                        ended
                        refill /run/qsched run
                        refill /var/lib/qsched state
                done
        done
        [ "$(said 'set aside as' | wc -l)" -ge 12 ]
        [ "$(systemctl show -P Result qschedd)" = success ]
        systemctl start qschedd
        until_true still_placed
        qschedctl revert
        put_back
}

# ---- doctor ----------------------------------------------------------------------------------------------------------------

# Whatever a tool could have turned: masks, interrupts, cpusets, sysctls, units, files of ours.
world() {
        cat /proc/irq/*/smp_affinity_list /proc/irq/default_smp_affinity
        find /sys/fs/cgroup -name 'cpuset.*' \( -name '*cpus' -o -name '*mems' \) -exec grep -H . {} + | sort
        for p in "${running[@]}"; do
                [ ! -e "$p/exe" ] || echo "$p $(masks "${p#/proc/}")"
        done
        sysctl kernel.numa_balancing vm.zone_reclaim_mode kernel.sched_autogroup_enabled vm.swappiness 2>/dev/null
        cat /sys/kernel/mm/transparent_hugepage/enabled
        systemctl list-units --no-legend --plain --state=active '*.service' | awk '{ print $1 }' | grep -v qsched-test
        find /etc/qsched /var/lib/qsched -type f -exec sha256sum {} +
}

finding() { # check level
        jq -re --arg c "$1" --arg l "$2" '[.findings[] | select(.check == $c and .level == $l)][0].sentence' report
}

@test "doctor says what works against placement here, and changes nothing" {
        placed_pair
        CPU_AFFINITY_CONF=1 worker --threads=1
        running=(/proc/[0-9]*)
        world >before
        run qschedctl doctor --json
        printf '%s\n' "$output" >report
        world >after
        [ "$status" -le 1 ]
        jq -r '.findings[] | "\(.level) \(.check): \(.sentence)"' report
        diff before after
        finding daemon ok | grep -q 'has placed 2 processes'
        for check in rights systemd polkit kernel irqbalance rivals kubelet isolation offline device-node shared; do
                finding "$check" ok
        done
        if unified; then
                finding cgroup ok
                run ! finding cgroup warning
        else
                run ! finding cgroup problem
        fi
        kill "${workers[2]}"
        unset 'workers[2]'
}
