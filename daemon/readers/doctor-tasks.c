/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accelerator processes: walls around them that leave out their device's node, masks that somebody set, and what makes
 * frameworks set them. Variables are looked for by name; of a command line only one switch is read, and neither command
 * lines nor other variables are ever shown.
 */
#include "daemon/readers/doctor-internal.h"
#include "daemon/readers/pins.h"

/* Union of the CPUs, or the nodes, near a task's devices; empty when no device tells. */
static int near_devices(const Doctor *d, const Task *t, Bitset *cpus, Bitset *nodes) {
        for (size_t i = 0; i < t->n_devices; i++) {
                const Device *device = &d->snapshot->devices[t->devices[i]];
                int r;

                if (device->node == TOPOLOGY_NONE)
                        continue;
                r = bitset_or(cpus, &d->topology->nodes[device->node].cpus);
                if (r >= 0)
                        r = bitset_set(nodes, d->topology->nodes[device->node].os);
                if (r < 0)
                        return r;
        }
        return 0;
}

static const char *wall_remedy(OwnerKind kind) {
        static const char *const by_owner[_OWNER_MAX] = {
                [OWNER_UNIT] = "systemctl set-property --runtime UNIT AllowedCPUs=CPUS, and in its unit file",
                [OWNER_SCOPE] = "systemctl set-property --runtime SCOPE AllowedCPUs=CPUS",
                [OWNER_CONTAINER] = "docker update --cpuset-cpus=CPUS CONTAINER, or start it without --cpuset-cpus",
                [OWNER_POD] =
                        "Let kubelet choose them together with the device: topologyManagerPolicy: single-numa-node",
                [OWNER_SLURM] = "Ask for CPUs near the device: srun --gpu-bind=closest, Cores= in gres.conf",
        };

        return by_owner[kind] ?: "Widen cpuset.cpus of its control group by the CPUs of the device's node.";
}

typedef struct Walls {
        Listing shut, narrow;
        OwnerKind owner; /* of the first that is shut out */
        unsigned checked;
} Walls;

static int look_at_wall(const Doctor *d, const Task *t, Walls *w) {
        Bitset near = BITSET_EMPTY, nodes = BITSET_EMPTY;
        _cleanup_free_ char *allowed = NULL, *wanted = NULL;
        int r = near_devices(d, t, &near, &nodes);

        if (r >= 0)
                r = bitset_format(&t->allowed_cpus, &allowed);
        if (r >= 0)
                r = bitset_format(&near, &wanted);
        if (r >= 0 && !bitset_isempty(&near) && !bitset_isempty(&t->allowed_cpus)) {
                w->checked++;
                if (!bitset_intersects(&near, &t->allowed_cpus)) {
                        if (w->shut.n == 0)
                                w->owner = t->owner_kind;
                        listing_add(&w->shut, "pid %d (%s, %s) may use %s, its device is at %s", (int) t->pid,
                                    strempty(t->comm), t->owner ? t->owner : "no owner", allowed, wanted);
                } else if (!bitset_subset(&near, &t->allowed_cpus))
                        listing_add(&w->narrow, "pid %d (%s) %u of %u", (int) t->pid, strempty(t->comm),
                                    bitset_and_weight(&near, &t->allowed_cpus), bitset_weight(&near));
        }
        bitset_done(&near);
        bitset_done(&nodes);
        return r;
}

int doctor_cpu_wall(Doctor *d) {
        Walls w = {};
        int r = 0;

        for (size_t i = 0; r >= 0 && i < d->snapshot->n_tasks; i++)
                r = look_at_wall(d, &d->snapshot->tasks[i], &w);
        if (r >= 0 && w.shut.n > 0)
                r = doctor_say(d, DOCTOR_PROBLEM,
                               "%u of %u accelerator processes may not use any CPU of their device's node: %s.",
                               w.shut.n, w.checked, listing_end(&w.shut))
                            ?: doctor_mend(d, "%s", wall_remedy(w.owner));
        if (r >= 0 && w.narrow.n > 0)
                r = doctor_say(d, DOCTOR_NOTE,
                               "%u of %u accelerator processes may use a part of the CPUs of their device's node: %s.",
                               w.narrow.n, w.checked, listing_end(&w.narrow));
        if (r >= 0 && w.shut.n == 0 && w.narrow.n == 0)
                r = doctor_say(d, DOCTOR_OK,
                               "No cpuset around %u accelerator process%s leaves out CPUs of the device's node.",
                               w.checked, w.checked == 1 ? "" : "es");
        return r;
}

