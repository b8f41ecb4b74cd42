/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last configuration that was in force, kept in the state directory: a file that is broken when the host boots
 * keeps nothing from starting, and a reload and a restart mean the same by "the old configuration stays in force".
 *   STATE/config/qschedd.conf, STATE/config/qschedd.conf.d/NAME.conf, STATE/config/devices   copies, each if there is one
 */
#pragma once

#include "common/text.h"

/* config, devices: what was read; NULL as for config_load(). The copy before stays when this fails. */
int config_last_save(const char *state, const char *config, const char *devices);

/* Where the copies are; *ret_devices is NULL when there were none. -ENOENT: nothing was saved yet. */
int config_last_find(const char *state, char **ret_config, char **ret_devices);
