#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# qschedctl as its user sees it without a daemon: offline plans on recorded machines, pictures, exit codes, bad input of
# every kind, output that nobody takes.

# shellcheck disable=SC2154,SC2016 # helpers set last; what is written for another shell
bats_require_minimum_version 1.5.0
load helpers
load ctl-helpers

# --- offline plans -----------------------------------------------------------------------------------------------

@test "plan of a recorded Kunpeng host: one JSON object with what is promised" {
        kunpeng
        run -0 qschedctl plan "${K[@]}" "$D/train.job" --json
        jq -e 'type == "object" and .feasible == true and .changed == true and .energy_before == null
               and (.energy.total | type) == "number" and (.energy.terms | type) == "object"
               and (.solver | type) == "string" and .seed == 1 and (.elapsed_us | type) == "number"
               and has("lower_bound") and (.proved | type) == "boolean" and (.messages | type) == "array"
               and .housekeeping == "0,32,64,96" and (.tasks | length) == 8' <<<"$output"
        jq -e '.tasks | all(.device | length == 1) and all(.name | startswith("train/"))
               and all(has("cpus") and has("mems") and has("irq_cpus"))' <<<"$output"
        [ "$(jq -r '.tasks[].cpus' <<<"$output" | expand | sort -n | uniq -d)" = "" ]
        [ "$(jq -r '.tasks[].cpus' <<<"$output" | expand | wc -l)" -eq 96 ]
        [ "$(jq -r '.tasks[].device[]' <<<"$output" | sort -u | wc -l)" -eq 8 ]
}

@test "a seed and a number of sweeps give the same plan again; the options are used" {
        kunpeng
        for _ in 1 2; do
                qschedctl plan "${K[@]}" "$D/train.job" --json --solver=sa --seed=7 --sweeps=50 | jq -S 'del(.elapsed_us)'
        done >"$D/plans"
        [ "$(jq -s '.[0] == .[1] and .[0].seed == 7 and .[0].solver == "sa"' "$D/plans")" = true ]
}

@test "a long solve says so, and ends with the best plan so far when interrupted" {
        ranks 64 >"$D/r64.job"
        long=(qschedctl plan --machine "$data/a3.xml" --solver=exact "$D/r64.job")
        timeout --preserve-status -s INT 12 "${long[@]}" --json >"$D/out" 2>"$D/err"
        cat "$D/err"
        jq -e '.feasible and .proved == false and (.tasks | length) == 64 and .elapsed_us > 11e6' "$D/out"
        grep -qx 'qschedctl: Still solving after 10 s; SIGINT (Ctrl-C) ends it with the best plan so far.' "$D/err"
        grep -q '^qschedctl: Stopped: ' "$D/err"
        [ "$(wc -l <"$D/err")" -eq 2 ]
        need script
        NO_COLOR=1 run -0 script -qec "timeout --foreground --preserve-status -s INT 5 ${long[*]}" /dev/null </dev/null
        [[ $output == *"Solving, 3 s; Ctrl-C ends it"* && $output == *"feasible: 64 tasks"* ]]
        ranks 4 >"$D/r4.job"
        qschedctl plan --machine "$data/a3.xml" "$D/r4.job" >/dev/null 2>"$D/err"
        [ ! -s "$D/err" ] # nothing is said of a short one
}

@test "every recorded machine: a plan or exit code 4, valid JSON, text and picture within 80 columns" {
        for n in 4 16; do ranks $n >"$D/r$n.job"; done
        for file in "$data"/machines/*.{xml,tar.bz2}; do
                name=${file##*/}
                name=${name%.tar.bz2}
                m=$(machine "${name%.xml}")
                echo "$name: $m"
                for n in 4 16; do
                        run qschedctl plan --machine "$m" "$D/r$n.job" --json
                        [ "$status" -eq 0 ] || [ "$status" -eq 4 ]
                        [ "$(jq -r .feasible <<<"$output")" = "$([ "$status" -eq 0 ] && echo true || echo false)" ]
                done
                run -0 qschedctl topology --machine "$m" "$D/r4.job"
                narrow
                run -0 qschedctl topology --machine "$m" --json
                jq -e '(.cpus | length) > 0 and (.nodes | length) > 0' <<<"$output" >/dev/null
                run -0 qschedctl devices --machine "$m" --json
                jq -e 'type == "array"' <<<"$output" >/dev/null
        done
}

