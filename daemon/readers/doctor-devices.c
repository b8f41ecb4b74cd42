/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices and their interrupts: does each tell its NUMA node, and where do its MSI vectors go? A vector is found through
 * the device (msi_irqs/), never by its name; where it goes is what the kernel does (effective_affinity_list), or what
 * was asked for as long as it has not fired.
 */
#include "daemon/readers/doctor-internal.h"

#include <fcntl.h>

int doctor_device_vectors(const Doctor *d, const Device *device, int **ret, size_t *ret_n) {
        _cleanup_close_ int fd = -1;
        char path[128];
        int r;

        *ret = NULL;
        *ret_n = 0;
        if (!device->pci)
                return 0;
        (void) snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/msi_irqs", device->pci);
        fd = doctor_open(d, path, O_RDONLY | O_DIRECTORY);
        if (fd < 0)
                return fd == -ENOENT ? 0 : fd;
        r = proc_list(fd, ".", ret, ret_n);
        return r < 0 ? r : 0;
}

static bool tells_node(const Doctor *d, const Device *device, bool *ret) {
        _cleanup_free_ char *line = NULL;
        char path[128];

        (void) snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node", device->pci);
        if (doctor_line(d, path, &line) < 0)
                return false;
        *ret = *line != '-';
        return true;
}

int doctor_device_node(Doctor *d) {
        Listing unknown = {}, inherited = {};
        const Snapshot *s = d->snapshot;

        for (size_t i = 0; i < s->n_devices; i++) {
                const Device *device = &s->devices[i];
                bool tells = true;

                if (device->pci && tells_node(d, device, &tells) && tells)
                        continue;
                if (device->node == TOPOLOGY_NONE)
                        listing_add(&unknown, "%s%s%s", device->name, device->pci ? " at " : "", strempty(device->pci));
                else if (!tells)
                        listing_add(&inherited, "%s", device->name);
        }
        if (d->topology->n_nodes < 2 || (unknown.n == 0 && inherited.n == 0))
                return doctor_say(d, DOCTOR_OK, "%zu device%s, %u NUMA node%s: none is without a node.", s->n_devices,
                                  plural(s->n_devices), d->topology->n_nodes, plural(d->topology->n_nodes));
        if (unknown.n == 0)
                return doctor_say(
                        d, DOCTOR_NOTE,
                        "%u of %zu devices say numa_node -1 themselves (%s); the bridge above or the configuration "
                        "tells.",
                        inherited.n, s->n_devices, listing_end(&inherited));
        return doctor_say(
                       d, DOCTOR_WARNING,
                       "%u of %zu devices do not tell their NUMA node (%s): plans treat each node as equally far from "
                       "them.",
                       unknown.n, s->n_devices, listing_end(&unknown))
                       ?: doctor_mend(
                                  d,
                                  "Look up the node (npu-smi info -t topo, the board's manual) and write [Device NAME], PCI= and "
                                  "NUMANode= into qschedd.conf; a firmware update may mend it at the root.");
}

typedef struct Vectors {
        unsigned n, devices, far;
        Bitset cpus;
        Listing far_devices;
        char example[64]; /* PCI address and number of the first */
} Vectors;

static int vector_goes_to(const Doctor *d, int irq, Bitset *ret) {
        char path[64];
        int r;

        (void) snprintf(path, sizeof(path), "/proc/irq/%d/effective_affinity_list", irq);
        r = doctor_set(d, path, ret);
        if (r >= 0 && !bitset_isempty(ret))
                return 0;
        (void) snprintf(path, sizeof(path), "/proc/irq/%d/smp_affinity_list", irq);
        return doctor_set(d, path, ret);
}

static int add_device(const Doctor *d, const Device *device, Vectors *v) {
        const Bitset *near = device->node != TOPOLOGY_NONE ? &d->topology->nodes[device->node].cpus : NULL;
        _cleanup_free_ int *irqs = NULL;
        unsigned far = 0;
        size_t n = 0;
        int r = doctor_device_vectors(d, device, &irqs, &n);

        for (size_t i = 0; r >= 0 && i < n; i++) {
                Bitset cpus = BITSET_EMPTY;

                r = vector_goes_to(d, irqs[i], &cpus);
                if (r >= 0) {
                        v->n++;
                        far += near && !bitset_isempty(near) && !bitset_intersects(&cpus, near);
                        r = bitset_or(&v->cpus, &cpus);
                } else if (r == -ENOENT)
                        r = 0; /* freed while we looked */
                bitset_done(&cpus);
        }
        if (n > 0 && v->devices++ == 0)
                (void) snprintf(v->example, sizeof(v->example), "%s", device->pci);
        v->far += far;
        if (far > 0)
                listing_add(&v->far_devices, "%s %u of %zu", device->name, far, n);
        return r;
}

static int say_vectors(Doctor *d, Vectors *v) {
        int first = bitset_first(&v->cpus);
        _cleanup_free_ char *cpus = NULL;
        int r = bitset_format(&v->cpus, &cpus);

        if (r < 0)
                return r;
        if (v->n == 0)
                return doctor_say(d, DOCTOR_OK, "None of %zu device%s has message-signalled vectors.",
                                  d->snapshot->n_devices, plural(d->snapshot->n_devices));
        if (v->n > 1 && bitset_weight(&v->cpus) == 1 && d->topology->n_cpus > 1)
                return doctor_say(d, DOCTOR_WARNING, "All %u vectors of %u device%s go to one CPU, %d.", v->n,
                                  v->devices, plural(v->devices), first)
                               ?: doctor_mend(
                                          d,
                                          "Apply a job (its plan names CPUs for the vectors of its devices), or echo CPU > "
                                          "/proc/irq/N/smp_affinity_list for the N in /sys/bus/pci/devices/%s/msi_irqs.",
                                          v->example);
        if (v->far > 0)
                return doctor_say(d, DOCTOR_WARNING,
                                  "%u of %u vectors go to CPUs of another node than their device's (%s).", v->far, v->n,
                                  listing_end(&v->far_devices))
                               ?: doctor_mend(d,
                                              "echo CPU > /proc/irq/N/smp_affinity_list for the N in "
                                              "/sys/bus/pci/devices/ADDRESS/msi_irqs, and keep irqbalance off them.");
        return doctor_say(d, DOCTOR_OK, "The %u vectors of %u device%s go to CPUs %s.", v->n, v->devices,
                          plural(v->devices), cpus);
}

int doctor_device_irqs(Doctor *d) {
        Vectors v = { .far_devices.limit = 6 };
        int r = 0;

        for (size_t i = 0; r >= 0 && i < d->snapshot->n_devices; i++)
                r = add_device(d, &d->snapshot->devices[i], &v);
        if (r >= 0)
                r = say_vectors(d, &v);
        bitset_done(&v.cpus);
        return r;
}
