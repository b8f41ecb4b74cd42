/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every machine in tests/data is read, as captured directory or XML, and held against what must be true of any machine
 * and against what is known of this one (from lstopo); then XML that is cut, absurd or hostile.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "common/fileio.h"
#include "common/text.h"
#include "daemon/readers/machine-internal.h"
#include "daemon/readers/machine.h"
#include "policy/record.h"

typedef struct Fact {
        const char *name;
        unsigned cpus, packages, nodes, l3, clusters, cores, smt, kinds;
        const char *online, *allowed, *allowed_nodes;
        bool distances;
} Fact;

static const Fact facts[] = {
        { "128arm-2pa2n8cluster4co", 128, 2, 4, 4, 32, 128, 1, 1, "0-127", "0-127", "0-3", true },
        { "16amd64-8n2c-cpusets", 15, 8, 8, 0, 0, 15, 1, 1, "0-3,5-15", "0-3,5-6,12-15", "1-4", true },
        { "16em64t-4s2c2t-offlines", 12, 4, 1, 4, 0, 7, 2, 1, "0-1,3-4,6-12,15", "0-1,3-4,6-12,15", "0", false },
        { "20em64t-hybrid-1p6c2t+2ca4co1t", 20, 1, 1, 1, 2, 14, 2, 2, "0-19", "0-19", "0", false },
        { "256ppc-8n8s4t", 256, 64, 8, 64, 0, 64, 4, 1, "0-255", "0-255", "0-1,4-5,8-9,12-13", true },
        { "32amd64-4s2n4c-cgroup2", 32, 4, 8, 8, 0, 32, 1, 1, "0-31", "0-5", "0-5", true },
        { "40intel64-2g2n4c+pcilocality", 40, 4, 4, 4, 0, 40, 1, 1, "0-39", "0-39", "0-3", true },
        { "48amd64-4pa2n6c-sparse", 48, 4, 8, 8, 0, 48, 1, 1, "0-47", "0-47", "0-2,33-34,45,72-73", true },
        { "8em64t-2s2ca2c-buggynuma", 8, 2, 1, 0, 4, 8, 1, 1, "0-7", "0-7", "0", false },
        { "fakeheteromemtiers", 6, 1, 7, 1, 0, 6, 1, 1, "0-5", "0-5", "0-2,4,6,8-9", true },
        { "fakepcilocalities", 40, 4, 4, 0, 0, 40, 1, 1, "0-39", "0-39", "0-3", true },
        { "nvidiagpunumanodes", 32, 2, 8, 4, 4, 8, 4, 1, "0-15,88-103", "0-15,88-103", "0,8,250-255", true },
        { "16amd64-4distances", 16, 8, 8, 0, 0, 16, 1, 1, "0-15", "0-15", "0-7", true },
        { "24em64t-2n6c2t-pci", 24, 2, 2, 2, 0, 12, 2, 1, "0-23", "0-23", "0-1", true },
        { "8intel64-4n2t-memattrs", 8, 0, 4, 0, 0, 8, 1, 1, "0-7", "0-7", "0-3", false },
        { "96em64t-4n4d3ca2co-pci", 96, 16, 4, 16, 48, 96, 1, 1, "0-95", "0-95", "0-3", true },
        { "a3", 640, 4, 8, 8, 0, 320, 2, 1, "0-639", "0-639", "0-7", true },
};

static char *scratch;      /* unpacked machines, one directory each below NAME/ */
static const char *no_tar; /* why there are none */

static char *data_path(const char *name) {
        const char *top = getenv("TOP_SRCDIR");
        char *path;

        assert_true(asprintf(&path, "%s/tests/data/%s", top ? top : ".", name) > 0);
        return path;
}

static int run(const char *format, ...) {
        _cleanup_free_ char *command = NULL;
        va_list ap;
        int r;

        va_start(ap, format);
        r = vasprintf(&command, format, ap);
        va_end(ap);
        assert_true(r > 0);
        return system(command);
}

/* NAME.tar.bz2 -> scratch/NAME/ANY: the directory inside need not have the archive's name. */
static char *unpack(const char *file) {
        _cleanup_free_ char *archive = data_path("machines");
        char *found = NULL;
        _cleanup_free_ char *base = strndup(file, strlen(file) - strlen(".tar.bz2"));
        _cleanup_free_ char *dir = path_join(scratch, base);
        struct dirent *e;
        DIR *d;

        assert_int_equal(mkdir(dir, 0700), 0);
        if (run("tar -xjf '%s/%s' -C '%s' 2>/dev/null", archive, file, dir) != 0)
                return NULL;
        d = opendir(dir);
        assert_non_null(d);
        while ((e = readdir(d)))
                if (e->d_name[0] != '.') {
                        found = path_join(dir, e->d_name);
                        break;
                }
        closedir(d);
        return found;
}

