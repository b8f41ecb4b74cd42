/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frameworks that pin their own threads: the one table of the variables that make them, and what turns them off, for the
 * doctor (who might) and for drift (who did). Variables are looked for by name; of a command line only vllm-ascend's
 * switch is read; nothing else of either is ever shown.
 */
#pragma once

#include "daemon/readers/process.h"

#define PIN_ENVIRON_MAX (1U << 20)

typedef struct Pin {
        const char *variable;
        const char *switched_by; /* another variable that turns it off; NULL: itself */
        const char *const *off;  /* words that mean it does not pin */
        const char *who;
        const char *mend;
} Pin;

extern const Pin pins[];
extern const size_t pins_n;

#define PIN_VLLM "vllm-ascend"
#define PIN_VLLM_MEND "Start it with --additional-config '{\"enable_cpu_binding\": false}'"

/* Is it set in this block of NAME=VALUE strings, and not turned off? *ret_value points into the block. */
bool pin_is_set(const Pin *pin, const char *block, size_t size, const char **ret_value);
/* The first of the table that is set for a process; NULL: none. -EACCES and the like when its variables are hidden. */
int pin_of_process(int proc_fd, pid_t pid, const Pin **ret);
/* Is it a worker of vLLM (or below one)? *ret_switch: enable_cpu_binding there: 1, 0, -ENOENT not named. */
bool pin_is_vllm(int proc_fd, pid_t pid, int *ret_switch);
bool pin_arch_is_x86(const char *root); /* where vllm-ascend does not bind */

/* Pure parts. */
bool pin_is_off(const char *value, const char *const *off); /* a comma-separated word of value is one of off */
int pin_parse_binding_switch(const char *cmdline);          /* 1, 0, -ENOENT not named */
