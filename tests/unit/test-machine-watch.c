/* SPDX-License-Identifier: Apache-2.0 */
/* The fingerprint of a machine, on a directory that looks like /sys and /proc and is changed file by file. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/fileio.h"
#include "common/text.h"
#include "daemon/readers/machine-watch.h"

#define FUNCTIONS "sys/bus/pci/devices"

static char root[64];

static void put(const char *path, const char *text) {
        char full[256], *slash;
        FILE *f;

        (void) snprintf(full, sizeof(full), "%s/%s", root, path);
        slash = strrchr(full, '/');
        *slash = '\0';
        assert_int_equal(mkdir_parents(full, 0755), 0);
        *slash = '/';
        f = fopen(full, "we");
        assert_non_null(f);
        assert_true(fputs(text, f) >= 0);
        assert_int_equal(fclose(f), 0);
}

static void drop(const char *path) {
        char full[256], command[300];

        (void) snprintf(full, sizeof(full), "%s/%s", root, path);
        (void) snprintf(command, sizeof(command), "rm -r '%s'", full);
        assert_int_equal(system(command), 0); /* NOLINT */
}

static int setup(void **state) {
        (void) snprintf(root, sizeof(root), "/tmp/qsched-watch.XXXXXX");
        assert_non_null(mkdtemp(root));
        put("sys/devices/system/cpu/online", "0-7\n");
        put("sys/devices/system/cpu/possible", "0-15\n");
        put("sys/devices/system/cpu/isolated", "\n");
        put("sys/devices/system/node/has_memory", "0-3\n");
        put("proc/self/status", "Name:\tqschedd\nCpus_allowed_list:\t0-7\nMems_allowed_list:\t0-3\n");
        put(FUNCTIONS "/0000:21:00.0/numa_node", "1\n");
        put(FUNCTIONS "/0000:41:00.0/numa_node", "3\n");
        return 0;
}

static int teardown(void **state) {
        char command[100];

        (void) snprintf(command, sizeof(command), "rm -r '%s'", root);
        return system(command); /* NOLINT */
}

static MachineWatch *watch_new(void) {
        MachineWatch *w;

        assert_int_equal(machine_watch_new(root, &w), 0);
        return w;
}

/* Looks; what was said must be just that, NULL: nothing. Then once more: the same. */
static void looks2(MachineWatch *w, const char *said, const char *too) {
        static char *functions[] = { (char *) "0000:21:00.0", (char *) "0000:41:00.0", (char *) "0000:99:00.0", NULL };
        _cleanup_(strv_freep) char **messages = NULL;

        assert_int_equal(machine_watch_look(w, functions, &messages), said ? 1 : 0);
        assert_int_equal(strv_length(messages), (said ? 1 : 0) + (too ? 1 : 0));
        if (said)
                assert_string_equal(messages[0], said);
        if (too)
                assert_string_equal(messages[1], too);
        messages = strv_free(messages);
        assert_int_equal(machine_watch_look(w, functions, &messages), 0);
        assert_null(messages);
}

static void looks(MachineWatch *w, const char *said) {
        looks2(w, said, NULL);
}

static void test_same(void **state) {
        _cleanup_(machine_watch_freep) MachineWatch *w = watch_new();

        looks(w, NULL);
        assert_int_equal(bitset_weight(machine_watch_online(w)), 8);
}

static void test_cpus(void **state) {
        _cleanup_(machine_watch_freep) MachineWatch *w = watch_new();

        put("sys/devices/system/cpu/online", "0-6\n");
        put("proc/self/status", "Name:\tqschedd\nCpus_allowed_list:\t0-6\nMems_allowed_list:\t0-3\n");
        looks2(w, "CPUs online: 0-6, were 0-7", "CPUs that qschedd itself may use: 0-6, were 0-7");
        assert_false(bitset_test(machine_watch_online(w), 7));
        put("sys/devices/system/cpu/online", "0-7\n");
        put("proc/self/status", "Name:\tqschedd\nCpus_allowed_list:\t0-7\nMems_allowed_list:\t0-3\n");
        looks2(w, "CPUs online: 0-7, were 0-6", "CPUs that qschedd itself may use: 0-7, were 0-6");
        assert_true(bitset_test(machine_watch_online(w), 7));
        put("sys/devices/system/cpu/isolated", "6-7\n");
        looks(w, "isolated CPUs: 6-7, were none");
        put("sys/devices/system/cpu/possible", "0-31\n");
        looks(w, "possible CPUs: 0-31, were 0-15");
}

