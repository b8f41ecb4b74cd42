#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the recorded hosts beside this file: proc/ and sys/ trees as the kernel formats them. The trees are committed;
run this only to change them. Symbolic links (open files, drm devices) stand in the file "symlinks" of each host, a path and
its target per line, because tar follows links when a release is made; tests lay them out. Directories: k8s (cgroup v2, kubelet with containerd and the systemd driver, Ascend),
slurm (cgroup v1 and hybrid, Slurm, Cambricon), docker (cgroup v1 with cgroupfs, Hygon and NVIDIA)."""
import os, shutil, sys

HERE = os.path.dirname(os.path.abspath(__file__))
STATUS = """Name:\t{comm}
Umask:\t0022
State:\tS (sleeping)
Tgid:\t{pid}
Ngid:\t0
Pid:\t{tid}
PPid:\t{ppid}
TracerPid:\t0
Uid:\t{uid}\t{uid}\t{uid}\t{uid}
Gid:\t{uid}\t{uid}\t{uid}\t{uid}
FDSize:\t256
Groups:\t0 
VmPeak:\t 8183060 kB
VmRSS:\t 4121620 kB
Threads:\t{threads}
SigQ:\t2/96364
Seccomp:\t0
Cpus_allowed:\tffffffff,ffffffff
Cpus_allowed_list:\t{cpus}
Mems_allowed:\t00000003
Mems_allowed_list:\t{mems}
voluntary_ctxt_switches:\t150
nonvoluntary_ctxt_switches:\t5
"""

class Host:
    def __init__(self, name, mountinfo, uptime="90000.12 5400000.00\n"):
        self.top = os.path.join(HERE, name)
        shutil.rmtree(self.top, ignore_errors=True)
        self.write("proc/self/mountinfo", mountinfo)
        self.write("proc/uptime", uptime)

    def write(self, path, data):
        path = os.path.join(self.top, path.lstrip("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())

    def link(self, path, target):
        with open(os.path.join(self.top, "symlinks"), "a") as f:
            f.write("%s %s\n" % (path, target))

    def proc(self, pid, ppid, comm, cmdline, cgroup, fds=(), env=(), cpus="0-63", thread_cpus=None, mems="0-1", uid=0,
             start=None, utime=100, stime=50, flags=0x400000):
        threads = thread_cpus or [cpus]
        start = pid * 10 if start is None else start
        d = "proc/%d/" % pid
        self.write(d + "stat", "%d (%s) S %d %d %d 0 -1 %d 12345 6789 0 0 %d %d 3 4 20 0 %d 0 %d 8379453440 1030405 "
                   "18446744073709551615 94911950118912 94911950138793 140733924380208 0 0 0 0 16781312 0 0 0 0 17 3 0 0 0 0 0 "
                   "94911950154800 94911950156416 94912833548288 140733924383370 140733924383390 140733924383390 "
                   "140733924384747 0\n" % (pid, comm, ppid, pid, pid, flags, utime, stime, len(threads), start))
        self.write(d + "status", STATUS.format(comm=comm, pid=pid, tid=pid, ppid=ppid, uid=uid, threads=len(threads), cpus=cpus, mems=mems))
        for i, c in enumerate(threads):
            tid = pid + (i and 5000 + i)
            self.write(d + "task/%d/status" % tid, STATUS.format(comm=comm, pid=pid, tid=tid, ppid=ppid, uid=uid,
                       threads=len(threads), cpus=c, mems=mems))
        self.write(d + "cmdline", b"".join(w.encode() + b"\0" for w in cmdline))
        self.write(d + "environ", b"".join(w.encode() + b"\0" for w in env))
        self.write(d + "cgroup", cgroup)
        for n, target in enumerate(["/dev/null", "pipe:[4711]", "/dev/pts/0"] + list(fds)):
            self.link(d + "fd/%d" % n, target)

    def device(self, pci, **files):
        for k, v in files.items():
            self.write("sys/bus/pci/devices/%s/%s" % (pci, k), v + "\n")

def kernel_threads(h):
    h.proc(2, 0, "kthreadd", [], "0::/\n", flags=0x208040, start=1)
    h.proc(40, 2, "kworker/u128:1-events_unbound) x", [], "0::/\n", flags=0x4208060, start=2)

def k8s():
    h = Host("k8s", "\n".join((
        "22 28 0:21 / /proc rw,nosuid,nodev,noexec,relatime shared:12 - proc proc rw",
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot",
        "900 28 0:26 /kubepods.slice /var/lib/x\\040y/cgroup ro,relatime - cgroup2 cgroup2 rw", "")))
    kernel_threads(h)
    h.proc(1, 0, "systemd", ["/sbin/init"], "0::/init.scope\n", start=1)
    pod = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod3f2a1b4c_aaaa_bbbb_cccc_0123456789ab.slice"
    box = pod + "/cri-containerd-" + "9d8c7b6a5f4e3d2c" * 4 + ".scope"
    static = ("/kubepods.slice/kubepods-podd1d1d1d1_0000_1111_2222_333333333333.slice/cri-containerd-" + "77aa" * 16 + ".scope")
    g = "sys/fs/cgroup"
    h.write(g + "/cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma misc\n")
    h.write(g + "/cpuset.cpus.effective", "0-63\n")
    h.write(g + "/cpuset.mems.effective", "0-1\n")
    h.write(g + pod + "/cpu.max", "3200000 100000\n")
    h.write(g + pod + "/memory.max", "274877906944\n")
    h.write(g + pod + "/cpuset.cpus.effective", "4-63\n")
    h.write(g + box + "/cpu.max", "max 100000\n")
    h.write(g + box + "/cpu.weight", "624\n")
    h.write(g + box + "/memory.max", "max\n")
    h.write(g + box + "/cgroup.procs", "1000\n1100\n1101\n1102\n1103\n")
    h.write(g + static + "/cpuset.cpus.effective", "8-15\n")
    h.write(g + static + "/cpuset.mems.effective", "1\n")
    h.write(g + static + "/cpu.max", "800000 100000\n")
    h.write(g + static + "/cpu.weight", "313\n")
    h.write(g + static + "/cgroup.procs", "2000\n")
    h.write(g + static + "/memory.numa_stat", "anon N0=1073741824 N1=34359738368\nfile N0=4096 N1=8192\nkernel_stack N0=16384 N1=0\n"
            "shmem N0=4096 N1=0\nfile_mapped N0=4096 N1=0\nanon_thp N0=0 N1=2097152\ninactive_anon N0=1 N1=1\n")
    v2 = lambda p: "0::" + p + "\n"
    train = ["/usr/bin/python", "pretrain_gpt.py", "--tensor-model-parallel-size", "4"]
    h.proc(1000, 1, "torchrun", ["/usr/bin/python", "/usr/bin/torchrun", "--nproc_per_node=4", "pretrain_gpt.py"], v2(box),
           fds=["/dev/davinci_manager"], env=["PATH=/usr/bin", "RANK=0", "ASCEND_VISIBLE_DEVICES=4-7"], start=100000)
    for i in range(4):
        env = ["PATH=/usr/bin", "RANK=%d" % (8 + i), "LOCAL_RANK=%d" % i, "WORLD_SIZE=16", "ASCEND_VISIBLE_DEVICES=4-7"]
        fds = ["/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc", "/dev/davinci%d" % (4 + i)]
        if i == 2: # opened all that the container sees; the runtime's variable says which it uses
            fds = fds[:3] + ["/dev/davinci%d" % k for k in range(4, 8)]
            env.append("ASCEND_RT_VISIBLE_DEVICES=2")
        h.proc(1100 + i, 1000, "python", train, v2(box), fds=fds, env=env, thread_cpus=["0-63", "0-31", "4-5"], start=100100 - i)
    h.proc(1200, 1100, "python", train, v2(box), fds=["/dev/davinci_manager", "/dev/davinci4"],
           env=["PATH=/usr/bin", "RANK=8", "LOCAL_RANK=0", "WORLD_SIZE=16", "ASCEND_VISIBLE_DEVICES=4-7"], start=100300)
    h.proc(1201, 1200, "pt_data_pin", ["pt_data_pin"], v2(box), start=100301)
    h.proc(1202, 1101, "sh", ["sh", "-c", "ccec kernel.cpp"], v2(box), start=100302)
    h.proc(2000, 1, "VLLM::Worker_TP", ["VLLM::Worker_TP0"], v2(static), fds=["/dev/davinci_manager", "/dev/davinci0"],
           cpus="8-15", mems="1", uid=1000, start=80000)
    h.proc(2900, 1, "sudo", ["sudo", "qschedctl", "apply", "pretrain_gpt.job"], v2("/user.slice/user-0.slice/session-3.scope"))
    h.proc(2901, 2900, "qschedctl", ["qschedctl", "apply", "pretrain_gpt.job"], v2("/user.slice/user-0.slice/session-3.scope"))
    h.proc(3000, 1, "npu-exporter", ["npu-exporter", "--pretrain_gpt"], v2("/system.slice/npu-exporter.service"),
           fds=["/dev/davinci_manager", "/dev/hisi_hdc"])
    h.proc(3001, 1, "npu-smi", ["npu-smi", "info"], v2("/user.slice/user-0.slice/session-3.scope"), fds=["/dev/davinci1"])
    for i in range(8):
        h.device("0000:%02x:00.0" % (0x81 + i), dev_id=str(7 - i)) # the addresses run against the numbers
    h.write("var/lib/kubelet/cpu_manager_state", '{"policyName":"static","defaultCpuSet":"0-7,16-63","entries":'
            '{"d1d1d1d1-0000-1111-2222-333333333333":{"worker":"8-15"}},"checksum":2486283001}')
    h.write("var/lib/kubelet/config.yaml", 'apiVersion: kubelet.config.k8s.io/v1beta1\ncpuManagerPolicy: static\n'
            'reservedSystemCPUs: "0-3"\nkind: KubeletConfiguration\n')

def slurm():
    opt = "rw,nosuid,nodev,noexec,relatime"
    h = Host("slurm", "\n".join((
        "25 30 0:22 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:9 - tmpfs tmpfs ro,mode=755",
        "26 25 0:23 / /sys/fs/cgroup/unified %s shared:10 - cgroup2 cgroup2 rw" % opt,
        "27 25 0:24 / /sys/fs/cgroup/systemd %s shared:11 - cgroup cgroup rw,xattr,name=systemd" % opt,
        "33 25 0:30 / /sys/fs/cgroup/cpu,cpuacct %s shared:17 - cgroup cgroup rw,cpu,cpuacct" % opt,
        "34 25 0:31 / /sys/fs/cgroup/cpuset %s shared:18 - cgroup cgroup rw,cpuset" % opt,
        "35 25 0:32 / /sys/fs/cgroup/memory %s shared:19 - cgroup cgroup rw,memory" % opt, "")))
    kernel_threads(h)
    h.proc(1, 0, "systemd", ["/sbin/init"], "1:name=systemd:/init.scope\n0::/init.scope\n", start=1)
    g = "sys/fs/cgroup/"
    h.write(g + "unified/cgroup.controllers", "\n")
    h.write(g + "cpuset/cpuset.effective_cpus", "0-63\n")
    h.write(g + "cpuset/cpuset.cpus", "0-63\n")
    h.write(g + "cpuset/cpuset.mems", "0-1\n")
    step = "/slurm/uid_1000/job_77/step_0"
    h.write(g + "cpuset" + step + "/cpuset.cpus", "0-15\n") # an old kernel: no effective files, and an empty one below
    h.write(g + "cpuset" + step + "/cpuset.mems", "0\n")
    for i in range(2):
        task = step + "/task_%d" % i
        h.write(g + "cpuset" + task + "/cpuset.cpus", "\n")
        h.write(g + "cpu,cpuacct" + task + "/cpu.cfs_quota_us", "-1\n")
        h.write(g + "memory" + task + "/cgroup.procs", "%d\n" % (500 + i))
        h.write(g + "memory" + task + "/memory.numa_stat", "total=1000 N0=700 N1=300\nfile=200 N0=200 N1=0\nanon=800 N0=500 N1=300\n"
                "unevictable=0 N0=0 N1=0\nhierarchical_total=9999 N0=9999 N1=0\n")
        h.write(g + "memory" + task + "/memory.limit_in_bytes", "9223372036854771712\n")
        groups = ("12:cpuset:%s\n11:memory:%s\n4:cpu,cpuacct:%s\n1:name=systemd:/system.slice/slurmd.service\n0::/system.slice/slurmd.service\n"
                  % (task, task, task))
        h.proc(500 + i, 490, "python3", ["python3", "train.py"], groups, fds=["/dev/cambricon_ctl", "/dev/cambricon_dev%d" % (1 - i)],
               env=["SLURM_PROCID=%d" % i, "SLURM_LOCALID=%d" % i], cpus="0-15", mems="0", uid=1000)
    h.write(g + "cpu,cpuacct" + step + "/cpu.cfs_quota_us", "800000\n")
    h.write(g + "cpu,cpuacct" + step + "/cpu.cfs_period_us", "100000\n")
    h.write(g + "memory" + step + "/memory.limit_in_bytes", "68719476736\n")
    h.proc(490, 1, "slurmstepd", ["slurmstepd: [77.0]"], "12:cpuset:%s\n1:name=systemd:/system.slice/slurmd.service\n" % step)

def docker():
    opt = "rw,nosuid,nodev,noexec,relatime"
    h = Host("docker", "\n".join((
        "34 25 0:31 / /sys/fs/cgroup/cpuset %s shared:18 - cgroup cgroup rw,cpuset" % opt,
        "33 25 0:30 / /sys/fs/cgroup/cpu %s shared:17 - cgroup cgroup rw,cpu,cpuacct" % opt, "")))
    h.proc(1, 0, "systemd", ["/sbin/init"], "1:cpuset:/\n", start=1)
    g = "sys/fs/cgroup/"
    box = "/docker/" + "0123456789abcdef" * 4
    h.write(g + "cpuset/cpuset.effective_cpus", "0-31\n")
    h.write(g + "cpuset" + box + "/cpuset.effective_cpus", "5\n")
    h.write(g + "cpuset" + box + "/cpuset.effective_mems", "0\n")
    groups = "2:cpu,cpuacct:%s\n1:cpuset:%s\n" % (box, box)
    h.proc(700, 1, "python3", ["python3", "infer.py"], groups, fds=["/dev/kfd", "/dev/dri/renderD129"], cpus="5")
    h.proc(701, 1, "python3", ["python3", "infer.py"], groups,
           fds=["/dev/kfd", "/dev/dri/renderD128", "/dev/dri/renderD129"], env=["HIP_VISIBLE_DEVICES=0"], cpus="5")
    h.proc(702, 1, "Xorg", ["Xorg"], "1:cpuset:/\n", fds=["/dev/dri/renderD128"])
    h.proc(710, 1, "python3", ["python3", "cuda.py"], "1:cpuset:/\n", fds=["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0"])
    h.proc(711, 1, "nvidia-persiste", ["nvidia-persistenced"], "1:cpuset:/\n", fds=["/dev/nvidiactl"])
    for minor, pci in ((0, "0000:af:00.0"), (1, "0000:3b:00.0")):
        h.write("proc/driver/nvidia/gpus/%s/information" % pci, "Model: \t\t NVIDIA A100-SXM4-40GB\nIRQ:   \t\t 229\n"
                "Bus Location: \t %s\nDevice Minor: \t %d\nGPU Excluded:\t No\n" % (pci, minor))
    for n, pci in ((128, "0000:a1:00.0"), (129, "0000:21:00.0")): # the nodes run against the addresses
        h.link("sys/class/drm/renderD%d/device" % n, "../../../%s" % pci)

if __name__ == "__main__":
    k8s(); slurm(); docker()
