/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of known accelerators and the description of devices in text: what the keys of [Device] and [Link] are, and
 * all that can be judged about them without a machine. Class 0 in the table stands for a vendor's device that is an
 * accelerator whatever its class says; a class is asked for where the vendor also makes other things (Hygon's CPU
 * bridges, display cards) or an id may be newer than this table.
 */
#include "daemon/readers/device-text.h"

#include <errno.h>
#include <limits.h>
#include <strings.h>

#define HUAWEI(device, name)                                                                                           \
        { 0x19e5, device, 0, "ascend", name, "/dev/davinci[0-9]*" }
#define HUAWEI_OTHER(vendor)                                                                                           \
        { vendor, 0xd500, 0, "ascend", "Ascend 310P", "/dev/davinci[0-9]*" }, {                                        \
                vendor, 0xd802, 0, "ascend", "Ascend 910B", "/dev/davinci[0-9]*"                                       \
        }
#define CAMBRICON(device, class, name)                                                                                 \
        { 0xcabc, device, class, "cambricon", name, "/dev/cambricon_dev[0-9]*" }

const PciKind pci_kinds[] = {
        HUAWEI(0xd100, "Ascend 310"),
        HUAWEI(0xd105, "Ascend 310B"),
        HUAWEI(0xd500, "Ascend 310P"),
        HUAWEI(0xd501, "Ascend 310P"),
        HUAWEI(0xd801, "Ascend 910A"),
        HUAWEI(0xd802, "Ascend 910B"),
        HUAWEI(0xd803, "Ascend 910C"),
        HUAWEI(0xd804, "Ascend 910B"),
        HUAWEI(0xd805, "Ascend 910B virtual function"),
        HUAWEI(0xd806, "Ascend 950"),
        HUAWEI(0xd807, "Ascend"),
        HUAWEI(0xd808, "Ascend"),
        HUAWEI_OTHER(0x20c6),
        HUAWEI_OTHER(0x203f),
        HUAWEI_OTHER(0x20e9),
        CAMBRICON(0x0100, 0, "MLU100"),
        CAMBRICON(0x0220, 0, "MLU220"),
        CAMBRICON(0x0228, 0, "MLU220"),
        CAMBRICON(0x0270, 0, "MLU270"),
        CAMBRICON(0x0290, 0, "MLU290"),
        CAMBRICON(0x0320, 0, "CE3226"),
        CAMBRICON(0x0370, 0, "MLU370"),
        CAMBRICON(0x0590, 0, "MLU590"),
        CAMBRICON(PCI_ANY, 0x1200, "MLU"),
        CAMBRICON(0x0365, 0, "MLU370"),
        CAMBRICON(0x0560, 0, "MLU500"),
        CAMBRICON(0x0570, 0, "MLU500"),
        CAMBRICON(0x0580, 0, "MLU500"),
        CAMBRICON(0x0585, 0, "MLU500"),
        CAMBRICON(0x5223, 0, "1V"),
        { 0x1d94, PCI_ANY, 0x0380, "hygon", "DCU", "/dev/dri/renderD[0-9]*" },
        { 0x1d94, PCI_ANY, 0x1200, "hygon", "DCU", "/dev/dri/renderD[0-9]*" },
        { 0x1e3e, 0x0001, 0, "iluvatar", "BI", "/dev/iluvatar[0-9]*" },
        { 0x1e3e, 0x0002, 0, "iluvatar", "BI", "/dev/iluvatar[0-9]*" },
        { 0x1e3e, PCI_ANY, 0x1200, "iluvatar", "BI", "/dev/iluvatar[0-9]*" },
        { 0x10de, PCI_ANY, 0x0302, "nvidia", "GPU", "/dev/nvidia[0-9]*" },
        { 0x10de, PCI_ANY, 0x0300, "nvidia", "GPU", "/dev/nvidia[0-9]*" },
        { 0x1002, PCI_ANY, 0x0380, "amd", "GPU", "/dev/dri/renderD[0-9]*" },
        { 0x1002, PCI_ANY, 0x1200, "amd", "GPU", "/dev/dri/renderD[0-9]*" },
        {},
};

