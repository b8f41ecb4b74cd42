/* SPDX-License-Identifier: Apache-2.0 */
/*
 * solve, compare and convert: a Model is a file that has been read, with what was recognised in it and the value that is
 * known of it; a Run is one solver on it, with the times at which it found what. Times are microseconds since the run
 * began. Model and Run own what they point to; a Run borrows its Model.
 */
#pragma once

#include "ctl/ctl.h"
#include "policy/formats/format.h"
#include "policy/qubo/recognise.h"

typedef struct Model {
        const char *path; /* as given */
        Instance *in;
        Recognised *recognised;  /* NULL: nothing, or it was not asked for */
        uint64_t recognise_usec; /* how long that took: it counts as time of each solver */
        bool has_known;
        double known; /* best known value */
} Model;

int model_load(const Options *o, const char *path, Model *ret); /* logs; EXIT_ code. Does not look for structure */
void model_recognise(Model *m, const Options *o);
void model_done(Model *m);
bool model_is_better(const Model *m, long double a, long double b); /* in the file's sense */
/* A file, "-" for standard output, or what is there and no regular file. *.gz is packed. Logs; EXIT_ code. */
int ctl_write_output(const char *path, const char *text, size_t size);
int ctl_check_output(const char *path); /* whether that can be, before what takes long; logs; EXIT_ code */

typedef struct Improvement {
        uint64_t usec;
        int64_t energy;
} Improvement;

typedef struct Run {
        const Model *model;
        const Solver *solver;
        int error; /* negative errno: there is no result */
        SolveResult result;
        long double value; /* of the result, in the file's sense, recomputed from the file */
        uint64_t begin, usec;
        uint64_t to_best, to_target;
        bool reached; /* the target */
        int64_t target;
        bool has_target;
        Improvement *trace; /* in order; thinned where there are very many */
        size_t n_trace;
        atomic_llong best; /* energy so far, for the progress line */
} Run;

bool run_fits(const Model *m, const Solver *solver);
/* First run_prepare(), then run_solver(): in between, run_status() may look at it from its thread. */
void run_prepare(Run *r, const Model *m, const Solver *solver);
void run_solver(Run *r, const Options *o, const atomic_bool *stop);
void run_done(Run *r);
int run_failed(const Run *r);                            /* logs why there is no result; EXIT_ code */
const char *run_error(const Run *r);                     /* the same in a few words */
void run_status(void *userdata, char *buf, size_t size); /* for PatienceWords; userdata is a Run *const * */
PatienceWords run_patience(const Options *o, const char *what, Run **running); /* *running: the one at work, or NULL */
json_t *run_to_json(const Run *r, const Options *o);
json_t *json_value(const Instance *in, long double value); /* an integer where it is whole */
double seconds(uint64_t usec);

uint64_t solve_budget(const Options *o); /* microseconds; 0: none */
int compare_solvers(const Model *m, const Options *o);
json_t *model_to_json(const Model *m);
void show_model(const Model *m);
void show_seconds(const char *key, double s);
void show_field(const char *key, const char *format, ...) _printf_(2, 3);
