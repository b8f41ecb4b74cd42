/* SPDX-License-Identifier: Apache-2.0 */
/* Owners from paths, mounts, effective values on recorded v1, hybrid and v2 hosts, kubelet's state; then a cpuset group
 * of the test's own on this machine. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "common/fileio.h"
#include "daemon/readers/cgroup.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static char *host(const char *name) {
        const char *top = getenv("TOP_SRCDIR");
        char *path;

        assert_true(asprintf(&path, "%s/tests/data/proc/%s", top ? top : ".", name) > 0);
        return path;
}

static void assert_set(const Bitset *b, const char *list) {
        _cleanup_free_ char *text = NULL;

        assert_int_equal(bitset_format(b, &text), 0);
        assert_string_equal(text, list);
}

static void test_owner(void **state) {
        static const struct {
                const char *path;
                OwnerKind kind;
                const char *owner;
        } cases[] = {
                { "/", OWNER_NONE, NULL },
                { "", OWNER_NONE, NULL },
                { "/init.scope", OWNER_SCOPE, "init.scope" },
                { "/system.slice", OWNER_UNIT, "system.slice" },
                { "/system.slice/ssh.service", OWNER_UNIT, "ssh.service" },
                { "/system.slice/ssh.service/payload/deep", OWNER_UNIT, "ssh.service" },
                { "/system.slice/system-getty.slice/getty@tty1.service", OWNER_UNIT, "getty@tty1.service" },
                { "/user.slice/user-0.slice/session-3.scope", OWNER_SCOPE, "session-3.scope" },
                { "/user.slice/user-1000.slice/user@1000.service/app.slice/app-org.x\\x2dterm-7.scope", OWNER_SCOPE,
                  "app-org.x\\x2dterm-7.scope" },
                { "/system.slice/dev-disk\\x2da.swap", OWNER_UNIT, "dev-disk\\x2da.swap" },
                { "/system.slice/_cpu.service", OWNER_UNIT, "cpu.service" },
                { "/system.slice/qschedd.service", OWNER_UNIT, "qschedd.service" },
                { "/qsched.slice/qsched-train-0.scope", OWNER_QSCHED, "qsched-train-0.scope" },
                { "/qsched.slice", OWNER_QSCHED, "qsched.slice" },
                { "/qsched.slice/train-0", OWNER_QSCHED, "train-0" },
                { "/kubepods/burstable/pod3f2a-11/" ID, OWNER_POD, "pod 3f2a-11/0123456789ab" },
                { "/kubepods/besteffort/pod3f2a-11", OWNER_POD, "pod 3f2a-11" },
                { "/kubepods/pod3f2a-11/" ID, OWNER_POD, "pod 3f2a-11/0123456789ab" },
                { "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod3f2a_11.slice/cri-containerd-" ID
                  ".scope",
                  OWNER_POD, "pod 3f2a-11/0123456789ab" },
                { "/kubepods.slice/kubepods-pod3f2a_11.slice/crio-" ID ".scope", OWNER_POD,
                  "pod 3f2a-11/0123456789ab" },
                { "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod3f2a_11.slice/docker-" ID ".scope",
                  OWNER_POD, "pod 3f2a-11/0123456789ab" },
                { "/system.slice/containerd.service/kubepods-burstable-pod3f2a_11.slice:cri-containerd:" ID, OWNER_POD,
                  "pod 3f2a-11/0123456789ab" },
                { "/docker/" ID "/kubelet/kubepods/burstable/pod3f2a-11/" ID, OWNER_POD, "pod 3f2a-11/0123456789ab" },
                { "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod3f2a_11.slice", OWNER_POD, "pod 3f2a-11" },
                { "/docker/" ID, OWNER_CONTAINER, "docker 0123456789ab" },
                { "/system.slice/docker-" ID ".scope", OWNER_CONTAINER, "docker 0123456789ab" },
                { "/system.slice/docker-" ID ".scope/system.slice/nginx.service", OWNER_CONTAINER,
                  "docker 0123456789ab" },
                { "/docker/" ID "/docker/f123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                  OWNER_CONTAINER, "docker f123456789ab" },
                { "/machine.slice/libpod-" ID ".scope/container", OWNER_CONTAINER, "podman 0123456789ab" },
                { "/machine.slice/libpod-conmon-" ID ".scope", OWNER_SCOPE, "libpod-conmon-" ID ".scope" },
                { "/lxc.payload.web/init.scope", OWNER_CONTAINER, "lxc web" },
                { "/lxc/web", OWNER_CONTAINER, "lxc web" },
                { "/default/" ID, OWNER_CONTAINER, "container 0123456789ab" },
                { "/slurm/uid_0/job_77/step_0", OWNER_SLURM, "job 77 step 0" },
                { "/slurm/uid_0/job_77/step_batch/task_0", OWNER_SLURM, "job 77 step batch" },
                { "/slurm_node1/uid_1000/job_77", OWNER_SLURM, "job 77" },
                { "/system.slice/slurmstepd.scope/job_77/step_extern/user/task_special", OWNER_SLURM,
                  "job 77 step extern" },
                { "/system.slice/node1_slurmstepd.scope/job_77/step_0/user/task_3", OWNER_SLURM, "job 77 step 0" },
                { "/system.slice/slurmstepd.scope/system", OWNER_SCOPE, "slurmstepd.scope" },
                { "/job_77/step_0", OWNER_GROUP, "/job_77/step_0" },
                { "/my-own/group", OWNER_GROUP, "/my-own/group" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *owner = NULL;
                OwnerKind kind = cgroup_owner(cases[i].path, &owner);

                if (kind != cases[i].kind || !streq(strempty(owner), strempty(cases[i].owner)) ||
                    !owner != !cases[i].owner)
                        fail_msg("%s: %s, %s", cases[i].path, owner_names[kind], owner ? owner : "(null)");
        }
}

static void test_mountinfo(void **state) {
        static const char text[] =
                "29 23 0:26 /docker/abc /sys/fs/cgroup/cpuset rw shared:1 master:2 - cgroup cgroup rw,cpuset\n"
                "31 23 0:26 / /mnt/with\\040blank rw - cgroup cgroup rw,cpuset\n"
                "32 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
                "broken line\n33 23 0:28 / /x rw - cgroup\n"
                "34 23 0:29 / /sys/fs/cgroup/cpuacct2 rw - cgroup cgroup rw,cpuacct\n";
        Cgroups c;

        assert_int_equal(cgroups_parse_mountinfo(text, "", &c), 0);
        assert_int_equal(c.mode, CGROUP_V1);
        assert_string_equal(c.cpuset, "/mnt/with blank"); /* the whole tree is better than a part */
        assert_string_equal(c.cpu, "/sys/fs/cgroup/cpu,cpuacct");
        assert_null(c.memory);
        assert_null(c.unified);
        cgroups_done(&c);
        assert_int_equal(cgroups_parse_mountinfo("", "", &c), 0);
        assert_int_equal(c.mode, CGROUP_NONE);
}

