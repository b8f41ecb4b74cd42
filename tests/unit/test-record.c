/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records: out and in again gives the same; members left out are unknown; each bad member is refused by its name.
 * Links policy and common only: the machine is made by hand.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/text.h"
#include "policy/record.h"

/* Two nodes (0 and 4) of four CPUs, CPU 7 offline. */
static Topology *machine(void) {
        Topology *t = calloc(1, sizeof(*t));

        t->source = strdup("made by hand");
        t->n_cpus = 7;
        t->cpus = calloc(7, sizeof(*t->cpus));
        t->n_nodes = 2;
        t->nodes = calloc(2, sizeof(*t->nodes));
        t->distance = calloc(4, sizeof(*t->distance));
        for (unsigned i = 0; i < 7; i++) {
                t->cpus[i] = (TopologyCpu){ .os = i, .node = i / 4, .core = i };
                assert_int_equal(bitset_set(&t->nodes[i / 4].cpus, i), 0);
        }
        for (unsigned i = 0; i < 2; i++) {
                t->nodes[i].os = i * 4;
                t->nodes[i].memory = 1 << 30;
                t->nodes[i].free = UINT64_MAX;
                t->nodes[i].allowed = t->nodes[i].ordinary = true;
                t->nodes[i].bandwidth = t->nodes[i].latency = NAN;
                t->distance[i * 2 + i] = 10;
                t->distance[i * 2 + !i] = 20;
        }
        assert_int_equal(bitset_set_range(&t->online, 0, 6), 0);
        assert_int_equal(bitset_set_range(&t->allowed, 0, 6), 0);
        assert_int_equal(bitset_parse("0,4", &t->allowed_nodes), 0);
        return t;
}

static Snapshot *read_text(const char *text, int expect, char **ret_message) {
        json_error_t e;
        json_t *root = json_loads(text, 0, &e);
        Topology *t = machine();
        Snapshot *s = NULL;
        int r;

        if (!root)
                fail_msg("the test's JSON, line %d: %s", e.line, e.text);
        r = record_to_snapshot(root, t, &s, ret_message);
        json_decref(root);
        if (r != expect)
                fail_msg("%d: %s", r, strempty(*ret_message));
        if (r < 0) {
                assert_null(s);
                topology_free(t);
        }
        return s;
}

#define BEGIN "{\"format\":\"qsched-record-1\",\"machine\":{\"xml\":\"<topology/>\"}"

static const char full[] =
        "{\"format\":\"qsched-record-1\",\"time_usec\":1700000000000000,"
        "\"machine\":{\"xml\":\"<topology/>\",\"allowed_cpus\":\"0-5\",\"allowed_nodes\":\"4\",\"isolated_cpus\":\"3\","
        "\"free_memory\":{\"4\":1000}},"
        "\"devices\":[{\"name\":\"npu0\",\"kind\":\"ascend\",\"pci\":\"0000:c1:00.0\",\"numa_node\":4,\"root\":\"0000:c0:00.0\","
        "\"memory\":68719476736,\"temperature\":52.5,\"power\":310,\"price\":12.5,\"health\":\"warning\",\"nodes\":[\"/dev/davinci0\"]},"
        "{\"name\":\"npu1\",\"kind\":\"ascend\",\"numa_node\":-1,\"memory\":null}],"
        "\"links\":[{\"a\":\"npu0\",\"b\":\"npu1\",\"type\":\"HCCS\",\"bandwidth\":3e10}],"
        "\"tasks\":[{\"pid\":81,\"start_time\":1234,\"uid\":1000,\"name\":\"train/0\",\"job\":\"train\",\"comm\":\"python3\",\"rank\":0,"
        "\"children\":[{\"pid\":90,\"start_time\":1300}],\"devices\":[\"npu1\"],\"cpus\":\"0-3\",\"allowed_cpus\":\"0-6\",\"mems\":\"0,4\","
        "\"threads\":9,\"memory_by_node\":{\"0\":4096,\"4\":8192},\"cpu_use\":1.5,\"quota\":null,\"request\":2,\"cgroup\":\"/a/b\","
        "\"owner\":\"ssh.service\",\"owner_kind\":\"unit\",\"applied\":true,\"fixed\":true},"
        "{\"pid\":80,\"start_time\":99,\"name\":\"other\"}],"
        "\"reserved\":\"6\",\"reserved_reason\":\"kubelet\",\"warnings\":[\"w\"],\"from_the_future\":{\"x\":1}}";

