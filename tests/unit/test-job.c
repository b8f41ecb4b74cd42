/* SPDX-License-Identifier: Apache-2.0 */
/* Traffic matrices by hand-counted cases, and which process becomes which rank. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/text.h"
#include "fixture.h"

static const Shape small = { .packages = 1, .nodes = 2, .cores = 4, .smt = 1 };

static void add_match(Job *j, MatchKind kind, const char *pattern) {
        _cleanup_free_ char *copy = strdup(pattern);

        j->ranks[0].match = calloc(1, sizeof(Match));
        j->ranks[0].match->kind = kind;
        if (kind != MATCH_PID) {
                j->ranks[0].match->pattern = TAKE_PTR(copy);
                return;
        }
        j->ranks[0].match->pids = calloc(8, sizeof(pid_t));
        for (char *save = NULL, *p = strtok_r(copy, ",", &save); p; p = strtok_r(NULL, ",", &save))
                j->ranks[0].match->pids[j->ranks[0].match->n_pids++] = atoi(p);
}

static void assert_task(const RankList *l, size_t i, pid_t pid) {
        assert_true(i < l->n_ranks);
        if (pid == 0)
                assert_null(l->ranks[i].task);
        else {
                assert_non_null(l->ranks[i].task);
                assert_int_equal(l->ranks[i].task->pid, pid);
        }
}

static double sum(const double *m, unsigned n) {
        double s = 0;

        for (unsigned i = 0; i < n * n; i++)
                s += m[i];
        return s;
}

static void a_ring_has_two_neighbours(void **state) {
        _cleanup_(job_freep) Job *j = fixture_job("ring", 4, 0, NULL, 0);
        _cleanup_free_ double *four = NULL, *two = NULL;

        j->traffic = (Traffic){ .kind = TRAFFIC_RING, .ring = 5 };
        assert_int_equal(job_traffic(j, 4, &four, NULL), 0);
        assert_true(four[0 * 4 + 1] == 5 && four[1 * 4 + 2] == 5 && four[3 * 4 + 0] == 5 && four[0 * 4 + 2] == 0);
        assert_true(sum(four, 4) == 4 * 2 * 5);
        assert_int_equal(job_traffic(j, 2, &two, NULL), 0);
        assert_true(two[1] == 5 && two[2] == 5 && sum(two, 2) == 10);
}

static void parallel_groups(void **state) {
        _cleanup_(job_freep) Job *j = fixture_job("train", 8, 0, NULL, 0);
        _cleanup_free_ double *m = NULL;

        fixture_parallel(j, 2, 2, 2, 100, 10, 1); /* rank = tp + 2*(dp + 2*pp) */
        assert_int_equal(job_traffic(j, 8, &m, NULL), 0);
        assert_true(m[0 * 8 + 1] == 100); /* the same stage and replica */
        assert_true(m[0 * 8 + 2] == 1);   /* the other replica */
        assert_true(m[0 * 8 + 4] == 10);  /* the next stage */
        assert_true(m[0 * 8 + 3] == 0 && m[0 * 8 + 6] == 0 && m[0 * 8 + 7] == 0);
        assert_true(sum(m, 8) == 2 * (4 * 100 + 4 * 10 + 4 * 1));
        for (unsigned a = 0; a < 8; a++)
                for (unsigned b = 0; b < 8; b++)
                        assert_true(m[a * 8 + b] == m[b * 8 + a]);
}

static void a_matrix_counts_both_directions(void **state) {
        _cleanup_(job_freep) Job *j = fixture_job("m", 2, 0, NULL, 0);
        _cleanup_free_ double *m = NULL;
        _cleanup_free_ char *message = NULL;

        j->traffic = (Traffic){ .kind = TRAFFIC_MATRIX, .n = 2 };
        j->traffic.matrix = calloc(4, sizeof(double));
        j->traffic.matrix[0] = 99; /* to itself: nothing */
        j->traffic.matrix[1] = 3;
        j->traffic.matrix[2] = 4;
        assert_int_equal(job_traffic(j, 2, &m, NULL), 0);
        assert_true(m[0] == 0 && m[1] == 7 && m[2] == 7 && m[3] == 0);
        free(m);
        m = NULL;
        assert_int_equal(job_traffic(j, 3, &m, &message), -ERANGE);
        assert_string_equal(message, "Job m: its traffic matrix is for 2 ranks, it has 3");
        assert_null(m);
}

