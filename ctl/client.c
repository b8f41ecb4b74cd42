/* SPDX-License-Identifier: Apache-2.0 */
/*
 * org.qsched1 as a client (the contract is in daemon/bus.h and org.qsched1(5)). Answers are JSON in a string. Every
 * failure is told here, as one sentence that says what to try next, and becomes an exit code.
 */
#include <strings.h>

#include "common/ini.h"
#include "common/log.h"
#include "common/text.h"
#include "ctl/ctl.h"
#include "daemon/readers/machine.h"
#include "policy/record.h"

#define BUS_NAME "org.qsched1"
#define BUS_PATH "/org/qsched1"
#define BUS_INTERFACE "org.qsched1.Manager"
#define CALL_TIMEOUT_USEC (300ULL * 1000 * 1000) /* a solve may take its time, and polkit may ask for a password */
#define RECORD_MAX (256U << 20)

#define NO_DAEMON "start it with \"systemctl start qschedd\", or use --machine PATH where a verb takes it"

int client_open(const Options *o, sd_bus **ret) {
        int r = o->host ? sd_bus_open_system_remote(ret, o->host) : sd_bus_open_system(ret);

        if (r >= 0)
                return EXIT_DONE;
        if (o->host)
                log_error_errno(r, "Cannot reach the system bus of %s by ssh: %m", o->host);
        else
                log_error_errno(r, "Cannot reach the system bus, and so not the daemon (%m); " NO_DAEMON ".");
        return EXIT_FAILED;
}

int client_method(sd_bus *bus, const char *member, sd_bus_message **ret) {
        int r = sd_bus_message_new_method_call(bus, ret, BUS_NAME, BUS_PATH, BUS_INTERFACE, member);

        if (r >= 0)
                return EXIT_DONE;
        log_error_errno(r, "Failed to make the call %s: %m", member);
        return EXIT_FAILED;
}

typedef struct ErrorRow { /* what an error name means for the caller */
        const char *name;
        int code;
        const char *sentence; /* NULL: the daemon's own */
} ErrorRow;

static const ErrorRow errors[] = {
        { "org.qsched1.Error.Infeasible", EXIT_INFEASIBLE, NULL },
        { "org.freedesktop.DBus.Error.ServiceUnknown", EXIT_FAILED, "The daemon does not run; " NO_DAEMON "." },
        { "org.freedesktop.DBus.Error.NameHasNoOwner", EXIT_FAILED, "The daemon does not run; " NO_DAEMON "." },
        { "org.freedesktop.DBus.Error.NoReply", EXIT_FAILED,
          "The daemon did not answer; see \"systemctl status qschedd\" and \"journalctl -u qschedd\"." },
        { "org.freedesktop.DBus.Error.Timeout", EXIT_FAILED,
          "The daemon did not answer in time; see \"journalctl -u qschedd\"." },
        { "org.freedesktop.DBus.Error.UnknownMethod", EXIT_FAILED,
          "The daemon does not know this call: it is of another version than qschedctl, or something else has its name." },
        { "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired", EXIT_FAILED,
          "Changing a placement needs authority, which nobody could be asked for; try again as root." },
};

static bool is_lost(int r) {
        return r == -ENOENT || r == -ECONNREFUSED || r == -ECONNRESET || r == -ENOTCONN || r == -EPIPE;
}

static int tell_bus_error(sd_bus *bus, const sd_bus_error *e, int r) {
        const char *address = NULL;
        for (size_t i = 0; e->name && i < ELEMENTSOF(errors); i++)
                if (streq(errors[i].name, e->name)) {
                        log_error("%s", errors[i].sentence ?: strempty(e->message));
                        return errors[i].code;
                }
        if (e->name && streq(e->name, SD_BUS_ERROR_ACCESS_DENIED))
                log_error("%s", e->message && *e->message ? e->message : "Access denied; try again as root.");
        else if (is_lost(r) && sd_bus_get_address(bus, &address) >= 0 && strncmp(address, "unixexec:", 9) == 0)
                log_error(
                        "The connection over ssh failed: is the host right, may you log in there, and is systemd-stdio-bridge installed on it?");
        else if (is_lost(r))
                log_error_errno(r, "Cannot reach the system bus, and so not the daemon (%m); " NO_DAEMON ".");
        else if (e->message && *e->message)
                log_error("%s", e->message);
        else
                log_error_errno(r, "The call to the daemon failed: %m");
        return EXIT_FAILED;
}

static int call(sd_bus *bus, sd_bus_message *m, sd_bus_message **ret) {
        _cleanup_(sd_bus_error_free) sd_bus_error e = SD_BUS_ERROR_NULL;
        int r;

        (void) sd_bus_message_set_allow_interactive_authorization(m, true);
        r = sd_bus_call(bus, m, CALL_TIMEOUT_USEC, &e, ret);
        return r < 0 ? tell_bus_error(bus, &e, r) : EXIT_DONE;
}

int client_call(sd_bus *bus, sd_bus_message *m, json_t **ret) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        const char *text;
        json_error_t error;
        json_t *j;
        int r;

        r = call(bus, m, &reply);
        if (r != EXIT_DONE)
                return r;
        r = sd_bus_message_read(reply, "s", &text);
        if (r < 0) {
                log_error_errno(r, "The daemon's answer is not a string: %m");
                return EXIT_FAILED;
        }
        j = json_loads(text, JSON_REJECT_DUPLICATES, &error);
        if (!json_is_object(j)) {
                json_decref(j);
                log_error("The daemon's answer is not a JSON object: %s", j ? "something else" : error.text);
                return EXIT_FAILED;
        }
        *ret = j;
        return EXIT_DONE;
}

