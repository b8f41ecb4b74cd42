/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who changed a mask, or the CPUs of a group of ours, as well as can be told: nobody signs a mask. author_read() gathers
 * evidence (unit files and drop-ins that name just these CPUs, kubelet's state, the process's own variables that make a
 * framework pin), author_judge() is the pure part that names the author, or says that it is not known. Of a process's
 * variables only names from the table in pins.h are ever told, never values.
 */
#pragma once

#include "daemon/readers/pins.h"

typedef enum AuthorKind {
        AUTHOR_UNKNOWN,
        AUTHOR_KERNEL,
        AUTHOR_SYSTEMD,
        AUTHOR_KUBELET,
        AUTHOR_ENGINE, /* of containers */
        AUTHOR_SLURM,
        AUTHOR_FRAMEWORK, /* in the process itself */
        _AUTHOR_MAX
} AuthorKind;

typedef struct AuthorEvidence {
        bool is_group;  /* CPUs of a group of ours, not a mask */
        Bitset found;   /* what is there */
        Bitset wanted;  /* what we had there */
        Bitset allowed; /* what the cpuset allows; empty unknown */
        Bitset online;
        OwnerKind owner_kind;
        char *owner;
        char *property; /* "AllowedCPUs=0-3": a unit file says just what is there */
        char *file;     /* … which */
        bool kubelet;   /* its CPU manager has given just that to a container */
        bool vllm;      /* a worker of vLLM on Ascend whose own binding is not off */
        const Pin *pin; /* a variable that makes a framework pin; NULL none */
} AuthorEvidence;

typedef struct Author {
        AuthorKind kind;
        char *who;  /* "systemd (AllowedCPUs=0-3 in …)": goes after "changed by" */
        char *hint; /* what turns it off; NULL nothing to say */
} Author;

typedef struct AuthorPlace { /* where to look */
        const char *root;    /* "" for this system */
        const Task *task;    /* may be NULL: not known */
        pid_t pid;           /* whose variables are read; 0: none */
        const char *group;   /* of ours, whose CPUs were changed; NULL: a mask was */
        bool ascend;         /* it holds an Ascend device */
        const Bitset *found, *wanted;
} AuthorPlace;

int author_read(const AuthorPlace *p, AuthorEvidence *ret);
void author_evidence_done(AuthorEvidence *e);
int author_judge(const AuthorEvidence *e, Author *ret);
void author_done(Author *a);
