/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks of recorded hosts (tests/data/proc), the parsers, and live processes of the test's own. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "common/text.h"
#include "daemon/readers/process.h"
#include "daemon/readers/rank-identity.h"
#include "daemon/readers/tasks.h"
#include "tests/unit/recorded-host.h"

static void assert_set(const Bitset *b, const char *list) {
        _cleanup_free_ char *text = NULL;

        assert_int_equal(bitset_format(b, &text), 0);
        assert_string_equal(text, list);
}

static Topology *topology(const char *online, unsigned n_nodes) {
        Topology *t = calloc(1, sizeof(*t));

        assert_non_null(t);
        assert_int_equal(bitset_parse(online, &t->online), 0);
        t->nodes = calloc(n_nodes, sizeof(TopologyNode));
        assert_non_null(t->nodes);
        t->n_nodes = n_nodes;
        for (unsigned i = 0; i < n_nodes; i++)
                t->nodes[i].os = i;
        return t;
}

static Snapshot *snapshot(const char *online, unsigned n_nodes) {
        Snapshot *s;

        assert_int_equal(snapshot_new(&s), 0);
        s->topology = s->owned_topology = topology(online, n_nodes);
        return s;
}

static void add_devices(Snapshot *s, const char *kind, unsigned n) {
        for (unsigned i = 0; i < n; i++) {
                Device *d = snapshot_add_device(s);

                assert_non_null(d);
                assert_true(asprintf(&d->name, "%s%u", kind, i) > 0);
                d->kind = strdup(kind);
        }
}

static void set_pci(Device *d, const char *pci) {
        free(d->pci);
        d->pci = strdup(pci);
}

static const Task *task(const Snapshot *s, pid_t pid) {
        const Task *t = snapshot_task(s, pid);

        if (!t)
                fail_msg("pid %d is no task", (int) pid);
        return t;
}

static void assert_devices(const Task *t, size_t n, ...) {
        va_list ap;

        assert_int_equal(t->n_devices, n);
        va_start(ap, n);
        for (size_t i = 0; i < n; i++)
                assert_int_equal(t->devices[i], va_arg(ap, unsigned));
        va_end(ap);
}

/* A job with one section, for Match=. */
typedef struct TestJob {
        Job job;
        Ranks ranks;
        Match match;
        const Job *list[1];
} TestJob;

static void test_job(TestJob *j, MatchKind kind, const char *pattern, pid_t *pid) {
        *j = (TestJob){ .match = { .kind = kind, .pattern = (char *) pattern, .pids = pid, .n_pids = pid ? 1 : 0 } };
        j->ranks.match = &j->match;
        j->job = (Job){ .name = (char *) "train", .ranks = &j->ranks, .n_ranks = 1 };
        j->list[0] = &j->job;
}

static void read_once(const char *root, const TaskReadParams *p, Snapshot *s) {
        _cleanup_(task_reader_freep) TaskReader *r = NULL;

        assert_int_equal(task_reader_new(root, &r), 0);
        assert_int_equal(tasks_read(r, p, s), 0);
}

/* ---- parsers ---- */

static void test_stat(void **state) {
        ProcStat s;

        assert_int_equal(
                proc_parse_stat("7 (a) b (c) ) R 3 7 7 0 -1 2129984 1 2 3 4 11 12 -13 14 20 0 5 0 987654321987 1 2\n",
                                &s),
                0);
        assert_int_equal(s.pid, 7);
        assert_string_equal(s.comm, "a) b (c) ");
        assert_int_equal(s.state, 'R');
        assert_int_equal(s.parent, 3);
        assert_true(s.kernel);
        assert_int_equal(s.utime, 11);
        assert_int_equal(s.stime, 12);
        assert_int_equal(s.threads, 5);
        assert_true(s.start_time == UINT64_C(987654321987));
        static const char *const bad[] = { "",
                                           "7",
                                           "7 (x",
                                           "7 x) R 1",
                                           "7 (x) ",
                                           "7 (x)",
                                           "-1 (x) R 1 2 3",
                                           "7 (x) R 3 7 7 0 -1 4194304 1 2",
                                           ")7( R 1",
                                           "99999999999999 (x) R 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1" };
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                assert_int_equal(proc_parse_stat(bad[i], &s), -EBADMSG);
        assert_int_equal(s.pid, 7); /* untouched */
}