@test "plan without --json: a table, the terms, the bound" {
        kunpeng
        run -0 qschedctl plan "${K[@]}" "$D/train.job"
        [[ $output == *"TASK"*"DEVICE"*"CPUS"*"train/7"*"ENERGY"*"traffic"*"total"* ]]
        [[ $output == *"proved optimal"* || $output == *"gap "* ]]
        [[ $output != *"node 0"* ]] # no terminal, no picture
        narrow
        [ "$(grep -c ' $' <<<"$output")" -eq 0 ]
}

@test "the picture: each CPU once, the rank's sign on its CPUs, boxes in ASCII outside of UTF-8" {
        kunpeng
        run -0 qschedctl plan "${K[@]}" --picture "$D/train.job"
        narrow
        [[ $output == *"╭─ package 0 ─"* && $output == *"node 3"* && $output == *"h housekeeping"* ]]
        cells=$(grep -E '^│ │ +[0-9]' <<<"$output" | sed 's/[0-9]*-[0-9]* / /g' | tr -cd '0-7h·')
        [ "${#cells}" -eq 128 ]
        [ "$(tr -cd 3 <<<"$cells" | wc -c)" -eq 12 ]
        [ "$(tr -cd h <<<"$cells" | wc -c)" -eq 4 ]
        LC_ALL=C run -0 qschedctl plan "${K[@]}" --picture "$D/train.job"
        LC_ALL=C run -1 grep -n '[^ -~]' <<<"$output"
        LC_ALL=C run -0 qschedctl plan "${K[@]}" --picture "$D/train.job"
        [[ $output == *"+- package 0 -"* ]]
}

@test "the picture of 640 CPUs in 8 nodes fits 80 columns" {
        ranks 16 >"$D/a.job"
        echo Device=ascend:1 >>"$D/a.job"
        run -0 qschedctl topology --machine "$data/a3.xml" --devices "$data/a3.devices" "$D/a.job"
        narrow
        [ "$(grep -o 'node [0-9] · ' <<<"$output" | wc -l)" -eq 8 ]
        [[ $output == *"unknown"*"npu15"* ]]
        run -0 qschedctl plan --machine "$data/a3.xml" --devices "$data/a3.devices" "$D/a.job"
        narrow
        [[ $output == *"housekeeping CPUs 0"* ]]
}

@test "infeasible: exit code 4, feasible false, a sentence with the numbers" {
        kunpeng
        printf '[Ranks]\nCount=1\nMinCPUs=500\n' >"$D/big.job"
        run -4 qschedctl plan "${K[@]}" "$D/big.job" --json
        jq -e '.feasible == false and (.messages | length) > 0 and (.messages | join(" ") | test("500"))' <<<"$output"
        run -4 qschedctl plan "${K[@]}" "$D/big.job"
        [[ $output == infeasible* && $output == *500* ]]
        run -4 qschedctl explain "${K[@]}" "$D/big.job" big/0 --json
}

@test "two jobs in one plan; two of one name are an error" {
        kunpeng
        ranks 4 >"$D/other.job"
        run -0 qschedctl plan "${K[@]}" "$D/train.job" "$D/other.job" --json
        [ "$(jq '.tasks | length' <<<"$output")" -eq 12 ]
        [ "$(jq -r '.tasks[].cpus' <<<"$output" | expand | sort -n | uniq -d)" = "" ]
        cp "$D/train.job" "$D/again.job"
        fails 1 qschedctl plan "${K[@]}" "$D/train.job" "$D/again.job"
}

@test "a matrix is read from beside its job file" {
        kunpeng
        mkdir "$D/sub"
        printf '0 1e9\n1e9 0\n' >"$D/sub/m.txt"
        printf '[Ranks]\nCount=2\nDevice=ascend:1\n[Traffic]\nMatrix=m.txt\n' >"$D/sub/two.job"
        run -0 qschedctl plan "${K[@]}" "$D/sub/two.job" --json
        [ "$(jq '.energy.terms.traffic > 0' <<<"$output")" = true ]
        rm "$D/sub/m.txt"
        fails 1 qschedctl plan "${K[@]}" "$D/sub/two.job"
}

