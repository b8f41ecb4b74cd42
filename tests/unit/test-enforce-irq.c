/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interrupts placed and put back: what is written, what the kernel refuses, vectors that are somebody else's by now, a
 * journal cut short; on a recorded host, and on a device of this machine.
 */
#include <glob.h>
#include <sys/stat.h>

#include "common/fileio.h"
#include "irq-fixture.h"

static void there_and_back(void **state) {
        Fixture *f = *state;
        off_t size;

        assert_int_equal(place_on(f, "4"), 0);
        assert_int_equal(f->outcome.n_written, 3);
        for (unsigned irq = 50; irq <= 52; irq++)
                assert_mask(f, irq, "4");
        assert_mask(f, 40, "0-7"); /* the other card's, with the same names */
        assert_int_equal(n_entries(f), 3);
        size = journal_size(f);

        assert_int_equal(place(f), 0); /* twice is once */
        assert_int_equal(f->outcome.n_written, 0);
        assert_int_equal(f->outcome.n_same, 3);
        assert_int_equal(journal_size(f), size);

        restart(f);
        assert_int_equal(place(f), 0);
        assert_int_equal(f->outcome.n_written, 0);
        assert_int_equal(journal_size(f), size);

        assert_int_equal(place_on(f, "5"), 0); /* another plan */
        assert_mask(f, 51, "5");
        assert_int_equal(place_on(f, NULL), 0);
        for (unsigned irq = 50; irq <= 52; irq++)
                assert_mask(f, irq, "0-7");
        assert_int_equal(n_entries(f), 0);
        assert_null(irq_status(f->e, 0));
}

static void pending_until_it_fires(void **state) {
        Fixture *f = *state;

        assert_int_equal(place_on(f, "4"), 0);
        assert_state(f, 50, IRQ_PENDING);
        assert_int_equal(place(f), 0);
        assert_state(f, 50, IRQ_PENDING);
        put(f, "proc/irq/50/effective_affinity_list", "4\n");
        assert_int_equal(place(f), 0);
        assert_state(f, 50, IRQ_OK);
        assert_state(f, 51, IRQ_PENDING);
        /* 51 fires, and does not go where it was sent */
        put(f, "proc/interrupts",
            "CPU0\n 50: 101 ITS-MSI 524338 Edge sq_send_trigger_irq\n"
            " 51: 209 ITS-MSI 524339 Edge cq_update_irq\n");
        assert_int_equal(place(f), 0);
        assert_state(f, 51, IRQ_FAILED);
        assert_said(f, "go elsewhere all the same (51 to 0)");
}

static void kernel_does_not_tell_the_effect(void **state) {
        Fixture *f = *state;
        char path[128];

        (void) snprintf(path, sizeof(path), "%s/proc/irq/50/effective_affinity_list", f->root);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(place_on(f, "4"), 0);
        assert_state(f, 50, IRQ_OK);
        assert_state(f, 51, IRQ_PENDING);
}

static void full_cpu_tries_the_next(void **state) {
        Fixture *f = *state;
        unsigned n;

        kernel.full_cpu = 4;
        assert_int_equal(place_on(f, "4"), 0);
        assert_mask(f, 50, "5-6");
        assert_true(status(f, 50)->spilled);
        assert_said(f, "CPUs 4 have no vectors free for 3 of its 3 interrupts");
        n = kernel.n_calls;
        assert_int_equal(place(f), 0); /* not tried again at each tick */
        assert_int_equal(kernel.n_calls, n);
        assert_int_equal(f->outcome.n_written, 0);
        assert_said(f, "CPUs 4 have no vectors free");
        assert_int_equal(place_on(f, NULL), 0);
        assert_mask(f, 50, "0-7");
        assert_int_equal(n_entries(f), 0);
}

