/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sequences [--seed=N] [--count=N] [--steps=N] [--seconds=N] [--hotplug] [--keep] [--print]
 *
 * Random sequences of what happens to a host: jobs applied and reverted, the daemon killed in the middle, processes and
 * threads that come and go, cpusets rewritten by their owner, taskset by hand, another configuration, CPUs unplugged.
 * After each step the daemon gets two ticks and sequences-check.c looks. At the end all is reverted and must be as it
 * was. Needs a bus (DBUS_SYSTEM_BUS_ADDRESS), and qschedd and qschedctl in PATH. A failure prints what was expected, what
 * is there, the steps and the seed, by which the same sequence comes again. Exit: 0 all well, 1 not, 77 cannot run here.
 */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/fileio.h"
#include "sequences.h"

static struct {
        unsigned seed, count, steps, seconds;
        bool hotplug, keep, print;
} arg = { .seed = 1, .count = 1, .steps = 14 };

static void _printf_(2, 3) said(World *w, const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        vfprintf(w->trace, format, ap);
        va_end(ap);
        fputc('\n', w->trace);
        (void) fflush(w->trace);
}

static Puppet *some_puppet(World *w) {
        unsigned first = pick(w, PUPPETS);

        for (unsigned i = 0; i < PUPPETS; i++)
                if (w->puppets[(first + i) % PUPPETS].pid > 0)
                        return &w->puppets[(first + i) % PUPPETS];
        return NULL;
}

