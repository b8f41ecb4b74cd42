/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accelerators among the PCI functions that hwloc kept, then the descriptions. A [Device] section with the PCI= of a
 * found function refines it (its words win), others add devices that the machine does not show.
 *
 * Names of found devices follow the vendor's habit (npu0, mlu0, …), counted in the order of PCI addresses; numbers that
 * descriptions use are passed over. The node is the described NUMANode=, else what the machine reader made of the
 * function and its parents; else it stays unknown and is priced neutrally.
 */
#include "daemon/readers/devices.h"

#include <errno.h>
#include <fcntl.h>

#include "common/fileio.h"
#include "daemon/readers/device-text.h"

static const char *kind_of(const DeviceText *d, const TopologyPci *p) {
        unsigned vendor, device;
        const char *kind;

        for (char **id = d->pci_ids; id && *id; id++)
                if (pci_id_parse(*id, &vendor, &device, &kind) >= 0 && vendor == p->vendor && device == p->device)
                        return kind;
        for (const PciKind *k = pci_kinds; k->kind; k++)
                if (k->vendor == p->vendor && (k->device == PCI_ANY || k->device == p->device) &&
                    (k->class == 0 || k->class == p->class))
                        return k->kind;
        return NULL;
}

/* A description and where it stands. */
typedef struct Described {
        const Ini *ini;
        const IniSection *section;
        DeviceRow row;
        bool used; /* refined a found device, or one of the record */
} Described;

typedef struct DeviceReader {
        Snapshot *s;
        const DeviceText *text;
        Described *described;
        size_t n_described;
        size_t n_known, n_known_links; /* what the snapshot had before */
        char **ret_message;
} DeviceReader;

static int collect_described(DeviceReader *r) {
        for (size_t f = 0; f < r->text->n_files; f++)
                for (size_t i = 0; i < r->text->files[f]->n_sections; i++) {
                        const IniSection *s = &r->text->files[f]->sections[i];
                        Described *v;
                        int k;

                        if (!section_is_device(s))
                                continue;
                        v = realloc(r->described, (r->n_described + 1) * sizeof(*v));
                        if (!v)
                                return -ENOMEM;
                        r->described = v;
                        v += r->n_described;
                        *v = (Described){ .ini = r->text->files[f], .section = s };
                        k = device_row_fill(v->ini, s, &v->row, r->ret_message);
                        if (k < 0)
                                return k;
                        r->n_described++;
                }
        return 0;
}

static Described *find_described(DeviceReader *r, const char *pci) {
        for (size_t i = 0; i < r->n_described; i++)
                if (!r->described[i].used && r->described[i].row.pci && pci_same(r->described[i].row.pci, pci))
                        return &r->described[i];
        return NULL;
}

static int set_string(char **field, const char *value) {
        char *copy = value ? strdup(value) : NULL;

        if (value && !copy)
                return -ENOMEM;
        free(*field);
        *field = copy;
        return 0;
}

static int copy_strv(char ***dst, char *const *src) {
        int r = 0;

        *dst = strv_free(*dst);
        for (; src && *src && r >= 0; src++)
                r = strv_extend(dst, *src);
        return r;
}

/* Found before, and not on the machine any more. */
static bool is_gone(const DeviceReader *r, const FoundDevice *f) {
        for (unsigned i = 0; i < r->s->topology->n_pci; i++)
                if (pci_same(r->s->topology->pci[i].address, f->pci))
                        return false;
        return true;
}

static bool name_gone(const DeviceReader *r, const char *name) {
        for (size_t i = 0; i < r->text->n_found; i++)
                if (streq(r->text->found[i].name, name) && is_gone(r, &r->text->found[i]))
                        return true;
        return false;
}

static bool function_gone(const DeviceReader *r, const char *pci) {
        for (size_t i = 0; i < r->text->n_found; i++)
                if (pci_same(r->text->found[i].pci, pci) && is_gone(r, &r->text->found[i]))
                        return true;
        return false;
}

