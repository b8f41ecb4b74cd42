/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot + jobs + weights -> plan, step by step:
 *   1. fit tasks to ranks                      ranks_match
 *   2. candidates, sizes, what cannot be       placement_new
 *   3. the model, solved from where things are placement_build, qubo_solve
 *   4. leave alone, unless clearly better      prefer_stay
 *   5. bits -> plan with its energy by term    fill_plan
 */
#include "policy/decide.h"

#include <errno.h>

#include "common/text.h"
#include "policy/explain.h"
#include "policy/problems/blocks.h"

/* Above this many ranks, reasons are worked out only when asked for: they take ranks x candidates x terms. */
#define REASONS_RANKS_MAX 32U
#define SWEEPS_WORK UINT64_C(75000)
#define SWEEPS_MIN UINT64_C(32)
#define SWEEPS_MAX UINT64_C(400)

void decide_params_default(DecideParams *p) {
        *p = (DecideParams){ .solver = "auto", .seed = 1, .hysteresis = 0.02, .housekeeping_cores = -1, .threads = 1 };
        placement_weights_default(&p->weights);
}

typedef struct Decision { /* what the steps hand on; everything owned here */
        const Snapshot *snapshot;
        const DecideParams *params;
        RankList ranks;
        Placement *placement;
        Qubo *qubo;
        SolveResult result;
        uint32_t *chosen;
        size_t n_chosen;
        Plan *plan;
} Decision;

static void decision_done(Decision *d) {
        rank_list_done(&d->ranks);
        placement_free(d->placement);
        qubo_free(d->qubo);
        solve_result_done(&d->result);
        free(d->chosen);
        plan_free(d->plan);
}

static uint64_t now(const DecideParams *p) {
        return p->clock ? p->clock(p->userdata) : 0;
}

