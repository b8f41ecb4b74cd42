/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of the running kernel that work against placement: what moves pages or reclaims them behind a plan's back,
 * clocks, isolated, offline and shared CPUs. Each is one small file, or one per CPU.
 */
#include "daemon/readers/doctor-internal.h"

#include <fcntl.h>

#define CPUS "/sys/devices/system/cpu"
#define THP "/sys/kernel/mm/transparent_hugepage"
#define SWAP_SMALL (64U << 20) /* in use without anybody being hurt */

int doctor_numa_balancing(Doctor *d) {
        unsigned nodes = d->topology->n_nodes;
        uint64_t mode;
        int r = doctor_number(d, "/proc/sys/kernel/numa_balancing", &mode);

        if (r == -ENOENT)
                return doctor_say(d, DOCTOR_OK, "The kernel has no automatic NUMA balancing.");
        if (r < 0)
                return r;
        if (mode == 0 || nodes < 2)
                return doctor_say(d, DOCTOR_OK,
                                  "Automatic NUMA balancing is %s (kernel.numa_balancing = %" PRIu64 "), on %u node%s.",
                                  mode ? "on" : "off", mode, nodes, plural(nodes));
        if (!(mode & 1))
                return doctor_say(
                        d, DOCTOR_NOTE,
                        "The kernel moves pages between fast and slow memory (kernel.numa_balancing = %" PRIu64 ").",
                        mode);
        return doctor_say(d, DOCTOR_WARNING,
                          "Automatic NUMA balancing is on (kernel.numa_balancing = %" PRIu64
                          ") over %u nodes: it unmaps pages of placed processes to see who uses them, and moves them.",
                          mode, nodes)
                       ?: doctor_mend(
                                  d,
                                  "sysctl -w kernel.numa_balancing=0, and that line in a file of /etc/sysctl.d to keep it");
}

int doctor_zone_reclaim(Doctor *d) {
        uint64_t mode;
        int r = doctor_number(d, "/proc/sys/vm/zone_reclaim_mode", &mode);

        if (r == -ENOENT || (r >= 0 && mode == 0))
                return doctor_say(d, DOCTOR_OK, "A full node does not reclaim before another is used.");
        if (r < 0)
                return r;
        return doctor_say(d, DOCTOR_WARNING,
                          "A full node reclaims before another node is used (vm.zone_reclaim_mode = %" PRIu64
                          "): processes stall where preferring the node would have been enough.",
                          mode)
                       ?: doctor_mend(d, "sysctl -w vm.zone_reclaim_mode=0");
}

int doctor_huge_pages(Doctor *d) {
        _cleanup_free_ char *enabled = NULL, *defrag = NULL;
        int r = doctor_choice(d, THP "/enabled", &enabled);

        if (r == -ENOENT)
                return doctor_say(d, DOCTOR_NOTE,
                                  "The kernel has no transparent huge pages: moving memory takes 512 times "
                                  "as many steps.");
        if (r >= 0)
                r = doctor_choice(d, THP "/defrag", &defrag);
        if (r < 0 && r != -ENOENT)
                return r;
        if (streq(enabled, "always") && streq(strempty(defrag), "always"))
                return doctor_say(
                               d, DOCTOR_WARNING,
                               "Transparent huge pages are on for all, and page faults wait until one is made (defrag = "
                               "always): threads stall on a full node.")
                               ?: doctor_mend(d, "echo madvise > " THP "/defrag");
        if (streq(enabled, "never"))
                return doctor_say(
                               d, DOCTOR_NOTE,
                               "Transparent huge pages are off: large host buffers cost more TLB misses, most on a remote "
                               "node.")
                               ?: doctor_mend(d, "echo madvise > " THP "/enabled");
        return doctor_say(d, DOCTOR_OK, "Transparent huge pages are at %s, defrag at %s.", enabled, strempty(defrag));
}

static uint64_t meminfo(const char *text, const char *key) {
        const char *p = strstr(text, key);

        return p ? strtoull(p + strlen(key), NULL, 10) * 1024 : 0;
}

