/* SPDX-License-Identifier: Apache-2.0 */
/* What devices.c and device-text.c share: one parsed [Device] or [Link] section, PCI addresses and ids as text. */
#pragma once

#include "daemon/readers/devices.h"

/* One [Device] section; numbers that are not given: NAN, 0, NODE_NOT_GIVEN, HEALTH_UNKNOWN. */
typedef struct DeviceRow {
        char *kind, *pci;
        int node;
        uint64_t memory;
        double temperature, power, price;
        int health;
        char **nodes;
} DeviceRow;

typedef struct LinkRow {
        int type;
        double bandwidth;
} LinkRow;

#define NODE_UNKNOWN (-1)
#define NODE_NOT_GIVEN INT_MIN

typedef struct PciAddress {
        unsigned domain, bus, device, function;
} PciAddress;

int pci_parse(const char *s, PciAddress *ret); /* "0000:c1:00.0", or without the domain */
int pci_compare(PciAddress a, PciAddress b);
bool pci_same(const char *a, const char *b);
int pci_id_parse(const char *text, unsigned *ret_vendor, unsigned *ret_device, const char **ret_kind);
const char *pci_kind_prefix(const char *kind); /* "npu"; the kind itself where there is no habit */

bool section_is_device(const IniSection *s);
bool section_is_link(const IniSection *s);
int device_row_fill(const Ini *ini, const IniSection *s, DeviceRow *row, char **ret_message);
int link_row_fill(const Ini *ini, const IniSection *s, LinkRow *row, char **ret_message);
