/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/readers/jobfile.h"

#include <errno.h>
#include <setjmp.h>
#include <cmocka.h>

#include "common/fileio.h"

static Job *parse(const char *label, const char *text, const char *matrix) {
        _cleanup_free_ char *message = NULL;
        Job *job = NULL;

        if (job_parse(label, text, strlen(text), matrix, &job, &message) < 0)
                fail_msg("%s", strempty(message));
        return job;
}

static void test_issue_example(void **state) {
        _cleanup_(job_freep) Job *j = parse("x.job",
                                            "[Job]\n"
                                            "Name=train            # default: file name\n"
                                            "Priority=70           # 0..100\n"
                                            "[Ranks]\n"
                                            "Count=8\n"
                                            "CPUs=12               # at most\n"
                                            "MinCPUs=2             # at least; fewer is infeasible\n"
                                            "Memory=64G            # host memory per rank\n"
                                            "Device=ascend:1       # KIND[:N]\n"
                                            "Match=cmdline:*pretrain_gpt*   # pid:1,2\n"
                                            "[Traffic]\n"
                                            "TP=4                  # with PP= DP=\n"
                                            "PP=2\n"
                                            "TPBytes=30G\n",
                                            NULL);

        assert_string_equal(j->name, "train");
        assert_int_equal(j->priority, 70);
        assert_int_equal(j->n_ranks, 1);
        assert_null(j->ranks[0].name);
        assert_int_equal(j->ranks[0].count, 8);
        assert_int_equal(j->ranks[0].cpus, 12);
        assert_int_equal(j->ranks[0].min_cpus, 2);
        assert_true(j->ranks[0].memory == 64ULL << 30);
        assert_string_equal(j->ranks[0].device_kind, "ascend");
        assert_int_equal(j->ranks[0].n_devices, 1);
        assert_null(j->ranks[0].device_names);
        assert_int_equal(j->ranks[0].match->kind, MATCH_CMDLINE);
        assert_string_equal(j->ranks[0].match->pattern, "*pretrain_gpt*");
        assert_int_equal(j->ranks[0].line, 4);
        assert_int_equal(j->traffic.kind, TRAFFIC_PARALLEL);
        assert_int_equal(j->traffic.tp, 4);
        assert_int_equal(j->traffic.pp, 2);
        assert_int_equal(j->traffic.dp, 1);
        assert_true(j->traffic.tp_bytes == 30e9 && j->traffic.pp_bytes == 0 && j->traffic.dp_bytes == 0);
}

static void test_defaults(void **state) {
        _cleanup_(job_freep) Job *j = parse("/etc/jobs/small.job", "[Ranks]", NULL);
        _cleanup_(job_freep) Job *again = NULL;

        assert_string_equal(j->name, "small");
        assert_int_equal(j->priority, 50);
        assert_int_equal(j->ranks[0].count, 0);
        assert_int_equal(j->ranks[0].cpus, 0);
        assert_int_equal(j->ranks[0].min_cpus, 1);
        assert_null(j->ranks[0].device_kind);
        assert_null(j->ranks[0].device_names);
        assert_null(j->ranks[0].match);
        assert_int_equal(j->traffic.kind, TRAFFIC_NONE);
        assert_null(j->matrix_text);
        /* The text travels without the file's name, so it carries the job's. */
        assert_string_equal(j->text, "[Ranks]\n[Job]\nName=small\n");
        again = parse("bus", j->text, NULL);
        assert_string_equal(again->name, "small");
        assert_string_equal(again->text, j->text);
}

static void test_text_keeps_sections(void **state) {
        _cleanup_(job_freep) Job *j = parse("a.b", "# x\n[job] # y\nPriority=9\n[Ranks]\n", NULL);
        _cleanup_(job_freep) Job *bare = parse("c", "[Ranks]\n[Job]", NULL);

        assert_string_equal(j->name, "a.b");
        assert_string_equal(j->text, "# x\n[job] # y\nName=a.b\nPriority=9\n[Ranks]\n");
        assert_string_equal(bare->text, "[Ranks]\n[Job]\nName=c\n");
}

