#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the hosts beside this file, in the form of ../proc/generate.py: sick (cgroup v1, docker, two Ascend cards, all that
works against placement) and well (cgroup v2, nothing to mend). 32 CPUs in two nodes, 0-15 and 16-31."""
import importlib.util, os, sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("recorded", os.path.join(HERE, "..", "proc", "generate.py"))
recorded = importlib.util.module_from_spec(spec)
spec.loader.exec_module(recorded)
recorded.HERE = HERE
CPU = "sys/devices/system/cpu/"
THP = "sys/kernel/mm/transparent_hugepage/"
MEMINFO = "MemTotal:       263921300 kB\nMemFree:        11921300 kB\nSwapTotal:       %d kB\nSwapFree:        %d kB\nDirty:  8 kB\n"

def settings(h, release, arch, numa, zone, thp, defrag, swap, governor, driver, isolated, nohz, online, smt, nodes):
    h.write("proc/sys/kernel/osrelease", release + "\n")
    h.write("proc/sys/kernel/arch", arch + "\n")
    h.write("proc/sys/kernel/numa_balancing", "%d\n" % numa)
    h.write("proc/sys/vm/zone_reclaim_mode", "%d\n" % zone)
    h.write("proc/sys/vm/swappiness", "60\n")
    h.write("proc/meminfo", MEMINFO % swap)
    h.write(THP + "enabled", thp + "\n")
    h.write(THP + "defrag", defrag + "\n")
    for c in range(32):
        h.write(CPU + "cpu%d/cpufreq/scaling_governor" % c, governor + "\n")
        h.write(CPU + "cpu%d/cpufreq/scaling_driver" % c, driver + "\n")
    h.write(CPU + "isolated", isolated + "\n")
    h.write(CPU + "nohz_full", nohz + "\n")
    h.write(CPU + "present", "0-31\n")
    h.write(CPU + "online", online + "\n")
    h.write(CPU + "smt/control", smt + "\n")
    for i, pci in enumerate(("0000:81:00.0", "0000:82:00.0")):
        h.device(pci, dev_id=str(i), numa_node=str(nodes[i]))

def vectors(h, cpus):
    for i, cpu in enumerate(cpus):
        irq = 200 + i
        h.write("sys/bus/pci/devices/0000:8%d:00.0/msi_irqs/%d" % (1 + i // 2, irq), "msix\n")
        h.write("proc/irq/%d/smp_affinity_list" % irq, "0-31\n")
        h.write("proc/irq/%d/effective_affinity_list" % irq, cpu + "\n")

def sick():
    opt = "rw,nosuid,nodev,noexec,relatime"
    h = recorded.Host("sick", "\n".join((
        "34 25 0:31 / /sys/fs/cgroup/cpuset %s shared:18 - cgroup cgroup rw,cpuset" % opt,
        "33 25 0:30 / /sys/fs/cgroup/cpu %s shared:17 - cgroup cgroup rw,cpu,cpuacct" % opt, "")))
    settings(h, "5.2.14-old.aarch64", "aarch64", 1, 1, "[always] madvise never", "[always] defer madvise never",
             (8388608, 5242880), "ondemand", "cppc_cpufreq", "28-31", "28-29", "0-30", "notsupported", (1, -1))
    vectors(h, ("0", "0", "0", "0"))
    g = "sys/fs/cgroup/cpuset"
    box = "/docker/" + "0123456789abcdef" * 4
    h.write(g + "/cpuset.effective_cpus", "0-30\n")
    h.write(g + "/cpuset.effective_mems", "0-1\n")
    h.write(g + box + "/cpuset.effective_cpus", "0-7\n")
    h.write(g + box + "/cpuset.effective_mems", "0\n")
    root, inside = "1:cpuset:/\n", "2:cpu,cpuacct:%s\n1:cpuset:%s\n" % (box, box)
    h.proc(1, 0, "init", ["/sbin/init"], root, start=1, cpus="0-30")
    h.proc(300, 1, "irqbalance", ["/usr/sbin/irqbalance", "--foreground", "--banirq=200"], root)
    h.proc(301, 1, "numad", ["numad"], root)
    h.proc(302, 1, "tuned", ["/usr/bin/python3", "/usr/sbin/tuned"], root)
    h.proc(303, 1, "slurmd", ["slurmd", "-D"], root)
    h.write("etc/tuned/active_profile", "cpu-partitioning\n")
    h.write("etc/slurm/slurm.conf", "ClusterName=c\nTaskPlugin=task/affinity,task/cgroup # both\n")
    h.write("var/lib/kubelet/cpu_manager_state",
            '{"policyName":"static","defaultCpuSet":"0-7,12-30","entries":{"u":{"w":"8-11"}},"checksum":1}')
    h.write("var/lib/kubelet/config.yaml", "cpuManagerPolicy: static\nreservedSystemCPUs: 0-1\n")
    npu = ["/dev/davinci_manager", "/dev/devmm_svm"]
    h.proc(700, 1, "python3", ["python3", "train.py", "--secret=k"], inside, fds=npu + ["/dev/davinci0"], cpus="0-7", mems="0",
           env=["TOKEN=secret", "CPU_AFFINITY_CONF=2", "OMP_PROC_BIND=close", "OMP_PLACES=cores", "SLURM_CPU_BIND=quiet,none"])
    h.proc(705, 1, "vllm", ["/usr/bin/python3", "/usr/bin/vllm", "serve", "/m", "--port", "1"], root, cpus="0-30")
    h.proc(710, 705, "VLLM::Worker_TP", ["VLLM::Worker_TP0"], root, fds=npu + ["/dev/davinci1"], cpus="16-19")
    h.proc(720, 1, "python3", ["python3", "serve.py"], root, fds=npu + ["/dev/davinci0"], cpus="18-21",
           env=["OMP_PLACES=cores", "OMP_PROC_BIND=false"])
    h.proc(730, 1, "python3", ["python3", "eval.py"], root, fds=npu + ["/dev/davinci1"], cpus="28-29",
           thread_cpus=["28-29", "28-29", "28-29"])

def well():
    h = recorded.Host("well", "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw\n")
    settings(h, "6.6.0-72.0.0.76.oe2403.aarch64", "aarch64", 0, 0, "always [madvise] never", "always defer [madvise] never",
             (0, 0), "performance", "cppc_cpufreq", "", "(null)", "0-31", "notsupported", (0, 1))
    vectors(h, ("2", "3", "20", "21"))
    h.write("run/systemd/system/.keep", "")
    h.write("sys/kernel/btf/vmlinux", "")
    h.write("usr/share/dbus-1/system-services/org.freedesktop.PolicyKit1.service", "[D-BUS Service]\n")
    g = "sys/fs/cgroup"
    unit = "/system.slice/vllm.service"
    h.write(g + "/cgroup.controllers", "cpuset cpu io memory pids\n")
    h.write(g + "/cpuset.cpus.effective", "0-31\n")
    h.write(g + "/cpuset.mems.effective", "0-1\n")
    h.write(g + unit + "/cpuset.cpus.effective", "0-31\n")
    h.write(g + unit + "/cpuset.mems.effective", "0-1\n")
    h.proc(1, 0, "systemd", ["/usr/lib/systemd/systemd"], "0::/init.scope\n", start=1, cpus="0-31")
    h.proc(300, 1, "irqbalance", ["irqbalance", "-i", "200", "-i201", "--banirq", "202", "--banirq=203"],
           "0::/system.slice/irqbalance.service\n", cpus="0-31")
    h.proc(705, 1, "vllm", ["/usr/bin/vllm", "serve", "/m", "--additional-config", '{"enable_cpu_binding": false}'],
           "0::" + unit + "\n", cpus="0-31")
    for i in range(2):
        h.proc(710 + i, 705, "VLLM::Worker_TP", ["VLLM::Worker_TP%d" % i], "0::" + unit + "\n", cpus="0-31",
               fds=["/dev/davinci_manager", "/dev/davinci%d" % i], env=["OMP_PROC_BIND=FALSE", "OMP_PLACES=cores"])

sick(); well()