static unsigned count_ids(const Topology *t, size_t offset) {
        unsigned n = 0;

        for (unsigned i = 0; i < t->n_cpus; i++) {
                unsigned id = *(const unsigned *) ((const char *) (t->cpus + i) + offset);

                if (id != TOPOLOGY_NONE && id >= n)
                        n = id + 1;
        }
        /* dense: each below n is there */
        for (unsigned id = 0; id < n; id++) {
                bool there = false;

                for (unsigned i = 0; i < t->n_cpus && !there; i++)
                        there = *(const unsigned *) ((const char *) (t->cpus + i) + offset) == id;
                assert_true(there);
        }
        return n;
}

static void assert_set(const Bitset *b, const char *list) {
        _cleanup_free_ char *s = NULL;

        assert_int_equal(bitset_format(b, &s), 0);
        assert_string_equal(s, list);
}

/* What must be true of any machine. */
static void check_invariants(const Topology *t) {
        _cleanup_(bitset_done) Bitset seen = BITSET_EMPTY;

        assert_true(t->n_cpus > 0 && t->n_nodes > 0);
        assert_int_equal(bitset_weight(&t->online), t->n_cpus);
        assert_true(bitset_subset(&t->allowed, &t->online));
        assert_true(bitset_subset(&t->isolated, &t->online));
        for (unsigned i = 0; i < t->n_nodes; i++) {
                assert_true(i == 0 || t->nodes[i - 1].os < t->nodes[i].os);
                assert_int_equal(topology_node_by_os(t, t->nodes[i].os), i);
                assert_false(bitset_intersects(&seen, &t->nodes[i].cpus));
                assert_int_equal(bitset_or(&seen, &t->nodes[i].cpus), 0);
                assert_int_equal(t->nodes[i].allowed, bitset_test(&t->allowed_nodes, t->nodes[i].os));
                for (unsigned k = 0; k < t->n_nodes; k++)
                        assert_true(topology_distance(t, i, i) <= topology_distance(t, i, k));
                assert_true(fabs(topology_distance(t, i, i) - 10) < 1e-9);
        }
        assert_true(bitset_equal(&seen, &t->online));
        for (unsigned i = 0; i < t->n_cpus; i++) {
                const TopologyCpu *c = t->cpus + i;

                assert_true(i == 0 || t->cpus[i - 1].os < c->os);
                assert_ptr_equal(topology_cpu(t, c->os), c);
                assert_true(c->node < t->n_nodes);
                assert_true(bitset_test(&t->nodes[c->node].cpus, c->os));
                assert_int_not_equal(c->core, TOPOLOGY_NONE);
                for (unsigned k = i + 1; k < t->n_cpus; k++) /* siblings have different ranks */
                        assert_false(t->cpus[k].core == c->core && t->cpus[k].smt == c->smt);
        }
        for (unsigned i = 0; i < t->n_pci; i++) {
                assert_true(t->pci[i].node == TOPOLOGY_NONE || t->pci[i].node < t->n_nodes);
                assert_true(bitset_subset(&t->pci[i].local_cpus, &t->online));
                assert_non_null(t->pci[i].root);
        }
}

static void check_fact(const Topology *t, const Fact *f) {
        unsigned smt = 0, kinds = 0;

        for (unsigned i = 0; i < t->n_cpus; i++) {
                smt = MAX(smt, t->cpus[i].smt + 1);
                kinds = MAX(kinds, t->cpus[i].kind + 1);
        }
        assert_int_equal(t->n_cpus, f->cpus);
        assert_int_equal(t->n_nodes, f->nodes);
        assert_int_equal(count_ids(t, offsetof(TopologyCpu, package)), f->packages);
        assert_int_equal(count_ids(t, offsetof(TopologyCpu, l3)), f->l3);
        assert_int_equal(count_ids(t, offsetof(TopologyCpu, cluster)), f->clusters);
        assert_int_equal(count_ids(t, offsetof(TopologyCpu, core)), f->cores);
        assert_int_equal(smt, f->smt);
        assert_int_equal(kinds, f->kinds);
        assert_set(&t->online, f->online);
        assert_set(&t->allowed, f->allowed);
        assert_set(&t->allowed_nodes, f->allowed_nodes);
        assert_int_equal(t->distances_known, f->distances);
}

static Topology *load(const char *path) {
        char *message = NULL;
        json_t *record = NULL;
        Topology *t = NULL;
        int r = machine_read_path(path, &t, &record, &message);

        if (r < 0)
                fail_msg("%s: %d: %s", path, r, strempty(message));
        assert_null(record);
        assert_false(t->is_this_system);
        return t;
}