int doctor_swap(Doctor *d) {
        _cleanup_free_ char *text = NULL;
        uint64_t total, used, swappiness = 60;
        char used_text[32], total_text[32];
        int r = doctor_text(d, "/proc/meminfo", &text);

        if (r < 0)
                return r;
        (void) doctor_number(d, "/proc/sys/vm/swappiness", &swappiness);
        total = meminfo(text, "\nSwapTotal:");
        used = total - MIN(total, meminfo(text, "\nSwapFree:"));
        if (total == 0)
                return doctor_say(d, DOCTOR_OK, "There is no swap.");
        (void) text_format_bytes(used_text, sizeof(used_text), used);
        (void) text_format_bytes(total_text, sizeof(total_text), total);
        if (used <= SWAP_SMALL)
                return doctor_say(d, DOCTOR_OK, "Of %s of swap next to nothing is used (vm.swappiness = %" PRIu64 ").",
                                  total_text, swappiness);
        return doctor_say(d, DOCTOR_WARNING,
                          "%s of %s of swap are in use (vm.swappiness = %" PRIu64
                          "): pages that a plan counts on a node may be on a disk.",
                          used_text, total_text, swappiness)
                       ?: doctor_mend(
                                  d,
                                  "sysctl -w vm.swappiness=1; swapoff -a && swapon -a brings back what fits into memory");
}

typedef struct Governors {
        unsigned cpus, other;
        char name[32], driver[32]; /* of the first that is not performance */
} Governors;

static int governors_read(const Doctor *d, Governors *g) {
        BITSET_FOREACH (cpu, &d->topology->online) {
                _cleanup_free_ char *name = NULL, *driver = NULL;
                char path[96];
                int r;

                (void) snprintf(path, sizeof(path), CPUS "/cpu%d/cpufreq/scaling_governor", cpu);
                r = doctor_line(d, path, &name);
                if (r == -ENOENT)
                        continue;
                if (r < 0)
                        return r;
                g->cpus++;
                if (streq(name, "performance") || g->other++ > 0)
                        continue;
                (void) snprintf(g->name, sizeof(g->name), "%s", name);
                (void) snprintf(path, sizeof(path), CPUS "/cpu%d/cpufreq/scaling_driver", cpu);
                if (doctor_line(d, path, &driver) >= 0)
                        (void) snprintf(g->driver, sizeof(g->driver), "%s", driver);
        }
        return 0;
}

int doctor_governor(Doctor *d) {
        Governors g = {};
        bool by_hardware;
        int r = governors_read(d, &g);

        if (r < 0)
                return r;
        if (g.cpus == 0)
                return doctor_say(d, DOCTOR_OK, "Clocks are the firmware's: no CPU has a frequency governor here.");
        if (g.other == 0)
                return doctor_say(d, DOCTOR_OK, "All %u CPUs have the governor performance.", g.cpus);
        /* under these drivers "powersave" is the ordinary one: the CPU still raises its clock by itself */
        by_hardware = streq(g.driver, "intel_pstate") || streq(g.driver, "amd-pstate-epp");
        return doctor_say(
                       d, by_hardware ? DOCTOR_NOTE : DOCTOR_WARNING,
                       "%u of %u CPUs have another frequency governor than performance (%s%s%s): a thread that waits for "
                       "a device begins again at a low clock.",
                       g.other, g.cpus, g.name, *g.driver ? ", driver " : "", g.driver)
                       ?: doctor_mend(d, "cpupower frequency-set -g performance");
}

/* Processes of which several threads may only run on isolated CPUs: nobody spreads them, they pile up on the first. */
static void list_piled(const Doctor *d, const Bitset *isolated, Listing *piled) {
        for (size_t i = 0; i < d->snapshot->n_tasks; i++) {
                const Task *t = &d->snapshot->tasks[i];

                if (t->threads > 1 && bitset_weight(&t->cpus) > 1 && bitset_subset(&t->cpus, isolated))
                        listing_add(piled, "pid %d (%s) with %u threads", (int) t->pid, strempty(t->comm), t->threads);
        }
}

