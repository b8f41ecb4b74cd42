/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See bus.h. METHODS is the one table: it makes the vtable and says which action polkit is asked about. A call is
 * taken (on_call), its caller is looked up and authorised, its handler reads the arguments and orders the work, and
 * the manager's answer (call_answer) becomes the reply; a Call lives until then, or until the bus goes.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/mman.h>

#include "common/fileio.h"
#include "common/log.h"
#include "daemon/authority.h"
#include "daemon/bus-internal.h"
#include "policy/job.h"

#define TEXT_MAX (64U << 10) /* of one job; they are parsed in the loop */
#define TEXTS_MAX (1U << 20) /* of all jobs of a call */
#define MATRIX_MAX (4U << 20)
#define MATRICES_MAX (8U << 20)
#define JOBS_MAX JOB_RANKS_MAX /* a plan has no places for more */

typedef struct Method {
        const char *name;
        const char *action;                      /* polkit; NULL: free for all */
        int (*run)(Call *c, char **ret_message); /* < 0: nothing was ordered, c is still the caller's */
} Method;

struct Call {
        Call *next;
        Bus *bus;
        sd_bus_message *message;
        const Method *method;
        Caller caller;
        sd_bus_slot *question; /* to polkit */
        sd_bus_track *track;   /* of a caller who waits for a plan */
};

static void call_free(Call *c) {
        for (Call **p = &c->bus->calls; *p; p = &(*p)->next)
                if (*p == c) {
                        *p = c->next;
                        break;
                }
        sd_bus_slot_unref(c->question);
        sd_bus_track_unref(c->track);
        sd_bus_message_unref(c->message);
        free(c);
}

static const char *error_name(const Call *c, int r) {
        static const struct {
                int error;
                const char *name;
        } names[] = {
                { -EBADMSG, "org.qsched1.Error.BadJob" }, { -ESRCH, "org.qsched1.Error.NoSuchTask" },
                { -EACCES, SD_BUS_ERROR_ACCESS_DENIED },  { -EBUSY, SD_BUS_ERROR_LIMITS_EXCEEDED },
                { -E2BIG, SD_BUS_ERROR_LIMITS_EXCEEDED }, { -EINVAL, SD_BUS_ERROR_INVALID_ARGS },
                { -ENOMEM, SD_BUS_ERROR_NO_MEMORY },
        };

        if (r == -ENOENT && streq(c->method->name, "Revert"))
                return "org.qsched1.Error.NoSuchJob";
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (names[i].error == r)
                        return names[i].name;
        return SD_BUS_ERROR_FAILED;
}

/* A caller that has gone meanwhile is nobody's problem: the bus drops the reply. */
static void call_fail(Call *c, int r, const char *sentence) {
        log_debug("%s of %s failed: %s", c->method->name, sd_bus_message_get_sender(c->message), sentence);
        (void) sd_bus_reply_method_errorf(c->message, error_name(c, r), "%s", sentence);
        call_free(c);
}

static void fail_infeasible(Call *c, json_t *messages) {
        _cleanup_free_ char *text = NULL;
        size_t size, i;
        json_t *v;
        FILE *f;

        f = open_memstream(&text, &size);
        if (f) {
                json_array_foreach (messages, i, v)
                        fprintf(f, "%s%s", i ? "; " : "", strempty(json_string_value(v)));
                (void) fclose(f);
        }
        (void) sd_bus_reply_method_errorf(c->message, "org.qsched1.Error.Infeasible", "%s",
                                          text && text[0] ? text : "There is no place for this process");
        call_free(c);
}

static void call_answer(void *userdata, int r, const char *sentence, json_t *json) {
        _cleanup_free_ char *text = NULL;
        Call *c = userdata;

        if (r < 0) {
                call_fail(c, r, sentence ? sentence : strerror(-r));
                return;
        }
        if (streq(c->method->name, "Run") && !json_is_true(json_object_get(json, "feasible"))) {
                fail_infeasible(c, json_object_get(json, "messages"));
                return;
        }
        text = json_dumps(json, JSON_COMPACT);
        if (!text) {
                call_fail(c, -ENOMEM, "The answer could not be written as JSON");
                return;
        }
        (void) sd_bus_reply_method_return(c->message, "s", text);
        call_free(c);
}

