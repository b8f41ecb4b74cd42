/* SPDX-License-Identifier: Apache-2.0 */
/* What doctor finds on two recorded hosts (tests/data/doctor), and how that changes with one thing of each. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "common/text.h"
#include "daemon/readers/doctor.h"
#include "daemon/readers/irqbalance.h"
#include "daemon/readers/pins.h"
#include "daemon/readers/tasks.h"
#include "tests/unit/recorded-host.h"

#define N_CPUS 32U

typedef struct Host {
        Recorded files;
        Snapshot *snapshot;
        DoctorReport report;
        DoctorParams params;
} Host;

static Topology *topology(const char *online) {
        Topology *t = calloc(1, sizeof(*t));

        assert_non_null(t);
        assert_int_equal(bitset_parse(online, &t->online), 0);
        t->nodes = calloc(2, sizeof(TopologyNode));
        t->cpus = calloc(N_CPUS, sizeof(TopologyCpu));
        assert_true(t->nodes && t->cpus);
        t->n_nodes = 2;
        for (unsigned i = 0; i < 2; i++)
                t->nodes[i].os = i;
        BITSET_FOREACH (cpu, &t->online) {
                t->cpus[t->n_cpus++] = (TopologyCpu){ .os = (unsigned) cpu, .node = cpu >= 16, .core = (unsigned) cpu };
                assert_int_equal(bitset_set(&t->nodes[cpu >= 16].cpus, (unsigned) cpu), 0);
        }
        return t;
}

static void add_device(Snapshot *s, unsigned n, unsigned node) {
        Device *d = snapshot_add_device(s);

        assert_non_null(d);
        assert_true(asprintf(&d->name, "npu%u", n) > 0);
        assert_true(asprintf(&d->pci, "0000:%u:00.0", 81 + n) > 0);
        d->kind = strdup("ascend");
        d->node = node;
}

static void host_read(Host *h, const char *name) {
        bool sick = streq(name, "sick");
        char path[64];

        (void) snprintf(path, sizeof(path), "../doctor/%s", name);
        *h = (Host){ .files = recorded(path) };
        assert_int_equal(snapshot_new(&h->snapshot), 0);
        h->snapshot->topology = h->snapshot->owned_topology = topology(sick ? "0-30" : "0-31");
        add_device(h->snapshot, 0, sick ? 1 : 0);
        add_device(h->snapshot, 1, sick ? TOPOLOGY_NONE : 1);
        h->params.snapshot = h->snapshot;
}

static void host_tasks(Host *h) {
        _cleanup_(task_reader_freep) TaskReader *r = NULL;
        const TaskReadParams p = {};

        assert_int_equal(task_reader_new(h->files.root, &r), 0);
        assert_int_equal(tasks_read(r, &p, h->snapshot), 0);
        snapshot_sort(h->snapshot);
}

static Host host(const char *name) {
        Host h;

        host_read(&h, name);
        host_tasks(&h);
        return h;
}

static void host_done(Host *h) {
        doctor_report_done(&h->report);
        snapshot_free(h->snapshot);
        recorded_done(&h->files);
}

static void examine(Host *h) {
        doctor_report_done(&h->report);
        h->params.root = h->files.root;
        assert_int_equal(doctor_examine(&h->params, &h->report), 0);
}

static void put(const Host *h, const char *path, const char *text) {
        _cleanup_free_ char *full = path_join(h->files.root, path);
        char *slash;

        assert_non_null(full);
        slash = strrchr(full, '/');
        *slash = '\0';
        assert_int_equal(mkdir_parents(full, 0755), 0);
        *slash = '/';
        assert_int_equal(write_file_atomic(full, text, 0644), 0);
}

static void drop(const Host *h, const char *path) {
        _cleanup_free_ char *full = path_join(h->files.root, path);

        assert_int_equal(remove(full), 0);
}

/* The first finding of that check with that text in it. */
static const DoctorFinding *find(const Host *h, const char *check, const char *text) {
        const DoctorFinding *any = NULL;

        for (size_t i = 0; i < h->report.n_findings; i++) {
                const DoctorFinding *f = &h->report.findings[i];

                if (!streq(f->check->name, check))
                        continue;
                any = any ?: f;
                if (strstr(f->sentence, text))
                        return f;
        }
        fail_msg("%s: no finding with \"%s\", but %s", check, text, any ? any->sentence : "none at all");
        return NULL;
}

