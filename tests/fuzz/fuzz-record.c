/* SPDX-License-Identifier: Apache-2.0 */
/* Records on a machine of two nodes: what is taken is consistent, and written out and read again it stays the same. */
#include <jansson.h>

#include "common/text.h"
#include "policy/record.h"
#include "tests/fuzz/fuzz.h"

static Topology *machine(void) {
        Topology *t = calloc(1, sizeof(*t));

        must(t && (t->source = strdup("fuzz")));
        t->n_cpus = 8;
        t->n_nodes = 2;
        must((t->cpus = calloc(8, sizeof(*t->cpus))) && (t->nodes = calloc(2, sizeof(*t->nodes))));
        must(t->distance = calloc(4, sizeof(*t->distance)));
        for (unsigned i = 0; i < 8; i++)
                t->cpus[i] = (TopologyCpu){ .os = i, .node = i / 4, .core = i };
        for (unsigned i = 0; i < 2; i++)
                t->nodes[i] = (TopologyNode){ .os = i * 3, .memory = 1 << 30, .free = UINT64_MAX, .allowed = true };
        must(bitset_set_range(&t->online, 0, 7) == 0 && bitset_set_range(&t->allowed, 0, 7) == 0);
        must(bitset_parse("0,3", &t->allowed_nodes) == 0);
        return t;
}

static Snapshot *read_record(const json_t *root) {
        _cleanup_free_ char *message = NULL;
        Topology *t = machine();
        Snapshot *s = NULL;

        if (record_to_snapshot(root, t, &s, &message) < 0) {
                must(message && !strchr(message, '\n'));
                must(!s);
                topology_free(t);
        }
        return s;
}

static void check_snapshot(const Snapshot *s) {
        for (size_t i = 0; i < s->n_devices; i++)
                must(s->devices[i].name && s->devices[i].kind &&
                     (s->devices[i].node == TOPOLOGY_NONE || s->devices[i].node < s->topology->n_nodes));
        for (size_t i = 0; i < s->n_links; i++)
                must(s->links[i].a < s->n_devices && s->links[i].b < s->n_devices && s->links[i].a != s->links[i].b);
        for (size_t i = 0; i < s->n_tasks; i++) {
                const Task *t = s->tasks + i;

                must(t->name && bitset_subset(&t->cpus, &s->topology->online) &&
                     bitset_subset(&t->allowed_cpus, &s->topology->online));
                for (size_t k = 0; k < t->n_devices; k++)
                        must(t->devices[k] < s->n_devices);
        }
        must(bitset_subset(&s->topology->allowed, &s->topology->online));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        json_t *root = json_loadb((const char *) data, size, JSON_REJECT_DUPLICATES, NULL), *one = NULL, *two = NULL;
        Snapshot *s, *again;

        if (!root)
                return 0;
        s = read_record(root);
        json_decref(root);
        if (!s)
                return 0;
        check_snapshot(s);
        must(record_from_snapshot(s, "<topology/>", &one) == 0);
        again = read_record(one);
        must(again);
        must(record_from_snapshot(again, "<topology/>", &two) == 0);
        must(json_equal(one, two));
        json_decref(one);
        json_decref(two);
        snapshot_free(s);
        snapshot_free(again);
        return 0;
}