static void read_info(const char *name, pid_t pid, Cgroups *c, CgroupInfo *i) {
        _cleanup_free_ char *root = host(name);

        assert_int_equal(cgroups_read(root, c), 0);
        assert_int_equal(cgroup_of_pid(c, root, pid, i), 0);
}

static void test_v2(void **state) {
        _cleanup_free_ char *root = host("k8s");
        Cgroups c;
        CgroupInfo i;

        read_info("k8s", 1101, &c, &i);
        assert_int_equal(c.mode, CGROUP_V2);
        assert_true(c.unified_cpuset);
        assert_set(&i.cpus, "4-63"); /* the pod's: its container has no cpuset file */
        assert_set(&i.mems, "0-1");
        assert_true(i.quota == 32); /* the pod's, the container has "max" */
        assert_true(fabs(i.request - 16) < 0.1);
        assert_true(i.memory_max == UINT64_C(256) << 30);
        assert_string_equal(i.owner, "pod 3f2a1b4c-aaaa-bbbb-cccc-0123456789ab/9d8c7b6a5f4e");
        cgroup_info_done(&i);

        assert_int_equal(cgroup_of_pid(&c, root, 3000, &i), 0);
        assert_set(&i.cpus, "0-63"); /* inherited from the root */
        assert_true(isnan(i.quota) && isnan(i.request));
        assert_string_equal(i.owner, "npu-exporter.service");
        cgroup_info_done(&i);
        assert_int_equal(cgroup_of_pid(&c, root, 4999, &i), -ESRCH);
        cgroups_done(&c);
}

