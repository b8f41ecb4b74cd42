/* SPDX-License-Identifier: Apache-2.0 */
/*
 * irqbalance's own socket: which interrupts it leaves alone, and the request to leave some alone. It is never stopped,
 * and what others banned is kept: "settings ban irqs" replaces its list, so the new list is the old one with ours.
 *
 * It reads one request of at most 500 bytes (256 after the words in newer ones) and answers root only, by the
 * credentials that come with the message. A list that does not fit would be cut inside a number, so it is never sent:
 * what fits is, and the answer afterwards tells what it took.
 */
#pragma once

#include <sys/types.h>

#include "common/bitset.h"

typedef struct Irqbalance {
        pid_t pid;     /* by the name of its socket */
        bool abstract; /* its socket has no file */
} Irqbalance;

/* 1 and *ret: it has a socket; 0: it has none. Thorough: one without a file is looked for too (/proc/net/unix). */
int irqbalance_find(const char *root, bool thorough, Irqbalance *ret);
int irqbalance_running(const char *root, pid_t *ret); /* 1: by its name among the processes, with or without a socket */
int irqbalance_bans(const char *root, const Irqbalance *b, Bitset *ret);
/* Adds `add` to its bans and takes `remove` from them; *ret: its bans afterwards, by its own answer. Positive: not all of
 * `add` found room. -EACCES: it answers root only; -E2BIG: what others banned fills its
 * buffer; -ETIMEDOUT; -EBADMSG: it does not speak as expected. */
int irqbalance_ban(const char *root, const Irqbalance *b, const Bitset *add, const Bitset *remove, Bitset *ret);

int irqbalance_parse_setup(const char *text, Bitset *ret); /* pure: answer to "setup" */
