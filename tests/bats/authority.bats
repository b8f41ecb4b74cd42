#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Who may place what: users without authority, polkit.

load helpers

setup() {
        setup_daemon
}

teardown() {
        teardown_all
}

# --- authority ---------------------------------------------------------------------------------------------------

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
