/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who else places processes or interrupts on this host. irqbalance is asked itself, where it has a socket and lets us
 * (root): its "setup" request only reads; else its command line tells what it was started with. kubelet's policies stand
 * in its state and config files; other programs are known by their names.
 */
#include "daemon/readers/doctor-internal.h"

#include "daemon/readers/irqbalance.h"

#define CMDLINE_MAX (64U << 10)

typedef struct Balancer {
        pid_t pid;
        bool asked;  /* the bans are its own answer */
        bool script; /* --policyscript= decides about each interrupt */
        Bitset banned;
} Balancer;

/* The value of an option in one of its spellings: "--name=V", "--name" "V", "-x" "V", "-xV". */
static const char *option_value(const char *word, const char *next, const char *name, const char *letter) {
        size_t n = strlen(name);

        if (strncmp(word, name, n) == 0 && (word[n] == '=' || word[n] == '\0'))
                return word[n] ? word + n + 1 : next;
        if (strncmp(word, letter, 2) == 0)
                return word[2] ? word + 2 : next;
        return NULL;
}

static int read_arguments(const Doctor *d, Balancer *b) {
        _cleanup_free_ char *text = NULL;
        size_t size = 0;
        int r = proc_read_text(d->proc_fd, b->pid, "cmdline", CMDLINE_MAX, &text, &size);

        for (const char *p = text; r >= 0 && p < text + size; p += strlen(p) + 1) {
                const char *next = p + strlen(p) + 1 < text + size ? p + strlen(p) + 1 : "";
                const char *irq = option_value(p, next, "--banirq", "-i");
                unsigned n;

                b->script = b->script || option_value(p, next, "--policyscript", "-l");
                if (irq && text_parse_uint(irq, 0, BITSET_MAX - 1, &n) >= 0)
                        r = bitset_set(&b->banned, n);
        }
        return r;
}

static int all_vectors(const Doctor *d, Bitset *ret) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < d->snapshot->n_devices; i++) {
                _cleanup_free_ int *irqs = NULL;
                size_t n = 0;

                r = doctor_device_vectors(d, &d->snapshot->devices[i], &irqs, &n);
                for (size_t k = 0; r >= 0 && k < n; k++)
                        r = bitset_set(ret, (unsigned) irqs[k]);
        }
        return r;
}

static int say_irqbalance(Doctor *d, const Balancer *b, const Bitset *vectors) {
        unsigned n = bitset_weight(vectors), open = n - bitset_and_weight(vectors, &b->banned);
        const char *source = b->asked ? "it says" : "by its command line";
        _cleanup_free_ char *list = NULL;

        if (n == 0)
                return doctor_say(d, DOCTOR_NOTE,
                                  "irqbalance runs (pid %d); no device here has vectors that it could move.",
                                  (int) b->pid);
        if (open == 0)
                return doctor_say(d, DOCTOR_OK, "irqbalance runs (pid %d) with all %u vectors of devices banned (%s).",
                                  (int) b->pid, n, source);
        if (b->script)
                return doctor_say(
                               d, DOCTOR_NOTE,
                               "irqbalance runs (pid %d) with a policy script, which decides about %u of %u vectors of "
                               "devices.",
                               (int) b->pid, open, n)
                               ?: doctor_mend(d, "See that the script prints \"ban=true\" for the vectors of devices.");
        if (bitset_format(vectors, &list) < 0)
                return -ENOMEM;
        return doctor_say(
                       d, DOCTOR_WARNING,
                       "irqbalance runs (pid %d), and %u of %u vectors of devices (%s) are not banned from it (%s): it "
                       "moves them away from their rank.",
                       (int) b->pid, open, n, list, source)
                       ?: doctor_mend(
                                  d,
                                  "It need not be stopped: add --banirq=N for each to IRQBALANCE_ARGS (OPTIONS in older Debian and Ubuntu) in "
                                  "/etc/default/irqbalance or /etc/sysconfig/irqbalance, and restart it.");
}

