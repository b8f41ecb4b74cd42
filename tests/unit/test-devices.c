/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/readers/devices.h"

#include <errno.h>
#include <setjmp.h>
#include <cmocka.h>

/* Two nodes that the kernel calls 0 and 4, and the PCI functions of a host with a bit of everything. */
static TopologyNode nodes[] = { { .os = 0 }, { .os = 4 } };
static TopologyPci functions[] = {
        { .address = "0001:01:00.0", .vendor = 0x19e5, .device = 0xd802, .class = 0x1200, .node = 1, .root = "r1" },
        { .address = "0000:c1:00.0", .vendor = 0x19e5, .device = 0xd802, .class = 0x1200, .node = 0, .root = "r0" },
        { .address = "0000:1a:00.0", .vendor = 0x19e5, .device = 0xd803, .class = 0x1200, .node = TOPOLOGY_NONE },
        { .address = "0000:7d:00.0", .vendor = 0x19e5, .device = 0xa222, .class = 0x0200, .node = 0 }, /* Huawei NIC */
        { .address = "0000:00:01.0",
          .vendor = 0x1d94,
          .device = 0x1450,
          .class = 0x0600,
          .node = 0 }, /* Hygon bridge */
        { .address = "0000:04:00.0", .vendor = 0x1d94, .device = 0x6211, .class = 0x1200, .node = 1 },
        { .address = "0000:05:00.0", .vendor = 0xcabc, .device = 0x0370, .class = 0xff00, .node = 0 },
        { .address = "0000:06:00.0", .vendor = 0xcabc, .device = 0x9999, .class = 0x0604, .node = 0 }, /* a bridge */
        { .address = "0000:07:00.0", .vendor = 0x1e3e, .device = 0x0001, .class = 0x1200, .node = 0 },
        { .address = "0000:08:00.0", .vendor = 0x10de, .device = 0x20b5, .class = 0x0302, .node = 0 },
        { .address = "0000:08:00.1", .vendor = 0x10de, .device = 0x1aef, .class = 0x0403, .node = 0 }, /* its audio */
        { .address = "0000:09:00.0", .vendor = 0x1002, .device = 0x740f, .class = 0x0380, .node = 0 },
        { .address = "0000:0a:00.0",
          .vendor = 0x1002,
          .device = 0x1638,
          .class = 0x0300,
          .node = 0 }, /* on-board graphics */
        { .address = "0000:0b:00.0", .vendor = 0x203f, .device = 0xd500, .class = 0x1200, .node = 0 }, /* re-branded */
        { .address = "0000:0c:00.0", .vendor = 0x1234, .device = 0x11e8, .class = 0x00ff, .node = 1 }, /* QEMU's edu */
};
static const Topology bare = { .source = "bare", .nodes = nodes, .n_nodes = 2 };
static const Topology host = {
        .source = "host", .nodes = nodes, .n_nodes = 2, .pci = functions, .n_pci = ELEMENTSOF(functions)
};

static int add(DeviceText *d, const char *label, const char *text, char **ret_message) {
        Ini *ini = NULL;
        int r;

        r = ini_parse(label, text, strlen(text), &ini, ret_message);
        if (r >= 0)
                r = device_text_add(d, ini, false, ret_message);
        if (r < 0)
                ini_free(ini);
        return r;
}

static int read_devices(const Topology *t, const char *text, Snapshot **ret, char **ret_message) {
        DeviceText d = {};
        int r;

        assert_int_equal(snapshot_new(ret), 0);
        (*ret)->topology = t;
        r = add(&d, "t", text, ret_message);
        if (r >= 0)
                r = devices_read(*ret, &d, ret_message);
        device_text_done(&d);
        return r;
}

static Snapshot *read_good(const Topology *t, const char *text) {
        _cleanup_free_ char *message = NULL;
        Snapshot *s;

        if (read_devices(t, text, &s, &message) < 0)
                fail_msg("%s", strempty(message));
        return s;
}

static void assert_device(const Snapshot *s, size_t i, const char *name, const char *kind, const char *pci,
                          unsigned node) {
        assert_true(i < s->n_devices);
        assert_string_equal(s->devices[i].name, name);
        assert_string_equal(s->devices[i].kind, kind);
        if (pci)
                assert_string_equal(s->devices[i].pci, pci);
        else
                assert_null(s->devices[i].pci);
        assert_int_equal(s->devices[i].node, node);
}

