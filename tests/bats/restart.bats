#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Ends of all kinds and the start after them: placements stay or are put back, whole.

load helpers

setup() {
        setup_daemon
}

teardown() {
        teardown_all
}

# Two workers placed as job "one" ($last on $mask; all CPUs before: $before), then the daemon is killed.
killed_with_two_placed() {
        need_cpus 2
        start_qschedd
        before=$(all_cpus)
        two_placed
        mask=$(masks "$last")
        stop_qschedd KILL
}

# As it would be without the end of the order that applied job "one": its files under their temporary names.
order_has_no_end() {
        local file
        for file in job owner; do
                mv "$D/state/jobs/one.$file" "$D/state/jobs/one.$file.new"
        done
}

# That directory is small, and full ($D/DIRECTORY/fill) once the daemon runs with two workers to be placed; before that
# they have $before.
full() { # run|state
        need_root
        mount -t tmpfs -o size=16k tmpfs "$D/$1" 2>/dev/null || skip "mount is not permitted"
        start_qschedd
        worker --threads=1
        worker --threads=1
        before=$(masks "$last")
        dd if=/dev/zero of="$D/$1/fill" bs=1k 2>/dev/null || true
        printf x >>"$D/$1/fill" || true
}

# --- restart -----------------------------------------------------------------------------------------------------

@test "kill -9 and a new start: placements stay, jobs are known, revert still gives back" {
        killed_with_two_placed
        start_qschedd
        [ "$(masks "$last")" = "$mask" ]
        [ "$(status | jq -r '.jobs[0].name')" = one ]
        wait_until 5 eval '[ "$(status | jq ".jobs[0].matched")" = 2 ]'
        [ "$(apply "$(job one "${workers[@]}")" | written)" = 0 ]
        call Revert s ""
        [ "$(masks "$last")" = "$before" ]
}

@test "kill -9 between the changes of an order: a start undoes them, and the order is dropped" {
        killed_with_two_placed
        # no commit mark either
        sed -i '/"t":"commit"/d' "$D/run/undo.journal"
        order_has_no_end
        start_qschedd
        [ "$(masks "$last")" = "$before" ]
        [ "$(masks "${workers[0]}")" = "$before" ]
        sleep 1
        [ "$(masks "$last")" = "$before" ]
        [ "$(status | jq '.jobs | length')" = 0 ]
}

@test "kill -9 right after the commit of an order: a start puts its job in force, its placements stay" {
        killed_with_two_placed
        order_has_no_end
        start_qschedd
        [ "$(masks "$last")" = "$mask" ]
        [ "$(status | jq -r '.jobs[0].name')" = one ]
        [ -e "$D/state/jobs/one.job" ]
        call Revert s one
        [ "$(masks "$last")" = "$before" ]
}

@test "kill -9 between an order and putting back what its job names no more: a start puts that back" {
        need_cpus 2
        start_qschedd
        before=$(all_cpus)
        two_placed
        mask=$(masks "${workers[0]}")
        stop_qschedd KILL
        job one "${workers[0]}" >"$D/state/jobs/one.job" # as its successor says, which was committed
        start_qschedd
        wait_until 5 eval '[ "$(masks "$last")" = "$before" ]'
        [ "$(masks "${workers[0]}")" = "$mask" ]
        [ "$(status | jq -r '[.plan.tasks[].name] | join(" ")')" = one/0 ]
        grep -q "pid $last (worker) tids .* -> $before (re-plan)" "$D/qschedd.log"
        call Revert s one
        [ "$(masks "${workers[0]}")" = "$before" ]
}

@test "kill -9 while a revert is under way: a start ends it, and the job does not come back" {
        killed_with_two_placed
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
        killed_with_two_placed
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
        full state
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
        full run
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