static void test_status(void **state) {
        ProcStatus s;

        assert_int_equal(
                proc_parse_status("Name:\tx\nUid:\t1000\t0\t0\t0\nCpus_allowed_list:\t0-3,8\nMems_allowed_list:\t1\n",
                                  &s),
                0);
        assert_int_equal(s.uid, 1000);
        assert_set(&s.cpus, "0-3,8");
        assert_set(&s.mems, "1");
        proc_status_done(&s);
        /* A name cannot pass for a field: the kernel escapes its newlines, and it stands after "Name:". */
        assert_int_equal(proc_parse_status("Name:\tUid:\t5\nUid:\t1\t1\nCpus_allowed_list:\t0\n", &s), 0);
        assert_int_equal(s.uid, 1);
        proc_status_done(&s);
        assert_true(proc_parse_status("Uid:\t1\nCpus_allowed_list:\t3-1\n", &s) < 0);
        assert_int_equal(proc_parse_status("Uid:\t1\n", &s), -EBADMSG);
        assert_int_equal(proc_parse_status("", &s), -EBADMSG);
}

static void test_numa_maps(void **state) {
        Topology *t = topology("0-1", 2);
        uint64_t bytes[2] = {};

        t->nodes[1].os = 4;
        proc_add_numa_maps("7f00 default file=/lib/N0=9 mapped=3 N0=1 N4=2 kernelpagesize_kB=4\n"
                           "7f10 bind:4 huge anon=2 dirty=2 N4=2 kernelpagesize_kB=2048\n"
                           "7f20 default anon=5 N0=5\n"
                           "7f30 default N9=7 N=3 Nx=1 N0 kernelpagesize_kB=4\nN",
                           t, bytes);
        assert_true(bytes[0] == (1 + 5) * 4096);
        assert_true(bytes[1] == 2 * 4096 + (UINT64_C(4) << 20));
        topology_free(t);
}

static int rank_of(const char *block, size_t size) {
        return environ_rank(block, size);
}
#define RANK_OF(s) rank_of(s, sizeof(s) - 1)

static void test_rank(void **state) {
        assert_int_equal(RANK_OF("A=1\0RANK=3\0LOCAL_RANK=1\0"), 3);
        assert_int_equal(RANK_OF("SLURM_PROCID=0\0RANK=5\0"), 5); /* torchrun under srun */
        assert_int_equal(RANK_OF("OMPI_COMM_WORLD_RANK=2\0OMPI_COMM_WORLD_LOCAL_RANK=0\0"), 2);
        assert_int_equal(RANK_OF("PMI_RANK=4\0"), 4);
        assert_int_equal(RANK_OF("PMIX_RANK=6\0"), 6);
        assert_int_equal(RANK_OF("MV2_COMM_WORLD_RANK=7\0"), 7);
        assert_int_equal(RANK_OF("SLURM_PROCID=8\0"), 8);
        assert_int_equal(RANK_OF("LOCAL_RANK=1\0"), 1);
        assert_int_equal(RANK_OF("XRANK=3\0RANKS=3\0"), -1);
        assert_int_equal(RANK_OF("RANK=\0"), -1);
        assert_int_equal(RANK_OF("RANK=-1\0"), -1);
        assert_int_equal(RANK_OF("RANK=99999999999\0"), -1);
        assert_int_equal(RANK_OF(""), -1);
}

static void visible(const char *kind, const char *block, size_t size, const char *expected, const char *seen_list) {
        _cleanup_free_ unsigned *list = NULL;
        unsigned seen[8];
        size_t n = 0, n_seen = 0;
        char text[200] = "";
        Bitset b = BITSET_EMPTY;

        assert_int_equal(bitset_parse(seen_list, &b), 0);
        BITSET_FOREACH (i, &b)
                seen[n_seen++] = (unsigned) i;
        bitset_done(&b);
        int r = environ_visible_devices(block, size, kind, seen, n_seen, &list, &n);
        if (r == 0)
                (void) snprintf(text, sizeof(text), "unsaid");
        for (size_t i = 0; i < n; i++)
                (void) snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u", i ? " " : "", list[i]);
        assert_string_equal(text, expected);
}
#define VISIBLE(kind, s, expected, seen) visible(kind, s, sizeof(s) - 1, expected, seen)

