/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at the masks of processes all the time, for tests of a world that moves: every thread of every process named
 * must have a CPU that is online, and none outside of what its cpuset allows.
 *
 *   mask-watch FILE PID...
 *
 * Until SIGTERM. FILE gets a line for each thing that was wrong, at the end one with the number of samples; then the
 * exit status is 1 if something was. A process that has ended is passed over. The kernel changes a cpuset and the masks of
 * its threads one after the other, and so does a hot-unplug: what is wrong counts when it is so for LASTS_USEC, with
 * online CPUs and cpuset the same before and after. A thread that sleeps keeps a mask of CPUs that were unplugged until
 * it is to run; that is the kernel's way for as long as a scheduler has time for: OFFLINE_USEC.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>

#include "common/bitset.h"
#include "common/fileio.h"
#include "common/text.h"
#include "daemon/readers/cgroup.h"

#define LASTS_USEC 20000U
#define OFFLINE_USEC 20000000U
#define PAUSE_USEC 3000U

typedef enum Fault { FAULT_NONE, FAULT_EMPTY, FAULT_OFFLINE, FAULT_OUTSIDE, _FAULT_MAX } Fault;
static const char *const faults[] = { "", "no CPUs at all", "no CPU that is online", "CPUs outside of its cpuset" };

static volatile sig_atomic_t stop;

static void on_signal(int sig) {
        stop = 1;
}

static uint64_t now_usec(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t) t.tv_sec * 1000000U + (uint64_t) t.tv_nsec / 1000U;
}

static int read_online(Bitset *ret) {
        _cleanup_free_ char *line = NULL;
        int r = read_line_at(AT_FDCWD, "/sys/devices/system/cpu/online", &line);

        return r < 0 ? r : bitset_parse(line, ret);
}

/* What /proc says, CPUs that are offline included: sched_getaffinity() leaves those out. */
static int read_mask(pid_t pid, pid_t tid, Bitset *ret) {
        static const char key[] = "\nCpus_allowed_list:";
        _cleanup_free_ char *text = NULL;
        char path[64], *line;
        int r;

        (void) snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, tid);
        r = read_file_at(AT_FDCWD, path, 1U << 16, &text, NULL);
        if (r < 0)
                return r;
        line = strstr(text, key);
        if (!line)
                return -EIO;
        line += sizeof(key) - 1;
        line += strspn(line, " \t");
        line[strcspn(line, "\n")] = '\0';
        return bitset_parse(line, ret);
}

typedef struct Sample {
        Bitset mask, online, allowed;
} Sample;

static void sample_done(Sample *s) {
        bitset_done(&s->mask);
        bitset_done(&s->online);
        bitset_done(&s->allowed);
        *s = (Sample){};
}

/* Negative: gone, or it cannot be said. */
static int sample(const Cgroups *c, pid_t pid, pid_t tid, Sample *s) {
        CgroupInfo i = {};
        int r = read_online(&s->online);

        if (r >= 0)
                r = cgroup_of_pid(c, "", pid, &i);
        if (r < 0)
                return r;
        r = bitset_copy(&s->allowed, bitset_isempty(&i.cpus) ? &s->online : &i.cpus);
        cgroup_info_done(&i);
        return r < 0 ? r : read_mask(pid, tid, &s->mask);
}

static Fault judge(const Sample *s) {
        _cleanup_(bitset_done) Bitset live = BITSET_EMPTY;

        if (bitset_isempty(&s->mask))
                return FAULT_EMPTY;
        if (!bitset_intersects(&s->mask, &s->online))
                return FAULT_OFFLINE;
        if (bitset_copy(&live, &s->mask) < 0)
                return FAULT_NONE;
        bitset_and(&live, &s->online); /* a mask may keep CPUs that are offline: nothing runs there */
        return bitset_subset(&live, &s->allowed) ? FAULT_NONE : FAULT_OUTSIDE;
}

static bool same_world(const Sample *a, const Sample *b) {
        return bitset_equal(&a->online, &b->online) && bitset_equal(&a->allowed, &b->allowed);
}

