#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The kernels of the solvers on another machine: compiled for aarch64 (where the compiler's baseline is NEON) together
# with their tests, and run under emulation. test-kernels compares the annealing kernels with plain loops; for those of
# all families, whole runs of the solvers have to print there what they print here. Prints TAP.

skip() {
        echo "1..0 # SKIP neon: not run, $1"
        exit 0
}

fail() {
        echo "1..1"
        echo "not ok 1 - neon: $1"
        sed 's/^/# /' "$dir/errors"
        exit 1
}

target=aarch64-linux-gnu
qemu="qemu-aarch64-static"
type $target-gcc > /dev/null 2>&1 || skip "there is no $target-gcc"
type $qemu > /dev/null 2>&1 || skip "there is no $qemu"

dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 99

compile() { # OPTION... SOURCE...
        $target-gcc -std=gnu11 -ffp-contract=off -D_GNU_SOURCE -DNO_NLOPT "-I$TOP_SRCDIR" -c "$@"
}

# What solvers need of policy/qubo, but for what is of x86 or needs NLopt, which is not there for aarch64. The kernels take
# half the time.
qubo=$TOP_SRCDIR/policy/qubo
mapfile -t sources < <(find "$qubo" -name '*.c' ! -name 'kernels-*' ! -name qaoa.c ! -name qaoa-angles.c \
        ! -name real.c ! -name 'recognise*')
compile -O2 "$qubo/kernels-plain.c" 2> errors-kernels &
tests=("$TOP_SRCDIR"/tests/unit/test-kernel{s,-runs}.c)
compile -O1 "${sources[@]}" "${tests[@]}" 2> errors
compiled=$?
if ! wait $! || [ $compiled != 0 ]; then
        cat errors-kernels >> errors
        fail "policy/qubo compiles"
fi
$target-ar rc qubo.a ./*.o || exit 99
for t in test-kernels test-kernel-runs; do
        $target-gcc -static -o $t $t.o qubo.a -lm -lpthread 2> errors || fail "$t links"
done

$qemu ./test-kernel-runs print > there &
"$TOP_BUILDDIR/tests/unit/test-kernel-runs" print > here || exit 99
result="ok 1"
if ! wait $! || ! diff here there > errors; then
        result="not ok 1"
fi
echo "$result - neon: all runs end like those of plain C here"
head -n 20 errors | sed 's/^/# /'
# ... and its own lines and plan, one later
$qemu ./test-kernels | awk '/^(not )?ok / { n = $1 == "ok" ? 2 : 3; $n++ } /^1\.\./ { $0 = "1.." substr($0, 4) + 1 } { print }'
