/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interrupts that others move: somebody, under each Drift=; the kernel, when a CPU goes offline; irqbalance, for which a
 * stand-in speaks as it does and is asked to leave ours alone.
 */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "irq-fixture.h"
#include "daemon/readers/irqbalance.h"

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

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(moved_by_somebody_else),       TEST(moved_again_and_again_reassert),
                TEST(moved_by_somebody_else_yield), TEST(yielded_is_wished_no_more),
                TEST(cpu_that_goes_offline),        TEST(irqbalance_is_asked),
                TEST(irqbalance_comes_later),       TEST(more_bans_than_it_reads),
                TEST(irqbalance_that_hangs),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
