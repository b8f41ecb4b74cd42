#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# qschedctl solve and convert as their user sees them: all formats, values in the file's own sense, best known values,
# standard input, gzip, limits, wrong files, the comparison of all solvers.

# shellcheck disable=SC2154 # helpers set last
bats_require_minimum_version 1.5.0
load helpers
load ctl-helpers

I=${TOP_SRCDIR:-${TOP_BUILDDIR:-.}}/tests/data/instances

keys() { # the first two words of each line, as KEY=VALUE
        awk '{ print $1 "=" $2 }' <<<"$output"
}

# --- values ------------------------------------------------------------------------------------------------------

@test "every format is read and its best value is in its own sense" {
        while read -r file want; do
                run -0 qschedctl solve --time=5 --target="$want" "$I/$file"
                echo "$file: $output"
                keys | grep -qx "best=$want"
                keys | grep -qx "best_known=$want"
                [[ $output == *"best_known      $want (reached)"* ]]
                keys | grep -Eqx 'time_to_target=[0-9]+\.[0-9]+'
        done <<'LIST'
bqp/bqp50-1.qubo.gz 2098
gka/gka1a.qubo.gz 3414
qaplib/chr12a.dat.gz 9552
qaplib/nug15.dat.gz 1150
placement/place_16x8.txt.gz 419
LIST
        printf 'c two variables\np qubo 0 2 2 1\n0 0 -3\n1 1 -4\n0 1 5\n' >"$D/a.qbsolv"
        printf '# vartype=SPIN\n0 1 1.5\n1 2 -2\n0 0 0.25\n' >"$D/a.coo"
        printf '4 4\n1 2 1\n2 3 1\n3 4 1\n4 1 1\n' >"$D/a.mc"
        for pair in "a.qbsolv -4" "a.coo -3.75" "a.mc 4"; do
                read -r file want <<<"$pair"
                run -0 qschedctl solve "$D/$file"
                echo "$output"
                keys | grep -qx "best=$want"
                keys | grep -qx "proved=yes"
                keys | grep -qx "bound=$want"
                keys | grep -qx "time_to_target=-1"
                [[ $output != *best_known* ]]
        done
}

@test "--json has the same keys as the text, and one object" {
        qschedctl solve --json --time=0.2 --seed=3 "$I/bqp/bqp50-1.qubo.gz" >"$D/out"
        jq -e '.format == "qubo" and .sense == "maximise" and .variables == 50 and .couplings > 0 and .groups == 0
               and .best == 2098 and .best_known == 2098 and (.time_to_best | type) == "number" and .time_to_target == -1
               and (.flips | type) == "number" and .flips_per_ns > 0 and (.proved | type) == "boolean"
               and .solver == "auto" and (.found_by | type) == "string" and .seed == 3 and .threads == 1 and .exact
               and (.trace | length) > 0 and (.trace[-1][1] == .best)' "$D/out"
        [ "$(jq -s length "$D/out")" -eq 1 ]
        qschedctl solve --time=0.2 "$I/bqp/bqp50-1.qubo.gz" | awk '{ print $1 }' >"$D/keys"
        while read -r key; do
                jq -e --arg key "$key" 'has($key)' "$D/out" || { echo "$key"; return 1; }
        done <"$D/keys"
}

@test "standard input, packed or not, and a format that is said" {
        gzip -dc "$I/qaplib/nug15.dat.gz" >"$D/nug15"
        run -0 qschedctl solve --sweeps=2000 - <"$D/nug15"
        keys | grep -qx 'format=qaplib'
        run -0 qschedctl solve --sweeps=2000 - <"$I/bqp/bqp50-1.qubo.gz"
        keys | grep -qx 'format=qubo'
        run -0 bash -c "gzip -dc '$I/gset/G14.mc.gz' | qschedctl solve --solver=greedy --sweeps=1 --format=mc -"
        keys | grep -qx 'format=mc'
        fails 1 bash -c "gzip -dc '$I/gset/G14.mc.gz' | qschedctl solve -"
        grep -q 'could be mc or qubo; say which with --format=' "$D/err"
        # qbsolv's own files are called .qubo
        printf 'p qubo 0 1 1 0\n0 0 -3\n' >"$D/own.qubo"
        run -0 qschedctl solve "$D/own.qubo"
        keys | grep -qx 'format=qbsolv'
        keys | grep -qx 'best=-3'
}

@test "groups behind penalties are recognised, and the value is the file's" {
        qschedctl convert "$I/placement/place_16x8.txt.gz" "$D/p.qubo"
        printf 'instance\tbest_known\np.qubo\t11706\n' >"$D/best_known.tsv"
        run -0 qschedctl solve --time=5 --target=11706 "$D/p.qubo"
        echo "$output"
        [[ $output == *"groups          16, recognised"* ]]
        [[ $output == *"best_known      11706 (reached)"* ]]
        run -0 qschedctl solve --time=0.1 --no-recognise --json "$D/p.qubo"
        jq -e '.groups == 0 and .recognised == false' <<<"$output"
}