@test "explain: terms that add up, reasons; what is not there is an error" {
        kunpeng
        run -0 qschedctl explain "${K[@]}" "$D/train.job" train/3 --json
        jq -e '(.tasks | length) == 1 and .tasks[0].name == "train/3" and (.tasks[0].reasons | length) > 0
               and (.terms | length) > 10 and .weights.alpha == 1
               and ((.tasks[0].energy | (.terms | add) - .total) | fabs) < 1e-3' <<<"$output"
        run -0 qschedctl explain "${K[@]}" "$D/train.job" train --json
        [ "$(jq '.tasks | length' <<<"$output")" -eq 8 ]
        run -0 qschedctl explain "${K[@]}" "$D/train.job" train/3
        [[ $output == "train/3 on npu"*"traffic"*"in total"* ]]
        narrow
        fails 1 qschedctl explain "${K[@]}" "$D/train.job" train/9
        fails 1 qschedctl explain "${K[@]}" x
}

record() { # a record of two CPUs nodes with a device and two tasks, from an XML
        jq -n --rawfile xml "$data/machines/24em64t-2n6c2t-pci.xml" '{format: "qsched-record-1", machine: {xml: $xml},
                devices: [{name: "npu0", kind: "ascend", numa_node: 1, memory: 68719476736}], links: [],
                tasks: [{pid: 4711, start_time: 5, name: "train/0", job: "train", comm: "python3", devices: ["npu0"],
                         cpus: "0,2,4", allowed_cpus: "0-23", mems: "0-1", threads: 3, cpu_use: 1.5},
                        {pid: 4712, start_time: 6, name: "other\u001b[31m", comm: "evil\u001b[2J", devices: [],
                         cpus: "1", allowed_cpus: "0-23", mems: "0-1", threads: 1}]}'
}

@test "explain of a running process tells on which nodes its memory is" {
        [ -r /proc/self/numa_maps ] || skip "this kernel has no numa_maps"
        worker --threads=1
        printf '[Device npu0]\nKind=ascend\nNUMANode=0\n' >"$D/one.devices"
        printf '[Job]\nName=t\n[Ranks]\nMatch=pid:%d\n' "$last" >"$D/t.job"
        run -0 qschedctl explain --devices "$D/one.devices" "$D/t.job" t/0 --json
        jq -e --argjson pid "$last" '.tasks[0].pid == $pid and .tasks[0].memory_complete
               and ([.tasks[0].memory_by_node[]] | add) > 100000' <<<"$output"
        run -0 qschedctl explain --devices "$D/one.devices" "$D/t.job" t/0
        grep -Eq '^  has [0-9.]+ [KM]iB on node [0-9]+' <<<"$output"
        kunpeng # no process, no memory
        run -0 qschedctl explain "${K[@]}" "$D/train.job" train/0
        ! grep -q '^  has ' <<<"$output" || false
}

@test "a record: its tasks are what was before, its devices are those there are" {
        record >"$D/r.json"
        printf '[Job]\nName=train\n[Ranks]\nCount=1\nCPUs=4\nDevice=ascend:1\n' >"$D/one.job"
        run -0 qschedctl plan --machine "$D/r.json" "$D/one.job" --json
        jq -e '.tasks[0].pid == 4711 and .tasks[0].cpus_before == "0,2,4" and .energy_before.total != null
               and .tasks[0].device == ["npu0"] and .tasks[0].mems == "1"' <<<"$output"
        run -0 qschedctl explain --machine "$D/r.json" "$D/one.job" 4711
        [[ $output == "train/0 (pid 4711) on npu0"* ]]
        run -0 qschedctl devices --machine "$D/r.json"
        [ "${#lines[@]}" -eq 2 ]
        [[ ${lines[1]} == *"npu0"*"ascend"*"64 GiB"*"train/0"* ]]
}

