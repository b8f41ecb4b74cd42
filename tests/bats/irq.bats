# SPDX-License-Identifier: Apache-2.0
#
# Interrupts of a described device that stands for a PCI function of this machine: its vectors go to the CPU that the
# plan keeps, what somebody else changes is told and left alone, and all is put back. What is asserted is what
# /proc/irq says. The masks that were there before are written again at the end whatever happens.

load helpers

setup() {
        need_root
        need_cpus 2
        find_device || skip "no PCI function here has vectors that can be moved"
        setup_all
        printf '[Daemon]\nInterval=300ms\n[Placement]\nHoldOff=0\n' >"$D/qschedd.conf"
        printf '[Device npu0]\nKind=ascend\nPCI=%s\n' "$pci" >"$D/devices"
        before=$(irq_masks)
}

teardown() {
        local irq
        [ -z "${before:-}" ] || while read -r irq mask; do
                echo "$mask" >"/proc/irq/$irq/smp_affinity_list" || true
        done <<<"$before"
        [ -z "${D:-}" ] || teardown_all
}

# One whose vectors all have more than one CPU and take a mask (their own, written again).
find_device() {
        local d irq mask
        for d in /sys/bus/pci/devices/*/msi_irqs; do
                irqs=()
                for irq in "$d"/*; do
                        irq=${irq##*/}
                        mask=$(cat "/proc/irq/$irq/smp_affinity_list" 2>/dev/null) || continue 2
                        [[ $mask = *[-,]* ]] || continue 2
                        (echo "$mask" >"/proc/irq/$irq/smp_affinity_list") 2>/dev/null || continue 2
                        irqs+=("$irq")
                done
                [ ${#irqs[@]} -gt 0 ] || continue
                pci=${d%/msi_irqs} pci=${pci##*/}
                return 0
        done
        return 1
}

irq_masks() {
        local irq
        for irq in "${irqs[@]}"; do
                echo "$irq $(cat "/proc/irq/$irq/smp_affinity_list")"
        done
}

placed() { # a rank of one CPU, so that another CPU is kept for interrupts
        worker
        start_qschedd --devices "$D/devices"
        answer=$(apply "$(printf '[Job]\nName=train\n[Ranks]\nCount=1\nCPUs=1\nDevice=npu0\nMatch=pid:%s\n' "$last")")
        echo "$answer" | jq .
        kept=$(jq -r '.tasks[0].irq_cpus' <<<"$answer")
        [ -n "$kept" ]
}

all_on() { # cpus
        [ "$(irq_masks | cut -d' ' -f2 | sort -u)" = "$1" ]
}

states() {
        status | jq -r '[.interrupts[].state] | unique | join(" ")'
}

@test "vectors go to the CPU the plan keeps, and back at the revert" {
        placed
        irq_masks
        all_on "$kept"
        [ "$(jq '[.outcome.changes[] | select(.irq)] | length' <<<"$answer")" = ${#irqs[@]} ]
        [ "$(status | jq '.interrupts | length')" = ${#irqs[@]} ]
        [[ $(states) =~ ^(ok|pending|ok\ pending)$ ]]
        qschedctl status | grep -E "^npu0 +$pci +$kept +.*(ok|pending)"
        grep -q "interrupt ${irqs[0]} .*-> $kept (apply)" "$D/qschedd.log"
        call Revert s train >/dev/null
        [ "$(irq_masks)" = "$before" ]
        [ "$(status | jq '.interrupts | length')" = 0 ]
}

@test "twice writes nothing; a restart of the daemon keeps them, SIGUSR1 puts them back" {
        placed
        again=$(apply "$(printf '[Job]\nName=train\n[Ranks]\nCount=1\nCPUs=1\nDevice=npu0\nMatch=pid:%s\n' "$last")")
        [ "$(jq '[.outcome.changes[]? | select(.irq)] | length' <<<"$again")" = 0 ]
        stop_qschedd KILL
        all_on "$kept"
        : >"$D/qschedd.log"
        start_qschedd --devices "$D/devices"
        wait_until 10 eval '[ "$(status | jq ".interrupts | length")" = ${#irqs[@]} ]'
        all_on "$kept"
        ! grep "interrupt ${irqs[0]} " "$D/qschedd.log" || false
        stop_qschedd USR1
        [ "$(irq_masks)" = "$before" ]
}

@test "a mask that somebody else changes is told and left alone, at the revert too" {
        placed
        for other in 0 1; do [ "$other" = "$kept" ] || break; done
        echo "$other" >"/proc/irq/${irqs[0]}/smp_affinity_list"
        wait_until 5 eval 'status | jq -e ".interrupts[] | select(.irq == ${irqs[0]}) | .state == \"drift\""'
        grep -q "somebody else has moved 1 of its ${#irqs[@]} interrupts (${irqs[0]} " "$D/qschedd.log"
        status | jq -e ".drift[] | select(.irq == ${irqs[0]} and .device == \"npu0\" and .found == \"$other\")"
        sleep 0.7
        [ "$(grep -c "has moved 1 of its" "$D/qschedd.log")" = 1 ]
        [ "$(cat "/proc/irq/${irqs[0]}/smp_affinity_list")" = "$other" ]
        call Revert s train >/dev/null
        [ "$(cat "/proc/irq/${irqs[0]}/smp_affinity_list")" = "$other" ]
        [ ${#irqs[@]} = 1 ] || [ "$(irq_masks | tail -n +2)" = "$(tail -n +2 <<<"$before")" ]
}

@test "a worker that ends lets go of its device's vectors" {
        placed
        kill "$last"
        wait_until 10 eval '[ "$(irq_masks)" = "$before" ]'
}

@test "Interrupts=no: none is moved, and those that were go back" {
        placed
        printf '[Daemon]\nInterval=300ms\n[Enforce]\nInterrupts=no\n' >"$D/qschedd.conf"
        kill -HUP "$qschedd"
        wait_until 5 eval '[ "$(irq_masks)" = "$before" ]'
        [ "$(status | jq '.interrupts | length')" = 0 ]
        call Revert s train >/dev/null
        apply "$(printf '[Job]\nName=train\n[Ranks]\nCount=1\nCPUs=1\nDevice=npu0\nMatch=pid:%s\n' "$last")" >/dev/null
        [ "$(irq_masks)" = "$before" ]
}

banned() { # by its own answer
        qschedctl doctor --json --devices "$D/devices" >"$D/doctor" || true
        grep "irqbalance runs (pid $balancer) with all ${#irqs[@]} vectors of devices banned (it says)" "$D/doctor"
}

@test "irqbalance is asked to leave them alone, keeps its own bans, and is not stopped" {
        need irqbalance
        ! pgrep -x irqbalance >/dev/null || skip "irqbalance runs on this host already"
        local args=() d
        for d in /proc/irq/[0-9]*; do # whatever is not ours stays where it is
                d=${d##*/}
                [[ " ${irqs[*]} " = *" $d "* ]] || args+=("--banirq=$d")
        done
        mkdir -p /run/irqbalance
        irqbalance --foreground -t 1 "${args[@]}" >"$D/irqbalance.log" 2>&1 3>&- &
        balancer=$!
        pids+=("$balancer")
        wait_until 5 test -S "/run/irqbalance/irqbalance$balancer.sock"
        ! banned || false
        placed
        banned
        sleep 2.5
        all_on "$kept"
        kill -0 "$balancer"
        call Revert s train >/dev/null
        ! banned || false
        kill -0 "$balancer"
}