@test "the solution is written by variable or by task, and is worth what was said" {
        qschedctl solve --sweeps=200 --json --output="$D/x" "$I/gset/G14.mc.gz" >"$D/out"
        [ "$(head -n 1 "$D/x")" = '# variable value' ]
        [ "$(wc -l <"$D/x")" -eq 801 ]
        cut=$(awk 'NR == FNR { if (FNR > 1) x[$1] = $2; next } FNR > 1 && x[$1] != x[$2] { cut += $3 } END { print cut }' \
                "$D/x" <(gzip -dc "$I/gset/G14.mc.gz"))
        [ "$cut" -eq "$(jq .best "$D/out")" ]
        qschedctl solve --time=0.2 --output="$D/y" "$I/placement/place_16x8.txt.gz" >/dev/null
        [ "$(head -n 1 "$D/y")" = '# task device' ]
        [ "$(sed 1d "$D/y" | awk '{ print $1 }' | sort -un | wc -l)" -eq 16 ]
        [ "$(sed 1d "$D/y" | awk '$2 < 0 || $2 > 7' | wc -l)" -eq 0 ]
        qschedctl solve --time=0.2 --output="$D/z" "$I/qaplib/nug15.dat.gz" >/dev/null
        [ "$(sed 1d "$D/z" | awk '{ print $2 }' | sort -n | paste -sd' ')" = "$(seq -s' ' 1 15)" ]
        qschedctl solve --sweeps=2 --output=/dev/null "$I/bqp/bqp50-1.qubo.gz" >/dev/null
        [ -c /dev/null ]
        run ! qschedctl solve --sweeps=2 --output="$D/none/x" "$I/bqp/bqp50-1.qubo.gz"
        [[ $output == *"qschedctl: $D/none/x: cannot be written: No such file or directory"* ]]
}

# --- limits ------------------------------------------------------------------------------------------------------

@test "a seed run twice gives the same, whatever the threads; another seed need not" {
        for t in 1 1 64; do
                qschedctl solve --json --sweeps=300 --seed=5 --threads=$t --output="$D/x$t" "$I/gset/G43.mc.gz" |
                        jq -c '[.best, .sweeps, .flips, .found_by]'
                cksum <"$D/x$t"
        done >"$D/all"
        cat "$D/all"
        [ "$(paste -d' ' - - <"$D/all" | sort -u | wc -l)" -eq 1 ]
}

@test "a millisecond gives something feasible, of every format" {
        for file in gset/G22.mc qaplib/nug30.dat qaplib/tai100b.dat placement/place_64x16.txt gka/gka5f.qubo bqp/bqp50-1.qubo; do
                qschedctl solve --json --time=0.001 --output="$D/x" "$I/$file.gz" >"$D/out"
                jq -e '(.best | type) == "number" and .time < 2' "$D/out"
                [ "$(wc -l <"$D/x")" -gt 10 ]
        done
        printf '1 1\n1 1 7\n' >"$D/one.qubo"
        run -0 qschedctl solve --time=0.001 "$D/one.qubo"
        keys | grep -qx 'best=7'
}

@test "64 threads on a few CPUs end in time" {
        begin=$EPOCHREALTIME
        qschedctl solve --json --time=1 --threads=64 "$I/gset/G1.mc.gz" >"$D/out"
        jq -e '.best > 11500 and .threads == 64' "$D/out"
        [ "$(jq -n "$EPOCHREALTIME - $begin < 4")" = true ]
}

@test "no more threads than CPUs are begun" {
        need strace
        strace -f -qq -o "$D/trace" true 2>/dev/null || skip "strace does not work here"
        run -0 taskset -c "$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')" strace -f -qq -e trace=clone,clone3 -o "$D/trace" \
                qschedctl solve --time=0.2 --threads=64 "$I/gset/G1.mc.gz"
        [ "$(grep -c CLONE_THREAD "$D/trace")" -le 1 ] # the one that waits
}

@test "Ctrl-C ends it with the best so far, on a terminal with a line of progress" {
        begin=$EPOCHREALTIME
        run -0 timeout --preserve-status -s INT 1 qschedctl solve --time=60 --solver=sa "$I/gset/G22.mc.gz"
        echo "$output"
        [ "$(jq -n "$EPOCHREALTIME - $begin < 10")" = true ]
        [[ $output == *"qschedctl: Stopped: this is the best solution so far"* ]]
        keys | grep -Eqx 'best=1[0-9]{4}'
        need script
        NO_COLOR=1 run -0 script -qec "qschedctl solve --time=1 --solver=sa '$I/gset/G22.mc.gz'" /dev/null </dev/null
        [[ $output == *"Solving, 0."*" s; sa: best 1"*"; Ctrl-C ends it"* ]]
}