static void job_name(int job, char name[static 32]) {
        if (job >= (int) JOBS)
                (void) snprintf(name, 32, "seqrun%d-%d", getpid(), job); /* its group bears it */
        else
                (void) snprintf(name, 32, "seq%d", job);
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static int set_mask(World *w, pid_t tid, Set mask) {
        cpu_set_t set;
        char text[256];

        CPU_ZERO(&set);
        for (unsigned i = 0; i < 64; i++)
                if (mask >> i & 1)
                        CPU_SET(i, &set);
        if (sched_setaffinity(tid, sizeof(set), &set) < 0)
                return fail(w, "taskset of %d to %s: %s", tid, set_text(mask, text), strerror(errno));
        return 0;
}

static int step_birth(World *w) {
        Puppet *p = NULL;
        char text[256];
        int group = w->groups[0] ? (int) pick(w, GROUPS + 2) - 2 : NONE;
        unsigned n = pick(w, 4);

        for (unsigned i = 0; i < PUPPETS && !p; i++)
                p = w->puppets[i].pid > 0 ? NULL : &w->puppets[i];
        if (!p)
                return 0;
        if (puppet_start(w, p, MAX(group, NONE), NULL) < 0)
                return -1;
        if (pick(w, 3) == 0) {
                p->tids[0].own = pick_set(w, allowed_of(w, p->pid));
                if (set_mask(w, p->pid, p->tids[0].own) < 0)
                        return -1;
        }
        for (unsigned i = 0; i < n; i++)
                (void) puppet_do(p, i % 2 ? 'n' : 't');
        if (pick(w, 3) == 0)
                p->children[p->n_children++] = puppet_do(p, 'c');
        for_tids(w, p, unsure);
        said(w, "birth of puppet %d: group %d, mask %s, %u more threads, %u children", p->pid, p->group,
             p->tids[0].own ? set_text(p->tids[0].own, text) : "of its cpuset", n, p->n_children);
        return 0;
}

static int step_exit(World *w) {
        Puppet *p = some_puppet(w);

        if (!p)
                return 0;
        said(w, "end of puppet %d (job %d)", p->pid, p->job);
        puppet_end(p);
        return 0;
}

static int step_thread(World *w) {
        Puppet *p = some_puppet(w);
        unsigned n = pick(w, 4) + 1;

        if (!p || p->n_tids + 8 > THREADS)
                return 0;
        for_tids(w, p, unsure); /* notes what is there: heirs come after */
        for (unsigned i = 0; i < n; i++)
                (void) puppet_do(p, pick(w, 2) ? 'n' : 't');
        for_tids(w, p, unsure);
        said(w, "%u threads born in puppet %d", n, p->pid);
        return 0;
}

static int step_child(World *w) {
        Puppet *p = some_puppet(w);

        if (!p || p->n_children == CHILDREN || p->n_tids + 8 > THREADS)
                return 0;
        p->children[p->n_children++] = puppet_do(p, 'c');
        for_tids(w, p, unsure);
        said(w, "puppet %d has a child, %d", p->pid, p->children[p->n_children - 1]);
        return 0;
}

/* A job of some puppets that are free or its own already; its text is freed by the caller. */
static char *some_job(World *w, int *ret_job, unsigned *ret_puppets) {
        int job = (int) pick(w, JOBS);
        unsigned puppets = 0, n = 0, cpus = pick(w, 3);
        const char *match;
        bool device;
        char *text = NULL;
        size_t size;
        FILE *f;

        for (unsigned i = 0; i < PUPPETS; i++) {
                const Puppet *p = &w->puppets[i];

                if (p->pid > 0 && (p->job == NONE || p->job == job) && !p->run && n < 3 && pick(w, 3) > 0) {
                        puppets |= 1U << i;
                        n++;
                }
        }
        if (n == 0)
                return NULL;
        device = pick(w, 3) == 0 && n <= 2;
        f = open_memstream(&text, &size);
        assert(f);
        fprintf(f, "[Job]\nName=seq%d\n[Ranks]\nCount=%u\n%s%s%sMatch=pid:", job, n,
                cpus == 1   ? "CPUs=1\n"
                : cpus == 2 ? "CPUs=2\n"
                            : "",
                device ? "Device=seqdevice:1\n" : "", "");
        for (unsigned i = 0, k = 0; i < PUPPETS; i++)
                if (puppets >> i & 1)
                        fprintf(f, "%s%d", k++ ? "," : "", w->puppets[i].pid);
        fputc('\n', f);
        (void) fclose(f);
        *ret_job = job;
        *ret_puppets = puppets;
        match = strstr(text, "Match=");
        said(w, "apply of job seq%d: CPUs=%u%s, %.*s", job, cpus, device ? ", devices" : "", (int) strcspn(match, "\n"),
             match);
        return text;
}

static int step_apply(World *w) {
        _cleanup_free_ char *answer = NULL, *error = NULL, *text = NULL;
        json_t *plan;
        unsigned puppets;
        bool feasible;
        int job, r;

        text = some_job(w, &job, &puppets);
        if (!text)
                return 0;
        r = call(w, "Apply", text, &answer, &error);
        if (r < 0)
                return fail(w, "apply failed: %s", error);
        plan = json_loads(answer, 0, NULL);
        feasible = json_is_true(json_object_get(plan, "feasible"));
        json_decref(plan);
        said(w, "  %s", feasible ? "applied" : "infeasible");
        if (feasible) {
                assign(w, job, puppets);
                w->applied[job] = true;
        }
        return 0;
}

static int step_run(World *w) {
        Puppet *p = NULL;
        char name[32];
        unsigned i;

        for (i = 0; i < PUPPETS && !p; i++)
                p = w->puppets[i].pid > 0 ? NULL : &w->puppets[i];
        if (!p)
                return 0;
        job_name((int) (JOBS + i - 1), name);
        if (puppet_start(w, p, NONE, name) < 0)
                return -1;
        p->job = (int) (JOBS + i - 1);
        said(w, "qschedctl run: %s is puppet %d", name, p->pid);
        return 0;
}

static int some_applied(World *w) {
        int jobs[JOBS + PUPPETS];
        unsigned n = 0;

        for (unsigned i = 0; i < JOBS; i++)
                if (w->applied[i])
                        jobs[n++] = (int) i;
        for (unsigned i = 0; i < PUPPETS; i++)
                if (w->puppets[i].pid > 0 && w->puppets[i].job >= (int) JOBS)
                        jobs[n++] = w->puppets[i].job;
        return n ? jobs[pick(w, n)] : NONE;
}

static void reverted(World *w, int job) { /* NONE: all */
        for (unsigned i = 0; i < PUPPETS; i++)
                if (w->puppets[i].pid > 0 && (job == NONE || w->puppets[i].job == job))
                        leave_job(w, &w->puppets[i]);
        for (int i = 0; i < (int) JOBS; i++)
                if (job == NONE || job == i)
                        w->applied[i] = false;
}

static int step_revert(World *w) {
        _cleanup_free_ char *answer = NULL, *error = NULL;
        int job = some_applied(w);
        char name[32];

        if (job == NONE)
                return 0;
        job_name(job, name);
        said(w, "revert of %s", name);
        if (call(w, "Revert", name, &answer, &error) < 0)
                return fail(w, "revert of %s failed: %s", name, error);
        reverted(w, job);
        return 0;
}

static int step_revert_all(World *w) {
        _cleanup_free_ char *answer = NULL, *error = NULL;

        said(w, "revert of all");
        if (call(w, "Revert", "", &answer, &error) < 0)
                return fail(w, "revert of all failed: %s", error);
        reverted(w, NONE);
        return 0;
}

static int kill_and_start(World *w) {
        daemon_kill(w, SIGKILL, NULL);
        return daemon_start(w);
}

static int step_kill(World *w) {
        said(w, "kill -9 of the daemon, and a start");
        return kill_and_start(w);
}

/* The call is on its way when the daemon dies. */
static int kill_within(World *w, const char *method, const char *text) {
        sd_bus_message *m = call_message(w, method, text);
        int r = sd_bus_send(w->bus, m, NULL);

        if (r >= 0)
                r = sd_bus_flush(w->bus);
        sd_bus_message_unref(m);
        if (r < 0)
                return fail(w, "nothing could be sent: %s", strerror(-r));
        (void) usleep(pick(w, 4) * pick(w, 20000));
        r = kill_and_start(w);
        return r < 0 ? r : settle(w, 2);
}

static bool is_applied_now(const World *w, const char *name) {
        json_t *j;
        size_t i;

        json_array_foreach (json_object_get(w->status, "jobs"), i, j)
                if (streq(json_string_value(json_object_get(j, "name")), name))
                        return true;
        return false;
}

static unsigned puppets_now(const World *w, const char *name) {
        unsigned set = 0;
        json_t *t;
        size_t i;

        json_array_foreach (json_object_get(w->status, "tasks"), i, t) {
                const char *job = json_string_value(json_object_get(t, "job"));

                for (unsigned k = 0; job && streq(job, name) && k < PUPPETS; k++)
                        if (w->puppets[k].pid > 0 && w->puppets[k].pid == json_integer_value(json_object_get(t, "pid")))
                                set |= 1U << k;
        }
        return set;
}

static int step_kill_apply(World *w) {
        _cleanup_free_ char *text = NULL;
        unsigned puppets, before, now;
        char name[32];
        int job;

        text = some_job(w, &job, &puppets);
        if (!text)
                return 0;
        before = puppets_of(w, job);
        said(w, "  kill -9 of the daemon in the middle, and a start");
        if (kill_within(w, "Apply", text) < 0)
                return -1;
        job_name(job, name);
        now = puppets_now(w, name);
        said(w, "  %s is %s", name,
             !is_applied_now(w, name) ? "not applied"
             : now == puppets         ? "applied"
                                      : "as before");
        if (is_applied_now(w, name) && now == puppets) {
                assign(w, job, puppets);
                w->applied[job] = true;
        } else if (is_applied_now(w, name) != w->applied[job] || now != before)
                return fail(w, "after the start the job is neither as before (puppets %#x) nor as asked for (%#x): %#x",
                            before, puppets, now);
        return 0;
}

static int step_kill_revert(World *w) {
        int job = some_applied(w);
        char name[32];

        if (job == NONE)
                return 0;
        job_name(job, name);
        said(w, "revert of %s, kill -9 of the daemon in the middle, and a start", name);
        if (kill_within(w, "Revert", name) < 0)
                return -1;
        said(w, "  %s is %s", name, is_applied_now(w, name) ? "as before" : "reverted");
        if (!is_applied_now(w, name))
                reverted(w, job);
        return 0;
}

static int step_cpuset(World *w) {
        unsigned g = pick(w, GROUPS);
        Set cpus = pick_set(w, w->online0);
        char text[256];

        if (!w->groups[g] || cpus == w->group_cpus[g])
                return 0;
        everybody(w, unsure);
        said(w, "cpuset of group %u: %s", g, set_text(cpus, text));
        if (group_write(w, g, cpus) < 0)
                return -1;
        for (unsigned i = 0; i < PUPPETS; i++)
                if (w->puppets[i].pid > 0 && w->puppets[i].group == (int) g)
                        for_tids(w, &w->puppets[i], rewritten);
        return 0;
}

static int taskset(World *w, Puppet *p, pid_t pid, pid_t tid) {
        Tid *t = tid_of(p, tid);
        Set mask = pick_set(w, allowed_of(w, pid) & online());

        if (mask == mask_of(pid, tid, "Cpus_allowed_list"))
                return 0;
        if (set_mask(w, tid, mask) < 0)
                return -1;
        *(p->job == NONE ? &t->own : &t->theirs) = mask;
        /* A thread that is not noted yet is not known from one that was born so. */
        t->vague = p->job != NONE &&
                   (t->vague || now_usec() - t->born < 3000000U || (w->drift && !streq(w->drift, "report")));
        return 0;
}

static int step_taskset(World *w) {
        Puppet *p = some_puppet(w);
        _cleanup_free_ pid_t *tids = NULL;
        bool whole = pick(w, 2);
        unsigned n;

        if (!p)
                return 0;
        for_tids(w, p, unsure);
        if (tids_of(p->pid, &tids, &n) < 0)
                return fail(w, "puppet %d has gone", p->pid);
        for (unsigned i = 0; i < n; i++)
                if ((whole || tids[i] == p->pid) && taskset(w, p, p->pid, tids[i]) < 0)
                        return -1;
        said(w, "taskset of %s puppet %d", whole ? "all threads of" : "the main thread of", p->pid);
        return 0;
}

static int step_reload(World *w) {
        static const char *const drift[] = { "report", "reassert", "yield" };

        if (w->has_drift)
                w->drift = drift[pick(w, 3)];
        w->roles = pick(w, 2);
        everybody(w, unsure);
        said(w, "reload: Drift=%s ThreadRoles=%s", w->drift ? w->drift : "(no such key)",
             w->has_roles ? w->roles ? "yes" : "no" : "(no such key)");
        if (world_config(w) < 0 || kill(w->daemon, SIGHUP) < 0)
                return fail(w, "no reload: %s", strerror(errno));
        return 0;
}

static int plug(World *w, unsigned cpu, bool on) {
        char path[64];

        (void) snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online", cpu);
        return write_file_at(-1, path, on ? "1" : "0") < 0 ? fail(w, "%s cannot be written", path) : 0;
}

/* The legacy hierarchy takes a CPU that goes offline out of cpusets for good, a moment later. */
static int cpusets_lose(World *w, unsigned cpu) {
        for (unsigned g = 0; g < GROUPS && w->groups[g]; g++) {
                unsigned tries = 200;

                w->group_cpus[g] &= ~(UINT64_C(1) << cpu);
                while (set_read(w->groups[g], "cpuset.cpus") != w->group_cpus[g] && tries-- > 0)
                        (void) usleep(10000);
        }
        return 0;
}

/* One that would lose its last is taken away by the kernel, with all that lives in it moved out. */
static bool would_empty(const World *w, unsigned cpu) {
        for (unsigned g = 0; g < GROUPS && w->groups[g]; g++)
                if (!w->unified && w->group_cpus[g] == UINT64_C(1) << cpu)
                        return true;
        return false;
}

static int step_hotplug(World *w) {
        unsigned cpu = pick(w, 64);
        int r;
        Set now = online();

        while (cpu == 0 || !(w->online0 >> cpu & 1))
                cpu = pick(w, 64);
        if (!w->hotplug || ((now >> cpu & 1) && (__builtin_popcountll(now) <= 3 || would_empty(w, cpu))))
                return 0;
        everybody(w, unsure);
        said(w, "CPU %u goes %s", cpu, now >> cpu & 1 ? "offline" : "online");
        r = plug(w, cpu, !(now >> cpu & 1));
        return r >= 0 && !w->unified && (now >> cpu & 1) ? cpusets_lose(w, cpu) : r;
}

/* --- sequences ---------------------------------------------------------------------------------------------------- */

static const struct {
        int (*step)(World *);
        unsigned weight;
} steps[] = {
        { step_birth, 3 },       { step_exit, 1 },   { step_thread, 2 },     { step_child, 1 },  { step_apply, 5 },
        { step_run, 1 },         { step_revert, 2 }, { step_revert_all, 1 }, { step_kill, 1 },   { step_kill_apply, 2 },
        { step_kill_revert, 1 }, { step_cpuset, 3 }, { step_taskset, 2 },    { step_reload, 1 }, { step_hotplug, 3 },
};

static int some_step(World *w) {
        unsigned sum = 0, n;

        for (unsigned i = 0; i < ELEMENTSOF(steps); i++)
                sum += steps[i].weight;
        n = pick(w, sum);
        for (unsigned i = 0;; n -= steps[i++].weight)
                if (n < steps[i].weight)
                        return steps[i].step(w);
}

static int go_home(World *w) {
        int status = 0;

        for (unsigned i = 0; w->hotplug && i < 64; i++)
                if ((w->online0 & ~online()) >> i & 1 && plug(w, i, true) < 0)
                        return -1;
        if (settle(w, 2) < 0 || step_revert_all(w) < 0 || settle(w, 2) < 0 || check_end(w) < 0)
                return -1;
        for (unsigned g = 0; g < GROUPS && w->groups[g]; g++)
                if (group_write(w, g, w->online0) < 0)
                        return -1;
        for (unsigned i = 0; i < PUPPETS; i++)
                if (w->puppets[i].pid > 0 && w->puppets[i].group != NONE)
                        for_tids(w, &w->puppets[i], rewritten);
        said(w, "all cpusets are wide again");
        if (settle(w, 2) < 0 || check_end(w) < 0)
                return -1;
        daemon_kill(w, SIGTERM, &status);
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : fail(w, "the daemon ended with status %#x", status);
}

static int go(World *w) {
        int r = world_open(w);

        for (unsigned i = 0; r >= 0 && i < 3; i++)
                r = step_birth(w);
        for (unsigned i = 0; r >= 0 && i < arg.steps; i++) {
                r = some_step(w);
                if (r >= 0)
                        r = settle(w, 2);
                if (r >= 0)
                        r = check(w);
        }
        return r < 0 ? r : go_home(w);
}

static void tell(const World *w) {
        _cleanup_free_ char *command = NULL;

        printf("seed %u failed: %s\nsteps (CPUs %#llx%s):\n%s", w->seed0, w->failure, (unsigned long long) w->online0,
               w->keeps_masks ? "" : ", masks are lost when a cpuset is written", w->steps ? w->steps : "");
        printf("the daemon's last lines, from %s:\n", w->dir);
        (void) fflush(stdout);
        if (asprintf(&command, "tail -n 25 '%s/qschedd.log'", w->dir) > 0)
                (void) !system(command);
}

static int sequence(unsigned seed) {
        World w = { .seed = seed, .seed0 = seed, .hotplug = arg.hotplug };
        char dir[] = "/tmp/qsched-sequences-XXXXXX";
        _cleanup_free_ char *command = NULL;
        int r;

        w.dir = mkdtemp(dir);
        w.trace = open_memstream(&w.steps, &w.steps_size);
        if (!w.dir || !w.trace)
                return -errno;
        r = go(&w);
        if (r < 0)
                tell(&w);
        else
                printf("seed %u: well\n%s", seed, arg.print ? w.steps : "");
        (void) fflush(stdout);
        for (unsigned i = 0; w.hotplug && i < 64; i++)
                if ((w.online0 & ~online()) >> i & 1)
                        (void) plug(&w, i, true);
        world_close(&w);
        (void) fclose(w.trace);
        free(w.steps);
        if (!arg.keep && (r >= 0 || !getenv("QSCHED_KEEP")) && asprintf(&command, "rm -rf '%s'", dir) > 0)
                (void) !system(command);
        return r;
}

static unsigned value(const char *option) {
        char *end;
        unsigned long v = strtoul(optarg, &end, 10);

        if (end == optarg || *end || v > UINT32_MAX) {
                fprintf(stderr, "sequences: --%s=%s: not a number\n", option, optarg);
                exit(2);
        }
        return (unsigned) v;
}

static void parse(int argc, char **argv) {
        static const struct option options[] = {
                { "seed", required_argument, NULL, 's' },
                { "count", required_argument, NULL, 'n' },
                { "steps", required_argument, NULL, 't' },
                { "seconds", required_argument, NULL, 'm' },
                { "puppet", required_argument, NULL, 'p' },
                { "hotplug", no_argument, NULL, 'h' },
                { "keep", no_argument, NULL, 'k' },
                { "print", no_argument, NULL, 'v' },
                {},
        };
        int c;

        while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0)
                switch (c) {
                case 's': arg.seed = value("seed"); break;
                case 'n': arg.count = value("count"); break;
                case 't': arg.steps = value("steps"); break;
                case 'm': arg.seconds = value("seconds"); break;
                case 'h': arg.hotplug = true; break;
                case 'k': arg.keep = true; break;
                case 'v': arg.print = true; break;
                case 'p': exit(puppet_main(optarg));
                default: exit(2);
                }
}

int main(int argc, char **argv) {
        unsigned done = 0, failed = 0;
        uint64_t end;

        parse(argc, argv);
        end = now_usec() + (uint64_t) arg.seconds * 1000000U;
        if (geteuid() != 0 || __builtin_popcountll(online()) < 2) {
                printf("needs root and two CPUs\n");
                return 77;
        }
        for (; done < arg.count && failed < 10 && (arg.seconds == 0 || now_usec() < end); done++)
                failed += sequence(arg.seed + done) < 0;
        printf("%u sequences from seed %u, %u failed\n", done, arg.seed, failed);
        return failed > 0;
}
