/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interrupts placed and put back: on a copy of a recorded host, where a write of a mask is a write of a file and the
 * refusals of a kernel are played; with a stand-in for irqbalance that speaks as it does; and on a vector of this machine.
 */
#include <errno.h>
#include <glob.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "common/fileio.h"
#include "daemon/enforce-irq.h"
#include "daemon/readers/irq.h"
#include "daemon/readers/irqbalance.h"

#define CARD "0000:c1:00.0"
#define OTHER_CARD "0000:01:00.0"

int __real_irq_set_affinity(const char *root, unsigned irq, const Bitset *cpus);
int __wrap_irq_set_affinity(const char *root, unsigned irq, const Bitset *cpus);

static struct {           /* what the played kernel does */
        int refuse;       /* every write; 0: none */
        int full_cpu;     /* no vector is free there; -1: there is on all */
        unsigned n_calls; /* writes asked for */
} kernel;

int __wrap_irq_set_affinity(const char *root, unsigned irq, const Bitset *cpus) {
        kernel.n_calls++;
        if (kernel.refuse)
                return kernel.refuse;
        if (kernel.full_cpu >= 0 && bitset_weight(cpus) == 1 && bitset_test(cpus, (unsigned) kernel.full_cpu))
                return -ENOSPC;
        return __real_irq_set_affinity(root, irq, cpus);
}

typedef struct Fixture {
        char root[64], *journal;
        Undo *undo;
        IrqEnforcer *e;
        Outcome outcome;
        IrqWishes wishes;
        pid_t balancer;
} Fixture;

static void put(const Fixture *f, const char *path, const char *text) {
        char full[256];
        FILE *file;

        (void) snprintf(full, sizeof(full), "%s/%s", f->root, path);
        file = fopen(full, "w");
        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        assert_int_equal(fclose(file), 0);
}

