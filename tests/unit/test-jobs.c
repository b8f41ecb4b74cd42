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

static JobStore *store_open(char ***messages) {
        JobStore *s = NULL;

        assert_int_equal(job_store_open(state, messages, &s), 0);
        return s;
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

static void what_is_written_is_read_again(void **unused) {
        _cleanup_(strv_freep) char **messages = NULL;
        _cleanup_(applied_job_unrefp) AppliedJob *a = job("alpha", 70, "0 5\n5 0\n", 1000, true),
                                                 *b = job("beta", 20, NULL, 0, false);
        JobStore *s = store_open(&messages);
        AppliedJob *found;

        assert_int_equal(applied_job_add_process(b, (Process){ .pid = 77, .start_time = 123456789 }), 0);
        b->run = true;
        assert_int_equal(job_store_put(s, a, NULL), 1);
        assert_int_equal(job_store_put(s, b, NULL), 1);
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

        assert_int_equal(job_store_put(s, a, NULL), 1);
        assert_int_equal(job_store_put(s, again, NULL), 0);
        assert_ptr_equal(job_store_find(s, "alpha"), a);
        assert_int_equal(job_store_put(s, other, NULL), 1);
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

        assert_int_equal(job_store_put(s, a, NULL), 1);
        assert_true(there("alpha.matrix"));
        assert_int_equal(job_store_put(s, b, NULL), 1);
        assert_false(there("alpha.matrix"));
        job_store_drop(s, b);
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

        assert_int_equal(job_store_put(s, a, NULL), 1);
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

        assert_int_equal(job_store_put(s, a, NULL), 1);
        directory = s->directory;
        s->directory = strdup("/proc/none"); /* as good as a full disk: nothing can be written there, also by root */
        assert_true(job_store_put(s, b, &message) < 0);
        assert_non_null(strstr(message, "nothing was changed"));
        assert_true(job_store_put(s, c, NULL) < 0);
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

        assert_int_equal(job_store_put(s, a, NULL), 1);
        assert_int_equal(job_store_prepare(s, b, NULL), 1);
        assert_int_equal(job_store_prepare(s, c, NULL), 1);
        job_store_free(s);
        s = store_open(&messages);
        assert_int_equal(s->n_jobs, 1);
        assert_int_equal(s->jobs[0]->job->priority, 70);
        assert_true(strv_length(messages) >= 2);
        assert_false(there("gamma.matrix.new"));
        assert_int_equal(job_store_prepare(s, c, NULL), 1);
        job_store_cancel(s, c);
        assert_false(there("gamma.job.new"));
        job_store_free(s);
}

static void names_are_fit_for_files(void **unused) {
        static const char *const good[] = { "train", "a.b", "x@y", "UPPER_1", "run-77" };
        static const char *const bad[] = {
                "",     ".",   "..",   ".hidden",  "a/b",
                "../x", "a b", "a\nb", "\xc3\xa4", "12345678901234567890123456789012345678901234567890123456789012345"
        };

        for (size_t i = 0; i < ELEMENTSOF(good); i++)
                assert_true(job_name_valid(good[i]));
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                assert_false(job_name_valid(bad[i]));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(what_is_written_is_read_again, setup, teardown),
                cmocka_unit_test_setup_teardown(the_same_again_writes_nothing, setup, teardown),
                cmocka_unit_test_setup_teardown(a_replaced_matrix_goes, setup, teardown),
                cmocka_unit_test_setup_teardown(bad_files_are_set_aside, setup, teardown),
                cmocka_unit_test_setup_teardown(a_failed_write_changes_nothing, setup, teardown),
                cmocka_unit_test_setup_teardown(an_order_cut_off_is_dropped, setup, teardown),
                cmocka_unit_test(names_are_fit_for_files),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