static void test_sections(void **state) {
        _cleanup_(job_freep) Job *j = parse(
                "t",
                "[Ranks]\nCount=1\nDevice=none\n[Ranks actor]\nCount=2\nDevice=npu3 npu1\nMatch=pid:7, 9-11 8\n"
                "[Ranks critic]\nCount=1\nDevice=edu:3\nMatch=unit:x-*.service\n[Ranks odd]\nDevice=mystery\n[Ranks all]\nDevice=nvidia\n",
                NULL);

        assert_int_equal(j->n_ranks, 5);
        assert_string_equal(j->ranks[1].name, "actor");
        assert_string_equal(j->ranks[1].device_names[0], "npu3");
        assert_string_equal(j->ranks[1].device_names[1], "npu1");
        assert_int_equal(j->ranks[1].match->n_pids, 5);
        for (size_t i = 0; i < 5; i++)
                assert_int_equal(j->ranks[1].match->pids[i], ((const pid_t[]){ 7, 9, 10, 11, 8 })[i]);
        assert_string_equal(j->ranks[2].device_kind, "edu");
        assert_int_equal(j->ranks[2].n_devices, 3);
        assert_int_equal(j->ranks[2].match->kind, MATCH_UNIT);
        assert_string_equal(j->ranks[3].device_names[0], "mystery");
        assert_string_equal(j->ranks[4].device_kind, "nvidia");
        assert_int_equal(j->ranks[4].n_devices, 1);
}

static void test_traffic(void **state) {
        _cleanup_(job_freep) Job *ring = parse("t", "[Ranks]\n[Traffic]\nRing=1.5G\n", NULL);
        _cleanup_(job_freep) Job *usual = parse("t", "[Ranks]\nCount=8\n[Traffic]\nTP=2\nPP=2\nDP=2\n", NULL);
        _cleanup_(job_freep)
                Job *m = parse("t", "[Ranks]\nCount=2\n[Traffic]\nMatrix=m.txt\n", "# head\n\n0 1.5G # x\r\n\t2e6   0");

        assert_int_equal(ring->traffic.kind, TRAFFIC_RING);
        assert_true(ring->traffic.ring == 1.5e9);
        assert_true(usual->traffic.tp_bytes == 10e9 && usual->traffic.pp_bytes == 1e9 &&
                    usual->traffic.dp_bytes == 1e9);
        assert_int_equal(m->traffic.kind, TRAFFIC_MATRIX);
        assert_int_equal(m->traffic.n, 2);
        assert_true(m->traffic.matrix[1] == 1.5e9 && m->traffic.matrix[2] == 2e6);
        assert_string_equal(m->matrix_text, "# head\n\n0 1.5G # x\r\n\t2e6   0");
}

