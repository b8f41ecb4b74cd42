/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topology: the machine for the eye, then what does not go into the picture: distances of the nodes and links of the
 * devices. Links of one type and speed that join a set of devices each with each are one line.
 */
#include <math.h>

#include "common/log.h"
#include "common/text.h"
#include "ctl/output.h"
#include "policy/record.h"

#define DISTANCES_MAX 16U

static void show_head(const Snapshot *s) {
        const Topology *t = s->topology;
        _cleanup_free_ char *text = NULL;
        uint64_t memory = 0;
        char buf[32];

        for (unsigned i = 0; i < t->n_nodes; i++)
                memory += t->nodes[i].memory;
        (void) text_format_bytes(buf, sizeof(buf), memory);
        if (asprintf(&text, "%u CPUs (%u allowed), %u NUMA node%s, %s, %zu device%s", t->n_cpus, bitset_weight(&t->allowed), t->n_nodes,
                     t->n_nodes == 1 ? "" : "s", buf, s->n_devices, s->n_devices == 1 ? "" : "s") < 0)
                return;
        out_ink(INK_BOLD, "%s", strempty(t->source));
        out("%s%s\n", text_width(strempty(t->source)) + 2 + text_width(text) > OUTPUT_WIDTH ? ":\n" : ": ", text);
}

static void show_distances(const Topology *t) {
        if (t->n_nodes < 2 || t->n_nodes > DISTANCES_MAX)
                return;
        out_heading("Distance%s", t->distances_known ? "" : " (assumed: the machine does not tell)");
        out("node ");
        for (unsigned i = 0; i < t->n_nodes; i++)
                out_ink(INK_BOLD, "%4u", t->nodes[i].os);
        out("\n");
        for (unsigned i = 0; i < t->n_nodes; i++) {
                out_ink(INK_BOLD, "%4u ", t->nodes[i].os);
                for (unsigned k = 0; k < t->n_nodes; k++)
                        out_ink(i == k ? INK_DIM : INK_NONE, "%4.0f", topology_distance(t, i, k));
                out("\n");
        }
}

static bool same_kind(const Link *a, const Link *b) {
        return a->type == b->type && (a->bandwidth == b->bandwidth || (isnan(a->bandwidth) && isnan(b->bandwidth)));
}

static bool joined(const Snapshot *s, const Link *kind, unsigned a, unsigned b) {
        for (size_t i = 0; i < s->n_links; i++)
                if (same_kind(&s->links[i], kind) &&
                    ((s->links[i].a == a && s->links[i].b == b) || (s->links[i].a == b && s->links[i].b == a)))
                        return true;
        return false;
}

static void link_line(const Snapshot *s, const Link *l, const char *what) {
        char rate[32], first[64];

        if (isnan(l->bandwidth))
                (void) snprintf(rate, sizeof(rate), "-");
        else
                (void) text_format_rate(rate, sizeof(rate), l->bandwidth);
        (void) snprintf(first, sizeof(first), "%-8s%10s  ", link_names[l->type], rate);
        out_wrapped(first, "                    ", INK_NONE, what);
}

/* The largest set grown from link `from` whose members are each joined with each; its links are taken. */
static void take_clique(const Snapshot *s, size_t from, bool *taken) {
        const Link *l = &s->links[from];
        _cleanup_free_ bool *member = calloc(s->n_devices + 1, sizeof(*member));
        _cleanup_free_ char *text = NULL;
        unsigned n = 2;
        size_t size = 0;
        FILE *f;

        if (!member)
                return;
        member[l->a] = member[l->b] = true;
        for (unsigned d = 0; d < s->n_devices; d++) {
                bool all = !member[d];

                for (unsigned k = 0; all && k < s->n_devices; k++)
                        all = !member[k] || joined(s, l, d, k);
                member[d] = member[d] || all;
                n += all;
        }
        for (size_t i = 0; i < s->n_links; i++)
                if (same_kind(&s->links[i], l) && member[s->links[i].a] && member[s->links[i].b])
                        taken[i] = true;
        f = open_memstream(&text, &size);
        if (!f)
                return;
        for (unsigned d = 0; d < s->n_devices; d++)
                if (member[d])
                        fprintf(f, "%s ", s->devices[d].name);
        fprintf(f, "%s", n > 2 ? "each with each" : "");
        if (fclose(f) == 0)
                link_line(s, l, text);
}

static void show_links(const Snapshot *s) {
        _cleanup_free_ bool *taken = calloc(s->n_links + 1, sizeof(*taken));

        if (s->n_links == 0 || !taken)
                return;
        out_heading("Links");
        for (size_t i = 0; i < s->n_links; i++)
                if (!taken[i]) {
                        taken[i] = true;
                        take_clique(s, i, taken);
                }
}

