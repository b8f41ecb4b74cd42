/* SPDX-License-Identifier: Apache-2.0 */
/* What daemon and qschedctl both read of a host: devices, tasks without tools and exporters, kubelet's CPUs, names. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/text.h"
#include "daemon/readers/host.h"
#include "daemon/readers/jobfile.h"
#include "tests/unit/recorded-host.h"

static void set(Bitset *b, const char *list) {
        assert_int_equal(bitset_parse(list, b), 0);
}

/* Two NUMA nodes of 32 CPUs. */
static Snapshot *machine(void) {
        Snapshot *s;
        Topology *t = calloc(1, sizeof(*t));

        assert_non_null(t);
        assert_int_equal(snapshot_new(&s), 0);
        s->topology = s->owned_topology = t;
        set(&t->online, "0-63");
        set(&t->allowed, "0-63");
        t->nodes = calloc(2, sizeof(TopologyNode));
        assert_non_null(t->nodes);
        t->n_nodes = 2;
        for (unsigned i = 0; i < 2; i++) {
                t->nodes[i].os = i;
                set(&t->nodes[i].cpus, i == 0 ? "0-31" : "32-63");
        }
        return s;
}

static void describe(DeviceText *text) {
        char ini[600];
        size_t n = 0;
        Ini *parsed;

        for (unsigned i = 0; i < 8; i++)
                n += (size_t) snprintf(ini + n, sizeof(ini) - n, "[Device ascend%u]\nKind=ascend\n", i);
        assert_int_equal(ini_parse("devices", ini, n, &parsed, NULL), 0);
        assert_int_equal(device_text_add(text, parsed, false, NULL), 0);
}

static Snapshot *read_recorded(const char *root, const Job *job) {
        _cleanup_(task_reader_freep) TaskReader *reader = NULL;
        _cleanup_(strv_freep) char **ignore = NULL;
        _cleanup_free_ char *message = NULL;
        const TaskReadParams p = { .jobs = &job, .n_jobs = job ? 1 : 0 };
        TaskReadParams q = p;
        DeviceText text = {};
        Snapshot *s = machine();

        describe(&text);
        assert_int_equal(strv_split(HOST_IGNORE_DEFAULT, " ", &ignore), 0);
        q.ignore = ignore;
        assert_int_equal(task_reader_new(root, &reader), 0);
        if (host_read(root, &text, reader, &q, s, &message) < 0)
                fail_msg("%s", message);
        device_text_done(&text);
        return s;
}

static void test_pods(void **state) {
        _cleanup_(recorded_done) Recorded host = recorded("k8s");
        _cleanup_(snapshot_freep) Snapshot *s = read_recorded(host.root, NULL);
        _cleanup_free_ char *reserved = NULL;

        assert_int_equal(s->n_devices, 8);
        assert_int_equal(s->n_tasks, 5); /* neither npu-smi nor the exporter, which hold nodes too */
        assert_true(s->time_usec > 0);
        assert_int_equal(bitset_format(&s->reserved, &reserved), 0);
        assert_string_equal(reserved, "4-63");
        assert_non_null(strstr(s->reserved_reason, "kubelet"));
}

/* Their environment says which is which; the order of pids does not matter then. */
static void test_names(void **state) {
        static const char text[] = "[Job]\nName=train\n[Ranks]\nMatch=pid:1101,1100\n";
        _cleanup_(recorded_done) Recorded host = recorded("k8s");
        _cleanup_(job_freep) Job *job = NULL;

        assert_int_equal(job_parse("train.job", text, sizeof(text) - 1, NULL, &job, NULL), 0);
        _cleanup_(snapshot_freep) Snapshot *s = read_recorded(host.root, job);
        assert_string_equal(snapshot_task(s, 1100)->name, "train/0");
        assert_string_equal(snapshot_task(s, 1101)->name, "train/1");
        assert_string_equal(snapshot_task(s, 1100)->job, "train");
        assert_null(snapshot_task(s, 2000)->job);
}

static void test_kubelet_unreadable(void **state) {
        _cleanup_(recorded_done) Recorded host = recorded("k8s");
        char path[120];

        (void) snprintf(path, sizeof(path), "%s/var/lib/kubelet/cpu_manager_state", host.root);
        assert_int_equal(write_file_atomic(path, "{", 0644), 0);
        _cleanup_(snapshot_freep) Snapshot *s = read_recorded(host.root, NULL);
        assert_true(bitset_isempty(&s->reserved));
        assert_int_equal(strv_length(s->warnings), 1);
        assert_non_null(strstr(s->warnings[0], "kubelet's CPU manager state could not be read"));
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_pods),
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_kubelet_unreadable),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
