/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accelerators of a host: PCI functions that the table of known ones (or the configuration) names, plus those fully
 * described in text ([Device NAME], [Link A B]): a described one with the PCI= of a found one refines it.
 */
#pragma once

#include "common/ini.h"
#include "policy/snapshot.h"

typedef struct PciKind { /* row of the table of known accelerators */
        unsigned vendor, device; /* device PCI_ANY: every function of the class */
        unsigned class;          /* 16 bits; 0: any */
        const char *kind;
        const char *name;        /* product, for people */
        const char *node_glob;   /* pattern of its compute nodes: "/dev/davinci[0-9]*" */
} PciKind;
#define PCI_ANY UINT_MAX
extern const PciKind pci_kinds[]; /* ends with kind NULL */

typedef struct DeviceText { /* parsed [Device] and [Link] sections and PCI ids of configuration and --devices file */
        Ini **files; /* owned */
        size_t n_files;
        char **pci_ids; /* "1234:11e8=edu": further ids and the kind they are */
} DeviceText;

void device_text_done(DeviceText *d);
/* Takes the ini on success; all sections are checked here ("FILE:LINE: …"), so that devices_read() cannot fail on it.
 * Sections other than Device and Link are an error unless others_allowed (qschedd.conf has more). */
int device_text_add(DeviceText *d, Ini *ini, bool others_allowed, char **ret_message);
/* Appends devices and links to the snapshot, whose topology is set. */
int devices_read(Snapshot *s, const DeviceText *d, char **ret_message);
