/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stop and restart are the same SIGTERM; the difference is the type of the job that systemd has for the unit then. It is
 * asked over its own socket, as systemctl does for root, so that it works without the bus too, and with a bound on the
 * time: PID 1 is busy when a host goes down.
 */
#include "daemon/service.h"

#include <errno.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "common/log.h"
#include "common/text.h"
#include "daemon/worker.h"

#define SYSTEMD "org.freedesktop.systemd1"
#define SYSTEMD_PATH "/org/freedesktop/systemd1"
#define ASK_USEC 2000000U

static int open_systemd(sd_bus **ret) {
        __attribute__((cleanup(sd_bus_flush_close_unrefp))) sd_bus *bus = NULL;
        int r = sd_bus_new(&bus);

        if (r >= 0)
                r = sd_bus_set_address(bus, "unix:path=/run/systemd/private");
        if (r >= 0)
                r = sd_bus_start(bus);
        if (r < 0)
                return sd_bus_open_system(ret);
        *ret = TAKE_PTR(bus);
        return 0;
}

/* Message and answer are the caller's; m is consumed. */
static int ask(sd_bus *bus, sd_bus_message *m, sd_bus_message **ret) {
        int r = sd_bus_call(bus, m, ASK_USEC, NULL, ret);

        sd_bus_message_unref(m);
        return r;
}

static int ask_property(sd_bus *bus, const char *path, const char *interface, const char *name, const char *type,
                        sd_bus_message **ret) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *answer = NULL;
        sd_bus_message *m = NULL;
        int r = sd_bus_message_new_method_call(bus, &m, SYSTEMD, path, "org.freedesktop.DBus.Properties", "Get");

        if (r >= 0)
                r = sd_bus_message_append(m, "ss", interface, name);
        if (r < 0) {
                sd_bus_message_unref(m);
                return r;
        }
        r = ask(bus, m, &answer);
        if (r >= 0)
                r = sd_bus_message_enter_container(answer, 'v', type);
        if (r >= 0)
                *ret = TAKE_PTR(answer);
        return r < 0 ? r : 0;
}

static int ask_unit(sd_bus *bus, sd_bus_message **ret, const char **ret_path) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *answer = NULL;
        sd_bus_message *m = NULL;
        int r = sd_bus_message_new_method_call(bus, &m, SYSTEMD, SYSTEMD_PATH, SYSTEMD ".Manager", "GetUnitByPID");

        if (r >= 0)
                r = sd_bus_message_append(m, "u", (uint32_t) getpid());
        if (r < 0) {
                sd_bus_message_unref(m);
                return r;
        }
        r = ask(bus, m, &answer);
        if (r >= 0)
                r = sd_bus_message_read(answer, "o", ret_path);
        if (r >= 0)
                *ret = TAKE_PTR(answer);
        return r < 0 ? r : 0;
}

static int ask_stopping(sd_bus *bus) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *answer = NULL;
        const char *state;
        int r = ask_property(bus, SYSTEMD_PATH, SYSTEMD ".Manager", "SystemState", "s", &answer);

        if (r >= 0)
                r = sd_bus_message_read(answer, "s", &state);
        return r < 0 ? r : streq(state, "stopping");
}

static int ask_job(sd_bus *bus, ServiceEnd *ret) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *unit = NULL, *job = NULL, *type = NULL;
        const char *path, *name;
        uint32_t id;
        int r;

        r = ask_unit(bus, &unit, &path);
        if (r >= 0)
                r = ask_property(bus, path, SYSTEMD ".Unit", "Job", "(uo)", &job);
        if (r >= 0)
                r = sd_bus_message_read(job, "(uo)", &id, &path);
        if (r < 0 || id == 0) /* none */
                return r;
        r = ask_property(bus, path, SYSTEMD ".Job", "JobType", "s", &type);
        if (r >= 0)
                r = sd_bus_message_read(type, "s", &name);
        if (r < 0)
                return r;
        if (streq(name, "stop"))
                *ret = SERVICE_END_STOP;
        else if (streq(name, "restart"))
                *ret = SERVICE_END_RESTART;
        return 0;
}

ServiceEnd service_why_ended(char **ret_message) {
        __attribute__((cleanup(sd_bus_flush_close_unrefp))) sd_bus *bus = NULL;
        ServiceEnd end = SERVICE_END_UNKNOWN;
        int r;

        if (!getenv("NOTIFY_SOCKET"))
                return end;
        r = open_systemd(&bus);
        if (r >= 0)
                r = ask_job(bus, &end);
        if (r >= 0 && end == SERVICE_END_STOP)
                r = ask_stopping(bus);
        if (r < 0)
                (void) text_fail(r, ret_message, "systemd cannot be asked why it ends qschedd: %s", strerror(-r));
        return r > 0 ? SERVICE_END_SHUTDOWN : end;
}

/* A tick that is not run, or a solver that does not heed its deadline, is a hang: no ping, and systemd starts it anew. */
static int on_watchdog(sd_event_source *source, uint64_t usec, void *userdata) {
        const Manager *m = userdata;
        const char *why = NULL;
        uint64_t period;

        if (sd_watchdog_enabled(0, &period) <= 0)
                return 0;
        (void) sd_event_source_set_time(source, now_monotonic() + MAX(period / 4, (uint64_t) 1000));
        (void) sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
        if (manager_alive(m, &why))
                (void) sd_notify(0, "WATCHDOG=1");
        else
                log_error("%s: qschedd hangs, and lets systemd start it anew", why);
        return 0;
}

static void tell_status(void *userdata, const Snapshot *s, const Plan *plan) {
        const char *trouble = manager_trouble(userdata);
        size_t n_jobs = 0, n_placed = 0;
        unsigned priority, n_ranks;

        while (manager_job(userdata, n_jobs, &priority, &n_ranks))
                n_jobs++;
        for (size_t i = 0; i < s->n_tasks; i++)
                n_placed += s->tasks[i].applied;
        (void) sd_notifyf(0, "STATUS=%zu %s applied, %zu %s placed%s%s", n_jobs, n_jobs == 1 ? "job" : "jobs", n_placed,
                          n_placed == 1 ? "process" : "processes", trouble ? ". " : "", strempty(trouble));
}

int service_attach(sd_event *event, Manager *m) {
        const Observer status = { .snapshot = tell_status, .userdata = m };
        sd_event_source *source;
        uint64_t period;
        int r;

        if (!getenv("NOTIFY_SOCKET"))
                return 0;
        r = manager_observe(m, &status);
        if (r < 0 || sd_watchdog_enabled(0, &period) <= 0)
                return r;
        r = sd_event_add_time(event, &source, CLOCK_MONOTONIC, now_monotonic(), 0, on_watchdog, m);
        if (r < 0)
                return r;
        (void) sd_event_source_set_floating(source, true);
        sd_event_source_unref(source);
        return 0;
}
