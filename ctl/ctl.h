/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qschedctl: one table of verbs, one of options, one file per subject. The tables make --help, --dump-tables (which
 * the completion and the check of the manual read) and the parser. Verbs read D-Bus replies or, offline (--machine),
 * run policy on what the readers give; both yield the same JSON, and one renderer per subject turns it into text.
 * Nobody but output.h's files knows of colours, widths and character sets.
 *
 * A verb logs what went wrong as one sentence and returns an EXIT_ code; helpers return a negative errno and a sentence.
 */
#pragma once

#include <jansson.h>
#include <stdatomic.h>
#include <systemd/sd-bus.h>

#include "policy/plan.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_RISKY = 3, EXIT_INFEASIBLE = 4 };
enum { EXIT_CANNOT_EXEC = 126, EXIT_NO_COMMAND = 127 }; /* as env(1) */

typedef struct Options { /* all options of all verbs; a verb's table row tells which it takes */
        bool help, version, dump_tables, no_color;
        bool json, dry_run, quiet, picture;
        const char *host, *machine, *devices, *solver;
        uint64_t seed, sweeps;
        bool has_seed, has_sweeps;
        const char *name, *device, *memory, *cpus, *job; /* run */
        uint64_t time, threads;                          /* solve; microseconds */
        double target;
        bool has_time, has_threads, has_target, compare, no_recognise;
        const char *output, *format, *to; /* solve, convert */
} Options;

typedef enum OptionType {
        OPTION_FLAG,
        OPTION_STRING,
        OPTION_U64,
        OPTION_SOLVER,
        OPTION_TIME,
        OPTION_REAL,
        OPTION_FORMAT
} OptionType;

typedef struct OptionItem {
        const char *name; /* long name */
        char letter;      /* or 0 */
        OptionType type;
        const char *argument; /* for --help; NULL for flags */
        size_t offset;        /* into Options */
        size_t has_offset;    /* of the flag that tells it was given; 0: none */
        bool everywhere;      /* every verb takes it */
        const char *help;     /* one sentence; NULL: hidden */
} OptionItem;

extern const OptionItem option_items[]; /* ends with name NULL */

typedef struct Verb {
        const char *name;
        const char *arguments;       /* "JOBFILE…" */
        unsigned min_args, max_args; /* UINT_MAX: any */
        bool command;                /* what follows the first argument is a command of its own: run */
        const char *options;         /* long names, blank-separated, beyond those every verb takes */
        const char *help;
        int (*run)(const Options *o, int argc, char **argv); /* returns an EXIT_ code */
} Verb;

extern const Verb verbs[]; /* ends with name NULL */
const Verb *verb_by_name(const char *name);
bool verb_takes(const Verb *v, const OptionItem *item);
int verbs_help(const Verb *v); /* NULL: of the program */
void verbs_dump_tables(void);

int verb_status(const Options *o, int argc, char **argv);
int verb_plan(const Options *o, int argc, char **argv);
int verb_apply(const Options *o, int argc, char **argv);
int verb_revert(const Options *o, int argc, char **argv);
int verb_run(const Options *o, int argc, char **argv);
int verb_explain(const Options *o, int argc, char **argv);
int verb_dump(const Options *o, int argc, char **argv);
int verb_devices(const Options *o, int argc, char **argv);
int verb_topology(const Options *o, int argc, char **argv);
int verb_doctor(const Options *o, int argc, char **argv);
int verb_solve(const Options *o, int argc, char **argv);
int verb_convert(const Options *o, int argc, char **argv);

/* The daemon. Each logs its failure and what to try next, and returns an EXIT_ code. */
int client_open(const Options *o, sd_bus **ret);
int client_method(sd_bus *bus, const char *member, sd_bus_message **ret);                 /* a call to fill */
int client_call(sd_bus *bus, sd_bus_message *m, json_t **ret);                            /* its JSON answer */
int client_call_string(sd_bus *bus, const char *member, const char *arg, json_t **ret);   /* arg NULL: none */
int client_append_options(sd_bus_message *m, const Options *o);                           /* a{sv} */
int client_plan(const Options *o, const char *member, char **files, int n, json_t **ret); /* Plan, Apply */
int client_dump(const Options *o, char **ret, size_t *ret_size);                          /* the record, as text */
int client_snapshot(const Options *o, Snapshot **ret);                                    /* the record, read */

/* Without the daemon: --machine, or --devices alone (this system). */
typedef struct Offline {
        Snapshot *snapshot;
        Job **jobs;
        size_t n_jobs;
} Offline;
static inline bool options_offline(const Options *o) {
        return o->machine || o->devices;
}
int offline_open(const Options *o, char **files, size_t n_files, Offline *ret); /* logs; EXIT_ code */
void offline_done(Offline *f);
int offline_plan(const Offline *f, const Options *o, json_t **ret); /* logs; EXIT_DONE also when infeasible */
/* While a solve runs: tells how long it takes, SIGINT sets *ret_stop. NULL when out of memory, then without both. */
typedef struct Patience Patience;
typedef struct PatienceWords {
        const char *what;   /* comes of it: "plan" */
        uint64_t tick_usec; /* on a terminal, told from the second on */
        bool limited;       /* it ends by itself in the time that was asked for: nothing is said but on a terminal */
        void (*status)(void *userdata, char *buf,
                       size_t size); /* more for the line; from another thread; may be NULL */
        void *userdata;
} PatienceWords;
Patience *patience_begin(const PatienceWords *words, const atomic_bool **ret_stop); /* words: kept until the end */
void patience_end(Patience *p);
int ctl_load_jobs(char **files, size_t n, Job ***ret, size_t *ret_n); /* logs; EXIT_ code */
void ctl_free_jobs(Job **jobs, size_t n);

/* Renderers that more than one verb uses. */
void show_plan(const json_t *plan);
void show_outcome(const json_t *outcome);
void show_messages(const json_t *messages);
void show_drift(const json_t *drift);                     /* of GetStatus */
void show_picture(const Snapshot *s, const json_t *plan); /* plan NULL: the snapshot's tasks */
int plan_exit_code(const json_t *plan);

/* Members of JSON that may be absent or of another type. */
const char *jstr(const json_t *o, const char *key);      /* "" */
double jnum(const json_t *o, const char *key);           /* NAN */
const json_t *jget(const json_t *o, const char *key);    /* NULL */
char *jjoin(const json_t *array, const char *separator); /* strings of an array; NULL on OOM */