static char *machine_path(const char *name) {
        _cleanup_free_ char *dir = path_join(scratch, name);
        char *found = NULL;
        struct dirent *e;
        DIR *d = opendir(dir);

        if (!d) {
                print_message("# %s\n", no_tar ? no_tar : "not unpacked");
                skip();
        }
        while ((e = readdir(d)))
                if (e->d_name[0] != '.')
                        found = path_join(dir, e->d_name);
        closedir(d);
        return found;
}

static const Fact *fact_of(const char *file) {
        for (size_t i = 0; i < ELEMENTSOF(facts); i++) {
                size_t n = strlen(facts[i].name);

                if (strncmp(file, facts[i].name, n) == 0 && file[n] == '.')
                        return facts + i;
        }
        return NULL;
}

static void test_all_machines(void **state) {
        _cleanup_free_ char *dir = data_path("machines");
        DIR *d = opendir(dir);
        struct dirent *e;
        unsigned n = 0;

        assert_non_null(d);
        while ((e = readdir(d))) {
                const Fact *f = fact_of(e->d_name);
                _cleanup_free_ char *path = NULL;
                Topology *t;

                if (strstr(e->d_name, ".xml"))
                        path = path_join(dir, e->d_name);
                else if (strstr(e->d_name, ".tar.bz2") && !no_tar)
                        path = unpack(e->d_name);
                else
                        continue;
                assert_non_null(path);
                t = load(path);
                check_invariants(t);
                if (f)
                        check_fact(t, f);
                else
                        print_message("# %s: read, nothing known of it\n", e->d_name);
                topology_free(t);
                n++;
        }
        closedir(d);
        assert_true(n >= (no_tar ? 4 : 16));
}

static void test_a3(void **state) {
        _cleanup_free_ char *path = data_path("a3.xml");
        Topology *t = load(path);

        check_invariants(t);
        check_fact(t, fact_of("a3.xml"));
        assert_int_equal(t->n_pci, 0);
        topology_free(t);
}

static void test_kunpeng(void **state) {
        _cleanup_free_ char *path = machine_path("128arm-2pa2n8cluster4co");
        Topology *t = load(path);
        unsigned order[4];

        for (unsigned i = 0; i < 128; i++) {
                assert_int_equal(t->cpus[i].node, i / 32);
                assert_int_equal(t->cpus[i].cluster, i / 4);
                assert_int_equal(t->cpus[i].l3, i / 32);
        }
        assert_true(topology_distance(t, 0, 3) == 33);
        topology_nodes_by_distance(t, 1, order);
        assert_int_equal(order[0], 1);
        assert_int_equal(order[1], 0);
        assert_int_equal(order[2], 2);
        assert_int_equal(order[3], 3);
        topology_free(t);
}

static void test_offline_smt(void **state) {
        _cleanup_free_ char *path = machine_path("16em64t-4s2c2t-offlines");
        Topology *t = load(path);

        /* CPU 2 is offline: its sibling 10 is the first of its core now. */
        assert_null(topology_cpu(t, 2));
        assert_int_equal(topology_cpu(t, 10)->smt, 0);
        assert_int_equal(topology_cpu(t, 8)->smt, 1);
        topology_free(t);
}

static void test_memory_nodes(void **state) {
        _cleanup_free_ char *path = machine_path("fakeheteromemtiers");
        Topology *t = load(path);
        unsigned hbm = topology_node_by_os(t, 4), nvm = topology_node_by_os(t, 6), only_hbm = topology_node_by_os(t, 2);

        /* DRAM before HBM beside it; HBM where there is no DRAM; NVM never. */
        assert_int_equal(topology_cpu(t, 2)->node, topology_node_by_os(t, 1));
        assert_int_equal(topology_cpu(t, 4)->node, only_hbm);
        assert_true(bitset_isempty(&t->nodes[hbm].cpus) && bitset_isempty(&t->nodes[nvm].cpus));
        assert_false(t->nodes[hbm].ordinary || t->nodes[nvm].ordinary);
        assert_true(t->nodes[only_hbm].ordinary);
        assert_string_equal(t->nodes[hbm].kind, "HBM");
        assert_true(t->nodes[hbm].bandwidth > t->nodes[0].bandwidth);
        assert_true(isnan(t->nodes[hbm].latency));
        assert_int_equal(topology_memory_node(t, nvm), 0);
        topology_free(t);
}

static void test_gpu_nodes(void **state) {
        _cleanup_free_ char *path = machine_path("nvidiagpunumanodes");
        Topology *t = load(path);

        for (unsigned i = 2; i < t->n_nodes; i++) {
                assert_true(bitset_isempty(&t->nodes[i].cpus));
                assert_false(t->nodes[i].ordinary);
                assert_true(t->nodes[i].memory > 0);
        }
        assert_int_equal(t->n_pci, 6);
        assert_int_equal(t->pci[0].node, 0);
        assert_int_equal(t->pci[5].node, 1);
        topology_free(t);
}

