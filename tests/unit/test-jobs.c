/* SPDX-License-Identifier: Apache-2.0 */
/* Applied jobs: what is written is what is read again, bad files are set aside, failures change nothing. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/fileio.h"
#include "daemon/jobs.h"
#include "daemon/readers/jobfile.h"

#define TEXT "[Job]\nName=%s\nPriority=%u\n[Ranks]\nCount=2\n"

static char *state; /* made for each test */

static int setup(void **unused) {
        char *path = strdup("/tmp/test-jobs.XXXXXX");

        state = path && mkdtemp(path) ? path : NULL;
        return state ? 0 : -1;
}

static int teardown(void **unused) {
        _cleanup_free_ char *command = NULL;
        int r;

        if (asprintf(&command, "rm -rf %s", state) < 0)
                return -1;
        r = system(command);
        free(state);
        return r;
}

static AppliedJob *job(const char *name, unsigned priority, const char *matrix, uid_t uid, bool confined) {
        _cleanup_free_ char *text = NULL, *message = NULL;
        AppliedJob *j = NULL;
        Job *parsed = NULL;

        assert_true(asprintf(&text, TEXT "%s", name, priority, matrix ? "[Traffic]\nMatrix=m\n" : "") > 0);
        assert_int_equal(job_parse("job", text, strlen(text), matrix, &parsed, &message), 0);
        assert_int_equal(applied_job_new(parsed, uid, confined, &j), 0);
        return j;
}

static Undo *undo; /* the journal that orders are looked up in; NULL none */

static JobStore *store_open(char ***messages) {
        JobStore *s = NULL;

        assert_int_equal(job_store_open(state, undo, messages, &s), 0);
        return s;
}

/* Both steps of an order, or one step and the end of the daemon. */
static int put(JobStore *s, AppliedJob *j) {
        int r = job_store_prepare(s, j, 1, NULL), q;

        if (r <= 0)
                return r;
        q = job_store_commit(s, j);
        return q < 0 ? q : r;
}

static bool there(const char *file) {
        _cleanup_free_ char *path = NULL;

        assert_true(asprintf(&path, "%s/jobs/%s", state, file) > 0);
        return access(path, F_OK) == 0;
}

static void put_file(const char *file, const char *text) {
        _cleanup_free_ char *path = NULL;

        assert_true(asprintf(&path, "%s/jobs/%s", state, file) > 0);
        assert_int_equal(write_file_atomic(path, text, 0600), 0);
}

static void pids_stay_bound_over_a_start(void **unused) {
        _cleanup_(strv_freep) char **messages = NULL;
        _cleanup_free_ char *message = NULL;
        static const char text[] = "[Job]\nName=pids\n[Ranks]\nMatch=pid:40,41\n";
        Job *parsed = NULL;
        AppliedJob *a, *found;
        JobStore *s = store_open(&messages);

        assert_int_equal(job_parse("pids.job", text, strlen(text), NULL, &parsed, &message), 0);
        parsed->ranks[0].match->start_times = calloc(2, sizeof(uint64_t));
        parsed->ranks[0].match->start_times[1] = 777;
        assert_int_equal(applied_job_new(parsed, 0, false, &a), 0);
        assert_int_equal(put(s, a), 1);
        applied_job_unref(a);
        put_file("pids.job.new.a1B2c3", "left by a kill");
        job_store_free(s);

        s = store_open(&messages);
        found = job_store_find(s, "pids");
        assert_non_null(found);
        assert_int_equal(found->job->ranks[0].match->start_times[0], 0);
        assert_int_equal(found->job->ranks[0].match->start_times[1], 777);
        assert_false(there("pids.job.new.a1B2c3"));
        job_store_free(s);
}

static void what_is_written_is_read_again(void **unused) {
        _cleanup_(strv_freep) char **messages = NULL;
        _cleanup_(applied_job_unrefp) AppliedJob *a = job("alpha", 70, "0 5\n5 0\n", 1000, true),
                                                 *b = job("beta", 20, NULL, 0, false);
        JobStore *s = store_open(&messages);
        AppliedJob *found;

        assert_int_equal(applied_job_add_process(b, (Process){ .pid = 77, .start_time = 123456789 }), 0);
        b->run = true;
        assert_int_equal(put(s, a), 1);
        assert_int_equal(put(s, b), 1);
        job_store_free(s);

        s = store_open(&messages);
        assert_null(messages);
        assert_int_equal(s->n_jobs, 2);
        found = job_store_find(s, "alpha");
        assert_non_null(found);
        assert_int_equal(found->uid, 1000);
        assert_true(found->confined);
        assert_false(found->run);
        assert_int_equal(found->job->priority, 70);
        assert_string_equal(found->job->matrix_text, "0 5\n5 0\n");
        found = job_store_find(s, "beta");
        assert_true(found->run);
        assert_int_equal(found->n_processes, 1);
        assert_int_equal(found->processes[0].pid, 77);
        assert_int_equal(found->processes[0].start_time, 123456789);
        assert_null(found->job->matrix_text);
        job_store_free(s);
}

