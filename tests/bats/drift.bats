#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Somebody else changes what qschedd has set: one thread, all of them, the process itself, a group of ours; under each
# Drift=. What is asserted of masks is what /proc and the cpuset say.

load helpers

setup() {
        setup_daemon
        need_cpus 2
        need taskset
        root=/sys/fs/cgroup/cpuset
}

teardown() {
        teardown_all
}

policy() { # report|reassert|yield
        printf '[Enforce]\nDrift=%s\n' "$1" >>"$D/qschedd.conf"
}

# Job "one" with $a and $b, each on a CPU of its own ($on_a, $on_b).
placed() {
        start_qschedd
        listen
        two_placed
        a=${workers[0]} b=$last
        on_a=$(masks "$a") on_b=$(masks "$b")
        job_file one "$a" "$b"
}

told() { # how often
        grep -c 'changed by' "$D/qschedd.log" | grep -qx "$1"
}

signals() {
        grep -c 'Member=Drift' "$D/signals"
}

some_ticks() { # of 300 ms
        local now
        now=$(status | jq .ticks)
        wait_until 10 eval "[ \$(status | jq .ticks) -ge $((now + ${1:-3})) ]"
}

mask_of() { # tid
        sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$1/status"
}

is_on() { # pid cpus
        [ "$(masks "$1")" = "$2" ]
}

drift() { # jq filter of its entries
        status | jq -r ".drift[] | $1"
}

object() { # pid property
        busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" get-property org.qsched1 "/org/qsched1/task/$1" org.qsched1.Task "$2"
}

# The last thread of $b is $tid, and goes to $on_a by hand.
one_thread_moved() {
        tid=$(find "/proc/$b/task" -mindepth 1 -maxdepth 1 -printf '%f\n' | sort -n | tail -n 1)
        taskset -p -c "$on_a" "$tid"
}

revert_leaves_it() { # … where it is, and puts the others back
        call Revert s one >/dev/null
        [ "$(mask_of "$tid")" = "$on_a" ]
        [ "$(mask_of "$b")" = "$(all_cpus)" ]
}

fixed() { # rank
        [ "$(status | jq --arg n "$1" '.plan.tasks[] | select(.name == $n) | .fixed')" = true ]
}

@test "report: one thread; told once with one signal, left alone; told again only after it was right in between" {
        policy report
        placed
        one_thread_moved
        wait_until 5 told 1
        some_ticks
        told 1
        [ "$(signals)" = 1 ]
        grep -q "pid $b tid $tid (worker) has CPUs $on_a, not $on_b as placed: changed by somebody with the right to: the process itself, or a tool such as taskset; left alone" "$D/qschedd.log"
        [ "$(drift '"\(.pid) \(.tid) \(.expected) \(.found) \(.done)"')" = "$b $tid $on_b $on_a left" ]
        [ "$(call Explain s one | jq -c '[.tasks[] | [.pid, (.drift | length)]] | sort')" = "$(jq -cn "[[$a, 0], [$b, 1]] | sort")" ]
        "$build/qschedctl" explain one | grep -q "pid $b: changed by somebody with the right to"
        [ "$(object "$b" Drift) $(object "$a" Drift)" = 's "left" s ""' ]
        [[ $(object "$b" DriftAuthor) = *'such as taskset"' ]]
        taskset -p -c "$on_b" "$tid"
        wait_until 5 eval '[ "$(status | jq ".drift | length")" = 0 ]'
        taskset -p -c "$on_a" "$tid"
        wait_until 5 told 2
        [ "$(signals)" = 2 ]
        revert_leaves_it
}

@test "report: a process whose name is no text is shown all the same" {
        policy report
        start_qschedd
        worker --name=$'w\377'
        apply "$(job one "$last")" >/dev/null
        LC_ALL=C grep -q $'w\377' "/proc/$last/comm"
        other=$(($(masks "$last" | grep -o '^[0-9]*') == 0))
        taskset -a -p -c "$other" "$last"
        wait_until 5 told 1
        [ "$(drift .comm)" = 'w?' ]
}

@test "report: all threads; one line for the process, a signal for each; another order tells nothing anew" {
        policy report
        placed
        taskset -a -p -c "$on_a" "$b"
        wait_until 5 told 1
        grep -q "pid $b: 2 of its threads have other CPUs than placed (tid $b (worker) has $on_a, not $on_b)" "$D/qschedd.log"
        [ "$(signals)" = 2 ]
        worker
        apply "$(job other "$last")" >/dev/null
        call Revert s other >/dev/null
        some_ticks
        told 1
        [ "$(signals)" = 2 ]
        is_on "$b" "$on_a"
        call Revert s one >/dev/null
        is_on "$b" "$on_a"
        is_on "$a" "$(all_cpus)"
}

