/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What roles and threads are read from: [Role] sections, read and printed; the threads of a live process with a child;
 * and a /proc of files, where reads can be counted and tids come again.
 */
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "roles-fixture.h"
#include "common/clock.h"
#include "daemon/readers/role-threads.h"
#include "daemon/readers/rolefile.h"
#include "daemon/readers/tasks.h"

static int load(Roles *r, const char *text, char **message) {
        Ini *ini = NULL;
        int k = ini_parse("test.conf", text, strlen(text), &ini, message);

        assert_int_equal(k, 0);
        k = roles_from_ini(r, ini, message);
        ini_free(ini);
        return k;
}

static void test_sections(void **state) {
        _cleanup_free_ char *message = NULL;
        Roles r = defaults();
        size_t built_in = r.n_roles;

        assert_int_equal(load(&r,
                              "[Daemon]\nInterval=1s\n[Role Communication]\nCPUs=2\n[role proxies]\nComm=my_proxy* x?\n"
                              "Priority=95\n[Role compute]\nComm=\n",
                              &message),
                         0);
        assert_int_equal(r.n_roles, built_in + 1);
        assert_int_equal(roles_get(&r, "communication")->cpus, 2);
        assert_int_equal(roles_get(&r, "communication")->priority, 80); /* not given: as it was */
        assert_true(strv_contains(roles_get(&r, "communication")->comm, "hccl*"));
        assert_int_equal(roles_get(&r, "proxies")->share, ROLE_OWN);
        assert_string_equal(r.roles[role_of(&r, &(RoleThread){ 1, 2, "my_proxy_7", false, false }, "a")].name,
                            "proxies");
        assert_int_equal(role_of(&r, &(RoleThread){ 1, 2, "zzz", false, false }, "a"), 0);
        assert_int_equal(load(&r, "[Role proxies]\nShare=pool\n", &message), 0); /* a drop-in */
        assert_int_equal(roles_get(&r, "proxies")->share, ROLE_POOL);
        assert_int_equal(roles_get(&r, "proxies")->priority, 95);
        roles_done(&r);
}

static void test_bad_sections(void **state) {
        static const struct {
                const char *text, *says;
        } cases[] = {
                { "[Role]\nCPUs=1\n", "test.conf:1: [Role NAME] takes one name" },
                { "[Role a b]\nCPUs=1\n", "test.conf:1: [Role NAME] takes one name" },
                { "[Role .a]\nCPUs=1\n", "test.conf:1: [Role NAME] takes one name" },
                { "[Role a]\nCPUs=0\n", "test.conf:2:" },
                { "[Role a]\nShare=half\n", "rest, own, pool" },
                { "[Role a]\nColour=red\n", "test.conf:2:" },
                { "[Role a]\nPriority=101\n", "0 to 100" },
                { "[Role a]\nComm=ncclCommWatchdog\n", "can never match" },
        };
        Roles r = defaults();
        size_t n = r.n_roles;

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *message = NULL;

                assert_int_equal(load(&r, cases[i].text, &message), -EBADMSG);
                assert_non_null(message);
                if (!strstr(message, cases[i].says))
                        fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].text, message, cases[i].says);
                assert_int_equal(r.n_roles, n); /* as before */
        }
        roles_done(&r);
}

static void test_too_many(void **state) {
        _cleanup_free_ char *text = NULL, *message = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);
        Roles r = defaults();

        for (unsigned i = 0; i < ROLES_MAX; i++)
                fprintf(f, "[Role r%u]\nCPUs=1\n", i);
        fclose(f);
        assert_int_equal(load(&r, text, &message), -EBADMSG);
        assert_non_null(strstr(message, "64 roles already"));
        roles_done(&r);
}

