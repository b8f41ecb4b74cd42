/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/qubo/portfolio.h"

#include <errno.h>
#include <pthread.h>

typedef struct Race {
        const Portfolio *o;
        PortfolioTask *tasks;
        unsigned n_tasks;
        atomic_uint next;
        atomic_bool over;
        pthread_mutex_t lock; /* of reported, and so that nobody is told of two points at once */
        int64_t reported;
} Race;

static const SolveParams *params_of(const Race *r) {
        return r->o->limit.p;
}

static bool is_timed(const Race *r) {
        return r->o->limit.deadline != UINT64_MAX;
}

static void race_improved(void *userdata, int64_t energy) {
        Race *r = userdata;
        const SolveParams *p = params_of(r);

        pthread_mutex_lock(&r->lock);
        if (energy < r->reported) {
                r->reported = energy;
                p->improved(p->improved_userdata, energy);
        }
        pthread_mutex_unlock(&r->lock);
}

static void run_task(Race *r, PortfolioTask *t) {
        const SolveParams *whole = params_of(r);
        SolveParams p = *whole;

        p.seed = t->seed;
        p.sweeps = t->sweeps;
        p.improved = whole->improved ? race_improved : NULL;
        p.improved_userdata = r;
        p.budget_usec = is_timed(r) ? MAX(MIN(t->usec, limit_left(&r->o->limit)), 1U) : 0;
        p.start = r->o->best.energy == INT64_MAX ? NULL : r->o->best.x;
        p.cancel = is_timed(r) ? &r->over : whole->cancel;
        p.threads = 1;
        t->error = qubo_solve(r->o->q, t->solver, &p, &t->result);
        if (t->error >= 0 && (t->result.proved || (p.has_target && t->result.energy <= p.target)))
                atomic_store(&r->over, true);
}

static void *race_thread(void *userdata) {
        Race *r = userdata;
        unsigned i;

        while ((i = atomic_fetch_add(&r->next, 1)) < r->n_tasks)
                if (!is_timed(r) || !atomic_load(&r->over))
                        run_task(r, &r->tasks[i]);
        return NULL;
}

static void race_on_threads(Race *r) {
        unsigned want = MIN(params_of(r)->threads, r->n_tasks), n = 0;
        pthread_t threads[PORTFOLIO_TASKS_MAX];

        while (n + 1 < want && pthread_create(&threads[n], NULL, race_thread, r) == 0)
                n++;
        race_thread(r);
        while (n > 0)
                pthread_join(threads[--n], NULL);
}

static int take_result(Portfolio *o, PortfolioTask *t) {
        if (t->error == -ECANCELED || t->error == -EOVERFLOW ||
            t->error == -EFBIG) /* or it cannot be lowered for this one */
                return 0;
        if (!t->solver || t->error < 0 || !t->result.x)
                return t->error;
        if (t->result.energy < o->best.energy || !o->r->solver) {
                o->r->solver = t->result.solver;
                best_offer(&o->best, &o->limit, t->result.x, t->result.energy);
        }
        if (t->result.proved)
                o->r->solver = t->result.solver;
        o->r->lower_bound = MAX(o->r->lower_bound, t->result.lower_bound);
        o->r->proved |= t->result.proved;
        o->r->sweeps += t->result.sweeps;
        o->r->flips += t->result.flips;
        return 0;
}

int portfolio_run(Portfolio *o, PortfolioTask *tasks, unsigned n_tasks) {
        Race r = {
                .o = o, .tasks = tasks, .n_tasks = MIN(n_tasks, PORTFOLIO_TASKS_MAX), .reported = o->limit.reported
        };
        int e = 0;

        pthread_mutex_init(&r.lock, NULL);
        race_on_threads(&r);
        pthread_mutex_destroy(&r.lock);
        o->limit.reported = MIN(o->limit.reported, r.reported);
        for (unsigned i = 0; i < r.n_tasks; i++) {
                int x = take_result(o, &tasks[i]);

                e = e < 0 ? e : x;
                solve_result_done(&tasks[i].result);
        }
        return e;
}
