/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Message-signalled interrupts: the vectors of a PCI function as the kernel lists them below the function (msi_irqs/,
 * never found by name), what they are called and how often they fired (/proc/interrupts), where they may go
 * (smp_affinity_list) and where they do (effective_affinity_list: it follows a new mask at the vector's next interrupt).
 * root: "" or NULL for this system, a directory with a recorded /proc and /sys in tests.
 */
#pragma once

#include "common/bitset.h"

typedef struct IrqLine { /* one numbered line of /proc/interrupts */
        unsigned irq;
        uint64_t count; /* over all CPUs, since the vector was allocated */
        char *name;     /* of its handlers: "virtio3-rx", "acpi, eth0"; "" when nobody handles it now */
} IrqLine;

typedef struct IrqTable {
        IrqLine *lines; /* sorted by irq */
        size_t n_lines;
} IrqTable;

int irq_table_parse(const char *text, IrqTable *ret); /* pure; -EBADMSG when the header names no CPU */
int irq_table_read(const char *root, IrqTable *ret);
void irq_table_done(IrqTable *t);
const IrqLine *irq_table_find(const IrqTable *t, unsigned irq); /* NULL: no such line */

/* Sorted numbers; none: 0 with *ret_n 0 (no such function, no driver, legacy interrupts). Caller frees. */
int irq_vectors_of(const char *root, const char *pci, unsigned **ret, size_t *ret_n);
bool irq_is_vector_of(const char *root, const char *pci, unsigned irq); /* still? */

int irq_affinity(const char *root, unsigned irq, Bitset *ret);  /* -ENOENT: the vector is gone */
int irq_effective(const char *root, unsigned irq, Bitset *ret); /* -ENODATA: this kernel does not tell */
/* One write of a list. -EPERM or -EIO: the kernel manages this vector itself; -ENOSPC: no vector is free on these CPUs;
 * -EINVAL: none of them is online; -EROFS, -EACCES: not from here. */
int irq_set_affinity(const char *root, unsigned irq, const Bitset *cpus);
