/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of checks and what runs them; then the checks of what qschedd itself builds on: daemon, rights, systemd,
 * polkit, control groups, kernel. Everything is read below params->root, so that a recorded host is examined as this one
 * is; only the user id and, on old kernels, the trial of two system calls belong to this system alone.
 */
#include "daemon/readers/doctor-internal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define TEXT_MAX (64U << 20)
#define LISTING_LIMIT 4U
#define MPOL_DEFAULT 0
#define MPOL_PREFERRED_MANY 5

const char *const doctor_level_names[] = { "ok", "note", "unknown", "warning", "problem", NULL };

static int check_daemon(Doctor *d);
static int check_rights(Doctor *d);
static int check_systemd(Doctor *d);
static int check_polkit(Doctor *d);
static int check_cgroup(Doctor *d);
static int check_kernel(Doctor *d);
static int check_btf(Doctor *d);

const DoctorCheck doctor_checks[] = {
        /* name, what it looks at, function */
        { "daemon", "Whether qschedd runs and answers", check_daemon },
        { "rights", "Whether the caller may look at other users' processes", check_rights },
        { "systemd", "Whether systemd is the init: slices and scopes need it", check_systemd },
        { "polkit", "Whether polkit is there to grant changes to others than root", check_polkit },
        { "cgroup", "Version of control groups, and where the cpuset controller is", check_cgroup },
        { "kernel", "Kernel old enough to lack pidfd (5.3) or preferring several memory nodes (5.15)", check_kernel },
        { "btf", "Type information of the kernel, which probes need", check_btf },
        { "irqbalance", "Whether irqbalance runs, and which vectors of devices are not banned from it",
          doctor_irqbalance },
        { "rivals", "Other programs that place: numad, tuned, slurmd, koordlet, rubik, atuned, oeaware",
          doctor_rivals },
        { "kubelet", "CPU manager and topology manager policy of kubelet", doctor_kubelet },
        { "numa-balancing", "Automatic NUMA balancing, kernel.numa_balancing", doctor_numa_balancing },
        { "zone-reclaim", "Reclaim before a remote node is used, vm.zone_reclaim_mode", doctor_zone_reclaim },
        { "huge-pages", "Transparent huge pages, and who waits for them", doctor_huge_pages },
        { "swap", "Swap in use, and vm.swappiness", doctor_swap },
        { "governor", "CPU frequency governors other than performance", doctor_governor },
        { "isolation", "CPUs isolated by isolcpus= or without a tick by nohz_full=, and who has several threads there",
          doctor_isolation },
        { "smt", "Hardware threads per core", doctor_smt },
        { "offline", "CPUs that are there and offline", doctor_offline },
        { "device-node", "Devices that do not tell their NUMA node", doctor_device_node },
        { "device-irqs", "Vectors of devices that go to one CPU, or to another node's CPUs", doctor_device_irqs },
        { "cpu-wall", "Cpusets around accelerator processes that leave out the CPUs of their device's node",
          doctor_cpu_wall },
        { "memory-wall", "Memory nodes that cpusets leave out, while an accelerator process has its device there",
          doctor_memory_wall },
        { "pins", "Variables by which frameworks, OpenMP and MPI pin accelerator processes themselves", doctor_pins },
        { "vllm-ascend", "Workers of vLLM on Ascend devices, which bind themselves at start", doctor_vllm },
        { "masks", "Accelerator processes with a mask that qschedd did not set", doctor_masks },
        { "shared", "Accelerator processes that are pinned to the same CPUs", doctor_shared },
        {}
};

int doctor_say(Doctor *d, DoctorLevel level, const char *format, ...) {
        DoctorFinding *f = reallocarray(d->report.findings, d->report.n_findings + 1, sizeof(*f));
        va_list ap;
        int n;

        if (!f)
                return -ENOMEM;
        d->report.findings = f;
        f += d->report.n_findings;
        *f = (DoctorFinding){ .check = d->check, .level = level };
        va_start(ap, format);
        n = vasprintf(&f->sentence, format, ap);
        va_end(ap);
        if (n < 0)
                return f->sentence = NULL, -ENOMEM;
        d->report.n_findings++;
        return 0;
}

