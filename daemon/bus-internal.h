/* SPDX-License-Identifier: Apache-2.0 */
/* What bus.c (calls) and bus-signals.c (what is told unasked) share; nobody else includes this. */
#pragma once

#include "daemon/bus-objects.h"
#include "daemon/bus.h"

#define BUS_NAME "org.qsched1"
#define BUS_PATH "/org/qsched1"
#define BUS_INTERFACE "org.qsched1.Manager"

typedef struct Head { /* properties of the manager's object, as last told */
        int feasible;
        uint32_t devices, tasks, jobs;
        uint64_t last_change;
        double energy;
} Head;

typedef struct Call Call;

struct Bus {
        sd_bus *bus;
        Manager *manager;
        Objects *objects;
        Head head;
        Call *calls;
        sd_bus_slot *vtable_slot, *disconnected_slot;
        sd_event *event;
};

/* Fills the properties and attaches the bus to the manager as an observer. */
int bus_observe(Bus *b);