static int check_size(const char *what, const char *text, size_t max, size_t max_all, size_t *all, char **ret_message) {
        size_t n = strlen(text);

        if (n > max)
                return text_fail(-E2BIG, ret_message, "The %s has %zu bytes: at most %zu are allowed", what, n, max);
        *all += n;
        if (*all > max_all)
                return text_fail(-E2BIG, ret_message, "Over all jobs of the call, the %s has more than %zu bytes", what,
                                 max_all);
        return 0;
}

typedef struct JobList {
        JobText *jobs; /* strings are the message's */
        size_t n, texts, matrices;
} JobList;

static int job_list_add(JobList *l, const JobText *job, char **ret_message) {
        JobText *n;
        int r;

        r = check_size("job's text", job->text, TEXT_MAX, TEXTS_MAX, &l->texts, ret_message);
        if (r >= 0)
                r = check_size("traffic matrix", job->matrix, MATRIX_MAX, MATRICES_MAX, &l->matrices, ret_message);
        if (r >= 0 && l->n == JOBS_MAX)
                r = text_fail(-E2BIG, ret_message, "More than %u jobs in one call are not allowed", JOBS_MAX);
        if (r < 0)
                return r;
        n = reallocarray(l->jobs, l->n + 1, sizeof(*n));
        if (!n)
                return -ENOMEM;
        l->jobs = n;
        l->jobs[l->n++] = *job;
        return 0;
}

static int read_jobs(sd_bus_message *m, JobText **ret, size_t *ret_n, char **ret_message) {
        JobList l = {};
        JobText job;
        int r;

        r = sd_bus_message_enter_container(m, 'a', "(ss)");
        while (r >= 0 && (r = sd_bus_message_read(m, "(ss)", &job.text, &job.matrix)) > 0)
                r = job_list_add(&l, &job, ret_message);
        if (r >= 0)
                r = sd_bus_message_exit_container(m);
        if (r < 0) {
                free(l.jobs);
                return r;
        }
        *ret = l.jobs;
        *ret_n = l.n;
        return 0;
}

static int read_option(sd_bus_message *m, const char *key, PlanOptions *o, char **ret_message) {
        int r, b = 0;

        if (streq(key, "solver"))
                r = sd_bus_message_read(m, "v", "s", &o->solver);
        else if (streq(key, "seed")) {
                r = sd_bus_message_read(m, "v", "t", &o->seed);
                o->has_seed = true;
        } else if (streq(key, "sweeps"))
                r = sd_bus_message_read(m, "v", "t", &o->sweeps);
        else if (streq(key, "dry-run")) {
                r = sd_bus_message_read(m, "v", "b", &b);
                o->dry_run = b;
        } else
                return text_fail(-EINVAL, ret_message,
                                 "Option \"%s\" is not known: solver (s), seed (t), sweeps (t) and dry-run (b) are",
                                 key);
        if (r < 0)
                return text_fail(-EINVAL, ret_message,
                                 "Option \"%s\" is of a wrong type: solver is s, seed and sweeps are t, dry-run is b",
                                 key);
        if (o->seed > INT64_MAX) /* it comes back as a number in JSON */
                return text_fail(-EINVAL, ret_message, "seed=%" PRIu64 " is too large: 0 to %" PRIi64 " are allowed",
                                 o->seed, INT64_MAX);
        return 0;
}