static void test_visible_devices(void **state) {
        VISIBLE("ascend", "X=1\0", "unsaid", "");
        VISIBLE("ascend", "ASCEND_VISIBLE_DEVICES=0-3,5\0", "0 1 2 3 5", "");
        VISIBLE("ascend", "ASCEND_VISIBLE_DEVICES=5,0-1\0", "0 1 5", "");
        VISIBLE("ascend", "ASCEND_VISIBLE_DEVICES=4-7\0ASCEND_RT_VISIBLE_DEVICES=2\0", "6", "");
        VISIBLE("ascend", "ASCEND_VISIBLE_DEVICES=4-7\0ASCEND_RT_VISIBLE_DEVICES=3,0\0", "7 4", "");
        VISIBLE("ascend", "ASCEND_VISIBLE_DEVICES=4-7\0ASCEND_RT_VISIBLE_DEVICES=1,9,2\0", "5",
                ""); /* stops at what is not there */
        VISIBLE("ascend", "ASCEND_RT_VISIBLE_DEVICES=2,3\0", "2 3", "");
        VISIBLE("ascend", "ASCEND_RT_VISIBLE_DEVICES=0\0", "6", "6-7"); /* a container given nodes by --device */
        VISIBLE("ascend", "ASCEND_VISIBLE_DEVICES=Ascend910-3,Ascend910-1\0", "1 3", "");
        VISIBLE("ascend", "ASCEND_VISIBLE_DEVICES=3-1\0", "unsaid", "");
        VISIBLE("ascend", "ASCEND_VISIBLE_DEVICES=void\0", "unsaid", "");
        VISIBLE("nvidia", "NVIDIA_VISIBLE_DEVICES=all\0CUDA_VISIBLE_DEVICES=1\0", "1", "");
        VISIBLE("nvidia", "CUDA_VISIBLE_DEVICES=2,-1,3\0", "2", "");
        VISIBLE("nvidia", "CUDA_VISIBLE_DEVICES=GPU-8f2e,GPU-11\0", "unsaid", "");
        VISIBLE("nvidia", "NVIDIA_VISIBLE_DEVICES=GPU-8f2e\0CUDA_VISIBLE_DEVICES=0\0", "unsaid", "");
        VISIBLE("cambricon", "MLU_VISIBLE_DEVICES=1,3\0", "1 3", "");
        VISIBLE("hygon", "ROCR_VISIBLE_DEVICES=3,1\0HIP_VISIBLE_DEVICES=0\0", "3", "");
        VISIBLE("edu", "CUDA_VISIBLE_DEVICES=0\0", "unsaid", "");
        VISIBLE("ascend", "ASCEND_VISIBLE_DEVICES=0-99999999999\0", "unsaid", "");
}

/* ---- recorded hosts ---- */

static void test_holders(void **state) {
        _cleanup_(recorded_done) Recorded root = recorded("k8s");
        _cleanup_(snapshot_freep) Snapshot *s = snapshot("0-63", 2);
        char *ignore[] = { (char *) "npu-smi", (char *) "*exporter", NULL };

        add_devices(s, "ascend", 8);
        read_once(root.root, &(TaskReadParams){ .ignore = ignore }, s);
        assert_int_equal(s->n_tasks, 5); /* not the exporter, npu-smi, torchrun or a data loader */
        assert_null(s->warnings);

        const Task *t = task(s, 2000);
        assert_devices(t, 1, 0U);
        assert_string_equal(t->comm, "VLLM::Worker_TP");
        assert_string_equal(t->name, "VLLM::Worker_TP");
        assert_null(t->job);
        assert_int_equal(t->uid, 1000);
        assert_int_equal(t->rank, -1);
        assert_set(&t->cpus, "8-15");
        assert_set(&t->allowed_cpus, "8-15");
        assert_set(&t->mems, "1");
        assert_int_equal(t->owner_kind, OWNER_POD);
        assert_true(t->quota == 8);
        assert_non_null(t->memory_by_node);
        assert_true(t->memory_by_node[1] == 34359738368 + 8192);
        assert_true(isnan(t->cpu_use)); /* nothing to compare with yet */

        t = task(s, 1101);
        assert_devices(t, 1, 5U);
        assert_int_equal(t->rank, 9);
        assert_int_equal(t->threads, 3);
        assert_set(&t->cpus, "0-63");
        assert_set(&t->allowed_cpus, "4-63");
        assert_true(t->quota == 8); /* four ranks share 32 */
        assert_int_equal(t->n_children, 1);
        assert_int_equal(t->children[0].pid, 1202);
        assert_true(t->children[0].start_time == 100302);
        assert_devices(task(s, 1102), 1, 6U); /* holds 4 to 7, its runtime sees the third of those */

        t = task(s, 1100); /* the data loader holds its parent's descriptors, and has a child itself */
        assert_int_equal(t->n_children, 2);
        assert_int_equal(t->children[0].pid, 1200);
        assert_int_equal(t->children[1].pid, 1201);
        for (size_t i = 1; i < s->n_tasks; i++)
                assert_true(s->tasks[i - 1].start_time <= s->tasks[i].start_time);
}