static void test_matrix_bad(void **state) {
        static const char *const cases[][2] = {
                { "", "t:4: Matrix=m: the content of that file did not come with the job" },
                { "# nothing\n", "m: the traffic matrix has no numbers" },
                { "0 1\n1\n", "m:2: the traffic matrix must be 2 x 2 like its first row, row 2 has 1 numbers" },
                { "0 1\n1\n0 1\n", "m:2: the traffic matrix must be 2 x 2 like its first row, row 2 has 1 numbers" },
                { "0 1\n1 0 2\n", "m:2: the traffic matrix must be 2 x 2 like its first row, here is more" },
                { "0 1\n1 0\n2 2\n", "m:3: the traffic matrix must be 2 x 2 like its first row, here is more" },
                { "0 1\n", "m:1: the traffic matrix must be 2 x 2 like its first row, row 1 has 2 numbers" },
                { "0 -1\n1 0\n", "m:1: -1 is not bytes per second" },
                { "0 nan\n1 0\n", "m:1: nan is not bytes per second" },
                { "0 inf\n1 0\n", "m:1: inf is not bytes per second" },
                { "0 1\n1e999 0\n", "m:2: 1e999 is not bytes per second" },
                { "0 0x10\n1 0\n", "m:1: 0x10 is not bytes per second" },
                { "0 1,5\n1 0\n", "m:1: 1,5 is not bytes per second" },
                { "7\n", "t:3: Matrix= has 1 rows, but the job has 2 ranks" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                static const char text[] = "[Ranks]\nCount=2\n[Traffic]\nMatrix=m\n";
                _cleanup_free_ char *message = NULL;
                Job *job = NULL;

                assert_int_equal(job_parse("t", text, sizeof(text) - 1, cases[i][0], &job, &message), -EBADMSG);
                assert_null(job);
                if (!message || strncmp(message, cases[i][1], strlen(cases[i][1])) != 0)
                        fail_msg("\"%s\" instead of \"%s\"", strempty(message), cases[i][1]);
        }
}

static void test_bad(void **state) {
        static const char *const cases[][2] = {
                { "", "t: a job needs at least one [Ranks] section" },
                { "[Job]\nName=x\n", "t: a job needs at least one [Ranks] section" },
                { "[Rank]\n", "t:1: [Rank] is not known in a job file, allowed: Job, Ranks, Traffic" },
                { "[Ranks a b]\n", "t:1: [Ranks NAME] takes one name" },
                { "[Ranks a/b]\n", "t:1: [Ranks a/b]: the name is 1 to 64 letters" },
                { "[Job x]\n", "t:1: [Job] takes no name" },
                { "[Ranks]\n[Traffic x]\n", "t:2: [Traffic] takes no name" },
                { "[Ranks]\n[Ranks]\n", "t:2: section [Ranks] is there twice" },
                { "[Ranks]\n[Job]\nName=../x\n", "t:3: Name=../x: a job's name is 1 to 64" },
                { "[Ranks]\n[Job]\nName=\n", "t:3: Name=: a job's name is 1 to 64" },
                { "[Ranks]\n[Job]\nName=-x\n", "t:3: Name=-x: a job's name is" },
                { "[Ranks]\n[Job]\nPriority=101\n", "t:3: Priority=101 is out of range, allowed: 0 to 100" },
                { "[Ranks]\nCount=0\n", "t:2: Count=0 is out of range, allowed: 1 to 1024" },
                { "[Ranks]\nCount=10000\n", "t:2: Count=10000 is out of range, allowed: 1 to 1024" },
                { "[Ranks]\nCount=-8\n", "t:2: Count=-8 is not a whole number" },
                { "[Ranks a]\nCount=1000\n[Ranks b]\nCount=500\n",
                  "t: the job has 1500 ranks, at most 1024 are allowed" },
                { "[Ranks]\nCPUs=4\nMinCPUs=5\n", "t:3: MinCPUs=5 is more than CPUs=4" },
                { "[Ranks]\nCPUs=65537\n", "t:2: CPUs=65537 is out of range, allowed: 1 to 65536" },
                { "[Ranks]\nMemory=-1\n", "t:2: Memory=-1 is not a size in bytes" },
                { "[Ranks]\nMemory=64GB\n", "t:2: Memory=64GB is not a size in bytes" },
                { "[Ranks]\nMemory=9999P\n", "t:2: Memory=9999P is out of range" },
                { "[Ranks]\nCpu=1\n",
                  "t:2: [Ranks] has no key Cpu=, allowed: Count, CPUs, MinCPUs, Memory, MemoryWall, Device, Match" },
                { "[Ranks]\nDevice=\n", "t:2: Device= has no value, allowed: KIND, KIND:N" },
                { "[Ranks]\nDevice=ascend:0\n", "t:2: Device=ascend:0: the number after KIND: is 1 to 1024" },
                { "[Ranks]\nDevice=ascend:x\n", "t:2: Device=ascend:x: the number" },
                { "[Ranks]\nDevice=:1\n", "t:2: Device=:1: a device kind is" },
                { "[Ranks]\nDevice=npu0 ascend:1\n", "t:2: Device: ascend:1 is no device name" },
                { "[Ranks]\nDevice=npu0 none\n", "t:2: Device: \"none\" stands alone" },
                { "[Ranks]\nDevice=npu0 npu0\n", "t:2: Device names npu0 twice" },
                { "[Ranks]\nCount=3\nDevice=npu0 npu1\n",
                  "t:3: Device names 2 devices for Count=3; name one per rank" },
                { "[Ranks]\nMatch=\n", "t:2: Match=: allowed: pid:N,N" },
                { "[Ranks]\nMatch=python\n", "t:2: Match=python: allowed: pid:N,N" },
                { "[Ranks]\nMatch=name:python\n", "t:2: Match=name:python: allowed" },
                { "[Ranks]\nMatch=pid:\n", "t:2: Match=pid: names no process" },
                { "[Ranks]\nMatch=pid:1,x\n", "t:2: Match=pid: x is no process id" },
                { "[Ranks]\nMatch=pid:0\n", "t:2: Match=pid: 0 is no process id" },
                { "[Ranks]\nMatch=pid:1-2000\n", "t:2: Match=pid: more than 1024 processes are named" },
                { "[Ranks]\nMatch=pid:1-2147483647\n", "t:2: Match=pid: more than 1024" },
                { "[Ranks]\nMatch=pid:9-7\n", "t:2: Match=pid: 9-7: the range ends before it begins" },
                { "[Ranks]\nMatch=pid:-7\n", "t:2: Match=pid: -7 is no process id" },
                { "[Ranks]\nMatch=pid:7-\n", "t:2: Match=pid: 7- is no process id" },
                { "[Ranks]\nMatch=pid:1-2-3\n", "t:2: Match=pid: 1-2-3 is no process id" },
                { "[Ranks]\nMatch=pid:5-8,7\n", "t:2: Match=pid: 7 is there twice" },
                { "[Ranks]\nMatch=pid:5,5\n", "t:2: Match=pid: 5 is there twice" },
                { "[Ranks]\nMatch=comm:\n", "t:2: Match=comm: the pattern after the colon is empty" },
                { "[Ranks]\nMatch=comm:VLLM::Worker_TP0\n",
                  "t:2: Match=comm:VLLM::Worker_TP0 can never match: the kernel keeps 15 bytes" },
                { "[Ranks]\nMatch=cgroup:user.slice\n", "t:2: Match=cgroup:user.slice: a cgroup path starts with '/'" },
                { "[Ranks]\n[Traffic]\n", "t:2: [Traffic] takes exactly one of" },
                { "[Ranks]\n[Traffic]\nRing=1G\nTP=2\n", "t:2: [Traffic] takes exactly one of" },
                { "[Ranks]\n[Traffic]\nRing=inf\n", "t:3: Ring=inf is not bytes per second" },
                { "[Ranks]\n[Traffic]\nMatrix=\n", "t:3: Matrix= has no value" },
                { "[Ranks]\nCount=8\n[Traffic]\nTP=4\n", "t:3: TP*PP*DP is 4, but the job has 8 ranks" },
                { "[Ranks]\n[Traffic]\nTP=1024\nPP=1024\nDP=1024\n",
                  "t:2: TP*PP*DP is 1073741824, at most 1024 ranks" },
                { "[Ranks]\n[Traffic]\nTP=0\n", "t:3: TP=0 is out of range" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *message = NULL;
                Job *job = NULL;

                assert_int_equal(job_parse("t", cases[i][0], strlen(cases[i][0]), NULL, &job, &message), -EBADMSG);
                assert_null(job);
                if (!message || strncmp(message, cases[i][1], strlen(cases[i][1])) != 0)
                        fail_msg("\"%s\" instead of \"%s\"", strempty(message), cases[i][1]);
        }
}

static void test_label_is_no_name(void **state) {
        _cleanup_free_ char *message = NULL;
        Job *job = NULL;

        assert_int_equal(job_parse("my job.job", "[Ranks]", 7, NULL, &job, &message), -EBADMSG);
        assert_non_null(strstr(message, "give one with Name= in [Job]"));
}

static void test_load(void **state) {
        char dir[] = "/tmp/test-jobfile.XXXXXX", command[64];
        _cleanup_free_ char *file = NULL, *matrix = NULL, *message = NULL;
        _cleanup_(job_freep) Job *job = NULL;

        assert_non_null(mkdtemp(dir));
        file = path_join(dir, "pair.job");
        matrix = path_join(dir, "pair.txt");
        assert_int_equal(write_file_atomic(file, "[Ranks]\nCount=2\n[Traffic]\nMatrix=pair.txt\n", 0600), 0);
        assert_int_equal(job_load(file, &job, &message), -ENOENT);
        assert_non_null(strstr(message, "/pair.txt: cannot be read"));
        assert_int_equal(write_file_atomic(matrix, "0 5\n5 0\n", 0600), 0);
        assert_int_equal(job_load(file, &job, &message), 0);
        assert_string_equal(job->name, "pair");
        assert_string_equal(job->matrix_text, "0 5\n5 0\n");
        assert_true(job->traffic.matrix[1] == 5);
        (void) snprintf(command, sizeof(command), "rm -r %s", dir);
        assert_int_equal(system(command), 0);
}

/* Text on the bus must never make the daemon open a path. */
static void test_parse_opens_nothing(void **state) {
        static const char text[] = "[Ranks]\n[Traffic]\nMatrix=/etc/passwd\n";
        _cleanup_free_ char *message = NULL;
        Job *job = NULL;

        assert_int_equal(job_parse("t", text, sizeof(text) - 1, NULL, &job, &message), -EBADMSG);
        assert_non_null(strstr(message, "did not come with the job"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_issue_example),
                cmocka_unit_test(test_defaults),
                cmocka_unit_test(test_text_keeps_sections),
                cmocka_unit_test(test_sections),
                cmocka_unit_test(test_traffic),
                cmocka_unit_test(test_matrix_bad),
                cmocka_unit_test(test_bad),
                cmocka_unit_test(test_load),
                cmocka_unit_test(test_label_is_no_name),
                cmocka_unit_test(test_parse_opens_nothing),
        };

        return cmocka_run_group_tests_name("jobfile", tests, NULL, NULL);
}
