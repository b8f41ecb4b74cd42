#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Placing: plan, apply, explain, run, and orders that come while the solver works. What is asserted of placements
# is what /proc says.

load helpers

setup() {
        setup_daemon
}

teardown() {
        teardown_all
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

@test "a rank of a pid that has ended takes no CPUs any more; the job stays, empty, when all have" {
        need_cpus 2
        start_qschedd
        worker --threads=1
        worker --threads=1
        apply "$(job one "${workers[@]}" | sed /CPUs=/d)"
        [ "$(masks "${workers[0]}")" != "$(all_cpus)" ]
        kill "${workers[1]}"
        wait_until 10 eval '[ "$(masks "${workers[0]}")" = "$(all_cpus)" ]'
        [ "$(status | jq -r '[.plan.tasks[].name] | join(" ")')" = one/0 ]
        kill "${workers[0]}"
        wait_until 10 eval '[ "$(status | jq -r ".plan.tasks | length")" = 0 ]'
        [ "$(status | jq -r '.jobs[].name')" = one ]
        worker --threads=1
        apply "$(job two "$last" | sed /CPUs=/d)"
        [ "$(masks "$last")" = "$(all_cpus)" ]
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

alone() { # pid...: one CPU each, and no two the same
        local p
        for p in "$@"; do
                [[ $(masks "$p") =~ ^[0-9]+$ ]] || return 1
        done
        [ "$(for p in "$@"; do masks "$p"; done | sort -u | wc -l)" = $# ]
}

# One job more than there are CPUs, of one rank each; the first, which is reverted, is the one given.
sharers() { # job text
        local i n
        n=$(cpus_online)
        [ "$n" -le 8 ] || skip "has more than 8 CPUs"
        apply "$1" >"$D/plan"
        for ((i = 1; i <= n; i++)); do
                worker --threads=1
                sharing+=("$last")
                apply "$(job "sharer$i" "$last" | sed /CPUs=/d)" >"$D/plan"
        done
        jq -r '.messages[]' "$D/plan" | grep "$((n + 1)) ranks share $n CPUs"
        ! alone "${sharing[@]}" || false
        call Revert s "$(sed -n 's/^Name=//p' <<<"$1")"
        wait_until 5 alone "${sharing[@]}"
}

@test "a job is reverted: ranks that shared CPUs with it have their own" {
        need_cpus 2
        start_qschedd
        worker --threads=1
        sharers "$(job first "$last" | sed /CPUs=/d)"
}

@test "a job that no process had come for is reverted: ranks that shared CPUs with it have their own" {
        need_cpus 2
        start_qschedd
        sharers "$(printf '[Job]\nName=first\n[Ranks]\nCount=1\n')"
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
        wait_until 5 grep -q 'changed by somebody' "$D/qschedd.log"
        sleep 1
        [ "$(grep -c 'changed by somebody.*left alone' "$D/qschedd.log")" = 1 ]
        [ "$(status | jq -r '.drift[0].found')" = "$other" ]
        wait_until 5 grep -q "Member=Drift" "$D/signals"
        [ "$(masks "$last")" = "$other" ]
        call Revert s one
        [ "$(masks "$last")" = "$other" ]
}

# --- while the solver works -------------------------------------------------------------------------------------

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

@test "qschedd is no rank, nor goes along with the process that started it" {
        need_cpus 2
        start_qschedd
        worker
        local all
        all=$(masks "$qschedd")
        apply "$(job self "$qschedd" "$last")" >"$D/applied"
        [[ $(masks "$last") =~ ^[0-9]+$ ]]
        [ "$(masks "$qschedd")" = "$all" ]
        apply "$(job starter $$ "$last")" >"$D/applied"
        [ "$(masks "$qschedd")" = "$all" ]
        call Revert s "" >"$D/reverted"
        [ "$(masks "$qschedd")" = "$all" ]
}
