/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/interrupts has a head with one word per online CPU, then per interrupt its number, as many counts, the chip, for
 * most chips a hardware number with the trigger ("3-edge", "524288-edge"; "Level" and the like on others), and the names
 * of the handlers. Chips are one word since they have no blanks ("PCI-MSIX-0000:00:04.0", "IR-PCI-MSI", "ITS-MSI").
 */
#include "daemon/readers/irq.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "common/fileio.h"
#include "common/text.h"
#include "daemon/readers/process.h"

#define INTERRUPTS_MAX (128U << 20) /* 640 CPUs and 4,000 vectors are 28 MB */

static const char *blanks(const char *p) {
        return p + strspn(p, " \t");
}

static const char *word_end(const char *p) {
        return p + strcspn(p, " \t\n");
}

static unsigned count_cpus(const char *head) {
        unsigned n = 0;

        for (const char *p = blanks(head); strncmp(p, "CPU", 3) == 0; p = blanks(word_end(p)))
                n++;
        return n;
}

static int sum_counts(const char **line, unsigned n_cpus, uint64_t *ret) {
        const char *p = *line;
        uint64_t sum = 0;

        for (unsigned i = 0; i < n_cpus; i++) {
                char *end;

                p = blanks(p);
                if (!isdigit((unsigned char) *p))
                        return -EBADMSG;
                sum += strtoull(p, &end, 10);
                p = end;
        }
        *line = p;
        *ret = sum;
        return 0;
}

static const char *after_trigger(const char *p) { /* NULL: no such word here */
        static const char *const words[] = { "Edge", "Level", "None" };

        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                if (strncmp(p, words[i], strlen(words[i])) == 0 && word_end(p) == p + strlen(words[i]))
                        return blanks(word_end(p));
        return NULL;
}

/* Past the chip, its hardware number and the trigger. */
static const char *handlers(const char *p) {
        const char *next, *names;

        p = blanks(word_end(blanks(p)));
        next = p + strspn(p, "0123456789");
        if (next > p && *next == '-')
                return blanks(word_end(p));
        names = after_trigger(next > p ? blanks(next) : p);
        return names ? names : p;
}

static int parse_line(const char *line, unsigned n_cpus, IrqLine *ret) {
        const char *p = blanks(line), *end = strchrnul(line, '\n');
        IrqLine l = {};
        char *colon;

        if (!isdigit((unsigned char) *p))
                return 0; /* NMI, LOC, … */
        l.irq = (unsigned) strtoul(p, &colon, 10);
        if (*colon != ':')
                return 0;
        p = colon + 1;
        if (sum_counts(&p, n_cpus, &l.count) < 0)
                return 0;
        p = handlers(p);
        if (p > end)
                p = end;
        while (end > p && isspace((unsigned char) end[-1]))
                end--;
        l.name = strndup(p, (size_t) (end - p));
        if (!l.name)
                return -ENOMEM;
        *ret = l;
        return 1;
}

static int compare_lines(const void *a, const void *b) {
        const IrqLine *x = a, *y = b;

        return CMP(x->irq, y->irq);
}

void irq_table_done(IrqTable *t) {
        for (size_t i = 0; i < t->n_lines; i++)
                free(t->lines[i].name);
        free(t->lines);
        *t = (IrqTable){};
}

static int add_line(IrqTable *t, const IrqLine *line) {
        if ((t->n_lines & (t->n_lines - 1)) == 0) { /* full: doubled each time */
                IrqLine *n = reallocarray(t->lines, t->n_lines ? t->n_lines * 2 : 1, sizeof(*n));

                if (!n)
                        return -ENOMEM;
                t->lines = n;
        }
        t->lines[t->n_lines++] = *line;
        return 0;
}

int irq_table_parse(const char *text, IrqTable *ret) {
        unsigned n_cpus = count_cpus(text);
        IrqTable t = {};

        if (n_cpus == 0)
                return -EBADMSG;
        for (const char *p = strchr(text, '\n'); p && p[1]; p = strchr(p + 1, '\n')) {
                IrqLine line;
                int r = parse_line(p + 1, n_cpus, &line);

                if (r > 0) {
                        r = add_line(&t, &line);
                        if (r < 0)
                                free(line.name);
                }
                if (r < 0) {
                        irq_table_done(&t);
                        return r;
                }
        }
        if (t.n_lines > 0)
                qsort(t.lines, t.n_lines, sizeof(*t.lines), compare_lines);
        *ret = t;
        return 0;
}