@test "a solution that could not be written is told before anything is solved" {
        mkdir "$D/folder"
        for path in "$D/folder" "$D/none/x" "$D/folder/x/y" "$I/README.md/x"; do
                fails 1 qschedctl solve --time=100 --output="$path" "$I/bqp/bqp250-1.qubo.gz"
                grep -qF "qschedctl: $path: cannot be written: " "$D/err"
        done
        [ -z "$(ls "$D/folder")" ]
}

@test "a target ends it; one that is not reached is -1" {
        run -0 qschedctl solve --time=20 --target=2000 --json "$I/bqp/bqp50-1.qubo.gz"
        jq -e '.time < 10 and .best >= 2000 and .time_to_target >= 0 and .time_to_target <= .time' <<<"$output"
        run -0 qschedctl solve --time=0.1 --target=99999 --json "$I/bqp/bqp50-1.qubo.gz"
        jq -e '.time_to_target == -1' <<<"$output"
        run -0 qschedctl solve --time=20 --target=1200 --json "$I/qaplib/nug15.dat.gz"
        jq -e '.time < 10 and .best <= 1200' <<<"$output"
}

# --- comparison --------------------------------------------------------------------------------------------------

@test "--compare: a table, a picture within 80 columns, a sentence about the quantum-inspired ones" {
        cd "$I" # a path of the file may be as wide as it likes
        run -0 qschedctl solve --compare --time=0.1 bqp/bqp50-1.qubo.gz
        echo "$output"
        narrow
        [[ $output == *"SOLVER"*"BEST"*"GAP"*"TIME TO BEST"*"FLIPS/NS"*"PROVED"* ]]
        [[ $output == *"Best value over time"* ]]
        [[ $output == *uantum-inspired* ]]
        for s in $(qschedctl --dump-tables | awk -F'\t' '$1 == "solver" { print $2 }'); do
                grep -Eq "(^[A-Z]  $s |Not for a model like this:.*\b$s\b)" <<<"$output" || { echo "$s"; return 1; }
        done
        LC_ALL=C run -0 qschedctl solve --compare --time=0.05 "$I/qaplib/chr12a.dat.gz"
        [ "$(tr -d '\n' <<<"$output" | LC_ALL=C tr -d '\040-\176' | wc -c)" -eq 0 ]
        run -0 qschedctl solve --compare --time=0.05 --target=2098 "$I/bqp/bqp50-1.qubo.gz"
        [[ $output == *"TIME TO TARGET"* && $output == *"best_known      2098"* ]]
        run -0 qschedctl solve --compare --json --sweeps=3 "$I/placement/place_16x8.txt.gz"
        jq -e '(.runs | length) >= 3 and (.verdict | length) > 10 and ([.runs[] | .best // empty] | . == sort)' <<<"$output"
        fails 2 qschedctl solve --compare --solver=sa "$I/bqp/bqp50-1.qubo.gz"
        fails 2 qschedctl solve --compare --output=x "$I/bqp/bqp50-1.qubo.gz"
}

# --- wrong input -------------------------------------------------------------------------------------------------

@test "wrong files: one sentence with the file and the line" {
        cd "$D"
        while IFS='|' read -r file text want; do
                printf '%b' "$text" >"$file"
                fails 1 qschedctl solve "$file"
                grep -qF "qschedctl: $file:$want" err || { cat err; return 1; }
        done <<'LIST'
a.mc||1: the file is empty
a.mc|4000000000 1\n1 2 1\n|1: the number of variables is "4000000000"; allowed are
a.mc|3 2000\n1 2 1\n|2: the file ends after 1 of the 2000 lines
a.qubo|3 1\n1 2 nan\n|2: the value "nan" is not a number
a.qubo|3 1\n2 1 4\n|2: 2 1 lies below the diagonal
a.qbsolv|p qubo 0 2 1 1\n0 0 1\n|2: the file ends after 1 of 1 nodes and 0 of 1 couplers
a.coo|0 1\n|1: the line ends where the value should follow
a.dat|3\n1 2\n|1: the file is too short for 9 numbers
a.txt|2 2 0 1 5 0\n1 2 3\n|2: "3" is too much on this line
LIST
        head -c 3000 "$I/gset/G1.mc.gz" >cut.mc.gz
        fails 1 qschedctl solve cut.mc.gz
        grep -q 'cut.mc.gz: the gzip data are damaged or cut short' err
        head -c 100000 /dev/urandom >random.mc
        fails 1 qschedctl solve random.mc
        fails 1 qschedctl solve none.mc
        fails 1 qschedctl solve "$D"
        printf 'hello\n' >hello
        fails 1 qschedctl solve hello
}

