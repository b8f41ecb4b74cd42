/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One solver on one model. The clock is given to it only where time is a limit, so that a number of sweeps alone always
 * gives the same. What it finds is timed here, at the moment it tells.
 */
#include <errno.h>
#include <math.h>

#include "common/bitset.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/text.h"
#include "ctl/output.h"
#include "ctl/solve.h"

#define DEFAULT_USEC USEC_PER_SEC
#define TRACE_MAX 65536U /* then every second point goes */
#define TRACE_JSON 200U

double seconds(uint64_t usec) {
        return (double) usec / USEC_PER_SEC;
}

static uint64_t run_clock(void *userdata) {
        return clock_monotonic_usec();
}

static void thin(Run *r) {
        size_t n = 0;

        for (size_t i = 0; i < r->n_trace; i += 2)
                r->trace[n++] = r->trace[i];
        r->n_trace = n;
}

static void improved(void *userdata, int64_t energy) {
        Run *r = userdata;
        uint64_t usec = clock_monotonic_usec() - r->begin;

        if (energy >= atomic_load(&r->best))
                return;
        atomic_store(&r->best, energy);
        r->to_best = usec;
        if (r->has_target && !r->reached && energy <= r->target) {
                r->reached = true;
                r->to_target = usec;
        }
        if (r->n_trace == TRACE_MAX)
                thin(r);
        r->trace[r->n_trace++] = (Improvement){ usec, energy };
}

bool run_fits(const Model *m, const Solver *solver) {
        return solver->fits(m->in->q) || (m->recognised && solver->fits(m->recognised->q));
}

static int solve(const Model *m, const Solver *solver, const SolveParams *p, SolveResult *ret) {
        if (m->recognised)
                return recognised_solve(m->in->q, m->recognised, solver, p, ret);
        return qubo_solve(m->in->q, solver, p, ret);
}

/* The time was up, or somebody stopped it, before there was any point or a whole sweep: one pass over the variables is
 * better than nothing, and mostly than where a search begins. */
static int first_pass(const Model *m, SolveResult *ret) {
        uint8_t *x = instance_any_point(m->in);
        int64_t energy = x ? qubo_energy(m->in->q, x) : 0;

        if (x && (!ret->x || energy < ret->energy)) {
                free(ret->x);
                ret->x = TAKE_PTR(x);
                ret->energy = energy;
                ret->solver = "first pass";
        }
        free(x);
        return ret->x ? 0 : -ENOMEM;
}

static int solve_or_pass(const Model *m, const Solver *solver, const SolveParams *p, SolveResult *ret) {
        int r = solve(m, solver, p, ret);

        if (r == -ECANCELED)
                *ret = (SolveResult){ .lower_bound = INT64_MIN };
        if (r == -ECANCELED || (r >= 0 && p->budget_usec > 0 && ret->sweeps == 0 && !ret->proved))
                return first_pass(m, ret);
        return r;
}

void run_prepare(Run *r, const Model *m, const Solver *solver) {
        *r = (Run){ .model = m, .solver = solver, .best = INT64_MAX };
}

uint64_t solve_budget(const Options *o) {
        return o->has_time ? o->time : o->has_sweeps ? 0 : DEFAULT_USEC;
}

/* Something is left for the solver in any case. */
static uint64_t left_of(uint64_t budget, uint64_t used) {
        return budget == 0 ? 0 : MAX(budget - MIN(budget, used), MAX(budget / 2, UINT64_C(1)));
}

/* More than there are CPUs for would only wait for each other, also after the time is over. */
static unsigned threads_of(const Options *o) {
        _cleanup_(bitset_done) Bitset cpus = BITSET_EMPTY;

        if (!o->has_threads || o->threads <= 1 || bitset_getaffinity(0, &cpus) < 0)
                return 1;
        return (unsigned) MIN(o->threads, MAX(bitset_weight(&cpus), 1U));
}

static SolveParams params_of(Run *r, const Options *o, const atomic_bool *stop) {
        SolveParams p = { .seed = o->has_seed ? o->seed : 1,
                          .sweeps = o->has_sweeps ? o->sweeps : 0,
                          .budget_usec = left_of(solve_budget(o), r->model->recognise_usec),
                          .stop = stop,
                          .threads = threads_of(o),
                          .improved = improved,
                          .improved_userdata = r,
                          .has_target = o->has_target,
                          .target = r->target };

        p.clock = p.budget_usec > 0 ? run_clock : NULL;
        return p;
}