static bool name_taken(const DeviceReader *r, const char *name) {
        for (size_t i = 0; i < r->n_described; i++)
                if (streq(r->described[i].section->args[0], name))
                        return true;
        for (size_t i = 0; i < r->s->n_devices; i++)
                if (r->s->devices[i].name && streq(r->s->devices[i].name, name))
                        return true;
        return false;
}

/* The name it was given before: one of the same habit, so not that of a description which went. */
static const char *found_name(const DeviceReader *r, const char *kind, const char *pci) {
        size_t n = strlen(pci_kind_prefix(kind));

        for (size_t i = 0; i < r->text->n_found; i++) {
                const FoundDevice *f = &r->text->found[i];

                if (pci_same(f->pci, pci) && strncmp(f->name, pci_kind_prefix(kind), n) == 0 && f->name[n] &&
                    strspn(f->name + n, "0123456789") == strlen(f->name + n) && !name_taken(r, f->name))
                        return f->name;
        }
        return NULL;
}

/* A number stays with its card also while that is out: jobs name cards by it. */
static bool name_kept(const DeviceReader *r, const char *name) {
        for (size_t i = 0; i < r->text->n_found; i++)
                if (streq(r->text->found[i].name, name))
                        return true;
        return false;
}

static int make_name(const DeviceReader *r, const char *kind, const char *pci, char **ret) {
        const char *before = found_name(r, kind, pci);

        if (before)
                return (*ret = strdup(before)) ? 0 : -ENOMEM;
        for (unsigned n = 0;; n++) {
                if (asprintf(ret, "%s%u", pci_kind_prefix(kind), n) < 0) {
                        *ret = NULL;
                        return -ENOMEM;
                }
                if (!name_taken(r, *ret) && !name_kept(r, *ret))
                        return 0;
                free(TAKE_PTR(*ret));
        }
}

/* /dev/davinciN counts by the driver's number of the card, which is in sysfs (readable to root only). */
static int find_ascend_node(const Topology *t, Device *d) {
        _cleanup_free_ char *path = NULL;
        uint64_t id;

        if (!t->is_this_system || !streq(d->kind, "ascend"))
                return 0;
        if (asprintf(&path, "/sys/bus/pci/devices/%s/dev_id", d->pci) < 0) {
                path = NULL;
                return -ENOMEM;
        }
        if (read_u64_at(AT_FDCWD, path, &id) < 0)
                return 0;
        return strv_extendf(&d->nodes, "/dev/davinci%" PRIu64, id);
}

static int fill_found(const DeviceReader *r, Device *d, const TopologyPci *p, const char *kind) {
        d->node = p->node;
        if (set_string(&d->pci, p->address) < 0 || set_string(&d->root, p->root) < 0 ||
            (kind && set_string(&d->kind, kind) < 0))
                return -ENOMEM;
        return kind ? find_ascend_node(r->s->topology, d) : 0;
}

static int set_node(const DeviceReader *r, Device *d, const Described *e) {
        const Topology *t = r->s->topology;

        if (e->row.node == NODE_NOT_GIVEN)
                return 0;
        d->node = e->row.node == NODE_UNKNOWN ? TOPOLOGY_NONE : topology_node_by_os(t, (unsigned) e->row.node);
        if (e->row.node != NODE_UNKNOWN && d->node == TOPOLOGY_NONE)
                return ini_fail(r->ret_message, e->ini, ini_item_line(e->section, "NUMANode"),
                                "NUMANode=%d: %s has no such node, it has %u from %u to %u", e->row.node,
                                t->source ? t->source : "the machine", t->n_nodes, t->n_nodes ? t->nodes[0].os : 0,
                                t->n_nodes ? t->nodes[t->n_nodes - 1].os : 0);
        return 0;
}

static int needs_kind(const DeviceReader *r, const Described *e) {
        const char *name = e->section->args[0];

        if (!e->row.pci)
                return ini_fail(r->ret_message, e->ini, e->section->line,
                                "[Device %s] needs Kind=, or PCI= of a known accelerator", name);
        return ini_fail(r->ret_message, e->ini, e->section->line,
                        "[Device %s] needs Kind=: no known accelerator is at PCI=%s", name, e->row.pci);
}