static int say_isolated(Doctor *d, const Bitset *isolated) {
        _cleanup_free_ char *list = NULL;
        Listing piled = {};
        int r = bitset_format(isolated, &list);

        if (r < 0)
                return r;
        list_piled(d, isolated, &piled);
        if (piled.n > 0)
                return doctor_say(d, DOCTOR_WARNING,
                                  "%u process%s may run on isolated CPUs only (%s), where the kernel does not spread "
                                  "threads: %s.",
                                  piled.n, piled.n == 1 ? "" : "es", list, listing_end(&piled))
                               ?: doctor_mend(
                                          d,
                                          "Give each thread one CPU of its own, give the process other CPUs, or boot without "
                                          "isolcpus=.");
        return doctor_say(d, DOCTOR_NOTE,
                          "%u CPU%s isolated (%s): the kernel does not spread threads there, and plans leave them out.",
                          bitset_weight(isolated), bitset_weight(isolated) == 1 ? " is" : "s are", list)
                       ?: doctor_mend(d, "Boot without isolcpus= if ranks shall use them.");
}

int doctor_isolation(Doctor *d) {
        Bitset isolated = BITSET_EMPTY, tickless = BITSET_EMPTY;
        _cleanup_free_ char *list = NULL;
        int r;

        r = doctor_set(d, CPUS "/isolated", &isolated);
        if (r >= 0 || r == -ENOENT)
                r = doctor_set(d, CPUS "/nohz_full", &tickless);
        if (r == -ENOENT)
                r = 0;
        if (r >= 0 && !bitset_isempty(&isolated))
                r = say_isolated(d, &isolated);
        else if (r >= 0 && bitset_isempty(&tickless))
                r = doctor_say(d, DOCTOR_OK, "No CPU is isolated or without a tick.");
        if (r >= 0 && !bitset_isempty(&tickless) && (r = bitset_format(&tickless, &list)) >= 0)
                r = doctor_say(
                            d, DOCTOR_NOTE,
                            "%u CPU%s without a tick (nohz_full=%s): each system call there costs more, which a rank "
                            "with many threads does not win back.",
                            bitset_weight(&tickless), bitset_weight(&tickless) == 1 ? " goes" : "s go", list)
                            ?: doctor_mend(d,
                                           "Boot without nohz_full= unless each of these CPUs serves one busy thread.");
        bitset_done(&isolated);
        bitset_done(&tickless);
        return r;
}

static unsigned threads_per_core(const Topology *t) {
        unsigned n = 1;

        for (unsigned i = 0; i < t->n_cpus; i++)
                if (t->cpus[i].smt != TOPOLOGY_NONE)
                        n = MAX(n, t->cpus[i].smt + 1);
        return n;
}

int doctor_smt(Doctor *d) {
        unsigned n = threads_per_core(d->topology);
        _cleanup_free_ char *control = NULL;

        (void) doctor_line(d, CPUS "/smt/control", &control);
        if (n > 1)
                return doctor_say(
                        d, DOCTOR_OK,
                        "SMT is on: the %u CPUs are up to %u per core; plans keep the CPUs of a core together.",
                        d->topology->n_cpus, n);
        return doctor_say(d, DOCTOR_OK, "Each of the %u CPUs is a core of its own%s%s%s.", d->topology->n_cpus,
                          control ? " (SMT: " : "", strempty(control), control ? ")" : "");
}

int doctor_offline(Doctor *d) {
        Bitset present = BITSET_EMPTY, online = BITSET_EMPTY;
        _cleanup_free_ char *control = NULL, *list = NULL;
        bool smt_off;
        unsigned n;
        int r;

        r = doctor_set(d, CPUS "/present", &present);
        if (r >= 0)
                r = doctor_set(d, CPUS "/online", &online);
        n = bitset_weight(&present);
        if (r >= 0) {
                bitset_andnot(&present, &online);
                r = bitset_format(&present, &list);
        }
        (void) doctor_line(d, CPUS "/smt/control", &control);
        smt_off = control && strstr(control, "off");
        if (r >= 0 && bitset_isempty(&present))
                r = doctor_say(d, DOCTOR_OK, "All %u CPUs are online.", n);
        else if (r >= 0)
                r = doctor_say(d, smt_off ? DOCTOR_NOTE : DOCTOR_WARNING, "%u of %u CPUs are offline (%s)%s.",
                               bitset_weight(&present), n, list,
                               smt_off ? ", because SMT is off" : ": no plan can use them")
                            ?: doctor_mend(d, smt_off ? "echo on > " CPUS "/smt/control, if ranks want hardware threads"
                                                      : "echo 1 > " CPUS "/cpuN/online for each");
        bitset_done(&present);
        bitset_done(&online);
        return r;
}
