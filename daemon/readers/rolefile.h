/* SPDX-License-Identifier: Apache-2.0 */
/* [Role NAME] sections of qschedd.conf(5) -> Roles. A name of the built-in table changes the keys that are given, any
 * other adds a role. */
#pragma once

#include "common/ini.h"
#include "policy/roles.h"

extern const ConfigItem role_items[]; /* of section "Role", into a Role */

/* Adds what one file says to the roles (built-in ones first: roles_default()); sections of other types are not looked
 * at. -EBADMSG and "LABEL:LINE: …"; the roles are unchanged then. */
int roles_from_ini(Roles *r, const Ini *ini, char **ret_message);
/* The table as it stands, commented out, for --print-config. */
void roles_print(const Roles *r, FILE *f);
