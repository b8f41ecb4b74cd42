/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two requests to systemd on the system bus: a transient scope around a running process, and other AllowedCPUs or
 * AllowedMemoryNodes for it. A connection per request: they are rare, and a bus that was restarted meanwhile is then no
 * special case. The call waits for systemd's job, at most START_USEC, since the CPUs are in force only after it.
 */
#include <errno.h>
#include <systemd/sd-bus.h>

#include "common/clock.h"
#include "daemon/enforce-internal.h"

#define SYSTEMD "org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"
#define START_USEC 5000000U

typedef struct Wait {
        const char *job;
        char result[32];
        bool done;
        sd_bus_message *early[16]; /* JobRemoved may come before the reply that names the job */
        unsigned n_early;
} Wait;

static int job_removed(sd_bus_message *m, Wait *w) {
        const char *job, *result;
        uint32_t id;
        int r = sd_bus_message_read(m, "uoss", &id, &job, NULL, &result);

        if (r < 0 || !w->job || !streq(job, w->job))
                return 0;
        w->done = true;
        (void) snprintf(w->result, sizeof(w->result), "%s", result);
        return 0;
}

static int on_job_removed(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        Wait *w = userdata;

        if (w->job)
                return job_removed(m, w);
        if (w->n_early < ELEMENTSOF(w->early))
                w->early[w->n_early++] = sd_bus_message_ref(m);
        return 0;
}

static int wait_job(sd_bus *bus, Wait *w) {
        uint64_t end = clock_monotonic_usec() + START_USEC;
        int r;

        for (unsigned i = 0; i < w->n_early && !w->done; i++)
                (void) job_removed(w->early[i], w);
        while (!w->done) {
                uint64_t now = clock_monotonic_usec();

                if (now >= end)
                        return -ETIMEDOUT;
                r = sd_bus_process(bus, NULL);
                if (r == 0)
                        r = sd_bus_wait(bus, end - now);
                if (r < 0)
                        return r;
        }
        return streq(w->result, "done") ? 0 : -ECANCELED;
}

/* CPU i is bit i % 8 of byte i / 8. */
static int append_set(sd_bus_message *m, const char *property, const Bitset *cpus) {
        _cleanup_free_ uint8_t *bytes = calloc(BITSET_MAX / 8 + 1, 1);
        size_t n = 0;
        int r;

        if (!bytes)
                return -ENOMEM;
        BITSET_FOREACH (i, cpus) {
                bytes[i / 8] |= (uint8_t) (1U << (i % 8));
                n = (size_t) i / 8 + 1;
        }
        r = sd_bus_message_open_container(m, 'r', "sv");
        if (r >= 0)
                r = sd_bus_message_append(m, "s", property);
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'v', "ay");
        if (r >= 0)
                r = sd_bus_message_append_array(m, 'y', bytes, n);
        if (r >= 0)
                r = sd_bus_message_close_container(m);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static int fill_start(sd_bus_message *m, const char *unit, pid_t pid, const char *description, const Bitset *cpus) {
        int r = sd_bus_message_append(m, "ss", unit, "fail");

        if (r >= 0)
                r = sd_bus_message_open_container(m, 'a', "(sv)");
        if (r >= 0)
                r = sd_bus_message_append(m, "(sv)(sv)(sv)(sv)", "Description", "s", description, "Slice", "s",
                                          "qsched.slice", "PIDs", "au", 1, (uint32_t) pid, "CollectMode", "s",
                                          "inactive-or-failed");
        if (r >= 0 && cpus)
                r = append_set(m, "AllowedCPUs", cpus);
        if (r >= 0)
                r = sd_bus_message_close_container(m);
        return r < 0 ? r : sd_bus_message_append(m, "a(sa(sv))", 0);
}

static int call_start(sd_bus *bus, const char *unit, pid_t pid, const char *description, const Bitset *cpus,
                      sd_bus_error *error) {
        __attribute__((cleanup(sd_bus_message_unrefp))) sd_bus_message *m = NULL, *reply = NULL;
        __attribute__((cleanup(sd_bus_slot_unrefp))) sd_bus_slot *slot = NULL;
        Wait w = {};
        int r;

        r = sd_bus_match_signal(bus, &slot, SYSTEMD, "JobRemoved", on_job_removed, &w);
        if (r >= 0)
                r = sd_bus_message_new_method_call(bus, &m, SYSTEMD, "StartTransientUnit");
        if (r >= 0)
                r = fill_start(m, unit, pid, description, cpus);
        if (r >= 0)
                r = sd_bus_call(bus, m, START_USEC, error, &reply);
        if (r >= 0)
                r = sd_bus_message_read(reply, "o", &w.job);
        if (r >= 0)
                r = wait_job(bus, &w);
        if (r == -ETIMEDOUT || r == -ECANCELED)
                (void) sd_bus_error_setf(error, SD_BUS_ERROR_FAILED, "its job %s",
                                         r == -ETIMEDOUT ? "does not end" : w.result);
        for (unsigned i = 0; i < w.n_early; i++)
                sd_bus_message_unref(w.early[i]);
        return r;
}

int scope_start(const char *unit, pid_t pid, const char *description, const Bitset *cpus, char **ret_message) {
        __attribute__((cleanup(sd_bus_flush_close_unrefp))) sd_bus *bus = NULL;
        __attribute__((cleanup(sd_bus_error_free))) sd_bus_error error = SD_BUS_ERROR_NULL;
        int r = sd_bus_open_system(&bus);

        if (r < 0)
                return text_fail(r, ret_message, "%s cannot be started: no system bus (%s)", unit, strerror(-r));
        r = call_start(bus, unit, pid, description, cpus, &error);
        if (r < 0)
                return text_fail(r, ret_message, "systemd does not start %s for pid %d: %s", unit, pid,
                                 error.message ? error.message : strerror(-r));
        return 0;
}

static int call_set(sd_bus *bus, const char *unit, const char *property, const Bitset *set, sd_bus_error *error) {
        __attribute__((cleanup(sd_bus_message_unrefp))) sd_bus_message *m = NULL;
        int r = sd_bus_message_new_method_call(bus, &m, SYSTEMD, "SetUnitProperties");

        if (r >= 0)
                r = sd_bus_message_append(m, "sb", unit, 1);
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'a', "(sv)");
        if (r >= 0)
                r = append_set(m, property, set);
        if (r >= 0)
                r = sd_bus_message_close_container(m);
        return r < 0 ? r : sd_bus_call(bus, m, START_USEC, error, NULL);
}

static int scope_set(const char *unit, const char *property, const Bitset *set, char **ret_message) {
        __attribute__((cleanup(sd_bus_flush_close_unrefp))) sd_bus *bus = NULL;
        __attribute__((cleanup(sd_bus_error_free))) sd_bus_error error = SD_BUS_ERROR_NULL;
        int r = sd_bus_open_system(&bus);

        if (r >= 0)
                r = call_set(bus, unit, property, set, &error);
        if (r < 0)
                return text_fail(r, ret_message, "systemd does not change %s of %s: %s", property, unit,
                                 error.message ? error.message : strerror(-r));
        return 0;
}

int scope_set_cpus(const char *unit, const Bitset *cpus, char **ret_message) {
        return scope_set(unit, "AllowedCPUs", cpus, ret_message);
}

int scope_set_mems(const char *unit, const Bitset *nodes, char **ret_message) {
        return scope_set(unit, "AllowedMemoryNodes", nodes, ret_message);
}
