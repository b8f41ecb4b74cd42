/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hwloc's tree -> the flat tables of a Topology.
 *
 * CPUs: hwloc's PUs are the online ones (disallowed included). A CPU belongs to exactly one node: of all memories
 * local to it the one with the fewest CPUs around it, ordinary DRAM before other kinds, memory before none. So a
 * node of HBM beside DRAM has no CPUs here, as in the kernel's own view, and nodes' CPU sets are disjoint.
 * Distances are the kernel's SLIT (10 local), or any other latency matrix over nodes scaled so that local is 10.
 * What contradicts itself is read in the safe way and noted in warnings.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <strings.h>

#include "common/fileio.h"
#include "common/text.h"
#include "daemon/readers/machine-internal.h"

typedef struct Convert { /* one conversion: borrowed input, the topology being made, hwloc's node objects by index */
        hwloc_topology_t h;
        const MachineSource *source;
        Topology *t;
        hwloc_obj_t *nodes;
} Convert;

static int bitset_from_hwloc(Bitset *b, hwloc_const_bitmap_t from) {
        /* hwloc's sets may be infinite upwards: stop where ours end. */
        for (int i = hwloc_bitmap_first(from); i >= 0 && (unsigned) i < BITSET_MAX; i = hwloc_bitmap_next(from, i)) {
                int r = bitset_set(b, i);

                if (r < 0)
                        return r;
        }
        return 0;
}

char *machine_source_read(const MachineSource *s, const char *path) {
        _cleanup_free_ char *full = NULL;
        char *text = NULL;

        if (!s->fsroot || asprintf(&full, "%s%s", s->fsroot, path) < 0)
                return NULL;
        return read_line_at(AT_FDCWD, full, &text) < 0 ? NULL : text;
}

static int source_read_set(const MachineSource *s, const char *path, Bitset *ret) {
        _cleanup_free_ char *text = machine_source_read(s, path);
        const char *p;

        if (!text)
                return -ENOENT;
        p = text + strspn(text, " \t"); /* old kernels put a blank before the list */
        return bitset_parse(p, ret);
}

static int cmp_node_os(const void *a, const void *b) {
        const hwloc_obj_t *x = a, *y = b;

        return CMP((*x)->os_index, (*y)->os_index);
}

static int cmp_cpu_os(const void *a, const void *b) {
        const TopologyCpu *x = a, *y = b;

        return CMP(x->os, y->os);
}

static bool kind_is_ordinary(const char *kind) {
        return !kind || strcasecmp(kind, "DRAM") == 0;
}