static void test_hybrid(void **state) {
        Cgroups c;
        CgroupInfo i;

        read_info("slurm", 500, &c, &i);
        assert_int_equal(c.mode, CGROUP_HYBRID);
        assert_false(c.unified_cpuset);
        assert_string_equal(i.path, "/slurm/uid_1000/job_77/step_0/task_0");
        assert_set(&i.cpus, "0-15"); /* the step's: the task's file is empty */
        assert_set(&i.mems, "0");
        assert_true(i.quota == 8);
        assert_true(i.request == 8);                     /* sixteen CPUs, of which the quota leaves eight */
        assert_true(i.memory_max == UINT64_C(64) << 30); /* not the "no limit" below it */
        assert_int_equal(i.owner_kind, OWNER_SLURM);     /* although systemd says slurmd.service */
        assert_string_equal(i.owner, "job 77 step 0");
        cgroup_info_done(&i);
        cgroups_done(&c);
}

static void test_memory_by_node(void **state) {
        TopologyNode nodes[] = { { .os = 0 }, { .os = 1 } };
        const Topology t = { .nodes = nodes, .n_nodes = 2 };
        uint64_t page = (uint64_t) sysconf(_SC_PAGESIZE), *bytes = NULL;
        Cgroups c;
        CgroupInfo i;

        read_info("slurm", 501, &c, &i);
        assert_int_equal(cgroup_memory_by_node(&c, &i, &t, &bytes), 0);
        assert_true(bytes[0] == 700 * page && bytes[1] == 300 * page); /* its own, not hierarchical_total */
        free(bytes);
        bytes = NULL;
        cgroup_info_done(&i);
        cgroups_done(&c);

        read_info("k8s", 2000, &c, &i);
        assert_int_equal(cgroup_memory_by_node(&c, &i, &t, &bytes), 0);
        assert_true(bytes[0] == 1073741824 + 4096 && bytes[1] == 34359738368 + 8192);
        free(bytes);
        bytes = NULL;
        cgroup_info_done(&i);
        cgroups_done(&c);

        read_info("k8s", 1100, &c, &i); /* five processes in the group */
        assert_int_equal(cgroup_memory_by_node(&c, &i, &t, &bytes), -ENODATA);
        assert_null(bytes);
        cgroup_info_done(&i);
        cgroups_done(&c);
}

/* A container without a cgroup namespace: the mount shows a part, /proc/PID/cgroup counts from the top. */
static void test_partial_mount(void **state) {
        char root[] = "/tmp/qsched-test-XXXXXX", path[200];
        Cgroups c;
        CgroupInfo i;

        assert_non_null(mkdtemp(root));
        const struct {
                const char *path, *text;
        } files[] = {
                { "proc/self/mountinfo", "1 2 0:3 /docker/x /cg rw - cgroup cgroup rw,cpuset\n" },
                { "proc/7/cgroup", "1:cpuset:/docker/x/inner\n" },
                { "proc/8/cgroup", "1:cpuset:/docker/other\n" },
                { "proc/9/cgroup", "1:cpuset:/docker/x\n" },
                { "cg/cpuset.effective_cpus", "2-3\n" },
                { "cg/inner/cpuset.effective_cpus", "3\n" },
        };
        for (size_t k = 0; k < ELEMENTSOF(files); k++) {
                (void) snprintf(path, sizeof(path), "%s/%s", root, files[k].path);
                *strrchr(path, '/') = '\0';
                assert_int_equal(mkdir_parents(path, 0755), 0);
                path[strlen(path)] = '/';
                assert_int_equal(write_file_atomic(path, files[k].text, 0644), 0);
        }
        assert_int_equal(cgroups_read(root, &c), 0);
        assert_int_equal(cgroup_of_pid(&c, root, 7, &i), 0);
        assert_set(&i.cpus, "3");
        cgroup_info_done(&i);
        assert_int_equal(cgroup_of_pid(&c, root, 9, &i), 0);
        assert_set(&i.cpus, "2-3");
        cgroup_info_done(&i);
        assert_int_equal(cgroup_of_pid(&c, root, 8, &i), 0);
        assert_set(&i.cpus, "");
        cgroup_info_done(&i);
        cgroups_done(&c);
        (void) snprintf(path, sizeof(path), "rm -r %s", root);
        assert_int_equal(system(path), 0);
}