static bool ask_balancer(const Doctor *d, Balancer *b) {
        Irqbalance socket = {};

        return irqbalance_find(d->params->root, true, &socket) > 0 && socket.pid == b->pid &&
               irqbalance_bans(d->params->root, &socket, &b->banned) >= 0;
}

int doctor_irqbalance(Doctor *d) {
        Balancer b = { .pid = doctor_find_process(d, "irqbalance") };
        Bitset vectors = BITSET_EMPTY;
        int r;

        if (b.pid == 0)
                return doctor_say(d, DOCTOR_OK, "irqbalance does not run.");
        r = read_arguments(d, &b);
        if (r >= 0)
                b.asked = ask_balancer(d, &b);
        if (r >= 0)
                r = all_vectors(d, &vectors);
        if (r >= 0)
                r = say_irqbalance(d, &b, &vectors);
        bitset_done(&b.banned);
        bitset_done(&vectors);
        return r;
}

typedef struct Rival {
        const char *comm;
        DoctorLevel level;
        const char *does; /* "NAME (pid N) runs: it …" */
        const char *mend;
} Rival;

static const Rival rivals[] = {
        /* process name, level, what it does, what to do */
        { "numad", DOCTOR_PROBLEM, "it binds busy processes to nodes of its own choice, anew each time",
          "systemctl disable --now numad" },
        { "koordlet", DOCTOR_WARNING, "Koordinator's agent writes the cpusets of pods",
          "Leave pods with devices to one of the two: switch its CPU orchestration off for them." },
        { "rubik", DOCTOR_WARNING, "openEuler's rubik writes cpusets and quotas of pods",
          "Leave its CPU features off for pods with devices." },
        { "atuned", DOCTOR_WARNING, "A-Tune may set masks, governors and interrupt affinity by its profile",
          "atune-adm list shows the profile in force; use one without affinity settings." },
        { "oeaware", DOCTOR_WARNING,
          "oeAware's tune_numa_mem_access moves threads and pages, net_hard_irq_tune interrupts",
          "oeawarectl -q lists what is enabled; oeawarectl -d tune_numa_mem_access, and so for net_hard_irq_tune" },
        { "cpuset-manager", DOCTOR_WARNING, "it writes the cpusets of containers",
          "Leave containers with devices out of its configuration, or let it alone place them." },
        { "uksmd", DOCTOR_NOTE, "it merges pages of processes, which then have no node of their own",
          "systemctl disable --now uksmd" },
};

static int say_tuned(Doctor *d, pid_t pid) {
        _cleanup_free_ char *profile = NULL;
        bool places;

        (void) doctor_line(d, "/etc/tuned/active_profile", &profile);
        places = profile && (strstr(profile, "cpu-partitioning") || strstr(profile, "realtime"));
        return doctor_say(d, places ? DOCTOR_WARNING : DOCTOR_NOTE, "tuned (pid %d) runs with the profile %s%s.",
                          (int) pid, profile && *profile ? profile : "that is not to be read",
                          places ? ", which moves threads and interrupts off its isolated CPUs"
                                 : "; it may set the governor, numa_balancing and huge pages")
                       ?: doctor_mend(
                                  d,
                                  places ? "tuned-adm profile throughput-performance"
                                         : "Set what this report asks for in that profile, so that tuned does not undo it.");
}