static void assert_mask(const Fixture *f, unsigned irq, const char *expected) {
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

static void restart(Fixture *f) {
        f->e = irq_enforcer_free(f->e);
        f->undo = undo_free(f->undo);
        open_all(f);
}

static int setup(void **state) {
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

static int teardown(void **state) {
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
static void wish(Fixture *f, const char *pci, const char *cpus) {
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

static int place(Fixture *f) {
        outcome_done(&f->outcome);
        return enforce_irqs(f->e, &f->wishes, &f->outcome);
}

static int place_on(Fixture *f, const char *cpus) {
        wish(f, CARD, cpus);
        return place(f);
}

static const IrqStatus *status(const Fixture *f, unsigned irq) {
        const IrqStatus *s;

        for (size_t i = 0; (s = irq_status(f->e, i)); i++)
                if (s->irq == irq)
                        return s;
        return NULL;
}

static void assert_state(const Fixture *f, unsigned irq, IrqState state) {
        const IrqStatus *s = status(f, irq);

        assert_non_null(s);
        assert_string_equal(irq_state_names[s->state], irq_state_names[state]);
}

static void assert_said(const Fixture *f, const char *part) {
        for (char **m = f->outcome.messages; m && *m; m++)
                if (strstr(*m, part))
                        return;
        fail_msg("nothing says \"%s\", but: %s", part, f->outcome.messages ? f->outcome.messages[0] : "nothing");
}

static size_t n_entries(const Fixture *f) {
        size_t n;

        (void) undo_entries(f->undo, &n);
        return n;
}

static off_t journal_size(const Fixture *f) {
        struct stat st;

        return stat(f->journal, &st) == 0 ? st.st_size : 0;
}

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

static void moved_by_somebody_else(void **state) {
        Fixture *f = *state;

        assert_int_equal(place_on(f, "4"), 0);
        put(f, "proc/irq/50/smp_affinity_list", "2\n");
        assert_int_equal(place(f), 0);
        assert_int_equal(f->outcome.n_drift, 1);
        assert_state(f, 50, IRQ_DRIFT);
        assert_said(f, "has moved 1 of its 3 interrupts (50 sq_send_trigger_irq is on CPUs 2, not on 4): left alone");
        assert_mask(f, 50, "2");
        assert_int_equal(place_on(f, "5"), 0); /* by another plan neither */
        assert_mask(f, 50, "2");
        assert_mask(f, 51, "5");
        assert_int_equal(place_on(f, NULL), 0);
        assert_mask(f, 50, "2");
        assert_mask(f, 51, "0-7");
        assert_int_equal(n_entries(f), 0);
}

static void moved_again_and_again_reassert(void **state) {
        Fixture *f = *state;

        assert_int_equal(place_on(f, "4"), 0);
        irq_enforcer_set_drift(f->e, DRIFT_REASSERT);
        for (unsigned i = 0; i < 3; i++) {
                put(f, "proc/irq/50/smp_affinity_list", "2\n");
                assert_int_equal(place(f), 0);
                assert_int_equal(f->outcome.n_drift, 1);
                assert_said(f, "(50 sq_send_trigger_irq was on CPUs 2, not on 4): written again (Drift=reassert)");
                assert_mask(f, 50, "4");
        }
        put(f, "proc/irq/50/smp_affinity_list", "2\n");
        assert_int_equal(place(f), 0);
        assert_state(f, 50, IRQ_DRIFT);
        assert_said(f, "moved again each time: left alone now");
        assert_mask(f, 50, "2");
        put(f, "proc/irq/50/smp_affinity_list", "4\n"); /* right in between */
        assert_int_equal(place(f), 0);
        assert_int_equal(f->outcome.n_drift, 0);
        put(f, "proc/irq/50/smp_affinity_list", "2\n");
        assert_int_equal(place(f), 0);
        assert_mask(f, 50, "4");
        assert_int_equal(place_on(f, NULL), 0);
        assert_mask(f, 50, "0-7");
        assert_int_equal(n_entries(f), 0);
}

static void moved_by_somebody_else_yield(void **state) {
        Fixture *f = *state;

        assert_int_equal(place_on(f, "4"), 0);
        irq_enforcer_set_drift(f->e, DRIFT_YIELD);
        put(f, "proc/irq/50/smp_affinity_list", "2\n");
        assert_int_equal(place(f), 0);
        assert_said(f, "left to them (Drift=yield)");
        irq_enforcer_set_drift(f->e, DRIFT_REPORT);
        assert_int_equal(place_on(f, "5"), 0);
        assert_int_equal(f->outcome.n_drift, 0);
        assert_state(f, 50, IRQ_DRIFT);
        assert_mask(f, 50, "2");
        assert_mask(f, 51, "5");
        drift_take_back(f->undo, "train"); /* its job is applied again */
        assert_int_equal(place(f), 0);
        assert_mask(f, 50, "5");
        assert_int_equal(place_on(f, NULL), 0);
        assert_mask(f, 50, "2"); /* what it had when it was taken back */
        assert_int_equal(n_entries(f), 0);
}

static void yielded_is_wished_no_more(void **state) {
        Fixture *f = *state;

        assert_int_equal(place_on(f, "4"), 0);
        irq_enforcer_set_drift(f->e, DRIFT_YIELD);
        put(f, "proc/irq/50/smp_affinity_list", "2\n");
        assert_int_equal(place(f), 0);
        assert_int_equal(place_on(f, NULL), 0);
        assert_mask(f, 50, "2");
        assert_mask(f, 51, "0-7");
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

/* The kernel sends a vector to all CPUs when the last of its own goes offline; that is nobody's will. */
static void cpu_that_goes_offline(void **state) {
        Fixture *f = *state;

        assert_int_equal(place_on(f, "4"), 0);
        put(f, "sys/devices/system/cpu/online", "0-3,5-7\n");
        for (unsigned irq = 50; irq <= 52; irq++) {
                char path[64];

                (void) snprintf(path, sizeof(path), "proc/irq/%u/smp_affinity_list", irq);
                put(f, path, "0-3,5-7\n");
        }
        assert_int_equal(place(f), 0);
        assert_int_equal(f->outcome.n_drift, 0);
        assert_state(f, 50, IRQ_FAILED);
        put(f, "sys/devices/system/cpu/online", "0-7\n");
        assert_int_equal(place(f), 0);
        assert_mask(f, 50, "4");
        assert_int_equal(place_on(f, NULL), 0);
        assert_mask(f, 50, "0-7");
}

/* A stand-in: reads one request per connection into a buffer of `limit` bytes, as irqbalance does, and believes root by
 * the credentials of the message. */
static _Noreturn void play_irqbalance(int fd, size_t limit) {
        unsigned bans[256] = { 7 };
        size_t n = 1;

        for (;;) {
                char buf[1024] = {}, control[CMSG_SPACE(sizeof(struct ucred))], answer[8192], *p = answer;
                struct iovec iov = { .iov_base = buf, .iov_len = limit };
                struct msghdr m = {
                        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
                };
                int c = accept(fd, NULL, NULL);

                if (c < 0)
                        _exit(1);
                if (recvmsg(c, &m, 0) > 0 && CMSG_FIRSTHDR(&m) && CMSG_FIRSTHDR(&m)->cmsg_type == SCM_CREDENTIALS) {
                        if (strcmp(buf, "setup") == 0) {
                                p += sprintf(p, "SLEEP 10 ");
                                for (size_t i = 0; i < n; i++)
                                        p += sprintf(p, "IRQ %u LOAD 0 DIFF 0 CLASS 4 ", bans[i]);
                                p += sprintf(p, "BANNED 00000000");
                                (void) !write(c, answer, (size_t) (p - answer));
                        } else if (strncmp(buf, "settings ban irqs ", 18) == 0) {
                                char *end = buf + 18;

                                n = 0;
                                if (strncmp(end, "NONE", 4) != 0)
                                        for (unsigned long irq; (irq = strtoul(end, &end, 10));)
                                                bans[n++] = (unsigned) irq;
                        }
                }
                (void) close(c);
        }
}

static void start_irqbalance(Fixture *f, size_t limit) {
        struct sockaddr_un a = { .sun_family = AF_UNIX };
        char path[128];
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), go[2];

        assert_true(fd >= 0);
        assert_int_equal(pipe(go), 0);
        f->balancer = fork();
        assert_true(f->balancer >= 0);
        if (f->balancer == 0) {
                for (int i = 3; i < 256; i++) /* the journal's lock is among them */
                        if (i != fd && i != go[1])
                                (void) close(i);
                (void) snprintf(a.sun_path, sizeof(a.sun_path), "%s/run/irqbalance/irqbalance%d.sock", f->root,
                                (int) getpid());
                if (bind(fd, (struct sockaddr *) &a, sizeof(a)) < 0 || listen(fd, 1) < 0 ||
                    setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &(int){ 1 }, sizeof(int)) < 0 || write(go[1], "x", 1) != 1)
                        _exit(1);
                play_irqbalance(fd, limit);
        }
        assert_int_equal(read(go[0], path, 1), 1);
        (void) close(go[0]);
        (void) close(go[1]);
        (void) close(fd);
        (void) snprintf(path, sizeof(path), "%s/proc/%d", f->root, (int) f->balancer);
        assert_int_equal(mkdir(path, 0755), 0);
        (void) snprintf(path, sizeof(path), "proc/%d/comm", (int) f->balancer);
        put(f, path, "irqbalance\n");
}

static void stop_irqbalance(Fixture *f) {
        char path[128];

        assert_int_equal(kill(f->balancer, SIGKILL), 0);
        assert_int_equal(waitpid(f->balancer, NULL, 0), f->balancer);
        (void) snprintf(path, sizeof(path), "%s/proc/%d/comm", f->root, (int) f->balancer);
        assert_int_equal(unlink(path), 0);
        f->balancer = 0;
}

static void assert_bans(const Fixture *f, const char *expected) {
        Irqbalance b = { .pid = f->balancer };
        Bitset bans = BITSET_EMPTY;
        char *text;

        assert_int_equal(irqbalance_bans(f->root, &b, &bans), 0);
        assert_int_equal(bitset_format(&bans, &text), 0);
        assert_string_equal(text, expected);
        free(text);
        bitset_done(&bans);
}

static void irqbalance_is_asked(void **state) {
        Fixture *f = *state;

        start_irqbalance(f, 500);
        assert_bans(f, "7");
        assert_int_equal(place_on(f, "4"), 0);
        assert_bans(f, "7,50-52"); /* what others banned stays */
        assert_int_equal(place(f), 0);
        assert_null(f->outcome.messages);

        put(f, "proc/irq/50/smp_affinity_list", "2\n");
        assert_int_equal(place(f), 0);
        assert_said(f, "although the vector is banned from it has moved 1 of its 3");

        stop_irqbalance(f); /* it comes again, and knows of no ban */
        start_irqbalance(f, 500);
        assert_int_equal(place(f), 0);
        assert_bans(f, "7,50-52");

        restart(f); /* of the daemon: the journal knows whose bans they are */
        assert_int_equal(place(f), 0);
        assert_int_equal(place_on(f, NULL), 0);
        assert_bans(f, "7");
}

static void irqbalance_comes_later(void **state) {
        Fixture *f = *state;

        assert_int_equal(place_on(f, "4"), 0);
        start_irqbalance(f, 500);
        assert_int_equal(place(f), 0);
        assert_bans(f, "7,50-52");
}

/* 128 vectors of four digits are more than any version reads: none may be cut to another number. */
static void more_bans_than_it_reads(void **state) {
        static const size_t limits[] = { 500, 273 };
        Bitset add = BITSET_EMPTY, none = BITSET_EMPTY, got = BITSET_EMPTY;
        Fixture *f = *state;

        assert_int_equal(bitset_set_range(&add, 1000, 1127), 0);
        for (size_t i = 0; i < ELEMENTSOF(limits); i++) {
                Irqbalance b = {};

                start_irqbalance(f, limits[i]);
                assert_int_equal(irqbalance_find(f->root, false, &b), 1);
                assert_int_equal(b.pid, f->balancer);
                assert_int_equal(irqbalance_ban(f->root, &b, &add, &none, &got), 1);
                assert_true(bitset_test(&got, 7));
                bitset_clear(&got, 7);
                assert_true(bitset_subset(&got, &add));
                assert_true(bitset_weight(&got) >= (i == 0 ? 90 : 45));
                stop_irqbalance(f);
        }
        bitset_done(&add);
        bitset_done(&got);
}

static void irqbalance_that_hangs(void **state) {
        Fixture *f = *state;

        start_irqbalance(f, 500);
        assert_int_equal(kill(f->balancer, SIGSTOP), 0);
        assert_int_equal(place_on(f, "4"), 0);
        assert_mask(f, 50, "4");
        assert_said(f, "could not be asked to leave 3 interrupts alone");
        assert_int_equal(place(f), 0); /* not waited for at each tick */
        assert_said(f, "could not be asked to leave 3 interrupts alone");
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

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(there_and_back),
                TEST(pending_until_it_fires),
                TEST(kernel_does_not_tell_the_effect),
                TEST(full_cpu_tries_the_next),
                TEST(managed_by_the_kernel),
                TEST(read_only_proc),
                TEST(moved_by_somebody_else),
                TEST(moved_again_and_again_reassert),
                TEST(moved_by_somebody_else_yield),
                TEST(yielded_is_wished_no_more),
                TEST(number_given_to_another_device),
                TEST(number_given_to_another_handler),
                TEST(cut_short),
                TEST(journal_that_cannot_be_written),
                TEST(jobs_that_are_not_planned_yet),
                TEST(cpu_that_goes_offline),
                TEST(irqbalance_is_asked),
                TEST(irqbalance_comes_later),
                TEST(more_bans_than_it_reads),
                TEST(irqbalance_that_hangs),
                TEST(own_device_there_and_back),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