int doctor_memory_wall(Doctor *d) {
        Listing shut = {};
        unsigned checked = 0;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < d->snapshot->n_tasks; i++) {
                const Task *t = &d->snapshot->tasks[i];
                Bitset near = BITSET_EMPTY, nodes = BITSET_EMPTY;
                _cleanup_free_ char *mems = NULL, *wanted = NULL;

                r = near_devices(d, t, &near, &nodes);
                if (r >= 0)
                        r = bitset_format(&t->mems, &mems);
                if (r >= 0)
                        r = bitset_format(&nodes, &wanted);
                if (r >= 0 && !bitset_isempty(&nodes) && !bitset_isempty(&t->mems)) {
                        checked++;
                        if (!bitset_intersects(&nodes, &t->mems))
                                listing_add(&shut, "pid %d (%s) node %s, its device node %s", (int) t->pid,
                                            strempty(t->comm), mems, wanted);
                }
                bitset_done(&near);
                bitset_done(&nodes);
        }
        if (r < 0)
                return r;
        if (shut.n == 0)
                return doctor_say(d, DOCTOR_OK,
                                  "No cpuset.mems around %u accelerator process%s leaves out the device's node.",
                                  checked, checked == 1 ? "" : "es");
        return doctor_say(d, DOCTOR_WARNING,
                          "%u of %u accelerator processes may not take memory of their device's node: %s.", shut.n,
                          checked, listing_end(&shut))
                       ?: doctor_mend(
                                  d,
                                  "Widen cpuset.mems of their group (docker run --cpuset-mems, AllowedMemoryNodes=): memory is "
                                  "better preferred on a node than bound to it.");
}

typedef struct Found { /* of one variable */
        Listing pids;
        char value[64];
} Found;

static int look_for_pins(const Doctor *d, const Task *t, Found *found, unsigned *hidden) {
        _cleanup_free_ char *block = NULL;
        size_t size = 0;
        int r = proc_read_text(d->proc_fd, t->pid, "environ", PIN_ENVIRON_MAX, &block, &size);

        *hidden += r == -EACCES || r == -EPERM;
        for (size_t i = 0; r >= 0 && i < pins_n; i++) {
                const char *value;

                if (!pin_is_set(&pins[i], block, size, &value))
                        continue;
                if (found[i].pids.n == 0)
                        (void) snprintf(found[i].value, sizeof(found[i].value), "%s", value);
                listing_add(&found[i].pids, "%d", (int) t->pid);
        }
        return r == -ENOMEM ? r : 0;
}

int doctor_pins(Doctor *d) {
        _cleanup_free_ Found *found = calloc(pins_n, sizeof(*found));
        unsigned hidden = 0, n = 0;
        int r = found ? 0 : -ENOMEM;

        for (size_t i = 0; r >= 0 && i < d->snapshot->n_tasks; i++)
                r = look_for_pins(d, &d->snapshot->tasks[i], found, &hidden);
        for (size_t i = 0; r >= 0 && i < pins_n; i++) {
                if (found[i].pids.n == 0)
                        continue;
                n++;
                r = doctor_say(d, DOCTOR_WARNING,
                               "%u accelerator process%s %s=%s, by which %s pins its threads (pid%s %s).",
                               found[i].pids.n, found[i].pids.n == 1 ? " has" : "es have", pins[i].variable,
                               found[i].value, pins[i].who, plural(found[i].pids.n), listing_end(&found[i].pids))
                            ?: doctor_mend(d, "%s in what starts them.", pins[i].mend);
        }
        if (r >= 0 && hidden > 0)
                r = doctor_say(d, DOCTOR_UNKNOWN, "The variables of %u accelerator process%s could not be read.",
                               hidden, hidden == 1 ? "" : "es")
                            ?: doctor_mend(d, "Run it as root: sudo qschedctl doctor");
        if (r >= 0 && n == 0 && hidden == 0)
                r = doctor_say(d, DOCTOR_OK, "None of %zu process%s has a variable by which a framework pins.",
                               d->snapshot->n_tasks, d->snapshot->n_tasks == 1 ? "" : "es");
        return r;
}