static void test_kubelet(void **state) {
        _cleanup_free_ char *root = host("k8s"), *none = host("slurm"), *reason = NULL;
        Bitset b = BITSET_EMPTY;

        assert_int_equal(kubelet_reserved(root, &b, &reason), 0);
        assert_set(&b, "4-63"); /* all but reservedSystemCPUs */
        assert_string_equal(
                reason, "kubelet's static CPU manager has given CPUs 8-15 to guaranteed pods and may give 4-7,16-63");
        free(reason);
        reason = NULL;
        bitset_done(&b);
        b = BITSET_EMPTY;
        assert_int_equal(kubelet_reserved(none, &b, &reason), 0);
        assert_true(bitset_isempty(&b));
        assert_null(reason);

        assert_int_equal(kubelet_parse_state("{\"policyName\":\"none\",\"defaultCpuSet\":\"\"}", NULL, &b, &reason), 0);
        assert_true(bitset_isempty(&b));
        assert_int_equal(kubelet_parse_state(
                                 "{\"policyName\":\"static\",\"defaultCpuSet\":\"0-3\",\"entries\":{\"c1\":\"4-5\"}}",
                                 NULL, &b, &reason),
                         0); /* the form before 1.18 */
        assert_set(&b, "0-5");
        free(reason);
        reason = NULL;
        assert_int_equal(kubelet_parse_state("{\"policyName\":\"static\",\"entries\":{\"c1\":7}}", NULL, &b, &reason),
                         -EBADMSG);
        assert_int_equal(kubelet_parse_state("{\"policyName\":", NULL, &b, &reason), -EBADMSG);
        assert_set(&b, "0-5");
        assert_null(reason);
        bitset_done(&b);
}

/* ---- on this machine ---- */

static int write_in(const char *directory, const char *file, const char *text) {
        _cleanup_free_ char *path = path_join(directory, file);

        return write_file_at(AT_FDCWD, path, text);
}

static void test_own_group(void **state) {
        _cleanup_free_ char *outer = NULL, *inner = NULL, *pid = NULL;
        CgroupInfo i, now;
        Cgroups c;

        assert_int_equal(cgroups_read("", &c), 0);
        if (!c.cpuset || geteuid() != 0) {
                print_message("# no cgroup v1 cpuset here, or not root: a group of our own is not tried\n");
                cgroups_done(&c);
                skip();
        }
        assert_int_equal(cgroup_of_pid(&c, "", getpid(), &now), 0);
        assert_true(asprintf(&outer, "%s/qsched-test-%d", c.cpuset, (int) getpid()) > 0);
        assert_true(asprintf(&inner, "%s/inner", outer) > 0);
        if (mkdir(outer, 0755) < 0 || mkdir(inner, 0755) < 0) {
                print_message("# %s cannot be made: %s\n", outer, strerror(errno));
                (void) rmdir(outer);
                cgroup_info_done(&now);
                cgroups_done(&c);
                skip();
        }
        char cpu[16];
        (void) snprintf(cpu, sizeof(cpu), "%d", bitset_first(&now.cpus));
        int r = write_in(outer, "cpuset.cpus", cpu);
        int r2 = write_in(outer, "cpuset.mems", "0"), r3 = write_in(inner, "cpuset.cpus", cpu),
            r4 = write_in(inner, "cpuset.mems", "0");
        pid_t child = fork();
        if (child == 0) {
                (void) pause();
                _exit(0);
        }
        assert_true(asprintf(&pid, "%d", (int) child) > 0);
        int moved = write_in(inner, "cgroup.procs", pid);
        int k = cgroup_of_pid(&c, "", child, &i);
        (void) kill(child, SIGKILL);
        (void) waitpid(child, NULL, 0);
        (void) rmdir(inner);
        (void) rmdir(outer);
        assert_int_equal(r | r2 | r3 | r4 | moved, 0);
        assert_int_equal(k, 0);
        assert_set(&i.cpus, cpu);
        assert_set(&i.mems, "0");
        assert_int_equal(i.owner_kind, OWNER_GROUP);
        assert_string_equal(i.path + strlen(i.path) - 6, "/inner");
        cgroup_info_done(&i);
        cgroup_info_done(&now);
        cgroups_done(&c);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_owner),
                cmocka_unit_test(test_mountinfo),
                cmocka_unit_test(test_v2),
                cmocka_unit_test(test_hybrid),
                cmocka_unit_test(test_memory_by_node),
                cmocka_unit_test(test_partial_mount),
                cmocka_unit_test(test_kubelet),
                cmocka_unit_test(test_own_group),
        };

        return cmocka_run_group_tests_name("cgroup", tests, NULL, NULL);
}
