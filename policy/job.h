/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job: what an administrator asks for. Plain data; daemon/readers/jobfile.c makes it from text (qsched.job(5)).
 * Matching tasks to jobs and ranks is pure and lives here.
 */
#pragma once

#include "policy/snapshot.h"

#define JOB_RANKS_MAX 1024U

typedef enum MatchKind { MATCH_PID, MATCH_CMDLINE, MATCH_COMM, MATCH_CGROUP, MATCH_UNIT, _MATCH_MAX } MatchKind;
extern const char *const match_names[]; /* "pid", "cmdline", … */

typedef struct Match {
        MatchKind kind;
        char *pattern; /* glob (fnmatch); for MATCH_PID NULL */
        pid_t *pids;   /* for MATCH_PID, in the order given: it is the order of the ranks */
        uint64_t *
                start_times; /* of those pids, once job_bind() has seen them, else 0: a pid alone may be another's later */
        size_t n_pids;
} Match;

typedef struct Ranks {       /* one [Ranks NAME] section */
        char *name;          /* NULL for a bare [Ranks] */
        unsigned count;      /* 0: as many as match, at least 1 */
        unsigned cpus;       /* at most, logical CPUs; 0: an even share */
        unsigned min_cpus;   /* at least; >= 1 */
        uint64_t memory;     /* host memory, bytes per rank; 0 unknown */
        bool memory_wall;    /* its group may have memory on no other nodes than the plan's */
        char *device_kind;   /* NULL: none, or devices are named */
        unsigned n_devices;  /* of device_kind, per rank */
        char **device_names; /* one per rank in order; NULL */
        Match *match;        /* NULL: planned only, or started by run */
        unsigned line;       /* in the job file, for messages */
} Ranks;

typedef enum TrafficKind { TRAFFIC_NONE, TRAFFIC_MATRIX, TRAFFIC_RING, TRAFFIC_PARALLEL } TrafficKind;

typedef struct Traffic {
        TrafficKind kind;
        double *matrix; /* n x n, bytes/s */
        unsigned n;
        double ring; /* bytes/s to each neighbour */
        unsigned tp, pp, dp;
        double tp_bytes, pp_bytes, dp_bytes;
} Traffic;

typedef struct Job {
        char *name;
        unsigned priority; /* 0..100 */
        Ranks *ranks;
        size_t n_ranks;
        Traffic traffic;
        char *text;        /* the job file as given, and */
        char *matrix_text; /* the traffic matrix it names, or NULL: both travel and persist */
} Job;

Job *job_free(Job *j);
DEFINE_CLEANUP(Job *, job_free);

/* Number of ranks over all sections; sections with count 0 count as `matched` says (may be NULL: 1 each). */
unsigned job_count(const Job *j, const unsigned *matched);
/* Symmetric n x n matrix, bytes/s summed over both directions; *ret NULL when the job has no traffic. -ERANGE when n
 * and the description do not go together (message). Rank = tp + TP*(dp + DP*pp). */
int job_traffic(const Job *j, unsigned n, double **ret, char **ret_message);
bool match_task(const Match *m, const Task *t);
/* Binds the pids of Match=pid: to the processes that the snapshot shows under them now; bound ones stay as they are. */
int job_bind(Job *j, const Snapshot *s);

/* A rank to be placed: one row of the decision. */
typedef struct Rank {
        const Job *job;
        const Ranks *section;
        unsigned index;   /* within the job, over all its sections in order */
        unsigned of;      /* ranks of the job, with those that ended */
        char *name;       /* "train/0" */
        const Task *task; /* the process that fills it; NULL: planned only */
} Rank;

typedef struct RankList {
        Rank *ranks;
        size_t n_ranks;
        char **messages; /* processes beyond Count=, pids that do not exist, … */
} RankList;

/* Fits the snapshot's tasks to the jobs' ranks: a task belongs to the first job (by priority, then order) that matches
 * it or that its `job` names; descendants of a matched task belong to its rank; order by rank number where known
 * (torchrun's RANK …), else by the order of pid:, else by start time. Tasks that fit no rank stay foreign. A rank whose
 * bound process has ended can never be filled again, and is left out. */
int ranks_match(const Snapshot *s, const Job *const *jobs, size_t n_jobs, RankList *ret);
void rank_list_done(RankList *l);
