/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank and visible devices from the environment a process was started with. What a program sets for itself later is
 * not in /proc/PID/environ, and what a launcher inherits from an outer launcher is: a torchrun under srun has
 * SLURM_PROCID, its children RANK as well, so the inner launcher's variables are asked first.
 *
 * Visible devices come in two steps. The outer variable (ASCEND_VISIBLE_DEVICES) is the container runtime's and names
 * devices as the host counts them; the container then counts what it got from 0 in ascending order. The inner one
 * (ASCEND_RT_VISIBLE_DEVICES) is the runtime library's and indexes within that, and stops at the first number that
 * does not exist.
 */
#include "daemon/readers/rank-identity.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>

#include "common/text.h"
#include "daemon/readers/process.h"

#define NUMBERS_MAX 4096U

int environ_rank(const char *block, size_t size) {
        static const char *const names[] = {
                "RANK",         "RANK_ID",    "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK",
                "SLURM_PROCID", "LOCAL_RANK",
        };

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                const char *v = proc_environ_get(block, size, names[i]);
                unsigned rank;

                if (v && text_parse_uint(v, 0, INT_MAX, &rank) >= 0)
                        return (int) rank;
        }
        return -1;
}

static const struct {
        const char *kind;
        const char *outer;
        bool ascending; /* the outer one gives a set, not an order */
        const char *inner[2];
} rules[] = {
        { "ascend", "ASCEND_VISIBLE_DEVICES", true, { "ASCEND_RT_VISIBLE_DEVICES" } },
        { "cambricon", "CAMBRICON_VISIBLE_DEVICES", true, { "MLU_VISIBLE_DEVICES" } },
        { "nvidia", "NVIDIA_VISIBLE_DEVICES", true, { "CUDA_VISIBLE_DEVICES" } },
        { "iluvatar", NULL, true, { "CUDA_VISIBLE_DEVICES" } },
        { "hygon", "ROCR_VISIBLE_DEVICES", false, { "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES" } },
        { "amd", "ROCR_VISIBLE_DEVICES", false, { "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES" } },
};

/* One word of a list: "5", "0-3", "Ascend910-5" (the device plugin's name). -EINVAL: something else. */
static int parse_word(const char *word, unsigned *ret_first, unsigned *ret_last) {
        const char *dash = strrchr(word, '-');
        char first[16];
        int r;

        if (dash && isalpha((unsigned char) *word)) {
                r = text_parse_uint(dash + 1, 0, NUMBERS_MAX - 1, ret_first);
                *ret_last = *ret_first;
                return strncmp(word, "Ascend", 6) == 0 || strncmp(word, "npu", 3) == 0 ? r : -EINVAL;
        }
        if (dash && dash > word && (size_t) (dash - word) < sizeof(first)) {
                (void) snprintf(first, sizeof(first), "%.*s", (int) (dash - word), word);
                r = text_parse_uint(first, 0, NUMBERS_MAX - 1, ret_first);
                if (r >= 0)
                        r = text_parse_uint(dash + 1, 0, NUMBERS_MAX - 1, ret_last);
                return r < 0 || *ret_last < *ret_first ? -EINVAL : 0;
        }
        r = text_parse_uint(word, 0, NUMBERS_MAX - 1, ret_first);
        *ret_last = *ret_first;
        return r;
}

/* The list in its order. A negative number ends it; -EINVAL when it is not made of numbers. */
static int parse_numbers(const char *text, unsigned **ret, size_t *ret_n) {
        _cleanup_(strv_freep) char **words = NULL;
        _cleanup_free_ unsigned *list = NULL;
        size_t n = 0;
        int r;

        r = strv_split(text, ", \t", &words);
        if (r < 0)
                return r;
        list = calloc(NUMBERS_MAX, sizeof(unsigned));
        if (!list)
                return -ENOMEM;
        for (char **w = words; w && *w; w++) {
                unsigned first, last;

                if (**w == '-')
                        break;
                if (parse_word(*w, &first, &last) < 0)
                        return -EINVAL;
                for (unsigned i = first; i <= last && n < NUMBERS_MAX; i++)
                        list[n++] = i;
        }
        *ret = TAKE_PTR(list);
        *ret_n = n;
        return 0;
}

static int unsigned_cmp(const void *a, const void *b) {
        return CMP(*(const unsigned *) a, *(const unsigned *) b);
}

/* 1: the list; 0: the variable is absent or says "all"; -EINVAL: it says something that cannot be read. */
static int read_outer(const char *v, bool ascending, unsigned **ret, size_t *ret_n) {
        int r;

        if (!v || streq(v, "all") || streq(v, ""))
                return 0;
        if (streq(v, "none") || streq(v, "void"))
                return -EINVAL; /* the runtime left the device nodes alone: they were given in some other way */
        r = parse_numbers(v, ret, ret_n);
        if (r < 0)
                return r;
        if (ascending && *ret_n > 1)
                qsort(*ret, *ret_n, sizeof(unsigned), unsigned_cmp);
        return 1;
}

/* Replaces the list (all devices when it is not known) by what the indices choose from it. */
static int choose(const char *indices, unsigned **list, size_t *n, bool known) {
        _cleanup_free_ unsigned *chosen = NULL;
        size_t k, out = 0;
        int r;

        r = parse_numbers(indices, &chosen, &k);
        if (r < 0)
                return r;
        for (size_t i = 0; i < k; i++) {
                if (known && chosen[i] >= *n)
                        break;
                chosen[out++] = known ? (*list)[chosen[i]] : chosen[i];
        }
        free(*list);
        *list = TAKE_PTR(chosen);
        *n = out;
        return 0;
}

int environ_visible_devices(const char *block, size_t size, const char *kind, const unsigned *seen, size_t n_seen,
                            unsigned **ret, size_t *ret_n) {
        _cleanup_free_ unsigned *list = NULL;
        const char *inner = NULL;
        size_t n = 0, i;
        int outer, r;

        for (i = 0; i < ELEMENTSOF(rules) && !streq(rules[i].kind, kind); i++)
                ;
        if (i == ELEMENTSOF(rules))
                return 0;
        outer = read_outer(rules[i].outer ? proc_environ_get(block, size, rules[i].outer) : NULL, rules[i].ascending,
                           &list, &n);
        if (outer == -ENOMEM)
                return outer;
        for (size_t k = 0; k < ELEMENTSOF(rules[i].inner) && !inner; k++)
                if (rules[i].inner[k])
                        inner = proc_environ_get(block, size, rules[i].inner[k]);
        if (outer <= 0 && (!inner || (outer < 0 && n_seen == 0)))
                return 0;
        if (outer <= 0 && n_seen > 0) {
                list = malloc(n_seen * sizeof(unsigned));
                if (!list)
                        return -ENOMEM;
                memcpy(list, seen, n_seen * sizeof(unsigned));
                n = n_seen;
        }
        if (inner) {
                r = choose(inner, &list, &n, outer > 0 || n_seen > 0);
                if (r < 0)
                        return r == -ENOMEM ? r : 0;
        }
        *ret = TAKE_PTR(list);
        *ret_n = n;
        return 1;
}