static void test_physical_device(void **state) {
        _cleanup_(recorded_done) Recorded root = recorded("k8s");
        _cleanup_(snapshot_freep) Snapshot *s = snapshot("0-63", 2);

        /* The devices in order of address, whose driver counts them backwards. */
        add_devices(s, "ascend", 8);
        for (unsigned i = 0; i < 8; i++) {
                char pci[20];

                (void) snprintf(pci, sizeof(pci), "0000:%02x:00.0", 0x81 + i);
                set_pci(s->devices + i, pci);
        }
        read_once(root.root, &(TaskReadParams){}, s);
        assert_devices(task(s, 2000), 1, 7U);
        assert_devices(task(s, 1100), 1, 3U);
        assert_devices(task(s, 1102), 1, 1U);
        assert_int_equal(s->n_tasks, 6); /* npu-smi is a task when nobody ignores it */
}

static void test_device_nodes_known(void **state) {
        _cleanup_(recorded_done) Recorded root = recorded("k8s");
        _cleanup_(snapshot_freep) Snapshot *s = snapshot("0-63", 2);

        add_devices(s, "ascend", 2);
        assert_int_equal(strv_extend(&s->devices[0].nodes, "/dev/davinci5"), 0);
        assert_int_equal(strv_extend(&s->devices[1].nodes, "/dev/davinci4"), 0);
        read_once(root.root, &(TaskReadParams){}, s);
        assert_devices(task(s, 1100), 1, 1U);
        assert_devices(task(s, 1101), 1, 0U);
        assert_devices(task(s, 2000), 0); /* a holder all the same: its device is not in the snapshot */
}

static void test_launcher(void **state) {
        _cleanup_(recorded_done) Recorded root = recorded("k8s");
        _cleanup_(snapshot_freep) Snapshot *s = snapshot("0-63", 2);
        char *ignore[] = { (char *) "npu-*", NULL };
        RankList l = {};
        TestJob j;

        add_devices(s, "ascend", 8);
        test_job(&j, MATCH_CMDLINE, "*pretrain_gpt*", NULL);
        j.ranks.count = 4;
        read_once(root.root, &(TaskReadParams){ .ignore = ignore, .jobs = j.list, .n_jobs = 1 }, s);
        assert_null(snapshot_task(s, 1000)); /* torchrun itself, although it matches */
        assert_null(snapshot_task(s, 3000)); /* ignored, although it matches */
        assert_null(snapshot_task(s, 2900)); /* sudo qschedctl apply pretrain_gpt.job */
        assert_null(snapshot_task(s, 2901));
        assert_int_equal(task(s, 1103)->parent_task, 0);
        assert_int_equal(ranks_match(s, j.list, 1, &l), 0);
        assert_int_equal(l.n_ranks, 4);
        for (unsigned i = 0; i < 4; i++)
                assert_int_equal(l.ranks[i].task->pid, 1100 + i); /* by rank: the start times run the other way */
        rank_list_done(&l);
}

static void test_pid_wins(void **state) {
        _cleanup_(recorded_done) Recorded root = recorded("k8s");
        _cleanup_(snapshot_freep) Snapshot *s = snapshot("0-63", 2);
        pid_t pid = 1000;
        TestJob j;

        add_devices(s, "ascend", 8);
        test_job(&j, MATCH_PID, NULL, &pid);
        read_once(root.root, &(TaskReadParams){ .jobs = j.list, .n_jobs = 1 }, s);
        assert_int_equal(task(s, 1000)->parent_task, 0);
        assert_int_equal(task(s, 1000)->rank, -1); /* its RANK=0 is the pod's */
        assert_int_equal(task(s, 1103)->parent_task, 1000);
        assert_string_equal(task(s, 1103)->job, "train"); /* its family's */
        assert_int_equal(task(s, 1000)->n_children, 0);   /* they are ranks by themselves */
        assert_int_equal(task(s, 1101)->n_children, 1);
        assert_null(task(s, 2000)->job);
}

static void test_match_kinds(void **state) {
        static const struct {
                MatchKind kind;
                const char *pattern;
                pid_t pid;
        } cases[] = {
                { MATCH_COMM, "npu-exp*", 3000 },
                { MATCH_UNIT, "npu-exporter.service", 3000 },
                { MATCH_CGROUP, "/system.slice/*", 3000 },
                { MATCH_CMDLINE, "npu-exporter *", 3000 },
        };
        _cleanup_(recorded_done) Recorded root = recorded("k8s");

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(snapshot_freep) Snapshot *s = snapshot("0-63", 2);
                TestJob j;

                test_job(&j, cases[i].kind, cases[i].pattern, NULL);
                read_once(root.root, &(TaskReadParams){ .jobs = j.list, .n_jobs = 1 }, s);
                assert_devices(task(s, cases[i].pid), 0);
        }
}