int doctor_mend(Doctor *d, const char *format, ...) {
        DoctorFinding *f = &d->report.findings[d->report.n_findings - 1];
        va_list ap;
        int n;

        va_start(ap, format);
        n = vasprintf(&f->remedy, format, ap);
        va_end(ap);
        if (n < 0)
                return f->remedy = NULL, -ENOMEM;
        return 0;
}

static char *below_root(const Doctor *d, const char *path) {
        char *s;

        return asprintf(&s, "%s%s", strempty(d->params->root), path) < 0 ? NULL : s;
}

int doctor_open(const Doctor *d, const char *path, int flags) {
        _cleanup_free_ char *full = below_root(d, path);
        int fd = full ? open(full, flags | O_CLOEXEC) : -1;

        return fd >= 0 ? fd : full ? -errno : -ENOMEM;
}

int doctor_text(const Doctor *d, const char *path, char **ret) {
        _cleanup_free_ char *full = below_root(d, path);

        return full ? read_file_at(AT_FDCWD, full, TEXT_MAX, ret, NULL) : -ENOMEM;
}

int doctor_line(const Doctor *d, const char *path, char **ret) {
        _cleanup_free_ char *full = below_root(d, path);

        return full ? read_line_at(AT_FDCWD, full, ret) : -ENOMEM;
}

int doctor_number(const Doctor *d, const char *path, uint64_t *ret) {
        _cleanup_free_ char *line = NULL;
        int r = doctor_line(d, path, &line);

        return r < 0 ? r : text_parse_u64(line, ret);
}

int doctor_set(const Doctor *d, const char *path, Bitset *ret) {
        _cleanup_free_ char *line = NULL;
        int r = doctor_line(d, path, &line);

        if (r < 0)
                return r;
        return bitset_parse(*line == '(' || *line == ' ' ? "" : line, ret);
}

bool doctor_exists(const Doctor *d, const char *path) {
        _cleanup_free_ char *full = below_root(d, path);

        return full && access(full, F_OK) == 0;
}

bool doctor_is_live(const Doctor *d) {
        return !d->params->root || !*d->params->root;
}

int doctor_choice(const Doctor *d, const char *path, char **ret) {
        _cleanup_free_ char *line = NULL;
        int r = doctor_line(d, path, &line);
        char *open, *close;

        if (r < 0)
                return r;
        open = strchr(line, '[');
        close = open ? strchr(open, ']') : NULL;
        *ret = close ? strndup(open + 1, (size_t) (close - open - 1)) : strdup(line);
        return *ret ? 0 : -ENOMEM;
}

static int read_processes(Doctor *d) {
        _cleanup_free_ int *pids = NULL;
        size_t n = 0;
        int r = proc_list(d->proc_fd, ".", &pids, &n);

        if (r < 0)
                return r;
        d->processes = calloc(n + 1, sizeof(*d->processes));
        for (size_t i = 0; d->processes && i < n; i++) {
                ProcStat *s = &d->processes[d->n_processes];

                if (proc_read_stat(d->proc_fd, pids[i], s) >= 0 && !s->kernel && !proc_stat_dead(s))
                        d->n_processes++;
        }
        return d->processes ? 0 : -ENOMEM;
}

pid_t doctor_find_process(const Doctor *d, const char *comm) {
        for (size_t i = 0; i < d->n_processes; i++)
                if (streq(d->processes[i].comm, comm))
                        return d->processes[i].pid;
        return 0;
}

/* The number after "key": in a line of the journal (daemon/undo.h); -1 none. */
static long long member(const char *line, size_t n, const char *key) {
        const char *p = memmem(line, n, key, strlen(key));

        return p ? strtoll(p + strlen(key), NULL, 10) : -1;
}