int client_call_string(sd_bus *bus, const char *member, const char *arg, json_t **ret) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
        int r = client_method(bus, member, &m);

        if (r != EXIT_DONE)
                return r;
        if (arg) {
                r = sd_bus_message_append(m, "s", arg);
                if (r < 0) { /* not UTF-8 */
                        log_error("\"%s\" is not a name that can be sent: %s.", arg, strerror(-r));
                        return EXIT_USAGE;
                }
        }
        return client_call(bus, m, ret);
}

int client_append_options(sd_bus_message *m, const Options *o) {
        int r = sd_bus_message_open_container(m, 'a', "{sv}");

        if (r >= 0 && o->solver)
                r = sd_bus_message_append(m, "{sv}", "solver", "s", o->solver);
        if (r >= 0 && o->has_seed)
                r = sd_bus_message_append(m, "{sv}", "seed", "t", o->seed);
        if (r >= 0 && o->has_sweeps)
                r = sd_bus_message_append(m, "{sv}", "sweeps", "t", o->sweeps);
        if (r >= 0 && o->dry_run)
                r = sd_bus_message_append(m, "{sv}", "dry-run", "b", true);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static int append_jobs(sd_bus_message *m, Job **jobs, size_t n, const Options *o) {
        int r = sd_bus_message_open_container(m, 'a', "(ss)");

        for (size_t i = 0; i < n && r >= 0; i++)
                r = sd_bus_message_append(m, "(ss)", jobs[i]->text, strempty(jobs[i]->matrix_text));
        if (r >= 0)
                r = sd_bus_message_close_container(m);
        return r < 0 ? r : client_append_options(m, o);
}

int client_plan(const Options *o, const char *member, char **files, int n, json_t **ret) {
        _cleanup_(sd_bus_flush_close_unrefp) sd_bus *bus = NULL;
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
        Job **jobs = NULL;
        size_t n_jobs = 0;
        int r;

        r = ctl_load_jobs(files, (size_t) n, &jobs, &n_jobs);
        if (r == EXIT_DONE)
                r = client_open(o, &bus);
        if (r == EXIT_DONE)
                r = client_method(bus, member, &m);
        if (r == EXIT_DONE) {
                int q = append_jobs(m, jobs, n_jobs, o);

                if (q < 0) {
                        log_error_errno(q, "Failed to fill the call %s: %m", member);
                        r = EXIT_FAILED;
                }
        }
        ctl_free_jobs(jobs, n_jobs);
        return r == EXIT_DONE ? client_call(bus, m, ret) : r;
}

static int read_record(int fd, char **ret, size_t *ret_size) {
        size_t size = 0, allocated = 0;
        _cleanup_free_ char *text = NULL;

        for (;;) {
                ssize_t n;

                if (size + 1 >= allocated) {
                        char *p = allocated < RECORD_MAX ? realloc(text, allocated = allocated ? allocated * 2 : 65536)
                                                         : NULL;

                        if (!p)
                                return allocated < RECORD_MAX ? -ENOMEM : -EFBIG;
                        text = p;
                }
                n = read(fd, text + size, allocated - size - 1);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                size += (size_t) n;
        }
        text[size] = '\0';
        *ret = TAKE_PTR(text);
        *ret_size = size;
        return 0;
}

int client_dump(const Options *o, char **ret, size_t *ret_size) {
        _cleanup_(sd_bus_flush_close_unrefp) sd_bus *bus = NULL;
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL, *reply = NULL;
        int fd, r;

        if (o->host) { /* a pipe through ssh carries no descriptors */
                log_error(
                        "The record cannot be sent over --host; use: ssh %s qschedctl dump > FILE, then --machine FILE.",
                        o->host);
                return EXIT_FAILED;
        }
        r = client_open(o, &bus);
        if (r == EXIT_DONE)
                r = client_method(bus, "DumpByFileDescriptor", &m);
        if (r == EXIT_DONE)
                r = call(bus, m, &reply);
        if (r != EXIT_DONE)
                return r;
        r = sd_bus_message_read(reply, "h", &fd);
        if (r >= 0) {
                (void) lseek(fd, 0, SEEK_SET); /* a file starts where its writer left it; a pipe refuses */
                r = read_record(fd, ret, ret_size);
        }
        if (r < 0) {
                log_error_errno(r, "Failed to read the record from the daemon: %m");
                return EXIT_FAILED;
        }
        return EXIT_DONE;
}

static int record_read(const char *text, size_t size, Snapshot **ret, char **ret_message) {
        _cleanup_(topology_freep) Topology *t = NULL;
        json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
        const char *xml;
        int r;

        if (!root)
                return text_fail(-EBADMSG, ret_message, "The daemon's record is not JSON.");
        r = record_machine_xml(root, &xml, ret_message);
        if (r >= 0)
                r = machine_read_xml("the daemon's record", xml, strlen(xml), &t, ret_message);
        if (r >= 0)
                r = record_to_snapshot(root, t, ret, ret_message);
        if (r >= 0)
                t = NULL; /* the snapshot's now */
        json_decref(root);
        return r;
}

int client_snapshot(const Options *o, Snapshot **ret) {
        _cleanup_free_ char *text = NULL, *message = NULL;
        size_t size;
        int r;

        r = client_dump(o, &text, &size);
        if (r != EXIT_DONE)
                return r;
        r = record_read(text, size, ret, &message);
        if (r < 0) {
                log_error("%s", message ?: strerror(-r));
                return EXIT_FAILED;
        }
        return EXIT_DONE;
}
