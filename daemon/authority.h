/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may change something. Root and the daemon's own user may at once. For anybody else polkit is asked, without
 * blocking, when there is one on the bus (its no is a no); without polkit a caller is confined: own processes, inside
 * their own masks.
 */
#pragma once

#include <systemd/sd-bus.h>

#include "common/macro.h"

typedef enum Authority { AUTHORITY_DENIED, AUTHORITY_CONFINED, AUTHORITY_GRANTED } Authority;

/* uid and pid (0 unknown) of the caller as the bus vouches for them. */
typedef void (*AuthorityReply)(void *userdata, Authority a, const char *sentence);

int authority_caller(sd_bus_message *m, uid_t *ret_uid, pid_t *ret_pid);
/* Answers by the callback, perhaps before it returns. *slot is the pending question, NULL when there is none; who
 * frees it is not called back. */
int authority_check(sd_bus_message *m, uid_t uid, const char *action, AuthorityReply reply, void *userdata,
                    sd_bus_slot **slot);