/* A line that says a mask was set, of a process that is still there. */
static int add_left(Doctor *d, const char *line, size_t n) {
        static const char affinity[] = "\"t\":\"affinity\"";
        long long pid = member(line, n, "\"pid\":"), start = member(line, n, "\"start\":");
        pid_t *left;
        ProcStat s;

        if (!memmem(line, n, affinity, sizeof(affinity) - 1) || pid <= 0 || pid > INT_MAX)
                return 0;
        for (size_t i = 0; i < d->n_left; i++)
                if (d->left[i] == pid)
                        return 0;
        if (proc_read_stat(d->proc_fd, (pid_t) pid, &s) < 0 || s.start_time != (uint64_t) start)
                return 0;
        left = reallocarray(d->left, d->n_left + 1, sizeof(*left));
        if (!left)
                return -ENOMEM;
        d->left = left;
        d->left[d->n_left++] = (pid_t) pid;
        return 0;
}

/* With nothing left to undo the file is empty; a running daemon says itself what it placed. */
static int read_left(Doctor *d) {
        _cleanup_free_ char *text = NULL;
        int r = 0;

        if (d->params->daemon_runs || !d->params->journal || doctor_text(d, d->params->journal, &text) < 0)
                return 0;
        for (const char *p = text; r >= 0 && *p;) {
                size_t n = strcspn(p, "\n");

                r = add_left(d, p, n);
                p += n + (p[n] != '\0');
        }
        return r;
}

bool doctor_applied(const Doctor *d, const Task *t) {
        for (size_t i = 0; i < d->params->n_applied; i++)
                if (d->params->applied[i] == t->pid)
                        return true;
        for (size_t i = 0; i < d->n_left; i++)
                if (d->left[i] == t->pid)
                        return true;
        return t->applied;
}

void listing_add(Listing *l, const char *format, ...) {
        size_t used = strlen(l->text);
        va_list ap;

        if (l->n++ >= (l->limit ?: LISTING_LIMIT) || used > sizeof(l->text) - 160)
                return;
        if (used > 0)
                used += (size_t) snprintf(l->text + used, sizeof(l->text) - used, ", ");
        va_start(ap, format);
        (void) vsnprintf(l->text + used, sizeof(l->text) - used - 32, format, ap);
        va_end(ap);
        l->shown++;
}

const char *listing_end(Listing *l) {
        size_t used = strlen(l->text);

        if (l->n > l->shown)
                (void) snprintf(l->text + used, sizeof(l->text) - used, " and %u more", l->n - l->shown);
        return l->text;
}

void doctor_report_done(DoctorReport *r) {
        for (size_t i = 0; i < r->n_findings; i++) {
                free(r->findings[i].sentence);
                free(r->findings[i].remedy);
        }
        free(r->findings);
        *r = (DoctorReport){};
}

DoctorLevel doctor_worst(const DoctorReport *r) {
        DoctorLevel worst = DOCTOR_OK;

        for (size_t i = 0; i < r->n_findings; i++)
                worst = MAX(worst, r->findings[i].level);
        return worst;
}

int doctor_examine(const DoctorParams *p, DoctorReport *ret) {
        Doctor d = { .params = p, .snapshot = p->snapshot, .topology = p->snapshot->topology };
        int r;

        d.proc_fd = proc_open(p->root);
        if (d.proc_fd < 0)
                return d.proc_fd;
        r = read_processes(&d);
        if (r >= 0)
                r = read_left(&d);
        for (d.check = doctor_checks; r >= 0 && d.check->name; d.check++) {
                r = d.check->run(&d);
                if (r < 0 && r != -ENOMEM)
                        r = doctor_say(&d, DOCTOR_UNKNOWN, "This could not be looked at: %s.", strerror(-r));
        }
        (void) close(d.proc_fd);
        free(d.left);
        free(d.processes);
        if (r < 0) {
                doctor_report_done(&d.report);
                return r;
        }
        *ret = d.report;
        return 0;
}