static int read_options(sd_bus_message *m, PlanOptions *o, char **ret_message) {
        const char *key;
        int r;

        r = sd_bus_message_enter_container(m, 'a', "{sv}");
        while (r >= 0 && (r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
                r = sd_bus_message_read(m, "s", &key);
                if (r >= 0)
                        r = read_option(m, key, o, ret_message);
                if (r >= 0)
                        r = sd_bus_message_exit_container(m);
        }
        return r < 0 ? r : sd_bus_message_exit_container(m);
}

/* Nobody waits for this plan any more: the solver need not make it, if it has not begun. */
static int on_vanished(sd_bus_track *track, void *userdata) {
        Call *c = userdata;

        if (manager_forget(c->bus->manager, call_answer, c))
                call_free(c);
        return 1; /* with 0 sd-bus would queue the track again, for ever */
}

static int run_plan(Call *c, char **ret_message) {
        _cleanup_free_ JobText *jobs = NULL;
        PlanOptions options = {};
        size_t n;
        int r;

        r = read_jobs(c->message, &jobs, &n, ret_message);
        if (r >= 0)
                r = read_options(c->message, &options, ret_message);
        if (r < 0)
                return r;
        if (streq(c->method->name, "Plan") && sd_bus_track_new(c->bus->bus, &c->track, on_vanished, c) >= 0)
                (void) sd_bus_track_add_sender(c->track, c->message);
        if (streq(c->method->name, "Plan"))
                manager_plan(c->bus->manager, &c->caller, jobs, n, &options, call_answer, c);
        else
                manager_apply(c->bus->manager, &c->caller, jobs, n, &options, call_answer, c);
        return 0;
}

static int run_run(Call *c, char **ret_message) {
        PlanOptions options = {};
        JobText job = {};
        size_t size = 0;
        int r;

        r = sd_bus_message_read(c->message, "s", &job.text);
        if (r >= 0)
                r = check_size("job's text", job.text, TEXT_MAX, TEXTS_MAX, &size, ret_message);
        if (r >= 0)
                r = read_options(c->message, &options, ret_message);
        if (r < 0)
                return r;
        manager_run(c->bus->manager, &c->caller, &job, &options, call_answer, c);
        return 0;
}

static int run_revert(Call *c, char **ret_message) {
        json_t *json = NULL;
        const char *job;
        int r;

        r = sd_bus_message_read(c->message, "s", &job);
        if (r >= 0)
                r = manager_revert(c->bus->manager, &c->caller, job[0] ? job : NULL, &json, ret_message);
        if (r < 0)
                return r;
        call_answer(c, 0, NULL, json);
        json_decref(json);
        return 0;
}

static int run_explain(Call *c, char **ret_message) {
        json_t *json = NULL;
        const char *task;
        int r;

        r = sd_bus_message_read(c->message, "s", &task);
        if (r >= 0)
                r = manager_explain(c->bus->manager, &c->caller, task, &json, ret_message);
        if (r < 0)
                return r;
        call_answer(c, 0, NULL, json);
        json_decref(json);
        return 0;
}

static int run_status(Call *c, char **ret_message) {
        json_t *json = NULL;
        int r;

        r = manager_status(c->bus->manager, &json);
        if (r < 0)
                return r;
        call_answer(c, 0, NULL, json);
        json_decref(json);
        return 0;
}

static int record_fd(Manager *m, char **ret_message) {
        _cleanup_free_ char *text = NULL;
        _cleanup_close_ int fd = -1;
        json_t *json = NULL;
        size_t size, done = 0;
        int r;

        r = manager_record(m, &json, ret_message);
        if (r < 0)
                return r;
        text = json_dumps(json, JSON_INDENT(1));
        json_decref(json);
        if (!text)
                return -ENOMEM;
        fd = memfd_create("qsched-record", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0)
                return -errno;
        for (size = strlen(text); done < size;) {
                ssize_t n = write(fd, text + done, size - done);

                if (n < 0)
                        return -errno;
                done += (size_t) n;
        }
        if (lseek(fd, 0, SEEK_SET) < 0 ||
            fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
                return -errno;
        return TAKE_FD(fd);
}

static int run_dump(Call *c, char **ret_message) {
        _cleanup_close_ int fd = -1;

        fd = record_fd(c->bus->manager, ret_message);
        if (fd < 0)
                return fd;
        (void) sd_bus_reply_method_return(c->message, "h", fd);
        call_free(c);
        return 0;
}

static int run_reload(Call *c, char **ret_message) {
        int r;

        if (!c->caller.authorised)
                return text_fail(-EACCES, ret_message,
                                 "Reading the configuration again needs authority: only root may");
        r = manager_reload(c->bus->manager, ret_message);
        if (r < 0)
                return r == -EBADMSG ? -EINVAL : r; /* not a job that is bad */
        (void) sd_bus_reply_method_return(c->message, "");
        call_free(c);
        return 0;
}

#ifndef SD_BUS_METHOD_WITH_NAMES /* before systemd 246 */
#define SD_BUS_PARAM(x) #x "\0"
#define SD_BUS_METHOD_WITH_NAMES(member, in, in_names, out, out_names, handler, flags)                                 \
        SD_BUS_METHOD(member, in, out, handler, flags)
#define SD_BUS_SIGNAL_WITH_NAMES(member, in, in_names, flags) SD_BUS_SIGNAL(member, in, flags)
#endif

/* name, in, names of arguments, out, names of results, polkit action (NULL: free for all), handler */
#define METHODS(X)                                                                                                     \
        X("Plan", "a(ss)a{sv}", SD_BUS_PARAM(jobs) SD_BUS_PARAM(options), "s", SD_BUS_PARAM(json), NULL, run_plan)     \
        X("Apply", "a(ss)a{sv}", SD_BUS_PARAM(jobs) SD_BUS_PARAM(options), "s", SD_BUS_PARAM(json),                    \
          "org.qsched1.apply", run_plan)                                                                               \
        X("Run", "sa{sv}", SD_BUS_PARAM(job) SD_BUS_PARAM(options), "s", SD_BUS_PARAM(json), "org.qsched1.run",        \
          run_run)                                                                                                     \
        X("Revert", "s", SD_BUS_PARAM(job), "s", SD_BUS_PARAM(json), "org.qsched1.revert", run_revert)                 \
        X("Explain", "s", SD_BUS_PARAM(task), "s", SD_BUS_PARAM(json), NULL, run_explain)                              \
        X("GetStatus", "", "", "s", SD_BUS_PARAM(json), NULL, run_status)                                              \
        X("DumpByFileDescriptor", "", "", "h", SD_BUS_PARAM(record), NULL, run_dump)                                   \
        X("Reload", "", "", "", "", "org.qsched1.reload", run_reload)

static const Method methods[] = {
#define METHOD_ROW(name, in, in_names, out, out_names, action, run) { name, action, run },
        METHODS(METHOD_ROW)
};

static void call_run(Call *c) {
        _cleanup_free_ char *message = NULL;
        int r;

        r = c->method->run(c, &message);
        if (r < 0)
                call_fail(c, r, message ? message : strerror(-r));
}

static void on_authority(void *userdata, Authority a, const char *sentence) {
        Call *c = userdata;

        if (a == AUTHORITY_DENIED) {
                call_fail(c, -EACCES, sentence ? sentence : "Not allowed");
                return;
        }
        c->caller.authorised = a == AUTHORITY_GRANTED;
        call_run(c);
}

/* Who calls is told apart now: when polkit has answered, minutes may have passed and the pid be another's. */
static int call_caller(Call *c) {
        _cleanup_free_ char *path = NULL, *comm = NULL;
        Caller *k = &c->caller;
        int r;

        r = authority_caller(c->message, &k->uid, &k->pid);
        if (r < 0 || k->pid <= 0)
                return r;
        if (process_start_time(k->pid, &k->start_time) < 0)
                k->pid = 0;
        if (k->pid > 0 && asprintf(&path, "/proc/%d/comm", (int) k->pid) >= 0 &&
            read_line_at(AT_FDCWD, path, &comm) >= 0)
                (void) snprintf(k->comm, sizeof(k->comm), "%s", comm);
        return 0;
}

static int on_call(sd_bus_message *m, void *userdata, sd_bus_error *ret_error) {
        Bus *b = userdata;
        const char *member = sd_bus_message_get_member(m);
        Call *c;
        int r;

        c = calloc(1, sizeof(*c));
        if (!c)
                return -ENOMEM;
        *c = (Call){ .bus = b, .message = sd_bus_message_ref(m), .next = b->calls };
        b->calls = c;
        for (size_t i = 0; i < ELEMENTSOF(methods); i++)
                if (streq(methods[i].name, member))
                        c->method = &methods[i];
        r = call_caller(c);
        if (r < 0) {
                call_fail(c, -EACCES, "The bus does not tell who calls");
                return 1;
        }
        if (!c->method->action) {
                c->caller.authorised = c->caller.uid == 0 || c->caller.uid == geteuid();
                call_run(c);
                return 1;
        }
        r = authority_check(m, c->caller.uid, c->method->action, on_authority, c, &c->question);
        if (r < 0)
                call_fail(c, r, strerror(-r));
        return 1;
}

static int get_version(sd_bus *bus, const char *path, const char *interface, const char *name, sd_bus_message *reply,
                       void *userdata, sd_bus_error *e) {
        return sd_bus_message_append(reply, "s", PACKAGE_VERSION);
}

#define CHANGING SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE

static const sd_bus_vtable manager_vtable[] = {
        SD_BUS_VTABLE_START(0),
#define VTABLE_ROW(name, in, in_names, out, out_names, action, run)                                                    \
        SD_BUS_METHOD_WITH_NAMES(name, in, in_names, out, out_names, on_call, SD_BUS_VTABLE_UNPRIVILEGED),
        METHODS(VTABLE_ROW) SD_BUS_PROPERTY("Version", "s", get_version, 0, SD_BUS_VTABLE_PROPERTY_CONST),
        SD_BUS_PROPERTY("Feasible", "b", NULL, offsetof(Bus, head.feasible), CHANGING),
        SD_BUS_PROPERTY("Devices", "u", NULL, offsetof(Bus, head.devices), CHANGING),
        SD_BUS_PROPERTY("Tasks", "u", NULL, offsetof(Bus, head.tasks), CHANGING),
        SD_BUS_PROPERTY("Jobs", "u", NULL, offsetof(Bus, head.jobs), CHANGING),
        SD_BUS_PROPERTY("LastChange", "t", NULL, offsetof(Bus, head.last_change), CHANGING),
        SD_BUS_PROPERTY("Energy", "d", NULL, offsetof(Bus, head.energy), CHANGING),
        SD_BUS_SIGNAL_WITH_NAMES("PlanApplied", "sbu", SD_BUS_PARAM(job) SD_BUS_PARAM(changed) SD_BUS_PARAM(written),
                                 0),
        SD_BUS_SIGNAL_WITH_NAMES("Drift", "uussss",
                                 SD_BUS_PARAM(pid) SD_BUS_PARAM(tid) SD_BUS_PARAM(expected) SD_BUS_PARAM(found)
                                         SD_BUS_PARAM(author) SD_BUS_PARAM(done),
                                 0),
        SD_BUS_SIGNAL_WITH_NAMES("DeviceFault", "ss", SD_BUS_PARAM(device) SD_BUS_PARAM(health), 0),
        SD_BUS_VTABLE_END,
};

static int on_disconnected(sd_bus_message *m, void *userdata, sd_bus_error *ret_error) {
        Bus *b = userdata;

        log_error("The connection to the system bus was lost: ending; placements stay");
        (void) sd_event_exit(b->event, EXIT_FAILURE);
        return 0;
}

static int take_name(Bus *b) {
        int r = sd_bus_request_name(b->bus, BUS_NAME, 0);

        if (r == -EEXIST || r == -EALREADY)
                return log_error_errno(r, "The name " BUS_NAME " is taken on the bus: another qschedd runs already");
        if (r < 0)
                return log_error_errno(r, "The bus does not give the name " BUS_NAME
                                          " (is its policy org.qsched1.conf installed?): %m");
        return 0;
}

static int bus_publish(Bus *b) {
        int r;

        r = sd_bus_add_object_vtable(b->bus, &b->vtable_slot, BUS_PATH, BUS_INTERFACE, manager_vtable, b);
        if (r >= 0)
                r = objects_new(b->bus, b->manager, &b->objects);
        if (r >= 0)
                r = sd_bus_match_signal(b->bus, &b->disconnected_slot, "org.freedesktop.DBus.Local", NULL,
                                        "org.freedesktop.DBus.Local", "Disconnected", on_disconnected, b);
        if (r >= 0)
                r = bus_observe(b);
        return r < 0 ? log_error_errno(r, "Failed to publish objects on the bus: %m") : 0;
}

int bus_new(sd_event *event, Manager *m, Bus **ret) {
        _cleanup_(bus_freep) Bus *b = calloc(1, sizeof(*b));
        int r;

        if (!b)
                return log_oom();
        b->event = sd_event_ref(event);
        b->manager = m;
        r = sd_bus_open_system(&b->bus);
        if (r < 0)
                return log_error_errno(
                        r, "The system bus cannot be reached (DBUS_SYSTEM_BUS_ADDRESS names another one): %m");
        r = bus_publish(b);
        if (r < 0)
                return r;
        r = sd_bus_attach_event(b->bus, event, 0);
        if (r < 0)
                return log_error_errno(r, "Failed to attach the bus to the loop: %m");
        r = take_name(b);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(b);
        return 0;
}

Bus *bus_free(Bus *b) {
        if (!b)
                return NULL;
        while (b->calls)
                call_free(b->calls);
        objects_free(b->objects);
        sd_bus_slot_unref(b->vtable_slot);
        sd_bus_slot_unref(b->disconnected_slot);
        sd_bus_flush_close_unref(b->bus);
        sd_event_unref(b->event);
        free(b);
        return NULL;
}
