/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See jobs.h. A job's files are renamed together, NAME.job last: its presence is what makes a job, so a crash in between
 * leaves the old job or none, never half of one.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <jansson.h>

#include "common/fileio.h"
#include "daemon/jobs.h"
#include "daemon/readers/jobfile.h"

#define JOB_FILE_MAX (4U << 20)
#define TEMPORARY ".new"
#define RETIRED ".reverting"

static const char *const suffixes[] = { "matrix", "owner", "job" }; /* in the order of the renames */

int applied_job_new(Job *job, uid_t uid, bool confined, AppliedJob **ret) {
        AppliedJob *j;

        j = calloc(1, sizeof(*j));
        if (!j) {
                job_free(job);
                return -ENOMEM;
        }
        *j = (AppliedJob){ .n_ref = 1, .job = job, .uid = uid, .confined = confined };
        *ret = j;
        return 0;
}

AppliedJob *applied_job_ref(AppliedJob *j) {
        j->n_ref++;
        return j;
}

AppliedJob *applied_job_unref(AppliedJob *j) {
        if (!j || --j->n_ref > 0)
                return NULL;
        job_free(j->job);
        free(j->processes);
        free(j);
        return NULL;
}

int applied_job_add_process(AppliedJob *j, Process p) {
        Process *n;

        n = reallocarray(j->processes, j->n_processes + 1, sizeof(*n));
        if (!n)
                return -ENOMEM;
        j->processes = n;
        j->processes[j->n_processes++] = p;
        return 0;
}

void applied_job_remove_process(AppliedJob *j, size_t i) {
        memmove(j->processes + i, j->processes + i + 1, (j->n_processes - i - 1) * sizeof(*j->processes));
        j->n_processes--;
}

static int job_path(const JobStore *s, const char *name, const char *suffix, bool temporary, char **ret) {
        return asprintf(ret, "%s/%s.%s%s", s->directory, name, suffix, temporary ? TEMPORARY : "") < 0 ? -ENOMEM : 0;
}

static void remove_files(const JobStore *s, const char *name, bool temporary) {
        for (size_t i = ELEMENTSOF(suffixes); i-- > 0;) { /* NAME.job first: without it there is no job */
                _cleanup_free_ char *path = NULL;

                if (job_path(s, name, suffixes[i], temporary, &path) >= 0)
                        (void) unlink(path);
        }
}

static void remove_retired(const JobStore *s, const char *name) {
        _cleanup_free_ char *path = NULL;

        if (asprintf(&path, "%s/%s.job" RETIRED, s->directory, name) >= 0)
                (void) unlink(path);
}

static void put_process(json_t *list, pid_t pid, uint64_t start_time) {
        (void) json_array_append_new(
                list, json_pack("{s:I,s:I}", "pid", (json_int_t) pid, "start_time", (json_int_t) start_time));
}

/* Processes that Match=pid: is bound to: a pid alone may be a stranger's at the next start. */
static json_t *bound_processes(const Job *j) {
        json_t *list = json_array();

        for (size_t k = 0; list && k < j->n_ranks; k++) {
                const Match *m = j->ranks[k].match;

                for (size_t i = 0; m && m->start_times && i < m->n_pids; i++)
                        if (m->start_times[i] != 0)
                                put_process(list, m->pids[i], m->start_times[i]);
        }
        return list;
}

/* order: the transaction that what is written belongs to; 0 none */
static char *owner_text(const AppliedJob *j, uint64_t order) {
        json_t *root, *processes = json_array();
        char *text;

        for (size_t i = 0; processes && i < j->n_processes; i++)
                put_process(processes, j->processes[i].pid, j->processes[i].start_time);
        root = json_pack("{s:I,s:b,s:b,s:o,s:o,s:b,s:I}", "uid", (json_int_t) j->uid, "confined", (int) j->confined,
                         "run", (int) j->run, "processes", processes, "bound", bound_processes(j->job), "matrix",
                         j->job->matrix_text != NULL, "order", (json_int_t) order);
        if (!root)
                return NULL;
        text = json_dumps(root, JSON_COMPACT);
        json_decref(root);
        return text;
}