static void the_same_again_writes_nothing(void **unused) {
        _cleanup_(applied_job_unrefp) AppliedJob *a = job("alpha", 70, NULL, 0, false),
                                                 *again = job("alpha", 70, NULL, 0, false),
                                                 *other = job("alpha", 71, NULL, 0, false);
        JobStore *s = store_open(NULL);

        assert_int_equal(put(s, a), 1);
        assert_int_equal(put(s, again), 0);
        assert_ptr_equal(job_store_find(s, "alpha"), a);
        assert_int_equal(put(s, other), 1);
        assert_ptr_equal(job_store_find(s, "alpha"), other);
        assert_true(a->gone);
        assert_false(other->gone);
        assert_int_equal(s->n_jobs, 1);
        job_store_free(s);
}

static void a_replaced_matrix_goes(void **unused) {
        _cleanup_(applied_job_unrefp) AppliedJob *a = job("alpha", 70, "0 5\n5 0\n", 0, false),
                                                 *b = job("alpha", 70, NULL, 0, false);
        JobStore *s = store_open(NULL);

        assert_int_equal(put(s, a), 1);
        assert_true(there("alpha.matrix"));
        assert_int_equal(put(s, b), 1);
        assert_false(there("alpha.matrix"));
        assert_int_equal(job_store_retire(s, b), 0);
        assert_true(there("alpha.job.reverting"));
        job_store_forget(s, "alpha");
        assert_false(there("alpha.job.reverting"));
        assert_false(there("alpha.job"));
        assert_false(there("alpha.owner"));
        assert_true(b->gone);
        assert_int_equal(s->n_jobs, 0);
        job_store_free(s);
}

static void bad_files_are_set_aside(void **unused) {
        _cleanup_(applied_job_unrefp) AppliedJob *a = job("good", 50, NULL, 0, false);
        _cleanup_(strv_freep) char **messages = NULL;
        JobStore *s = store_open(NULL);

        assert_int_equal(put(s, a), 1);
        job_store_free(s);
        put_file("binary.job", "\x01\x02\xff");
        put_file("renamed.job", "[Job]\nName=else\n[Ranks]\nCount=1\n");
        put_file("ownerless.job", "[Job]\nName=ownerless\n[Ranks]\nCount=1\n");
        put_file("owned.job", "[Job]\nName=owned\n[Ranks]\nCount=1\n");
        put_file("owned.owner", "{\"uid\":-1}");
        put_file("notes.txt", "not a job");
        s = store_open(&messages);
        assert_int_equal(s->n_jobs, 1);
        assert_int_equal(strv_length(messages), 4);
        assert_true(there("binary.job.bad"));
        assert_true(there("renamed.job.bad"));
        assert_true(there("ownerless.job.bad"));
        assert_true(there("owned.job.bad"));
        assert_true(there("notes.txt"));
        assert_false(there("binary.job"));
        job_store_free(s);
}

static void a_failed_write_changes_nothing(void **unused) {
        _cleanup_(applied_job_unrefp) AppliedJob *a = job("alpha", 70, NULL, 0, false),
                                                 *b = job("alpha", 71, NULL, 0, false),
                                                 *c = job("gamma", 71, NULL, 0, false);
        _cleanup_free_ char *message = NULL, *directory = NULL;
        JobStore *s = store_open(NULL);

        assert_int_equal(put(s, a), 1);
        directory = s->directory;
        s->directory = strdup("/proc/none"); /* as good as a full disk: nothing can be written there, also by root */
        assert_true(job_store_prepare(s, b, 1, &message) < 0);
        assert_non_null(strstr(message, "nothing was changed"));
        assert_true(put(s, c) < 0);
        assert_ptr_equal(job_store_find(s, "alpha"), a);
        assert_false(a->gone);
        assert_null(job_store_find(s, "gamma"));
        job_store_free(s);
}

static void an_order_cut_off_is_dropped(void **unused) {
        _cleanup_(applied_job_unrefp) AppliedJob *a = job("alpha", 70, NULL, 0, false),
                                                 *b = job("alpha", 71, NULL, 0, false),
                                                 *c = job("gamma", 71, "0 1\n1 0\n", 0, false);
        _cleanup_(strv_freep) char **messages = NULL;
        JobStore *s = store_open(NULL);

        assert_int_equal(put(s, a), 1);
        assert_int_equal(job_store_prepare(s, b, 7, NULL), 1);
        assert_int_equal(job_store_prepare(s, c, 7, NULL), 1);
        job_store_free(s);
        s = store_open(&messages);
        assert_int_equal(s->n_jobs, 1);
        assert_int_equal(s->jobs[0]->job->priority, 70);
        assert_int_equal(strv_length(messages), 2);
        assert_false(there("gamma.matrix.new"));
        assert_int_equal(job_store_prepare(s, c, 7, NULL), 1);
        job_store_cancel(s, c);
        assert_false(there("gamma.job.new"));
        job_store_free(s);
}

