#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# qschedd on a bus of its own with real processes. What is asserted of placements is what /proc says.

load helpers

setup() {
        setup_all
        printf '[Daemon]\nInterval=300ms\n[Placement]\nHoldOff=0\nHousekeepingCores=0\n' >"$D/qschedd.conf"
}

teardown() {
        teardown_all
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

# --- start and end -----------------------------------------------------------------------------------------------

@test "no bus: one sentence, exit 1" {
        DBUS_SYSTEM_BUS_ADDRESS=unix:path=$D/none run qschedd --config "$D/qschedd.conf"
        echo "$status $output"
        [ "$status" -eq 1 ]
        [[ $output = *"system bus cannot be reached"* ]]
        [ "${#lines[@]}" -eq 1 ]
}

@test "a second daemon for the same runtime directory: one sentence, exit 1, the first goes on" {
        start_qschedd
        run qschedd --config "$D/qschedd.conf"
        echo "$status $output"
        [ "$status" -eq 1 ]
        [[ $output = *"Another qschedd runs"* ]]
        call GetStatus
}

@test "the name is taken: one sentence, exit 1" {
        start_qschedd
        mkdir "$D/run2"
        RUNTIME_DIRECTORY=$D/run2 run qschedd --config "$D/qschedd.conf"
        echo "$status $output"
        [ "$status" -eq 1 ]
        [[ $output = *"name org.qsched1 is taken"* ]]
}

@test "options: help, version, unknown ones, arguments" {
        run qschedd --help
        [ "$status" -eq 0 ]
        [[ $output = *--devices* ]]
        run qschedd --version
        [[ $output = "qschedd "* ]]
        run qschedd --no-such-option
        [ "$status" -eq 2 ]
        run qschedd argument
        [ "$status" -eq 2 ]
}

@test "a bad configuration: file, line and what is allowed; exit 1" {
        printf '[Daemon]\nInterval=300ms\nNoSuchKey=1\n' >"$D/qschedd.conf"
        run qschedd --config "$D/qschedd.conf"
        echo "$output"
        [ "$status" -eq 1 ]
        [[ $output = *"qschedd.conf:3"* ]]
        run qschedd --config "$D/qschedd.conf" --check-config
        [ "$status" -eq 1 ]
        : >"$D/qschedd.conf"
        printf '[Device npu0]\nKind=ascend\nNUMANode=77\n' >"$D/devices"
        run qschedd --config "$D/qschedd.conf" --devices "$D/devices"
        echo "$output"
        [ "$status" -eq 1 ]
        [[ $output = *"devices:3"* ]]
}

@test "SIGHUP with a bad configuration: the old one stays in force" {
        start_qschedd
        printf '[Daemon]\nInterval=-3\n' >"$D/qschedd.conf"
        kill -HUP "$qschedd"
        wait_until 5 grep -q 'old one stays in force' "$D/qschedd.log"
        [ "$(status | jq .interval_us)" = 300000 ]
        printf '[Daemon]\nInterval=400ms\n[Device npu0]\nKind=ascend\nNUMANode=77\n' >"$D/qschedd.conf"
        kill -HUP "$qschedd"
        wait_until 5 eval '[ "$(grep -c "old one stays in force" "$D/qschedd.log")" = 2 ]'
        printf '[Daemon]\nInterval=400ms\n' >"$D/qschedd.conf"
        kill -HUP "$qschedd"
        wait_until 5 grep -q 'was read again' "$D/qschedd.log"
        [ "$(status | jq .interval_us)" = 400000 ]
}

@test "SIGTERM ends it with 0 and leaves placements" {
        need_cpus 2
        start_qschedd
        two_placed
        before=$(masks "$last")
        kill "$qschedd"
        wait "$qschedd"
        [ "$(masks "$last")" = "$before" ]
        [ -e "$D/state/jobs/one.job" ]
}

@test "SIGUSR1 puts everything back and ends it; what is applied comes back with the next start" {
        need_cpus 2
        start_qschedd
        before=$(all_cpus)
        two_placed
        kill -USR1 "$qschedd"
        wait "$qschedd"
        [ "$(masks "$last")" = "$before" ]
        [ "$(masks "${workers[0]}")" = "$before" ]
        start_qschedd
        wait_until 5 eval "[[ \$(masks $last) =~ ^[0-9]+\$ ]]"
}

@test "the bus goes away: a sentence, exit 1, placements stay" {
        need_cpus 2
        start_qschedd
        two_placed
        mask=$(masks "$last")
        kill "$bus"
        code=0
        wait "$qschedd" || code=$?
        [ "$code" -eq 1 ]
        grep -q 'connection to the system bus was lost' "$D/qschedd.log"
        [ "$(masks "$last")" = "$mask" ]
}

# --- the bus -----------------------------------------------------------------------------------------------------

@test "methods and signals have the signatures of org.qsched1(5)" {
        start_qschedd
        busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" introspect org.qsched1 /org/qsched1 org.qsched1.Manager >"$D/api"
        cat "$D/api"
        for row in '.Plan method a(ss)a{sv} s' '.Apply method a(ss)a{sv} s' '.Run method sa{sv} s' '.Revert method s s' \
                '.Explain method s s' '.GetStatus method - s' '.DumpByFileDescriptor method - h' '.Reload method - -' \
                '.PlanApplied signal sbu' '.Drift signal uuss' '.DeviceFault signal ss' '.Version property s' '.Energy property d'; do
                tr -s ' ' <"$D/api" | grep -qF -- "$row" || { echo "missing: $row"; return 1; }
        done
}

@test "devices, jobs and tasks are objects; they come and go with signals" {
        printf '[Device npu0]\nKind=ascend\nNUMANode=0\nMemory=64G\n' >"$D/devices"
        start_qschedd --devices "$D/devices"
        listen
        tree() { busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" --list tree org.qsched1; }
        tree | grep -qx /org/qsched1/device/npu0
        [ "$(busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" get-property org.qsched1 /org/qsched1/device/npu0 org.qsched1.Device Kind)" = 's "ascend"' ]
        worker --threads=2
        apply "$(job one "$last")"
        tree | grep -qx /org/qsched1/job/one
        tree | grep -qx "/org/qsched1/task/$last"
        [ "$(busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" get-property org.qsched1 "/org/qsched1/task/$last" org.qsched1.Task Name)" = 's "one/0"' ]
        [ "$(property Jobs)" = 1 ]
        call Revert s one
        wait_until 5 eval '! tree | grep -q /org/qsched1/job/one'
        [ "$(property Jobs)" = 0 ]
        for word in InterfacesAdded InterfacesRemoved PropertiesChanged PlanApplied; do
                grep -q "Member=$word" "$D/signals" || { echo "no signal $word"; return 1; }
        done
}

@test "a device that goes bad is told of, once" {
        device() { printf '[Device npu0]\nKind=ascend\nNUMANode=0\nHealth=%s\n' "$1" >"$D/devices"; }
        device ok
        start_qschedd --devices "$D/devices"
        listen
        device critical
        kill -HUP "$qschedd"
        wait_until 5 grep -q "Member=DeviceFault" "$D/signals"
        kill -HUP "$qschedd"
        sleep 1
        [ "$(grep -c "Member=DeviceFault" "$D/signals")" = 1 ]
        [ "$(busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" get-property org.qsched1 /org/qsched1/device/npu0 org.qsched1.Device Health)" = 's "critical"' ]
}

@test "errors have names and sentences" {
        start_qschedd
        run call Revert s nosuch
        [[ $output = *'no job "nosuch"'* ]]
        run call Explain s nosuch
        [[ $output = *'no task, process or applied job "nosuch"'* ]]
        run plan "$(printf '[Job]\nNoSuch=1\n')"
        echo "$output"
        [[ $output = *":2"* ]]
        run call Plan 'a(ss)a{sv}' 0 1 colour s red
        [[ $output = *'Option "colour" is not known'* ]]
        run call Plan 'a(ss)a{sv}' 0 1 seed s red
        [[ $output = *'"seed" is of a wrong type'* ]]
        run call Plan 'a(ss)a{sv}' 1 "$(printf '[Job]\nName=x\n[Ranks]\nCount=1\n')" "" 1 seed t 18446744073709551615
        [[ $output = *'seed=18446744073709551615 is too large'* ]]
        run call Plan 'a(ss)a{sv}' 0 0
        [[ $output = *'nothing to plan'* ]]
        run plan "$(printf '[Job]\nName=../x\n[Ranks]\nCount=1\n')"
        [ "$status" -ne 0 ] || [[ $output != *feasible* ]]
        [ ! -e "$D/state/x.job" ]
        call GetStatus
}

@test "the record comes by file descriptor and is a record" {
        need gdbus
        start_qschedd
        [ -x "$build/qschedctl" ] || skip "qschedctl is not built"
        qschedctl dump >"$D/record"
        [ "$(jq -r .format "$D/record")" = qsched-record-1 ]
}

# --- placing -----------------------------------------------------------------------------------------------------

@test "plan changes nothing" {
        start_qschedd
        worker --threads=3
        before=$(masks "$last")
        [ "$(plan "$(job one "$last")" | jq .feasible)" = true ]
        [ "$(masks "$last")" = "$before" ]
        [ "$(status | jq '.jobs | length')" = 0 ]
        [ ! -e "$D/state/jobs/one.job" ]
}

@test "apply: two processes on disjoint CPUs, all threads, late ones too; a second apply writes nothing; revert gives back" {
        need_cpus 2
        start_qschedd
        before=$(all_cpus)
        worker --threads=3 --late=2:6
        worker --threads=3
        a=${workers[0]} b=${workers[1]}
        apply "$(job pair "$a" "$b")" >"$D/first"
        [ "$(written <"$D/first")" -ge 6 ]
        [ "$(masks "$a")" != "$(masks "$b")" ]
        [[ $(masks "$a") =~ ^[0-9]+$ ]]
        [[ $(masks "$b") =~ ^[0-9]+$ ]]
        n=$(threads "$a")
        wait_until 10 eval "[ \$(threads $a) -gt $n ]"
        sleep 1
        [[ $(masks "$a") =~ ^[0-9]+$ ]]
        [ "$(apply "$(job pair "$a" "$b")" | written)" = 0 ]
        [ "$(call Revert s pair | jq -r '.jobs[0]')" = pair ]
        [ "$(masks "$a")" = "$before" ]
        [ "$(masks "$b")" = "$before" ]
}

@test "more ranks than CPUs: they share, and messages say so" {
        n=$(cpus_online)
        [ "$n" -le 8 ] || skip "has more than 8 CPUs"
        start_qschedd
        for ((i = 0; i <= n; i++)); do
                worker --threads=1
        done
        apply "$(job many "${workers[@]}")" >"$D/plan"
        [ "$(jq .feasible "$D/plan")" = true ]
        jq -r '.messages[]' "$D/plan"
        [ "$(jq '.messages | length' "$D/plan")" -ge 1 ]
}

@test "apply --dry-run changes nothing" {
        start_qschedd
        worker --threads=1
        before=$(masks "$last")
        call Apply 'a(ss)a{sv}' 1 "$(job one "$last")" "" 1 dry-run b true >"$D/plan"
        [ "$(jq .feasible "$D/plan")" = true ]
        [ "$(jq .outcome "$D/plan")" = null ]
        [ "$(masks "$last")" = "$before" ]
        [ ! -e "$D/state/jobs/one.job" ]
}

@test "infeasible: feasible is false, a sentence says why, nothing is written" {
        start_qschedd
        worker --threads=1
        before=$(masks "$last")
        apply "$(printf '[Job]\nName=big\n[Ranks]\nCount=1\nMinCPUs=60000\nMatch=pid:%s\n' "$last")" >"$D/plan" || true
        cat "$D/plan"
        [ "$(jq .feasible "$D/plan")" = false ]
        [ "$(jq '.messages | length' "$D/plan")" -ge 1 ]
        [ "$(masks "$last")" = "$before" ]
        [ ! -e "$D/state/jobs/big.job" ]
}

@test "jobs are decided together: the second apply keeps away from the first" {
        need_cpus 2
        start_qschedd
        worker --threads=1
        worker --threads=1
        apply "$(job one "${workers[0]}")"
        apply "$(job two "${workers[1]}")"
        [ "$(masks "${workers[0]}")" != "$(masks "${workers[1]}")" ]
        [ "$(status | jq '.plan.tasks | length')" = 2 ]
        call Revert s one
        [ "$(masks "${workers[0]}")" = "$(all_cpus)" ]
        [ "$(masks "${workers[1]}")" != "$(all_cpus)" ]
}

@test "a job that is replaced lets go of processes that it does not name any more" {
        need_cpus 2
        start_qschedd
        two_placed
        apply "$(job one "${workers[0]}")"
        [[ $(masks "${workers[0]}") =~ ^[0-9]+$ ]]
        [ "$(masks "$last")" = "$(all_cpus)" ]
        [ "$(status | jq '.jobs | length')" = 1 ]
}

@test "explain: terms, weights, and reasons of a task by name, pid and job" {
        start_qschedd
        worker --threads=1
        apply "$(job one "$last")"
        for what in one/0 "$last" one; do
                call Explain s "$what" >"$D/explain"
                [ "$(jq -r '.tasks[0].name' "$D/explain")" = one/0 ]
        done
        [ "$(jq '.terms | length' "$D/explain")" -ge 5 ]
        [ "$(jq '.weights.alpha' "$D/explain")" != null ]
        [ "$(jq '.tasks[0].reasons | length' "$D/explain")" -ge 1 ]
        [ "$(jq '.tasks[0].now.pid' "$D/explain")" = "$last" ]
        [ "$(jq '.tasks[0].memory_complete' "$D/explain")" = true ]
        [ "$(jq '[.tasks[0].memory_by_node[]] | add > 100000' "$D/explain")" = true ]
}

@test "a mask changed by hand is left alone, told once, and stays after revert" {
        need_cpus 2
        need taskset
        start_qschedd
        two_placed
        mine=$(masks "$last")
        other=$(masks "${workers[0]}")
        listen
        taskset -a -p -c "$other" "$last"
        wait_until 5 grep -q 'changed by somebody else' "$D/qschedd.log"
        sleep 1
        [ "$(grep -c 'changed by somebody else' "$D/qschedd.log")" = "$(threads "$last")" ]
        [ "$(grep -c 'left alone' "$D/qschedd.log")" -le $(($(threads "$last") + 1)) ]
        [ "$(status | jq -r '.drift[0].found')" = "$other" ]
        wait_until 5 grep -q "Member=Drift" "$D/signals"
        [ "$(masks "$last")" = "$other" ]
        call Revert s one
        [ "$(masks "$last")" = "$other" ]
}

# --- restart -----------------------------------------------------------------------------------------------------

@test "kill -9 and a new start: placements stay, jobs are known, revert still gives back" {
        need_cpus 2
        start_qschedd
        before=$(all_cpus)
        two_placed
        mask=$(masks "$last")
        stop_qschedd KILL
        start_qschedd
        [ "$(masks "$last")" = "$mask" ]
        [ "$(status | jq -r '.jobs[0].name')" = one ]
        wait_until 5 eval '[ "$(status | jq ".jobs[0].matched")" = 2 ]'
        [ "$(apply "$(job one "${workers[@]}")" | written)" = 0 ]
        call Revert s ""
        [ "$(masks "$last")" = "$before" ]
}

@test "kill -9 between the changes of an order: a start undoes them, and the order is dropped" {
        need_cpus 2
        start_qschedd
        before=$(all_cpus)
        two_placed
        stop_qschedd KILL
        # as it would be without the end of the order: no commit mark, the job under its temporary name
        sed -i '/"t":"commit"/d' "$D/run/undo.journal"
        for file in job owner; do
                mv "$D/state/jobs/one.$file" "$D/state/jobs/one.$file.new"
        done
        start_qschedd
        [ "$(masks "$last")" = "$before" ]
        [ "$(masks "${workers[0]}")" = "$before" ]
        sleep 1
        [ "$(masks "$last")" = "$before" ]
        [ "$(status | jq '.jobs | length')" = 0 ]
}

@test "kill -9 right after the commit of an order: a start puts its job in force, its placements stay" {
        need_cpus 2
        start_qschedd
        before=$(all_cpus)
        two_placed
        mask=$(masks "$last")
        stop_qschedd KILL
        for file in job owner; do
                mv "$D/state/jobs/one.$file" "$D/state/jobs/one.$file.new"
        done
        start_qschedd
        [ "$(masks "$last")" = "$mask" ]
        [ "$(status | jq -r '.jobs[0].name')" = one ]
        [ -e "$D/state/jobs/one.job" ]
        call Revert s one
        [ "$(masks "$last")" = "$before" ]
}

@test "kill -9 while a revert is under way: a start ends it, and the job does not come back" {
        need_cpus 2
        start_qschedd
        before=$(all_cpus)
        two_placed
        stop_qschedd KILL
        mv "$D/state/jobs/one.job" "$D/state/jobs/one.job.reverting"
        start_qschedd
        [ "$(masks "$last")" = "$before" ]
        [ "$(masks "${workers[0]}")" = "$before" ]
        [ "$(status | jq '.jobs | length')" = 0 ]
        [ ! -e "$D/state/jobs/one.job.reverting" ]
        [ ! -e "$D/state/jobs/one.owner" ]
        sleep 1
        [ "$(masks "$last")" = "$before" ]
}

@test "what is logged: who asked, and every write of every thread" {
        need_cpus 2
        start_qschedd
        worker --threads=40
        worker --threads=2
        apply "$(job one "${workers[@]}")" >/dev/null
        grep -Eq 'apply of job one: asked for by user 0, pid [1-9][0-9]* \(busctl\)' "$D/qschedd.log"
        sed -n "s/.*pid ${workers[0]} (worker) tids \([0-9,-]*\): cpus .* -> [0-9]* (apply)/\1/p" "$D/qschedd.log" >"$D/tids"
        tr , '\n' <"$D/tids" | while IFS=- read -r first end; do seq "$first" "${end:-$first}"; done | sort -n >"$D/logged"
        ls "/proc/${workers[0]}/task" | sort -n | diff - "$D/logged"
        call Revert s one >/dev/null
        grep -Eq 'Revert of job one: asked for by user 0, pid [1-9][0-9]* \(busctl\)' "$D/qschedd.log"
        grep -q "pid ${workers[0]} (worker) tids .* -> .* (revert)" "$D/qschedd.log"
}

@test "a job whose file was lost can still be put back by name" {
        need_cpus 2
        start_qschedd
        before=$(all_cpus)
        two_placed
        stop_qschedd KILL
        rm "$D/state/jobs/one.job"
        start_qschedd
        [ "$(call Revert s one | jq -r '.jobs[0]')" = one ]
        [ "$(masks "$last")" = "$before" ]
}

@test "a worker that restarts is matched and placed again" {
        need_cpus 2
        comm=qst$RANDOM
        start_qschedd
        cp "$build/tests/helpers/worker" "$D/$comm"
        for i in 1 2; do
                "$D/$comm" --threads=1 >/dev/null 2>&1 3>&- &
                pids+=($!)
        done
        sleep 0.3
        apply "$(printf '[Job]\nName=re\n[Ranks]\nCount=2\nCPUs=1\nMatch=comm:%s\n' $comm)"
        [[ $(masks $!) =~ ^[0-9]+$ ]]
        kill $!
        wait $! || true
        "$D/$comm" --threads=2 >/dev/null 2>&1 3>&- &
        pids+=($!)
        wait_until 5 eval "[[ \$(masks $!) =~ ^[0-9]+\$ ]]"
        grep -q 're-plan' "$D/qschedd.log"
}

@test "a job file that cannot be read is set aside and does not stop the start" {
        mkdir "$D/state/jobs"
        echo rubbish >"$D/state/jobs/bad.job"
        printf '[Job]\nName=orphan\n[Ranks]\nCount=1\n' >"$D/state/jobs/orphan.job"
        start_qschedd
        [ -e "$D/state/jobs/bad.job.bad" ]
        [ -e "$D/state/jobs/orphan.job.bad" ] # whose it is, is not known
        grep -q 'set aside' "$D/qschedd.log"
        [ "$(status | jq '.jobs | length')" = 0 ]
}

@test "a full state directory: a sentence, nothing is changed" {
        need_root
        mount -t tmpfs -o size=16k tmpfs "$D/state" 2>/dev/null || skip "mount is not permitted"
        start_qschedd
        worker --threads=1
        worker --threads=1
        before=$(masks "$last")
        dd if=/dev/zero of="$D/state/fill" bs=1k 2>/dev/null || true
        run apply "$(job one "${workers[@]}")"
        rm -f "$D/state/fill"
        echo "$output"
        [[ $output = *"nothing was changed"* ]]
        [ "$(masks "$last")" = "$before" ]
        [ "$(status | jq '.jobs | length')" = 0 ]
        apply "$(job one "${workers[@]}")"
        [ "$(masks "$last")" != "$before" ]
}

@test "a full runtime directory: a sentence, nothing is changed, the job is not kept" {
        need_root
        mount -t tmpfs -o size=16k tmpfs "$D/run" 2>/dev/null || skip "mount is not permitted"
        start_qschedd
        worker --threads=1
        worker --threads=1
        before=$(masks "$last")
        dd if=/dev/zero of="$D/run/fill" bs=1k 2>/dev/null || true
        printf x >>"$D/run/fill" || true
        run apply "$(job one "${workers[@]}")"
        echo "$output"
        [[ $output = *"undo journal"*"No space left"* ]]
        [ "$(masks "$last")" = "$before" ]
        [ ! -e "$D/state/jobs/one.job" ]
        rm "$D/run/fill"
        apply "$(job one "${workers[@]}")"
        [ "$(masks "$last")" != "$before" ]
        call Revert s ""
}

# --- while the solver works -------------------------------------------------------------------------------------

# Annealing with so many sweeps ends with the budget, on any host.
slow_apply() { # in the background; its output is $D/slow
        printf '[Job]\nName=slow\n[Ranks]\nCount=100\n' >"$D/slow.job"
        "$build/qschedctl" apply --solver=sa --sweeps=10000000 --json "$D/slow.job" >"$D/slow" 2>&1 3>&- &
        slow=$!
        pids+=("$slow")
        wait_until 5 eval '[ "$(status | jq -r .state)" = solving ]'
}

@test "a job reverted while the solver works on it stays reverted" {
        need_cpus 2
        printf '[Solver]\nBudget=3s\n' >>"$D/qschedd.conf"
        start_qschedd
        two_placed
        slow_apply
        call Revert s one
        [ "$(masks "$last")" = "$(all_cpus)" ]
        kill -HUP "$qschedd"
        wait "$slow"
        [ "$(jq .feasible "$D/slow")" = true ]
        sleep 1
        [ "$(masks "$last")" = "$(all_cpus)" ]
        [ "$(status | jq -r '[.jobs[].name] | join(" ")')" = slow ]
}

@test "an end while the solver works: who waits is told, exit 0" {
        printf '[Solver]\nBudget=20s\n' >>"$D/qschedd.conf"
        start_qschedd
        slow_apply
        SECONDS=0
        kill "$qschedd"
        wait "$qschedd"
        [ "$SECONDS" -lt 10 ]
        wait "$slow" || true
        cat "$D/slow"
        grep -q 'qschedd is stopping' "$D/slow"
        [ ! -e "$D/state/jobs/slow.job" ]
}

@test "while a solve is on: the tick goes on, the status is of now, orders wait their turn" {
        need_cpus 2
        printf '[Solver]\nBudget=4s\n' >>"$D/qschedd.conf"
        start_qschedd
        worker --threads=2 --late=3:2
        worker --threads=2
        late=${workers[0]}
        apply "$(job one "${workers[@]}")" >/dev/null
        slow_apply
        ticks=$(status | jq .ticks)
        wait_until 3 eval "[ \$(threads $late) -ge 5 ]"
        wait_until 2 eval "[[ \$(masks $late) =~ ^[0-9]+\$ ]]"
        [ "$(status | jq -r .state)" = solving ]
        [ "$(status | jq .ticks)" -gt "$ticks" ]
        [ "$(status | jq ".tasks[] | select(.pid == $late) | .threads")" -ge 5 ]
        worker --threads=1
        apply "$(job two "$last")" >/dev/null # after the slow one
        wait "$slow"
        [ "$(jq .feasible "$D/slow")" = true ]
        [ "$(status | jq -r '[.jobs[].name] | sort | join(" ")')" = "one slow two" ]
}

@test "one job applied from several places at once: each is answered, the processes are placed once" {
        need_cpus 2
        start_qschedd
        worker --threads=3
        worker --threads=3
        asked=()
        for i in 1 2 3 4; do
                apply "$(job one "${workers[@]}")" >"$D/answer$i" 3>&- &
                asked+=($!)
        done
        wait "${asked[@]}"
        for i in 1 2 3 4; do
                [ "$(jq .feasible "$D/answer$i")" = true ]
        done
        [ "$(cat "$D"/answer? | jq -s '[.[].outcome.written] | sort | .[0:3] | add')" = 0 ]
        [[ $(masks "${workers[0]}") =~ ^[0-9]+$ ]]
        [ "$(masks "${workers[0]}")" != "$(masks "${workers[1]}")" ]
        [ "$(status | jq '.jobs | length')" = 1 ]
        call Revert s "" >/dev/null
        [ "$(masks "$last")" = "$(all_cpus)" ]
}

@test "workers that start one after another do not wait for the hold-off" {
        need_cpus 2
        comm=qst$RANDOM
        printf '[Daemon]\nInterval=300ms\n[Placement]\nHoldOff=60s\nHousekeepingCores=0\n' >"$D/qschedd.conf"
        start_qschedd
        worker --threads=1 --name=$comm
        apply "$(printf '[Job]\nName=re\n[Ranks]\nCount=2\nCPUs=1\nMatch=comm:%s\n' $comm)" >/dev/null
        [[ $(masks "$last") =~ ^[0-9]+$ ]]
        worker --threads=1 --name=$comm
        wait_until 5 eval "[[ \$(masks $last) =~ ^[0-9]+\$ ]]"
}

@test "CPU use is counted from tick to tick, however often somebody asks" {
        printf '[Daemon]\nInterval=3s\n[Placement]\nHoldOff=0\n' >"$D/qschedd.conf"
        start_qschedd
        worker --threads=1 --burn
        apply "$(job one "$last")" >/dev/null
        use() { call GetStatus | jq ".tasks[] | select(.pid == $last) | .cpu_use"; }
        wait_until 10 eval '[ "$(use)" != null ]'
        ticks=$(status | jq .ticks)
        for i in 1 2 3 4 5; do
                use
                sleep 0.3
        done >"$D/use"
        [ "$(status | jq .ticks)" -le $((ticks + 1)) ]
        [ "$(sort -u "$D/use" | wc -l)" -le 2 ]
}

# --- authority ---------------------------------------------------------------------------------------------------

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

@test "another user reads, but does not change what is not theirs" {
        need_root
        start_qschedd
        two_placed
        mask=$(masks "$last")
        nobody status >/dev/null
        job_file one "${workers[@]}"
        job_file two "$last"
        nobody plan "$D/two.job" >/dev/null
        run nobody apply "$D/one.job"
        echo "$output"
        [ "$status" -eq 1 ]
        [[ $output = *"somebody else's"* ]]
        run nobody apply "$D/two.job"
        echo "$output"
        [ "$status" -eq 1 ]
        [[ $output = *"belongs to user 0"* ]]
        printf '[Job]\nName=planned\n[Ranks]\nCount=1\n' >"$D/planned.job"
        run nobody apply "$D/planned.job"
        [[ $output = *"has no process"* ]]
        for job in one ""; do
                run nobody revert $job
                echo "$output"
                [ "$status" -eq 1 ]
                [[ $output = *"needs authority"* ]]
        done
        run as_nobody busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" call org.qsched1 /org/qsched1 org.qsched1.Manager Reload
        [ "$status" -ne 0 ]
        [ "$(masks "$last")" = "$mask" ]
        [ "$(status | jq '.jobs | length')" = 1 ]
}

@test "another user places own processes, inside their own masks, and takes that back" {
        need_root
        need_cpus 2
        need taskset
        start_qschedd
        for cpu in 0-1 1; do
                nobody_worker taskset -c $cpu
        done
        job_file mine "${workers[@]}"
        nobody apply "$D/mine.job"
        [ "$(masks "${workers[1]}")" = 1 ]
        [ "$(masks "${workers[0]}")" = 0 ]
        [ "$(status | jq -r '.jobs[0].confined')" = true ]
        # alone now, the first may have all it had before, and no more
        job_file mine "${workers[0]}"
        sed -i 's/^CPUs=1/CPUs=2/' "$D/mine.job"
        nobody apply "$D/mine.job"
        [ "$(masks "${workers[0]}")" = 0-1 ]
        [ "$(masks "${workers[1]}")" = 1 ]
        job_file mine "${workers[@]}"
        nobody apply "$D/mine.job"
        job_file other $$
        run nobody apply "$D/other.job"
        [ "$status" -eq 1 ]
        stop_qschedd KILL
        start_qschedd
        [ "$(status | jq -r '.jobs[0] | "\(.confined) \(.uid)"')" = "true 65534" ]
        sleep 1
        [ "$(masks "${workers[1]}")" = 1 ]
        nobody revert mine
        [ "$(masks "${workers[1]}")" = 1 ]
        [ "$(masks "${workers[0]}")" = 0-1 ]
        [ "$(status | jq '.jobs | length')" = 0 ]
}

@test "what a user applied never moves what root applied" {
        need_root
        need_cpus 2
        start_qschedd
        two_placed
        placed=$last
        mask=$(masks "$placed")
        nobody_worker env
        pid=$last
        job_file mine "$pid"
        nobody apply "$D/mine.job"
        sleep 1
        [ "$(masks "$placed")" = "$mask" ]
        call Revert s ""
        [ "$(masks "$pid")" = "$(all_cpus)" ]
}

@test "a job of another user takes only that user's processes, however wide its Match= is, and is not planned for ever" {
        need_root
        need_cpus 2
        comm=qsw$RANDOM # a wide match must not meet the workers of somebody else's run
        printf '[Daemon]\nInterval=300ms\nLogLevel=debug\n[Placement]\nHoldOff=0\nHousekeepingCores=0\n' >"$D/qschedd.conf"
        start_qschedd
        worker --threads=1 --name=$comm # root's, and older
        roots=$last
        nobody_worker env
        theirs=$last
        printf '[Job]\nName=mine\n[Ranks]\nCPUs=1\nMatch=comm:%s\n' $comm >"$D/mine.job"
        nobody apply "$D/mine.job"
        [[ $(masks "$theirs") =~ ^[0-9]+$ ]]
        [ "$(masks "$roots")" = "$(all_cpus)" ]
        worker --threads=1 --name=$comm # one more of root's is no reason to plan again
        n=$(grep -c 'are planned again' "$D/qschedd.log" || true)
        sleep 1.5
        [ "$(grep -c 'are planned again' "$D/qschedd.log" || true)" = "$n" ]
        [ "$(masks "$last")" = "$(all_cpus)" ]
        # now root's job takes all of them
        apply "$(printf '[Job]\nName=all\n[Ranks]\nCount=3\nCPUs=1\nMatch=comm:%s\n' $comm)" >/dev/null
        wait_until 5 eval "[[ \$(masks $roots) =~ ^[0-9]+\$ ]]"
        sleep 1
        n=$(grep -c 'are planned again' "$D/qschedd.log")
        mask=$(masks "$theirs")
        sleep 2
        [ "$(grep -c 'are planned again' "$D/qschedd.log")" -le $((n + 1)) ]
        [ "$(masks "$theirs")" = "$mask" ]
        [ "$(status | jq -r ".tasks[] | select(.pid == $theirs) | .job")" = all ]
        call Revert s all >/dev/null
        wait_until 5 eval "[[ \$(masks $theirs) =~ ^[0-9]+\$ ]]"
        [ "$(masks "$roots")" = "$(all_cpus)" ]
}

@test "plans that a user asks for one after another keep neither the tick nor root waiting" {
        need_root
        need_cpus 2
        printf '[Solver]\nBudget=1s\n' >>"$D/qschedd.conf"
        start_qschedd
        two_placed
        printf '[Job]\nName=slow\n[Ranks]\nCount=100\n' >"$D/slow.job"
        for i in 1 2 3 4 5 6; do
                (while nobody plan --solver=sa --sweeps=10000000 "$D/slow.job"; do :; done) >/dev/null 2>&1 3>&- &
                pids+=($!)
        done
        wait_until 5 eval '[ "$(status | jq .queued)" -ge 4 ]'
        ticks=$(status | jq .ticks)
        worker --threads=1
        SECONDS=0
        apply "$(job two "$last")" >/dev/null
        [ "$SECONDS" -le 4 ] # what is being solved, and its own; the six in front would take more
        sleep 2
        [ "$(status | jq .ticks)" -ge $((ticks + 4)) ]
}

@test "polkit is asked where there is one, and its word counts" {
        need_root
        start_qschedd
        worker --threads=1
        job_file one "$last"
        "$build/tests/helpers/fake-polkit" org.qsched1.apply 3>&- &
        pids+=($!)
        wait_until 5 bus_has org.freedesktop.PolicyKit1
        nobody apply "$D/one.job" >/dev/null
        [ "$(status | jq -r '.jobs[0].confined')" = false ]
        run nobody revert one
        echo "$output"
        [ "$status" -eq 1 ]
        [[ $output = *"polkit does not allow org.qsched1.revert"* ]]
        call Revert s one
}

# --- run ---------------------------------------------------------------------------------------------------------

@test "run places its process before it starts the command; the job ends with it" {
        [ -x "$build/qschedctl" ] || skip "qschedctl is not built"
        start_qschedd
        qschedctl run --name=mine --cpus=1 -- "$build/tests/helpers/worker" --threads=2 >"$D/run.log" 2>&1 3>&- &
        pid=$!
        pids+=("$pid")
        wait_until 10 eval "[[ \$(readlink /proc/$pid/exe) = */worker ]]"
        sleep 0.5
        cat "$D/run.log"
        [[ $(masks "$pid") =~ ^[0-9]+$ ]]
        [ "$(status | jq -r '.jobs[0] | "\(.name) \(.run) \(.matched)"')" = "mine true 1" ]
        stop_qschedd KILL
        start_qschedd
        [ "$(status | jq -r '.jobs[0] | "\(.name) \(.run) \(.matched)"')" = "mine true 1" ]
        kill "$pid"
        wait "$pid" || true
        wait_until 5 eval '[ "$(status | jq ".jobs | length")" = 0 ]'
        [ ! -e "$D/state/jobs/mine.job" ]
}

@test "run fills the ranks of an applied job, one after the other, and no more than there are" {
        need_cpus 2
        start_qschedd
        printf '[Job]\nName=team\n[Ranks]\nCount=2\nCPUs=1\n' >"$D/team.job"
        qschedctl apply "$D/team.job"
        for i in 1 2; do
                qschedctl run --job="$D/team.job" -- "$build/tests/helpers/worker" --threads=2 >>"$D/run.log" 2>&1 3>&- &
                last=$!
                pids+=("$last")
                workers+=("$last")
                wait_until 10 eval "[[ \$(readlink /proc/$last/exe) = */worker ]]"
        done
        cat "$D/run.log"
        [ "$(masks "${workers[0]}")" != "$(masks "${workers[1]}")" ]
        [ "$(status | jq -r '.jobs[0] | "\(.name) \(.run) \(.matched)"')" = "team false 2" ]
        run qschedctl run --job="$D/team.job" -- touch "$D/started"
        echo "$output"
        [ "$status" -eq 1 ]
        [ ! -e "$D/started" ]
        [[ $output = *"no free rank"* ]]
        kill "$last"
        wait "$last" || true
        wait_until 5 eval '[ "$(status | jq ".jobs[0].matched")" = 1 ]'
        call Revert s team
}

@test "another user runs a command inside their own mask and group" {
        need_root
        need_cpus 2
        need taskset
        start_qschedd
        as_nobody true
        setpriv --reuid=65534 --regid=65534 --clear-groups taskset -c 1 "$build/qschedctl" run --name=mine --cpus=1 -- \
                "$build/tests/helpers/worker" --threads=2 >"$D/run.log" 2>&1 3>&- &
        last=$!
        pids+=("$last")
        wait_until 10 eval "[[ \$(readlink /proc/$last/exe) = */worker ]]"
        cat "$D/run.log"
        [ "$(masks "$last")" = 1 ]
        diff <(grep -v qsched /proc/$$/cgroup) "/proc/$last/cgroup"
        [ "$(status | jq -r '.jobs[0] | "\(.confined) \(.uid)"')" = "true 65534" ]
        kill "$last"
        wait "$last" || true
        wait_until 5 eval '[ "$(status | jq ".jobs | length")" = 0 ]'
}

@test "run of what does not fit starts nothing" {
        [ -x "$build/qschedctl" ] || skip "qschedctl is not built"
        start_qschedd
        run qschedctl run --device=ascend:3 -- touch "$D/started"
        echo "$status $output"
        [ "$status" -eq 4 ]
        [ ! -e "$D/started" ]
        [ "$(status | jq '.jobs | length')" = 0 ]
}

# --- much --------------------------------------------------------------------------------------------------------

@test "texts of more than 64 KiB are refused, callers that vanish and floods do no harm" {
        printf '[Solver]\nBudget=20ms\n' >>"$D/qschedd.conf"
        start_qschedd
        "$build/tests/helpers/bus-flood" >"$D/flood"
        cat "$D/flood"
        grep -q '^big: .*at most 65536' "$D/flood"
        grep -q '^busy: .*wait for the solver already' "$D/flood"
        grep -q '^served: [1-9]' "$D/flood"
        run grep 'timed out' "$D/flood"
        [ "$status" -eq 1 ]
        idle() { call GetStatus | jq -e '.state == "idle" and .queued == 0'; }
        wait_until 60 idle
        ticks=$(cut -d' ' -f14 "/proc/$qschedd/stat")
        sleep 2
        [ $(($(cut -d' ' -f14 "/proc/$qschedd/stat") - ticks)) -lt 100 ] # of 200: it does not spin
}