static void test_mems_disallowed(void **state) {
        _cleanup_free_ char *path = machine_path("16amd64-8n2c-cpusets");
        Topology *t = load(path);

        /* Nodes 0 and 5 to 7 are another's: CPUs 12 to 15 take their memory from node 1, the lowest of the equally far. */
        assert_int_equal(topology_cpu(t, 12)->node, 6);
        assert_int_equal(topology_memory_node(t, 6), 1);
        assert_int_equal(topology_memory_node(t, 3), 3);
        topology_free(t);
}

static void test_contradiction(void **state) {
        _cleanup_free_ char *path = machine_path("8em64t-2s2ca2c-buggynuma");
        Topology *t = load(path);

        assert_int_equal(strv_length(t->warnings), 1);
        assert_non_null(strstr(t->warnings[0], "NUMA nodes 1-7"));
        topology_free(t);
}

static const TopologyPci *pci(const Topology *t, const char *address) {
        for (unsigned i = 0; i < t->n_pci; i++)
                if (streq(t->pci[i].address, address))
                        return t->pci + i;
        fail_msg("no PCI function %s", address);
        return NULL;
}

static void test_pci(void **state) {
        _cleanup_free_ char *unknown = machine_path("40intel64-2g2n4c+pcilocality");
        _cleanup_free_ char *known = machine_path("fakepcilocalities");
        Topology *t = load(unknown);

        /* The kernel says -1 all the way up: nowhere, not node 0. */
        assert_int_equal(pci(t, "0000:01:00.0")->node, TOPOLOGY_NONE);
        assert_true(bitset_isempty(&pci(t, "0000:01:00.0")->local_cpus));
        assert_int_equal(pci(t, "0000:43:00.0")->node, 2);
        assert_string_equal(pci(t, "0000:43:00.0")->root, "0000:40:03.0");
        assert_string_equal(pci(t, "0000:00:1f.2")->root, "pci0000:00");
        topology_free(t);

        t = load(known);
        assert_int_equal(pci(t, "0000:01:00.0")->node, 0);
        assert_int_equal(pci(t, "0000:c0:14.0")->node, 3);
        assert_int_equal(pci(t, "0000:01:00.0")->class, 0x0104);
        assert_int_equal(pci(t, "0000:01:00.0")->vendor, 0x1000);
        assert_string_equal(pci(t, "0000:01:00.0")->driver, "megaraid_sas");
        assert_set(&pci(t, "0000:c0:14.0")->local_cpus, "3,7,11,15,19,23,27,31,35,39");
        topology_free(t);
}

static void test_isolated(void **state) {
        _cleanup_free_ char *path = machine_path("128arm-2pa2n8cluster4co");
        Topology *t;

        assert_int_equal(
                run("printf '4-7,200\\n' >'%s/sys/devices/system/cpu/isolated' && "
                    "mkdir -p '%s/sys/fs/cgroup' && printf '64-65\\n' >'%s/sys/fs/cgroup/cpuset.cpus.isolated'",
                    path, path, path),
                0);
        t = load(path);
        assert_set(&t->isolated, "4-7,64-65");
        assert_set(&t->allowed, "0-127");
        topology_free(t);
}

static void test_environment(void **state) {
        _cleanup_free_ char *path = data_path("machines/24em64t-2n6c2t-pci.xml");
        Topology *t;
        char *message = NULL;

        /* What the caller's environment says neither matters nor is lost. */
        assert_int_equal(setenv("HWLOC_SYNTHETIC", "node:3 pu:5", 1), 0);
        assert_int_equal(setenv("HWLOC_COMPONENTS", "synthetic,stop", 1), 0);
        t = load(path);
        assert_int_equal(t->n_cpus, 24);
        topology_free(t);
        if (machine_read_this_system(&t, &message) < 0)
                fail_msg("%s", message);
        assert_int_not_equal(t->n_cpus, 15);
        topology_free(t);
        assert_string_equal(getenv("HWLOC_SYNTHETIC"), "node:3 pu:5");
        assert_string_equal(getenv("HWLOC_COMPONENTS"), "synthetic,stop");
        assert_null(getenv("HWLOC_FSROOT"));
        unsetenv("HWLOC_SYNTHETIC");
        unsetenv("HWLOC_COMPONENTS");
}

