/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that hold a model, read from text in memory and written to it: one table of formats. A reader makes an
 * Instance: the model as solvers take it (minimised, whole numbers), and how one of its energies becomes the file's own
 * value, in the file's own sense. A file with decimals is brought to whole numbers by a power of ten if that fits
 * (then nothing is lost), else rounded with the terms kept beside, see real.h.
 *
 * Readers believe nothing: counts are compared with what is there, and memory follows the text (about 50 bytes for each
 * coupling), not what a header says of it, but for the variables, of which there are at most FORMAT_VARIABLES_MAX (32
 * bytes each). What is wrong becomes one sentence with the number of the line.
 *
 * Ownership: an Instance owns all it points to; the text is the caller's and not kept.
 */
#pragma once

#include "policy/qubo/qubo.h"
#include "policy/qubo/real.h"

#define FORMAT_VARIABLES_MAX (UINT32_C(4) << 20)
#define FORMAT_COUPLINGS_MAX (QUBO_EXPAND_MAX / 2)

typedef struct Format Format;

typedef struct Instance {
        const Format *format;
        Qubo *q;
        RealQubo *real; /* the terms as they stand where q is rounded, or its numbers had to be shortened; else NULL */
        RealScale scale;
        bool maximise;     /* value = -energy * unit / scale, else energy * unit / scale */
        uint32_t first;    /* number of the first variable, group and choice in the file: 0 or 1 */
        bool spins;        /* the file's variables are -1 and 1, x = (s + 1) / 2 */
        const char *group; /* what a group is called ("task"), and a choice ("device"); NULL: there are none */
        const char *choice;
        char **comments; /* words of the file for people, without their marks; may be NULL */
        char *source;    /* a placement file's text: it cannot be made from a model */
        bool has_plain;  /* a placement file says what its form without structure is: value = 2 (penalty * groups */
        int64_t penalty; /*   + constant - value here), maximised, as .qubo */
        int64_t constant;
} Instance;

/* Text that was written, and what its values are: factor * value of the instance + constant, of feasible points. */
typedef struct Written {
        char *text;
        size_t size;
        double factor, constant;
} Written;

struct Format {
        const char *name, *suffix;                     /* suffix without its dot */
        const char *help;                              /* one sentence */
        bool (*detect)(const char *text, size_t size); /* by what it begins with; text may be cut short */
        int (*read)(const char *name, const char *text, size_t size, Instance *in, char **ret_message);
        int (*write)(const Instance *in, Written *ret, char **ret_message);
};

extern const Format formats[];                    /* ends with name NULL */
const Format *format_by_name(const char *name);   /* NULL: none */
const Format *format_by_suffix(const char *path); /* "X.mc", "X.mc.gz"; NULL: none */
/* By content where that is plain, else by suffix (path may be NULL). -EINVAL and a sentence: cannot be told. */
int format_detect(const char *path, const char *text, size_t size, const Format **ret, char **ret_message);
char *format_names(void); /* "mc, qubo, …"; NULL: out of memory */

/*
 * name is for messages; format NULL: detected. text[size] must be NUL. -EINVAL: not such a file; -ERANGE: a number does
 * not fit; -EFBIG; -EOVERFLOW: energies would not fit; -ENOMEM. All but the last with a sentence.
 */
int instance_read(const Format *format, const char *name, const char *text, size_t size, Instance **ret,
                  char **ret_message);
Instance *instance_free(Instance *in);
DEFINE_CLEANUP(Instance *, instance_free);
/* -EINVAL: what the instance says cannot be said in this format; else as above. */
int instance_write(const Instance *in, const Format *format, Written *ret, char **ret_message);
void written_done(Written *w);

/* The file's value of an energy of in->q; of bits, from the file's terms (long double's rounding aside). */
long double instance_value(const Instance *in, int64_t energy);
long double instance_value_of(const Instance *in, const uint8_t *x);
/* The largest energy that is at least as good as a value of the file; saturates. */
int64_t instance_target(const Instance *in, double value);
/* Without an error where the file's numbers are whole or decimals that fit; else as short as says it. */
char *instance_format_value(const Instance *in, long double value); /* NULL: out of memory */
char *instance_solution(const Instance *in, const uint8_t *x);      /* text, see solution.c; NULL: out of memory */
/* Feasible: variable after variable as is cheapest by then, in one pass over the couplings (products aside). NULL: out of
 * memory. */
uint8_t *instance_any_point(const Instance *in);
