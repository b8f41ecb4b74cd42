/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor: findings of daemon/readers/doctor.h on this system, the worst first. The daemon is asked which processes it
 * placed, so that its own masks are not taken for somebody's; a call that would start it is not made.
 */
#include "common/fileio.h"
#include "common/log.h"
#include "common/text.h"
#include "ctl/output.h"
#include "daemon/readers/doctor.h"

#define ASK_TIMEOUT_USEC (5ULL * 1000 * 1000)

typedef struct Asked { /* what the daemon said */
        bool runs;
        char *error; /* it is there and did not answer */
        pid_t *applied;
        size_t n_applied;
} Asked;

static void asked_done(Asked *a) {
        free(a->error);
        free(a->applied);
}

static int take_applied(const char *text, Asked *a) {
        json_t *status = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        const json_t *tasks = jget(status, "tasks"), *t;
        size_t i;

        a->applied = calloc(json_array_size(tasks) + 1, sizeof(*a->applied));
        json_array_foreach ((json_t *) tasks, i, t)
                if (a->applied && json_is_true(jget(t, "applied")) && jnum(t, "pid") > 0)
                        a->applied[a->n_applied++] = (pid_t) jnum(t, "pid");
        if (!json_is_object(status))
                a->error = strdup("its answer is not a JSON object");
        json_decref(status);
        return a->applied ? 0 : -ENOMEM;
}

static bool is_absent(const sd_bus_error *e) {
        return sd_bus_error_has_name(e, SD_BUS_ERROR_SERVICE_UNKNOWN) ||
               sd_bus_error_has_name(e, SD_BUS_ERROR_NAME_HAS_NO_OWNER);
}

static int ask_daemon(Asked *a) {
        _cleanup_(sd_bus_flush_close_unrefp) sd_bus *bus = NULL;
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL, *reply = NULL;
        _cleanup_(sd_bus_error_free) sd_bus_error e = SD_BUS_ERROR_NULL;
        const char *text;
        int r;

        if (sd_bus_open_system(&bus) < 0)
                return 0; /* no bus, no daemon */
        r = sd_bus_message_new_method_call(bus, &m, "org.qsched1", "/org/qsched1", "org.qsched1.Manager", "GetStatus");
        if (r >= 0)
                r = sd_bus_message_set_auto_start(m, false);
        if (r < 0)
                return r;
        r = sd_bus_call(bus, m, ASK_TIMEOUT_USEC, &e, &reply);
        if (r >= 0)
                r = sd_bus_message_read(reply, "s", &text);
        if (r >= 0) {
                a->runs = true;
                return take_applied(text, a);
        }
        if (is_absent(&e) || r == -ENOTCONN || r == -ECONNRESET)
                return 0;
        a->error = strdup(e.message && *e.message ? e.message : strerror(-r));
        return a->error ? 0 : -ENOMEM;
}

static json_t *report_json(const DoctorReport *report) {
        json_t *findings = json_array(), *counts = json_object();
        unsigned n[_DOCTOR_LEVEL_MAX] = {};

        for (size_t i = 0; i < report->n_findings; i++) {
                const DoctorFinding *f = &report->findings[i];

                n[f->level]++;
                json_array_append_new(findings, json_pack("{s:s, s:s, s:s, s:s?}", "check", f->check->name, "level",
                                                          doctor_level_names[f->level], "sentence", f->sentence,
                                                          "remedy", f->remedy));
        }
        for (unsigned i = 0; i < _DOCTOR_LEVEL_MAX; i++)
                json_object_set_new(counts, doctor_level_names[i], json_integer(n[i]));
        return json_pack("{s:s, s:o, s:o}", "worst", doctor_level_names[doctor_worst(report)], "counts", counts,
                         "findings", findings);
}

static Ink level_ink(DoctorLevel level) {
        static const Ink inks[_DOCTOR_LEVEL_MAX] = { [DOCTOR_OK] = INK_GOOD,
                                                     [DOCTOR_NOTE] = INK_BOLD,
                                                     [DOCTOR_UNKNOWN] = INK_WARN,
                                                     [DOCTOR_WARNING] = INK_WARN,
                                                     [DOCTOR_PROBLEM] = INK_BAD };

        return inks[level];
}

static void show_finding(const DoctorFinding *f) {
        out_ink(level_ink(f->level), "● %s", doctor_level_names[f->level]);
        out(": ");
        out_ink(INK_BOLD, "%s\n", f->check->name);
        out_wrapped("  ", "  ", INK_NONE, f->sentence);
        if (f->remedy)
                out_wrapped("  → ", "    ", INK_NONE, f->remedy);
        out("\n");
}

static void show_rest(const DoctorReport *report) {
        json_t *names = json_array();
        _cleanup_free_ char *text = NULL;

        for (size_t i = 0; i < report->n_findings; i++)
                if (report->findings[i].level == DOCTOR_OK)
                        json_array_append_new(names, json_string(report->findings[i].check->name));
        text = jjoin(names, ", ");
        if (text && *text) {
                out_ink(INK_GOOD, "● ok");
                out_wrapped(": ", "  ", INK_NONE, text);
        }
        json_decref(names);
}

static void show_report(const DoctorReport *report) {
        for (unsigned level = DOCTOR_PROBLEM; level > DOCTOR_OK; level--)
                for (size_t i = 0; i < report->n_findings; i++)
                        if (report->findings[i].level == (DoctorLevel) level)
                                show_finding(&report->findings[i]);
        show_rest(report);
}

static int examine(const Snapshot *s, const Asked *a, DoctorReport *ret) {
        const char *directory = getenv("RUNTIME_DIRECTORY"); /* as qschedd itself */
        _cleanup_free_ char *journal = path_join(directory ?: QSCHED_RUNTIME_DIR, "undo.journal");
        const DoctorParams params = { .root = "",
                                      .snapshot = s,
                                      .daemon_runs = a->runs,
                                      .daemon_error = a->error,
                                      .applied = a->applied,
                                      .n_applied = a->n_applied,
                                      .journal = journal };
        int r = doctor_examine(&params, ret);

        if (r < 0)
                log_error_errno(r, "This host cannot be examined (is /proc mounted?): %m");
        return r < 0 ? EXIT_FAILED : EXIT_DONE;
}

int verb_doctor(const Options *o, int argc, char **argv) {
        _cleanup_(offline_done) Offline f = {};
        _cleanup_(doctor_report_done) DoctorReport report = {};
        _cleanup_(asked_done) Asked asked = {};
        json_t *j;
        int r;

        r = offline_open(o, NULL, 0, &f);
        if (r != EXIT_DONE)
                return r;
        if (ask_daemon(&asked) < 0)
                return log_oom(), EXIT_FAILED;
        r = examine(f.snapshot, &asked, &report);
        if (r != EXIT_DONE)
                return r;
        if (o->json) {
                j = report_json(&report);
                out_json(j);
                json_decref(j);
        } else
                show_report(&report);
        return doctor_worst(&report) >= DOCTOR_PROBLEM ? EXIT_FAILED : EXIT_DONE;
}