static void test_extra(void **state) {
        _cleanup_(recorded_done) Recorded root = recorded("k8s");
        _cleanup_(snapshot_freep) Snapshot *s = snapshot("0-63", 2);
        const Process extra[] = { { 3000, 30000 }, { 3001, 1 /* reused */ }, { 1101, 100099 }, { 1202, 100302 } };
        const char *const jobs[] = { "solo", "solo", "train", "train" };

        read_once(root.root,
                  &(TaskReadParams){ .extra = extra,
                                     .extra_jobs = jobs,
                                     .n_extra = 4,
                                     .ignore = (char *[]){ (char *) "npu-*", NULL } },
                  s);
        assert_string_equal(task(s, 3000)->job, "solo"); /* given ones are never ignored */
        assert_null(snapshot_task(s, 3001));
        assert_string_equal(task(s, 1101)->job, "train");
        assert_null(snapshot_task(s, 1202)); /* noted because it was placed with its rank: still its child */
        assert_int_equal(task(s, 1101)->n_children, 1);
}

/* A holder that another program of the rank started is a task, and goes along with the rank; so do its own children. */
static void test_holder_below(void **state) {
        _cleanup_(recorded_done) Recorded root = recorded("slurm");
        _cleanup_(snapshot_freep) Snapshot *s = snapshot("0-63", 2);
        const Process extra[] = { { 490, 4900 } };
        const char *const jobs[] = { "outer" };
        pid_t pid = 501;
        TestJob j;

        add_devices(s, "cambricon", 2);
        test_job(&j, MATCH_PID, NULL, &pid);
        read_once(root.root,
                  &(TaskReadParams){ .extra = extra, .extra_jobs = jobs, .n_extra = 1, .jobs = j.list, .n_jobs = 1 },
                  s);
        assert_int_equal(task(s, 500)->parent_task, 490);
        assert_string_equal(task(s, 500)->job, "outer");
        assert_int_equal(task(s, 501)->parent_task, 490);
        assert_null(task(s, 501)->job);                /* another job asks for it */
        assert_int_equal(task(s, 490)->n_children, 0); /* both have ranks, which 490 has not */

        _cleanup_(snapshot_freep) Snapshot *k = snapshot("0-63", 2);
        const Process parent[] = { { 1202, 100302 } };
        _cleanup_(recorded_done) Recorded pods = recorded("k8s");
        pid_t loader = 1201;
        test_job(&j, MATCH_PID, NULL, &loader);
        j.job.name = (char *) "outer";
        read_once(pods.root,
                  &(TaskReadParams){ .extra = parent, .extra_jobs = jobs, .n_extra = 1, .jobs = j.list, .n_jobs = 1 },
                  k);
        assert_int_equal(task(k, 1201)->parent_task, 1100);
        assert_string_equal(task(k, 1202)->job, "outer");
}

static void test_slurm(void **state) {
        _cleanup_(recorded_done) Recorded root = recorded("slurm");
        _cleanup_(snapshot_freep) Snapshot *s = snapshot("0-63", 2);

        add_devices(s, "cambricon", 2);
        read_once(root.root, &(TaskReadParams){}, s);
        assert_int_equal(s->n_tasks, 2);
        const Task *t = task(s, 500);
        assert_devices(t, 1, 1U);
        assert_int_equal(t->rank, 0);
        assert_string_equal(t->owner, "job 77 step 0");
        assert_set(&t->allowed_cpus, "0-15");
        assert_true(t->quota == 4 && t->request == 4); /* half of the step's each */
        assert_non_null(t->memory_by_node);
}

static void test_hygon(void **state) {
        _cleanup_(recorded_done) Recorded root = recorded("docker");
        _cleanup_(snapshot_freep) Snapshot *s = snapshot("0-31", 1);

        add_devices(s, "hygon", 2);
        set_pci(s->devices, "0000:21:00.0");
        set_pci(s->devices + 1, "0000:a1:00.0");
        read_once(root.root, &(TaskReadParams){}, s);
        assert_null(snapshot_task(s, 702)); /* Xorg holds a render node, but not kfd */
        assert_devices(task(s, 700), 1, 0U);
        assert_devices(task(s, 701), 1, 0U); /* holds both, HIP_VISIBLE_DEVICES=0 */
        assert_set(&task(s, 700)->allowed_cpus, "5");
}

static void test_nvidia(void **state) {
        _cleanup_(recorded_done) Recorded root = recorded("docker");
        _cleanup_(snapshot_freep) Snapshot *s = snapshot("0-31", 1);

        add_devices(s, "nvidia", 2);
        set_pci(s->devices, "0000:3b:00.0");
        set_pci(s->devices + 1, "0000:af:00.0");
        read_once(root.root, &(TaskReadParams){}, s);
        assert_devices(task(s, 710), 1, 1U); /* minor 0 has the higher address */
        assert_null(snapshot_task(s, 711));  /* a control node only */
}

/* ---- live ---- */

