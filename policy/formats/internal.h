/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What readers and writers share. A sparse file is read in a pass that gives each of its terms to a Sink: a first time
 * into whole numbers, and, if one of them is none or does not fit, a second time into the double form.
 */
#pragma once

#include "policy/formats/scan.h"

typedef struct Sink {
        uint32_t n;
        size_t n_terms;
        QuboBuilder *whole; /* one of both */
        RealQubo *real;
        bool want_real;
} Sink;

#define SINK_DECIMALS 1 /* from a pass: it has to be done again, in the double form */

/* Once, before the first term. */
int sink_open(Scan *s, Sink *k, uint64_t n);
/* factor * w x_i x_j; i == j: linear. 0, SINK_DECIMALS or a negative errno with a sentence. */
int sink_add(Scan *s, Sink *k, uint32_t i, uint32_t j, const Number *w, int factor);
int sink_add_offset(Scan *s, Sink *k, const Number *w, int factor);

typedef int (*Pass)(Scan *s, Sink *k, Instance *in);
/* Fills in->q, in->real, in->scale. */
int read_by_pass(Scan *s, Pass pass, Instance *in);

/* Takes r of qubo_build() and the like and gives a sentence. */
int build_failed(const Scan *s, int r);
int comment_keep(Scan *s, const char *text, size_t n); /* s->userdata is the Instance */

int mc_read(const char *name, const char *text, size_t size, Instance *in, char **ret_message);
int qubo_read(const char *name, const char *text, size_t size, Instance *in, char **ret_message);
int qbsolv_read(const char *name, const char *text, size_t size, Instance *in, char **ret_message);
int coo_read(const char *name, const char *text, size_t size, Instance *in, char **ret_message);
int qaplib_read(const char *name, const char *text, size_t size, Instance *in, char **ret_message);
int placement_read(const char *name, const char *text, size_t size, Instance *in, char **ret_message);

bool mc_detect(const char *text, size_t size);
bool qubo_detect(const char *text, size_t size);
bool qbsolv_detect(const char *text, size_t size);
bool coo_detect(const char *text, size_t size);
bool qaplib_detect(const char *text, size_t size);
bool placement_detect(const char *text, size_t size);

int mc_write(const Instance *in, Written *ret, char **ret_message);
int qubo_write(const Instance *in, Written *ret, char **ret_message);
int qbsolv_write(const Instance *in, Written *ret, char **ret_message);
int coo_write(const Instance *in, Written *ret, char **ret_message);
int qaplib_write(const Instance *in, Written *ret, char **ret_message);
int placement_write(const Instance *in, Written *ret, char **ret_message);