static int check_daemon(Doctor *d) {
        const DoctorParams *p = d->params;

        if (p->daemon_error)
                return doctor_say(d, DOCTOR_WARNING, "qschedd is there but does not answer: %s.", p->daemon_error)
                               ?: doctor_mend(d, "See \"systemctl status qschedd\" and \"journalctl -u qschedd\".");
        if (d->n_left > 0)
                return doctor_say(
                               d, DOCTOR_WARNING,
                               "qschedd does not run and did not end by itself: masks of %zu process%s stay as it left "
                               "them (%s).",
                               d->n_left, d->n_left == 1 ? "" : "es", p->journal)
                               ?: doctor_mend(
                                          d,
                                          "systemctl start qschedd: it takes them over, and puts them back when it is stopped.");
        if (!p->daemon_runs)
                return doctor_say(
                               d, DOCTOR_WARNING,
                               "qschedd does not run: nothing is placed, and %zu process%s on %zu device%s stay%s as "
                               "found.",
                               d->snapshot->n_tasks, d->snapshot->n_tasks == 1 ? "" : "es", d->snapshot->n_devices,
                               plural(d->snapshot->n_devices), d->snapshot->n_tasks == 1 ? "s" : "")
                               ?: doctor_mend(d, "systemctl enable --now qschedd");
        return doctor_say(d, DOCTOR_OK, "qschedd runs and has placed %zu process%s.", p->n_applied,
                          p->n_applied == 1 ? "" : "es");
}

static int check_rights(Doctor *d) {
        if (!doctor_is_live(d) || geteuid() == 0)
                return doctor_say(d, DOCTOR_OK, "All processes may be looked at.");
        return doctor_say(
                       d, DOCTOR_UNKNOWN,
                       "As user %u, devices and variables of other users' processes are hidden: what follows may miss "
                       "some.",
                       (unsigned) geteuid())
                       ?: doctor_mend(d, "Run it as root: sudo qschedctl doctor");
}

static int check_systemd(Doctor *d) {
        if (doctor_exists(d, "/run/systemd/system"))
                return doctor_say(d, DOCTOR_OK, "systemd is the init.");
        return doctor_say(d, DOCTOR_WARNING,
                          "systemd is not the init (no /run/systemd/system): \"qschedctl run\" cannot make scopes and "
                          "places by affinity alone.")
                       ?: doctor_mend(d,
                                      "Run qschedd on the host, not in a container, and boot the host with systemd.");
}

static int check_polkit(Doctor *d) {
        static const char *const places[] = {
                "/usr/share/dbus-1/system-services/org.freedesktop.PolicyKit1.service",
                "/usr/lib/systemd/system/polkit.service",
                "/lib/systemd/system/polkit.service",
        };

        for (size_t i = 0; i < ELEMENTSOF(places); i++)
                if (doctor_exists(d, places[i]))
                        return doctor_say(d, DOCTOR_OK, "polkit is installed.");
        return doctor_say(
                       d, DOCTOR_NOTE,
                       "polkit is not installed: root may change placements, others only narrow their own processes.")
                       ?: doctor_mend(
                                  d,
                                  "Install polkit (Debian: polkitd, openEuler: polkit) if others than root shall apply jobs.");
}

/* The mount as the host's administrator knows it. */
static const char *without_root(const Doctor *d, const char *path) {
        size_t n = strlen(strempty(d->params->root));

        return path && strncmp(path, strempty(d->params->root), n) == 0 ? path + n : path;
}

static int say_legacy(Doctor *d, const Cgroups *c) {
        const char *cpuset = c->cpuset ? without_root(d, c->cpuset) : NULL;

        if (!cpuset)
                return doctor_say(
                               d, DOCTOR_WARNING,
                               "Control groups are %s and no cpuset controller is mounted: what containers allow cannot "
                               "be read.",
                               cgroup_mode_names[c->mode])
                               ?: doctor_mend(d, "mount -t cgroup -o cpuset cpuset /sys/fs/cgroup/cpuset");
        return doctor_say(
                       d, DOCTOR_NOTE,
                       "Control groups are %s, the cpuset controller at %s: whoever writes a cpuset there also rewrites "
                       "the mask of each thread in it, which shows as drift.",
                       cgroup_mode_names[c->mode], cpuset)
                       ?: doctor_mend(d, "Where drivers and container runtime can take it, boot with "
                                         "systemd.unified_cgroup_hierarchy=1.");
}