static void assert_found(const Host *h, const char *check, DoctorLevel level, const char *text, const char *remedy) {
        const DoctorFinding *f = find(h, check, text);

        if (f->level != level)
                fail_msg("%s is %s, not %s: %s", check, doctor_level_names[f->level], doctor_level_names[level],
                         f->sentence);
        if (!remedy)
                assert_null(f->remedy);
        else if (!f->remedy || !strstr(f->remedy, remedy))
                fail_msg("%s: the remedy lacks \"%s\": %s", check, remedy, f->remedy ? f->remedy : "(none)");
}

typedef struct Expected {
        const char *check;
        DoctorLevel level;
        const char *text, *remedy;
} Expected;

static void assert_all(const Host *h, const Expected *e, size_t n) {
        for (size_t i = 0; i < n; i++)
                assert_found(h, e[i].check, e[i].level, e[i].text, e[i].remedy);
}

static void test_sick(void **state) {
        static const Expected expected[] = {
                { "daemon", DOCTOR_WARNING, "does not run: nothing is placed, and 4 processes on 2 devices",
                  "systemctl" },
                { "systemd", DOCTOR_WARNING, "not the init", "boot the host" },
                { "polkit", DOCTOR_NOTE, "not installed", "Install polkit" },
                { "cgroup", DOCTOR_NOTE, "are v1, the cpuset controller at /sys/fs/cgroup/cpuset:", "unified" },
                { "kernel", DOCTOR_WARNING, "5.2.14-old.aarch64 has no pidfd", "5.10" },
                { "btf", DOCTOR_NOTE, "no type information", "CONFIG_DEBUG_INFO_BTF" },
                { "irqbalance", DOCTOR_WARNING, "(pid 300), and 3 of 4 vectors of devices (200-203)", "--banirq" },
                { "rivals", DOCTOR_PROBLEM, "numad (pid 301)", "disable --now numad" },
                { "rivals", DOCTOR_WARNING, "tuned (pid 302) runs with the profile cpu-partitioning", "tuned-adm" },
                { "rivals", DOCTOR_WARNING,
                  "slurmd (pid 303) runs with TaskPlugin=task/affinity,task/cgroup:", "--cpu-bind=none" },
                { "kubelet", DOCTOR_WARNING,
                  "has given CPUs 8-11 to guaranteed pods and may give 2-7,12-30, and its "
                  "topology manager has the policy none",
                  "topologyManagerPolicy" },
                { "numa-balancing", DOCTOR_WARNING, "(kernel.numa_balancing = 1) over 2 nodes", "numa_balancing=0" },
                { "zone-reclaim", DOCTOR_WARNING, "zone_reclaim_mode = 1", "zone_reclaim_mode=0" },
                { "huge-pages", DOCTOR_WARNING, "defrag = always", "echo madvise" },
                { "swap", DOCTOR_WARNING, "3 GiB of 8 GiB", "swappiness=1" },
                { "governor", DOCTOR_WARNING,
                  "31 of 31 CPUs have another frequency governor than performance (ondemand, "
                  "driver cppc_cpufreq)",
                  "cpupower" },
                { "isolation", DOCTOR_WARNING,
                  "1 process may run on isolated CPUs only (28-31), where the kernel does not "
                  "spread threads: pid 730 (python3) with 3 threads",
                  "isolcpus" },
                { "isolation", DOCTOR_NOTE, "2 CPUs go without a tick (nohz_full=28-29)", "nohz_full" },
                { "smt", DOCTOR_OK, "core of its own", NULL },
                { "offline", DOCTOR_WARNING, "1 of 32 CPUs are offline (31)", "online" },
                { "device-node", DOCTOR_WARNING, "1 of 2 devices do not tell their NUMA node (npu1 at 0000:82:00.0)",
                  "NUMANode=" },
                { "device-irqs", DOCTOR_WARNING, "All 4 vectors of 2 devices go to one CPU, 0",
                  "0000:81:00.0/msi_irqs" },
                { "cpu-wall", DOCTOR_PROBLEM,
                  "1 of 2 accelerator processes may not use any CPU of their device's node: pid "
                  "700 (python3, docker 0123456789ab) may use 0-7, its device is at 16-30",
                  "docker update" },
                { "memory-wall", DOCTOR_WARNING, "pid 700 (python3) node 0, its device node 1", "cpuset.mems" },
                { "pins", DOCTOR_WARNING,
                  "1 accelerator process has CPU_AFFINITY_CONF=2, by which torch_npu pins its "
                  "threads (pid 700)",
                  "CPU_AFFINITY_CONF=0" },
                { "pins", DOCTOR_WARNING, "OMP_PROC_BIND=close", "OMP_PROC_BIND=false" },
                { "pins", DOCTOR_WARNING, "1 accelerator process has OMP_PLACES=cores", "OMP_PROC_BIND=false" },
                { "vllm-ascend", DOCTOR_WARNING, "1 vLLM worker on Ascend without enable_cpu_binding off",
                  "--additional-config '{\"enable_cpu_binding\": false}'" },
                { "masks", DOCTOR_WARNING, "3 of 4 accelerator processes have fewer CPUs than the owner allows",
                  "taskset -acp 0-30 7" },
                { "masks", DOCTOR_WARNING, "pid 710 (VLLM::Worker_TP) 16-19, 4 of 31", "taskset" },
                { "shared", DOCTOR_WARNING,
                  "1 pair of accelerator processes is pinned to the same CPUs: pid 710 and pid "
                  "720 share 2 CPUs",
                  "qschedctl plan" },
        };
        _cleanup_(host_done) Host h = host("sick");

        examine(&h);
        assert_all(&h, expected, ELEMENTSOF(expected));
        assert_int_equal(doctor_worst(&h.report), DOCTOR_PROBLEM);
        for (size_t i = 0; i < h.report.n_findings; i++) {
                assert_null(strstr(h.report.findings[i].sentence, "secret"));
                assert_null(strstr(h.report.findings[i].sentence, "SLURM_CPU_BIND")); /* "none" is among its words */
        }
}

