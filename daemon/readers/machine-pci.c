/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PCI functions and their place: what the kernel says of the function or, when that is -1, of the nearest bridge above
 * it that knows; else where hwloc put it, if that place belongs to one node. A place that spans several nodes is no
 * node, and the whole machine is no place at all: such functions are never counted to node 0.
 */
#include <errno.h>

#include "common/text.h"
#include "daemon/readers/machine-internal.h"

static char *pci_address(hwloc_obj_t o) {
        char *s;

        return asprintf(&s, "%04x:%02x:%02x.%01x", (unsigned) o->attr->pcidev.domain, o->attr->pcidev.bus,
                        o->attr->pcidev.dev, o->attr->pcidev.func) < 0
                       ? NULL
                       : s;
}

static bool is_pci(hwloc_obj_t o) {
        return o->type == HWLOC_OBJ_PCI_DEVICE ||
               (o->type == HWLOC_OBJ_BRIDGE && o->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI);
}

static char *pci_root(hwloc_obj_t function) {
        hwloc_obj_t top = NULL;
        char *s;

        for (hwloc_obj_t o = function->parent; o && o->type == HWLOC_OBJ_BRIDGE; o = o->parent)
                if (is_pci(o))
                        top = o;
        if (top)
                return pci_address(top);
        return asprintf(&s, "pci%04x:%02x", (unsigned) function->attr->pcidev.domain, function->attr->pcidev.bus) < 0
                       ? NULL
                       : s;
}

/* What the kernel says of the function or, when it says -1, of the nearest bridge above that knows. */
static unsigned pci_kernel_node(const MachineSource *source, const Topology *t, hwloc_obj_t function) {
        for (hwloc_obj_t o = function; o && hwloc_obj_type_is_io(o->type); o = o->parent) {
                _cleanup_free_ char *address = NULL;
                _cleanup_free_ char *text = NULL;
                char path[128];
                unsigned os;

                if (!is_pci(o) || !(address = pci_address(o)))
                        continue;
                (void) snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node", address);
                text = machine_source_read(source, path);
                if (text && text_parse_uint(text, 0, BITSET_MAX - 1, &os) >= 0)
                        return topology_node_by_os(t, os);
        }
        return TOPOLOGY_NONE;
}

/* The one node that the CPUs of a place belong to; NONE when they are several's. */
static unsigned place_node(const Topology *t, hwloc_obj_t place) {
        unsigned node = TOPOLOGY_NONE;

        for (unsigned i = 0; i < t->n_cpus; i++) {
                const TopologyCpu *cpu = t->cpus + i;

                if (!hwloc_bitmap_isset(place->cpuset, cpu->os))
                        continue;
                if (node != TOPOLOGY_NONE && node != cpu->node)
                        return TOPOLOGY_NONE;
                node = cpu->node;
        }
        return node;
}

static char *pci_driver(const MachineSource *source, const char *address) {
        _cleanup_free_ char *path = NULL;
        char target[256];
        const char *name;
        ssize_t n;

        if (!source->fsroot || asprintf(&path, "%s/sys/bus/pci/devices/%s/driver", source->fsroot, address) < 0)
                return NULL;
        n = readlink(path, target, sizeof(target) - 1);
        if (n <= 0)
                return NULL;
        target[n] = '\0';
        name = strrchr(target, '/');
        return strdup(name ? name + 1 : target);
}

static int convert_function(hwloc_topology_t h, const MachineSource *source, const Topology *t, hwloc_obj_t o,
                            TopologyPci *p) {
        hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(h, o);

        p->address = pci_address(o);
        p->root = pci_root(o);
        if (!p->address || !p->root)
                return -ENOMEM;
        p->vendor = o->attr->pcidev.vendor_id;
        p->device = o->attr->pcidev.device_id;
        p->class = o->attr->pcidev.class_id;
        p->driver = pci_driver(source, p->address);
        p->node = pci_kernel_node(source, t, o);
        if (p->node != TOPOLOGY_NONE)
                return bitset_copy(&p->local_cpus, &t->nodes[p->node].cpus);
        p->node = place ? place_node(t, place) : TOPOLOGY_NONE;
        if (!place || (p->node == TOPOLOGY_NONE && !place->parent))
                return 0; /* somewhere on the machine */
        for (unsigned i = 0; i < t->n_cpus; i++)
                if (hwloc_bitmap_isset(place->cpuset, t->cpus[i].os) && bitset_set(&p->local_cpus, t->cpus[i].os) < 0)
                        return -ENOMEM;
        return 0;
}

static int cmp_pci(const void *a, const void *b) {
        const TopologyPci *x = a, *y = b;

        return strcmp(x->address, y->address);
}

int machine_convert_pci(hwloc_topology_t h, const MachineSource *source, Topology *t) {
        int n = hwloc_get_nbobjs_by_type(h, HWLOC_OBJ_PCI_DEVICE);

        if (n <= 0)
                return 0;
        t->pci = calloc(n, sizeof(*t->pci));
        if (!t->pci)
                return -ENOMEM;
        for (hwloc_obj_t o = NULL; (int) t->n_pci < n && (o = hwloc_get_next_pcidev(h, o));) {
                int r = convert_function(h, source, t, o, t->pci + t->n_pci++);

                if (r < 0)
                        return r;
        }
        qsort(t->pci, t->n_pci, sizeof(*t->pci), cmp_pci);
        return 0;
}