static void managed_by_the_kernel(void **state) {
        static const int errors[] = { -EPERM, -EIO };
        Fixture *f = *state;

        for (size_t i = 0; i < ELEMENTSOF(errors); i++) {
                kernel.refuse = errors[i];
                kernel.n_calls = 0;
                assert_int_equal(place_on(f, "4"), 0);
                assert_int_equal(f->outcome.n_refused, 0); /* nothing failed */
                assert_int_equal(f->outcome.n_same, 3);
                assert_state(f, 50, IRQ_FIXED);
                assert_said(f, "3 of its 3 interrupt vectors are managed by the kernel");
                assert_int_equal(n_entries(f), 0);
                assert_int_equal(place(f), 0);
                assert_int_equal(kernel.n_calls, 3); /* once each */
                assert_int_equal(f->outcome.n_refused, 0);
                assert_int_equal(place_on(f, NULL), 0);
                assert_mask(f, 50, "0-7");
        }
}

static void read_only_proc(void **state) {
        Fixture *f = *state;

        kernel.refuse = -EROFS;
        assert_int_equal(place_on(f, "4"), 0);
        assert_state(f, 50, IRQ_FAILED);
        assert_said(f, "/proc/irq/50/smp_affinity_list: Read-only file system");
        assert_int_equal(n_entries(f), 0);
}

static void number_given_to_another_device(void **state) {
        Fixture *f = *state;
        char from[128], to[128];

        assert_int_equal(place_on(f, "4"), 0);
        (void) snprintf(from, sizeof(from), "%s/sys/bus/pci/devices/" CARD "/msi_irqs/50", f->root);
        (void) snprintf(to, sizeof(to), "%s/sys/bus/pci/devices/" OTHER_CARD "/msi_irqs/50", f->root);
        assert_int_equal(rename(from, to), 0);
        assert_int_equal(place_on(f, NULL), 0);
        assert_mask(f, 50, "4"); /* it may be what its new owner wants */
        assert_mask(f, 51, "0-7");
        assert_int_equal(f->outcome.n_gone, 1);
        assert_int_equal(n_entries(f), 0);
}

static void number_given_to_another_handler(void **state) {
        Fixture *f = *state;

        assert_int_equal(place_on(f, "4"), 0);
        put(f, "proc/interrupts",
            "CPU0\n 50: 0 ITS-MSI 524338 Edge another\n 51: 1 ITS-MSI 524339 Edge\n"
            " 52: 1 ITS-MSI 524339 Edge mbox_ack_irq\n");
        restart(f);
        assert_int_equal(place_on(f, NULL), 0);
        assert_mask(f, 50, "4");
        assert_mask(f, 51, "0-7"); /* nobody handles it just now: it is the same vector */
        assert_mask(f, 52, "0-7");
        assert_int_equal(n_entries(f), 0);
}

/* kill -9 after the writes, before the commit mark. */
static void cut_short(void **state) {
        Fixture *f = *state;
        _cleanup_free_ char *text = NULL;
        char *commit;

        assert_int_equal(place_on(f, "4"), 0);
        assert_int_equal(place_on(f, "5"), 0);
        assert_int_equal(read_file_at(-1, f->journal, 1 << 20, &text, NULL), 0);
        commit = strrchr(text, '{');
        assert_non_null(strstr(commit, "commit"));
        assert_int_equal(truncate(f->journal, commit - text), 0);
        restart(f);
        outcome_done(&f->outcome);
        assert_int_equal(enforce_irqs_recover(f->e, &f->outcome), 0);
        assert_mask(f, 50, "4"); /* what was committed stands */
        assert_int_equal(f->outcome.n_written, 3);
        assert_said(f, "cut short was undone: 3 put back");
        restart(f);
        outcome_done(&f->outcome);
        assert_int_equal(enforce_irqs_recover(f->e, &f->outcome), 0);
        assert_int_equal(f->outcome.n_written, 0);
        assert_int_equal(place_on(f, NULL), 0);
        assert_mask(f, 50, "0-7");
}

static void journal_that_cannot_be_written(void **state) {
        Fixture *f = *state;
        unsigned n_bad;

        irq_enforcer_free(f->e);
        undo_free(f->undo);
        assert_int_equal(undo_from_text("", 0, &n_bad, &f->undo), 0);
        assert_int_equal(irq_enforcer_new(f->undo, f->root, &f->e), 0);
        assert_int_equal(place_on(f, "4"), -EBADF);
        assert_int_equal(kernel.n_calls, 0);
        assert_mask(f, 50, "0-7");
}

