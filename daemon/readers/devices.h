/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accelerators of a host: PCI functions that the table of known ones (or the configuration) names, plus those fully
 * described in text ([Device NAME], [Link A B]): a described one with the PCI= of a found one refines it.
 */
#pragma once

#include "common/ini.h"
#include "policy/snapshot.h"

typedef struct PciKind {         /* row of the table of known accelerators */
        unsigned vendor, device; /* device PCI_ANY: every function of the class */
        unsigned class;          /* 16 bits; 0: any */
        const char *kind;
        const char *name;      /* product, for people */
        const char *node_glob; /* pattern of its compute nodes: "/dev/davinci[0-9]*" */
} PciKind;
#define PCI_ANY UINT_MAX
extern const PciKind pci_kinds[]; /* ends with kind NULL */
bool pci_kind_known(const char *kind);

extern const ConfigItem device_items[]; /* sections Device and Link */
#define DEVICES_MAX 1024U

typedef struct FoundDevice { /* of an earlier look, for a reader that goes on: it keeps its name, and may go */
        char *name, *pci;
} FoundDevice;

typedef struct DeviceText { /* parsed [Device] and [Link] sections and PCI ids of configuration and --devices file */
        Ini **files;        /* owned */
        size_t n_files;
        bool for_record; /* its devices may be refined: a section may lack Kind=, which devices_read() then asks for */
        char **pci_ids;  /* "1234:11e8=edu": further ids and the kind they are; by device_text_add_pci_id() */
        const FoundDevice *
                found; /* borrowed, all that were ever found; described ones that went are left out, and links of them */
        size_t n_found;
} DeviceText;

void device_text_done(DeviceText *d);
/* Takes the ini on success; all that can be judged without a machine is checked here ("FILE:LINE: …"). Sections other
 * than Device and Link are an error unless others_allowed (qschedd.conf has more). */
int device_text_add(DeviceText *d, Ini *ini, bool others_allowed, char **ret_message);
int device_text_add_pci_id(DeviceText *d, const char *text, char **ret_message); /* "1234:11e8=edu" */
/* Adds devices and links to the snapshot, whose topology is set. Where it has devices already (of a record), these are
 * what was found: a described one of that name refines it, by the keys that it has; so do links. -EBADMSG and a sentence
 * when a NUMANode= or a link's device is not on this machine, a PCI= that is not has no Kind=, or two devices would have
 * one name or address; the snapshot then has part of them. */
int devices_read(Snapshot *s, const DeviceText *d, char **ret_message);
