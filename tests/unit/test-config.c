/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config.h"

#include <errno.h>
#include <setjmp.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "common/fileio.h"
#include "common/log.h"

static char dir[] = "/tmp/test-config.XXXXXX";

static int make_dir(void **state) {
        return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state) {
        char command[128];

        (void) snprintf(command, sizeof(command), "rm -r %s", dir);
        return system(command);
}

static int clear(void **state) {
        char command[128];

        (void) snprintf(command, sizeof(command), "rm -rf %s/*", dir);
        return system(command);
}

static char *put(const char *name, const char *text) {
        char *path = path_join(dir, name), *slash;

        assert_non_null(path);
        slash = strrchr(path, '/');
        *slash = '\0';
        assert_int_equal(mkdir_parents(path, 0755), 0);
        *slash = '/';
        assert_int_equal(write_file_atomic(path, text, 0644), 0);
        return path;
}

static Config *load(const char *path, const char *devices) {
        _cleanup_free_ char *message = NULL;
        Config *c = NULL;

        if (config_load(path, devices, &c, &message) < 0)
                fail_msg("%s", strempty(message));
        return c;
}

/* As the built-in ones, but for the role `other`. */
static void assert_same_roles(const Roles *r, const char *other) {
        Roles built_in;

        assert_int_equal(roles_default(&built_in), 0);
        assert_int_equal(r->n_roles, built_in.n_roles);
        for (size_t i = 0; i < r->n_roles; i++) {
                const Role *a = r->roles + i, *b = built_in.roles + i;

                assert_string_equal(a->name, b->name);
                if (other && streq(a->name, other))
                        continue;
                assert_int_equal(strv_length(a->comm), strv_length(b->comm));
                for (size_t k = 0; k < strv_length(a->comm); k++)
                        assert_string_equal(a->comm[k], b->comm[k]);
                assert_int_equal(a->main, b->main);
                assert_int_equal(a->children, b->children);
                assert_int_equal(a->interrupts, b->interrupts);
                assert_int_equal(a->share, b->share);
                assert_int_equal(a->cpus, b->cpus);
                assert_int_equal(a->priority, b->priority);
        }
        roles_done(&built_in);
}

/* What a caller without configuration (qschedctl plan offline) gets must be what the daemon gets by default. */
static void assert_defaults(const Config *c) {
        DecideParams p;

        decide_params_default(&p);
        assert_string_equal(c->solver, p.solver);
        assert_int_equal(c->seed, p.seed);
        assert_true(c->hysteresis == p.hysteresis);
        assert_int_equal(c->housekeeping_cores, p.housekeeping_cores);
        assert_true(bitset_isempty(&c->housekeeping_cpus));
        assert_true(c->temperature_target == p.weights.temperature_target);
        assert_memory_equal(&c->weights, &p.weights, sizeof(p.weights));
        assert_string_equal(c->log_level, "info");
        assert_true(strv_contains(c->ignore, "*-smi"));
        assert_int_equal(strv_length(c->pci_ids), 0);
        assert_int_equal(c->interval_usec, 5000000);
        assert_int_equal(c->devices.n_files, 1);
        assert_true(c->thread_roles);
        assert_same_roles(&c->roles, NULL);
}

static void test_empty(void **state) {
        _cleanup_free_ char *path = put("qschedd.conf", "");
        _cleanup_(config_freep) Config *c = load(path, NULL);

        assert_defaults(c);
}