static void test_this_system(void **state) {
        _cleanup_(bitset_done) Bitset online = BITSET_EMPTY, before = BITSET_EMPTY, after = BITSET_EMPTY;
        _cleanup_free_ char *text = NULL;
        char *message = NULL;
        Topology *t;

        assert_int_equal(bitset_getaffinity(0, &before), 0);
        if (machine_read_this_system(&t, &message) < 0)
                fail_msg("%s", message);
        assert_true(t->is_this_system);
        check_invariants(t);
        assert_int_equal(read_line_at(AT_FDCWD, "/sys/devices/system/cpu/online", &text), 0);
        assert_int_equal(bitset_parse(text, &online), 0);
        assert_true(bitset_equal(&t->online, &online));
        assert_false(bitset_isempty(&t->allowed));
        assert_true(t->nodes[0].free > 0 && t->nodes[0].free <= t->nodes[0].memory);
        /* Looking at the cpuset has not touched our own mask. */
        assert_int_equal(bitset_getaffinity(0, &after), 0);
        assert_true(bitset_equal(&before, &after));
        topology_free(t);
}

/* A child in a cpuset of one CPU and, when asked, with no cgroup file system to look into. */
static int in_cpuset(const char *group, const char *cpu, bool hidden) {
        _cleanup_free_ char *tasks = path_join(group, "tasks");
        _cleanup_free_ char *message = NULL;
        char pid[16];
        Topology *t;

        (void) snprintf(pid, sizeof(pid), "%d", (int) getpid());
        if (write_file_at(AT_FDCWD, tasks, pid) < 0)
                return 77;
        if (hidden && (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
                       umount2("/sys/fs/cgroup/cpuset", MNT_DETACH) < 0))
                return 77;
        if (machine_read_this_system(&t, &message) < 0)
                return 1;
        return bitset_weight(&t->allowed) == 1 && bitset_test(&t->allowed, atoi(cpu)) && t->n_cpus > 1 ? 0 : 2;
}

static void test_own_cpuset(void **state) {
        static const char group[] = "/sys/fs/cgroup/cpuset/qsched-test-machine";
        _cleanup_(bitset_done) Bitset before = BITSET_EMPTY;
        char cpu[16];
        int status = 0;

        assert_int_equal(bitset_getaffinity(0, &before), 0);
        if (bitset_weight(&before) < 2 || mkdir(group, 0755) < 0) {
                print_message("# no two CPUs, or no cpuset (cgroup v1) that may be written\n");
                skip();
        }
        (void) snprintf(cpu, sizeof(cpu), "%d", bitset_next(&before, bitset_first(&before)));
        if (run("echo %s >%s/cpuset.cpus && cat /sys/fs/cgroup/cpuset/cpuset.mems >%s/cpuset.mems", cpu, group,
                group) != 0)
                status = 77 << 8;
        for (unsigned hidden = 0; status == 0 && hidden < 2; hidden++) {
                pid_t pid = fork();

                if (pid == 0)
                        _exit(in_cpuset(group, cpu, hidden));
                assert_int_equal(waitpid(pid, &status, 0), pid);
        }
        assert_int_equal(rmdir(group), 0);
        if (WEXITSTATUS(status) == 77) {
                print_message("# the cpuset cannot be entered or hidden here\n");
                skip();
        }
        assert_int_equal(status, 0);
}

static void test_record_file(void **state) {
        _cleanup_free_ char *path = path_join(scratch, "this.record");
        char *xml = NULL, *message = NULL;
        Topology *t = NULL, *again = NULL;
        json_t *record = NULL, *root = NULL;
        Snapshot *s;

        assert_int_equal(machine_read_this_system(&t, &message), 0);
        assert_int_equal(machine_export_xml(&xml, &message), 0);
        assert_int_equal(snapshot_new(&s), 0);
        s->topology = s->owned_topology = t;
        assert_int_equal(record_from_snapshot(s, xml, &root), 0);
        assert_int_equal(json_dump_file(root, path, JSON_INDENT(1)), 0);
        if (machine_read_path(path, &again, &record, &message) < 0)
                fail_msg("%s", message);
        assert_true(json_equal(root, record));
        assert_false(again->is_this_system);
        assert_true(bitset_equal(&again->online, &t->online));
        assert_int_equal(again->n_nodes, t->n_nodes);
        topology_free(again);
        json_decref(root);
        json_decref(record);
        snapshot_free(s);
        free(xml);
}

/* hwloc's synthetic machine, with `to` in place of `from` in its XML. */
static Topology *synthetic(const char *description, const char *from, const char *to) {
        _cleanup_free_ char *edited = NULL;
        char *xml, *message = NULL, *p;
        hwloc_topology_t h;
        Topology *t = NULL;
        int n;

        assert_int_equal(hwloc_topology_init(&h), 0);
        assert_int_equal(hwloc_topology_set_synthetic(h, description), 0);
        assert_int_equal(hwloc_topology_load(h), 0);
        assert_int_equal(hwloc_topology_export_xmlbuffer(h, &xml, &n, 0), 0);
        p = from ? strstr(xml, from) : xml;
        assert_non_null(p);
        assert_true(asprintf(&edited, "%.*s%s%s", (int) (p - xml), xml, from ? to : "", p + (from ? strlen(from) : 0)) >
                    0);
        hwloc_free_xmlbuffer(h, xml);
        hwloc_topology_destroy(h);
        if (machine_read_xml("synthetic", edited, strlen(edited), &t, &message) < 0)
                fail_msg("%s: %s", description, message);
        check_invariants(t);
        return t;
}