static void *sleep_forever(void *arg) {
        if (arg) {
                Bitset b = BITSET_EMPTY;

                (void) bitset_set(&b, *(unsigned *) arg);
                (void) bitset_setaffinity(0, &b);
        }
        for (;;)
                (void) pause();
        return NULL;
}

/* Runs f in a child until it says that it is ready. */
static pid_t start(void (*f)(void *), void *arg) {
        int p[2];
        char c;

        assert_int_equal(pipe(p), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                f(arg);
                (void) !write(p[1], "x", 1);
                (void) sleep_forever(NULL);
        }
        (void) close(p[1]);
        assert_int_equal(read(p[0], &c, 1), 1);
        (void) close(p[0]);
        return pid;
}

static void end(pid_t pid) {
        (void) kill(pid, SIGKILL);
        (void) waitpid(pid, NULL, 0);
}

static void threads_apart(void *arg) {
        unsigned *cpus = arg;
        pthread_t t;
        Bitset b = BITSET_EMPTY;

        (void) bitset_set(&b, cpus[0]);
        (void) bitset_setaffinity(0, &b);
        for (unsigned i = 0; i < 3; i++)
                (void) pthread_create(&t, NULL, sleep_forever, i == 2 ? cpus + 1 : NULL);
        (void) usleep(100000);
}

static Snapshot *this_machine(void) {
        Bitset b = BITSET_EMPTY;
        _cleanup_free_ char *list = NULL;

        assert_int_equal(read_line_at(AT_FDCWD, "/sys/devices/system/cpu/online", &list), 0);
        assert_int_equal(bitset_parse(list, &b), 0);
        bitset_done(&b);
        return snapshot(list, 1);
}

static void test_live_threads(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = this_machine();
        Bitset own = BITSET_EMPTY;
        unsigned cpus[2];
        pid_t *tids;
        size_t n;
        uint64_t start_time;
        TestJob j;

        assert_int_equal(bitset_getaffinity(0, &own), 0);
        if (bitset_weight(&own) < 2) {
                bitset_done(&own);
                print_message("# fewer than two CPUs allowed here: masks of threads cannot differ\n");
                skip();
        }
        cpus[0] = (unsigned) bitset_first(&own);
        cpus[1] = (unsigned) bitset_next(&own, (int) cpus[0]);
        bitset_done(&own);
        pid_t pid = start(threads_apart, cpus);
        test_job(&j, MATCH_PID, NULL, &pid);
        read_once("", &(TaskReadParams){ .jobs = j.list, .n_jobs = 1 }, s);
        const Task *t = task(s, pid);
        assert_int_equal(t->threads, 4);
        assert_int_equal(bitset_weight(&t->cpus), 2);
        assert_true(bitset_test(&t->cpus, cpus[0]) && bitset_test(&t->cpus, cpus[1]));
        assert_true(bitset_subset(&t->cpus, &t->allowed_cpus));

        assert_int_equal(process_threads(pid, &tids, &n), 0);
        assert_int_equal(n, 4);
        free(tids);
        assert_int_equal(process_start_time(pid, &start_time), 0);
        assert_true(start_time == t->start_time);
        assert_int_equal(process_is(pid, start_time), 1);
        assert_int_equal(process_is(pid, start_time + 1), 0);
        pid_t parent;
        assert_int_equal(process_parent(pid, &parent), 0);
        assert_int_equal(parent, getpid());
        (void) kill(pid, SIGKILL);
        siginfo_t info;
        assert_int_equal(waitid(P_PID, (id_t) pid, &info, WEXITED | WNOWAIT), 0);
        assert_int_equal(process_is(pid, start_time), 0); /* a zombie is gone */
        end(pid);
        assert_int_equal(process_is(pid, start_time), 0);
        assert_int_equal(process_start_time(pid, &start_time), -ESRCH);
        assert_int_equal(process_threads(pid, &tids, &n), -ESRCH);
        uid_t uid;
        assert_int_equal(process_uid(pid, &uid), -ESRCH);
}

static void spin_in_child(void *arg) {
        if (fork() == 0)
                for (;;)
                        ;
}

static double now_seconds(void) {
        struct timespec ts;

        (void) clock_gettime(CLOCK_MONOTONIC, &ts);
        return (double) ts.tv_sec + (double) ts.tv_nsec / 1e9;
}

static double cpu_seconds(pid_t pid) {
        _cleanup_close_ int proc_fd = proc_open("");
        ProcStat s;

        assert_int_equal(proc_read_stat(proc_fd, pid, &s), 0);
        return (double) (s.utime + s.stime) / (double) sysconf(_SC_CLK_TCK);
}

static double read_use(TaskReader *r, const TaskReadParams *p, pid_t pid, pid_t *ret_child) {
        _cleanup_(snapshot_freep) Snapshot *s = this_machine();

        assert_int_equal(tasks_read(r, p, s), 0);
        const Task *t = task(s, pid);
        *ret_child = t->n_children == 1 ? t->children[0].pid : 0;
        return t->cpu_use;
}

