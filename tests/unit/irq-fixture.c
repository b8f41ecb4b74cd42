/* SPDX-License-Identifier: Apache-2.0 */
/* See irq-fixture.h. */
#include "irq-fixture.h"

#include <sys/stat.h>
#include <sys/wait.h>

#include "common/fileio.h"

int __wrap_irq_set_affinity(const char *root, unsigned irq, const Bitset *cpus);

PlayedKernel kernel;

int __wrap_irq_set_affinity(const char *root, unsigned irq, const Bitset *cpus) {
        kernel.n_calls++;
        if (kernel.refuse)
                return kernel.refuse;
        if (kernel.full_cpu >= 0 && bitset_weight(cpus) == 1 && bitset_test(cpus, (unsigned) kernel.full_cpu))
                return -ENOSPC;
        return __real_irq_set_affinity(root, irq, cpus);
}

void put(const Fixture *f, const char *path, const char *text) {
        char full[256];
        FILE *file;

        (void) snprintf(full, sizeof(full), "%s/%s", f->root, path);
        file = fopen(full, "w");
        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        assert_int_equal(fclose(file), 0);
}

void assert_mask(const Fixture *f, unsigned irq, const char *expected) {
        _cleanup_free_ char *line = NULL;
        char path[256];

        (void) snprintf(path, sizeof(path), "%s/proc/irq/%u/smp_affinity_list", f->root, irq);
        assert_int_equal(read_line_at(-1, path, &line), 0);
        assert_string_equal(line, expected);
}

static void open_all(Fixture *f) {
        char **messages = NULL, dir[128];

        (void) snprintf(dir, sizeof(dir), "%s/run/qsched", f->root);
        assert_int_equal(undo_open(dir, &messages, &f->undo), 0);
        assert_null(messages);
        assert_int_equal(irq_enforcer_new(f->undo, f->root, &f->e), 0);
}

void restart(Fixture *f) {
        f->e = irq_enforcer_free(f->e);
        f->undo = undo_free(f->undo);
        open_all(f);
}

int setup(void **state) {
        Fixture *f = calloc(1, sizeof(*f));
        const char *top = getenv("TOP_SRCDIR");
        char command[4400];

        assert_non_null(f);
        strcpy(f->root, "/tmp/test-enforce-irq.XXXXXX");
        assert_non_null(mkdtemp(f->root));
        (void) snprintf(command, sizeof(command),
                        "cp -r '%s/tests/data/irq/.' %s && mkdir -p %s/run/irqbalance && "
                        "chmod -R u+w %s",
                        top ? top : ".", f->root, f->root, f->root);
        assert_int_equal(system(command), 0);
        assert_true(asprintf(&f->journal, "%s/run/qsched/undo.journal", f->root) > 0);
        kernel.refuse = 0;
        kernel.full_cpu = -1;
        kernel.n_calls = 0;
        open_all(f);
        *state = f;
        return 0;
}

int teardown(void **state) {
        Fixture *f = *state;
        char command[128];

        if (f->balancer > 0) {
                (void) kill(f->balancer, SIGKILL);
                (void) waitpid(f->balancer, NULL, 0);
        }
        irq_wishes_done(&f->wishes);
        outcome_done(&f->outcome);
        irq_enforcer_free(f->e);
        undo_free(f->undo);
        (void) snprintf(command, sizeof(command), "rm -rf %s", f->root);
        assert_int_equal(system(command), 0);
        free(f->journal);
        free(f);
        return 0;
}

/* One wish; cpus NULL: none at all. */
void wish(Fixture *f, const char *pci, const char *cpus) {
        irq_wishes_done(&f->wishes);
        if (!cpus)
                return;
        f->wishes.wishes = calloc(1, sizeof(IrqWish));
        assert_non_null(f->wishes.wishes);
        f->wishes.n_wishes = 1;
        f->wishes.wishes[0] = (IrqWish){ .job = strdup("train"), .device = strdup("npu0"), .pci = strdup(pci) };
        assert_int_equal(bitset_parse(cpus, &f->wishes.wishes[0].cpus), 0);
        assert_int_equal(bitset_parse("5-6", &f->wishes.wishes[0].spare), 0);
        assert_int_equal(bitset_parse("7", &f->wishes.wishes[0].node), 0);
}

int place(Fixture *f) {
        outcome_done(&f->outcome);
        return enforce_irqs(f->e, &f->wishes, &f->outcome);
}

int place_on(Fixture *f, const char *cpus) {
        wish(f, CARD, cpus);
        return place(f);
}

const IrqStatus *status(const Fixture *f, unsigned irq) {
        const IrqStatus *s;

        for (size_t i = 0; (s = irq_status(f->e, i)); i++)
                if (s->irq == irq)
                        return s;
        return NULL;
}

void assert_state(const Fixture *f, unsigned irq, IrqState state) {
        const IrqStatus *s = status(f, irq);

        assert_non_null(s);
        assert_string_equal(irq_state_names[s->state], irq_state_names[state]);
}

void assert_said(const Fixture *f, const char *part) {
        for (char **m = f->outcome.messages; m && *m; m++)
                if (strstr(*m, part))
                        return;
        fail_msg("nothing says \"%s\", but: %s", part, f->outcome.messages ? f->outcome.messages[0] : "nothing");
}

size_t n_entries(const Fixture *f) {
        size_t n;

        (void) undo_entries(f->undo, &n);
        return n;
}

off_t journal_size(const Fixture *f) {
        struct stat st;

        return stat(f->journal, &st) == 0 ? st.st_size : 0;
}