static bool on_ascend(const Doctor *d, const Task *t) {
        for (size_t i = 0; i < t->n_devices; i++)
                if (streq(strempty(d->snapshot->devices[t->devices[i]].kind), "ascend"))
                        return true;
        return false;
}

int doctor_vllm(Doctor *d) {
        Listing binding = {};
        unsigned off = 0, named = 0;

        for (size_t i = 0; i < d->snapshot->n_tasks; i++) {
                const Task *t = &d->snapshot->tasks[i];
                int s;

                if (!on_ascend(d, t) || !pin_is_vllm(d->proc_fd, t->pid, &s))
                        continue;
                if (s == 0) {
                        off++;
                        continue;
                }
                named += s == 1;
                listing_add(&binding, "%d", (int) t->pid);
        }
        if (binding.n == 0)
                return off > 0 ? doctor_say(d, DOCTOR_OK, "%u vLLM worker%s on Ascend: their own binding is off.", off,
                                            plural(off))
                               : doctor_say(d, DOCTOR_OK, "No vLLM worker holds an Ascend device.");
        if (pin_arch_is_x86(d->params->root))
                return doctor_say(d, DOCTOR_OK, "%u vLLM worker%s on Ascend: on x86 they do not bind themselves.",
                                  binding.n, plural(binding.n));
        return doctor_say(d, DOCTOR_WARNING,
                          "%u vLLM worker%s on Ascend %s (pid%s %s): vllm-ascend binds its threads and the device's "
                          "vectors, and stops irqbalance, when it starts.",
                          binding.n, plural(binding.n),
                          named == binding.n
                                  ? "with enable_cpu_binding on"
                                  : "without enable_cpu_binding off, which is on by default since 0.18.0rc1 on ARM",
                          plural(binding.n), listing_end(&binding))
                       ?: doctor_mend(d, "vllm serve MODEL --additional-config '{\"enable_cpu_binding\": false}'");
}

static bool is_narrower(const Bitset *mask, const Bitset *allowed) {
        return !bitset_isempty(mask) && bitset_subset(mask, allowed) && !bitset_equal(mask, allowed);
}

/* Threads with fewer CPUs than allowed; one that ended meanwhile is none. */
static int count_narrow_threads(const Doctor *d, const Task *t, const Bitset *allowed, unsigned *ret) {
        _cleanup_free_ int *tids = NULL;
        char path[32];
        size_t n = 0;
        int r;

        (void) snprintf(path, sizeof(path), "%d/task", (int) t->pid);
        r = proc_list(d->proc_fd, path, &tids, &n);
        for (size_t i = 0; r >= 0 && i < n; i++) {
                ProcStatus s;

                if (proc_read_status(d->proc_fd, t->pid, tids[i], &s) < 0)
                        continue;
                *ret += is_narrower(&s.cpus, allowed);
                proc_status_done(&s);
        }
        return r == -ENOMEM ? r : 0;
}

typedef struct Foreign { /* masks that neither their owner nor qschedd explains */
        Listing list;
        pid_t first;
        char *first_allowed;
} Foreign;