/* The machine may be busy otherwise: what is counted is compared with what the kernel says before and after. */
static void test_live_use(void **state) {
        _cleanup_(task_reader_freep) TaskReader *r = NULL;
        TestJob j;
        pid_t pid = start(spin_in_child, NULL), child = 0;
        const TaskReadParams p = { .jobs = j.list, .n_jobs = 1 };

        test_job(&j, MATCH_PID, NULL, &pid);
        assert_int_equal(task_reader_new("", &r), 0);
        double outer = now_seconds(), first = read_use(r, &p, pid, &child), inner = now_seconds();
        if (child == 0) {
                end(pid);
                fail_msg("the busy child is not listed");
        }
        double from = cpu_seconds(child), before, use;
        while (cpu_seconds(child) < from + 0.3 && now_seconds() < inner + 20)
                (void) usleep(50000);
        before = cpu_seconds(child);
        double inner_span = now_seconds() - inner;
        use = read_use(r, &p, pid, &child);
        double outer_span = now_seconds() - outer, after = cpu_seconds(child);
        (void) kill(child, SIGKILL);
        end(pid);
        assert_true(isnan(first));
        assert_true(use >= (before - from - 0.02) / outer_span);
        assert_true(use <= (after + 0.02) / inner_span);
}

typedef struct Node {
        char path[100];
} Node;

static void open_node(void *arg) {
        Node *n = arg;

        if (open(n->path, O_RDONLY) < 0)
                _exit(1);
}

/* A container's name for the node is not ours; its number is. */
static void test_live_renamed_node(void **state) {
        char top[] = "/tmp/qsched-test-XXXXXX", glob[100], command[100];
        Node ours, theirs, alike;
        _cleanup_(snapshot_freep) Snapshot *s = this_machine();
        char *globs[] = { glob, NULL };

        assert_non_null(mkdtemp(top));
        (void) snprintf(glob, sizeof(glob), "%s/edu[0-9]*", top);
        (void) snprintf(ours.path, sizeof(ours.path), "%s/edu1", top);
        (void) snprintf(theirs.path, sizeof(theirs.path), "%s/dev/", top);
        (void) snprintf(command, sizeof(command), "rm -r %s", top);
        assert_int_equal(mkdir(theirs.path, 0755), 0);
        (void) strcat(theirs.path, "npu0");
        (void) snprintf(alike.path, sizeof(alike.path), "%s/dev/edu1", top);
        /* /dev/full's number: it opens without a driver of its own */
        bool made = mknod(ours.path, S_IFCHR | 0600, makedev(1, 7)) >= 0 &&
                    mknod(theirs.path, S_IFCHR | 0600, makedev(1, 7)) >= 0 &&
                    mknod(alike.path, S_IFCHR | 0600, makedev(1, 5)) >= 0;
        int fd = made ? open(ours.path, O_RDONLY) : -1;
        if (fd < 0) {
                (void) !system(command);
                print_message("# device nodes cannot be made or opened below /tmp: %s\n", strerror(errno));
                skip();
        }
        (void) close(fd);
        add_devices(s, "edu", 2);
        pid_t a = start(open_node, &ours), b = start(open_node, &theirs), c = start(open_node, &alike);
        read_once("", &(TaskReadParams){ .node_globs = globs }, s);
        end(a);
        end(b);
        end(c);
        assert_int_equal(system(command), 0);
        assert_devices(task(s, a), 1, 1U);
        assert_devices(task(s, b), 1, 1U);
        assert_null(snapshot_task(s, c)); /* same last name, another device */
}

/* Plain files in the place of nodes: found by name, also by one who is not root. */
static void test_live_path(void **state) {
        char top[] = "/tmp/qsched-test-XXXXXX", glob[100], command[100];
        _cleanup_(snapshot_freep) Snapshot *s = this_machine();
        _cleanup_(task_reader_freep) TaskReader *r = NULL;
        char *globs[] = { glob, NULL };
        Node file;

        assert_non_null(mkdtemp(top));
        (void) snprintf(glob, sizeof(glob), "%s/davinci[0-9]*", top);
        (void) snprintf(file.path, sizeof(file.path), "%s/davinci3", top);
        (void) snprintf(command, sizeof(command), "rm -r %s", top);
        assert_int_equal(write_file_atomic(file.path, "", 0644), 0);
        add_devices(s, "ascend", 4);
        pid_t pid = start(open_node, &file);
        assert_int_equal(task_reader_new("", &r), 0);
        assert_int_equal(tasks_read(r, &(TaskReadParams){ .node_globs = globs }, s), 0);
        const Task *t = task(s, pid);
        assert_devices(t, 1, 3U);
        end(pid);
        _cleanup_(snapshot_freep) Snapshot *later = this_machine();
        assert_int_equal(tasks_read(r, &(TaskReadParams){ .node_globs = globs }, later), 0);
        assert_null(snapshot_task(later, pid));
        assert_int_equal(system(command), 0);
}

