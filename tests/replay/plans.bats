#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Every recorded machine, planned offline for 1, 4, 8 and 16 ranks with and without devices: the plan is valid by the
# machine's own account (qschedctl topology --json), disjoint while there are CPUs enough, or refused with exit code 4.

setup_file() {
        export DATA=$TOP_SRCDIR/tests/data CTL=$TOP_BUILDDIR/qschedctl
        export MACHINES=$BATS_FILE_TMPDIR/machines
        mkdir -p "$MACHINES"
        for f in "$DATA"/machines/*.tar.bz2; do
                mkdir "$MACHINES/$(basename "$f" .tar.bz2)"
                tar -xjf "$f" -C "$MACHINES/$(basename "$f" .tar.bz2)"
        done
        for n in 1 4 8 16; do
                printf '[Ranks]\nCount=%d\n' $n >"$BATS_FILE_TMPDIR/none-$n.job"
                printf '[Ranks]\nCount=%d\nDevice=ascend:1\n' $n >"$BATS_FILE_TMPDIR/device-$n.job"
        done
        for i in {0..15}; do
                printf '[Device npu%d]\nKind=ascend\nMemory=64G\n\n' $i
        done >"$BATS_FILE_TMPDIR/16.devices"
}

# Paths that --machine takes.
machines() {
        local m
        for m in "$MACHINES"/*/; do
                [ -d "$m/sys" ] && echo "$m" || echo "$m"*/
        done
        echo "$DATA"/machines/*.xml "$DATA"/a3.xml
}

# Reads a plan and the machine it is for; prints what is wrong, nothing when all is well.
check='
def cpus: if . == "" then [] else split(",") | map(split("-") | map(tonumber) | if length == 2 then [range(.[0]; .[1] + 1)] else . end) | add end;
$machine[0] as $m
| ($m.allowed | cpus) as $allowed
| [$m.nodes[] | select(.memory > 0) | .node] as $memory
| [.tasks[].cpus | cpus] as $sets
| ($sets | add) as $all
| (.tasks | length) as $ranks
| (if .feasible then empty else "not feasible: \(.messages)" end),
  (if $ranks == $want then empty else "\($ranks) tasks" end),
  (.tasks[] | select(.cpus == "") | "\(.name) has no CPU"),
  ($all - $allowed | select(length > 0) | "not allowed: \(.)"),
  (if ($all | length) == ($all | unique | length) or $want > ($allowed | length) then empty else "sets overlap" end),
  (if $want <= ($allowed | length) or any(.messages[]; test("share")) then empty else "shares and does not say so" end),
  ((.housekeeping | cpus) as $h | $all - ($all - $h) | select(length > 0) | "ranks on housekeeping CPUs \(.)"),
  (.tasks[] | (.mems | cpus) - $memory | select(length > 0) | "no memory on \(.)"),
  (.tasks[] | select(.mems == "") | "\(.name) has no memory node"),
  (if $devices then ([.tasks[].device[]] | if length == $want and (unique | length) == $want then empty else "devices \(.)" end) else empty end)
'

check_machine() { # machine devices? ranks
        local job=none devices=()
        if [ "$2" = true ]; then
                job=device
                devices=(--devices "$BATS_FILE_TMPDIR/16.devices")
        fi
        "$CTL" plan --machine "$1" "${devices[@]}" --sweeps=200 --json "$BATS_FILE_TMPDIR/$job-$3.job" >"$BATS_TEST_TMPDIR/plan"
        jq -r --slurpfile machine "$BATS_TEST_TMPDIR/machine" --argjson want "$3" --argjson devices "$2" "$check" "$BATS_TEST_TMPDIR/plan"
}

every_machine() { # devices?
        local machine ranks wrong bad=0 n=0
        for machine in $(machines); do
                "$CTL" topology --machine "$machine" --json >"$BATS_TEST_TMPDIR/machine"
                for ranks in 1 4 8 16; do
                        n=$((n + 1))
                        wrong=$(check_machine "$machine" "$1" $ranks) || wrong="$wrong (qschedctl or jq failed)"
                        [ -z "$wrong" ] && continue
                        echo "$machine, $ranks ranks: $wrong"
                        bad=1
                done
        done
        [ $n -ge 64 ] && [ $bad = 0 ]
}

@test "every recorded machine without devices" {
        every_machine false
}

@test "every recorded machine with sixteen devices nobody knows the place of" {
        every_machine true
}

@test "Kunpeng with two NPUs on each node: tensor-parallel groups stay in a socket, and auto costs what exact costs" {
        printf '[Ranks]\nCount=8\nDevice=ascend:1\n[Traffic]\nTP=4\nPP=2\nTPBytes=10G\nPPBytes=1G\n' >"$BATS_TEST_TMPDIR/tp.job"
        local machine
        machine=$(echo "$MACHINES"/128arm-2pa2n8cluster4co/*/)
        for solver in auto exact; do
                "$CTL" plan --machine "$machine" --devices "$DATA/kunpeng-8npu.devices" --solver=$solver --json \
                        "$BATS_TEST_TMPDIR/tp.job" >"$BATS_TEST_TMPDIR/$solver"
        done
        jq -e .proved "$BATS_TEST_TMPDIR/exact"
        [ "$(jq .energy.total "$BATS_TEST_TMPDIR/auto")" = "$(jq .energy.total "$BATS_TEST_TMPDIR/exact")" ]
        # Devices 0 to 3 are the first socket's; ranks 0 to 3 one tensor-parallel group.
        jq -e '[.tasks[].device[0] | ltrimstr("npu") | tonumber / 4 | floor] | (.[0:4] | unique | length == 1) and (.[4:8] | unique | length == 1)' "$BATS_TEST_TMPDIR/auto"
}

@test "an A3-like host with unknown places: even shares, two ranks on each of eight nodes" {
        "$CTL" plan --machine "$DATA/a3.xml" --devices "$DATA/a3.devices" --json "$BATS_FILE_TMPDIR/device-16.job" >"$BATS_TEST_TMPDIR/plan"
        jq -e '[.tasks[].mems] | group_by(.) | length == 8 and all(.[]; length == 2)' "$BATS_TEST_TMPDIR/plan"
        jq -e '[.tasks[].cpus | split(",") | map(split("-") | map(tonumber) | (.[1] // .[0]) - .[0] + 1) | add] | unique | length == 1' "$BATS_TEST_TMPDIR/plan"
}

@test "the same input, seed and sweeps give the same plan" {
        for i in 1 2; do
                "$CTL" plan --machine "$DATA/a3.xml" --devices "$DATA/a3.devices" --seed=5 --sweeps=300 --json "$BATS_FILE_TMPDIR/device-16.job" |
                        jq 'del(.elapsed_us)' >"$BATS_TEST_TMPDIR/$i"
        done
        cmp "$BATS_TEST_TMPDIR/1" "$BATS_TEST_TMPDIR/2"
}