# The start plans by what is there, so what is theirs may be as planned then.
@test "report: a restart of the daemon leaves it alone too" {
        policy report
        placed
        taskset -a -p -c "$on_a" "$b"
        wait_until 5 told 1
        stop_qschedd KILL
        start_qschedd
        some_ticks 5
        is_on "$b" "$on_a"
        call Revert s one >/dev/null
        is_on "$b" "$on_a"
}

@test "reassert: written again, told once; a revert gives back what was before us" {
        policy reassert
        placed
        taskset -a -p -c "$on_a" "$b"
        wait_until 5 is_on "$b" "$on_b"
        told 1
        grep -q "changed by .*; written again (Drift=reassert)" "$D/qschedd.log"
        some_ticks
        told 1
        is_on "$b" "$on_b"
        [ "$(status | jq '.drift | length')" = 0 ]
        call Revert s one >/dev/null
        is_on "$b" "$(all_cpus)"
}

# Undoes each tick's work at once.
fight() { # pid cpus
        while sleep 0.03; do taskset -a -p -c "$2" "$1"; done >/dev/null 2>&1 3>&- &
        fighter=$!
        pids+=("$fighter")
}

@test "reassert: three times in a row, then left alone with a sentence; again once it was right in between" {
        policy reassert
        placed
        fight "$b" "$on_a"
        wait_until 10 eval '[ "$(drift .done | sort -u)" = given-up ]'
        grep -q "written again three times in a row, and changed again each time: left alone now" "$D/qschedd.log"
        told 2
        some_ticks
        told 2
        [ "$(grep -c "pid $b .*cpus $on_a -> $on_b (late)" "$D/qschedd.log")" = 3 ]
        kill "$fighter"
        wait "$fighter" || true
        # the fighter's last taskset may still be on its way
        wait_until 5 eval 'taskset -a -p -c "$on_b" "$b" && [ "$(status | jq ".drift | length")" = 0 ]'
        taskset -a -p -c "$on_a" "$b"
        wait_until 5 is_on "$b" "$on_b"
}

@test "reassert: a restart of the daemon in between, and the mask is ours again" {
        policy reassert
        placed
        stop_qschedd KILL
        taskset -a -p -c "$on_a" "$b"
        start_qschedd
        wait_until 5 is_on "$b" "$on_b"
        call Revert s one >/dev/null
        is_on "$b" "$(all_cpus)"
}

@test "yield: theirs; planned as fixed, others around it; a revert does not touch it" {
        policy yield
        placed
        taskset -a -p -c "$on_a" "$b"
        wait_until 5 fixed one/1
        told 1
        grep -q "changed by .*; theirs from now on (Drift=yield), until the job is applied again" "$D/qschedd.log"
        wait_until 5 is_on "$a" "$on_b" # it had to go
        is_on "$b" "$on_a"
        some_ticks
        told 1
        [ "$(drift .done | sort -u)" = yielded ]
        [ "$(status | jq ".tasks[] | select(.pid == $b) | .fixed")" = true ]
        call Explain s one/1 | jq -r '.tasks[0].reasons[]' | grep "somebody else has set them"
        call Revert s one >/dev/null
        is_on "$b" "$on_a"
        is_on "$a" "$(all_cpus)"
        ! grep '"t":"yield"' "$D/run/undo.journal"
}

@test "yield: outlives a restart of the daemon; applying the job again takes it back" {
        policy yield
        placed
        taskset -a -p -c "$on_a" "$b"
        wait_until 5 is_on "$a" "$on_b"
        stop_qschedd KILL
        start_qschedd
        wait_until 5 fixed one/1
        some_ticks
        is_on "$b" "$on_a"
        is_on "$a" "$on_b"
        apply "$(job one "$a" "$b")" >"$D/again"
        [ "$(jq '.tasks[] | select(.name == "one/1") | .fixed' "$D/again")" = false ]
        [ "$(masks "$a")" != "$(masks "$b")" ]
        some_ticks
        ! fixed one/1 || false
        call Revert s one >/dev/null
        is_on "$a" "$(all_cpus)"
        is_on "$b" "$on_a" # that is what it had when it was placed the second time
}

@test "yield: one thread of several; a revert puts the others back" {
        policy yield
        placed
        one_thread_moved
        wait_until 5 fixed one/1
        some_ticks
        revert_leaves_it
}

@test "yield: ends with the process" {
        policy yield
        placed
        taskset -a -p -c "$on_a" "$b"
        wait_until 5 fixed one/1
        kill "$b"
        wait_until 5 grep '"t":"undone","pid":'"$b"',.*"yield":true' "$D/run/undo.journal"
        wait_until 5 eval '[ "$(status | jq ".drift | length")" = 0 ]'
}