/* What --print-config would show reads back as the table itself. */
static void test_print(void **state) {
        _cleanup_free_ char *text = NULL, *plain = NULL, *message = NULL;
        Roles a = defaults(), b = defaults();
        size_t size;
        FILE *f = open_memstream(&text, &size);

        roles_print(&a, f);
        fclose(f);
        plain = calloc(1, size + 1);
        assert_non_null(plain);
        for (char *from = text, *to = plain; *from; from++) /* without the '#' of each line */
                if (*from != '#')
                        *to++ = *from;
        for (size_t i = 0; i < b.n_roles; i++)
                b.roles[i].share = ROLE_POOL;
        assert_int_equal(load(&b, plain, &message), 0);
        assert_int_equal(a.n_roles, b.n_roles);
        for (size_t i = 0; i < a.n_roles; i++) {
                assert_int_equal(a.roles[i].share, b.roles[i].share);
                assert_int_equal(strv_length(a.roles[i].comm), strv_length(b.roles[i].comm));
        }
        roles_done(&a);
        roles_done(&b);
}

static void *named(void *name) {
        assert_int_equal(prctl(PR_SET_NAME, name), 0);
        pause();
        return NULL;
}

/* A live process with named threads, and a child. */
static pid_t live_rank(pid_t *ret_child) {
        pid_t pids[2];
        int fds[2];

        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        pids[0] = fork();
        assert_true(pids[0] >= 0);
        if (pids[0] == 0) {
                pthread_t t;

                (void) prctl(PR_SET_NAME, "python");
                pids[1] = fork();
                if (pids[1] == 0)
                        for (prctl(PR_SET_PDEATHSIG, SIGKILL);;)
                                pause();
                if (pthread_create(&t, NULL, named, (void *) "acl_thread") != 0 ||
                    pthread_create(&t, NULL, named, (void *) "python") != 0)
                        _exit(1);
                usleep(300000);
                if (write(fds[1], &pids[1], sizeof(pids[1])) != (ssize_t) sizeof(pids[1]))
                        _exit(1);
                for (;;)
                        pause();
        }
        assert_int_equal(read(fds[0], ret_child, sizeof(*ret_child)), sizeof(*ret_child));
        close(fds[0]);
        close(fds[1]);
        return pids[0];
}

static void test_live_threads(void **state) {
        Process rank = {}, children[2] = {};
        Roles r = defaults();
        RoleThreads t;
        RoleSplit s;
        pid_t child;

        rank.pid = live_rank(&child);
        children[0].pid = child;
        children[1].pid = 0x3ffffffe; /* gone */
        assert_int_equal(process_start_time(rank.pid, &rank.start_time), 0);
        assert_int_equal(process_start_time(child, &children[0].start_time), 0);
        assert_int_equal(role_threads_read("", rank, children, 2, NULL, &t), 0);
        kill(rank.pid, SIGKILL);
        waitpid(rank.pid, NULL, 0);
        assert_int_equal(t.n_threads, 4);
        assert_true(t.threads[0].is_main);
        assert_true(t.threads[3].is_child);
        s = split(&r, NULL, "0-7", t.threads, t.n_threads, false);
        assert_int_equal(s.grants[roles_get(&r, "runtime") - r.roles].n_threads, 1);
        assert_int_equal(s.grants[0].n_threads, 2);
        assert_set(role_split_cpus(&s, 3), "0-7", "child");
        role_split_done(&s);
        role_threads_done(&t);
        assert_int_equal(role_threads_read("", rank, NULL, 0, NULL, &t), -ESRCH);
        roles_done(&r);
}

/* A /proc of files: what is read of it can be counted, and tids can come again. */

static char fake_root[] = "/tmp/test-roles.XXXXXX";

static void put_stat(const char *dir, int id, const char *comm, uint64_t start) {
        char path[128];
        FILE *f;

        (void) snprintf(path, sizeof(path), "%s/%s/%d", fake_root, dir, id);
        (void) mkdir(path, 0755);
        (void) snprintf(path, sizeof(path), "%s/%s/%d/stat", fake_root, dir, id);
        f = fopen(path, "w");
        assert_non_null(f);
        fprintf(f, "%d (%s) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %" PRIu64 " 0\n", id, comm, start);
        fclose(f);
}