static void test_big(void **state) {
        Topology *t = synthetic("pack:8 numa:2 core:64 pu:2", NULL, NULL);

        assert_int_equal(t->n_cpus, 2048);
        assert_int_equal(t->n_nodes, 16);
        assert_set(&t->nodes[15].cpus, "1920-2047");
        assert_false(t->distances_known);
        assert_true(topology_distance(t, 0, 15) == 20);
        topology_free(t);
}

/* Memory at the package and at each half of it: the half is nearer, and the package's has no CPUs of its own. */
static void test_nested_nodes(void **state) {
        Topology *t = synthetic("pack:2 [numa(memory=1GB)] group:2 [numa(memory=2GB)] core:3 pu:1", NULL, NULL);
        unsigned with_cpus = 0;

        assert_int_equal(t->n_nodes, 6);
        for (unsigned i = 0; i < t->n_nodes; i++)
                if (!bitset_isempty(&t->nodes[i].cpus)) {
                        assert_int_equal(bitset_weight(&t->nodes[i].cpus), 3);
                        assert_true(t->nodes[i].memory >= 2000000000);
                        with_cpus++;
                }
        assert_int_equal(with_cpus, 4);
        topology_free(t);
}

static void test_no_memory_on_a_node(void **state) {
        Topology *t = synthetic("numa:2(memory=1073741824) core:2 pu:1", "local_memory=\"1073741824\"",
                                "local_memory=\"0\"");

        assert_true(t->nodes[0].memory == 0 && t->nodes[1].memory > 0);
        assert_set(&t->nodes[0].cpus, "0-1");
        assert_int_equal(topology_memory_node(t, 0), 1);
        topology_free(t);
}

#define BRIDGE                                                                                                              \
        "<object type=\"Bridge\" gp_index=\"900\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0001:[00-0a]\">"             \
        "<object type=\"Bridge\" gp_index=\"901\" bridge_type=\"1-1\" depth=\"1\" bridge_pci=\"0001:[01-02]\" "             \
        "pci_busid=\"0001:00:03.0\" pci_type=\"0604 [8086:340a] [0000:0000] 22\" pci_link_speed=\"0.0\">"                   \
        "<object type=\"PCIDev\" gp_index=\"902\" pci_busid=\"0001:01:00.0\" pci_type=\"1200 [19e5:d802] [0000:0000] 20\" " \
        "pci_link_speed=\"0.0\"/></object></object>"

/* A function below a package of two nodes: its CPUs are known, its node is not. */
static void test_pci_between_nodes(void **state) {
        Topology *t = synthetic("pack:2 numa:2 core:2 pu:1", "</object>\n    </object>\n    <object type=\"Package\"",
                                "</object>" BRIDGE "</object><object type=\"Package\"");

        assert_int_equal(t->n_pci, 1);
        assert_int_equal(t->pci[0].class, 0x1200);
        assert_int_equal(t->pci[0].node, TOPOLOGY_NONE);
        assert_set(&t->pci[0].local_cpus, "0-3");
        assert_string_equal(t->pci[0].root, "0001:00:03.0");
        topology_free(t);
}

/* Bad input: -errno and a sentence with the words. */
static void refuse_xml(const char *xml, size_t size, const char *words) {
        _cleanup_free_ char *message = NULL;
        Topology *t = NULL;
        int r = machine_read_xml("test.xml", xml, size, &t, &message);

        if (r >= 0)
                fail_msg("taken, though it should say \"%s\"", words);
        assert_null(t);
        assert_non_null(message);
        if (!strstr(message, words) || strncmp(message, "test.xml:", strlen("test.xml:")) != 0)
                fail_msg("\"%s\" lacks \"%s\"", message, words);
        assert_null(strchr(message, '\n'));
}

#define HEAD "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n"
#define SETS                                                                                                           \
        " cpuset=\"0x3\" complete_cpuset=\"0x3\" allowed_cpuset=\"0x3\" nodeset=\"0x1\" complete_nodeset=\"0x1\" allowed_nodeset=\"0x1\""
#define NODE "<object type=\"NUMANode\" os_index=\"0\"" SETS " local_memory=\"1024\"/>\n"
#define PU(os, set)                                                                                                    \
        "<object type=\"PU\" os_index=\"" os "\" cpuset=\"" set "\" complete_cpuset=\"" set                            \
        "\" nodeset=\"0x1\" complete_nodeset=\"0x1\"/>\n"