static const struct {
        const char *kind, *prefix;
} prefixes[] = {
        { "ascend", "npu" },   { "cambricon", "mlu" }, { "hygon", "dcu" },
        { "iluvatar", "ilu" }, { "nvidia", "gpu" },    { "amd", "gpu" },
};

static const char *const node_words[] = { "unknown", NULL };

const ConfigItem device_items[] = {
        { "Device", "Kind", CONFIG_STRING, 0, 0, NULL, offsetof(DeviceRow, kind), NULL,
          "What it is: ascend cambricon hygon iluvatar nvidia amd, or a name of your own; may be left out where PCI= is found on the machine" },
        { "Device", "PCI", CONFIG_STRING, 0, 0, NULL, offsetof(DeviceRow, pci), NULL,
          "PCI address DDDD:BB:DD.F; a device found there is refined by this section" },
        { "Device", "NUMANode", CONFIG_INT, 0, BITSET_MAX - 1, NULL, offsetof(DeviceRow, node), node_words,
          "NUMA node it hangs on, the kernel's number, or unknown; default: what the machine says about PCI=" },
        { "Device", "Memory", CONFIG_SIZE, 0, 0x1p60, NULL, offsetof(DeviceRow, memory), NULL,
          "Device memory in bytes; K M G T P are powers of 1024" },
        { "Device", "Temperature", CONFIG_DOUBLE, -100, 300, NULL, offsetof(DeviceRow, temperature), NULL,
          "Temperature in degrees C" },
        { "Device", "Power", CONFIG_DOUBLE, 0, 100000, NULL, offsetof(DeviceRow, power), NULL, "Power drawn in W" },
        { "Device", "Price", CONFIG_DOUBLE, 0, 1e9, NULL, offsetof(DeviceRow, price), NULL,
          "Price per hour, any unit" },
        { "Device", "Health", CONFIG_ENUM, 0, 0, "unknown", offsetof(DeviceRow, health), health_names,
          "Health; tasks do not go to critical ones, and to warning and alarm ones at a price (term health)" },
        { "Device", "Nodes", CONFIG_STRV, 0, 0, NULL, offsetof(DeviceRow, nodes), NULL,
          "Device nodes that a task on it holds open, such as /dev/davinci0" },
        { "Link", "Type", CONFIG_ENUM, 0, 0, NULL, offsetof(LinkRow, type), link_names,
          "How the two devices are joined" },
        { "Link", "Bandwidth", CONFIG_RATE, 0, 1e18, NULL, offsetof(LinkRow, bandwidth), NULL,
          "Bytes per second; K M G T P are powers of 1000; default: usual for the type" },
        {},
};

bool pci_kind_known(const char *kind) {
        for (size_t i = 0; i < ELEMENTSOF(prefixes); i++)
                if (streq(prefixes[i].kind, kind))
                        return true;
        return false;
}

const char *pci_kind_prefix(const char *kind) {
        for (size_t i = 0; i < ELEMENTSOF(prefixes); i++)
                if (streq(prefixes[i].kind, kind))
                        return prefixes[i].prefix;
        return kind;
}

void device_text_done(DeviceText *d) {
        for (size_t i = 0; i < d->n_files; i++)
                ini_free(d->files[i]);
        free(d->files);
        strv_free(d->pci_ids);
        *d = (DeviceText){};
}

bool section_is_device(const IniSection *s) {
        return strcasecmp(s->type, "Device") == 0;
}

bool section_is_link(const IniSection *s) {
        return strcasecmp(s->type, "Link") == 0;
}

