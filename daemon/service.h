/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qschedd as a service of systemd: why it is ended, the watchdog, the status line. Without a service manager
 * (NOTIFY_SOCKET is not set) nothing is asked and nothing is told.
 */
#pragma once

#include <systemd/sd-event.h>

#include "daemon/manager.h"

typedef enum ServiceEnd {
        SERVICE_END_UNKNOWN,  /* nobody's service, or a plain signal: no job is behind it */
        SERVICE_END_RESTART,  /* it comes back at once */
        SERVICE_END_SHUTDOWN, /* with the whole host: nothing outlives it that could be put back */
        SERVICE_END_STOP      /* for good, as far as is known */
} ServiceEnd;

/* Which job of systemd ends this process; a message that it could not be asked goes to *ret_message. */
ServiceEnd service_why_ended(char **ret_message);

/* Pings the watchdog of the unit, if it has one, as long as manager_alive(); keeps STATUS= up to date. */
int service_attach(sd_event *event, Manager *m);