/* The shipped file is made of comments; with every "#Key=" uncommented it must say the very same. */
static void test_print(void **state) {
        _cleanup_free_ char *text = NULL, *path = NULL;
        _cleanup_(config_freep) Config *commented = NULL, *spoken = NULL;
        _cleanup_(config_table_done) ConfigTable t = {};
        size_t size, keys = 0, rows = 0, roles = 0;
        FILE *f = open_memstream(&text, &size);

        assert_int_equal(config_print(f), 0);
        fclose(f);
        path = put("printed.conf", text);
        commented = load(path, NULL);
        assert_defaults(commented);
        for (char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
                if (line[0] == '#' && strncmp(line, "#[Role NAME]", 12) != 0 &&
                    ((line[1] >= 'A' && line[1] <= 'Z') || strncmp(line, "#[Role ", 7) == 0)) {
                        roles += line[1] == '[';
                        keys += roles == 0;
                        line[0] = ' ';
                }
        assert_int_equal(config_table(&t), 0);
        for (const ConfigItem *i = t.items; i->section; i++)
                rows++;
        assert_int_equal(keys, rows);
        assert_int_equal(roles, commented->roles.n_roles);
        free(path);
        path = put("spoken.conf", text);
        spoken = load(path, NULL);
        assert_defaults(spoken);
}

/* The words that help and manual show are the ones that are taken. */
static void test_words(void **state) {
        for (const ConfigItem *i = config_items; i->section; i++)
                if (streq(i->key, "Solver")) {
                        size_t n = 0;

                        while (solvers[n])
                                n++;
                        assert_int_equal(strv_length((char *const *) i->words), n);
                        for (size_t j = 0; j < n; j++)
                                assert_non_null(solver_by_name(i->words[j]));
                } else if (streq(i->key, "LogLevel"))
                        for (int j = 0; i->words[j]; j++)
                                assert_int_equal(log_level_from_string(i->words[j]), j);
}

static void test_weights(void **state) {
        _cleanup_free_ char *path = put("qschedd.conf", "[Weights]\nGamma=2.5\nOverlap=7\nmemorydistance=0.25\n");
        _cleanup_(config_freep) Config *c = load(path, NULL);
        bool seen = false;

        assert_true(c->weights.group[TERM_COST] == 2.5 && c->weights.group[TERM_TIME] == 1);
        for (size_t i = 0; placement_terms[i].name; i++) {
                double expected = placement_terms[i].weight;

                if (streq(placement_terms[i].name, "overlap"))
                        expected = 7;
                if (streq(placement_terms[i].name, "memory_distance")) {
                        expected = 0.25;
                        seen = true;
                }
                assert_true(c->weights.term[i] == expected);
        }
        assert_true(seen);
}

static void test_drop_ins(void **state) {
        _cleanup_free_ char *path = put("qschedd.conf",
                                        "[Solver]\nSeed=1\nSolver=greedy\n[Device npu0]\nKind=ascend\n");
        _cleanup_free_ char *b = put("qschedd.conf.d/20-b.conf",
                                     "[Solver]\nSeed=3\n[Device npu1]\nKind=ascend\n[Link npu0 npu1]\nType=HCCS\n");
        _cleanup_free_ char *a = put("qschedd.conf.d/10-a.conf",
                                     "[Solver]\nSeed=2\nBudget=7ms\n[Devices]\nPCIIds=1234:11e8=edu\n");
        _cleanup_free_ char *off = put("qschedd.conf.d/30-c.conf.off", "nonsense");
        _cleanup_free_ char *hidden = put("qschedd.conf.d/.40.conf", "nonsense");
        _cleanup_free_ char *more = put("more.devices", "[Device npu2]\nKind=ascend\n");
        _cleanup_free_ char *message = NULL;
        _cleanup_(config_freep) Config *c = load(path, more), *none = NULL;

        assert_int_equal(c->seed, 3);
        assert_int_equal(c->budget_usec, 7000);
        assert_string_equal(c->solver, "greedy");
        assert_int_equal(c->devices.n_files, 4);
        assert_string_equal(c->devices.pci_ids[0], "1234:11e8=edu");
        free(more);
        more = put("more.devices", "[Device npu1]\nKind=ascend\n");
        assert_int_equal(config_load(path, more, &none, &message), -EBADMSG);
        assert_non_null(strstr(message, "device npu1 is described already in"));
        assert_null(none);
}

static void test_bad(void **state) {
        static const char *const cases[][2] = {
                { "[Solver]\nSeed=1\nseed=2\n", ":3: seed= is given twice" },
                { "[Solver]\n[solver]\n", ":2: section [solver] is there twice" },
                { "[Solver x]\n", ":1: [Solver] takes no name" },
                { "[Sovler]\nSeed=1\n", ":1: [Sovler] is not known, allowed: Daemon, Tasks" },
                { "[Solver]\nSede=1\n", ":2: [Solver] has no key Sede=, allowed: Solver, Budget, Seed" },
                { "[Solver]\nSolver=quantum\n", ":2: Solver=quantum is not one of: auto " },
                { "[Solver]\nSeed=-1\n", ":2: Seed=-1 is not a whole number" },
                { "[Solver]\nSeed=4294967296\n", ":2: Seed=4294967296 is out of range, allowed: 0 to 4294967295" },
                { "[Solver]\nBudget=1us\n", ":2: Budget=1us is out of range, allowed: 1ms to 5min" },
                { "[Daemon]\nInterval=0\n", ":2: Interval=0 is out of range, allowed: 100ms to 1h" },
                { "[Daemon]\nLogLevel=loud\n", ":2: LogLevel=loud is not one of: emerg" },
                { "[Enforce]\nDrift=maybe\n", ":2: Drift=maybe is not one of: report reassert yield" },
                { "[Placement]\nHysteresis=inf\n", ":2: Hysteresis=inf is not a number" },
                { "[Placement]\nHousekeepingCores=-1\n",
                  ":2: HousekeepingCores=-1 is out of range, allowed: 0 to 1024, auto" },
                { "[Placement]\nHousekeepingCPUs=0-\n", ":2: HousekeepingCPUs=0- is not a list of numbers" },
                { "[Placement]\nTemperatureTarget=1e999\n", ":2: TemperatureTarget=1e999 is out of range" },
                { "[Weights]\nAlpha=nan\n", ":2: Alpha=nan is not a number" },
                { "[Weights]\nOverlap=-1\n", ":2: Overlap=-1 is out of range, allowed: 0 to 1000000" },
                { "[Weights]\nNothing=1\n",
                  ":2: [Weights] has no key Nothing=, allowed: Alpha, Beta, Gamma, Delta, Overlap" },
                { "[Devices]\nPCIIds=1234:11e8=edu 77\n", ":2: PCIIds: 77 is no PCI id" },
                { "[Device a]\n", ":1: [Device a] needs Kind=" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *path = put("bad.conf", cases[i][0]), *message = NULL, *expected = NULL;
                Config *c = NULL;

                if (config_load(path, NULL, &c, &message) != -EBADMSG)
                        fail_msg("accepted: %s", cases[i][0]);
                assert_null(c);
                assert_true(asprintf(&expected, "%s%s", path, cases[i][1]) > 0);
                if (!message || strncmp(message, expected, strlen(expected)) != 0)
                        fail_msg("\"%s\" instead of \"%s\"", strempty(message), expected);
        }
}

static void test_files(void **state) {
        _cleanup_free_ char *path = put("x.conf", "[Solver]\n"), *message = NULL, *fifo = path_join(dir, "fifo.conf"),
                            *in = NULL;
        Config *c = NULL;

        assert_int_equal(config_load("/nowhere/qschedd.conf", NULL, &c, &message), -ENOENT);
        assert_non_null(strstr(message, "/nowhere/qschedd.conf: cannot be read"));
        assert_int_equal(config_load(dir, NULL, &c, &message), -EISDIR);
        assert_int_equal(mkfifo(fifo, 0600), 0);
        assert_int_equal(config_load(fifo, NULL, &c, &message), -EBADFD);
        assert_int_equal(config_load(path, fifo, &c, &message), -EBADFD);
        /* A drop-in that cannot be read is an error, not a gap. */
        in = path_join(dir, "x.conf.d");
        assert_int_equal(mkdir_parents(in, 0755), 0);
        free(in);
        in = path_join(dir, "x.conf.d/1.conf");
        assert_int_equal(mkfifo(in, 0600), 0);
        assert_int_equal(config_load(path, NULL, &c, &message), -EBADFD);
        assert_non_null(strstr(message, "1.conf: is a FIFO"));
        assert_null(c);
}

/* [Role] sections of all files in their order, over the built-in ones. */
static void test_roles(void **state) {
        _cleanup_free_ char *path = put("qschedd.conf", "[Placement]\nThreadRoles=no\n"
                                                        "[Role runtime]\nCPUs=2\nPriority=10\n"
                                                        "[Role watch]\nComm=watch*\n");
        _cleanup_free_ char *one = put("qschedd.conf.d/10.conf", "[Role Runtime]\nCPUs=3\n"), *message = NULL;
        _cleanup_(config_freep) Config *c = load(path, NULL);
        Config *none = NULL;
        Role *role;
        size_t n = c->roles.n_roles;

        assert_false(c->thread_roles);
        role = roles_get(&c->roles, "runtime");
        assert_int_equal(role->cpus, 3);
        assert_int_equal(role->priority, 10);
        assert_string_equal(role->comm[0], "acl_thread");
        role = roles_get(&c->roles, "watch");
        assert_int_equal(c->roles.n_roles, n);
        assert_int_equal(role->share, ROLE_OWN);
        free(put("qschedd.conf.d/20.conf", "[Role watch]\nCores=3\n"));
        assert_int_equal(config_load(path, NULL, &none, &message), -EBADMSG);
        assert_non_null(strstr(message, "20.conf:2"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_teardown(test_empty, clear),
                cmocka_unit_test_teardown(test_print, clear),
                cmocka_unit_test_teardown(test_roles, clear),
                cmocka_unit_test_teardown(test_weights, clear),
                cmocka_unit_test(test_words),
                cmocka_unit_test_teardown(test_drop_ins, clear),
                cmocka_unit_test_teardown(test_bad, clear),
                cmocka_unit_test_teardown(test_files, clear),
        };

        return cmocka_run_group_tests_name("config", tests, make_dir, remove_dir);
}
