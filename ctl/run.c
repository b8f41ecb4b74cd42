/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run: the daemon places this very process (it is the one on the connection), this process sets its memory policy,
 * then it becomes the command. Memory is preferred on the plan's nodes, never bound: a full node shall spill, not kill.
 * Nothing is started when it cannot be placed.
 */
#include <ctype.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/bitset.h"
#include "common/log.h"
#include "common/text.h"
#include "ctl/output.h"
#include "daemon/readers/jobfile.h"

/* linux/mempolicy.h; MPOL_PREFERRED_MANY is Linux 5.15, later than the headers of some hosts. */
#define POLICY_PREFERRED 1
#define POLICY_PREFERRED_MANY 5

static int is_command(const char *path) {
        struct stat st;

        if (stat(path, &st) < 0 || access(path, X_OK) < 0)
                return -errno;
        return S_ISREG(st.st_mode) ? 0 : -EACCES;
}

/* EXIT_DONE when execvp() will find it, else what env(1) would return. */
static int find_command(const char *command) {
        _cleanup_(strv_freep) char **dirs = NULL;
        const char *path = getenv("PATH") ?: "/usr/local/bin:/usr/bin:/bin";
        int code = EXIT_NO_COMMAND, r;

        if (strchr(command, '/')) {
                r = is_command(command);
                if (r >= 0)
                        return EXIT_DONE;
                log_error_errno(r, "Cannot run %s: %m", command);
                return r == -ENOENT || r == -ENOTDIR ? EXIT_NO_COMMAND : EXIT_CANNOT_EXEC;
        }
        (void) strv_split(path, ":", &dirs);
        for (char **d = dirs; d && *d; d++) {
                _cleanup_free_ char *file = NULL;

                if (asprintf(&file, "%s/%s", *d, command) < 0)
                        return EXIT_FAILED;
                r = is_command(file);
                if (r >= 0)
                        return EXIT_DONE;
                if (r == -EACCES)
                        code = EXIT_CANNOT_EXEC;
        }
        log_error("Cannot run %s: %s", command,
                  code == EXIT_NO_COMMAND ? "there is no such command in PATH" : "Permission denied");
        return code;
}

/* The command's name in what a job may be called, and the pid: two runs of one command are two jobs. */
static char *default_name(const char *command) {
        const char *slash = strrchr(command, '/'), *base = slash ? slash + 1 : command;
        char *name = NULL;

        if (asprintf(&name, "%.32s-%d", *base ? base : "run", (int) getpid()) < 0)
                return NULL;
        for (char *p = name; *p; p++)
                if (!isalnum((unsigned char) *p) && *p != '-' && *p != '_' && *p != '.')
                        *p = '-';
        return name;
}

static bool one_line(const char *option, const char *value) {
        for (const char *p = strempty(value); *p; p++)
                if ((unsigned char) *p < 0x20) {
                        log_error("--%s=: a control character is not allowed in it.", option);
                        return false;
                }
        return true;
}

static int job_from_options(const Options *o, const char *command, Job **ret) {
        _cleanup_free_ char *name = o->name ? strdup(o->name) : default_name(command), *text = NULL, *message = NULL;
        size_t size = 0;
        FILE *f;
        int r;

        if (!one_line("name", o->name) || !one_line("cpus", o->cpus) || !one_line("memory", o->memory) ||
            !one_line("device", o->device))
                return EXIT_USAGE;
        f = open_memstream(&text, &size);
        if (!f || !name)
                return log_oom(), EXIT_FAILED;
        fprintf(f, "[Job]\nName=%s\n[Ranks]\nCount=1\n", name);
        if (o->cpus)
                fprintf(f, "CPUs=%s\n", o->cpus);
        if (o->memory)
                fprintf(f, "Memory=%s\n", o->memory);
        if (o->device)
                fprintf(f, "Device=%s\n", o->device);
        if (fclose(f) != 0)
                return log_oom(), EXIT_FAILED;
        r = job_parse("the job made from the options", text, size, NULL, ret, &message);
        if (r < 0) {
                log_error("%s", message ?: strerror(-r));
                return EXIT_USAGE;
        }
        return EXIT_DONE;
}

static int make_job(const Options *o, const char *command, Job **ret) {
        Job **jobs = NULL;
        size_t n;
        int r;

        if (!o->job)
                return job_from_options(o, command, ret);
        if (o->name || o->cpus || o->memory || o->device) {
                log_error("--job takes everything from the file: leave out --name, --cpus, --memory and --device.");
                return EXIT_USAGE;
        }
        r = ctl_load_jobs((char *[]){ (char *) o->job, NULL }, 1, &jobs, &n);
        if (r == EXIT_DONE) {
                *ret = jobs[0];
                free(jobs);
        }
        return r;
}