static void check_full(const Snapshot *s) {
        const Task *t = snapshot_task(s, 81);
        unsigned index = 99;

        assert_int_equal(s->time_usec, 1700000000000000);
        assert_ptr_equal(s->topology, s->owned_topology);
        assert_int_equal(bitset_weight(&s->topology->allowed), 6);
        assert_false(s->topology->nodes[0].allowed);
        assert_true(s->topology->nodes[1].allowed);
        assert_true(s->topology->nodes[0].free == UINT64_MAX);
        assert_true(s->topology->nodes[1].free == 1000);
        assert_true(bitset_test(&s->topology->isolated, 3));
        assert_int_equal(s->n_devices, 2);
        assert_int_equal(s->devices[0].node, 1);
        assert_true(s->devices[0].memory == 64ULL << 30);
        assert_true(s->devices[0].temperature == 52.5);
        assert_int_equal(s->devices[0].health, HEALTH_WARNING);
        assert_string_equal(s->devices[0].nodes[0], "/dev/davinci0");
        assert_ptr_equal(snapshot_device(s, "npu1", &index), s->devices + 1);
        assert_int_equal(index, 1);
        assert_int_equal(s->devices[1].node, TOPOLOGY_NONE);
        assert_true(isnan(s->devices[1].power));
        assert_int_equal(s->n_links, 1);
        assert_int_equal(s->links[0].type, LINK_HCCS);
        assert_true(s->links[0].bandwidth == 3e10);
        assert_int_equal(s->n_tasks, 2);
        assert_int_equal(s->tasks[0].pid, 80); /* sorted by start */
        assert_true(bitset_equal(&s->tasks[0].cpus, &s->topology->online));
        assert_int_equal(s->tasks[0].rank, -1);
        assert_non_null(t);
        assert_int_equal(t->n_devices, 1);
        assert_int_equal(t->devices[0], 1);
        assert_int_equal(t->n_children, 1);
        assert_int_equal(t->children[0].pid, 90);
        assert_true(t->memory_by_node[1] == 8192);
        assert_true(isnan(t->quota) && t->request == 2 && t->cpu_use == 1.5);
        assert_int_equal(t->owner_kind, OWNER_UNIT);
        assert_true(t->applied);
        assert_true(t->fixed);
        assert_null(t->cmdline);
        assert_true(bitset_test(&s->reserved, 6));
        assert_string_equal(s->warnings[0], "w");
}

static void test_round_trip(void **state) {
        char *message = NULL;
        Snapshot *s = read_text(full, 0, &message), *again = NULL;
        json_t *one = NULL, *two = NULL;
        Topology *t = machine();
        const char *xml = NULL;

        check_full(s);
        /* A command line may hold a password. */
        s->tasks[1].cmdline = strdup("train --password=hunter2");
        assert_int_equal(record_from_snapshot(s, "<topology/>", &one), 0);
        assert_int_equal(record_machine_xml(one, &xml, &message), 0);
        assert_string_equal(xml, "<topology/>");
        assert_int_equal(record_to_snapshot(one, t, &again, &message), 0);
        check_full(again);
        assert_int_equal(record_from_snapshot(again, "<topology/>", &two), 0);
        assert_true(json_equal(one, two));
        char *text = json_dumps(one, 0);
        assert_null(strstr(text, "hunter2"));
        free(text);
        json_decref(one);
        json_decref(two);
        snapshot_free(s);
        snapshot_free(again);
}

static void test_odd_bytes(void **state) {
        char *message = NULL;
        Snapshot *s = read_text(full, 0, &message);
        json_t *j;

        free(s->tasks[1].comm);
        s->tasks[1].comm = strdup("a\xff\x01z");
        s->devices[0].temperature = INFINITY;
        j = record_task(s, s->tasks + 1);
        assert_string_equal(json_string_value(json_object_get(j, "comm")), "a??z");
        assert_true(json_is_null(json_object_get(j, "quota")));
        json_decref(j);
        j = record_device(s, s->devices);
        assert_true(json_is_null(json_object_get(j, "temperature")));
        assert_int_equal(json_integer_value(json_object_get(j, "numa_node")), 4);
        json_decref(j);
        snapshot_free(s);
}

static void test_least(void **state) {
        char *message = NULL;
        Snapshot *s = read_text(BEGIN "}", 0, &message);

        assert_int_equal(s->n_devices + s->n_links + s->n_tasks, 0);
        assert_int_equal(bitset_weight(&s->topology->allowed), 7);
        snapshot_free(s);
        s = read_text(BEGIN ",\"tasks\":[{\"comm\":\"x\"},{}]}", 0, &message);
        assert_string_equal(s->tasks[0].name, "x");
        assert_int_equal(s->tasks[1].pid, 0);
        snapshot_free(s);
}