static int look_at_mask(const Doctor *d, const Task *t, Foreign *f) {
        _cleanup_free_ char *cpus = NULL;
        Bitset allowed = BITSET_EMPTY;
        unsigned threads = 0, before = f->list.n;
        int r;

        r = bitset_copy(&allowed, bitset_isempty(&t->allowed_cpus) ? &d->topology->online : &t->allowed_cpus);
        bitset_and(&allowed, &d->topology->online);
        if (r >= 0)
                r = bitset_format(&t->cpus, &cpus);
        if (r >= 0)
                r = count_narrow_threads(d, t, &allowed, &threads);
        if (r >= 0 && is_narrower(&t->cpus, &allowed))
                listing_add(&f->list, "pid %d (%s) %s, %u of %u", (int) t->pid, strempty(t->comm), cpus,
                            bitset_weight(&t->cpus), bitset_weight(&allowed));
        else if (r >= 0 && threads > 0)
                listing_add(&f->list, "pid %d (%s) in %u of %u threads", (int) t->pid, strempty(t->comm), threads,
                            t->threads);
        if (f->list.n > before && !f->first) {
                f->first = t->pid;
                r = bitset_format(&allowed, &f->first_allowed);
        }
        bitset_done(&allowed);
        return r;
}

static int say_foreign(Doctor *d, Foreign *f) {
        size_t n = d->snapshot->n_tasks;

        if (f->list.n == 0)
                return doctor_say(d, DOCTOR_OK, "None of %zu process%s has a mask that somebody else set.", n,
                                  n == 1 ? "" : "es");
        return doctor_say(
                       d, DOCTOR_WARNING,
                       "%u of %zu accelerator processes %s fewer CPUs than the owner allows, and qschedd did not do it: %s.",
                       f->list.n, n, f->list.n == 1 ? "has" : "have", listing_end(&f->list))
                       ?: doctor_mend(
                                  d,
                                  "Look for taskset, numactl or CPUAffinity= in what starts them; taskset -acp %s %d undoes the "
                                  "first.",
                                  f->first_allowed, (int) f->first);
}

int doctor_masks(Doctor *d) {
        Foreign f = {};
        int r = 0;

        for (size_t i = 0; r >= 0 && i < d->snapshot->n_tasks; i++)
                if (!doctor_applied(d, &d->snapshot->tasks[i]))
                        r = look_at_mask(d, &d->snapshot->tasks[i], &f);
        if (r >= 0)
                r = say_foreign(d, &f);
        free(f.first_allowed);
        return r;
}

static bool is_pinned(const Doctor *d, const Task *t) {
        return t->n_devices > 0 && t->parent_task == 0 && !bitset_isempty(&t->cpus) &&
               bitset_weight(&t->cpus) < bitset_weight(&d->topology->online) &&
               (bitset_isempty(&t->allowed_cpus) || bitset_weight(&t->cpus) < bitset_weight(&t->allowed_cpus));
}

int doctor_shared(Doctor *d) {
        const Snapshot *s = d->snapshot;
        Listing pairs = {};

        for (size_t i = 0; i < s->n_tasks; i++)
                for (size_t k = i + 1; is_pinned(d, &s->tasks[i]) && k < s->n_tasks; k++)
                        if (is_pinned(d, &s->tasks[k]) && bitset_intersects(&s->tasks[i].cpus, &s->tasks[k].cpus))
                                listing_add(&pairs, "pid %d and pid %d share %u CPU%s", (int) s->tasks[i].pid,
                                            (int) s->tasks[k].pid,
                                            bitset_and_weight(&s->tasks[i].cpus, &s->tasks[k].cpus),
                                            plural(bitset_and_weight(&s->tasks[i].cpus, &s->tasks[k].cpus)));
        if (pairs.n == 0)
                return doctor_say(d, DOCTOR_OK, "No two accelerator processes are pinned to the same CPUs.");
        return doctor_say(d, DOCTOR_WARNING, "%u pair%s of accelerator processes %s pinned to the same CPUs: %s.",
                          pairs.n, plural(pairs.n), pairs.n == 1 ? "is" : "are", listing_end(&pairs))
                       ?: doctor_mend(d, "Apply one job that names them all: qschedctl plan FILE shows disjoint sets.");
}
