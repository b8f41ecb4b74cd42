#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every fuzz entry point over its seeds and some seconds of mutations of them (QSCHED_FUZZ_SECONDS, 2 by default).
# Long runs: fuzz-x --seconds=600 --seed=N tests/fuzz/seeds/x, or libFuzzer (see standalone.c).
set -u

src=${TOP_SRCDIR:?}/tests/fuzz
bin=${TOP_BUILDDIR:?}/tests/fuzz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

n=0
for source in "$src"/fuzz-*.c; do
        n=$((n + 1))
        name=$(basename "$source" .c)
        seeds=()
        for d in "$src/seeds/${name#fuzz-}" "$src/corpus/${name#fuzz-}"; do
                [ -e "$d" ] && seeds+=("$d")
        done
        if [ ! -x "$bin/$name" ] && [ ! -x "$bin/.libs/$name" ]; then
                echo "ok $n - $name # SKIP not built"
        elif [ ${#seeds[@]} = 0 ]; then
                echo "not ok $n - $name has no seeds"
        elif out=$("$bin/$name" "--seconds=${QSCHED_FUZZ_SECONDS:-2}" "${seeds[@]}" 2>&1); then
                echo "ok $n - $name: $out"
        else
                echo "not ok $n - $name"
                sed 's/^/# /' <<<"$out"
                [ -e crash-input ] && { echo "# the input, base64:"; base64 crash-input | sed 's/^/# /'; }
        fi
done
echo "1..$n"
