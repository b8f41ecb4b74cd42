/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of PCI functions: the text of /proc/interrupts on several chips, a recorded host, and this machine's own. */
#include <errno.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/readers/irq.h"
#include "daemon/readers/irqbalance.h"

static const char *recorded(void) {
        static char path[4096];
        const char *top = getenv("TOP_SRCDIR");

        (void) snprintf(path, sizeof(path), "%s/tests/data/irq", top ? top : ".");
        return path;
}

static void assert_line(const IrqTable *t, unsigned irq, uint64_t count, const char *name) {
        const IrqLine *l = irq_table_find(t, irq);

        assert_non_null(l);
        assert_int_equal(l->count, count);
        assert_string_equal(l->name, name);
}

static void assert_set(const Bitset *b, const char *expected) {
        char *text;

        assert_int_equal(bitset_format(b, &text), 0);
        assert_string_equal(text, expected);
        free(text);
}

static void chips_of_many_kinds(void **state) {
        static const char text[] = "           CPU0       CPU1       \n"
                                   "  1:          0          9  IR-IO-APIC    1-edge      i8042\n"
                                   "  9:          3          4  IR-IO-APIC    9-fasteoi   acpi, pinctrl_amd\n"
                                   " 12:          1          0   IO-APIC-edge      timer\n"
                                   " 41:       4932         68 PCI-MSIX-0000:00:04.0   1-edge      virtio3-rx\n"
                                   " 42:         10          0  IR-PCI-MSI 524289-edge      nvme0q1\n"
                                   " 43:          0          7   ITS-MSI 524288 Edge      PCIe PME, aerdrv\n"
                                   " 44:          0          5  ITS-PCI-MSIX-0000:c1:00.0   2 Edge      mbox_ack_irq\n"
                                   " 45:          0          0 PCI-MSIX-0000:00:05.0   0-edge\n"
                                   " 46:          2          2     GICv3  27 Level     arch_timer\n"
                                   "NMI:          0          0   Non-maskable interrupts\n"
                                   "ERR:          0\n";
        IrqTable t;

        (void) state;
        assert_int_equal(irq_table_parse(text, &t), 0);
        assert_int_equal(t.n_lines, 9);
        assert_line(&t, 1, 9, "i8042");
        assert_line(&t, 9, 7, "acpi, pinctrl_amd");
        assert_line(&t, 12, 1, "timer");
        assert_line(&t, 41, 5000, "virtio3-rx");
        assert_line(&t, 42, 10, "nvme0q1");
        assert_line(&t, 43, 7, "PCIe PME, aerdrv");
        assert_line(&t, 44, 5, "mbox_ack_irq");
        assert_line(&t, 45, 0, "");
        assert_line(&t, 46, 4, "arch_timer");
        assert_null(irq_table_find(&t, 2));
        irq_table_done(&t);
}

static void text_that_is_none(void **state) {
        static const char *const bad[] = { "", "\n", "x", "  41: 1 2 x", "41:\n41:\n" };
        IrqTable t;

        (void) state;
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                assert_int_equal(irq_table_parse(bad[i], &t), -EBADMSG);
        /* fewer counts than CPUs, cut off, absurd numbers: no such line, and no read past the end */
        assert_int_equal(irq_table_parse("CPU0 CPU1\n 41: 1\n 42:\n 43: 1 2", &t), 0);
        assert_int_equal(t.n_lines, 1);
        assert_line(&t, 43, 3, "");
        irq_table_done(&t);
}

static void vectors_by_function_not_by_name(void **state) {
        unsigned *irqs;
        size_t n;

        (void) state;
        assert_int_equal(irq_vectors_of(recorded(), "0000:c1:00.0", &irqs, &n), 0);
        assert_int_equal(n, 3);
        assert_int_equal(irqs[0], 50);
        assert_int_equal(irqs[2], 52);
        free(irqs);
        assert_true(irq_is_vector_of(recorded(), "0000:c1:00.0", 51));
        assert_false(irq_is_vector_of(recorded(), "0000:c1:00.0", 41)); /* the same name, the other card's */
        assert_int_equal(irq_vectors_of(recorded(), "0000:02:00.0", &irqs, &n), 0);
        assert_int_equal(n, 0);
        assert_int_equal(irq_vectors_of(recorded(), "../../../..", &irqs, &n), 0);
        assert_int_equal(n, 0);
}