static int take_messages(Plan *plan, char *const *messages) {
        for (; messages && *messages; messages++) {
                int r = strv_extend(&plan->messages, *messages);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* As much work as a plan of that size is worth: the time budget is an upper limit, not a length. A sweep of the solvers
 * takes some time per choice and some per coupled group. */
static uint64_t worth_sweeps(const Qubo *q) {
        uint64_t work = (uint64_t) q->n + 1 + 32 * (uint64_t) q->n_groups;

        return MAX(MIN(SWEEPS_WORK / work, SWEEPS_MAX), SWEEPS_MIN);
}

static int solve(Decision *d, const Solver *solver, char **ret_message) {
        const DecideParams *p = d->params;
        SolveParams sp = {
                .seed = p->seed,
                .sweeps = p->sweeps,
                .budget_usec = p->budget_usec,
                .clock = p->clock,
                .userdata = p->userdata,
                .stop = p->stop,
                .threads = p->threads,
        };
        _cleanup_free_ uint8_t *start = NULL;
        int r;

        r = placement_build(d->placement, &d->qubo);
        if (r == -EFBIG)
                return text_fail(r, ret_message,
                                 "The model of %u ranks on %zu devices is too large: place fewer at once, or describe "
                                 "their traffic by Ring= or parallel groups instead of a matrix",
                                 d->placement->n_ranks, d->snapshot->n_devices);
        if (r == -EOVERFLOW)
                return text_fail(r, ret_message, "The model's prices do not fit into its integers: lower the weights");
        if (r < 0)
                return r;
        if (solver->fits && !solver->fits(d->qubo))
                return text_fail(-EINVAL, ret_message, "Solver %s does not take a model of %u variables; use auto",
                                 solver->name, d->qubo->n);
        if (sp.sweeps == 0 && solver == solver_by_name("auto"))
                sp.sweeps = worth_sweeps(d->qubo);
        start = malloc(MAX(d->qubo->n, 1U));
        if (!start)
                return -ENOMEM;
        if (placement_stay(d->placement, NULL, start))
                sp.start = start;
        return qubo_solve(d->qubo, solver, &sp, &d->result);
}

static int tell_stay(Decision *d, int64_t before) {
        double scale = d->placement->scale, now = (double) before / scale, then = (double) d->result.energy / scale;

        return strv_extendf(
                &d->plan->messages,
                "All stays where it is, at a cost of %.6g: the best other plan costs %.6g, moving included, "
                "and must be better by %.3g %%",
                now, then, 100 * d->params->hysteresis);
}

/* A new plan must beat "leave everything as it is" by more than what moving costs (that is in its energy: the move
 * term) and than a share of the energy before: a difference that small is noise in the prices. */
static int prefer_stay(Decision *d) {
        _cleanup_free_ uint8_t *stay = malloc(MAX(d->qubo->n, 1U));
        int64_t before;
        int r;

        if (!stay)
                return -ENOMEM;
        if (!placement_stay(d->placement, d->result.x, stay))
                return 0;
        before = qubo_energy(d->qubo, stay);
        if ((double) (before - d->result.energy) <= d->params->hysteresis * fabs((double) before)) {
                r = d->result.energy == before ? 0 : tell_stay(d, before);
                if (r < 0)
                        return r;
                d->result.proved = d->result.proved && d->result.energy == before;
                d->result.energy = before;
                memcpy(d->result.x, stay, d->qubo->n);
        }
        return 0;
}

static int fill_mems(const Placement *p, const PlacementRank *k, const Block *b, Bitset *ret) {
        const Topology *t = p->snapshot->topology;
        const Bitset *may = k->rank->task && !bitset_isempty(&k->rank->task->mems) ? &k->rank->task->mems
                                                                                   : &t->allowed_nodes;

        for (unsigned n = 0; n < t->n_nodes; n++) {
                _cleanup_free_ unsigned *near = NULL;

                if (b->share[n] == 0)
                        continue;
                near = calloc(t->n_nodes, sizeof(unsigned));
                if (!near)
                        return -ENOMEM;
                topology_nodes_by_distance(t, n, near);
                for (unsigned i = 0; i < t->n_nodes; i++)
                        if (t->nodes[near[i]].memory > 0 && bitset_test(may, t->nodes[near[i]].os)) {
                                int r = bitset_set(ret, t->nodes[near[i]].os);
                                if (r < 0)
                                        return r;
                                break;
                        }
        }
        return 0;
}

static int fill_process(PlanTask *pt, const Task *t) {
        int r;

        pt->process = (Process){ t->pid, t->start_time };
        pt->uid = t->uid;
        pt->owned = t->owner_kind == OWNER_QSCHED;
        pt->fixed = t->fixed;
        if (t->n_children > 0) {
                pt->children = calloc(t->n_children, sizeof(Process));
                if (!pt->children)
                        return -ENOMEM;
                memcpy(pt->children, t->children, t->n_children * sizeof(Process));
                pt->n_children = t->n_children;
        }
        r = bitset_copy(&pt->cpus_before, &t->cpus);
        return r < 0 ? r : bitset_copy(&pt->mems_before, &t->mems);
}

static int fill_choice(Decision *d, PlanTask *pt, uint32_t variable) {
        const Placement *p = d->placement;
        const Candidate *c = p->candidates + variable;
        int r = 0;

        placement_share(p, variable, d->chosen, d->n_chosen, 0.5, pt->energy.terms);
        if (c->kind == CANDIDATE_CPUS) {
                r = bitset_copy(&pt->cpus, &p->blocks[c->block].cpus);
                return r < 0 ? r : fill_mems(p, p->ranks + c->rank, p->blocks + c->block, &pt->mems);
        }
        for (unsigned i = 0; i < c->n_devices && r >= 0; i++)
                r = strv_extend(&pt->devices, d->snapshot->devices[c->devices[i]].name);
        return r;
}

static int fill_task(Decision *d, unsigned rank) {
        const PlacementRank *k = d->placement->ranks + rank;
        PlanTask *pt = d->plan->tasks + d->plan->n_tasks++;
        int r;

        pt->name = strdup(k->rank->name);
        pt->job = strdup(k->rank->job->name);
        if (!pt->name || !pt->job)
                return -ENOMEM;
        for (size_t i = 0; i < d->n_chosen; i++)
                if (d->placement->candidates[d->chosen[i]].rank == rank) {
                        r = fill_choice(d, pt, d->chosen[i]);
                        if (r < 0)
                                return r;
                }
        for (size_t i = 0; i < PLACEMENT_TERM_MAX; i++)
                pt->energy.total += pt->energy.terms[i];
        pt->energy.known = true;
        pt->memory_wall = k->rank->section->memory_wall;
        pt->memory = k->rank->section->memory;
        if (k->rank->task) {
                r = fill_process(pt, k->rank->task);
                if (r < 0)
                        return r;
        }
        pt->changed = pt->process.pid == 0 || !bitset_equal(&pt->cpus, &pt->cpus_before);
        d->plan->changed = d->plan->changed || pt->changed;
        if (d->placement->n_ranks > REASONS_RANKS_MAX && !d->params->explain)
                return 0;
        return explain_rank(d->placement, rank, d->chosen, d->n_chosen, &pt->reasons);
}

/* Interrupt CPUs come last: they are what the ranks left over. */
static int fill_irqs(Decision *d) {
        const Placement *p = d->placement;
        _cleanup_(bitset_done) Bitset taken = BITSET_EMPTY;
        int r;

        for (size_t i = 0; i < d->plan->n_tasks; i++) {
                r = bitset_or(&taken, &d->plan->tasks[i].cpus);
                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < d->n_chosen; i++) {
                const Candidate *c = p->candidates + d->chosen[i];

                if (c->kind != CANDIDATE_CPUS || !d->plan->tasks[c->rank].devices)
                        continue;
                r = blocks_irq(p, p->blocks + c->block, &taken, &d->plan->tasks[c->rank].irq_cpus);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int fill_energies(Decision *d) {
        Plan *plan = d->plan;
        _cleanup_free_ uint32_t *before = calloc(MAX(d->qubo->n, 1U), sizeof(uint32_t));
        size_t n;

        if (!before)
                return -ENOMEM;
        plan->energy.known = true;
        placement_energy(d->placement, d->chosen, d->n_chosen, plan->energy.terms, &plan->energy.total);
        n = placement_present(d->placement, d->result.x, before);
        plan->energy_before.known = n > 0;
        placement_energy(d->placement, before, n, plan->energy_before.terms, &plan->energy_before.total);

        plan->optimal = d->result.proved;
        if (plan->optimal)
                plan->lower_bound = plan->energy.total;
        else if (d->result.lower_bound != INT64_MIN)
                plan->lower_bound = MIN((double) d->result.lower_bound / d->placement->scale, plan->energy.total);
        plan->solver = d->result.solver;
        return 0;
}

static int tell_memory(Decision *d) {
        const Topology *t = d->snapshot->topology;

        for (unsigned n = 0; n < t->n_nodes; n++) {
                uint64_t want = 0, have = t->nodes[n].free == UINT64_MAX ? t->nodes[n].memory : t->nodes[n].free;
                char a[32], b[32];

                for (size_t i = 0; i < d->n_chosen; i++) {
                        const Candidate *c = d->placement->candidates + d->chosen[i];

                        if (c->kind == CANDIDATE_CPUS && d->placement->blocks[c->block].memory_node == n)
                                want += d->placement->ranks[c->rank].rank->section->memory;
                }
                if (want > have) {
                        int r = strv_extendf(
                                &d->plan->messages,
                                "Node %u: its ranks want %s of memory, %s %s there; the rest goes to other nodes",
                                t->nodes[n].os, text_format_bytes(a, sizeof(a), want),
                                text_format_bytes(b, sizeof(b), have),
                                t->nodes[n].free == UINT64_MAX ? "is" : "is free");
                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

/* A device that is not well is used when the others cost more: said, so that nobody finds out from a failed step. */
static int tell_health(Decision *d) {
        for (size_t i = 0; i < d->n_chosen; i++) {
                const Candidate *c = d->placement->candidates + d->chosen[i];

                for (unsigned k = 0; c->kind == CANDIDATE_DEVICES && k < c->n_devices; k++) {
                        const Device *dev = d->snapshot->devices + c->devices[k];
                        int r;

                        if (dev->health != HEALTH_ALARM && dev->health != HEALTH_CRITICAL)
                                continue;
                        r = strv_extendf(&d->plan->messages, "%s is on %s, whose health is %s",
                                         d->plan->tasks[c->rank].name, dev->name, health_names[dev->health]);
                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

static int fill_plan(Decision *d) {
        Plan *plan = d->plan;
        int r;

        d->chosen = calloc(MAX(d->qubo->n, 1U), sizeof(uint32_t));
        plan->tasks = calloc(MAX(d->placement->n_ranks, 1U), sizeof(PlanTask));
        if (!d->chosen || !plan->tasks)
                return -ENOMEM;
        d->n_chosen = placement_chosen(d->placement, d->result.x, d->chosen);
        for (unsigned i = 0; i < d->placement->n_ranks; i++) {
                r = fill_task(d, i);
                if (r < 0)
                        return r;
        }
        plan->feasible = true;
        r = fill_irqs(d);
        if (r >= 0)
                r = fill_energies(d);
        if (r >= 0)
                r = bitset_copy(&plan->housekeeping, &d->placement->housekeeping);
        if (r >= 0)
                r = take_messages(plan, d->placement->messages);
        if (r >= 0)
                r = tell_health(d);
        return r < 0 ? r : tell_memory(d);
}

static int decide_steps(Decision *d, const Solver *solver, const Job *const *jobs, size_t n_jobs, char **ret_message) {
        const DecideParams *p = d->params;
        PlacementParams pp = { p->housekeeping_cores, &p->housekeeping };
        int r;

        r = ranks_match(d->snapshot, jobs, n_jobs, &d->ranks);
        if (r >= 0)
                r = take_messages(d->plan, d->ranks.messages);
        if (r >= 0)
                r = placement_new(d->snapshot, &d->ranks, jobs, n_jobs, &p->weights, &pp, &d->placement, ret_message);
        if (r < 0)
                return r;
        if (d->placement->causes)
                return take_messages(d->plan, d->placement->causes);
        r = solve(d, solver, ret_message);
        if (r < 0)
                return r;
        r = prefer_stay(d);
        return r < 0 ? r : fill_plan(d);
}

int decide(const Snapshot *s, const Job *const *jobs, size_t n_jobs, const DecideParams *p, Plan **ret,
           char **ret_message) {
        _cleanup_(decision_done) Decision d = { .snapshot = s, .params = p };
        const Solver *solver = solver_by_name(p->solver);
        uint64_t begin = now(p);
        int r;

        if (!solver)
                return text_fail(-EINVAL, ret_message, "There is no solver \"%s\"", p->solver);
        d.plan = calloc(1, sizeof(Plan));
        if (!d.plan)
                return -ENOMEM;
        d.plan->solver = solver->name;
        d.plan->seed = p->seed;
        d.plan->lower_bound = NAN;
        r = decide_steps(&d, solver, jobs, n_jobs, ret_message);
        if (r == -ERANGE) { /* a job that contradicts itself once its ranks are counted: infeasible, not an error */
                char *message = ret_message ? *ret_message : NULL;

                if (ret_message)
                        *ret_message = NULL;
                r = strv_push(&d.plan->messages,
                              message ? message : strdup("A job's traffic and its number of ranks do not go together"));
        }
        if (r < 0)
                return r;
        d.plan->elapsed_us = now(p) - begin;
        *ret = TAKE_PTR(d.plan);
        return 0;
}
