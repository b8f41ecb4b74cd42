/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qschedctl: one table of verbs, one file per subject. The table makes --help, the manual's list and the completion.
 * Verbs read D-Bus replies or, offline (--machine), run policy on what the readers give; both yield the same JSON,
 * and one renderer per subject turns it into text. Nobody but output.c knows of colours and widths.
 */
#pragma once

#include <jansson.h>
#include <systemd/sd-bus.h>

#include "common/macro.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_RISKY = 3, EXIT_INFEASIBLE = 4 };

typedef struct Options { /* all options of all verbs; a verb's table row tells which it takes */
        bool json, dry_run, no_color, wide;
        const char *host, *machine, *devices, *solver;
        uint64_t seed, sweeps;
        bool has_seed, has_sweeps;
        const char *name, *device, *memory, *cpus; /* run */
} Options;

typedef struct Verb {
        const char *name;
        const char *arguments; /* "JOBFILE…" */
        unsigned min_args, max_args; /* UINT_MAX: any */
        const char *options;   /* long names, blank-separated, beyond those every verb takes */
        const char *help;
        int (*run)(const Options *o, int argc, char **argv); /* returns an EXIT_ code */
} Verb;

extern const Verb verbs[];
