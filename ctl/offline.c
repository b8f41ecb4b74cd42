/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Planning without a daemon: the machine from --machine (or this system), devices from --devices and the table of known
 * PCI ids, tasks from a record or, on this system, from /proc; then policy decides as it does in the daemon.
 */
#include "common/clock.h"
#include "common/log.h"
#include "common/text.h"
#include "ctl/ctl.h"
#include "daemon/readers/host.h"
#include "daemon/readers/jobfile.h"
#include "daemon/readers/machine.h"
#include "policy/decide.h"
#include "policy/record.h"

void ctl_free_jobs(Job **jobs, size_t n) {
        for (size_t i = 0; i < n; i++)
                job_free(jobs[i]);
        free(jobs);
}

static int duplicate_job(Job **jobs, size_t n, char **files) {
        for (size_t i = 0; i < n; i++)
                if (streq(jobs[i]->name, jobs[n]->name)) {
                        log_error("%s and %s are both named \"%s\"; give one of them another Name=.", files[i],
                                  files[n], jobs[n]->name);
                        return EXIT_FAILED;
                }
        return EXIT_DONE;
}

int ctl_load_jobs(char **files, size_t n, Job ***ret, size_t *ret_n) {
        Job **jobs = calloc(n + 1, sizeof(*jobs));

        if (!jobs)
                return log_oom(), EXIT_FAILED;
        for (size_t i = 0; i < n; i++) {
                _cleanup_free_ char *message = NULL;
                int r = job_load(files[i], &jobs[i], &message);

                if (r < 0)
                        log_error("%s", message ?: strerror(-r));
                if (r < 0 || duplicate_job(jobs, i, files) != EXIT_DONE) {
                        ctl_free_jobs(jobs, r < 0 ? i : i + 1);
                        return EXIT_FAILED;
                }
        }
        *ret = jobs;
        *ret_n = n;
        return EXIT_DONE;
}

void offline_done(Offline *f) {
        ctl_free_jobs(f->jobs, f->n_jobs);
        f->snapshot = snapshot_free(f->snapshot);
        *f = (Offline){};
}

/* Tasks last: they may hold devices that only the description has. */
static int read_record(const Options *o, const json_t *record, const DeviceText *text, Topology *t, Snapshot **ret,
                       char **ret_message) {
        _cleanup_(snapshot_freep) Snapshot *s = NULL;
        int r;

        r = record_to_host(record, t, &s, ret_message);
        if (r >= 0 && o->devices) /* else the record says itself which devices there are */
                r = devices_read(s, text, ret_message);
        if (r >= 0)
                r = record_add_tasks(record, s, ret_message);
        if (r >= 0)
                *ret = TAKE_PTR(s);
        else if (s)
                s->owned_topology = NULL; /* stays the caller's */
        return r;
}

static int read_machine(const Options *o, const DeviceText *text, Snapshot **ret, char **ret_message) {
        _cleanup_(topology_freep) Topology *t = NULL;
        _cleanup_(snapshot_freep) Snapshot *s = NULL;
        json_t *record = NULL;
        int r;

        r = o->machine ? machine_read_path(o->machine, &t, &record, ret_message)
                       : machine_read_this_system(&t, ret_message);
        if (r < 0)
                return r;
        if (record) {
                r = read_record(o, record, text, t, &s, ret_message);
                json_decref(record);
                if (r < 0)
                        return r;
        } else {
                r = snapshot_new(&s);
                if (r < 0)
                        return r;
                s->topology = s->owned_topology = t;
                if (o->machine)
                        r = devices_read(s, text, ret_message);
                if (r < 0) {
                        s->owned_topology = NULL;
                        return r;
                }
        }
        t = NULL;
        *ret = TAKE_PTR(s);
        return 0;
}

static int device_text(const Options *o, DeviceText *text, char **ret_message) {
        Ini *ini = NULL;
        int r;

        if (!o->devices)
                return 0;
        r = ini_load(o->devices, &ini, ret_message);
        if (r >= 0)
                r = device_text_add(text, ini, false, ret_message);
        if (r < 0 && ini)
                ini_free(ini);
        return r;
}

/* This system, as the daemon with its default configuration sees it. */
static int read_host(const DeviceText *text, Offline *f, char **ret_message) {
        _cleanup_(task_reader_freep) TaskReader *reader = NULL;
        _cleanup_(strv_freep) char **ignore = NULL;
        int r;

        r = strv_split(HOST_IGNORE_DEFAULT, " ", &ignore);
        if (r >= 0)
                r = task_reader_new("", &reader);
        if (r < 0)
                return r;
        return host_read(
                "", text, reader,
                &(TaskReadParams){ .ignore = ignore, .jobs = (const Job *const *) f->jobs, .n_jobs = f->n_jobs },
                f->snapshot, ret_message);
}

static int read_all(const Options *o, Offline *f, char **ret_message) {
        DeviceText text = { .for_record = o->machine };
        int r = device_text(o, &text, ret_message);

        if (r >= 0)
                r = read_machine(o, &text, &f->snapshot, ret_message);
        if (r >= 0 && !o->machine)
                r = read_host(&text, f, ret_message);
        device_text_done(&text);
        return r;
}

int offline_open(const Options *o, char **files, size_t n_files, Offline *ret) {
        _cleanup_free_ char *message = NULL;
        _cleanup_(offline_done) Offline f = {};
        int r;

        r = ctl_load_jobs(files, n_files, &f.jobs, &f.n_jobs);
        if (r != EXIT_DONE)
                return r;
        r = read_all(o, &f, &message);
        if (r < 0) {
                log_error("%s", message ?: strerror(-r));
                return EXIT_FAILED;
        }
        snapshot_sort(f.snapshot);
        *ret = f;
        f = (Offline){};
        return EXIT_DONE;
}

static uint64_t solve_clock(void *userdata) {
        return clock_monotonic_usec();
}

int offline_plan(const Offline *f, const Options *o, json_t **ret) {
        static const PatienceWords words = { .what = "plan", .tick_usec = USEC_PER_SEC };
        _cleanup_free_ char *message = NULL;
        _cleanup_(plan_freep) Plan *plan = NULL;
        DecideParams p = {};
        Patience *patience;
        int r;

        decide_params_default(&p);
        if (o->solver)
                p.solver = o->solver;
        if (o->has_seed)
                p.seed = o->seed;
        if (o->has_sweeps)
                p.sweeps = o->sweeps;
        p.budget_usec = 0; /* the same input gives the same plan, whatever else the host does */
        p.clock = solve_clock;
        patience = patience_begin(&words, &p.stop);
        r = decide(f->snapshot, (const Job *const *) f->jobs, f->n_jobs, &p, &plan, &message);
        patience_end(patience);
        if (r >= 0)
                r = plan_to_json(plan, ret);
        if (r >= 0)
                return EXIT_DONE;
        log_error("%s", message ?: strerror(-r));
        return EXIT_FAILED;
}