static int make_fake(void **state) {
        char path[128];

        if (!mkdtemp(fake_root))
                return -1;
        (void) snprintf(path, sizeof(path), "%s/proc", fake_root);
        (void) mkdir(path, 0755);
        put_stat("proc", 100, "rank", 7);
        (void) snprintf(path, sizeof(path), "%s/proc/100/task", fake_root);
        (void) mkdir(path, 0755);
        for (int i = 0; i < 80; i++)
                put_stat("proc/100/task", 100 + i, "rank", 7);
        return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
        return remove(path);
}

static int remove_fake(void **state) {
        return nftw(fake_root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* The next read on top of t; stats that it took. */
static size_t read_again(RoleThreads *t, uint64_t start_time) {
        RoleThreads next;

        assert_int_equal(role_threads_read(fake_root, (Process){ 100, start_time }, NULL, 0, t, &next), 0);
        role_threads_done(t);
        *t = next;
        return t->n_stats;
}

/* What a steady tick costs, counted: of threads that are not young an eighth is read each time, each once in eight. */
static void test_reads(void **state) {
        RoleThreads t = {};
        size_t sum = 0;

        assert_int_equal(read_again(&t, 7), 80);
        for (unsigned i = 0; i < 8; i++) {
                size_t n = read_again(&t, 7);

                assert_int_equal(t.n_threads, 80);
                assert_in_range(n, 1, 20);
                sum += n;
        }
        assert_int_equal(sum, 80);

        put_stat("proc/100/task", 120, "acl_thread", 7);  /* renamed */
        put_stat("proc/100/task", 130, "rank", 9);        /* ended; its tid is another's */
        put_stat("proc/100/task", 500, "hccl_thread", 9); /* a new one */
        (void) read_again(&t, 7);
        assert_int_equal(t.n_threads, 81);
        assert_string_equal(t.threads[80].comm, "hccl_thread");
        for (unsigned i = 0; i < 7; i++)
                (void) read_again(&t, 7);
        assert_string_equal(t.threads[20].comm, "acl_thread");
        assert_string_equal(t.threads[21].comm, "rank");
        assert_int_equal(t.starts[30], 9);
        role_threads_done(&t);
}

/* Young threads are read each time; nothing is taken from a process that had the same number. */
static void test_reads_of_young(void **state) {
        uint64_t now = clock_usec(CLOCK_BOOTTIME) * (uint64_t) sysconf(_SC_CLK_TCK) / 1000000;
        RoleThreads t = {};

        /* Those of the test before; it may run alone. */
        put_stat("proc/100/task", 500, "hccl_thread", 9);
        put_stat("proc/100/task", 110, "rank", now);
        assert_int_equal(read_again(&t, 7), 81);
        for (unsigned i = 0; i < 8; i++) {
                size_t n = read_again(&t, 7);

                assert_in_range(n, 1, 20);
                put_stat("proc/100/task", 110, i % 2 ? "odd" : "even", now);
                assert_string_equal(t.threads[10].comm, i == 0 ? "rank" : i % 2 ? "even" : "odd");
        }
        put_stat("proc", 100, "rank", 8);
        put_stat("proc/100/task", 100, "rank", 8);
        assert_int_equal(read_again(&t, 8), 81);
        role_threads_done(&t);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sections),       cmocka_unit_test(test_bad_sections),
                cmocka_unit_test(test_too_many),       cmocka_unit_test(test_print),
                cmocka_unit_test(test_live_threads),   cmocka_unit_test(test_reads),
                cmocka_unit_test(test_reads_of_young),
        };

        return cmocka_run_group_tests_name("role-threads", tests, make_fake, remove_fake);
}