static void jobs_that_are_not_planned_yet(void **state) {
        Fixture *f = *state;

        assert_int_equal(place_on(f, "4"), 0);
        restart(f);
        wish(f, CARD, NULL);
        assert_int_equal(strv_extend(&f->wishes.waiting, "train"), 0);
        assert_int_equal(place(f), 0);
        assert_mask(f, 50, "4");
        assert_int_equal(n_entries(f), 3);
        wish(f, CARD, NULL);
        assert_int_equal(place(f), 0);
        assert_mask(f, 50, "0-7");
}

static bool find_own_device(char pci[64]) {
        glob_t g;
        bool found = false;

        if (geteuid() != 0 || glob("/sys/bus/pci/devices/*/msi_irqs", 0, NULL, &g) != 0)
                return false;
        for (size_t i = 0; !found && i < g.gl_pathc; i++) {
                unsigned *irqs;
                size_t n;
                bool movable = true;

                if (sscanf(g.gl_pathv[i], "/sys/bus/pci/devices/%63[^/]", pci) != 1 ||
                    irq_vectors_of(NULL, pci, &irqs, &n) < 0)
                        continue;
                for (size_t k = 0; k < n; k++) {
                        Bitset b = BITSET_EMPTY;

                        movable = movable && irq_affinity(NULL, irqs[k], &b) >= 0 && bitset_weight(&b) > 1 &&
                                  __real_irq_set_affinity(NULL, irqs[k], &b) >= 0;
                        bitset_done(&b);
                }
                found = movable && n > 0;
                free(irqs);
        }
        globfree(&g);
        return found;
}

static void own_device_there_and_back(void **state) {
        Fixture *f = *state;
        char pci[64], cpu[16], text[256];
        Bitset old[64] = {}, now = BITSET_EMPTY;
        unsigned *irqs;
        size_t n;

        if (!find_own_device(pci)) {
                print_message("a device of this machine: needs root and a PCI function whose vectors can be moved\n");
                skip();
        }
        assert_int_equal(irq_vectors_of(NULL, pci, &irqs, &n), 0);
        n = MIN(n, ELEMENTSOF(old));
        for (size_t i = 0; i < n; i++)
                assert_int_equal(irq_affinity(NULL, irqs[i], &old[i]), 0);
        irq_enforcer_free(f->e);
        assert_int_equal(irq_enforcer_new(f->undo, NULL, &f->e), 0);
        (void) snprintf(cpu, sizeof(cpu), "%d", bitset_first(&old[0]));
        wish(f, pci, cpu);
        assert_int_equal(place(f), 0);
        for (size_t i = 0; i < n; i++) {
                _cleanup_free_ char *line = NULL;

                (void) snprintf(text, sizeof(text), "/proc/irq/%u/smp_affinity_list", irqs[i]);
                assert_int_equal(read_line_at(-1, text, &line), 0);
                assert_string_equal(line, cpu);
                assert_true(status(f, irqs[i])->state == IRQ_OK || status(f, irqs[i])->state == IRQ_PENDING);
        }
        wish(f, pci, NULL);
        assert_int_equal(place(f), 0);
        for (size_t i = 0; i < n; i++) {
                assert_int_equal(irq_affinity(NULL, irqs[i], &now), 0);
                assert_true(bitset_equal(&now, &old[i]));
                bitset_done(&old[i]);
        }
        bitset_done(&now);
        free(irqs);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(there_and_back),
                TEST(pending_until_it_fires),
                TEST(kernel_does_not_tell_the_effect),
                TEST(full_cpu_tries_the_next),
                TEST(managed_by_the_kernel),
                TEST(read_only_proc),
                TEST(number_given_to_another_device),
                TEST(number_given_to_another_handler),
                TEST(cut_short),
                TEST(journal_that_cannot_be_written),
                TEST(jobs_that_are_not_planned_yet),
                TEST(own_device_there_and_back),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
