/* SPDX-License-Identifier: Apache-2.0 */
/* Who changed a mask: the evidence in fake roots, and the judgement on it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/fileio.h"
#include "daemon/enforce-drift.h"
#include "daemon/readers/author.h"

typedef struct Root {
        char dir[64];
        Bitset found, wanted;
        AuthorEvidence evidence;
        Author author;
} Root;

/* A file below the root, with the directories above it. */
static void put(const Root *r, const char *name, const char *text, size_t size) {
        char path[256];
        FILE *f;

        assert_true(snprintf(path, sizeof(path), "%s/%s", r->dir, name) < (int) sizeof(path));
        for (char *p = path + strlen(r->dir) + 1; (p = strchr(p, '/')); p++) {
                *p = '\0';
                assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
                *p = '/';
        }
        f = fopen(path, "w");
        assert_non_null(f);
        assert_int_equal(fwrite(text, 1, size, f), size);
        assert_int_equal(fclose(f), 0);
}

#define PUT(r, name, text) put(r, name, text, sizeof(text) - 1)

static int setup(void **state) {
        Root *r = calloc(1, sizeof(*r));

        assert_non_null(r);
        (void) snprintf(r->dir, sizeof(r->dir), "/tmp/qsched-author.XXXXXX");
        assert_non_null(mkdtemp(r->dir));
        PUT(r, "sys/devices/system/cpu/online", "0-15\n");
        assert_int_equal(bitset_parse("0-3", &r->found), 0);
        assert_int_equal(bitset_parse("4-7", &r->wanted), 0);
        *state = r;
        return 0;
}

static int teardown(void **state) {
        Root *r = *state;
        char command[128];

        (void) snprintf(command, sizeof(command), "rm -rf '%s'", r->dir);
        assert_int_equal(system(command), 0);
        bitset_done(&r->found);
        bitset_done(&r->wanted);
        author_evidence_done(&r->evidence);
        author_done(&r->author);
        free(r);
        return 0;
}

static void ask(Root *r, const Task *t, pid_t pid, const char *group, bool ascend) {
        const AuthorPlace p = { .root = r->dir,
                                .task = t,
                                .pid = pid,
                                .group = group,
                                .ascend = ascend,
                                .found = &r->found,
                                .wanted = &r->wanted };

        author_evidence_done(&r->evidence);
        author_done(&r->author);
        assert_int_equal(author_read(&p, &r->evidence), 0);
        assert_int_equal(author_judge(&r->evidence, &r->author), 0);
        print_message("%s [%s]\n", r->author.who, r->author.hint ? r->author.hint : "-");
}

static void assert_says(const Root *r, AuthorKind kind, const char *who, const char *hint) {
        assert_int_equal(r->author.kind, kind);
        assert_non_null(strstr(r->author.who, who));
        if (hint)
                assert_non_null(strstr(r->author.hint, hint));
        else
                assert_null(r->author.hint);
}

static void nobody_is_known(void **state) {
        Root *r = *state;

        ask(r, NULL, 0, NULL, false);
        assert_says(r, AUTHOR_UNKNOWN, "the process itself, or a tool such as taskset", NULL);
        ask(r, NULL, 4711, NULL, true); /* no such process in this root */
        assert_says(r, AUTHOR_UNKNOWN, "somebody with the right to", NULL);
        ask(r, NULL, 0, "/sys/fs/cgroup/cpuset/qsched.slice/x-1.scope/cpuset.cpus", false);
        assert_says(r, AUTHOR_UNKNOWN, "wrote the group's cpuset.cpus", NULL);
}

static void the_kernel_when_cpus_are_offline(void **state) {
        Root *r = *state;

        PUT(r, "sys/devices/system/cpu/online", "0-3\n");
        ask(r, NULL, 0, NULL, false);
        assert_says(r, AUTHOR_KERNEL, "the kernel, since CPUs 4-7 are offline", NULL);
}

static void a_property_of_the_unit(void **state) {
        Root *r = *state;
        char group[] = "/system.slice/train.service", owner[] = "train.service";
        const Task t = { .pid = 81, .owner_kind = OWNER_UNIT, .owner = owner, .cgroup = group };

        PUT(r, "run/systemd/system.control/train.service.d/50-AllowedCPUs.conf", "[Service]\nAllowedCPUs=8-9\n");
        ask(r, &t, 0, NULL, false);
        assert_int_equal(r->author.kind, AUTHOR_UNKNOWN); /* it says something else */
        PUT(r, "run/systemd/system.control/train.service.d/50-AllowedCPUs.conf",
            "# written by systemd\n[Service]\nAllowedCPUs=0 1 2-3\n");
        ask(r, &t, 0, NULL, false);
        assert_says(r, AUTHOR_SYSTEMD, "systemd (AllowedCPUs=0 1 2-3 in ", "set-property");
        assert_non_null(strstr(r->author.who, "/run/systemd/system.control/train.service.d/50-AllowedCPUs.conf)"));
}