@test "a record with --devices: the names are the record's, what is described refines, tasks hold either" {
        record >"$D/r.json"
        printf '%s\n' '[Device npu0]' Health=alarm Memory=32G '[Device npu1]' Kind=ascend NUMANode=0 \
                '[Link npu1 npu0]' Type=HCCS >"$D/more.devices"
        run -0 qschedctl devices --machine "$D/r.json" --devices "$D/more.devices" --json
        jq -e 'length == 2 and .[0].name == "npu0" and .[0].health == "alarm" and .[0].memory == 34359738368
               and .[0].numa_node == 1 and .[0].kind == "ascend" and .[1].name == "npu1"' <<<"$output"
        jq '.devices = [] | .tasks[0].devices = ["npu1"]' "$D/r.json" >"$D/bare.json"
        fails 1 qschedctl devices --machine "$D/bare.json"
        grep -q 'tasks\[0\].devices\[0\]: no device "npu1"' "$D/err"
        sed -i 's/^Health=/Kind=ascend\n&/' "$D/more.devices"
        run -0 qschedctl devices --machine "$D/bare.json" --devices "$D/more.devices"
        [[ $output =~ npu1[^$'\n']*train/0 ]]
        # eight of both are eight
        for i in {0..7}; do printf '[Device npu%d]\nKind=ascend\nNUMANode=%d\n' "$i" $((i / 4)); done >"$D/eight.devices"
        jq '.tasks = [] | .devices = [range(8) | {name: "npu\(.)", kind: "ascend", numa_node: 0}]' "$D/r.json" >"$D/eight.json"
        run -0 qschedctl devices --machine "$D/eight.json" --devices "$D/eight.devices" --json
        [ "$(jq -c 'map(.name)' <<<"$output")" = '["npu0","npu1","npu2","npu3","npu4","npu5","npu6","npu7"]' ]
        [ "$(jq -c 'map(.numa_node)' <<<"$output")" = '[0,0,0,0,1,1,1,1]' ]
        run -0 qschedctl plan --machine "$D/eight.json" --devices "$D/eight.devices" "$D/train.job" --json
        [ "$(jq -r '.tasks[].device[]' <<<"$output" | sort -u | wc -l)" -eq 8 ]
        printf '[Device x]\nKind=ascend\nPCI=0000:c1:00.0\n' >"$D/x.devices"
        jq '.devices[0].pci = "0000:c1:00.0"' "$D/r.json" >"$D/pci.json"
        fails 1 qschedctl devices --machine "$D/pci.json" --devices "$D/x.devices"
        grep -q 'x.devices:3: PCI=0000:c1:00.0 is device npu0 of the record; describe it as \[Device npu0\]' "$D/err"
}