static int process_parse(json_t *p, Process *ret) {
        json_int_t pid, start;

        if (json_unpack(p, "{s:I,s:I}", "pid", &pid, "start_time", &start) < 0 || pid <= 0 || pid > INT32_MAX ||
            start < 0)
                return -EBADMSG;
        *ret = (Process){ .pid = (pid_t) pid, .start_time = (uint64_t) start };
        return 0;
}

static int bind_process(AppliedJob *j, Process p) {
        for (size_t k = 0; k < j->job->n_ranks; k++) {
                Match *m = j->job->ranks[k].match;

                if (m && !m->start_times && m->n_pids > 0)
                        m->start_times = calloc(m->n_pids, sizeof(uint64_t));
                if (m && !m->start_times && m->n_pids > 0)
                        return -ENOMEM;
                for (size_t i = 0; m && i < m->n_pids; i++)
                        if (m->pids[i] == p.pid)
                                m->start_times[i] = p.start_time;
        }
        return 0;
}

static int owner_parse(const char *text, AppliedJob *j) {
        json_t *root, *processes = NULL, *bound = NULL, *p;
        Process process;
        json_int_t uid;
        int confined, run, r = 0;
        size_t i;

        root = json_loads(text, 0, NULL);
        if (!root ||
            json_unpack(root, "{s:I,s:b,s:b,s?o,s?o}", "uid", &uid, "confined", &confined, "run", &run, "processes",
                        &processes, "bound", &bound) < 0 ||
            uid < 0 || uid > UINT32_MAX) {
                json_decref(root);
                return -EBADMSG;
        }
        j->uid = (uid_t) uid;
        j->confined = confined;
        j->run = run;
        json_array_foreach (processes, i, p) {
                r = process_parse(p, &process);
                if (r >= 0)
                        r = applied_job_add_process(j, process);
                if (r < 0)
                        break;
        }
        json_array_foreach (bound, i, p) {
                if (r >= 0)
                        r = process_parse(p, &process);
                if (r >= 0)
                        r = bind_process(j, process);
        }
        json_decref(root);
        return r;
}