/* Only accelerators, each by its vendor's habit, numbered by address and not by hwloc's order. */
static void test_found(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = read_good(&host, "");

        assert_int_equal(s->n_devices, 9);
        assert_device(s, 0, "dcu0", "hygon", "0000:04:00.0", 1);
        assert_device(s, 1, "mlu0", "cambricon", "0000:05:00.0", 0);
        assert_device(s, 2, "ilu0", "iluvatar", "0000:07:00.0", 0);
        assert_device(s, 3, "gpu0", "nvidia", "0000:08:00.0", 0);
        assert_device(s, 4, "gpu1", "amd", "0000:09:00.0", 0);
        assert_device(s, 5, "npu0", "ascend", "0000:0b:00.0", 0);
        assert_device(s, 6, "npu1", "ascend", "0000:1a:00.0", TOPOLOGY_NONE);
        assert_device(s, 7, "npu2", "ascend", "0000:c1:00.0", 0);
        assert_device(s, 8, "npu3", "ascend", "0001:01:00.0", 1);
        assert_string_equal(s->devices[8].root, "r1");
        assert_int_equal(s->devices[0].memory, 0);
        assert_true(isnan(s->devices[0].temperature));
        assert_int_equal(s->devices[0].health, HEALTH_UNKNOWN);
        assert_null(s->devices[7].nodes); /* not the running system */
}

static void test_refined(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = read_good(
                &host, "[Device npu0]\nPCI=C1:00.0\nMemory=64G\nTemperature=52\nHealth=ok\n"
                       "[Device big]\nPCI=1:01:00.0\nKind=ascend\nNUMANode=0\nNodes=/dev/davinci7\n"
                       "[Device mlu0]\nKind=cambricon\nNUMANode=4\nPrice=2.5\nPower=75\nHealth=Alarm\n");

        assert_int_equal(s->n_devices, 10);
        assert_device(s, 1, "mlu1", "cambricon", "0000:05:00.0", 0); /* mlu0 is taken */
        assert_device(s, 5, "npu1", "ascend", "0000:0b:00.0", 0);
        assert_device(s, 6, "npu2", "ascend", "0000:1a:00.0", TOPOLOGY_NONE);
        assert_device(s, 7, "npu0", "ascend", "0000:c1:00.0", 0);
        assert_true(s->devices[7].memory == 64ULL << 30 && s->devices[7].temperature == 52);
        assert_int_equal(s->devices[7].health, HEALTH_OK);
        assert_device(s, 8, "big", "ascend", "0001:01:00.0", 0);
        assert_string_equal(s->devices[8].nodes[0], "/dev/davinci7");
        assert_device(s, 9, "mlu0", "cambricon", NULL, 1);
        assert_true(s->devices[9].price == 2.5 && s->devices[9].power == 75);
        assert_int_equal(s->devices[9].health, HEALTH_ALARM);
}

static void test_described_only(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = read_good(
                &bare,
                "[Device a]\nKind=ascend\nPCI=0000:C1:00.0\n[Device b]\nKind=odd\n[Device c]\nKind=x\nPCI=01:00.1\nNUMANode=4\n"
                "[Device d]\nKind=x\nNUMANode=unknown\n"
                "[Link b a]\nType=HCCS\nBandwidth=30G\n[Link a c]\ntype=sys\n");

        assert_int_equal(s->n_devices, 4);
        assert_device(s, 0, "a", "ascend", "0000:c1:00.0", TOPOLOGY_NONE);
        assert_device(s, 1, "b", "odd", NULL, TOPOLOGY_NONE);
        assert_device(s, 2, "c", "x", "0000:01:00.1", 1);
        assert_device(s, 3, "d", "x", NULL, TOPOLOGY_NONE);
        assert_int_equal(s->n_links, 2);
        assert_true(s->links[0].a == 1 && s->links[0].b == 0 && s->links[0].type == LINK_HCCS &&
                    s->links[0].bandwidth == 30e9);
        assert_true(s->links[1].type == LINK_SYS && isnan(s->links[1].bandwidth));
}