static void set_numbers(Device *d, const Described *e) {
        if (ini_find_value(e->section, "Memory"))
                d->memory = e->row.memory;
        if (ini_find_value(e->section, "Health"))
                d->health = (Health) e->row.health;
        if (!isnan(e->row.temperature))
                d->temperature = e->row.temperature;
        if (!isnan(e->row.power))
                d->power = e->row.power;
        if (!isnan(e->row.price))
                d->price = e->row.price;
}

/* The words of the description over what was found. */
static int refine(const DeviceReader *r, Device *d, Described *e) {
        const DeviceRow *row = &e->row;

        e->used = true;
        if (set_string(&d->name, e->section->args[0]) < 0 || (row->kind && set_string(&d->kind, row->kind) < 0) ||
            (row->nodes && copy_strv(&d->nodes, row->nodes) < 0))
                return -ENOMEM;
        if (row->pci && (!d->pci || !pci_same(d->pci, row->pci))) {
                PciAddress a = {};

                (void) pci_parse(row->pci, &a);
                free(d->pci);
                if (asprintf(&d->pci, "%04x:%02x:%02x.%x", a.domain, a.bus, a.device, a.function) < 0) {
                        d->pci = NULL;
                        return -ENOMEM;
                }
        }
        if (!d->kind)
                return needs_kind(r, e);
        set_numbers(d, e);
        return set_node(r, d, e);
}

static int pci_order(const void *x, const void *y) {
        const TopologyPci *p = *(const TopologyPci *const *) x, *q = *(const TopologyPci *const *) y;
        PciAddress a = {}, b = {};
        int r;

        (void) pci_parse(p->address, &a);
        (void) pci_parse(q->address, &b);
        r = pci_compare(a, b);
        return r ? r : strcmp(p->address, q->address);
}

/* A record that has devices says itself which of the functions they are. */
static bool is_known_address(const DeviceReader *r, const char *pci) {
        for (size_t i = 0; i < r->n_known; i++)
                if (r->s->devices[i].pci && pci_same(r->s->devices[i].pci, pci))
                        return true;
        return false;
}

static int add_found(DeviceReader *r, const TopologyPci *p) {
        const char *kind = kind_of(r->text, p);
        Described *e = find_described(r, p->address);
        _cleanup_free_ char *name = NULL;
        Device *d;
        int k;

        if (is_known_address(r, p->address) || (!e && (!kind || r->n_known > 0)))
                return 0;
        if (!e) {
                k = make_name(r, kind, p->address, &name);
                if (k < 0)
                        return k;
        }
        d = snapshot_add_device(r->s);
        if (!d)
                return -ENOMEM;
        d->name = TAKE_PTR(name);
        k = fill_found(r, d, p, kind);
        if (k < 0 || !e)
                return k;
        return refine(r, d, e);
}

static int add_all_found(DeviceReader *r) {
        const Topology *t = r->s->topology;
        _cleanup_free_ const TopologyPci **v = calloc(MAX(t->n_pci, 1U), sizeof(*v));
        int k = 0;

        if (!v)
                return -ENOMEM;
        for (unsigned i = 0; i < t->n_pci; i++)
                v[i] = &t->pci[i];
        qsort(v, t->n_pci, sizeof(*v), pci_order);
        for (unsigned i = 0; i < t->n_pci && k >= 0; i++)
                k = add_found(r, v[i]);
        return k;
}

static int refine_known(DeviceReader *r) {
        for (size_t i = 0; i < r->n_described; i++) {
                Described *e = &r->described[i];
                unsigned index;
                int k;

                if (!snapshot_device(r->s, e->section->args[0], &index))
                        continue;
                k = refine(r, &r->s->devices[index], e);
                if (k < 0)
                        return k;
        }
        return 0;
}