static int call_run(const Options *o, const Job *job, json_t **ret) {
        _cleanup_(sd_bus_flush_close_unrefp) sd_bus *bus = NULL;
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
        int r, q;

        r = client_open(o, &bus);
        if (r == EXIT_DONE)
                r = client_method(bus, "Run", &m);
        if (r != EXIT_DONE)
                return r;
        q = sd_bus_message_append(m, "s", job->text);
        if (q >= 0)
                q = client_append_options(m, o);
        if (q < 0) {
                log_error_errno(q, "Failed to fill the call Run: %m");
                return EXIT_FAILED;
        }
        return client_call(bus, m, ret);
}

/* This process's part of the plan: the task with its pid, else the only one. */
static const json_t *own_task(const json_t *plan) {
        const json_t *tasks = jget(plan, "tasks"), *t;
        size_t i;

        json_array_foreach ((json_t *) tasks, i, t)
                if (jnum(t, "pid") == getpid())
                        return t;
        return json_array_size(tasks) == 1 ? json_array_get(tasks, 0) : NULL;
}

static int prefer_memory(const char *mems) {
        unsigned long
                mask[BITSET_MAX / (8 * sizeof(unsigned long)) / 64] = {}; /* 1,024 nodes, the kernel's own limit */
        const unsigned bits = sizeof(mask) * 8, word = 8 * sizeof(*mask);
        _cleanup_(bitset_done) Bitset nodes = BITSET_EMPTY;
        int first;

        if (bitset_parse(mems, &nodes) < 0 || bitset_isempty(&nodes))
                return 0;
        BITSET_FOREACH (i, &nodes)
                if ((unsigned) i < bits)
                        mask[(unsigned) i / word] |= 1UL << ((unsigned) i % word);
        if (syscall(SYS_set_mempolicy, POLICY_PREFERRED_MANY, mask, (unsigned long) bits + 1) >= 0)
                return 0;
        if (errno != EINVAL)
                return -errno;
        first = bitset_first(&nodes); /* older kernels prefer one node */
        memset(mask, 0, sizeof(mask));
        mask[(unsigned) first / word] = 1UL << ((unsigned) first % word);
        return syscall(SYS_set_mempolicy, POLICY_PREFERRED, mask, (unsigned long) bits + 1) < 0 ? -errno : 0;
}

static void tell_place(const json_t *plan, const json_t *task) {
        _cleanup_free_ char *devices = jjoin(jget(task, "device"), ",");

        fprintf(stderr, "qschedctl: %s on CPUs %s, memory node %s%s%s%s%s\n", jstr(task, "name"), jstr(task, "cpus"),
                *jstr(task, "mems") ? jstr(task, "mems") : "any", devices && *devices ? ", device " : "",
                strempty(devices), *jstr(plan, "group") ? ", in " : "", jstr(plan, "group"));
}

static int settle(const Options *o, const json_t *plan) {
        const json_t *task = own_task(plan), *v;
        size_t i;
        int r;

        if (!json_is_true(jget(plan, "feasible")) || !task) {
                json_array_foreach ((json_t *) jget(plan, "messages"), i, v)
                        log_error("%s", strempty(json_string_value(v)));
                if (json_array_size(jget(plan, "messages")) == 0)
                        log_error("The daemon found no place for the command.");
                return EXIT_INFEASIBLE;
        }
        r = prefer_memory(jstr(task, "mems"));
        if (r < 0)
                log_warning_errno(r, "Cannot prefer memory of node %s, going on without: %m", jstr(task, "mems"));
        if (!o->quiet) {
                tell_place(plan, task);
                json_array_foreach ((json_t *) jget(plan, "messages"), i, v)
                        log_notice("%s", strempty(json_string_value(v)));
        }
        return EXIT_DONE;
}

int verb_run(const Options *o, int argc, char **argv) {
        _cleanup_(job_freep) Job *job = NULL;
        json_t *plan = NULL;
        int r;

        r = find_command(argv[0]);
        if (r == EXIT_DONE)
                r = make_job(o, argv[0], &job);
        if (r == EXIT_DONE)
                r = call_run(o, job, &plan);
        if (r == EXIT_DONE)
                r = settle(o, plan);
        json_decref(plan);
        if (r != EXIT_DONE)
                return r;
        (void) signal(SIGPIPE, SIG_DFL); /* main() ignores it, and that would be inherited */
        (void) execvp(argv[0], argv);
        r = errno == ENOENT ? EXIT_NO_COMMAND : EXIT_CANNOT_EXEC;
        log_error_errno(-errno, "Cannot run %s: %m", argv[0]);
        return r;
}