static json_t *set_json(const Bitset *b) {
        _cleanup_free_ char *s = NULL;

        return bitset_format(b, &s) < 0 ? NULL : json_string(s);
}

static json_t *node_json(const Topology *t, unsigned i) {
        const TopologyNode *n = &t->nodes[i];
        json_t *distances = json_array(), *j;

        for (unsigned k = 0; k < t->n_nodes; k++)
                json_array_append_new(distances, json_real(topology_distance(t, i, k)));
        j = json_pack("{s:i, s:o, s:I, s:b, s:o}", "node", n->os, "cpus", set_json(&n->cpus), "memory", (json_int_t) n->memory,
                      "allowed", n->allowed, "distances", distances);
        if (j && n->free != UINT64_MAX)
                json_object_set_new(j, "free", json_integer((json_int_t) n->free));
        return j;
}

static json_t *links_json(const Snapshot *s) {
        json_t *links = json_array();

        for (size_t i = 0; i < s->n_links; i++) {
                const Link *l = &s->links[i];

                json_array_append_new(links, json_pack("{s:s, s:s, s:s, s:o}", "a", s->devices[l->a].name, "b", s->devices[l->b].name, "type",
                                                       link_names[l->type], "bandwidth", isnan(l->bandwidth) ? json_null() : json_real(l->bandwidth)));
        }
        return links;
}

static json_t *cpu_json(const Topology *t, const TopologyCpu *c) {
        const struct {
                const char *key;
                unsigned value;
        } levels[] = { { "package", c->package }, { "l3", c->l3 }, { "cluster", c->cluster }, { "core", c->core }, { "smt", c->smt }, { "kind", c->kind } };
        json_t *j = json_pack("{s:i, s:i}", "cpu", c->os, "node", t->nodes[c->node].os);

        for (size_t i = 0; j && i < ELEMENTSOF(levels); i++)
                json_object_set_new(j, levels[i].key, levels[i].value == TOPOLOGY_NONE ? json_null() : json_integer(levels[i].value));
        return j;
}

static json_t *topology_json(const Snapshot *s, json_t *plan) {
        const Topology *t = s->topology;
        json_t *nodes = json_array(), *cpus = json_array(), *devices = json_array(), *warnings = json_array();

        for (unsigned i = 0; i < t->n_nodes; i++)
                json_array_append_new(nodes, node_json(t, i));
        for (unsigned i = 0; i < t->n_cpus; i++)
                json_array_append_new(cpus, cpu_json(t, &t->cpus[i]));
        for (size_t i = 0; i < s->n_devices; i++)
                json_array_append_new(devices, record_device(s, &s->devices[i]));
        for (char **w = t->warnings; w && *w; w++)
                json_array_append_new(warnings, json_string(*w));
        return json_pack("{s:s, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:O?}", "source", strempty(t->source), "online", set_json(&t->online),
                         "allowed", set_json(&t->allowed), "isolated", set_json(&t->isolated), "distances_known", t->distances_known, "nodes",
                         nodes, "cpus", cpus, "devices", devices, "links", links_json(s), "messages", warnings, "plan", plan);
}

static void show_topology(const Snapshot *s, const json_t *plan) {
        show_head(s);
        show_picture(s, plan);
        show_distances(s->topology);
        show_links(s);
        if (s->topology->warnings && *s->topology->warnings)
                out("\n");
        for (char **w = s->topology->warnings; w && *w; w++)
                out_wrapped("! ", "  ", INK_WARN, *w);
}

static int plan_of_daemon(const Options *o, json_t **ret) {
        _cleanup_(sd_bus_flush_close_unrefp) sd_bus *bus = NULL;
        json_t *status = NULL;
        int r = client_open(o, &bus);

        if (r == EXIT_DONE)
                r = client_call_string(bus, "GetStatus", NULL, &status);
        if (r == EXIT_DONE)
                *ret = json_incref((json_t *) jget(status, "plan"));
        json_decref(status);
        return r;
}

int verb_topology(const Options *o, int argc, char **argv) {
        _cleanup_(offline_done) Offline f = {};
        json_t *plan = NULL, *j;
        int r;

        if (options_offline(o)) {
                r = offline_open(o, argv, (size_t) argc, &f);
                if (r == EXIT_DONE && argc > 0)
                        r = offline_plan(&f, o, &plan);
        } else {
                r = client_snapshot(o, &f.snapshot);
                if (r == EXIT_DONE)
                        r = argc > 0 ? client_plan(o, "Plan", argv, argc, &plan) : plan_of_daemon(o, &plan);
        }
        if (r == EXIT_DONE && o->json) {
                j = topology_json(f.snapshot, plan);
                out_json(j);
                json_decref(j);
        } else if (r == EXIT_DONE)
                show_topology(f.snapshot, plan);
        if (r == EXIT_DONE && argc > 0)
                r = plan_exit_code(plan);
        json_decref(plan);
        return r;
}