static void sh_with_pattern(void *arg) {
        (void) setpgid(0, 0);
        if (fork() == 0)
                (void) execl("/bin/sh", "sh", "-c", "sleep 31.417 & sleep 31.417 & wait; :", NULL);
}

/* A shell whose text holds the pattern is not the rank; what it started is. */
static void test_live_shell(void **state) {
        pid_t pid = start(sh_with_pattern, NULL);
        unsigned sleeps = 0, others = 0;
        TestJob j;

        test_job(&j, MATCH_CMDLINE, "*sleep 31.417*", NULL);
        for (unsigned tries = 0; tries < 100 && sleeps < 2; tries++) { /* until the shell has started both */
                _cleanup_(snapshot_freep) Snapshot *s = this_machine();

                (void) usleep(100000);
                read_once("", &(TaskReadParams){ .jobs = j.list, .n_jobs = 1 }, s);
                sleeps = others = 0;
                for (size_t i = 0; i < s->n_tasks; i++)
                        if (s->tasks[i].cmdline && strstr(s->tasks[i].cmdline, "sleep 31.417"))
                                *(streq(s->tasks[i].comm, "sleep") ? &sleeps : &others) += 1;
        }
        (void) kill(-pid, SIGKILL);
        end(pid);
        assert_int_equal(sleeps, 2);
        assert_int_equal(others, 0);
}

static void test_live_not_root(void **state) {
        char glob[] = "/tmp/qsched-test-XXXXXX";
        int status;

        if (geteuid() != 0) {
                print_message("# not root: what another user sees cannot be tried\n");
                skip();
        }
        int fd = mkstemp(glob); /* something to look for, or nothing would be looked at */
        assert_true(fd >= 0);
        (void) close(fd);
        pid_t pid = fork();
        if (pid == 0) {
                Snapshot *s = NULL;
                TaskReader *r = NULL;
                bool told = false;

                if (setgid(65534) < 0 || setuid(65534) < 0)
                        _exit(2);
                s = this_machine();
                if (task_reader_new("", &r) < 0 ||
                    tasks_read(r, &(TaskReadParams){ .node_globs = (char *[]){ glob, NULL } }, s) < 0)
                        _exit(3);
                for (char **w = s->warnings; w && *w; w++)
                        told |= strstr(*w, "without root") != NULL;
                told &= strv_length(s->warnings) == 1;
                snapshot_free(s);
                task_reader_free(r);
                _exit(told ? 0 : 4);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        (void) unlink(glob);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_live_numa_maps(void **state) {
        Topology *t = topology("0", 1);
        uint64_t *bytes = NULL;

        int r = process_memory_by_node(getpid(), t, 1000000, &bytes);
        if (r == -ESRCH || r == -ENOENT) {
                topology_free(t);
                print_message("# this kernel has no numa_maps\n");
                skip();
        }
        assert_int_equal(r, 0);
        assert_true(bytes[0] > 100 << 10);
        free(bytes);
        r = process_memory_by_node(getpid(), t, 0, &bytes);
        assert_true(r == 0 || r == 1); /* no time at all: a part at least, and it says so */
        free(bytes);
        topology_free(t);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_stat),
                cmocka_unit_test(test_status),
                cmocka_unit_test(test_numa_maps),
                cmocka_unit_test(test_rank),
                cmocka_unit_test(test_visible_devices),
                cmocka_unit_test(test_holders),
                cmocka_unit_test(test_physical_device),
                cmocka_unit_test(test_device_nodes_known),
                cmocka_unit_test(test_launcher),
                cmocka_unit_test(test_pid_wins),
                cmocka_unit_test(test_match_kinds),
                cmocka_unit_test(test_extra),
                cmocka_unit_test(test_holder_below),
                cmocka_unit_test(test_slurm),
                cmocka_unit_test(test_hygon),
                cmocka_unit_test(test_nvidia),
                cmocka_unit_test(test_live_threads),
                cmocka_unit_test(test_live_use),
                cmocka_unit_test(test_live_renamed_node),
                cmocka_unit_test(test_live_path),
                cmocka_unit_test(test_live_shell),
                cmocka_unit_test(test_live_not_root),
                cmocka_unit_test(test_live_numa_maps),
        };

        return cmocka_run_group_tests_name("tasks", tests, NULL, NULL);
}
