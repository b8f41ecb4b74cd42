# SPDX-License-Identifier: Apache-2.0
#
# For the bats files about qschedctl: recorded machines (machine NAME, kunpeng), a directory of each test in $D, what a
# failure looks like (fails CODE COMMAND). What is started with helpers.bash ends in teardown.

# shellcheck disable=SC2034,SC2154 # bats sets lines; K is for the tests
:

# Captured systems are ten thousand small files: once for all tests here, in memory where there is a place.
setup_file() {
        local dir=$BATS_FILE_TMPDIR
        [ -d /dev/shm ] && [ -w /dev/shm ] && dir=/dev/shm
        MACHINES=$(mktemp -d "$dir/qsched-machines.XXXXXX")
        export MACHINES
}

teardown_file() {
        rm -rf "$MACHINES"
}

setup() {
        src=${TOP_SRCDIR:-$build}
        data=$src/tests/data
        D=$(mktemp -d "${TMPDIR:-/tmp}/qsched-ctl.XXXXXX")
        chmod 755 "$D"
        pids=()
        export LC_ALL=C.UTF-8
        unset DBUS_SYSTEM_BUS_ADDRESS NO_COLOR
        need jq bzip2
        eight >"$D/train.job"
}

teardown() {
        local i
        for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
                kill "${pids[i]}" 2>/dev/null || continue
                wait "${pids[i]}" 2>/dev/null || true
        done
        rm -rf "$D"
}

eight() {
        printf '[Job]\nName=train\n[Ranks]\nCount=8\nCPUs=12\nDevice=ascend:1\n[Traffic]\nTP=4\nPP=2\nTPBytes=20G\nPPBytes=1G\n'
}

ranks() { # count
        printf '[Ranks]\nCount=%d\n' "$1"
}

# Prints the path of a recorded machine, unpacked on first use.
machine() { # name
        if [ -f "$data/machines/$1.xml" ]; then
                echo "$data/machines/$1.xml"
                return
        fi
        if [ ! -d "$MACHINES/$1" ]; then
                mkdir "$MACHINES/$1"
                tar -xjf "$data/machines/$1.tar.bz2" -C "$MACHINES/$1" 2>/dev/null || true
        fi
        local cpu
        cpu=$(find "$MACHINES/$1" -path '*/sys/devices/system/cpu' -prune -print | head -n 1)
        echo "${cpu%/sys/devices/system/cpu}"
}

kunpeng() {
        K=(--machine "$(machine 128arm-2pa2n8cluster4co)" --devices "$data/kunpeng-8npu.devices")
}

# One kernel list per line to single numbers.
expand() {
        tr ',' '\n' | awk -F- 'NF { for (i = $1; i <= $NF; i++) print i }'
}

sentence() { # exactly one line, on standard error, that begins with the program's name
        [ "${#lines[@]}" -eq 1 ]
        [[ ${lines[0]} == qschedctl:* ]]
}

fails() { # code, command: exits so, with one sentence and nothing on standard output
        local code=$1
        shift
        "$@" >"$D/out" 2>"$D/err" || r=$?
        echo "exit ${r:-0}: $(head -c 2000 "$D/err")"
        [ "${r:-0}" -eq "$code" ]
        [ ! -s "$D/out" ]
        [ "$(wc -l <"$D/err")" -eq 1 ]
        [ "$(wc -c <"$D/err")" -lt 1000 ]
        r=
}

narrow() { # no line over 80 characters
        local line
        for line in "${lines[@]}"; do # in characters: not every awk counts those
                [ "${#line}" -le 80 ] || { echo "${#line} wide: $line"; return 1; }
        done
}