static void order_of_ranks(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = fixture_snapshot(&small);
        _cleanup_(job_freep) Job *by_start = fixture_job("a", 0, 0, NULL, 0), *by_pid = fixture_job("b", 0, 0, NULL, 0);
        const Job *jobs[] = { by_start, by_pid };
        RankList l;

        for (pid_t pid = 1; pid <= 6; pid++)
                fixture_task(s, pid, "0-7", "0-7");
        for (int i = 0; i < 3; i++) { /* 1 2 3: their launcher counts backwards */
                s->tasks[i].rank = 2 - i;
                free(s->tasks[i].comm);
                s->tasks[i].comm = strdup("ranked");
        }
        add_match(by_start, MATCH_COMM, "rank*");
        add_match(by_pid, MATCH_PID, "6,4,5,77");
        assert_int_equal(ranks_match(s, jobs, 2, &l), 0);
        assert_int_equal(l.n_ranks, 6);
        assert_task(&l, 0, 3);
        assert_task(&l, 1, 2);
        assert_task(&l, 2, 1);
        assert_task(&l, 3, 6);
        assert_task(&l, 4, 4);
        assert_task(&l, 5, 5);
        assert_string_equal(l.ranks[4].name, "b/1");
        assert_string_equal(l.messages[0], "Job b: no process with pid 77");
        rank_list_done(&l);
}

static void a_rank_that_is_missing_leaves_its_place(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = fixture_snapshot(&small);
        _cleanup_(job_freep) Job *j = fixture_job("a", 3, 0, NULL, 0);
        const Job *jobs[] = { j };
        RankList l;

        fixture_task(s, 5, "0-7", "0-7")->rank = 2;
        add_match(j, MATCH_COMM, "task*");
        assert_int_equal(ranks_match(s, jobs, 1, &l), 0);
        assert_int_equal(l.n_ranks, 3);
        assert_task(&l, 0, 0);
        assert_task(&l, 1, 0);
        assert_task(&l, 2, 5);
        rank_list_done(&l);
}

/* torchrun (no rank) -> two ranks -> a data loader of the first, which inherits RANK=0 */
static void families(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = fixture_snapshot(&small);
        _cleanup_(job_freep) Job *j = fixture_job("a", 0, 0, NULL, 0);
        const Job *jobs[] = { j };
        RankList l;

        fixture_task(s, 1, "0-7", "0-7");
        fixture_task(s, 2, "0-7", "0-7");
        fixture_task(s, 3, "0-7", "0-7");
        fixture_task(s, 4, "0-7", "0-7");
        s->tasks[1].rank = 0;
        s->tasks[2].rank = 1;
        s->tasks[3].rank = 0;
        s->tasks[1].parent_task = s->tasks[2].parent_task = 1;
        s->tasks[3].parent_task = 2;
        add_match(j, MATCH_COMM, "*");
        assert_int_equal(ranks_match(s, jobs, 1, &l), 0);
        assert_int_equal(l.n_ranks, 2);
        assert_task(&l, 0, 2);
        assert_task(&l, 1, 3);
        rank_list_done(&l);
}

/* The pid was bound at apply; the process under it later is a stranger. */
static void a_reused_pid_is_nobodys(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = fixture_snapshot(&small);
        _cleanup_(job_freep) Job *j = fixture_job("a", 2, 0, NULL, 0);
        const Job *jobs[] = { j };
        RankList l;

        fixture_task(s, 5, "0-7", "0-7");
        add_match(j, MATCH_PID, "5,6");
        assert_int_equal(job_bind(j, s), 0);
        assert_int_equal(ranks_match(s, jobs, 1, &l), 0);
        assert_task(&l, 0, 5);
        rank_list_done(&l);

        s->tasks[0].start_time++;
        fixture_task(s, 6, "0-7", "0-7"); /* was not there yet: may still come */
        assert_int_equal(job_bind(j, s), 0);
        assert_int_equal(ranks_match(s, jobs, 1, &l), 0);
        assert_int_equal(l.n_ranks, 1); /* the rank of 5 can never be filled again */
        assert_task(&l, 0, 6);
        assert_int_equal(l.ranks[0].of, 2);
        assert_string_equal(l.messages[0], "Job a: pid 5 is another process now");
        rank_list_done(&l);
}