static int write_temporary(const JobStore *s, const AppliedJob *j, uint64_t order) {
        _cleanup_free_ char *owner = owner_text(j, order);
        const char *texts[ELEMENTSOF(suffixes)] = { j->job->matrix_text, owner, j->job->text };
        int r;

        if (!owner)
                return -ENOMEM;
        for (size_t i = 0; i < ELEMENTSOF(suffixes); i++) {
                _cleanup_free_ char *path = NULL;

                if (!texts[i])
                        continue;
                r = job_path(s, j->job->name, suffixes[i], true, &path);
                if (r >= 0)
                        r = write_file_atomic(path, texts[i], 0600);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int rename_temporary(const JobStore *s, const char *name, bool has_matrix) {
        for (size_t i = 0; i < ELEMENTSOF(suffixes); i++) {
                _cleanup_free_ char *from = NULL, *to = NULL;

                if (job_path(s, name, suffixes[i], true, &from) < 0 || job_path(s, name, suffixes[i], false, &to) < 0)
                        return -ENOMEM;
                if (i == 0 && !has_matrix) {
                        (void) unlink(to); /* the version before may have one */
                        continue;
                }
                if (rename(from, to) < 0 && errno != ENOENT) /* ENOENT: done already, before the daemon ended */
                        return -errno;
        }
        remove_retired(s, name);
        return 0;
}

int job_store_save(const JobStore *s, const AppliedJob *j) {
        int r;

        r = write_temporary(s, j, 0);
        if (r >= 0)
                r = rename_temporary(s, j->job->name, j->job->matrix_text);
        if (r < 0)
                remove_files(s, j->job->name, true);
        return r;
}

AppliedJob *job_store_find(const JobStore *s, const char *name) {
        for (size_t i = 0; i < s->n_jobs; i++)
                if (streq(s->jobs[i]->job->name, name))
                        return s->jobs[i];
        return NULL;
}

static bool same_text(const char *a, const char *b) {
        return streq(strempty(a), strempty(b));
}

static bool same_job(const AppliedJob *a, const AppliedJob *b) {
        return a->uid == b->uid && a->confined == b->confined && a->run == b->run && a->n_processes == b->n_processes &&
               (a->n_processes == 0 ||
                memcmp(a->processes, b->processes, a->n_processes * sizeof(*a->processes)) == 0) &&
               same_text(a->job->text, b->job->text) && same_text(a->job->matrix_text, b->job->matrix_text);
}

static int store_add(JobStore *s, AppliedJob *j) {
        AppliedJob **n;

        n = reallocarray(s->jobs, s->n_jobs + 1, sizeof(*n));
        if (!n)
                return -ENOMEM;
        s->jobs = n;
        s->jobs[s->n_jobs++] = applied_job_ref(j);
        return 0;
}

int job_store_prepare(const JobStore *s, const AppliedJob *j, uint64_t order, char **ret_message) {
        const AppliedJob *old = job_store_find(s, j->job->name);
        int r;

        if (old == j || (old && same_job(old, j)))
                return 0;
        r = write_temporary(s, j, order);
        if (r >= 0)
                return 1;
        remove_files(s, j->job->name, true);
        return text_fail(r, ret_message, "Job \"%s\" could not be written to %s (%s): nothing was changed",
                         j->job->name, s->directory, strerror(-r));
}

void job_store_cancel(const JobStore *s, const AppliedJob *j) {
        remove_files(s, j->job->name, true);
}

int job_store_commit(JobStore *s, AppliedJob *j) {
        AppliedJob *old = job_store_find(s, j->job->name);
        int r;

        if (old == j || (old && same_job(old, j)))
                return 0;
        r = rename_temporary(s, j->job->name, j->job->matrix_text);
        if (!old)
                return store_add(s, j) < 0 ? -ENOMEM : r;
        for (size_t i = 0; i < s->n_jobs; i++)
                if (s->jobs[i] == old)
                        s->jobs[i] = applied_job_ref(j);
        old->gone = true;
        applied_job_unref(old);
        return r;
}

int job_store_retire(JobStore *s, AppliedJob *j) {
        _cleanup_free_ char *from = NULL, *to = NULL;
        int r = 0;

        if (job_path(s, j->job->name, "job", false, &from) < 0 || asprintf(&to, "%s" RETIRED, from) < 0)
                r = -ENOMEM;
        else if (rename(from, to) < 0 && errno != ENOENT)
                r = -errno;
        for (size_t i = 0; i < s->n_jobs; i++) {
                if (s->jobs[i] != j)
                        continue;
                memmove(s->jobs + i, s->jobs + i + 1, (s->n_jobs - i - 1) * sizeof(*s->jobs));
                s->n_jobs--;
                j->gone = true;
                applied_job_unref(j);
                break;
        }
        return r;
}

void job_store_forget(const JobStore *s, const char *name) {
        if (job_store_find(s, name))
                return; /* applied again */
        remove_files(s, name, false);
        remove_retired(s, name);
}

static int load_job(JobStore *s, const char *name, char **ret_message) {
        _cleanup_free_ char *path = NULL, *matrix_path = NULL, *owner_path = NULL, *text = NULL, *matrix = NULL,
                            *owner = NULL, *label = NULL;
        _cleanup_(applied_job_unrefp) AppliedJob *j = NULL;
        Job *job = NULL;
        size_t size;
        int r;

        if (asprintf(&label, "%s.job", name) < 0 || job_path(s, name, "job", false, &path) < 0 ||
            job_path(s, name, "matrix", false, &matrix_path) < 0 || job_path(s, name, "owner", false, &owner_path) < 0)
                return -ENOMEM;
        r = read_regular_file(path, JOB_FILE_MAX, &text, &size);
        if (r >= 0) {
                r = read_regular_file(matrix_path, JOB_FILE_MAX, &matrix, NULL);
                if (r == -ENOENT)
                        r = 0;
        }
        if (r < 0)
                return text_fail(r, ret_message, "it cannot be read (%s)", strerror(-r));
        r = job_parse(label, text, size, matrix, &job, ret_message);
        if (r < 0)
                return r;
        r = applied_job_new(job, 0, false, &j);
        if (r < 0)
                return r;
        if (!streq(j->job->name, name))
                return text_fail(-EBADMSG, ret_message, "it holds a job of another name, \"%s\"", j->job->name);
        /* Whose it is decides what it may do: an owner that cannot be told is not taken for root. */
        r = read_regular_file(owner_path, JOB_FILE_MAX, &owner, NULL);
        if (r >= 0)
                r = owner_parse(owner, j);
        if (r < 0)
                return text_fail(r, ret_message, "its owner cannot be read from %s.owner (%s)", name, strerror(-r));
        return store_add(s, j);
}

/* NAME of NAME.SUFFIX, in place; false when it is no such file or no name of a job. */
static bool cut_suffix(char *file, const char *suffix) {
        size_t n = strlen(file), k = strlen(suffix);

        if (n <= k || !streq(file + n - k, suffix))
                return false;
        file[n - k] = 0;
        return name_is_valid(file);
}

static int is_job_file(const struct dirent *d) {
        const char *dot = strrchr(d->d_name, '.');

        return dot && dot != d->d_name && streq(dot, ".job");
}

/* An order that the daemon's end cut off left NAME.job.new. When it had been committed what it changed stands, and its
 * files are moved into place as they would have been; so are files that some have been moved of (NAME.owner is). */
static bool order_committed(const JobStore *s, const char *name, const Undo *undo, bool *ret_matrix) {
        _cleanup_free_ char *path = NULL, *moved = NULL, *text = NULL;
        bool begun = false, committed;
        json_int_t order = 0;
        int matrix = 0, r;
        json_t *root;

        if (job_path(s, name, "owner", true, &path) < 0 || job_path(s, name, "owner", false, &moved) < 0)
                return false;
        r = read_regular_file(path, JOB_FILE_MAX, &text, NULL);
        if (r == -ENOENT) {
                begun = true;
                r = read_regular_file(moved, JOB_FILE_MAX, &text, NULL);
        }
        root = r < 0 ? NULL : json_loads(text, 0, NULL);
        committed = root && json_unpack(root, "{s:b,s:I}", "matrix", &matrix, "order", &order) >= 0 &&
                    (begun || (order > 0 && undo && undo_committed(undo, (uint64_t) order)));
        json_decref(root);
        *ret_matrix = matrix;
        return committed;
}

static void end_order(const JobStore *s, const char *name, const Undo *undo, char ***messages) {
        bool has_matrix;

        if (!order_committed(s, name, undo, &has_matrix))
                (void) strv_extendf(messages,
                                    "An order that was not finished when the daemon ended was dropped: job %s", name);
        else if (rename_temporary(s, name, has_matrix) >= 0)
                (void) strv_extendf(messages, "Job %s was put in force just when the daemon ended: it is", name);
}

/* What one of our names ends in, sorted by name; the caller frees. */
static int list_files(const JobStore *s, int (*filter)(const struct dirent *d), char ***ret) {
        struct dirent **files = NULL;
        char **names = NULL;
        int n, r = 0;

        n = scandir(s->directory, &files, filter, alphasort);
        if (n < 0)
                return -errno;
        for (int i = 0; i < n; i++) {
                if (r >= 0)
                        r = strv_extend(&names, files[i]->d_name);
                free(files[i]);
        }
        free(files);
        if (r < 0)
                strv_free(names);
        else
                *ret = names;
        return r;
}

/* What an order prepared, and what write_file_atomic() left when it was killed. */
static int is_temporary(const struct dirent *d) {
        static const char *const left[] = { "*.job.??????", "*.owner.??????", "*.matrix.??????",
                                            "*" TEMPORARY ".??????" };
        const char *dot = strrchr(d->d_name, '.');

        for (size_t i = 0; i < ELEMENTSOF(left); i++)
                if (fnmatch(left[i], d->d_name, 0) == 0)
                        return 1;
        return dot && dot != d->d_name && streq(dot, TEMPORARY);
}

static int is_retired(const struct dirent *d) {
        const char *dot = strrchr(d->d_name, '.');

        return dot && dot != d->d_name && streq(dot, RETIRED);
}

static int end_orders(const JobStore *s, const Undo *undo, char ***messages) {
        _cleanup_(strv_freep) char **files = NULL, **rest = NULL;
        int r;

        r = list_files(s, is_temporary, &files);
        for (size_t i = 0; r >= 0 && files && files[i]; i++)
                if (cut_suffix(files[i], ".job" TEMPORARY))
                        end_order(s, files[i], undo, messages);
        if (r >= 0)
                r = list_files(s, is_temporary, &rest);
        for (size_t i = 0; r >= 0 && rest && rest[i]; i++) {
                _cleanup_free_ char *path = path_join(s->directory, rest[i]);

                if (path)
                        (void) unlink(path);
        }
        return r;
}

static int read_retired(JobStore *s) {
        _cleanup_(strv_freep) char **files = NULL;
        int r;

        r = list_files(s, is_retired, &files);
        for (size_t i = 0; r >= 0 && files && files[i]; i++)
                if (cut_suffix(files[i], ".job" RETIRED))
                        r = strv_extend(&s->retired, files[i]);
        return r;
}

static void set_aside(const JobStore *s, const char *name, const char *why, char ***messages) {
        _cleanup_free_ char *path = NULL, *bad = NULL;

        if (job_path(s, name, "job", false, &path) < 0 || asprintf(&bad, "%s.bad", path) < 0)
                return;
        if (rename(path, bad) < 0)
                (void) strv_extendf(messages, "Job file %s was ignored: %s", path, why);
        else
                (void) strv_extendf(messages, "Job file %s was set aside as %s: %s", path, bad, why);
}

static int load_jobs(JobStore *s, char ***messages) {
        _cleanup_(strv_freep) char **files = NULL;
        int r;

        r = list_files(s, is_job_file, &files);
        for (size_t i = 0; r >= 0 && files && files[i]; i++) {
                _cleanup_free_ char *message = NULL;
                char *name = files[i];

                name[strlen(name) - strlen(".job")] = 0;
                r = load_job(s, name, &message);
                if (r < 0 && r != -ENOMEM) {
                        set_aside(s, name, message ? message : strerror(-r), messages);
                        r = 0;
                }
        }
        return r;
}

/* A file, say, where the folder should be: out of the way with it. */
static int make_folder(const char *path, char ***messages) {
        _cleanup_free_ char *bad = NULL;
        int r = mkdir_parents(path, 0700);

        if (r >= 0 || faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
                return r;
        if (asprintf(&bad, "%s.bad", path) < 0) {
                bad = NULL;
                return -ENOMEM;
        }
        if (rename(path, bad) < 0)
                return -errno;
        r = strv_extendf(messages, "%s is no folder: it was set aside as %s; no job is applied", path, bad);
        return r < 0 ? r : mkdir_parents(path, 0700);
}

int job_store_open(const char *state, const Undo *undo, char ***messages, JobStore **ret) {
        _cleanup_(job_store_freep) JobStore *s = calloc(1, sizeof(*s));
        int r;

        if (!s)
                return -ENOMEM;
        s->directory = path_join(state, "jobs");
        if (!s->directory)
                return -ENOMEM;
        r = make_folder(s->directory, messages);
        if (r >= 0)
                r = end_orders(s, undo, messages);
        if (r >= 0)
                r = read_retired(s);
        if (r >= 0)
                r = load_jobs(s, messages);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s);
        return 0;
}

JobStore *job_store_free(JobStore *s) {
        if (!s)
                return NULL;
        for (size_t i = 0; i < s->n_jobs; i++)
                applied_job_unref(s->jobs[i]);
        free(s->jobs);
        strv_free(s->retired);
        free(s->directory);
        free(s);
        return NULL;
}
