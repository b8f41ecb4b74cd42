# SPDX-License-Identifier: Apache-2.0
#
# For the suites of tests/vm: `load helpers`. A suite may define setup and teardown of its own after that. Both
# hierarchies: where the kernel is asked about cpusets and groups, these functions know the place. "everywhere" and
# "on_node" are about the guest's four nodes of two CPUs.
# shellcheck shell=bash disable=SC2034 # variables are the suites'

T=/usr/lib/qsched-tests

setup() {
        cd "$BATS_TEST_TMPDIR" || return 1
        workers=()
}

teardown() {
        if [ -z "$BATS_TEST_COMPLETED" ]; then
                journalctl -u qschedd -o cat -n 25 --no-pager
        fi
        systemctl -q is-active qschedd && qschedctl revert >/dev/null 2>&1
        if [ ${#workers[@]} -gt 0 ]; then
                kill "${workers[@]}" 2>/dev/null
        fi
        systemctl stop 'qsched-test-*.service' 2>/dev/null
        confined_gone
        return 0
}

# ---- waiting: the guest is slow, and slower on a busy host, so it is for things, not for times ---------------------------

until_true() { # command…
        local start=$SECONDS tries=0
        while [ $((SECONDS - start)) -lt 60 ] || [ $tries -lt 20 ]; do
                "$@" && return 0
                tries=$((tries + 1))
                sleep 0.2
        done
        echo "waited $((SECONDS - start)) seconds in vain for: $*"
        return 1
}

gone() { # path
        [ ! -e "$1" ]
}

has_threads() { # pid number
        [ "$(threads "$1")" -eq "$2" ]
}

# ---- processes and what the kernel says of them ----------------------------------------------------------------------------

worker() { # arguments of worker; its pid is appended to workers
        "$T/worker" "$@" >worker.out 2>&1 3>&- &
        workers+=($!)
        until_true grep -q ready worker.out
        rm worker.out
}

# Every mask that a thread of a process has, each once: "2" when all are the same.
masks() { # pid
        cat /proc/"$1"/task/*/status | sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' | sort -u | paste -sd' '
}

threads() { # pid
        find /proc/"$1"/task -mindepth 1 -maxdepth 1 | wc -l
}

# One mask for all threads, inside the two CPUs of a node.
on_node() { # pid node
        local m first=$((2 * $2))
        m=$(masks "$1")
        echo "worker $1: masks $m, wanted on node $2"
        [[ $m = "$first" || $m = "$((first + 1))" || $m = "$first-$((first + 1))" ]]
}

everywhere() { # pid
        local m
        m=$(masks "$1")
        echo "process $1: masks $m, wanted 0-7"
        [ "$m" = 0-7 ]
}

# ---- qschedd ---------------------------------------------------------------------------------------------------------------

# Name of the device on a NUMA node.
device() { # node
        qschedctl devices --json | jq -r --argjson n "$1" '(.devices? // .)[] | select(.numa_node == $n) | .name'
}

pair_job() { # two ranks, the first wants the device on node 3
        printf '[Job]\nName=pair\n[Ranks a]\nCount=1\nDevice=%s\nMatch=pid:%s\n[Ranks b]\nCount=1\nDevice=%s\nMatch=pid:%s\n' \
                "$(device 3)" "${workers[0]}" "$(device 1)" "${workers[1]}" >pair.job
}

nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all)

as_nobody() { # command…
        "${nobody[@]}" "$@"
}

# polkit's word for user nobody: from now on all of org.qsched1, or no more.
polkit_rule=/etc/polkit-1/rules.d/10-qsched-test.rules

let_nobody() {
        echo 'polkit.addRule(function(action, subject) {
                if (action.id.indexOf("org.qsched1.") == 0 && subject.user == "nobody") return polkit.Result.YES;
        });' >$polkit_rule
        systemctl restart polkit
}

let_nobody_no_more() {
        [ ! -e $polkit_rule ] || { rm $polkit_rule && systemctl restart polkit; }
}

# ---- control groups --------------------------------------------------------------------------------------------------------

unified() {
        [ -e /sys/fs/cgroup/cgroup.controllers ]
}

# Where systemd keeps a process: its unit's path.
group_of() { # pid
        if unified; then
                sed -n 's/^0:://p' "/proc/$1/cgroup"
        else
                sed -n 's/^[0-9]*:name=systemd://p' "/proc/$1/cgroup"
        fi
}

# The folder whose cpuset files bind a process.
cpuset_of() { # pid
        if unified; then
                echo "/sys/fs/cgroup$(group_of "$1")"
        else
                echo "/sys/fs/cgroup/cpuset$(sed -n 's/^[0-9]*:cpuset://p' "/proc/$1/cgroup")"
        fi
}

cpuset_cpus() { # folder
        cat "$1/cpuset.cpus.effective" 2>/dev/null || cat "$1/cpuset.effective_cpus"
}

cpuset_mems() { # folder
        cat "$1/cpuset.mems.effective" 2>/dev/null || cat "$1/cpuset.effective_mems"
}

# A process of somebody else's unit, qsched-test-NAME, held to some CPUs: by the unit's AllowedCPUs= on the unified
# hierarchy; on the legacy one, where systemd has none, by a cpuset group that is made as a container runtime does.
confined() { # NAME CPUS command…; sets pid. confined_mems: memory nodes, if not all
        local unit=qsched-test-$1 cpus=$2 dir=/sys/fs/cgroup/cpuset/qsched-test-$1
        shift 2
        if unified; then
                systemd-run -q --unit="$unit" -p AllowedCPUs="$cpus" ${confined_mems:+-p AllowedMemoryNodes="$confined_mems"} "$@"
        else
                mkdir -p "$dir"
                echo "${confined_mems:-0-3}" >"$dir/cpuset.mems"
                echo "$cpus" >"$dir/cpuset.cpus"
                # shellcheck disable=SC2016 # for the unit's shell; systemd itself would make one $ of two
                systemd-run -q --unit="$unit" bash -c 'echo 0 >"$0/cgroup.procs" && exec "$@"' "$dir" "$@"
        fi
        pid=$(systemctl show -P MainPID "$unit")
}

confine() { # NAME CPUS: other CPUs for what confined() started
        if unified; then
                systemctl set-property --runtime "qsched-test-$1" AllowedCPUs="$2"
        else
                echo "$2" >"/sys/fs/cgroup/cpuset/qsched-test-$1/cpuset.cpus"
        fi
}

# The legacy groups of confined(), once their processes have ended.
confined_gone() {
        if compgen -G '/sys/fs/cgroup/cpuset/qsched-test-*' >/dev/null; then
                until_true rmdir /sys/fs/cgroup/cpuset/qsched-test-*/ 2>/dev/null
        fi
}

# ---- the machine from outside ----------------------------------------------------------------------------------------------

# One command of QEMU's monitor, by a port that tests/vm/run gives the guest; prints its answer, fails if it complains.
#   monitor device_add edu,id=hot1,bus=spare1       monitor device_del hot1       monitor info pci
monitor() { # command…
        local line answer='' id=$RANDOM$RANDOM port
        exec {port}<>/dev/virtio-ports/monitor
        jq -nc '{execute: "qmp_capabilities"}' >&"$port"
        jq -nc --arg id "$id" --arg c "$*" '{execute: "human-monitor-command", id: $id, arguments: {"command-line": $c}}' >&"$port"
        while read -r -t 60 line <&"$port"; do
                [[ $line != *"$id"* ]] || { answer=$line && break; }
        done
        exec {port}>&-
        answer=$(jq -r '.return // .error.desc' <<<"${answer:-{\"return\": \"Error: no answer within a minute\"\}}" | tr -d '\r')
        [ -z "$answer" ] || echo "$answer"
        [[ $answer != *Error* && $answer != *"not found"* && $answer != *"unknown command"* ]]
}

# CPU 8 belongs to node 1, CPU 9 to node 3; the suite's head line asks for devices=cpus.
cpu_plug() { # 8|9
        monitor device_add "max-x86_64-cpu,id=cpu$1,socket-id=$(($1 - 8)),core-id=4,thread-id=0" || return 1
        until_true test -e "/sys/devices/system/cpu/cpu$1/online" || return 1
        echo 1 >"/sys/devices/system/cpu/cpu$1/online"
}

cpu_unplug() { # 8|9
        monitor device_del "cpu$1" && until_true gone "/sys/devices/system/cpu/cpu$1"
}
