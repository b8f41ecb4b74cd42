/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of small numbers as an array of 64-bit words that grows on demand. Trailing zero words carry no meaning: two
 * sets with the same members are equal whatever their sizes, so no function has to shrink. Growing is done before
 * anything is written, which is why a failed call leaves the set as it was.
 */
#include "bitset.h"

#include <ctype.h>
#include <errno.h>

#define WORD_BITS 64U
#define LONG_BITS (8U * sizeof(unsigned long))

static int grow(Bitset *b, unsigned n_words) {
        uint64_t *w;

        if (n_words <= b->n_words)
                return 0;
        w = realloc(b->words, n_words * sizeof(*w));
        if (!w)
                return -ENOMEM;
        memset(w + b->n_words, 0, (n_words - b->n_words) * sizeof(*w));
        b->words = w;
        b->n_words = n_words;
        return 0;
}

static uint64_t word(const Bitset *b, unsigned i) {
        return i < b->n_words ? b->words[i] : 0;
}

/* Number of words up to the last one that is not zero. */
static unsigned used_words(const Bitset *b) {
        unsigned n = b->n_words;

        while (n > 0 && b->words[n - 1] == 0)
                n--;
        return n;
}

void bitset_done(Bitset *b) {
        free(b->words);
        *b = BITSET_EMPTY;
}

int bitset_set(Bitset *b, unsigned i) {
        return bitset_set_range(b, i, i);
}

int bitset_set_range(Bitset *b, unsigned first, unsigned last) {
        int r;

        if (first > last)
                return -EINVAL;
        if (last >= BITSET_MAX)
                return -ERANGE;
        r = grow(b, last / WORD_BITS + 1);
        if (r < 0)
                return r;
        for (unsigned w = first / WORD_BITS; w <= last / WORD_BITS; w++) {
                unsigned lo = w == first / WORD_BITS ? first % WORD_BITS : 0;
                unsigned hi = w == last / WORD_BITS ? last % WORD_BITS : WORD_BITS - 1;

                b->words[w] |= (UINT64_MAX >> (WORD_BITS - 1 - (hi - lo))) << lo;
        }
        return 0;
}

void bitset_clear(Bitset *b, unsigned i) {
        if (i / WORD_BITS < b->n_words)
                b->words[i / WORD_BITS] &= ~(UINT64_C(1) << (i % WORD_BITS));
}

void bitset_zero(Bitset *b) {
        if (b->n_words > 0)
                memset(b->words, 0, b->n_words * sizeof(*b->words));
}

int bitset_copy(Bitset *dst, const Bitset *src) {
        unsigned n = used_words(src);
        int r;

        if (dst == src)
                return 0;
        r = grow(dst, n);
        if (r < 0)
                return r;
        for (unsigned i = 0; i < dst->n_words; i++)
                dst->words[i] = i < n ? src->words[i] : 0;
        return 0;
}

int bitset_or(Bitset *dst, const Bitset *src) {
        unsigned n = used_words(src);
        int r;

        r = grow(dst, n);
        if (r < 0)
                return r;
        for (unsigned i = 0; i < n; i++)
                dst->words[i] |= src->words[i];
        return 0;
}

void bitset_and(Bitset *dst, const Bitset *src) {
        for (unsigned i = 0; i < dst->n_words; i++)
                dst->words[i] &= word(src, i);
}

void bitset_andnot(Bitset *dst, const Bitset *src) {
        for (unsigned i = 0; i < dst->n_words; i++)
                dst->words[i] &= ~word(src, i);
}

bool bitset_test(const Bitset *b, unsigned i) {
        return word(b, i / WORD_BITS) >> (i % WORD_BITS) & 1;
}

bool bitset_isempty(const Bitset *b) {
        return used_words(b) == 0;
}

bool bitset_equal(const Bitset *a, const Bitset *b) {
        for (unsigned i = 0; i < MAX(a->n_words, b->n_words); i++)
                if (word(a, i) != word(b, i))
                        return false;
        return true;
}

bool bitset_subset(const Bitset *a, const Bitset *b) {
        for (unsigned i = 0; i < a->n_words; i++)
                if (a->words[i] & ~word(b, i))
                        return false;
        return true;
}

bool bitset_intersects(const Bitset *a, const Bitset *b) {
        for (unsigned i = 0; i < MIN(a->n_words, b->n_words); i++)
                if (a->words[i] & b->words[i])
                        return true;
        return false;
}

unsigned bitset_weight(const Bitset *b) {
        unsigned n = 0;

        for (unsigned i = 0; i < b->n_words; i++)
                n += (unsigned) __builtin_popcountll(b->words[i]);
        return n;
}