int pci_parse(const char *s, PciAddress *ret) {
        PciAddress a = {};
        int end = 0;

        if (strspn(s, "0123456789abcdefABCDEF:.") != strlen(s))
                return -EINVAL;
        if ((sscanf(s, "%8x:%2x:%2x.%1x%n", &a.domain, &a.bus, &a.device, &a.function, &end) != 4 || s[end]) &&
            (a.domain = 0, sscanf(s, "%2x:%2x.%1x%n", &a.bus, &a.device, &a.function, &end) != 3 || s[end]))
                return -EINVAL;
        if (a.device > 0x1f || a.function > 7)
                return -EINVAL;
        *ret = a;
        return 0;
}

int pci_compare(PciAddress a, PciAddress b) {
        int r = CMP(a.domain, b.domain);

        r = r ? r : CMP(a.bus, b.bus);
        r = r ? r : CMP(a.device, b.device);
        return r ? r : CMP(a.function, b.function);
}

bool pci_same(const char *a, const char *b) {
        PciAddress x, y;

        return pci_parse(a, &x) >= 0 && pci_parse(b, &y) >= 0 && pci_compare(x, y) == 0;
}

int device_row_fill(const Ini *ini, const IniSection *s, DeviceRow *row, char **ret_message) {
        *row = (DeviceRow){ .node = NODE_NOT_GIVEN, .temperature = NAN, .power = NAN, .price = NAN };
        return config_section_fill(ini, s, device_items, row, ret_message);
}

int link_row_fill(const Ini *ini, const IniSection *s, LinkRow *row, char **ret_message) {
        *row = (LinkRow){ .type = -1, .bandwidth = NAN };
        return config_section_fill(ini, s, device_items, row, ret_message);
}

static int check_row(const Ini *ini, const IniSection *s, const DeviceRow *row, bool needs_kind, char **ret_message) {
        PciAddress a;

        if (row->kind && !name_is_valid(row->kind))
                return ini_fail(ret_message, ini, ini_item_line(s, "Kind"), "Kind=%.70s: a kind is " NAME_RULE,
                                row->kind);
        if (row->pci && pci_parse(row->pci, &a) < 0)
                return ini_fail(ret_message, ini, ini_item_line(s, "PCI"),
                                "PCI=%.40s is no PCI address, which looks like 0000:c1:00.0", row->pci);
        if (needs_kind && !row->kind && !row->pci)
                return ini_fail(ret_message, ini, s->line, "[Device %s] needs Kind=, or PCI= of a known accelerator",
                                s->args[0]);
        for (char **n = row->nodes; n && *n; n++)
                if (**n != '/')
                        return ini_fail(ret_message, ini, ini_item_line(s, "Nodes"),
                                        "Nodes: %.70s is not an absolute path", *n);
        return 0;
}

/* Same name or address as an earlier device of the same or an earlier file. */
static int check_device_unique(const DeviceText *d, const Ini *ini, const IniSection *s, char **ret_message) {
        const char *pci = ini_find_value(s, "PCI");
        unsigned n = 0;

        for (size_t f = 0; f <= d->n_files; f++) {
                const Ini *other = f < d->n_files ? d->files[f] : ini;

                for (size_t i = 0; i < other->n_sections; i++) {
                        const IniSection *o = &other->sections[i];
                        const char *p;

                        if (o == s)
                                return 0;
                        if (!section_is_device(o))
                                continue;
                        if (++n >= DEVICES_MAX)
                                return ini_fail(ret_message, ini, s->line, "more than %u devices are described",
                                                DEVICES_MAX);
                        if (streq(o->args[0], s->args[0]))
                                return ini_fail(ret_message, ini, s->line, "device %s is described already in %s:%u",
                                                s->args[0], other->label, o->line);
                        p = ini_find_value(o, "PCI");
                        if (pci && p && pci_same(pci, p))
                                return ini_fail(ret_message, ini, ini_item_line(s, "PCI"),
                                                "PCI=%s is device %s already, in %s:%u", pci, o->args[0], other->label,
                                                o->line);
                }
        }
        return 0;
}