/* Two [Ranks] sections with matches of their own: each takes its processes. */
static void sections_take_their_own(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = fixture_snapshot(&small);
        _cleanup_(job_freep) Job *j = fixture_job("a", 0, 0, NULL, 0);
        const Job *jobs[] = { j };
        RankList l;

        fixture_task(s, 1, "0-7", "0-7");
        fixture_task(s, 2, "0-7", "0-7");
        for (size_t i = 0; i < 2; i++)
                s->tasks[i].job = strdup("a");
        j->ranks = realloc(j->ranks, 2 * sizeof(Ranks));
        j->ranks[1] = (Ranks){ .min_cpus = 1 };
        j->n_ranks = 2;
        add_match(j, MATCH_COMM, "task2");
        j->ranks[1].match = j->ranks[0].match;
        add_match(j, MATCH_COMM, "task1");
        assert_int_equal(ranks_match(s, jobs, 1, &l), 0);
        assert_int_equal(l.n_ranks, 2);
        assert_task(&l, 0, 1);
        assert_task(&l, 1, 2);
        assert_ptr_equal(l.ranks[1].section, j->ranks + 1);
        rank_list_done(&l);
}

static void unit_names_keep_their_backslashes(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = fixture_snapshot(&small);
        Match m = { .kind = MATCH_UNIT, .pattern = (char *) "llm\\x2dserve*.service" };
        Task *t = fixture_task(s, 1, "0-7", "0-7");

        t->owner = strdup("llm\\x2dserve@1.service");
        assert_true(match_task(&m, t));
        t->owner[3] = '-';
        assert_false(match_task(&m, t));
}

static void more_processes_than_ranks(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = fixture_snapshot(&small);
        _cleanup_(job_freep) Job *j = fixture_job("a", 2, 0, NULL, 0);
        const Job *jobs[] = { j };
        RankList l;

        for (pid_t pid = 1; pid <= 4; pid++)
                fixture_task(s, pid, "0-7", "0-7");
        add_match(j, MATCH_COMM, "*");
        assert_int_equal(ranks_match(s, jobs, 1, &l), 0);
        assert_int_equal(l.n_ranks, 2);
        assert_task(&l, 0, 1);
        assert_string_equal(l.messages[0], "Job a: 2 more processes than its Count=2 ranks match and are not placed");
        rank_list_done(&l);
}

static void the_higher_priority_has_the_first_word(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = fixture_snapshot(&small);
        _cleanup_(job_freep) Job *low = fixture_job("low", 1, 0, NULL, 0), *high = fixture_job("high", 1, 0, NULL, 0);
        const Job *jobs[] = { low, high };
        RankList l;

        fixture_task(s, 9, "0-7", "0-7");
        high->priority = 80;
        add_match(low, MATCH_COMM, "*");
        add_match(high, MATCH_COMM, "task9");
        assert_int_equal(ranks_match(s, jobs, 2, &l), 0);
        assert_task(&l, 0, 0);
        assert_task(&l, 1, 9);
        assert_string_equal(l.ranks[1].name, "high/0");
        assert_string_equal(l.messages[0], "Job low: 1 process that it matches belongs to job high");
        rank_list_done(&l);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_ring_has_two_neighbours),
                cmocka_unit_test(parallel_groups),
                cmocka_unit_test(a_matrix_counts_both_directions),
                cmocka_unit_test(order_of_ranks),
                cmocka_unit_test(a_rank_that_is_missing_leaves_its_place),
                cmocka_unit_test(families),
                cmocka_unit_test(a_reused_pid_is_nobodys),
                cmocka_unit_test(sections_take_their_own),
                cmocka_unit_test(unit_names_keep_their_backslashes),
                cmocka_unit_test(more_processes_than_ranks),
                cmocka_unit_test(the_higher_priority_has_the_first_word),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