unsigned bitset_and_weight(const Bitset *a, const Bitset *b) {
        unsigned n = 0;

        for (unsigned i = 0; i < MIN(a->n_words, b->n_words); i++)
                n += (unsigned) __builtin_popcountll(a->words[i] & b->words[i]);
        return n;
}

int bitset_next(const Bitset *b, int prev) {
        unsigned i = prev < 0 ? 0 : (unsigned) prev + 1;

        for (unsigned w = i / WORD_BITS; w < b->n_words; w++, i = w * WORD_BITS) {
                uint64_t rest = b->words[w] >> (i % WORD_BITS);

                if (rest)
                        return (int) (i + (unsigned) __builtin_ctzll(rest));
        }
        return -1;
}

/* Reads decimal digits at *p and moves it behind them. */
static int parse_number(const char **p, unsigned *ret) {
        unsigned v = 0;

        if (!isdigit((unsigned char) **p))
                return -EINVAL;
        for (; isdigit((unsigned char) **p); (*p)++) {
                v = v * 10 + (unsigned) (**p - '0');
                if (v >= BITSET_MAX)
                        return -ERANGE;
        }
        *ret = v;
        return 0;
}

static int parse_range(const char **p, Bitset *b) {
        unsigned first, last;
        int r;

        r = parse_number(p, &first);
        if (r < 0)
                return r;
        last = first;
        if (**p == '-') {
                (*p)++;
                r = parse_number(p, &last);
                if (r < 0)
                        return r;
        }
        return bitset_set_range(b, first, last);
}

int bitset_parse(const char *text, Bitset *b) {
        _cleanup_(bitset_done) Bitset v = BITSET_EMPTY;
        const char *p = text;
        int r;

        /* Files of the kernel end in a newline. */
        if (*p != '\0' && !streq(p, "\n"))
                for (;;) {
                        r = parse_range(&p, &v);
                        if (r < 0)
                                return r;
                        if (*p == '\0' || streq(p, "\n"))
                                break;
                        if (*p++ != ',')
                                return -EINVAL;
                }
        bitset_done(b);
        *b = v;
        v = BITSET_EMPTY;
        return 0;
}

int bitset_format(const Bitset *b, char **ret) {
        char *text = NULL;
        size_t size;
        FILE *f;
        bool failed;

        f = open_memstream(&text, &size);
        if (!f)
                return -ENOMEM;
        BITSET_FOREACH (first, b) {
                int last = first;

                while (bitset_test(b, (unsigned) last + 1))
                        last++;
                fprintf(f, ftell(f) > 0 ? ",%d" : "%d", first);
                if (last > first)
                        fprintf(f, "-%d", last);
                first = last;
        }
        failed = ferror(f);
        if (fclose(f) != 0 || failed) {
                free(text);
                return -ENOMEM;
        }
        *ret = text;
        return 0;
}

int bitset_getaffinity(pid_t tid, Bitset *b) {
        _cleanup_(bitset_done) Bitset v = BITSET_EMPTY;
        _cleanup_free_ unsigned long *mask = NULL;
        /* The kernel says EINVAL while the buffer is smaller than its own mask: begin with 1,024 CPUs. */
        for (size_t size = 128;; size *= 2) {
                unsigned long *m = realloc(mask, size);

                if (!m)
                        return -ENOMEM;
                mask = m;
                if (sched_getaffinity(tid, size, (cpu_set_t *) mask) >= 0) {
                        for (size_t w = 0; w < size / sizeof(*mask); w++)
                                for (unsigned long left = mask[w]; left; left &= left - 1) {
                                        int r = bitset_set(&v, (unsigned) (w * LONG_BITS) + __builtin_ctzl(left));

                                        if (r < 0)
                                                return r;
                                }
                        break;
                }
                if (errno != EINVAL || size * 8 >= BITSET_MAX)
                        return -errno;
        }
        bitset_done(b);
        *b = v;
        v = BITSET_EMPTY;
        return 0;
}

int bitset_setaffinity(pid_t tid, const Bitset *b) {
        _cleanup_free_ unsigned long *mask = NULL;
        size_t size = MAX(b->n_words, 1U) * sizeof(uint64_t);

        mask = calloc(1, size);
        if (!mask)
                return -ENOMEM;
        BITSET_FOREACH (i, b)
                mask[(unsigned) i / LONG_BITS] |= 1UL << ((unsigned) i % LONG_BITS);
        if (sched_setaffinity(tid, size, (cpu_set_t *) mask) < 0)
                return -errno;
        return 0;
}