@test "hostile files: memory stays small" {
        [ -z "$TEST_SANITIZERS" ] || skip "sanitizers take address space"
        cd "$D"
        printf '4194304 67108864\n1 2 1\n' >a.mc
        (
                ulimit -v 2000000
                fails 1 qschedctl solve a.mc
        )
        printf '2048\n' >a.dat
        (
                ulimit -v 500000
                fails 1 qschedctl solve a.dat
        )
        head -c 1200000000 /dev/zero | gzip -1 >zeros.mc.gz
        fails 1 qschedctl solve zeros.mc.gz
        grep -q 'larger than 1024 MiB' err
}

@test "wrong options: one sentence and exit code 2" {
        f=$I/bqp/bqp50-1.qubo.gz
        for o in --time=0 --time=x --time=-1 --time=nan --target=x --threads=0 --threads=2000 --sweeps=0 --solver=x --format=x --seed=-1; do
                fails 2 qschedctl solve $o "$f"
        done
        fails 2 qschedctl solve
        fails 2 qschedctl solve "$f" "$f"
        fails 2 qschedctl convert "$f"
        fails 2 qschedctl convert "$f" -
        fails 2 qschedctl convert "$f" "$D/x.what"
}

@test "a solver that does not fit says which do" {
        not=$(qschedctl solve --compare --sweeps=1 "$I/qaplib/nug15.dat.gz" | sed -n 's/^Not for a model like this: \([a-z-]*\).*/\1/p')
        [ -n "$not" ] || skip "every solver fits"
        fails 1 qschedctl solve --solver="$not" "$I/qaplib/nug15.dat.gz"
        grep -q "solver $not does not fit this model; those that do are auto" "$D/err"
}

# --- conversion --------------------------------------------------------------------------------------------------

@test "convert: from each format to each plain one and back keeps the optimum" {
        cd "$D"
        printf '5 6\n1 2 3\n2 3 -1\n3 4 2\n4 5 4\n5 1 1\n1 3 2\n' >a.mc
        printf '3 4\n1 1 5\n1 2 -3\n2 2 4\n2 3 7\n' >a.qubo
        printf 'p qubo 0 3 2 2\n0 0 -3.5\n2 2 2\n0 1 1\n1 2 -1.25\n' >a.qbsolv
        printf '# vartype=SPIN\n0 1 1.5\n1 2 -2\n0 0 0.25\n' >a.coo
        printf '3\n0 5 2\n5 0 3\n2 3 0\n0 8 15\n8 0 13\n15 13 0\n' >a.dat
        printf '3 2 2 1 50 18\n1 2 3\n3 3\n4 1\n2 2\n0 5\n0 1\n1 0\n0 1 7\n1 2 3\n' >a.txt
        for from in mc qubo qbsolv coo dat txt; do
                best=$(qschedctl solve --json a.$from | jq .best)
                for to in mc qubo qbsolv coo; do
                        qschedctl convert a.$from b.$to.gz 2>relation
                        gzip -t b.$to.gz
                        there=$(qschedctl solve --json b.$to.gz | jq .best)
                        factor=$(sed -n 's/.* are \([^ ]*\) \* those.*/\1/p' relation)
                        constant=$(sed -n 's/.* file \([+-]\) \([0-9.e+-]*\)\.$/\1\2/p' relation)
                        echo "$from $best, $to $there: $(cat relation)"
                        jq -en "($best * ${factor:-1} ${constant:-+0} - $there) | . < 1e-9 and . > -1e-9"
                done
        done
        fails 1 qschedctl convert a.mc b.txt
        grep -q 'a file of format mc cannot be written as placement: its loads' err
        fails 1 qschedctl convert a.coo b.dat
        qschedctl convert --to=coo a.mc - 2>err >out
        [ "$(head -n 1 out)" = '# vartype=BINARY' ]
        qschedctl convert --to=placement a.txt - | cmp - a.txt
        qschedctl convert --format=mc --to=mc - - <a.mc | qschedctl solve --format=mc --json - | jq -e '.best == 12'
}

@test "convert: a placement file becomes the .qubo that its header describes" {
        qschedctl convert "$I/placement/place_16x8.txt.gz" "$D/p.qubo" 2>"$D/err"
        grep -q 'are -2 \* those of the placement file + 12544\.$' "$D/err" # 2 (342 * 16 + 800)
        [ "$(head -n 1 "$D/p.qubo")" = '128 3160' ]
}
