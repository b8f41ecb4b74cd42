/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bus-flood: what a careless or hostile client does to the daemon on the bus of DBUS_SYSTEM_BUS_ADDRESS. A text above
 * the limit; many Plan calls of a costly job at once; the same again from connections that vanish. Prints what came
 * back. A bus allows so many calls without an answer for each connection, so there are several.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>

#define CALLS 100 /* for each connection */
#define CONNECTIONS 3
#define JOB "[Job]\nName=flood\n[Ranks]\nCount=200\n"

static unsigned served, refused;
static char sentence[512];

static int answered(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        const sd_bus_error *error = sd_bus_message_get_error(m);

        if (!error)
                served++;
        else {
                refused++;
                if (strstr(error->message, "wait for the solver") || !sentence[0])
                        (void) snprintf(sentence, sizeof(sentence), "%s", error->message);
        }
        return 0;
}

static int plan(sd_bus *bus, const char *text, sd_bus_message **ret) {
        int r = sd_bus_message_new_method_call(bus, ret, "org.qsched1", "/org/qsched1", "org.qsched1.Manager", "Plan");

        return r < 0 ? r : sd_bus_message_append(*ret, "a(ss)a{sv}", 1, text, "", 0);
}

static int send_many(sd_bus *bus) {
        for (unsigned i = 0; i < CALLS; i++) {
                sd_bus_message *m = NULL;
                int r = plan(bus, JOB, &m);

                if (r >= 0)
                        r = sd_bus_call_async(bus, NULL, m, answered, NULL, 120U * 1000000U);
                sd_bus_message_unref(m);
                if (r < 0)
                        return r;
        }
        return sd_bus_flush(bus);
}

static int big(sd_bus *bus) {
        const size_t size = 5U << 20;
        sd_bus_error e = SD_BUS_ERROR_NULL;
        sd_bus_message *m = NULL;
        char *text = malloc(size + 1);
        int r;

        if (!text)
                return -ENOMEM;
        memset(text, '#', size);
        text[size] = 0;
        r = plan(bus, text, &m);
        free(text);
        if (r >= 0)
                r = sd_bus_call(bus, m, 60U * 1000000U, &e, NULL);
        printf("big: %s\n", r < 0 && e.message ? e.message : "accepted");
        sd_bus_error_free(&e);
        sd_bus_message_unref(m);
        return 0;
}

static int wait_for_answers(sd_bus **buses) {
        while (served + refused < CONNECTIONS * CALLS)
                for (unsigned i = 0; i < CONNECTIONS; i++) {
                        int r = sd_bus_process(buses[i], NULL);

                        if (r == 0)
                                r = sd_bus_wait(buses[i], 10000);
                        if (r < 0)
                                return r;
                }
        return 0;
}

int main(void) {
        sd_bus *buses[CONNECTIONS] = {}, *vanishing;
        int r = 0;

        for (unsigned i = 0; r >= 0 && i < CONNECTIONS; i++) {
                vanishing = NULL;
                r = sd_bus_open_system(&vanishing);
                if (r >= 0)
                        r = send_many(vanishing);
                sd_bus_close_unref(vanishing); /* gone before its answers */
        }
        for (unsigned i = 0; r >= 0 && i < CONNECTIONS; i++)
                r = sd_bus_open_system(&buses[i]);
        if (r >= 0)
                r = big(buses[0]);
        for (unsigned i = 0; r >= 0 && i < CONNECTIONS; i++)
                r = send_many(buses[i]);
        if (r >= 0)
                r = wait_for_answers(buses);
        if (r < 0)
                fprintf(stderr, "bus-flood: %s\n", strerror(-r));
        printf("busy: %s\nserved: %u\nrefused: %u\n", sentence, served, refused);
        for (unsigned i = 0; i < CONNECTIONS; i++)
                sd_bus_close_unref(buses[i]);
        return r < 0;
}