/* The value of a "Key=…" line of slurm.conf, not case-sensitive. */
static bool slurm_plugin_binds(const char *conf, char *value, size_t size) {
        for (const char *p = conf; p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
                if (strncasecmp(p, "TaskPlugin=", 11) == 0) {
                        (void) snprintf(value, size, "%.*s", (int) strcspn(p + 11, " \t#\r\n"), p + 11);
                        return strstr(value, "affinity") || strstr(value, "cgroup");
                }
        return false;
}

static int say_slurm(Doctor *d, pid_t pid) {
        static const char *const places[] = { "/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf",
                                              "/usr/local/etc/slurm.conf" };
        char value[64] = "";
        bool binds = false;

        for (size_t i = 0; !*value && i < ELEMENTSOF(places); i++) {
                _cleanup_free_ char *conf = NULL;

                if (doctor_text(d, places[i], &conf) >= 0)
                        binds = slurm_plugin_binds(conf, value, sizeof(value));
        }
        if (!binds)
                return doctor_say(d, DOCTOR_NOTE, "slurmd (pid %d) runs%s%s%s: steps are placed inside what it allows.",
                                  (int) pid, *value ? " with TaskPlugin=" : "", value,
                                  *value ? "" : "; its TaskPlugin= could not be read");
        return doctor_say(d, DOCTOR_WARNING,
                          "slurmd (pid %d) runs with TaskPlugin=%s: it binds the tasks of a step when they start.",
                          (int) pid, value)
                       ?: doctor_mend(
                                  d,
                                  "Start steps with srun --cpu-bind=none; qschedd stays inside the cpuset of the step.");
}

int doctor_rivals(Doctor *d) {
        size_t before = d->report.n_findings;
        pid_t pid;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(rivals); i++) {
                pid = doctor_find_process(d, rivals[i].comm);
                if (pid > 0)
                        r = doctor_say(d, rivals[i].level, "%s (pid %d) runs: %s.", rivals[i].comm, (int) pid,
                                       rivals[i].does)
                                    ?: doctor_mend(d, "%s", rivals[i].mend);
        }
        if (r >= 0 && (pid = doctor_find_process(d, "tuned")) > 0)
                r = say_tuned(d, pid);
        if (r >= 0 && (pid = doctor_find_process(d, "slurmd")) > 0)
                r = say_slurm(d, pid);
        if (r >= 0 && d->report.n_findings == before)
                r = doctor_say(d, DOCTOR_OK, "No other program that places processes is known to run.");
        return r;
}

/* A plain scalar at the top level of kubelet's config.yaml, perhaps in quotes. */
static void yaml_value(const char *yaml, const char *key, char *value, size_t size) {
        size_t k = strlen(key);

        for (const char *p = yaml; p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
                if (strncmp(p, key, k) == 0 && p[k] == ':') {
                        p += k + 1;
                        p += strspn(p, " \t\"'");
                        (void) snprintf(value, size, "%.*s", (int) strcspn(p, " \t\"'#\r\n"), p);
                        return;
                }
}

int doctor_kubelet(Doctor *d) {
        _cleanup_free_ char *yaml = NULL, *reason = NULL, *state = NULL;
        char topology[64] = "none", memory[64] = "None";
        Bitset reserved = BITSET_EMPTY;
        int r = doctor_text(d, "/var/lib/kubelet/cpu_manager_state", &state);

        if (r == -ENOENT)
                return doctor_say(d, DOCTOR_OK, "There is no kubelet with a CPU manager here.");
        if (r >= 0)
                r = kubelet_reserved(strempty(d->params->root), &reserved, &reason);
        bitset_done(&reserved);
        if (r < 0)
                return r;
        if (doctor_text(d, "/var/lib/kubelet/config.yaml", &yaml) >= 0) {
                yaml_value(yaml, "topologyManagerPolicy", topology, sizeof(topology));
                yaml_value(yaml, "memoryManagerPolicy", memory, sizeof(memory));
        }
        if (!reason)
                return doctor_say(
                        d, DOCTOR_NOTE,
                        "kubelet's CPU manager has the policy none: all pods share all CPUs, and qschedd places "
                        "inside of that (topology manager: %s).",
                        topology);
        if (streq(topology, "none"))
                return doctor_say(
                               d, DOCTOR_WARNING,
                               "%s, and its topology manager has the policy none: these CPUs need not be on the node of "
                               "the pod's device.",
                               reason)
                               ?: doctor_mend(
                                          d, "topologyManagerPolicy: single-numa-node (or best-effort) in "
                                             "/var/lib/kubelet/config.yaml, remove cpu_manager_state, restart kubelet");
        return doctor_say(d, DOCTOR_NOTE, "%s; qschedd leaves these alone (topology manager: %s, memory manager: %s).",
                          reason, topology, memory);
}