static void recorded_host(void **state) {
        Bitset b = BITSET_EMPTY;
        IrqTable t;

        (void) state;
        assert_int_equal(irq_table_read(recorded(), &t), 0);
        assert_line(&t, 40, 100, "sq_send_trigger_irq");
        assert_line(&t, 50, 101, "sq_send_trigger_irq");
        irq_table_done(&t);
        assert_int_equal(irq_affinity(recorded(), 50, &b), 0);
        assert_set(&b, "0-7");
        assert_int_equal(irq_effective(recorded(), 50, &b), 0);
        assert_set(&b, "0");
        assert_int_equal(irq_affinity(recorded(), 99, &b), -ENOENT);
        assert_int_equal(irq_effective(recorded(), 99, &b), -ENODATA);
        bitset_done(&b);
}

/* A virtio device's vector of this machine that may be moved; false: none here. */
static bool find_own_vector(unsigned *ret_irq) {
        glob_t g;
        bool found = false;

        if (glob("/sys/bus/pci/devices/*/msi_irqs", 0, NULL, &g) != 0)
                return false;
        for (size_t i = 0; !found && i < g.gl_pathc; i++) {
                char pci[64];
                unsigned *irqs;
                size_t n;

                if (sscanf(g.gl_pathv[i], "/sys/bus/pci/devices/%63[^/]", pci) != 1 ||
                    irq_vectors_of(NULL, pci, &irqs, &n) < 0)
                        continue;
                for (size_t k = 0; !found && k < n; k++) {
                        Bitset b = BITSET_EMPTY;

                        /* what it is already: changes nothing, and tells whether it is the kernel's own */
                        if (irq_affinity(NULL, irqs[k], &b) >= 0 && irq_set_affinity(NULL, irqs[k], &b) >= 0) {
                                *ret_irq = irqs[k];
                                found = true;
                        }
                        bitset_done(&b);
                }
                free(irqs);
        }
        globfree(&g);
        return found;
}

static void own_vector_there_and_back(void **state) {
        Bitset old = BITSET_EMPTY, one = BITSET_EMPTY, got = BITSET_EMPTY;
        unsigned irq = 0;

        (void) state;
        if (geteuid() != 0 || !find_own_vector(&irq)) {
                print_message("a vector of this machine: needs root and a PCI device whose vectors can be moved\n");
                skip();
        }
        assert_int_equal(irq_affinity(NULL, irq, &old), 0);
        assert_int_equal(bitset_set(&one, (unsigned) bitset_first(&old)), 0);
        assert_int_equal(irq_set_affinity(NULL, irq, &one), 0);
        assert_int_equal(irq_affinity(NULL, irq, &got), 0);
        assert_int_equal(irq_set_affinity(NULL, irq, &old), 0);
        assert_true(bitset_equal(&got, &one));
        assert_int_equal(irq_affinity(NULL, irq, &got), 0);
        assert_true(bitset_equal(&got, &old));
        bitset_zero(&one);
        assert_int_equal(irq_set_affinity(NULL, irq, &one), -EINVAL);
        bitset_done(&old);
        bitset_done(&one);
        bitset_done(&got);
}

static void answers_of_irqbalance(void **state) {
        Bitset b = BITSET_EMPTY;

        (void) state;
        assert_int_equal(irqbalance_parse_setup("SLEEP 10 IRQ 41 LOAD 0 DIFF 0 CLASS 4 IRQ 7 LOAD 1 DIFF 1 CLASS 0 "
                                                "BANNED 00000000,00000003",
                                                &b),
                         0);
        assert_set(&b, "7,41");
        assert_int_equal(irqbalance_parse_setup("SLEEP 10 BANNED 0", &b), 0);
        assert_set(&b, "");
        assert_int_equal(irqbalance_parse_setup("", &b), -EBADMSG);
        assert_int_equal(irqbalance_parse_setup("SLEEP 10 IRQ 41 LOAD", &b), -EBADMSG);
        assert_int_equal(irqbalance_parse_setup("SLEEP 10 IRQ x BANNED 0", &b), -EBADMSG);
        assert_int_equal(irqbalance_parse_setup("SLEEP 10 IRQ 99999999999 BANNED 0", &b), -EBADMSG);
        bitset_done(&b);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(chips_of_many_kinds),
                cmocka_unit_test(text_that_is_none),
                cmocka_unit_test(vectors_by_function_not_by_name),
                cmocka_unit_test(recorded_host),
                cmocka_unit_test(own_vector_there_and_back),
                cmocka_unit_test(answers_of_irqbalance),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