static int add_rest(DeviceReader *r) {
        for (size_t i = 0; i < r->n_described; i++) {
                Device *d;
                int k;

                if (r->described[i].used || (r->described[i].row.pci && function_gone(r, r->described[i].row.pci)))
                        continue;
                d = snapshot_add_device(r->s);
                if (!d)
                        return -ENOMEM;
                k = refine(r, d, &r->described[i]);
                if (k < 0)
                        return k;
        }
        return 0;
}

static int check_names(const DeviceReader *r) {
        for (size_t i = 1; i < r->s->n_devices; i++)
                for (size_t j = 0; j < i; j++)
                        if (streq(r->s->devices[i].name, r->s->devices[j].name))
                                return text_fail(-EBADMSG, r->ret_message, "two devices are both named %s",
                                                 r->s->devices[i].name);
        return 0;
}

/* One card under two names would be given away twice. */
static int check_addresses(const DeviceReader *r) {
        for (size_t i = 0; i < r->n_described; i++)
                for (size_t k = 0; k < r->n_known; k++) {
                        const Described *e = &r->described[i];
                        const Device *d = &r->s->devices[k];

                        if (e->row.pci && d->pci && pci_same(e->row.pci, d->pci) &&
                            !streq(e->section->args[0], d->name))
                                return ini_fail(r->ret_message, e->ini, ini_item_line(e->section, "PCI"),
                                                "PCI=%s is device %s of the record; describe it as [Device %s]",
                                                e->row.pci, d->name, d->name);
                }
        return 0;
}

static Link *find_known_link(const DeviceReader *r, const unsigned ends[2]) {
        for (size_t i = 0; i < r->n_known_links; i++) {
                Link *l = &r->s->links[i];

                if ((l->a == ends[0] && l->b == ends[1]) || (l->a == ends[1] && l->b == ends[0]))
                        return l;
        }
        return NULL;
}

static int add_link(DeviceReader *r, const Ini *ini, const IniSection *s) {
        unsigned ends[2];
        LinkRow row;
        Link *l;
        int k;

        for (unsigned i = 0; i < 2; i++)
                if (!snapshot_device(r->s, s->args[i], &ends[i]) && name_gone(r, s->args[i]))
                        return 0;
                else if (!snapshot_device(r->s, s->args[i], &ends[i]))
                        return ini_fail(r->ret_message, ini, s->line,
                                        "[Link %s %s]: no device %s is described or found on this machine", s->args[0],
                                        s->args[1], s->args[i]);
        k = link_row_fill(ini, s, &row, r->ret_message);
        if (k < 0)
                return k;
        l = find_known_link(r, ends);
        if (l && l->type == (LinkType) row.type && isnan(row.bandwidth))
                return 0;
        if (!l && !(l = snapshot_add_link(r->s)))
                return -ENOMEM;
        *l = (Link){ .a = ends[0], .b = ends[1], .type = (LinkType) row.type, .bandwidth = row.bandwidth };
        return 0;
}

static int add_links(DeviceReader *r) {
        int k = 0;

        for (size_t f = 0; f < r->text->n_files; f++)
                for (size_t i = 0; i < r->text->files[f]->n_sections && k >= 0; i++)
                        if (section_is_link(&r->text->files[f]->sections[i]))
                                k = add_link(r, r->text->files[f], &r->text->files[f]->sections[i]);
        return k;
}

int devices_read(Snapshot *s, const DeviceText *d, char **ret_message) {
        DeviceReader r = {
                .s = s, .text = d, .n_known = s->n_devices, .n_known_links = s->n_links, .ret_message = ret_message
        };
        int k;

        k = collect_described(&r);
        if (k >= 0)
                k = refine_known(&r);
        if (k >= 0)
                k = add_all_found(&r);
        if (k >= 0)
                k = add_rest(&r);
        if (k >= 0)
                k = check_names(&r);
        if (k >= 0)
                k = check_addresses(&r);
        if (k >= 0)
                k = add_links(&r);
        for (size_t i = 0; i < r.n_described; i++)
                config_done(device_items, "Device", &r.described[i].row);
        free(r.described);
        return k;
}
