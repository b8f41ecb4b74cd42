#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The kernels of the solvers on another machine: compiled for aarch64 (where the compiler's baseline is NEON) together
# with their test, and run under emulation. Prints TAP.

skip() {
        echo "1..0 # SKIP neon: not run, $1"
        exit 0
}

cc=aarch64-linux-gnu-gcc
qemu='qemu-aarch64-static'
type $cc > /dev/null 2>&1 || skip "there is no $cc"
type $qemu > /dev/null 2>&1 || skip "there is no $qemu"

dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
cd "$TOP_SRCDIR" || exit 99

# What the test links: the kernels, models, and their rows
if ! $cc -std=gnu11 -O2 -ffp-contract=off -D_GNU_SOURCE -I. -static -o "$dir/test-kernels" tests/unit/test-kernels.c \
        policy/qubo/kernels.c policy/qubo/kernels-plain.c policy/qubo/qubo.c policy/qubo/rows.c policy/qubo/limit.c -lm 2> "$dir/errors"; then
        echo "1..1"
        echo "not ok 1 - neon: the kernels compile"
        sed 's/^/# /' "$dir/errors"
        exit 1
fi
$qemu "$dir/test-kernels"