static void test_nodes_and_own_cpuset(void **state) {
        _cleanup_(machine_watch_freep) MachineWatch *w = watch_new();

        put("sys/devices/system/node/has_memory", "0-2\n");
        looks(w, "nodes with memory: 0-2, were 0-3");
        put("proc/self/status", "Name:\tqschedd\nCpus_allowed_list:\t0-3\nMems_allowed_list:\t0-3\n");
        looks(w, "CPUs that qschedd itself may use: 0-3, were 0-7");
        put("proc/self/status", "Name:\tqschedd\nCpus_allowed_list:\t0-3,8-15\nMems_allowed_list:\t0-3\n");
        looks(w, NULL); /* CPUs that are not there */
        put("proc/self/status", "Name:\tother\nCpus_allowed_list:\t0-3\nMems_allowed_list:\t1\n");
        looks(w, "nodes that qschedd itself may use: 1, were 0-3");
}

static void test_functions(void **state) {
        _cleanup_(machine_watch_freep) MachineWatch *w = watch_new();

        looks(w, NULL);
        drop(FUNCTIONS "/0000:41:00.0");
        looks(w, "PCI function 0000:41:00.0 gone");
        put(FUNCTIONS "/0000:41:00.0/numa_node", "2\n"); /* another one may be there now: told as new */
        put(FUNCTIONS "/0000:42:00.0/numa_node", "-1\n");
        {
                _cleanup_(strv_freep) char **messages = NULL;

                assert_int_equal(machine_watch_look(w, NULL, &messages), 1);
                assert_int_equal(strv_length(messages), 1);
                assert_non_null(strstr(messages[0], "PCI functions "));
                assert_non_null(strstr(messages[0], "0000:41:00.0"));
                assert_non_null(strstr(messages[0], "0000:42:00.0"));
                assert_non_null(strstr(messages[0], " new"));
        }
        looks(w, NULL);
        put(FUNCTIONS "/0000:21:00.0/numa_node", "0\n");
        looks(w, "PCI function 0000:21:00.0: node 0, was 1");
}

static void test_many_functions_are_not_all_named(void **state) {
        _cleanup_(machine_watch_freep) MachineWatch *w = watch_new();
        _cleanup_(strv_freep) char **messages = NULL;

        for (unsigned i = 0; i < 40; i++) {
                char path[64];

                (void) snprintf(path, sizeof(path), FUNCTIONS "/0000:99:%02x.0/numa_node", i);
                put(path, "0\n");
        }
        assert_int_equal(machine_watch_look(w, NULL, &messages), 1);
        assert_int_equal(strv_length(messages), 1);
        assert_non_null(strstr(messages[0], " and 32 more new"));
        assert_true(strlen(messages[0]) < 200);
}

static void test_little_to_see(void **state) {
        _cleanup_(machine_watch_freep) MachineWatch *w = NULL;

        drop("sys/bus");
        drop("sys/devices/system/node");
        drop("sys/devices/system/cpu/isolated");
        w = watch_new();
        looks(w, NULL);
        put(FUNCTIONS "/0000:21:00.0/numa_node", "1\n"); /* the first function of a machine without */
        looks(w, "PCI function 0000:21:00.0 new");
        drop("sys/bus");
        looks(w, "PCI function 0000:21:00.0 gone");
}

/* What changed before a look that failed is told by the next one that does not. */
static void test_nothing_is_lost_by_a_failure(void **state) {
        _cleanup_(machine_watch_freep) MachineWatch *w = watch_new();
        _cleanup_(strv_freep) char **messages = NULL;

        put("sys/devices/system/node/has_memory", "0\n");
        put("sys/devices/system/cpu/online", "nonsense\n");
        assert_true(machine_watch_look(w, NULL, &messages) < 0);
        put("sys/devices/system/cpu/online", "0-7\n");
        assert_int_equal(machine_watch_look(w, NULL, &messages), 1);
        assert_int_equal(machine_watch_look(w, NULL, &messages), 0);
}

static void test_no_machine(void **state) {
        MachineWatch *w = NULL;

        drop("sys");
        assert_true(machine_watch_new(root, &w) < 0);
        assert_null(w);
}

static void test_this_system(void **state) {
        _cleanup_(machine_watch_freep) MachineWatch *w = NULL;
        _cleanup_(strv_freep) char **messages = NULL;

        assert_int_equal(machine_watch_new("", &w), 0);
        assert_int_equal((int) bitset_weight(machine_watch_online(w)), (int) sysconf(_SC_NPROCESSORS_ONLN));
        assert_int_equal(machine_watch_look(w, NULL, &messages), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_same, setup, teardown),
                cmocka_unit_test_setup_teardown(test_cpus, setup, teardown),
                cmocka_unit_test_setup_teardown(test_nodes_and_own_cpuset, setup, teardown),
                cmocka_unit_test_setup_teardown(test_functions, setup, teardown),
                cmocka_unit_test_setup_teardown(test_many_functions_are_not_all_named, setup, teardown),
                cmocka_unit_test_setup_teardown(test_little_to_see, setup, teardown),
                cmocka_unit_test_setup_teardown(test_nothing_is_lost_by_a_failure, setup, teardown),
                cmocka_unit_test_setup_teardown(test_no_machine, setup, teardown),
                cmocka_unit_test(test_this_system),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