/* As with a record: what it has keeps its name and place, and only the keys that are described change. */
static void test_known(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = NULL;
        _cleanup_free_ char *message = NULL;
        DeviceText d = { .for_record = true };

        assert_int_equal(snapshot_new(&s), 0);
        s->topology = &host;
        for (unsigned i = 0; i < 3; i++) {
                Device *known = snapshot_add_device(s);

                assert_true(asprintf(&known->name, "npu%u", i) > 0);
                known->kind = strdup("ascend");
                known->memory = 5;
                known->power = 7;
                known->health = HEALTH_OK;
        }
        s->devices[1].pci = strdup("0000:c1:00.0");
        *snapshot_add_link(s) = (Link){ .a = 0, .b = 1, .type = LINK_SYS, .bandwidth = 5e9 };
        *snapshot_add_link(s) = (Link){ .a = 1, .b = 2, .type = LINK_HCCS, .bandwidth = 6e9 };
        assert_int_equal(add(&d, "t",
                             "[Device npu1]\nPCI=C1:00.0\nPower=9\n[Device npu0]\nNUMANode=4\nHealth=unknown\n"
                             "[Device npu2]\nPCI=1a:00.0\n[Device new]\nKind=x\n[Device dcu]\nPCI=04:00.0\n"
                             "[Link npu1 npu0]\nType=PIX\n[Link npu2 npu1]\nType=HCCS\n[Link new npu0]\nType=SYS\n",
                             &message),
                         0);
        assert_int_equal(devices_read(s, &d, &message), 0);
        assert_int_equal(s->n_devices, 5); /* no other function of the machine */
        assert_device(s, 0, "npu0", "ascend", NULL, 1);
        assert_device(s, 1, "npu1", "ascend", "0000:c1:00.0", TOPOLOGY_NONE);
        assert_device(s, 2, "npu2", "ascend", "0000:1a:00.0", TOPOLOGY_NONE);
        assert_device(s, 3, "dcu", "hygon", "0000:04:00.0", 1);
        assert_device(s, 4, "new", "x", NULL, TOPOLOGY_NONE);
        assert_true(s->devices[0].health == HEALTH_UNKNOWN && s->devices[1].health == HEALTH_OK);
        assert_true(s->devices[0].power == 7 && s->devices[1].power == 9 && s->devices[1].memory == 5);
        assert_int_equal(s->n_links, 3);
        assert_true(s->links[0].type == LINK_PIX && isnan(s->links[0].bandwidth));
        assert_true(s->links[1].type == LINK_HCCS && s->links[1].bandwidth == 6e9);
        assert_true(s->links[2].a == 4 && s->links[2].b == 0);
        device_text_done(&d);
        assert_int_equal(add(&d, "t", "[Device other]\nKind=x\nPCI=C1:00.0\n", &message), 0);
        assert_int_equal(devices_read(s, &d, &message), -EBADMSG);
        assert_string_equal(message, "t:3: PCI=C1:00.0 is device npu1 of the record; describe it as [Device npu1]");
        device_text_done(&d);
}

/* Whoever filled the snapshot: no two devices of one name leave the reader. */
static void test_one_name(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = NULL;
        _cleanup_free_ char *message = NULL;
        const DeviceText d = {};

        assert_int_equal(snapshot_new(&s), 0);
        s->topology = &bare;
        for (unsigned i = 0; i < 2; i++) {
                Device *known = snapshot_add_device(s);

                known->name = strdup("npu0");
                known->kind = strdup("ascend");
        }
        assert_int_equal(devices_read(s, &d, &message), -EBADMSG);
        assert_string_equal(message, "two devices are both named npu0");
}

static void test_pci_ids(void **state) {
        static const char *const bad[] = { "",
                                           "1234",
                                           "1234:11e8",
                                           "1234:11e8=",
                                           "1234=edu",
                                           ":=edu",
                                           "1234:11e8=e du",
                                           "12345:11e8=edu",
                                           "0x1234:11e8=edu",
                                           "-1:11e8=edu",
                                           "1234:11e8=../x" };
        _cleanup_(snapshot_freep) Snapshot *s = NULL;
        _cleanup_free_ char *message = NULL;
        DeviceText d = {};

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                assert_int_equal(device_text_add_pci_id(&d, bad[i], &message), -EBADMSG);
                assert_non_null(strstr(message, "looks like 1234:11e8=edu"));
        }
        assert_int_equal(device_text_add_pci_id(&d, "1234:11E8=edu", &message), 0);
        assert_int_equal(device_text_add_pci_id(&d, "10de:20b5=mine", &message), 0); /* before the table */
        assert_int_equal(snapshot_new(&s), 0);
        s->topology = &host;
        assert_int_equal(devices_read(s, &d, &message), 0);
        assert_int_equal(s->n_devices, 10);
        assert_device(s, 3, "mine0", "mine", "0000:08:00.0", 0);
        assert_device(s, 6, "edu0", "edu", "0000:0c:00.0", 1);
        device_text_done(&d);
}