static void a_property_of_a_slice_above_and_a_unit_file(void **state) {
        Root *r = *state;
        char group[] = "/system.slice/train.service";
        const Task t = { .pid = 81, .owner_kind = OWNER_UNIT, .cgroup = group };

        PUT(r, "etc/systemd/system.control/system.slice.d/50-AllowedCPUs.conf", "[Slice]\nAllowedCPUs=0-3\n");
        ask(r, &t, 0, NULL, false);
        assert_says(r, AUTHOR_SYSTEMD, "system.slice.d/50-AllowedCPUs.conf", "set-property");
        PUT(r, "etc/systemd/system/train.service", "[Service]\nExecStart=/bin/true\nCPUAffinity=0-3\n");
        ask(r, &t, 0, NULL, false);
        assert_says(r, AUTHOR_SYSTEMD, "CPUAffinity=0-3", "set-property");
}

static void the_scope_of_ours(void **state) {
        Root *r = *state;

        PUT(r, "run/systemd/system.control/qsched-x-1.scope.d/50-AllowedCPUs.conf", "[Scope]\nAllowedCPUs=0-3\n");
        ask(r, NULL, 81, "/sys/fs/cgroup/qsched.slice/qsched-x-1.scope/cpuset.cpus", false);
        assert_says(r, AUTHOR_SYSTEMD, "AllowedCPUs=0-3", "set-property");
}

static void keepers_of_cgroups(void **state) {
        static const struct {
                OwnerKind owner;
                AuthorKind kind;
                const char *who;
        } cases[] = {
                { OWNER_POD, AUTHOR_KUBELET, "kubelet, probably (pod 1/w has all that its cpuset allows)" },
                { OWNER_CONTAINER, AUTHOR_ENGINE, "its container engine, probably (pod 1/w" },
                { OWNER_SLURM, AUTHOR_SLURM, "Slurm, probably (pod 1/w" },
                { OWNER_GROUP, AUTHOR_UNKNOWN, "somebody with the right to" },
        };
        Root *r = *state;
        char owner[] = "pod 1/w", group[] = "/kubepods/x";

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                const Task t = { .pid = 81,
                                 .owner = owner,
                                 .owner_kind = cases[i].owner,
                                 .cgroup = group,
                                 .allowed_cpus = r->found };
                const Task other = {
                        .pid = 81, .owner = owner, .owner_kind = cases[i].owner, .allowed_cpus = r->wanted
                };

                ask(r, &t, 0, NULL, false);
                assert_says(r, cases[i].kind, cases[i].who, NULL);
                ask(r, &other, 0, NULL, false); /* not all of its cpuset: not by rewriting that */
                assert_int_equal(r->author.kind, AUTHOR_UNKNOWN);
        }
}

static void kubelet_gave_just_these(void **state) {
        Root *r = *state;
        const Task t = { .pid = 81, .owner_kind = OWNER_POD };

        PUT(r, "var/lib/kubelet/cpu_manager_state",
            "{\"policyName\":\"static\",\"defaultCpuSet\":\"8-15\",\"entries\":{\"u\":{\"worker\":\"0-3\"}}}");
        ask(r, &t, 0, NULL, false);
        assert_says(r, AUTHOR_KUBELET, "whose CPU manager has given out just these", NULL);
        PUT(r, "var/lib/kubelet/cpu_manager_state", "{\"entries\":{\"u\":[1,{}],\"v\":{\"w\":7}},\"defaultCpuSet\":0}");
        ask(r, &t, 0, NULL, false);
        assert_int_equal(r->author.kind, AUTHOR_UNKNOWN);
}

static void a_framework_in_the_process(void **state) {
        static const char on[] = "A=b\0CPU_AFFINITY_CONF=1,npu0:0-3\0TOKEN=geheim", off[] = "CPU_AFFINITY_CONF=0",
                          omp[] = "OMP_PLACES=cores\0OMP_PROC_BIND=false";
        Root *r = *state;

        PUT(r, "proc/81/environ", on);
        ask(r, NULL, 81, NULL, false);
        assert_says(r, AUTHOR_FRAMEWORK,
                    "the process itself, probably: torch_npu pins its threads, since CPU_AFFINITY_CONF is set",
                    "Unset it, or CPU_AFFINITY_CONF=0 in what starts it turns that off");
        assert_null(strstr(r->author.who, "npu0"));
        assert_null(strstr(r->author.who, "geheim"));
        PUT(r, "proc/81/environ", off);
        ask(r, NULL, 81, NULL, false);
        assert_int_equal(r->author.kind, AUTHOR_UNKNOWN);
        PUT(r, "proc/81/environ", omp);
        ask(r, NULL, 81, NULL, false);
        assert_int_equal(r->author.kind, AUTHOR_UNKNOWN);
}

