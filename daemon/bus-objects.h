/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects below /org/qsched1: one for each device, job and task, made anew from each snapshot as plain values
 * (a path, an interface, its properties as JSON) and compared with the ones before: the difference is what
 * InterfacesAdded, InterfacesRemoved and PropertiesChanged tell.
 */
#pragma once

#include <systemd/sd-bus.h>

#include "daemon/manager.h"

typedef struct Objects Objects;

int objects_new(sd_bus *bus, Manager *m, Objects **ret); /* borrows both */
Objects *objects_free(Objects *o);
DEFINE_CLEANUP(Objects *, objects_free);
int objects_update(Objects *o, const Snapshot *s);