static int say_unified(Doctor *d, const Cgroups *c) {
        const char *mount = without_root(d, c->unified);
        _cleanup_free_ char *path = path_join(strempty(mount), "cgroup.controllers"), *controllers = NULL;

        if (!path)
                return -ENOMEM;
        (void) doctor_line(d, path, &controllers);
        if (c->unified_cpuset || (controllers && strstr(controllers, "cpuset")))
                return doctor_say(d, DOCTOR_OK, "Control groups are v2 with the cpuset controller, at %s.",
                                  strempty(mount));
        return doctor_say(
                       d, DOCTOR_WARNING,
                       "Control groups are v2 at %s without the cpuset controller (there: %s): \"qschedctl run\" has no "
                       "group of its own to place in.",
                       strempty(mount), controllers && *controllers ? controllers : "none")
                       ?: doctor_mend(
                                  d,
                                  "On a host: a kernel with CONFIG_CPUSETS and no cgroup_disable=cpuset; in a container: run "
                                  "qschedd on the host.");
}

static int check_cgroup(Doctor *d) {
        Cgroups c = {};
        int r = cgroups_read(strempty(d->params->root), &c);

        if (r < 0)
                return r;
        if (c.mode == CGROUP_NONE)
                r = doctor_say(
                            d, DOCTOR_WARNING,
                            "No control groups are mounted: whose process is whose cannot be told, and the limits of "
                            "containers are not seen.")
                            ?: doctor_mend(d, "Boot with systemd, or mount -t cgroup2 none /sys/fs/cgroup");
        else
                r = c.mode == CGROUP_V2 ? say_unified(d, &c) : say_legacy(d, &c);
        cgroups_done(&c);
        return r;
}

/* Vendors' kernels carry features of later ones, so an old version is not believed before it was tried. */
static bool try_pidfd(void) {
        _cleanup_close_ int fd = (int) syscall(SYS_pidfd_open, getpid(), 0);

        return fd >= 0;
}

static bool try_preferred_many(void) {
        unsigned long node = 1; /* our own policy, and it is put back before anything is allocated */

        if (syscall(SYS_set_mempolicy, MPOL_PREFERRED_MANY, &node, sizeof(node) * 8) != 0)
                return false;
        return syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0) == 0;
}

static bool has(const Doctor *d, bool (*try)(void), unsigned version, unsigned since) {
        return version >= since || (doctor_is_live(d) && try());
}

static int check_kernel(Doctor *d) {
        _cleanup_free_ char *release = NULL;
        unsigned major, minor, version;
        int r = doctor_line(d, "/proc/sys/kernel/osrelease", &release);

        if (r < 0)
                return r;
        if (sscanf(release, "%u.%u", &major, &minor) != 2)
                return doctor_say(d, DOCTOR_UNKNOWN, "The kernel's version is not to be read from \"%s\".", release);
        version = major * 1000 + MIN(minor, 999U);
        if (!has(d, try_pidfd, version, 5003))
                r = doctor_say(
                            d, DOCTOR_WARNING,
                            "Kernel %s has no pidfd (since 5.3): a process is known by pid and start time only, and its "
                            "end is noticed at the next look.",
                            release)
                            ?: doctor_mend(d, "Use a kernel from 5.10 on (openEuler 22.03, Debian 11 and later).");
        else if (!has(d, try_preferred_many, version, 5015))
                r = doctor_say(
                            d, DOCTOR_NOTE,
                            "Kernel %s cannot prefer several memory nodes (MPOL_PREFERRED_MANY, since 5.15): a process "
                            "on two nodes prefers one of them.",
                            release)
                            ?: doctor_mend(
                                       d, "Use a kernel from 5.15 on where ranks span nodes; nothing to do otherwise.");
        else
                r = doctor_say(d, DOCTOR_OK, "Kernel %s has what is needed.", release);
        return r;
}

static int check_btf(Doctor *d) {
        if (doctor_exists(d, "/sys/kernel/btf/vmlinux"))
                return doctor_say(d, DOCTOR_OK, "The kernel has type information for probes.");
        return doctor_say(
                       d, DOCTOR_NOTE,
                       "The kernel has no type information (no /sys/kernel/btf/vmlinux): probes cannot be loaded, and "
                       "traffic is not measured.")
                       ?: doctor_mend(d, "Use a kernel built with CONFIG_DEBUG_INFO_BTF=y.");
}
