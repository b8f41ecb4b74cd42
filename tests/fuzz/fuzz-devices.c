/* SPDX-License-Identifier: Apache-2.0 */
/* Device descriptions on a machine of two nodes with one accelerator: names stay unique, places stay on the machine. */
#include "daemon/readers/devices.h"

#include "tests/fuzz/fuzz.h"

static TopologyNode nodes[] = { { .os = 0 }, { .os = 3 } };
static TopologyPci functions[] = {
        { .address = "0000:c1:00.0", .vendor = 0x19e5, .device = 0xd802, .class = 0x1200, .node = 1 }
};
static const Topology machine = { .source = "fuzz", .nodes = nodes, .n_nodes = 2, .pci = functions, .n_pci = 1 };

static void check_snapshot(const Snapshot *s) {
        for (size_t i = 0; i < s->n_devices; i++) {
                const Device *d = &s->devices[i];

                must(name_is_valid(d->name) && name_is_valid(d->kind));
                must(d->node == TOPOLOGY_NONE || d->node < 2);
                must(isnan(d->power) || isfinite(d->power));
                for (size_t j = 0; j < i; j++)
                        must(!streq(d->name, s->devices[j].name));
        }
        for (size_t i = 0; i < s->n_links; i++)
                must(s->links[i].a != s->links[i].b && s->links[i].a < s->n_devices && s->links[i].b < s->n_devices);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(device_text_done) DeviceText text = {};
        _cleanup_(snapshot_freep) Snapshot *s = NULL;
        _cleanup_free_ char *message = NULL;
        Ini *ini = NULL;

        if (ini_parse("fuzz", (const char *) data, size, &ini, &message) < 0)
                return 0;
        if (device_text_add(&text, ini, false, &message) < 0) {
                must(message);
                ini_free(ini);
                return 0;
        }
        must(snapshot_new(&s) == 0);
        s->topology = &machine;
        if (devices_read(s, &text, &message) < 0)
                must(message);
        else
                check_snapshot(s);
        return 0;
}
