/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See jobs.h. A job's files are renamed together, NAME.job last: its presence is what makes a job, so a crash in between
 * leaves the old job or none, never half of one.
 */
#include <dirent.h>
#include <errno.h>
#include <jansson.h>

#include "common/fileio.h"
#include "daemon/jobs.h"
#include "daemon/readers/jobfile.h"

#define JOB_FILE_MAX (4U << 20)

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

bool job_name_valid(const char *name) {
        size_t n = strlen(name);

        return n > 0 && n <= 64 && name[0] != '.' &&
               strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.@:+-") == n;
}

static int job_path(const JobStore *s, const char *name, const char *suffix, bool temporary, char **ret) {
        return asprintf(ret, "%s/%s.%s%s", s->directory, name, suffix, temporary ? ".new" : "") < 0 ? -ENOMEM : 0;
}

static void remove_files(const JobStore *s, const char *name, bool temporary) {
        for (size_t i = ELEMENTSOF(suffixes); i-- > 0;) { /* NAME.job first: without it there is no job */
                _cleanup_free_ char *path = NULL;

                if (job_path(s, name, suffixes[i], temporary, &path) >= 0)
                        (void) unlink(path);
        }
}

static char *owner_text(const AppliedJob *j) {
        json_t *root, *processes = json_array();
        char *text;

        for (size_t i = 0; processes && i < j->n_processes; i++)
                (void) json_array_append_new(processes,
                                             json_pack("{s:I,s:I}", "pid", (json_int_t) j->processes[i].pid,
                                                       "start_time", (json_int_t) j->processes[i].start_time));
        root = json_pack("{s:I,s:b,s:b,s:o}", "uid", (json_int_t) j->uid, "confined", (int) j->confined, "run",
                         (int) j->run, "processes", processes);
        if (!root)
                return NULL;
        text = json_dumps(root, JSON_COMPACT);
        json_decref(root);
        return text;
}

static int owner_parse(const char *text, AppliedJob *j) {
        json_t *root, *processes = NULL, *p;
        json_int_t uid;
        int confined, run, r = 0;
        size_t i;

        root = json_loads(text, 0, NULL);
        if (!root ||
            json_unpack(root, "{s:I,s:b,s:b,s?o}", "uid", &uid, "confined", &confined, "run", &run, "processes",
                        &processes) < 0 ||
            uid < 0 || uid > UINT32_MAX) {
                json_decref(root);
                return -EBADMSG;
        }
        j->uid = (uid_t) uid;
        j->confined = confined;
        j->run = run;
        json_array_foreach (processes, i, p) {
                json_int_t pid, start;

                r = json_unpack(p, "{s:I,s:I}", "pid", &pid, "start_time", &start) < 0 || pid <= 0 || start < 0
                            ? -EBADMSG
                            : applied_job_add_process(j,
                                                      (Process){ .pid = (pid_t) pid, .start_time = (uint64_t) start });
                if (r < 0)
                        break;
        }
        json_decref(root);
        return r;
}

static int write_temporary(const JobStore *s, const AppliedJob *j) {
        _cleanup_free_ char *owner = owner_text(j);
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

static int rename_temporary(const JobStore *s, const AppliedJob *j) {
        for (size_t i = 0; i < ELEMENTSOF(suffixes); i++) {
                _cleanup_free_ char *from = NULL, *to = NULL;

                if (job_path(s, j->job->name, suffixes[i], true, &from) < 0 ||
                    job_path(s, j->job->name, suffixes[i], false, &to) < 0)
                        return -ENOMEM;
                if (rename(from, to) >= 0)
                        continue;
                if (errno != ENOENT)
                        return -errno;
                (void) unlink(to); /* this version has no matrix */
        }
        return 0;
}

int job_store_save(const JobStore *s, const AppliedJob *j) {
        int r;

        r = write_temporary(s, j);
        if (r >= 0)
                r = rename_temporary(s, j);
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

int job_store_prepare(const JobStore *s, const AppliedJob *j, char **ret_message) {
        const AppliedJob *old = job_store_find(s, j->job->name);
        int r;

        if (old == j || (old && same_job(old, j)))
                return 0;
        r = write_temporary(s, j);
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
        r = rename_temporary(s, j);
        if (!old)
                return store_add(s, j) < 0 ? -ENOMEM : r;
        for (size_t i = 0; i < s->n_jobs; i++)
                if (s->jobs[i] == old)
                        s->jobs[i] = applied_job_ref(j);
        old->gone = true;
        applied_job_unref(old);
        return r;
}

int job_store_put(JobStore *s, AppliedJob *j, char **ret_message) {
        int r, q;

        r = job_store_prepare(s, j, ret_message);
        if (r <= 0)
                return r;
        q = job_store_commit(s, j);
        return q < 0 ? q : r;
}

void job_store_drop(JobStore *s, AppliedJob *j) {
        for (size_t i = 0; i < s->n_jobs; i++) {
                if (s->jobs[i] != j)
                        continue;
                memmove(s->jobs + i, s->jobs + i + 1, (s->n_jobs - i - 1) * sizeof(*s->jobs));
                s->n_jobs--;
                remove_files(s, j->job->name, false);
                j->gone = true;
                applied_job_unref(j);
                return;
        }
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

static int is_job_file(const struct dirent *d) {
        const char *dot = strrchr(d->d_name, '.');

        return dot && dot != d->d_name && streq(dot, ".job");
}

/* Left by an order that the daemon's end cut off: the journal undoes what was changed for it. */
static int is_temporary(const struct dirent *d) {
        const char *dot = strrchr(d->d_name, '.');

        return dot && dot != d->d_name && streq(dot, ".new");
}

static void remove_temporaries(const JobStore *s, char ***messages) {
        struct dirent **files = NULL;
        int n = scandir(s->directory, &files, is_temporary, alphasort);

        for (int i = 0; i < n; i++) {
                _cleanup_free_ char *path = path_join(s->directory, files[i]->d_name);

                if (path && unlink(path) >= 0)
                        (void) strv_extendf(messages,
                                            "An order that was not finished when the daemon ended was dropped: %s",
                                            files[i]->d_name);
                free(files[i]);
        }
        free(files);
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

int job_store_open(const char *state, char ***messages, JobStore **ret) {
        _cleanup_(job_store_freep) JobStore *s = calloc(1, sizeof(*s));
        struct dirent **files = NULL;
        int n, r;

        if (!s)
                return -ENOMEM;
        s->directory = path_join(state, "jobs");
        if (!s->directory)
                return -ENOMEM;
        r = mkdir_parents(s->directory, 0700);
        if (r < 0)
                return r;
        remove_temporaries(s, messages);
        n = scandir(s->directory, &files, is_job_file, alphasort);
        if (n < 0)
                return -errno;
        r = 0;
        for (int i = 0; i < n; i++) {
                _cleanup_free_ char *message = NULL;
                char *name = files[i]->d_name;

                name[strlen(name) - strlen(".job")] = 0;
                if (r >= 0) {
                        r = load_job(s, name, &message);
                        if (r < 0 && r != -ENOMEM) {
                                set_aside(s, name, message ? message : strerror(-r), messages);
                                r = 0;
                        }
                }
                free(files[i]);
        }
        free(files);
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
        free(s->directory);
        free(s);
        return NULL;
}