static void vllm_on_ascend(void **state) {
        static const char server[] = "vllm\0serve\0/m",
                          off[] = "vllm\0serve\0--additional-config\0{\"enable_cpu_binding\": false}";
        Root *r = *state;

        PUT(r, "proc/sys/kernel/arch", "aarch64\n");
        PUT(r, "proc/80/cmdline", server);
        PUT(r, "proc/80/stat", "80 (vllm) S 1 80 80 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 500 0 0\n");
        PUT(r, "proc/81/environ", "A=b");
        PUT(r, "proc/81/cmdline", "worker");
        PUT(r, "proc/81/stat", "81 (worker) S 80 80 80 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 501 0 0\n");
        ask(r, NULL, 81, NULL, true);
        assert_says(r, AUTHOR_FRAMEWORK, "vllm-ascend binds its threads when it starts", "enable_cpu_binding");
        ask(r, NULL, 81, NULL, false); /* no Ascend device: not by that */
        assert_int_equal(r->author.kind, AUTHOR_UNKNOWN);
        PUT(r, "proc/80/cmdline", off);
        ask(r, NULL, 81, NULL, true);
        assert_int_equal(r->author.kind, AUTHOR_UNKNOWN);
        PUT(r, "proc/80/cmdline", server);
        PUT(r, "proc/sys/kernel/arch", "x86_64\n");
        ask(r, NULL, 81, NULL, true);
        assert_int_equal(r->author.kind, AUTHOR_UNKNOWN);
}

/* The policies, pass by pass. */
static DriftAct judge(DriftBook *b, pid_t pid) {
        DriftAct act = DRIFT_NONE;

        assert_int_equal(drift_judge(b, DRIFT_MASKS, (Process){ .pid = pid, .start_time = 1 }, &act), 0);
        return act;
}

static void policies(void **state) {
        DriftBook b = {};

        drift_pass_begin(&b);
        assert_int_equal(judge(&b, 1), DRIFT_LEFT);
        b.policy = DRIFT_YIELD;
        assert_int_equal(judge(&b, 1), DRIFT_YIELDED);
        b.policy = DRIFT_REASSERT;
        for (unsigned i = 0; i < 3; i++) {
                drift_pass_begin(&b);
                assert_int_equal(judge(&b, 1), DRIFT_WRITTEN);
                assert_int_equal(judge(&b, 1), DRIFT_WRITTEN); /* another thread of it, in the same pass */
                if (i == 2)
                        assert_int_equal(judge(&b, 2), DRIFT_WRITTEN);
        }
        b.acting = false; /* an order in between */
        assert_int_equal(judge(&b, 1), DRIFT_LEFT);
        for (unsigned i = 0; i < 3; i++) {
                drift_pass_begin(&b);
                assert_int_equal(judge(&b, 1), DRIFT_GIVEN_UP);
                assert_int_equal(judge(&b, 2), i < 2 ? DRIFT_WRITTEN : DRIFT_GIVEN_UP);
        }
        drift_pass_begin(&b); /* right in between */
        drift_pass_begin(&b);
        assert_int_equal(judge(&b, 1), DRIFT_WRITTEN);
        assert_int_equal(b.n_things, 1);
        drift_book_done(&b);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(nobody_is_known, setup, teardown),
                cmocka_unit_test_setup_teardown(the_kernel_when_cpus_are_offline, setup, teardown),
                cmocka_unit_test_setup_teardown(a_property_of_the_unit, setup, teardown),
                cmocka_unit_test_setup_teardown(a_property_of_a_slice_above_and_a_unit_file, setup, teardown),
                cmocka_unit_test_setup_teardown(the_scope_of_ours, setup, teardown),
                cmocka_unit_test_setup_teardown(keepers_of_cgroups, setup, teardown),
                cmocka_unit_test_setup_teardown(kubelet_gave_just_these, setup, teardown),
                cmocka_unit_test_setup_teardown(a_framework_in_the_process, setup, teardown),
                cmocka_unit_test_setup_teardown(vllm_on_ascend, setup, teardown),
                cmocka_unit_test(policies),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
