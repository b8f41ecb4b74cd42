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