void run_solver(Run *r, const Options *o, const atomic_bool *stop) {
        const Model *m = r->model;
        SolveParams p;

        r->has_target = o->has_target;
        r->target = o->has_target ? instance_target(m->in, o->target) : 0;
        p = params_of(r, o, stop);
        r->trace = calloc(TRACE_MAX + 1, sizeof(*r->trace));
        if (!r->trace) {
                r->error = -ENOMEM;
                return;
        }
        r->begin = clock_monotonic_usec() - m->recognise_usec;
        r->error = solve_or_pass(m, r->solver, &p, &r->result);
        if (r->error >= 0)
                improved(r, r->result.energy);
        r->usec = MAX(clock_monotonic_usec() - r->begin, UINT64_C(1));
        if (r->error < 0)
                return;
        r->value = instance_value_of(m->in, r->result.x);
        r->result.proved = r->result.proved && m->in->scale.exact;
}

void run_done(Run *r) {
        solve_result_done(&r->result);
        free(r->trace);
        r->trace = NULL;
}

const char *run_error(const Run *r) {
        switch (r->error) {
        case -EINVAL: return "does not fit this model";
        case -EFBIG: return "needs more couplings than are allowed";
        case -EOVERFLOW: return "needs penalties that do not fit into 32 bits";
        case -ENOMEM: return "ran out of memory";
        default: return strerror(-r->error);
        }
}

int run_failed(const Run *r) {
        _cleanup_free_ char *names = NULL;

        if (r->error != -EINVAL) {
                log_error("%s: solver %s %s; %s.", r->model->path, r->solver->name, run_error(r),
                          r->error == -ENOMEM ? "free some, or give it fewer --threads" : "try --solver=auto");
                return EXIT_FAILED;
        }
        for (size_t i = 0; solvers[i]; i++) {
                char *s = NULL;

                if (!run_fits(r->model, solvers[i]))
                        continue;
                if (asprintf(&s, "%s%s%s", strempty(names), names ? ", " : "", solvers[i]->name) < 0)
                        break;
                free(names);
                names = s;
        }
        log_error("%s: solver %s does not fit this model; those that do are %s.", r->model->path, r->solver->name,
                  strempty(names));
        return EXIT_FAILED;
}

PatienceWords run_patience(const Options *o, const char *what, Run **running) {
        return (PatienceWords){ .what = what,
                                .tick_usec = USEC_PER_SEC / 10,
                                .limited = o->has_time || !o->has_sweeps,
                                .status = run_status,
                                .userdata = running };
}

void run_status(void *userdata, char *buf, size_t size) {
        const Run *r = __atomic_load_n((Run *const *) userdata, __ATOMIC_ACQUIRE);
        _cleanup_free_ char *value = NULL;
        int64_t best = r ? atomic_load(&r->best) : INT64_MAX;

        if (best == INT64_MAX)
                return;
        value = instance_format_value(r->model->in, instance_value(r->model->in, best));
        snprintf(buf, size, "%s: best %s", r->solver->name, strempty(value));
}

json_t *json_value(const Instance *in, long double value) {
        if (value == floorl(value) && fabsl(value) < 0x1p63L)
                return json_integer((json_int_t) value);
        return json_real((double) value);
}

static json_t *trace_to_json(const Run *r) {
        size_t step = r->n_trace / TRACE_JSON + 1;
        json_t *a = json_array();

        for (size_t i = 0; a && i < r->n_trace; i++)
                if (i % step == 0 || i + 1 == r->n_trace)
                        (void) json_array_append_new(
                                a,
                                json_pack("[f,o]", seconds(r->trace[i].usec),
                                          json_value(r->model->in, instance_value(r->model->in, r->trace[i].energy))));
        return a;
}

json_t *run_to_json(const Run *r, const Options *o) {
        const Instance *in = r->model->in;
        const SolveResult *s = &r->result;
        bool bounded = s->lower_bound != INT64_MIN && in->scale.exact;

        if (r->error < 0)
                return json_pack("{s:s,s:s}", "solver", r->solver->name, "error", run_error(r));
        return json_pack("{s:o,s:o,s:b,s:f,s:f,s:f,s:I,s:I,s:f,s:s,s:s,s:I,s:I,s:o}", "best", json_value(in, r->value),
                         "bound", bounded ? json_value(in, instance_value(in, s->lower_bound)) : json_null(), "proved",
                         s->proved, "time_to_best", seconds(r->to_best), "time_to_target",
                         r->reached ? seconds(r->to_target) : -1.0, "time", seconds(r->usec), "sweeps",
                         (json_int_t) s->sweeps, "flips", (json_int_t) s->flips, "flips_per_ns",
                         (double) s->flips / ((double) r->usec * 1000), "solver", r->solver->name, "found_by",
                         s->solver, "seed", (json_int_t) (o->has_seed ? o->seed : 1), "threads",
                         (json_int_t) (o->has_threads ? o->threads : 1), "trace", trace_to_json(r));
}