# A worker that binds itself as soon as its job is applied.
binding() { # environment...
        start_qschedd
        env "$@" "$build/tests/helpers/worker" --threads=2 --name=drift-binder --bind=0:2 >"$D/out" 2>&1 3>&- &
        last=$!
        pids+=("$last")
        wait_until 5 grep -q ready "$D/out"
        apply "$(printf '[Job]\nName=self\n[Ranks]\nCount=1\nCPUs=1\nMatch=pid:%s\n' "$last")" >/dev/null
        mine=$(masks "$last")
        [ "$mine" != 0 ]
        wait_until 5 grep -q bound "$D/out"
}

# No rank is placed on CPU 0, so that what binds itself to it goes away from where it was placed.
zero_taken() {
        sed -i 's/HousekeepingCores=0/HousekeepingCPUs=0/' "$D/qschedd.conf"
}

@test "a framework binds itself: which, by its variable, and its off switch; no value of a variable is told" {
        policy report
        zero_taken
        binding CPU_AFFINITY_CONF=1,npu0:0-1,secret SOME_TOKEN=secret
        wait_until 5 told 1
        grep "changed by the process itself, probably: torch_npu pins its threads, since CPU_AFFINITY_CONF is set; left alone. Unset it, or CPU_AFFINITY_CONF=0 in what starts it turns that off" "$D/qschedd.log"
        ! grep secret "$D/qschedd.log" || false
        ! status | grep secret || false
        qschedctl status >"$D/status"
        cat "$D/status"
        grep -q torch_npu "$D/status"
        [ "$(awk '{ if (length($0) > n) n = length($0) } END { print n }' "$D/status")" -le 80 ]
}

@test "a framework that binds itself, reassert: it is ours again, since it does so once" {
        policy reassert
        zero_taken
        binding OMP_PROC_BIND=close
        wait_until 5 is_on "$last" "$mine"
        grep "OpenMP pins its threads, since OMP_PROC_BIND is set; written again" "$D/qschedd.log"
}

@test "a framework that binds itself, yield: planned where it is" {
        policy yield
        zero_taken
        binding KMP_AFFINITY=compact
        wait_until 5 fixed self/0
        is_on "$last" 0
}

# Job "in" with a process in a group of ours, on $mine; $group is its directory.
in_group() {
        need_root
        [ -w $root/cpuset.cpus ] || skip "no cpuset controller on the legacy hierarchy here"
        [ "$(cut -d: -f2,3 "/proc/$$/cgroup" | grep cpuset)" = cpuset:/ ] || skip "the tests run in a cpuset themselves"
        start_qschedd
        listen
        qschedctl run --name=in --cpus=1 -- "$build/tests/helpers/worker" --threads=2 --name=drift-inside >"$D/run.log" 2>&1 3>&- &
        pids+=($!)
        wait_until 5 pgrep -x drift-inside
        inside=$(pgrep -x drift-inside)
        pids+=("$inside")
        group=$root$(sed -n 's/^[0-9]*:cpuset://p' "/proc/$inside/cgroup")
        [[ $group = */qsched.slice/* ]]
        wait_until 5 eval '[[ $(masks "$inside") =~ ^[0-9]+$ ]]'
        mine=$(masks "$inside")
        [ "$(cat "$group/cpuset.cpus")" = "$mine" ]
        for theirs in 0 1; do [ "$theirs" = "$mine" ] || break; done
}

@test "the CPUs of a group of ours are rewritten, report: told once with its file, left alone" {
        policy report
        in_group
        echo "$theirs" >"$group/cpuset.cpus"
        wait_until 5 told 1
        grep "the CPUs of its group $group/cpuset.cpus are $theirs, not $mine: changed by somebody with the right to, who wrote the group's cpuset.cpus; left alone" "$D/qschedd.log"
        some_ticks
        told 1
        [ "$(signals)" = 1 ]
        [ "$(cat "$group/cpuset.cpus")" = "$theirs" ]
        is_on "$inside" "$theirs"
        [ "$(drift .path)" = "$group/cpuset.cpus" ]
}

@test "the CPUs of a group of ours are rewritten, reassert: as placed again, masks too, also after a restart" {
        policy reassert
        in_group
        echo "$theirs" >"$group/cpuset.cpus"
        wait_until 5 eval '[ "$(cat "$group/cpuset.cpus")" = "$mine" ]'
        wait_until 5 is_on "$inside" "$mine"
        told 1
        stop_qschedd KILL
        echo "$theirs" >"$group/cpuset.cpus"
        start_qschedd
        wait_until 5 eval '[ "$(cat "$group/cpuset.cpus")" = "$mine" ]'
        wait_until 5 is_on "$inside" "$mine"
}

@test "the CPUs of a group of ours are rewritten, yield: theirs, planned as fixed" {
        policy yield
        in_group
        echo "$theirs" >"$group/cpuset.cpus"
        wait_until 5 fixed in/0
        some_ticks
        [ "$(cat "$group/cpuset.cpus")" = "$theirs" ]
        is_on "$inside" "$theirs"
        told 1
}