#define GOOD HEAD "<object type=\"Machine\" os_index=\"0\"" SETS ">\n" NODE PU("0", "0x1") PU("1", "0x2") "</object>\n"
#define TAIL "</topology>\n"

static void refuse(const char *xml, const char *words) {
        refuse_xml(xml, strlen(xml), words);
}

static void accept_xml(const char *xml, unsigned cpus) {
        char *message = NULL;
        Topology *t = NULL;

        if (machine_read_xml("test.xml", xml, strlen(xml), &t, &message) < 0)
                fail_msg("%s", message);
        check_invariants(t);
        assert_int_equal(t->n_cpus, cpus);
        topology_free(t);
}

static void test_good_xml(void **state) {
        accept_xml(GOOD TAIL, 2);
        /* What hwloc's own parser does not read, or silently stops at. */
        accept_xml("\xef\xbb\xbf" GOOD TAIL, 2);
        accept_xml(HEAD "<!-- a comment --><object os_index='0' type='Machine'" SETS
                        "><info name=\"a\" value=\"&#228;&lt;&quot;\"/>" NODE
                        "<!-- another --><?pi?>" PU("0", "0x1") "<userdata length=\"5\">a<b>c</b></userdata>" PU(
                                "1", "0x2") "</object>" TAIL,
                   2);
        accept_xml("<topology version=\"2.0\"><object type=\"Machine\"" SETS
                   ">" NODE PU("0", "0x1") "</object></topology>",
                   1);
}

static void test_hostile_xml(void **state) {
        refuse("<!DOCTYPE topology>\n<topology version=\"2.0\"/>", "no system id");
        refuse("<!DOCTYPE topology SYSTEM \"hwloc2.dtd\" [<!ENTITY a \"b\">]>\n<topology/>", "declares");
        refuse(HEAD "<object type=\"Machine\" os_index=\"0\"" SETS ">" NODE PU("4294967295", "0x1") "</object>" TAIL,
               ":5: os_index");
        refuse(HEAD "<object type=\"Machine\"" SETS "><object type=\"NUMANode\" os_index=\"70000\"" SETS
                    "/></object>" TAIL,
               "65535");
        refuse(HEAD "<object type=\"Machine\"" SETS "><object type=\"PU\"" SETS "/></object>" TAIL, "without os_index");
        refuse(HEAD "<object type=\"Machine\" cpuset=\"0xf...f\"/>" TAIL, "not a set");
        refuse(HEAD "<object type=\"Machine\" cpuset=\"0xfffffffff\"/>" TAIL, "not a set");
        refuse(HEAD "<object type=\"Machine\" cpuset=\"-1\"/>" TAIL, "not a set");
        refuse(GOOD "<distances2 type=\"NUMANode\" nbobjs=\"65536\" kind=\"5\" indexing=\"os\"/>" TAIL, "nbobjs");
        refuse(GOOD
               "<distances2 type=\"NUMANode\" nbobjs=\"2\" kind=\"5\" indexing=\"os\"><indexes length=\"99999999\">0 1 </indexes></distances2>" TAIL,
               "hwloc cannot read");
        refuse(HEAD "<object type=\"Machine\"" SETS ">" NODE PU("1", "0x2") PU("1", "0x2") "</object>" TAIL, "");
        refuse("<topology version=\"3.0\"></topology>", "version 3.0");
        refuse("<topology version=\"two\"></topology>", "version=\"two\"");
        refuse("<html><body/></html>", "<html>");
        refuse(HEAD "<object type=\"Machine\"><![CDATA[x]]></object>" TAIL, "CDATA");
        refuse(HEAD "<object type=\"Machine\">text</object>" TAIL, "text");
        refuse(HEAD "<object type=\"Machine\" a=\"&b;\"/>" TAIL, "entity");
        refuse(HEAD "<object type=\"Machine\" type=\"PU\"/>" TAIL, "twice");
        refuse(GOOD TAIL "<topology/>", "after the end");
        refuse(GOOD "</object>" TAIL, "ended by");
        refuse_xml("<\0\1\2", 4, "binary");
        refuse_xml("<", 1, "ends before");
}

static void test_truncated_xml(void **state) {
        static const char xml[] = GOOD TAIL;

        /* Wherever it is cut (but for the last line's end), it is refused. */
        for (size_t n = 1; n < sizeof(xml) - 2; n += n < sizeof(xml) - 40 ? 13 : 1)
                refuse_xml(xml, n, "");
}