static void test_bad(void **state) {
        static const char *const cases[][2] = {
                { "[Device]\nKind=x\n", "t:1: [Device NAME] takes one name" },
                { "[Device a b]\nKind=x\n", "t:1: [Device NAME] takes one name" },
                { "[Device a:b]\nKind=x\n", "t:1: [Device a:b]: the name is 1 to 64" },
                { "[Device none]\nKind=x\n", "t:1: [Device none]: the name is" },
                { "[Device a]\n", "t:1: [Device a] needs Kind=" },
                { "[Device a]\nKind=\n", "t:2: Kind=: a kind is 1 to 64" },
                { "[Device a]\nKind=x\nPCI=zz:00.0\n", "t:3: PCI=zz:00.0 is no PCI address" },
                { "[Device a]\nKind=x\nPCI=c1:20.0\n", "t:3: PCI=c1:20.0 is no PCI address" },
                { "[Device a]\nKind=x\nPCI=c1:00.8\n", "t:3: PCI=c1:00.8 is no PCI address" },
                { "[Device a]\nKind=x\nPCI=0000:c1:00.0.1\n", "t:3: PCI=0000:c1:00.0.1 is no" },
                { "[Device a]\nKind=x\nPCI=\n", "t:3: PCI= is no PCI address" },
                { "[Device a]\nKind=x\nNUMANode=-1\n",
                  "t:3: NUMANode=-1 is out of range, allowed: 0 to 65535, unknown" },
                { "[Device a]\nKind=x\nNUMANode=3\n", "t:3: NUMANode=3: bare has no such node, it has 2 from 0 to 4" },
                { "[Device a]\nKind=x\nTemperature=nan\n", "t:3: Temperature=nan is not a number" },
                { "[Device a]\nKind=x\nPower=-5\n", "t:3: Power=-5 is out of range" },
                { "[Device a]\nKind=x\nPrice=1e999\n", "t:3: Price=1e999 is out of range" },
                { "[Device a]\nKind=x\nHealth=fine\n",
                  "t:3: Health=fine is not one of: unknown, ok, warning, alarm, critical" },
                { "[Device a]\nKind=x\nNodes=davinci0\n", "t:3: Nodes: davinci0 is not an absolute path" },
                { "[Device a]\nKind=x\nColour=red\n", "t:3: [Device] has no key Colour=, allowed: Kind, PCI" },
                { "[Device a]\nPCI=c1:00.0\n", "t:1: [Device a] needs Kind=: no known accelerator is at PCI=c1:00.0" },
                { "[Device a]\nKind=x\nPCI=c1:00.0\n[Device b]\nKind=x\nPCI=0000:C1:0.0\n",
                  "t:6: PCI=0000:C1:0.0 is device a already, in t:1" },
                { "[Link a]\nType=SYS\n", "t:1: [Link A B] takes the names of two devices" },
                { "[Link a b c]\nType=SYS\n", "t:1: [Link A B] takes" },
                { "[Link a a]\nType=SYS\n", "t:1: [Link a a] joins a device with itself" },
                { "[Link a b]\n", "t:1: [Link a b] needs Type=" },
                { "[Link a b]\nType=FAST\n", "t:2: Type=FAST is not one of: SYS, PHB" },
                { "[Link a b]\nType=SYS\nBandwidth=nan\n", "t:3: Bandwidth=nan is not bytes per second" },
                { "[Link a b]\nType=SYS\n[Link b a]\nType=SYS\n",
                  "t:3: the link of b and a is described already in t:1" },
                { "[Device a]\nKind=x\n[Link a b]\nType=SYS\n",
                  "t:3: [Link a b]: no device b is described or found on this machine" },
                { "[Solver]\nSeed=1\n", "t:1: [Solver] is not known in a device description, allowed: Device, Link" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(snapshot_freep) Snapshot *s = NULL;
                _cleanup_free_ char *message = NULL;

                if (read_devices(&bare, cases[i][0], &s, &message) != -EBADMSG)
                        fail_msg("accepted: %s", cases[i][0]);
                if (!message || strncmp(message, cases[i][1], strlen(cases[i][1])) != 0)
                        fail_msg("\"%s\" instead of \"%s\"", strempty(message), cases[i][1]);
        }
}

/* What a daemon knows of earlier looks: names stay with their cards, and what went is no error. */
static void test_come_and_go(void **state) {
        static const FoundDevice found[] = {
                { (char *) "npu0", (char *) "0000:0b:00.0" }, { (char *) "npu1", (char *) "0000:1a:00.0" },
                { (char *) "npu2", (char *) "0000:c1:00.0" }, { (char *) "big", (char *) "0001:01:00.0" },
                { (char *) "npu3", (char *) "0000:f0:00.0" }, /* gone, its number kept for it */
                { (char *) "old", (char *) "0000:f1:00.0" },  /* gone, described */
        };
        Topology t = host;
        DeviceText d = { .found = found, .n_found = ELEMENTSOF(found) };
        _cleanup_(snapshot_freep) Snapshot *s = NULL;
        _cleanup_free_ char *message = NULL;
        static TopologyPci left[3];

        left[0] = functions[1]; /* c1:00.0 */
        left[1] = functions[0]; /* 0001:01:00.0 */
        left[2] = (TopologyPci){
                .address = (char *) "0000:02:00.0", .vendor = 0x19e5, .device = 0xd802, .class = 0x1200
        };
        t.pci = left;
        t.n_pci = ELEMENTSOF(left);
        assert_int_equal(add(&d, "t",
                             "[Device old]\nPCI=f1:00.0\n[Link old npu2]\nType=HCCS\n[Link npu1 npu2]\nType=HCCS\n"
                             "[Link npu2 npu4]\nType=HCCS\n",
                             &message),
                         0);
        assert_int_equal(snapshot_new(&s), 0);
        s->topology = &t;
        if (devices_read(s, &d, &message) < 0)
                fail_msg("%s", message);
        assert_int_equal(s->n_devices, 3);
        assert_device(s, 0, "npu4", "ascend", "0000:02:00.0", 0); /* new: the first number that nobody had */
        assert_device(s, 1, "npu2", "ascend", "0000:c1:00.0", 0);
        assert_device(s, 2, "npu5", "ascend", "0001:01:00.0", 1); /* its description went, and the name with it */
        assert_int_equal(s->n_links, 1);
        device_text_done(&d);
}

static void test_two_files(void **state) {
        _cleanup_free_ char *message = NULL;
        DeviceText d = {};

        assert_int_equal(add(&d, "one", "[Device a]\nKind=x\nPCI=1:0.0\n[Link a b]\nType=PIX\n", &message), 0);
        assert_int_equal(add(&d, "two", "\n[Device a]\nKind=x\n", &message), -EBADMSG);
        assert_string_equal(message, "two:2: device a is described already in one:1");
        assert_int_equal(add(&d, "two", "[Device b]\nKind=x\nPCI=0000:01:00.0\n", &message), -EBADMSG);
        assert_string_equal(message, "two:3: PCI=0000:01:00.0 is device a already, in one:1");
        assert_int_equal(add(&d, "two", "[Link b a]\nType=SYS\n", &message), -EBADMSG);
        assert_string_equal(message, "two:1: the link of b and a is described already in one:4");
        assert_int_equal(d.n_files, 1);
        assert_int_equal(add(&d, "two", "[Device b]\nKind=x\n", &message), 0);
        assert_int_equal(d.n_files, 2);
        device_text_done(&d);
}

static void test_too_many(void **state) {
        _cleanup_free_ char *text = NULL, *message = NULL;
        DeviceText d = {};
        size_t size;
        FILE *f = open_memstream(&text, &size);

        for (unsigned i = 0; i < 10000; i++)
                fprintf(f, "[Device d%u]\nKind=x\n", i);
        fclose(f);
        assert_int_equal(add(&d, "t", text, &message), -EBADMSG);
        assert_string_equal(message, "t:2049: more than 1024 devices are described");
        device_text_done(&d);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_found),
                cmocka_unit_test(test_refined),
                cmocka_unit_test(test_described_only),
                cmocka_unit_test(test_pci_ids),
                cmocka_unit_test(test_bad),
                cmocka_unit_test(test_come_and_go),
                cmocka_unit_test(test_two_files),
                cmocka_unit_test(test_too_many),
                cmocka_unit_test(test_known),
                cmocka_unit_test(test_one_name),
        };

        return cmocka_run_group_tests_name("devices", tests, NULL, NULL);
}
