/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small vocabulary that every file here uses: cleanup attributes (one owner, bound to a scope), ownership
 * handed over in one expression, array sizes, comparison.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((__cleanup__(f)))
#define _cleanup_free_ _cleanup_(freep)
#define _cleanup_close_ _cleanup_(closep)
#define _cleanup_fclose_ _cleanup_(fclosep)
#define _printf_(a, b) __attribute__((__format__(__printf__, a, b)))
#define _unused_ __attribute__((__unused__))
#define _pure_ __attribute__((__pure__))

#define ELEMENTSOF(a) (sizeof(a) / sizeof((a)[0]))
#define UNIQUE_PASTE(name, q) name##q
#define UNIQUE(name, q) UNIQUE_PASTE(name, q)
/* Each use has variables of its own (q counts), so that MIN(MIN(a, b), c) shadows nothing. */
#define MIN(a, b) COMPARE_PICK(__COUNTER__, <, a, b)
#define MAX(a, b) COMPARE_PICK(__COUNTER__, >, a, b)
#define COMPARE_PICK(q, op, a, b)                                                                                      \
        ({                                                                                                             \
                __typeof__(a) UNIQUE(_a, q) = (a);                                                                     \
                __typeof__(b) UNIQUE(_b, q) = (b);                                                                     \
                UNIQUE(_a, q) op UNIQUE(_b, q) ? UNIQUE(_a, q) : UNIQUE(_b, q);                                        \
        })
/* Three-way comparison, for qsort and for ordered decisions. */
#define CMP(a, b) ((a) < (b) ? -1 : (a) > (b) ? 1 : 0)

/* Reads x and leaves "none" behind: the value has a new owner. */
#define TAKE_PTR(p)                                                                                                    \
        ({                                                                                                             \
                __typeof__(p) *_p = &(p);                                                                              \
                __typeof__(p) _v = *_p;                                                                                \
                *_p = NULL;                                                                                            \
                _v;                                                                                                    \
        })
#define TAKE_FD(fd)                                                                                                    \
        ({                                                                                                             \
                int *_f = &(fd);                                                                                       \
                int _v = *_f;                                                                                          \
                *_f = -1;                                                                                              \
                _v;                                                                                                    \
        })

/* static inline void FUNCp(TYPE *p): for _cleanup_(FUNCp) on a variable of type TYPE (a pointer). */
#define DEFINE_CLEANUP(type, func)                                                                                     \
        static inline void func##p(type *p) {                                                                          \
                if (*p)                                                                                                \
                        func(*p);                                                                                      \
        }                                                                                                              \
        struct _cleanup_semicolon

static inline void freep(void *p) {
        free(*(void **) p);
}

static inline void closep(int *fd) {
        if (*fd >= 0)
                (void) close(*fd);
}

static inline void fclosep(FILE **f) {
        if (*f)
                (void) fclose(*f);
}

static inline bool streq(const char *a, const char *b) {
        return strcmp(a, b) == 0;
}

/* "" for NULL, so that a string that may be absent can be printed. */
static inline const char *strempty(const char *s) {
        return s ? s : "";
}