static void test_deep_and_long_xml(void **state) {
        size_t size = MACHINE_XML_MAX + 1, n = 0;
        char *big = malloc(size + 1);

        assert_non_null(big);
        while (n + 32 < 100000)
                n += sprintf(big + n, "%s", n == 0 ? "<topology version=\"2.0\">" : "<object type=\"Group\">");
        refuse_xml(big, n, "nested more than");
        memset(big, 'a', size);
        big[0] = '<';
        refuse_xml(big, size, "too many");
        refuse_xml(big, 1000000, "name");
        free(big);
}

static void refuse_path(const char *path, const char *words) {
        char *message = NULL;
        json_t *record = NULL;
        Topology *t = NULL;

        assert_true(machine_read_path(path, &t, &record, &message) < 0);
        assert_null(t);
        assert_null(record);
        assert_non_null(message);
        if (!strstr(message, words) || !strstr(message, path))
                fail_msg("\"%s\" lacks \"%s\"", message, words);
        free(message);
}

static void test_bad_paths(void **state) {
        _cleanup_free_ char *fifo = path_join(scratch, "fifo");
        _cleanup_free_ char *text = path_join(scratch, "text");
        _cleanup_free_ char *json = path_join(scratch, "json");

        assert_int_equal(mkfifo(fifo, 0600), 0);
        assert_int_equal(run("echo hello >'%s'; echo '{\"format\":\"x\"}' >'%s'", text, json), 0);
        refuse_path(fifo, "regular file");
        refuse_path("/dev/zero", "regular file");
        refuse_path("/nonexistent", "No such file");
        refuse_path(scratch, "sys/devices/system/cpu");
        refuse_path("/", "running system");
        refuse_path(text, "neither");
        refuse_path(json, "format");
        assert_int_equal(run("echo '{\"a\":' >'%s'", json), 0);
        refuse_path(json, "JSON");
}

static int crash(void *userdata, char **ret_message) {
        abort();
}

static int swell(void *userdata, char **ret_message) {
        return -ENOMEM;
}

static int refuse_it(void *userdata, char **ret_message) {
        return text_fail(-EINVAL, ret_message, "it is %s", (const char *) userdata);
}

static int good(void *userdata, char **ret_message) {
        return 0;
}

static void test_guard(void **state) {
        char *message = NULL;

        assert_int_equal(machine_guard("x", good, NULL, &message), 0);
        assert_null(message);
        assert_int_equal(machine_guard("x", crash, NULL, &message), -EBADMSG);
        assert_non_null(strstr(message, "crashes"));
        assert_int_equal(machine_guard("x", swell, NULL, &message), -EBADMSG);
        assert_non_null(strstr(message, "MiB"));
        assert_int_equal(machine_guard("x", refuse_it, "bad", &message), -EBADMSG);
        assert_string_equal(message, "it is bad");
        free(message);
}

static int setup(void **state) {
        const char *tmp = getenv("TMPDIR");

        /* 45,000 small files for a moment: memory is the better place. */
        if (!tmp)
                tmp = access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
        assert_true(asprintf(&scratch, "%s/qsched-test-machine.XXXXXX", tmp) > 0);
        assert_non_null(mkdtemp(scratch));
        if (run("tar --version >/dev/null 2>&1 && bzip2 --version >/dev/null 2>&1 </dev/null") != 0)
                no_tar = "captured machines are not read: tar or bzip2 is missing";
        return 0;
}

static int teardown(void **state) {
        int r = run("rm -rf -- '%s'", scratch);

        free(scratch);
        return r == 0 ? 0 : -1;
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_all_machines), /* unpacks what the next ones look at */
                cmocka_unit_test(test_a3),
                cmocka_unit_test(test_kunpeng),
                cmocka_unit_test(test_offline_smt),
                cmocka_unit_test(test_memory_nodes),
                cmocka_unit_test(test_gpu_nodes),
                cmocka_unit_test(test_mems_disallowed),
                cmocka_unit_test(test_contradiction),
                cmocka_unit_test(test_pci),
                cmocka_unit_test(test_isolated),
                cmocka_unit_test(test_environment),
                cmocka_unit_test(test_this_system),
                cmocka_unit_test(test_own_cpuset),
                cmocka_unit_test(test_record_file),
                cmocka_unit_test(test_big),
                cmocka_unit_test(test_nested_nodes),
                cmocka_unit_test(test_no_memory_on_a_node),
                cmocka_unit_test(test_pci_between_nodes),
                cmocka_unit_test(test_good_xml),
                cmocka_unit_test(test_hostile_xml),
                cmocka_unit_test(test_truncated_xml),
                cmocka_unit_test(test_deep_and_long_xml),
                cmocka_unit_test(test_bad_paths),
                cmocka_unit_test(test_guard),
        };

        return cmocka_run_group_tests_name("machine", tests, setup, teardown);
}