static void test_bad(void **state) {
        static const struct {
                const char *text, *message;
        } cases[] = {
                { "[]", "not a record" },
                { "{}", "\"format\" is missing" },
                { "{\"format\":\"qsched-record-2\"}", "\"qsched-record-2\"" },
                { "{\"format\":\"qsched-record-1\"}", "machine.xml: missing" },
                { "{\"format\":\"qsched-record-1\",\"machine\":{\"xml\":1}}", "machine.xml" },
                { "{\"format\":\"qsched-record-1\",\"machine\":{\"xml\":\"\",\"allowed_cpus\":3}}",
                  "machine.allowed_cpus: a list" },
                { "{\"format\":\"qsched-record-1\",\"machine\":{\"xml\":\"\",\"free_memory\":{\"1\":3}}}",
                  "machine.free_memory: the machine has no NUMA node \"1\"" },
                { BEGIN ",\"devices\":{}}", "devices: not an array" },
                { BEGIN ",\"devices\":[1]}", "devices[0]: not an object" },
                { BEGIN ",\"devices\":[{}]}", "devices[0].name: missing" },
                { BEGIN ",\"devices\":[{\"name\":\"a\"}]}", "devices[0].kind: missing" },
                { BEGIN ",\"devices\":[{\"name\":\"\",\"kind\":\"b\"}]}", "devices[0].name: must not be empty" },
                { BEGIN ",\"devices\":[{\"name\":\"a\\n/b\",\"kind\":\"b\"}]}",
                  "devices[0].name: \"a?/b\" is not allowed; 1 to 64" },
                { BEGIN ",\"devices\":[{\"name\":\"a\",\"kind\":\"b\"},{\"name\":\"a\",\"kind\":\"b\"}]}",
                  "devices[1].name: \"a\" is there twice" },
                { BEGIN ",\"devices\":[{\"name\":\"a\",\"kind\":\"b\",\"numa_node\":1}]}",
                  "devices[0].numa_node: the machine has no NUMA node 1" },
                { BEGIN ",\"devices\":[{\"name\":\"a\",\"kind\":\"b\",\"numa_node\":-2}]}",
                  "devices[0].numa_node: a whole number from -1" },
                { BEGIN ",\"devices\":[{\"name\":\"a\",\"kind\":\"b\",\"memory\":-1}]}", "devices[0].memory" },
                { BEGIN ",\"devices\":[{\"name\":\"a\",\"kind\":\"b\",\"power\":\"x\"}]}",
                  "devices[0].power: a number from 0" },
                { BEGIN ",\"devices\":[{\"name\":\"a\",\"kind\":\"b\",\"health\":\"fine\"}]}",
                  "devices[0].health: one of unknown, ok" },
                { BEGIN ",\"devices\":[{\"name\":\"a\",\"kind\":\"b\"}],\"links\":[{\"a\":\"a\",\"b\":\"c\"}]}",
                  "links[0].b: no device \"c\"" },
                { BEGIN ",\"devices\":[{\"name\":\"a\",\"kind\":\"b\"}],\"links\":[{\"a\":\"a\",\"b\":\"a\"}]}",
                  "links[0].b: a link of a device to itself" },
                { BEGIN
                  ",\"devices\":[{\"name\":\"a\",\"kind\":\"b\"},{\"name\":\"c\",\"kind\":\"b\"}],\"links\":[{\"a\":\"a\",\"b\":\"c\"},"
                  "{\"a\":\"c\",\"b\":\"a\"}]}",
                  "links[1]: the link of devices 0 and 1 is there twice" },
                { BEGIN ",\"links\":[{\"type\":\"HCCS\"}]}", "links[0].a" },
                { BEGIN ",\"tasks\":[{},{},{},{\"devices\":[\"npu9\"]}]}", "tasks[3].devices[0]: no device \"npu9\"" },
                { BEGIN ",\"tasks\":[{\"devices\":[7]}]}", "tasks[0].devices[0]: not the name" },
                { BEGIN ",\"tasks\":[{\"pid\":5},{\"pid\":5}]}", "tasks[1].pid: pid 5 is there twice" },
                { BEGIN ",\"tasks\":[{\"pid\":1.5}]}", "tasks[0].pid: a whole number" },
                { BEGIN ",\"tasks\":[{\"cpus\":\"3-\"}]}", "tasks[0].cpus: a list" },
                { BEGIN ",\"tasks\":[{\"allowed_cpus\":\"7-9\"}]}",
                  "tasks[0].allowed_cpus: none of these CPUs is online" },
                { BEGIN ",\"tasks\":[{\"memory_by_node\":{\"x\":1}}]}",
                  "tasks[0].memory_by_node: the machine has no NUMA node \"x\"" },
                { BEGIN ",\"tasks\":[{\"memory_by_node\":{\"0\":-1}}]}", "tasks[0].memory_by_node: bytes on node 0" },
                { BEGIN ",\"tasks\":[{\"children\":[{}]}]}", "tasks[0].children[0].pid: missing" },
                { BEGIN ",\"tasks\":[{\"applied\":1}]}", "tasks[0].applied: true or false" },
                { BEGIN ",\"tasks\":[{\"owner_kind\":\"me\"}]}", "tasks[0].owner_kind: one of none, qsched" },
                { BEGIN ",\"tasks\":[{\"quota\":-1}]}", "tasks[0].quota" },
                { BEGIN ",\"warnings\":[1]}", "warnings: element 0 is not a string" },
                { BEGIN ",\"reserved\":\"99999999\"}", "reserved: a list" },
                { BEGIN ",\"time_usec\":-5}", "time_usec" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                char *message = NULL;

                read_text(cases[i].text, -EBADMSG, &message);
                assert_non_null(message);
                if (!strstr(message, cases[i].message) || strchr(message, '\n'))
                        fail_msg("\"%s\" lacks \"%s\"", message, cases[i].message);
                free(message);
        }
}

/* In two steps, with a device put between them that only a task names. */
static void test_two_steps(void **state) {
        json_t *root = json_loads(BEGIN ",\"devices\":[{\"name\":\"a\",\"kind\":\"k\"}],"
                                        "\"tasks\":[{\"devices\":[\"b\",\"a\"]}]}",
                                  0, NULL);
        Topology *t = machine();
        Snapshot *s = NULL;
        char *message = NULL;
        Device *d;

        assert_int_equal(record_to_host(root, t, &s, &message), 0);
        assert_int_equal(s->n_tasks, 0);
        d = snapshot_add_device(s);
        d->name = strdup("b");
        d->kind = strdup("k");
        assert_int_equal(record_add_tasks(root, s, &message), 0);
        assert_int_equal(s->n_tasks, 1);
        assert_true(s->tasks[0].n_devices == 2 && s->tasks[0].devices[0] == 1 && s->tasks[0].devices[1] == 0);
        snapshot_free(s);
        json_decref(root);
}

static void test_snapshot_growth(void **state) {
        Snapshot *s;

        assert_int_equal(snapshot_new(&s), 0);
        for (unsigned i = 0; i < 100; i++) {
                Task *t = snapshot_add_task(s);
                Device *d = snapshot_add_device(s);

                assert_non_null(t);
                assert_non_null(d);
                assert_true(isnan(t->quota) && t->rank == -1 && d->node == TOPOLOGY_NONE && isnan(d->price));
                t->pid = 1000 - i;
                t->start_time = i / 10;
                assert_true(asprintf(&d->name, "d%u", i) > 0);
                assert_non_null(snapshot_add_link(s));
        }
        snapshot_sort(s);
        for (unsigned i = 1; i < 100; i++)
                assert_true(s->tasks[i - 1].start_time < s->tasks[i].start_time ||
                            (s->tasks[i - 1].start_time == s->tasks[i].start_time &&
                             s->tasks[i - 1].pid < s->tasks[i].pid));
        assert_non_null(snapshot_device(s, "d77", NULL));
        assert_null(snapshot_device(s, "d100", NULL));
        assert_null(snapshot_task(s, 5));
        assert_int_equal(enum_from_name(health_names, "OK"), HEALTH_OK);
        assert_int_equal(enum_from_name(link_names, "hccs"), LINK_HCCS);
        assert_int_equal(enum_from_name(link_names, "IB"), -EINVAL);
        for (int i = 0; i < _HEALTH_MAX; i++)
                assert_non_null(health_names[i]);
        assert_null(health_names[_HEALTH_MAX]);
        assert_null(link_names[_LINK_MAX]);
        assert_null(owner_names[_OWNER_MAX]);
        snapshot_free(s);
}

static void test_topology_questions(void **state) {
        Topology *t = machine();
        unsigned order[2];

        assert_null(topology_cpu(t, 7));
        assert_int_equal(topology_cpu(t, 6)->node, 1);
        assert_int_equal(topology_node_by_os(t, 4), 1);
        assert_int_equal(topology_node_by_os(t, 1), TOPOLOGY_NONE);
        topology_nodes_by_distance(t, 1, order);
        assert_int_equal(order[0], 1);
        assert_int_equal(order[1], 0);
        assert_int_equal(topology_memory_node(t, 1), 1);
        t->nodes[1].memory = 0;
        assert_int_equal(topology_memory_node(t, 1), 0);
        t->nodes[0].ordinary = false; /* still better than none */
        assert_int_equal(topology_memory_node(t, 1), 0);
        t->nodes[1].memory = 1;
        assert_int_equal(topology_memory_node(t, 0), 1); /* ordinary, though farther */
        t->nodes[0].allowed = t->nodes[1].allowed = false;
        assert_int_equal(topology_memory_node(t, 0), TOPOLOGY_NONE);
        topology_free(t);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_trip),      cmocka_unit_test(test_odd_bytes),
                cmocka_unit_test(test_least),           cmocka_unit_test(test_bad),
                cmocka_unit_test(test_snapshot_growth), cmocka_unit_test(test_topology_questions),
                cmocka_unit_test(test_two_steps),
        };

        return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
