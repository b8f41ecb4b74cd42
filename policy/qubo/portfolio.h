/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several solvers on one model, each task on one of the threads. A task is a solver with a seed and a budget of its own,
 * and what it finds depends on nothing else, so that budgets of sweeps give the same result whatever the threads. Only
 * with a clock do tasks end each other: when one has reached the target or proved its result, the rest is called off.
 */
#pragma once

#include "policy/qubo/search.h"

#define PORTFOLIO_TASKS_MAX 256U

typedef struct PortfolioTask {
        const Solver *solver;
        uint64_t seed;
        uint64_t sweeps; /* 0 where there is a clock */
        uint64_t usec;   /* from its own beginning, where there is a clock */
        SolveResult result;
        int error; /* of qubo_solve() */
} PortfolioTask;

typedef struct Portfolio {
        const Qubo *q;
        Limit limit;
        SolveResult *r; /* sweeps, flips, lower_bound, proved and solver are kept here */
        Best best;
} Portfolio;

/*
 * Runs tasks on at most p->threads threads (fewer where no more can be had), beginning at the best point so far where
 * there is one, and keeps the best result: of equal ones the first task's. -ECANCELED, -EOVERFLOW and -EFBIG are no errors of a task.
 */
int portfolio_run(Portfolio *o, PortfolioTask *tasks, unsigned n_tasks);