static Undo *journal(const char *text) {
        Undo *u = NULL;
        unsigned n_bad;

        assert_int_equal(undo_from_text(text, strlen(text), &n_bad, &u), 0);
        assert_int_equal(n_bad, 0);
        return u;
}

#define AFFINITY(id)                                                                                                   \
        "{\"t\":\"affinity\",\"id\":" id                                                                               \
        ",\"job\":\"x\",\"pid\":81,\"start\":1,\"tid\":81,\"tid_start\":1,\"old\":\"0-1\",\"new\":\"0\"}\n"
#define COMMIT(id) "{\"t\":\"commit\",\"id\":" id "}\n"

/* Killed between the commit of the journal and the renames: what the order changed stands, so its jobs do. */
static void an_order_committed_is_finished(void **unused) {
        static const struct {
                const char *text;
                bool committed;
        } cases[] = {
                { AFFINITY("7") COMMIT("7"), true },
                { AFFINITY("7"), false },
                { AFFINITY("6") COMMIT("6"), false }, /* of the version before */
                { "", false },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(applied_job_unrefp) AppliedJob *a = job("alpha", 70, "0 5\n5 0\n", 0, false),
                                                         *b = job("alpha", 71, i % 2 ? "0 6\n6 0\n" : NULL, 0, false);
                _cleanup_(strv_freep) char **messages = NULL;
                JobStore *s = store_open(NULL);

                assert_true(put(s, a) >= 0);
                assert_int_equal(job_store_prepare(s, b, 7, NULL), 1);
                job_store_free(s);
                undo = journal(cases[i].text);
                s = store_open(&messages);
                undo = undo_free(undo);
                assert_int_equal(s->n_jobs, 1);
                assert_int_equal(s->jobs[0]->job->priority, cases[i].committed ? 71 : 70);
                assert_int_equal(strv_length(messages), 1);
                assert_false(there("alpha.job.new"));
                assert_false(there("alpha.owner.new"));
                job_store_free(s);
        }
}

/* Killed between two renames: the first is proof that the order was committed, and its matrix is not lost. */
static void a_rename_cut_short_is_finished(void **unused) {
        static const char *const moved[] = { "matrix", "owner" };
        _cleanup_(applied_job_unrefp) AppliedJob *a = job("alpha", 70, "0 5\n5 0\n", 0, false);
        _cleanup_(strv_freep) char **messages = NULL;
        JobStore *s = store_open(NULL);

        assert_int_equal(job_store_prepare(s, a, 7, NULL), 1);
        job_store_free(s);
        for (size_t i = 0; i < ELEMENTSOF(moved); i++) {
                _cleanup_free_ char *from = NULL, *to = NULL;

                assert_true(asprintf(&from, "%s/jobs/alpha.%s.new", state, moved[i]) > 0);
                assert_true(asprintf(&to, "%s/jobs/alpha.%s", state, moved[i]) > 0);
                assert_int_equal(rename(from, to), 0);
        }
        s = store_open(&messages);
        assert_int_equal(s->n_jobs, 1);
        assert_string_equal(s->jobs[0]->job->matrix_text, "0 5\n5 0\n");
        job_store_free(s);
}

/* Killed while it was put back: it is no job any more, and the start is told to go on. */
static void a_revert_cut_short_is_known(void **unused) {
        _cleanup_(applied_job_unrefp) AppliedJob *a = job("alpha", 70, NULL, 0, false),
                                                 *again = job("alpha", 70, NULL, 0, false);
        JobStore *s = store_open(NULL);

        assert_int_equal(put(s, a), 1);
        assert_int_equal(job_store_retire(s, a), 0);
        job_store_free(s);
        s = store_open(NULL);
        assert_int_equal(s->n_jobs, 0);
        assert_int_equal(strv_length(s->retired), 1);
        assert_string_equal(s->retired[0], "alpha");
        assert_int_equal(put(s, again), 1);
        assert_false(there("alpha.job.reverting"));
        job_store_forget(s, "alpha"); /* applied again meanwhile: it stays */
        assert_true(there("alpha.job"));
        job_store_free(s);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(what_is_written_is_read_again, setup, teardown),
                cmocka_unit_test_setup_teardown(pids_stay_bound_over_a_start, setup, teardown),
                cmocka_unit_test_setup_teardown(the_same_again_writes_nothing, setup, teardown),
                cmocka_unit_test_setup_teardown(a_replaced_matrix_goes, setup, teardown),
                cmocka_unit_test_setup_teardown(bad_files_are_set_aside, setup, teardown),
                cmocka_unit_test_setup_teardown(a_failed_write_changes_nothing, setup, teardown),
                cmocka_unit_test_setup_teardown(an_order_cut_off_is_dropped, setup, teardown),
                cmocka_unit_test_setup_teardown(an_order_committed_is_finished, setup, teardown),
                cmocka_unit_test_setup_teardown(a_rename_cut_short_is_finished, setup, teardown),
                cmocka_unit_test_setup_teardown(a_revert_cut_short_is_known, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
