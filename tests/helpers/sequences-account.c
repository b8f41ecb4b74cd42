/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account: what each thread's mask was before it was placed, and what became of it since. Steps say here what they
 * have done; nothing is asked of the daemon. "Placed", "put back" and "rewritten" are what a job, a revert and the owner
 * of a cpuset do to a thread.
 */
#include "sequences.h"

void for_tids(World *w, Puppet *p, void (*f)(World *, Puppet *, Tid *, Set)) {
        for (unsigned i = 0; i < 1 + p->n_children; i++) {
                pid_t pid = i == 0 ? p->pid : p->children[i - 1];
                _cleanup_free_ pid_t *tids = NULL;
                unsigned n = 0;

                (void) tids_of(pid, &tids, &n);
                for (unsigned k = 0; k < n; k++)
                        f(w, p, tid_of(p, tids[k]), allowed_of(w, pid));
        }
}

/* A mask that is all its cpuset allows when it is placed counts as following the cpuset. */
static void placed(World *w, Puppet *p, Tid *t, Set allowed) {
        if (t->own &
            ~allowed) /* the kernel (6.2 and later) keeps a part that nobody can read, and gives it back one day */
                t->vague = true;
        if (expected_mask(t->own, allowed) == allowed)
                t->own = 0;
}

/* What is put back stays inside the cpuset of now, and lacks CPUs that are offline now. */
static void put_back(World *w, Puppet *p, Tid *t, Set allowed) {
        if (t->theirs)
                t->own = t->theirs;
        else if (t->own & ~allowed)
                t->vague = true;
        t->theirs = 0;
}

void rewritten(World *w, Puppet *p, Tid *t, Set allowed) {
        if (t->theirs)
                t->vague = true;
        else if (p->job == NONE && !w->keeps_masks)
                t->own = 0;
}

void unsure(World *w, Puppet *p, Tid *t, Set allowed) {
        t->vague = t->vague || t->theirs || (t->own && !w->keeps_masks);
}

void everybody(World *w, void (*f)(World *, Puppet *, Tid *, Set)) {
        for (unsigned i = 0; i < PUPPETS; i++)
                if (w->puppets[i].pid > 0)
                        for_tids(w, &w->puppets[i], f);
}

void leave_job(World *w, Puppet *p) {
        if (p->job == NONE)
                return;
        p->job = NONE;
        for_tids(w, p, put_back);
}

/* The job is of these puppets now. */
void assign(World *w, int job, unsigned puppets) {
        for (unsigned i = 0; i < PUPPETS; i++) {
                Puppet *p = &w->puppets[i];

                if (puppets >> i & 1) {
                        if (p->job == NONE)
                                for_tids(w, p, placed);
                        p->job = job;
                } else if (p->job == job)
                        leave_job(w, p);
        }
}

unsigned puppets_of(const World *w, int job) {
        unsigned set = 0;

        for (unsigned i = 0; i < PUPPETS; i++)
                set |= (unsigned) (w->puppets[i].pid > 0 && w->puppets[i].job == job) << i;
        return set;
}