@test "devices where there are none: a sentence within 80 columns" {
        record | jq '.devices = [] | .tasks = []' >"$D/none.json"
        run -0 qschedctl devices --machine "$D/none.json"
        [[ ${lines[0]} == "No devices found:"* ]]
        for line in "${lines[@]}"; do [ ${#line} -le 80 ]; done
}

@test "control characters that others chose do not reach the terminal" {
        record >"$D/r.json"
        run -0 qschedctl topology --machine "$D/r.json"
        [[ $output == *"other"* ]]
        [[ $output != *$'\e'* ]]
}

# --- usage -------------------------------------------------------------------------------------------------------

@test "wrong usage: exit code 2 and a sentence" {
        fails 2 qschedctl
        fails 2 qschedctl frobnicate
        fails 2 qschedctl plan
        fails 2 qschedctl status more
        fails 2 qschedctl plan --frobnicate x
        fails 2 qschedctl plan -x y
        fails 2 qschedctl plan --seed=-1 x
        fails 2 qschedctl plan --seed=99999999999999999999 x
        fails 2 qschedctl plan --sweeps= x
        fails 2 qschedctl plan --solver=magic x
        fails 2 qschedctl plan --json=yes x
        fails 2 qschedctl plan x --machine
        fails 2 qschedctl status --seed=1
        fails 2 qschedctl status -H
        fails 2 qschedctl run
        fails 2 qschedctl plan --machine=a -H b x
        fails 2 qschedctl explain a b
        fails 2 qschedctl run --cpus=0 true
        fails 2 qschedctl run --memory=much true
        fails 2 qschedctl run --name=$'a\nb' true
        fails 2 qschedctl run --name=x --job=y true
}

@test "options before and after the verb, and -- ends them" {
        kunpeng
        run -0 qschedctl --json "${K[@]}" plan "$D/train.job"
        jq -e .feasible <<<"$output"
        (cd "$D" && cp train.job ./--odd.job && qschedctl plan --json "${K[@]}" -- --odd.job) | jq -e .feasible
        run -0 qschedctl --version
        [[ $output == "qschedctl "[0-9]* ]]
}

@test "run: 127 where there is no such command, 126 where it cannot be started" {
        fails 127 qschedctl run no-such-command-here
        fails 127 qschedctl run "$D/none"
        fails 126 qschedctl run "$D"
        fails 126 qschedctl run "$D/train.job"
}

# --- bad input ---------------------------------------------------------------------------------------------------

bad_job() { # text with backslash sequences: a sentence with the file's name, exit 1
        printf "%b" "$1" >"$D/bad.job"
        fails 1 qschedctl plan --machine "$data/machines/24em64t-2n6c2t-pci.xml" "$D/bad.job"
        grep -q 'bad\.job' "$D/err"
}

@test "job files: unknown keys, absurd values, duplicates, junk" {
        bad_job '[Ranks]\nCount=2\nColour=red\n'
        grep -q ':3: ' "$D/err"
        bad_job '[Rankz]\nCount=2\n'
        bad_job '[Ranks]\nCount=0\n'
        bad_job '[Ranks]\nCount=-1\n'
        bad_job '[Ranks]\nCount=10000\n'
        bad_job '[Ranks]\nCount=99999999999999999999999\n'
        bad_job '[Ranks]\nCount=2\nMemory=1Z\n'
        bad_job '[Ranks]\nCount=2\nCount=3\n'
        bad_job '[Ranks]\nCount=2\nMatch=magic:x\n'
        bad_job '[Job]\nPriority=101\n[Ranks]\nCount=1\n'
        bad_job '[Ranks]\nCount=4\n[Traffic]\nTP=3\nPP=2\n'
        bad_job 'no section\n'
        bad_job '[Ranks\n'
        bad_job '\0001\0002\0003\0377\0376'
        bad_job ''
        grep -q 'at least one \[Ranks\] section' "$D/err"
}

@test "files that are none: a directory, a FIFO, one that is not there, one that may not be read" {
        M=$data/machines/24em64t-2n6c2t-pci.xml
        mkfifo "$D/fifo"
        for f in "$D" "$D/fifo" "$D/none" /dev/zero; do
                fails 1 timeout 10 qschedctl plan --machine "$M" "$f"
                fails 1 timeout 10 qschedctl plan --machine "$M" --devices "$f" "$D/train.job"
                [ "$f" = "$D" ] || fails 1 timeout 10 qschedctl plan --machine "$f" "$D/train.job"
        done
        fails 1 qschedctl plan --machine "$D" "$D/train.job" # a directory, but no captured system
        need_root
        chmod 600 "$D/train.job"
        fails 1 as_nobody qschedctl plan --machine "$M" "$D/train.job"
}

@test "a job file from standard input" {
        M=$data/machines/24em64t-2n6c2t-pci.xml
        printf '[Job]\nName=piped\n[Ranks]\nCount=2\n' >"$D/piped.job"
        qschedctl plan --json --machine "$M" - <"$D/piped.job" >"$D/out"
        qschedctl plan --json --machine "$M" "$D/piped.job" | jq -S 'del(.elapsed_us)' >"$D/want"
        jq -S 'del(.elapsed_us)' "$D/out" | cmp - "$D/want"
        printf '[Ranks]\nCount=x\n' >"$D/in"
        fails 1 qschedctl plan --machine "$M" - <"$D/in"
        grep -q '^qschedctl: stdin:2: ' "$D/err"
}

@test "a line of 100 MB, as a job and as a machine: a sentence, little memory" {
        head -c 100000000 /dev/zero | tr '\0' a >"$D/long"
        (
                [ -n "${TEST_SANITIZERS-}" ] || ulimit -v 1000000 # their shadow takes terabytes
                fails 1 timeout 20 qschedctl plan --machine "$data/machines/24em64t-2n6c2t-pci.xml" "$D/long"
                fails 1 timeout 20 qschedctl plan --machine "$D/long" "$D/train.job"
        )
}

@test "machines: truncated XML, a huge os_index, a DOCTYPE without system id, junk, other JSON" {
        X=$data/machines/24em64t-2n6c2t-pci.xml
        head -c 5000 "$X" >"$D/cut.xml"
        sed 's/os_index="3"/os_index="4294967290"/' "$X" >"$D/huge.xml"
        sed 's/<!DOCTYPE.*>/<!DOCTYPE topology>/' "$X" >"$D/doctype.xml"
        head -c 4096 /dev/urandom >"$D/junk"
        : >"$D/empty"
        echo '{"a": 1}' >"$D/other.json"
        echo '{"format": "qsched-record-1", "machine": {}}' >"$D/bare.json"
        printf '{"format": "qsched-rec' >"$D/cut.json"
        for f in cut.xml huge.xml junk empty other.json bare.json cut.json; do
                echo "$f"
                fails 1 timeout 20 qschedctl plan --machine "$D/$f" "$D/train.job"
        done
        fails 1 timeout 20 qschedctl topology --machine "$D/doctype.xml"
        grep -q 'doctype\.xml:2: this DOCTYPE has no system id' "$D/err"
}

@test "a captured system one level below what was given is found; of two, one must be named" {
        mkdir "$D/top" "$D/top/notes" "$D/none"
        M=$(machine 128arm-2pa2n8cluster4co)
        ln -s "$M" "$D/top/host"
        run -0 qschedctl topology --machine "$D/top" --json
        [ "$(jq '.cpus | length' <<<"$output")" -eq 128 ]
        ln -s "$M" "$D/top/other"
        fails 1 qschedctl topology --machine "$D/top"
        grep -q "2 captured systems .* such as $D/top/host" "$D/err"
        fails 1 qschedctl topology --machine "$D/none"
        grep -q "neither $D/none/sys/devices/system/cpu nor" "$D/err"
        ln -s / "$D/none/self"
        fails 1 qschedctl topology --machine "$D/none"
        grep -q 'the running system' "$D/err"
}

@test "devices: unknown keys, doubles, links to nowhere" {
        M=$data/machines/24em64t-2n6c2t-pci.xml
        for text in '[Device a]\nColour=red\n' '[Device a]\nKind=x\n[Device a]\nKind=x\n' '[Link a b]\nType=HCCS\n' \
                '[Device a]\nKind=ascend\nNUMANode=99\n' '[Device a]\nKind=ascend\nTemperature=hot\n' '[Placement]\nHysteresis=1\n'; do
                printf "%b" "$text" >"$D/bad.devices"
                fails 1 qschedctl devices --machine "$M" --devices "$D/bad.devices"
                grep -q 'bad\.devices' "$D/err"
        done
}

@test "no bus, and a bus without the daemon: a sentence that says what to try" {
        export DBUS_SYSTEM_BUS_ADDRESS=unix:path=$D/none
        for verb in status "plan $D/train.job" "apply $D/train.job" revert "explain x" dump devices topology "run true"; do
                # shellcheck disable=SC2086 # words
                fails 1 qschedctl $verb
                grep -q 'systemctl start qschedd' "$D/err"
        done
        export DBUS_SYSTEM_BUS_ADDRESS=unix:path=$D/bus
        start_bus
        fails 1 qschedctl status
        grep -q 'does not run.*systemctl start qschedd' "$D/err"
        fails 1 qschedctl run true
}

# --- output ------------------------------------------------------------------------------------------------------

@test "standard output that takes nothing: exit 1 and a sentence" {
        kunpeng
        run -1 bash -c 'qschedctl plan "$@" >/dev/full' - "${K[@]}" "$D/train.job"
        sentence
        [[ $output == *"No space left"* ]]
        run -1 bash -c 'qschedctl plan "$@" >&-' - "${K[@]}" "$D/train.job"
        sentence
}

@test "a reader that has gone is no error: nothing is said, the exit code is the verb's own" {
        kunpeng
        gone() { # EXIT ARGUMENT...
                local expect=$1
                shift
                run bash -c 'qschedctl "$@" | true; echo ${PIPESTATUS[0]}' - "$@"
                [ "$output" = "$expect" ]
                run bash -c '(sleep 0.2; qschedctl "$@"; echo $? >&2) | exec true' - "$@"
                [ "$output" = "$expect" ]
        }
        gone 0 --help
        gone 0 --version
        gone 0 topology --json "${K[@]}"
        gone 0 plan "${K[@]}" "$D/train.job"
        { ranks 500; echo MinCPUs=100; } >"$D/r500.job"
        gone 4 plan "${K[@]}" "$D/r500.job" --json
}

@test "colours on a terminal only, and not with NO_COLOR or --no-color" {
        need script
        kunpeng
        printf 'exec qschedctl plan "$@"\n' >"$D/plan"
        on_terminal() {
                TERM=xterm-256color script -qec "bash $D/plan $* ${K[*]} $D/train.job" /dev/null </dev/null
        }
        run -0 on_terminal
        [[ $output == *$'\e[32m'* && $output == *"package 0"* ]]
        run -0 on_terminal --no-color
        [[ $output != *$'\e'* && $output == *"package 0"* ]]
        NO_COLOR=1 run -0 on_terminal
        [[ $output != *$'\e'* ]]
        run -0 qschedctl plan "${K[@]}" "$D/train.job"
        [[ $output != *$'\e'* ]]
}