int irq_table_read(const char *root, IrqTable *ret) {
        _cleanup_free_ char *path = NULL, *text = NULL;
        int r;

        if (asprintf(&path, "%s/proc/interrupts", strempty(root)) < 0)
                return -ENOMEM;
        r = read_file_at(AT_FDCWD, path, INTERRUPTS_MAX, &text, NULL);
        return r < 0 ? r : irq_table_parse(text, ret);
}

const IrqLine *irq_table_find(const IrqTable *t, unsigned irq) {
        return t->n_lines > 0
                       ? bsearch(&(IrqLine){ .irq = irq }, t->lines, t->n_lines, sizeof(*t->lines), compare_lines)
                       : NULL;
}

/* It becomes part of a path. */
static bool pci_is_valid(const char *pci) {
        return pci && *pci && strspn(pci, "0123456789abcdefABCDEF:.") == strlen(pci) && *pci != '.';
}

int irq_vectors_of(const char *root, const char *pci, unsigned **ret, size_t *ret_n) {
        _cleanup_free_ char *path = NULL;
        int *numbers = NULL, r;

        *ret = NULL;
        *ret_n = 0;
        if (!pci_is_valid(pci))
                return 0;
        if (asprintf(&path, "%s/sys/bus/pci/devices/%s/msi_irqs", strempty(root), pci) < 0)
                return -ENOMEM;
        r = proc_list(AT_FDCWD, path, &numbers, ret_n);
        if (r < 0) {
                *ret_n = 0;
                return r == -ENOENT || r == -ESRCH ? 0 : r;
        }
        _Static_assert(sizeof(int) == sizeof(unsigned), "numbers are never negative");
        *ret = (unsigned *) numbers;
        return 0;
}

bool irq_is_vector_of(const char *root, const char *pci, unsigned irq) {
        _cleanup_free_ char *path = NULL;

        if (!pci_is_valid(pci) ||
            asprintf(&path, "%s/sys/bus/pci/devices/%s/msi_irqs/%u", strempty(root), pci, irq) < 0) {
                path = NULL;
                return false;
        }
        return access(path, F_OK) == 0;
}

static int irq_path(const char *root, unsigned irq, const char *file, char **ret) {
        return asprintf(ret, "%s/proc/irq/%u/%s", strempty(root), irq, file) < 0 ? -ENOMEM : 0;
}

static int read_list(const char *root, unsigned irq, const char *file, Bitset *ret) {
        _cleanup_free_ char *path = NULL, *line = NULL;
        int r = irq_path(root, irq, file, &path);

        if (r >= 0)
                r = read_line_at(AT_FDCWD, path, &line);
        return r < 0 ? r : bitset_parse(line, ret);
}

int irq_affinity(const char *root, unsigned irq, Bitset *ret) {
        return read_list(root, irq, "smp_affinity_list", ret);
}

int irq_effective(const char *root, unsigned irq, Bitset *ret) {
        _cleanup_(bitset_done) Bitset cpus = BITSET_EMPTY;
        int r = read_list(root, irq, "effective_affinity_list", &cpus);

        if (r < 0)
                return r == -ENOENT ? -ENODATA : r;
        if (bitset_isempty(&cpus))
                return -ENODATA;
        return bitset_copy(ret, &cpus);
}

int irq_set_affinity(const char *root, unsigned irq, const Bitset *cpus) {
        _cleanup_free_ char *path = NULL, *list = NULL, *line = NULL;
        int r = irq_path(root, irq, "smp_affinity_list", &path);

        if (r >= 0)
                r = bitset_format(cpus, &list);
        if (r >= 0 && bitset_isempty(cpus))
                return -EINVAL; /* the kernel takes "" for "choose again" */
        if (r >= 0 && asprintf(&line, "%s\n", list) < 0)
                r = -ENOMEM;
        return r < 0 ? r : write_file_at(AT_FDCWD, path, line);
}