static int check_device(const DeviceText *d, const Ini *ini, const IniSection *s, char **ret_message) {
        DeviceRow row;
        int r;

        if (!s->args || s->args[1])
                return ini_fail(ret_message, ini, s->line, "[Device NAME] takes one name");
        if (!name_is_valid(s->args[0]) || streq(s->args[0], "none"))
                return ini_fail(ret_message, ini, s->line,
                                "[Device %.70s]: the name is " NAME_RULE ", and not \"none\"", s->args[0]);
        r = device_row_fill(ini, s, &row, ret_message);
        if (r >= 0)
                r = check_row(ini, s, &row, !d->for_record, ret_message);
        config_done(device_items, "Device", &row);
        return r < 0 ? r : check_device_unique(d, ini, s, ret_message);
}

static bool same_pair(char *const *a, char *const *b) {
        return (streq(a[0], b[0]) && streq(a[1], b[1])) || (streq(a[0], b[1]) && streq(a[1], b[0]));
}

static int check_link(const DeviceText *d, const Ini *ini, const IniSection *s, char **ret_message) {
        LinkRow row;
        int r;

        if (strv_length(s->args) != 2)
                return ini_fail(ret_message, ini, s->line, "[Link A B] takes the names of two devices");
        if (streq(s->args[0], s->args[1]))
                return ini_fail(ret_message, ini, s->line, "[Link %s %s] joins a device with itself", s->args[0],
                                s->args[1]);
        r = link_row_fill(ini, s, &row, ret_message);
        if (r < 0)
                return r;
        if (row.type < 0)
                return ini_fail(ret_message, ini, s->line, "[Link %s %s] needs Type=", s->args[0], s->args[1]);
        for (size_t f = 0; f <= d->n_files; f++) {
                const Ini *other = f < d->n_files ? d->files[f] : ini;

                for (size_t i = 0; i < other->n_sections; i++) {
                        const IniSection *o = &other->sections[i];

                        if (o == s)
                                return 0;
                        if (section_is_link(o) && same_pair(o->args, s->args))
                                return ini_fail(ret_message, ini, s->line,
                                                "the link of %s and %s is described already in %s:%u", s->args[0],
                                                s->args[1], other->label, o->line);
                }
        }
        return 0;
}

int device_text_add(DeviceText *d, Ini *ini, bool others_allowed, char **ret_message) {
        Ini **v;
        int r;

        for (size_t i = 0; i < ini->n_sections; i++) {
                const IniSection *s = &ini->sections[i];

                if (section_is_device(s))
                        r = check_device(d, ini, s, ret_message);
                else if (section_is_link(s))
                        r = check_link(d, ini, s, ret_message);
                else if (!others_allowed)
                        r = ini_fail(ret_message, ini, s->line,
                                     "[%s] is not known in a device description, allowed: Device, Link", s->type);
                else
                        r = 0;
                if (r < 0)
                        return r;
        }
        v = realloc(d->files, (d->n_files + 1) * sizeof(*v));
        if (!v)
                return -ENOMEM;
        d->files = v;
        d->files[d->n_files++] = ini;
        return 0;
}

int pci_id_parse(const char *text, unsigned *ret_vendor, unsigned *ret_device, const char **ret_kind) {
        int end = 0;

        if (strspn(text, "0123456789abcdefABCDEF:") != strcspn(text, "="))
                return -EINVAL;
        if (sscanf(text, "%4x:%4x=%n", ret_vendor, ret_device, &end) != 2 || end == 0 || !name_is_valid(text + end))
                return -EINVAL;
        *ret_kind = text + end;
        return 0;
}

int device_text_add_pci_id(DeviceText *d, const char *text, char **ret_message) {
        unsigned vendor, device;
        const char *kind;

        if (pci_id_parse(text, &vendor, &device, &kind) < 0)
                return text_fail(-EBADMSG, ret_message,
                                 "%.70s is no PCI id with a kind, which looks like 1234:11e8=edu", text);
        return strv_extend(&d->pci_ids, text);
}