static int convert_nodes(Convert *c) {
        int n = hwloc_get_nbobjs_by_type(c->h, HWLOC_OBJ_NUMANODE);
        Topology *t = c->t;

        if (n <= 0) { /* hwloc always makes one */
                n = 0;
                t->nodes = calloc(1, sizeof(*t->nodes));
                if (!t->nodes)
                        return -ENOMEM;
                t->nodes[0] = (TopologyNode){
                        .free = UINT64_MAX, .allowed = true, .ordinary = true, .bandwidth = NAN, .latency = NAN
                };
                t->n_nodes = 1;
                return bitset_set(&t->allowed_nodes, 0);
        }
        c->nodes = calloc(n, sizeof(*c->nodes));
        t->nodes = calloc(n, sizeof(*t->nodes));
        if (!c->nodes || !t->nodes)
                return -ENOMEM;
        for (int i = 0; i < n; i++)
                c->nodes[i] = hwloc_get_obj_by_type(c->h, HWLOC_OBJ_NUMANODE, i);
        qsort(c->nodes, n, sizeof(*c->nodes), cmp_node_os);
        for (int i = 0; i < n; i++) {
                hwloc_obj_t o = c->nodes[i];
                TopologyNode *node = t->nodes + t->n_nodes++;

                node->os = o->os_index;
                node->memory = o->attr->numanode.local_memory;
                node->free = UINT64_MAX;
                node->allowed = hwloc_bitmap_isset(hwloc_topology_get_allowed_nodeset(c->h), o->os_index) > 0;
                node->ordinary = kind_is_ordinary(o->subtype);
                node->bandwidth = node->latency = NAN;
                node->kind = o->subtype ? strdup(o->subtype) : NULL;
                if (node->allowed && bitset_set(&t->allowed_nodes, node->os) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* Is node a nearer to a CPU that both are local to than node b? */
static bool node_nearer(const Convert *c, unsigned a, unsigned b) {
        int x = hwloc_bitmap_weight(c->nodes[a]->cpuset), y = hwloc_bitmap_weight(c->nodes[b]->cpuset);
        const TopologyNode *m = c->t->nodes + a, *n = c->t->nodes + b;

        if (x != y)
                return x < y;
        if (m->ordinary != n->ordinary)
                return m->ordinary;
        if (!m->kind != !n->kind || (m->kind && strcasecmp(m->kind, n->kind) != 0))
                return !m->kind || (n->kind && strcasecmp(m->kind, "HBM") == 0);
        return (m->memory > 0) > (n->memory > 0);
}

static unsigned cpu_node(const Convert *c, unsigned os) {
        unsigned best = TOPOLOGY_NONE;

        for (unsigned i = 0; c->nodes && i < c->t->n_nodes; i++)
                if (hwloc_bitmap_isset(c->nodes[i]->cpuset, os) && (best == TOPOLOGY_NONE || node_nearer(c, i, best)))
                        best = i;
        return best;
}

static unsigned ancestor_index(hwloc_topology_t h, hwloc_obj_t pu, hwloc_obj_type_t type) {
        hwloc_obj_t o = hwloc_get_ancestor_obj_by_type(h, type, pu);

        return o ? o->logical_index : TOPOLOGY_NONE;
}

/* Clusters are Groups with a subtype (hwloc >= 2.5, Linux >= 5.16), but not those with memory, which are a Xeon Phi's
 * quadrants. hwloc drops a Group that an L2 cache equals, so an L2 of several cores is one too. */
static hwloc_obj_t cluster_of(hwloc_topology_t h, hwloc_obj_t pu) {
        for (hwloc_obj_t o = pu->parent; o; o = o->parent) {
                if (o->type == HWLOC_OBJ_GROUP && o->subtype && strcasecmp(o->subtype, "Cluster") == 0 &&
                    o->memory_arity == 0)
                        return o;
                if (o->type == HWLOC_OBJ_L2CACHE &&
                    hwloc_get_nbobjs_inside_cpuset_by_type(h, o->cpuset, HWLOC_OBJ_CORE) > 1)
                        return o;
        }
        return NULL;
}

static unsigned smt_rank(hwloc_obj_t core, unsigned os) {
        unsigned rank = 0;

        for (int i = hwloc_bitmap_first(core->cpuset); i >= 0 && (unsigned) i < os;
             i = hwloc_bitmap_next(core->cpuset, i))
                rank++;
        return rank;
}

static int convert_cpu(Convert *c, hwloc_obj_t pu, unsigned *n_loose_cores) {
        Topology *t = c->t;
        TopologyCpu *cpu = t->cpus + t->n_cpus;
        hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(c->h, HWLOC_OBJ_CORE, pu);
        hwloc_obj_t cluster = cluster_of(c->h, pu);

        *cpu = (TopologyCpu){
                .os = pu->os_index,
                .node = cpu_node(c, pu->os_index),
                .package = ancestor_index(c->h, pu, HWLOC_OBJ_PACKAGE),
                .l3 = ancestor_index(c->h, pu, HWLOC_OBJ_L3CACHE),
                .cluster = cluster ? (unsigned) cluster->gp_index : TOPOLOGY_NONE,
                .core = core ? core->logical_index : TOPOLOGY_NONE,
                .smt = core ? smt_rank(core, pu->os_index) : 0,
        };
        if (!core) /* one of its own, behind the known ones */
                cpu->core = hwloc_get_nbobjs_by_type(c->h, HWLOC_OBJ_CORE) + (*n_loose_cores)++;
        t->n_cpus++;
        return bitset_set(&t->online, pu->os_index);
}

/* gp_index of each cluster -> 0, 1, 2, … in order of first CPU. */
static int number_clusters(Topology *t) {
        _cleanup_free_ unsigned *seen = calloc(t->n_cpus, sizeof(*seen));
        unsigned n = 0;

        if (!seen)
                return -ENOMEM;
        for (unsigned i = 0; i < t->n_cpus; i++) {
                unsigned k = 0;

                if (t->cpus[i].cluster == TOPOLOGY_NONE)
                        continue;
                while (k < n && seen[k] != t->cpus[i].cluster)
                        k++;
                if (k == n)
                        seen[n++] = t->cpus[i].cluster;
                t->cpus[i].cluster = k;
        }
        return 0;
}

/* hwloc before 2.5 does not know clusters: where none were found, ask /sys. cluster_id is -1 where there are none. */
static int read_clusters(Convert *c) {
        Topology *t = c->t;

        for (unsigned i = 0; i < t->n_cpus; i++)
                if (t->cpus[i].cluster != TOPOLOGY_NONE)
                        return 0;
        for (unsigned i = 0; c->source->fsroot && i < t->n_cpus; i++) {
                _cleanup_(bitset_done) Bitset mates = BITSET_EMPTY;
                _cleanup_free_ char *core = NULL;
                _cleanup_free_ char *cluster = NULL;
                char path[128];

                (void) snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/topology/core_cpus_list",
                                t->cpus[i].os);
                core = machine_source_read(c->source, path);
                (void) snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/topology/cluster_cpus_list",
                                t->cpus[i].os);
                cluster = machine_source_read(c->source, path);
                /* A cluster that is one core says nothing new. */
                if (!cluster || (core && streq(core, cluster)) || bitset_parse(cluster, &mates) < 0 ||
                    bitset_weight(&mates) < 2)
                        continue;
                t->cpus[i].cluster = bitset_first(&mates);
        }
        return 0;
}

static int convert_cpus(Convert *c, char **ret_message) {
        int n = hwloc_get_nbobjs_by_type(c->h, HWLOC_OBJ_PU), r;
        unsigned n_loose_cores = 0;
        Topology *t = c->t;

        if (n <= 0)
                return text_fail(-EBADMSG, ret_message, "%s: this machine has no CPU online", c->source->label);
        t->cpus = calloc(n, sizeof(*t->cpus));
        if (!t->cpus)
                return -ENOMEM;
        for (int i = 0; i < n; i++) {
                hwloc_obj_t pu = hwloc_get_obj_by_type(c->h, HWLOC_OBJ_PU, i);

                if (pu->os_index >= BITSET_MAX || bitset_test(&t->online, pu->os_index))
                        return text_fail(-EBADMSG, ret_message,
                                         "%s: CPU number %u is %s; numbers are 0 to %u, each once", c->source->label,
                                         pu->os_index, pu->os_index >= BITSET_MAX ? "too big" : "there twice",
                                         BITSET_MAX - 1);
                r = convert_cpu(c, pu, &n_loose_cores);
                if (r < 0)
                        return r;
        }
        qsort(t->cpus, t->n_cpus, sizeof(*t->cpus), cmp_cpu_os);
        r = read_clusters(c);
        if (r < 0)
                return r;
        return number_clusters(t);
}

/* Gives CPUs without a node one, and nodes their CPUs. */
static int settle_nodes(Convert *c) {
        Topology *t = c->t;
        _cleanup_(bitset_done) Bitset homeless = BITSET_EMPTY;

        for (unsigned i = 0; i < t->n_cpus; i++) {
                TopologyCpu *cpu = t->cpus + i;

                if (cpu->node == TOPOLOGY_NONE) {
                        /* Its neighbour in the package is the best guess there is. */
                        cpu->node = i > 0 && t->cpus[i - 1].package == cpu->package ? t->cpus[i - 1].node : 0;
                        if (bitset_set(&homeless, cpu->os) < 0)
                                return -ENOMEM;
                }
                t->nodes[cpu->node].ordinary = true; /* what a CPU has nearest is what its pages go to anyway */
                if (bitset_set(&t->nodes[cpu->node].cpus, cpu->os) < 0)
                        return -ENOMEM;
        }
        if (c->nodes && !bitset_isempty(&homeless)) {
                _cleanup_free_ char *list = NULL;

                if (bitset_format(&homeless, &list) < 0)
                        return -ENOMEM;
                return strv_extendf(&t->warnings,
                                    "CPUs %s are local to no NUMA node; each was counted to its neighbour's", list);
        }
        return 0;
}

/* What hwloc left out: it drops nodes whose CPU lists contradict others. */
static int warn_lost_nodes(Convert *c) {
        _cleanup_(bitset_done) Bitset online = BITSET_EMPTY, lost = BITSET_EMPTY;
        _cleanup_free_ char *list = NULL;
        Topology *t = c->t;

        if (source_read_set(c->source, "/sys/devices/system/node/online", &online) < 0)
                return 0;
        BITSET_FOREACH (os, &online) {
                char path[96];
                _cleanup_free_ char *text = NULL;

                (void) snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/meminfo", os);
                text = machine_source_read(c->source, path);
                if (text && topology_node_by_os(t, os) == TOPOLOGY_NONE && bitset_set(&lost, os) < 0)
                        return -ENOMEM;
        }
        if (bitset_isempty(&lost))
                return 0;
        if (bitset_format(&lost, &list) < 0)
                return -ENOMEM;
        return strv_extendf(&t->warnings,
                            "NUMA nodes %s contradict the others in /sys/devices/system/node and were left out", list);
}

static int convert_kinds(Convert *c) {
#if HWLOC_API_VERSION >= 0x00020400
        int n = hwloc_cpukinds_get_nr(c->h, 0);
        hwloc_bitmap_t cpus = n > 1 ? hwloc_bitmap_alloc() : NULL;

        if (n > 1 && !cpus)
                return -ENOMEM;
        for (int k = 0; k < n && n > 1; k++) {
                int efficiency = -1;

                if (hwloc_cpukinds_get_info(c->h, k, cpus, &efficiency, NULL, NULL, 0) < 0 || efficiency < 0)
                        continue;
                for (unsigned i = 0; i < c->t->n_cpus; i++)
                        if (hwloc_bitmap_isset(cpus, c->t->cpus[i].os))
                                c->t->cpus[i].kind = efficiency;
        }
        hwloc_bitmap_free(cpus);
#endif
        return 0;
}

/* The kernel's SLIT if it is there, else any latency between nodes. */
static struct hwloc_distances_s *find_distances(hwloc_topology_t h) {
        struct hwloc_distances_s *d = NULL;
        unsigned n = 1;

        if (hwloc_distances_get_by_name(h, "NUMALatency", &n, &d, 0) == 0 && n > 0)
                return d;
        n = 1;
        if (hwloc_distances_get_by_type(h, HWLOC_OBJ_NUMANODE, &n, &d, HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) == 0 &&
            n > 0)
                return d;
        return NULL;
}

static void assume_distances(Topology *t) {
        for (unsigned i = 0; i < t->n_nodes; i++)
                for (unsigned k = 0; k < t->n_nodes; k++)
                        t->distance[(size_t) i * t->n_nodes + k] = i == k ? 10 : 20;
}

/* Local must be the least of its row, and more than nothing. */
static bool distances_sane(const struct hwloc_distances_s *d) {
        for (unsigned i = 0; i < d->nbobjs; i++)
                for (unsigned k = 0; k < d->nbobjs; k++)
                        if (d->values[(size_t) i * d->nbobjs + i] == 0 ||
                            d->values[(size_t) i * d->nbobjs + k] < d->values[(size_t) i * d->nbobjs + i])
                                return false;
        return d->nbobjs > 0;
}

static unsigned distance_index(const Convert *c, hwloc_obj_t o) {
        return o && o->type == HWLOC_OBJ_NUMANODE ? topology_node_by_os(c->t, o->os_index) : TOPOLOGY_NONE;
}

static int convert_distances(Convert *c) {
        Topology *t = c->t;
        struct hwloc_distances_s *d;
        unsigned found = 0;
        int r = 0;

        t->distance = calloc((size_t) t->n_nodes * t->n_nodes, sizeof(*t->distance));
        if (!t->distance)
                return -ENOMEM;
        assume_distances(t);
        d = find_distances(c->h);
        if (!d)
                return 0;
        if (!distances_sane(d))
                r = strv_extend(&t->warnings,
                                "Distances between NUMA nodes contradict themselves (a node is farther from "
                                "itself than from another); 10 and 20 were assumed");
        else {
                for (unsigned i = 0; i < d->nbobjs; i++)
                        for (unsigned k = 0; k < d->nbobjs; k++) {
                                unsigned a = distance_index(c, d->objs[i]), b = distance_index(c, d->objs[k]);
                                double local = d->values[(size_t) i * d->nbobjs + i];

                                if (a == TOPOLOGY_NONE || b == TOPOLOGY_NONE)
                                        continue;
                                t->distance[(size_t) a * t->n_nodes + b] = 10 * d->values[(size_t) i * d->nbobjs + k] /
                                                                           local;
                                found += a == b;
                        }
                t->distances_known = found == t->n_nodes;
                if (!t->distances_known)
                        r = strv_extendf(&t->warnings,
                                         "Distances are known for %u of %u NUMA nodes; 20 was assumed for the others",
                                         found, t->n_nodes);
        }
        hwloc_distances_release(c->h, d);
        return r;
}

#if HWLOC_API_VERSION >= 0x00020300
static double memory_attribute(const Convert *c, hwloc_obj_t node, hwloc_memattr_id_t id) {
        struct hwloc_location from = { .type = HWLOC_LOCATION_TYPE_CPUSET, .location.cpuset = node->cpuset };
        hwloc_uint64_t value;

        if (!hwloc_bitmap_iszero(node->cpuset) && hwloc_memattr_get_value(c->h, id, node, &from, 0, &value) == 0)
                return (double) value;
        if (hwloc_memattr_get_best_initiator(c->h, id, node, 0, &from, &value) == 0)
                return (double) value;
        return NAN;
}
#endif

static void convert_attributes(Convert *c) {
#if HWLOC_API_VERSION >= 0x00020300
        for (unsigned i = 0; c->nodes && i < c->t->n_nodes; i++) {
                c->t->nodes[i].bandwidth = memory_attribute(c, c->nodes[i], HWLOC_MEMATTR_ID_BANDWIDTH);
                c->t->nodes[i].latency = memory_attribute(c, c->nodes[i], HWLOC_MEMATTR_ID_LATENCY);
        }
#endif
}

static int convert_sets(Convert *c) {
        _cleanup_(bitset_done) Bitset partitions = BITSET_EMPTY;
        Topology *t = c->t;
        int r;

        r = bitset_from_hwloc(&t->allowed, hwloc_topology_get_allowed_cpuset(c->h));
        if (r < 0)
                return r;
        bitset_and(&t->allowed, &t->online);
        if (bitset_isempty(&t->allowed)) {
                r = strv_extend(&t->warnings, "No CPU that is online is allowed");
                if (r < 0)
                        return r;
        }
        if (bitset_isempty(&t->allowed_nodes)) {
                r = strv_extend(&t->warnings, "No NUMA node is allowed");
                if (r < 0)
                        return r;
        }
        (void) source_read_set(c->source, "/sys/devices/system/cpu/isolated", &t->isolated);
        if (source_read_set(c->source, "/sys/fs/cgroup/cpuset.cpus.isolated", &partitions) >= 0 ||
            source_read_set(c->source, "/sys/fs/cgroup/unified/cpuset.cpus.isolated", &partitions) >= 0) {
                r = bitset_or(&t->isolated, &partitions);
                if (r < 0)
                        return r;
        }
        bitset_and(&t->isolated, &t->online);
        return 0;
}

static int convert_all(Convert *c, char **ret_message) {
        int r;

        if ((r = convert_nodes(c)) < 0 || (r = convert_cpus(c, ret_message)) < 0 || (r = settle_nodes(c)) < 0 ||
            (r = convert_kinds(c)) < 0 || (r = convert_distances(c)) < 0)
                return r;
        convert_attributes(c);
        if ((r = convert_sets(c)) < 0 || (r = machine_convert_pci(c->h, c->source, c->t)) < 0)
                return r;
        return warn_lost_nodes(c);
}

int machine_convert(hwloc_topology_t h, const MachineSource *source, Topology **ret, char **ret_message) {
        _cleanup_(topology_freep) Topology *t = calloc(1, sizeof(*t));
        Convert c = { .h = h, .source = source, .t = t };
        int r;

        if (!t)
                return -ENOMEM;
        t->is_this_system = source->this_system;
        t->source = strdup(source->label);
        r = t->source ? convert_all(&c, ret_message) : -ENOMEM;
        free(c.nodes);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(t);
        return 0;
}
