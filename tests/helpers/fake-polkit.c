/* SPDX-License-Identifier: Apache-2.0 */
/* fake-polkit [ACTION…]: org.freedesktop.PolicyKit1 on the bus of DBUS_SYSTEM_BUS_ADDRESS; allows the actions named. */
#include <stdio.h>
#include <string.h>
#include <systemd/sd-bus.h>

static char **allowed;

static int check(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        const char *kind, *action;
        int granted = 0, r;

        r = sd_bus_message_enter_container(m, 'r', "sa{sv}");
        if (r >= 0)
                r = sd_bus_message_read(m, "s", &kind);
        if (r >= 0)
                r = sd_bus_message_skip(m, "a{sv}");
        if (r >= 0)
                r = sd_bus_message_exit_container(m);
        if (r >= 0)
                r = sd_bus_message_read(m, "s", &action);
        if (r < 0)
                return r;
        for (char **a = allowed; *a; a++)
                granted = granted || strcmp(*a, action) == 0;
        return sd_bus_reply_method_return(m, "(bba{ss})", granted, 0, 0);
}

static const sd_bus_vtable vtable[] = {
        SD_BUS_VTABLE_START(0),
        SD_BUS_METHOD("CheckAuthorization", "(sa{sv})sa{ss}us", "(bba{ss})", check, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_VTABLE_END,
};

int main(int argc, char **argv) {
        sd_bus *bus = NULL;
        int r;

        allowed = argv + 1;
        r = sd_bus_open_system(&bus);
        if (r >= 0)
                r = sd_bus_add_object_vtable(bus, NULL, "/org/freedesktop/PolicyKit1/Authority",
                                             "org.freedesktop.PolicyKit1.Authority", vtable, NULL);
        if (r >= 0)
                r = sd_bus_request_name(bus, "org.freedesktop.PolicyKit1", 0);
        while (r >= 0) {
                r = sd_bus_process(bus, NULL);
                if (r == 0)
                        r = sd_bus_wait(bus, UINT64_MAX);
        }
        fprintf(stderr, "fake-polkit: %s\n", strerror(-r));
        sd_bus_unref(bus);
        return 1;
}