static void test_well(void **state) {
        _cleanup_(host_done) Host h = host("well");

        h.params.daemon_runs = true;
        examine(&h);
        assert_int_equal(h.snapshot->n_tasks, 2);
        for (size_t i = 0; i < h.report.n_findings; i++)
                if (h.report.findings[i].level != DOCTOR_OK)
                        fail_msg("%s: %s", h.report.findings[i].check->name, h.report.findings[i].sentence);
        assert_found(&h, "irqbalance", DOCTOR_OK, "all 4 vectors of devices banned (by its command line)", NULL);
        assert_found(&h, "vllm-ascend", DOCTOR_OK, "2 vLLM workers on Ascend: their own binding is off", NULL);
}

/* Each check says something, ok or not, on any host; names are not used twice. */
static void test_table(void **state) {
        static const char *const names[] = { "sick", "well" };

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                _cleanup_(host_done) Host h = host(names[i]);

                examine(&h);
                for (const DoctorCheck *c = doctor_checks; c->name; c++) {
                        (void) find(&h, c->name, "");
                        for (const DoctorCheck *other = doctor_checks; other < c; other++)
                                assert_string_not_equal(other->name, c->name);
                }
        }
}

static void test_settings(void **state) {
        _cleanup_(host_done) Host h = host("well");

        put(&h, "proc/sys/kernel/numa_balancing", "2\n");
        put(&h, "sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
        put(&h, "proc/meminfo", "MemTotal: 9 kB\nSwapTotal:  1048576 kB\nSwapFree:   1048000 kB\n");
        put(&h, "sys/devices/system/cpu/cpu5/cpufreq/scaling_governor", "powersave\n");
        put(&h, "sys/devices/system/cpu/cpu5/cpufreq/scaling_driver", "intel_pstate\n");
        put(&h, "sys/devices/system/cpu/isolated", "31\n");
        put(&h, "sys/devices/system/cpu/online", "0-15\n");
        put(&h, "sys/devices/system/cpu/smt/control", "off\n");
        put(&h, "proc/sys/kernel/osrelease", "5.10.0-216.0.0.115.oe2203sp4.aarch64\n");
        examine(&h);
        assert_found(&h, "numa-balancing", DOCTOR_NOTE, "between fast and slow memory", NULL);
        assert_found(&h, "huge-pages", DOCTOR_NOTE, "are off", "madvise");
        assert_found(&h, "swap", DOCTOR_OK, "next to nothing is used", NULL);
        assert_found(&h, "governor", DOCTOR_NOTE, "1 of 32 CPUs", "cpupower");
        assert_found(&h, "isolation", DOCTOR_NOTE, "1 CPU is isolated (31)", "isolcpus");
        assert_found(&h, "offline", DOCTOR_NOTE, "16 of 32 CPUs are offline (16-31), because SMT is off",
                     "smt/control");
        assert_found(&h, "kernel", DOCTOR_NOTE, "MPOL_PREFERRED_MANY", "5.15");
        for (unsigned i = 16; i < N_CPUS; i++)
                h.snapshot->owned_topology->cpus[i].smt = 1;
        examine(&h);
        assert_found(&h, "smt", DOCTOR_OK, "SMT is on: the 32 CPUs are up to 2 per core", NULL);
        h.snapshot->owned_topology->n_nodes = 1; /* nothing is remote: balancing has nothing to move */
        put(&h, "proc/sys/kernel/numa_balancing", "1\n");
        for (size_t i = 0; i < h.snapshot->n_devices; i++)
                h.snapshot->devices[i].node = TOPOLOGY_NONE;
        examine(&h);
        assert_found(&h, "numa-balancing", DOCTOR_OK, "on 1 node", NULL);
        assert_found(&h, "device-node", DOCTOR_OK, "none is without", NULL);
        h.snapshot->owned_topology->n_nodes = 2;
}

/* What cannot be read is unknown, not ok; what the kernel does not have is neither. */
static void test_unknown(void **state) {
        _cleanup_(host_done) Host h = host("well");

        put(&h, "proc/sys/kernel/numa_balancing", "yes\n");
        put(&h, "sys/devices/system/cpu/isolated", "a-b\n");
        put(&h, "proc/sys/kernel/osrelease", "Linux\n");
        put(&h, "var/lib/kubelet/cpu_manager_state", "{");
        drop(&h, "proc/meminfo");
        drop(&h, "sys/devices/system/cpu/present");
        drop(&h, "proc/sys/vm/zone_reclaim_mode");
        examine(&h);
        assert_found(&h, "numa-balancing", DOCTOR_UNKNOWN, "could not be looked at", NULL);
        assert_found(&h, "isolation", DOCTOR_UNKNOWN, "could not be looked at", NULL);
        assert_found(&h, "kernel", DOCTOR_UNKNOWN, "\"Linux\"", NULL);
        assert_found(&h, "kubelet", DOCTOR_UNKNOWN, "could not be looked at", NULL);
        assert_found(&h, "swap", DOCTOR_UNKNOWN, "No such file", NULL);
        assert_found(&h, "offline", DOCTOR_UNKNOWN, "No such file", NULL);
        assert_found(&h, "zone-reclaim", DOCTOR_OK, "", NULL);
        assert_int_equal(doctor_worst(&h.report), DOCTOR_WARNING); /* the daemon does not run */
}

static void test_cgroup(void **state) {
        _cleanup_(host_done) Host h = host("well");

        put(&h, "sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
        examine(&h);
        assert_found(&h, "cgroup", DOCTOR_WARNING,
                     "v2 at /sys/fs/cgroup without the cpuset controller (there: cpu memory)", "CONFIG_CPUSETS");
        put(&h, "proc/self/mountinfo", "22 28 0:21 / /proc rw - proc proc rw\n");
        examine(&h);
        assert_found(&h, "cgroup", DOCTOR_WARNING, "No control groups", "mount");
}

static void test_kubelet(void **state) {
        _cleanup_(host_done) Host h = host("well");

        put(&h, "var/lib/kubelet/cpu_manager_state", "{\"policyName\":\"none\",\"defaultCpuSet\":\"\",\"checksum\":1}");
        put(&h, "var/lib/kubelet/config.yaml", "topologyManagerPolicy: \"restricted\" # ours\n");
        examine(&h);
        assert_found(&h, "kubelet", DOCTOR_NOTE, "policy none: all pods share all CPUs", NULL);
        put(&h, "var/lib/kubelet/cpu_manager_state", "{\"policyName\":\"static\",\"defaultCpuSet\":\"0-31\"}");
        examine(&h);
        assert_found(&h, "kubelet", DOCTOR_NOTE, "(topology manager: restricted, memory manager: None)", NULL);
}

static void test_vectors(void **state) {
        _cleanup_(host_done) Host h = host("well");

        put(&h, "proc/irq/200/effective_affinity_list", "17\n");
        put(&h, "proc/irq/202/effective_affinity_list", "\n"); /* has not fired: what was asked for counts */
        put(&h, "proc/irq/202/smp_affinity_list", "3\n");
        examine(&h);
        assert_found(&h, "device-irqs", DOCTOR_WARNING,
                     "2 of 4 vectors go to CPUs of another node than their device's "
                     "(npu0 1 of 2, npu1 1 of 2)",
                     "smp_affinity_list");
        put(&h, "sys/bus/pci/devices/0000:82:00.0/numa_node", "-1\n"); /* the bridge above told */
        examine(&h);
        assert_found(&h, "device-node", DOCTOR_NOTE, "1 of 2 devices say numa_node -1 themselves (npu1)", NULL);
}

static void test_masks(void **state) {
        static const pid_t ours[] = { 710, 720, 730 };
        _cleanup_(host_done) Host h = host("sick");

        h.params.daemon_runs = true;
        h.params.applied = ours;
        h.params.n_applied = ELEMENTSOF(ours);
        examine(&h);
        assert_found(&h, "daemon", DOCTOR_OK, "has placed 3 processes", NULL);
        assert_found(&h, "masks", DOCTOR_OK, "None of 4 processes", NULL); /* 700 has all that its container allows */
        h.params.daemon_runs = false; /* killed: its journal tells of two that live, one that is gone, one of before */
        h.params.n_applied = 0;
        h.params.journal = "/run/qsched/undo.journal";
        put(&h, "run/qsched/undo.journal",
            "{\"t\":\"boot\",\"boot\":\"x\"}\n{\"t\":\"begin\",\"id\":7,\"job\":\"j\"}\n"
            "{\"t\":\"affinity\",\"id\":7,\"job\":\"j\",\"pid\":710,\"start\":7100,\"tid\":710,\"old\":\"0-30\"}\n"
            "{\"t\":\"affinity\",\"id\":7,\"job\":\"j\",\"pid\":710,\"start\":7100,\"tid\":5711,\"old\":\"0-30\"}\n"
            "{\"t\":\"cgroup\",\"id\":7,\"job\":\"j\",\"pid\":730,\"start\":7300}\n"
            "{\"t\":\"affinity\",\"id\":7,\"job\":\"j\",\"pid\":731,\"start\":7310,\"tid\":731}\n"
            "{\"t\":\"affinity\",\"id\":7,\"job\":\"j\",\"pid\":730,\"start\":7299,\"tid\":730}\n"
            "{\"t\":\"affinity\",\"id\":7,\"job\":\"j\",\"pid\":720,\"start\":7200,\"tid\":720}\n"
            "{\"t\":\"aff");
        examine(&h);
        assert_found(&h, "daemon", DOCTOR_WARNING,
                     "masks of 2 processes stay as it left them (/run/qsched/undo.journal)", "start qschedd");
        assert_found(
                &h, "masks", DOCTOR_WARNING,
                "1 of 4 accelerator processes has fewer CPUs than the owner allows, and qschedd did not do it: pid 730",
                "taskset");
        h.params.daemon_error = "Access denied";
        examine(&h);
        assert_found(&h, "daemon", DOCTOR_WARNING, "does not answer: Access denied", "journalctl");
}

/* One thread of a process is pinned, the others are not. */
static void test_narrow_thread(void **state) {
        _cleanup_(host_done) Host h = host("well");

        put(&h, "proc/710/task/5711/status",
            "Name:\tx\nUid:\t0\t0\t0\t0\nCpus_allowed_list:\t3-4\nMems_allowed_list:\t0-1\n");
        examine(&h);
        assert_found(&h, "masks", DOCTOR_WARNING,
                     "1 of 2 accelerator processes has fewer CPUs than the owner allows, and qschedd "
                     "did not do it: pid 710 (VLLM::Worker_TP) in 1 of ",
                     "taskset -acp 0-31 710");
        assert_found(&h, "shared", DOCTOR_OK, "", NULL);
}

static void test_vllm(void **state) {
        static const char on[] = "vllm\0serve\0--additional-config={\"enable_cpu_binding\":true}";
        _cleanup_(host_done) Host h = host("well");
        _cleanup_free_ char *path = path_join(h.files.root, "proc/705/cmdline");
        FILE *f = fopen(path, "we");

        assert_non_null(f);
        assert_int_equal(fwrite(on, sizeof(on), 1, f), 1);
        assert_int_equal(fclose(f), 0);
        examine(&h);
        assert_found(&h, "vllm-ascend", DOCTOR_WARNING,
                     "2 vLLM workers on Ascend with enable_cpu_binding on (pids 710, 711)", "false");
        put(&h, "proc/sys/kernel/arch", "x86_64\n");
        examine(&h);
        assert_found(&h, "vllm-ascend", DOCTOR_OK, "on x86 they do not bind", NULL);
}

/* An irqbalance of the test's own, which answers one request. */
static pid_t serve_irqbalance(const Host *h, const char *answer) {
        struct sockaddr_un a = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        pid_t pid;

        assert_true(snprintf(a.sun_path, sizeof(a.sun_path), "%s/run/irqbalance", h->files.root) > 0);
        assert_int_equal(mkdir_parents(a.sun_path, 0755), 0);
        assert_true(snprintf(a.sun_path, sizeof(a.sun_path), "%s/run/irqbalance/irqbalance300.sock", h->files.root) >
                    0);
        assert_int_equal(bind(fd, (struct sockaddr *) &a, sizeof(a)), 0);
        assert_int_equal(listen(fd, 1), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                char request[64] = "";
                int peer;

                alarm(20);
                peer = accept(fd, NULL, NULL);
                if (peer < 0 || read(peer, request, sizeof(request) - 1) < 0 || !streq(request, "setup"))
                        _exit(1);
                _exit(write(peer, answer, strlen(answer)) < 0);
        }
        (void) close(fd);
        return pid;
}

static void test_irqbalance(void **state) {
        _cleanup_(host_done) Host h = host("sick");
        static const char script[] = "irqbalance\0--policyscript=/etc/ban\0";
        _cleanup_free_ char *cmdline = path_join(h.files.root, "proc/300/cmdline"),
                            *comm = path_join(h.files.root, "proc/300/comm");
        int status;
        pid_t pid;
        FILE *f;

        f = fopen(comm, "we");
        assert_non_null(f);
        assert_true(fputs("irqbalance\n", f) >= 0);
        assert_int_equal(fclose(f), 0);
        pid = serve_irqbalance(&h,
                               "SLEEP 10 IRQ 200 LOAD 0 DIFF 0 COUNT 3 CLASS 0 IRQ 201 LOAD 0 DIFF 0 COUNT 0 CLASS 0 "
                               "IRQ 202 LOAD 0 DIFF 0 COUNT 0 CLASS 0 BANNED 00000000,00000003");
        examine(&h);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_found(&h, "irqbalance", DOCTOR_WARNING,
                     "1 of 4 vectors of devices (200-203) are not banned from it (it says)", "--banirq");
        f = fopen(cmdline, "we"); /* nobody listens any more: the command line counts again */
        assert_non_null(f);
        assert_int_equal(fwrite(script, sizeof(script) - 1, 1, f), 1);
        assert_int_equal(fclose(f), 0);
        examine(&h);
        assert_found(&h, "irqbalance", DOCTOR_NOTE, "with a policy script, which decides about 4 of 4", "ban=true");
        h.snapshot->devices[0].pci[0] = h.snapshot->devices[1].pci[0] = 'f'; /* no vectors there */
        examine(&h);
        assert_found(&h, "irqbalance", DOCTOR_NOTE, "no device here has vectors", NULL);
        assert_found(&h, "device-irqs", DOCTOR_OK, "None of 2 devices", NULL);
}

static void test_irqbalance_setup(void **state) {
        static const char *const bad[] = { "",
                                           "SLEEP 10 ",
                                           "IRQ 5 BANNED 0",
                                           "SLEEP 10 IRQ x BANNED 0",
                                           "SLEEP 10 IRQ 99999999 BANNED 0",
                                           "SLEEP 10 IRQ -1 BANNED 0" };
        Bitset b = BITSET_EMPTY;

        assert_int_equal(irqbalance_parse_setup("SLEEP 10 BANNED 3 ", &b), 0);
        assert_true(bitset_isempty(&b));
        assert_int_equal(irqbalance_parse_setup("SLEEP 10 IRQ 7 LOAD 1 DIFF 2 COUNT 3 CLASS 4 BANNED IRQ 9", &b), 0);
        assert_true(bitset_test(&b, 7) && bitset_weight(&b) == 1);
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                assert_int_equal(irqbalance_parse_setup(bad[i], &b), -EBADMSG);
        assert_int_equal(bitset_weight(&b), 1); /* untouched */
        bitset_done(&b);
}

static void test_words(void **state) {
        static const char *const off[] = { "0", "none", NULL };

        assert_true(pin_is_off("0", off));
        assert_true(pin_is_off("quiet,NONE", off));
        assert_true(pin_is_off("0,npu0:0-3", off));
        assert_false(pin_is_off("1,npu0:0-0", off));
        assert_false(pin_is_off("", off));
        assert_int_equal(pin_parse_binding_switch("vllm serve /m"), -ENOENT);
        assert_int_equal(pin_parse_binding_switch("--additional-config {\"enable_cpu_binding\": false}"), 0);
        assert_int_equal(pin_parse_binding_switch("--additional-config={\"enable_cpu_binding\":true,\"a\":false}"), 1);
        assert_int_equal(pin_parse_binding_switch("--additional-config.enable_cpu_binding=False"), 0);
        assert_int_equal(pin_parse_binding_switch("enable_cpu_binding"), -ENOENT);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sick),
                cmocka_unit_test(test_well),
                cmocka_unit_test(test_table),
                cmocka_unit_test(test_settings),
                cmocka_unit_test(test_unknown),
                cmocka_unit_test(test_cgroup),
                cmocka_unit_test(test_kubelet),
                cmocka_unit_test(test_vectors),
                cmocka_unit_test(test_masks),
                cmocka_unit_test(test_vllm),
                cmocka_unit_test(test_narrow_thread),
                cmocka_unit_test(test_irqbalance),
                cmocka_unit_test(test_irqbalance_setup),
                cmocka_unit_test(test_words),
        };

        return cmocka_run_group_tests_name("doctor", tests, NULL, NULL);
}