/* Is it still wrong, in the same way and in the same world, after the kernel had its time? */
static bool lasts(const Cgroups *c, pid_t pid, pid_t tid, const Sample *first, Fault fault) {
        uint64_t end = now_usec() + LASTS_USEC;
        bool still = true;

        while (still && !stop && now_usec() < end) {
                Sample s = {};

                still = sample(c, pid, tid, &s) >= 0 && judge(&s) == fault && same_world(first, &s);
                sample_done(&s);
                (void) usleep(200);
        }
        return still && !stop;
}

static struct {
        pid_t tid; /* 0: free */
        uint64_t since;
        bool told;
} asleep[4096]; /* with a mask of CPUs that are offline */

/* True once, when it has been so for too long. */
static bool sleeps_too_long(pid_t tid, bool offline) {
        size_t free_row = ELEMENTSOF(asleep);

        for (size_t i = 0; i < ELEMENTSOF(asleep); i++) {
                if (asleep[i].tid == 0 && free_row == ELEMENTSOF(asleep))
                        free_row = i;
                if (asleep[i].tid != tid)
                        continue;
                if (!offline)
                        asleep[i].tid = 0;
                if (!offline || asleep[i].told || now_usec() - asleep[i].since < OFFLINE_USEC)
                        return false;
                asleep[i].told = true;
                return true;
        }
        if (offline && free_row < ELEMENTSOF(asleep)) {
                asleep[free_row].tid = tid;
                asleep[free_row].since = now_usec();
                asleep[free_row].told = false;
        }
        return false;
}

static void tell(FILE *f, pid_t pid, pid_t tid, const Sample *s, Fault fault) {
        _cleanup_free_ char *mask = NULL, *online = NULL, *allowed = NULL;

        if (bitset_format(&s->mask, &mask) < 0 || bitset_format(&s->online, &online) < 0 ||
            bitset_format(&s->allowed, &allowed) < 0)
                return;
        fprintf(f, "pid %d tid %d has %s: mask %s, online %s, its cpuset %s\n", pid, tid, faults[fault], mask, online,
                allowed);
        (void) fflush(f);
}

static unsigned look(const Cgroups *c, pid_t pid, FILE *f, unsigned long *n) {
        char path[32];
        unsigned wrong = 0;
        struct dirent *de;
        DIR *d;

        (void) snprintf(path, sizeof(path), "/proc/%d/task", pid);
        d = opendir(path);
        while (d && (de = readdir(d))) {
                Sample s = {};
                pid_t tid;

                if (text_parse_pid(de->d_name, &tid) < 0)
                        continue;
                if (sample(c, pid, tid, &s) >= 0) {
                        Fault fault = judge(&s);

                        (*n)++;
                        if (sleeps_too_long(tid, fault == FAULT_OFFLINE) ||
                            (fault != FAULT_NONE && fault != FAULT_OFFLINE && lasts(c, pid, tid, &s, fault))) {
                                tell(f, pid, tid, &s, fault);
                                wrong++;
                        }
                }
                sample_done(&s);
        }
        if (d)
                (void) closedir(d);
        return wrong;
}

int main(int argc, char **argv) {
        const struct sigaction action = { .sa_handler = on_signal };
        unsigned long samples = 0;
        unsigned wrong = 0;
        Cgroups c = {};
        FILE *f;

        if (argc < 3) {
                fprintf(stderr, "usage: mask-watch FILE PID...\n");
                return 2;
        }
        f = fopen(argv[1], "we");
        if (!f || cgroups_read("", &c) < 0) {
                fprintf(stderr, "mask-watch: %s cannot be written, or cgroups not be read\n", argv[1]);
                return 2;
        }
        (void) sigaction(SIGTERM, &action, NULL);
        (void) sigaction(SIGINT, &action, NULL);
        while (!stop) {
                for (int i = 2; i < argc && !stop; i++) {
                        pid_t pid;

                        if (text_parse_pid(argv[i], &pid) >= 0)
                                wrong += look(&c, pid, f, &samples);
                }
                (void) usleep(PAUSE_USEC);
        }
        fprintf(f, "%lu samples, %u wrong\n", samples, wrong);
        (void) fclose(f);
        cgroups_done(&c);
        return wrong > 0;
}
