/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topology: the machine for the eye, then what does not go into the picture: distances of the nodes and links of the
 * devices. Links that join a set of devices each with each are one line.
 */
#include <math.h>

#include "common/json.h"
#include "common/log.h"
#include "common/text.h"
#include "ctl/output.h"
#include "policy/record.h"

#define DISTANCES_MAX 16U
#define LINK_LINES_MAX 32U

static void show_head(const Snapshot *s) {
        const Topology *t = s->topology;
        const char *source = strempty(t->source);
        _cleanup_free_ char *text = NULL;
        uint64_t memory = 0;
        unsigned width;
        char buf[32];

        for (unsigned i = 0; i < t->n_nodes; i++)
                memory += t->nodes[i].memory;
        (void) text_format_bytes(buf, sizeof(buf), memory);
        if (asprintf(&text, "%u CPUs (%u allowed), %u NUMA node%s, %s, %zu device%s", t->n_cpus,
                     bitset_weight(&t->allowed), t->n_nodes, t->n_nodes == 1 ? "" : "s", buf, s->n_devices,
                     s->n_devices == 1 ? "" : "s") < 0)
                return;
        width = text_width(source);
        if (width > OUTPUT_WIDTH - 1) { /* the end of a path tells more than its beginning */
                source += width - OUTPUT_WIDTH + 2;
                out("…");
        }
        out_ink(INK_BOLD, "%s", source);
        out("%s%s\n", width + 2 + text_width(text) > OUTPUT_WIDTH ? ":\n" : ": ", text);
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

/* Links by how good they are: speed, then type. Index 0 is "none". */
typedef struct Links {
        const Snapshot *s;
        unsigned *kind;       /* n x n: 1 + rank of the link's kind among all, the slowest 1; 0 no link */
        const Link **of_kind; /* an example of each, by that number */
        unsigned n_kinds;
} Links;

static double speed(const Link *l) {
        return isnan(l->bandwidth) ? 0 : l->bandwidth;
}

static int link_cmp(const void *x, const void *y) {
        const Link *a = *(const Link *const *) x, *b = *(const Link *const *) y;

        return CMP(speed(a), speed(b)) ?: CMP(a->type, b->type);
}

static unsigned *cell(const Links *l, unsigned a, unsigned b) {
        return &l->kind[(size_t) a * l->s->n_devices + b];
}

static int links_make(const Snapshot *s, Links *l) {
        _cleanup_free_ const Link **sorted = calloc(s->n_links + 1, sizeof(*sorted));

        *l = (Links){ .s = s,
                      .kind = calloc(s->n_devices * s->n_devices + 1, sizeof(*l->kind)),
                      .of_kind = calloc(s->n_links + 1, sizeof(*l->of_kind)) };
        if (!sorted || !l->kind || !l->of_kind)
                return -ENOMEM;
        for (size_t i = 0; i < s->n_links; i++)
                sorted[i] = &s->links[i];
        qsort(sorted, s->n_links, sizeof(*sorted), link_cmp);
        for (size_t i = 0; i < s->n_links; i++) {
                if (i == 0 || link_cmp(&sorted[i], &sorted[i - 1]) != 0)
                        l->of_kind[++l->n_kinds] = sorted[i];
                *cell(l, sorted[i]->a, sorted[i]->b) = *cell(l, sorted[i]->b, sorted[i]->a) = l->n_kinds;
        }
        return 0;
}

static void link_line(const Link *l, const char *what) {
        char rate[32], first[64];

        if (isnan(l->bandwidth))
                (void) snprintf(rate, sizeof(rate), "-");
        else
                (void) text_format_rate(rate, sizeof(rate), l->bandwidth);
        (void) snprintf(first, sizeof(first), "%-8s%10s  ", link_names[l->type], rate);
        out_wrapped(first, "                    ", INK_NONE, what);
}

/* Grows the pair (a, b) by every device that has links as good to all in it; marks its links of this kind as told. */
static unsigned grow(const Links *l, unsigned kind, unsigned a, unsigned b, bool *member, bool *told) {
        unsigned n = 2, devices = (unsigned) l->s->n_devices;

        memset(member, 0, devices);
        member[a] = member[b] = true;
        for (unsigned d = 0; d < devices; d++) {
                bool all = !member[d];

                for (unsigned k = 0; all && k < devices; k++)
                        all = !member[k] || *cell(l, d, k) >= kind;
                member[d] = member[d] || all;
                n += all;
        }
        for (unsigned i = 0; i < devices; i++)
                for (unsigned k = 0; member[i] && k < devices; k++)
                        if (member[k] && *cell(l, i, k) == kind)
                                told[(size_t) i * devices + k] = true;
        return n;
}

static void show_kind(const Links *l, unsigned kind, bool *member, bool *told) {
        unsigned devices = (unsigned) l->s->n_devices, lines = 0;
        _cleanup_free_ char *pairs = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&pairs, &size);

        for (unsigned a = 0; f && a < devices && lines < LINK_LINES_MAX; a++)
                for (unsigned b = a + 1; b < devices && lines < LINK_LINES_MAX; b++) {
                        _cleanup_free_ char *text = NULL;
                        size_t length = 0;
                        FILE *line;

                        if (*cell(l, a, b) != kind || told[(size_t) a * devices + b])
                                continue;
                        if (grow(l, kind, a, b, member, told) == 2) {
                                fprintf(f, "%s-%s ", l->s->devices[a].name, l->s->devices[b].name);
                                continue;
                        }
                        line = open_memstream(&text, &length);
                        for (unsigned d = 0; line && d < devices; d++)
                                if (member[d])
                                        fprintf(line, "%s ", l->s->devices[d].name);
                        if (!line || fprintf(line, "each with each") < 0 || fclose(line) != 0)
                                return;
                        link_line(l->of_kind[kind], text);
                        lines++;
                }
        if (f && fclose(f) == 0 && size > 0)
                link_line(l->of_kind[kind], pairs);
        if (lines == LINK_LINES_MAX)
                out("                    and others: see --json\n");
}

/* The best first. What stands in a line "each with each" has links of that kind, or better ones told before. */
static void show_links(const Snapshot *s) {
        _cleanup_free_ bool *member = calloc(s->n_devices + 1, 1), *told = calloc(s->n_devices * s->n_devices + 1, 1);
        Links l = {};

        if (s->n_links > 0 && member && told && links_make(s, &l) >= 0) {
                out_heading("Links");
                for (unsigned kind = l.n_kinds; kind > 0; kind--)
                        show_kind(&l, kind, member, told);
        }
        free(l.kind);
        free(l.of_kind);
}

static json_t *node_json(const Topology *t, unsigned i) {
        const TopologyNode *n = &t->nodes[i];
        json_t *distances = json_array(), *j;

        for (unsigned k = 0; k < t->n_nodes; k++)
                json_array_append_new(distances, json_real(topology_distance(t, i, k)));
        j = json_pack("{s:i, s:o, s:I, s:b, s:o}", "node", n->os, "cpus", json_bitset(&n->cpus), "memory",
                      (json_int_t) n->memory, "allowed", n->allowed, "distances", distances);
        if (j && n->free != UINT64_MAX)
                json_object_set_new(j, "free", json_integer((json_int_t) n->free));
        return j;
}

static json_t *links_json(const Snapshot *s) {
        json_t *links = json_array();

        for (size_t i = 0; i < s->n_links; i++)
                json_array_append_new(links, record_link(s, &s->links[i]));
        return links;
}

static json_t *cpu_json(const Topology *t, const TopologyCpu *c) {
        const struct {
                const char *key;
                unsigned value;
        } levels[] = { { "package", c->package }, { "l3", c->l3 },   { "cluster", c->cluster },
                       { "core", c->core },       { "smt", c->smt }, { "kind", c->kind } };
        json_t *j = json_pack("{s:i, s:i}", "cpu", c->os, "node", t->nodes[c->node].os);

        for (size_t i = 0; j && i < ELEMENTSOF(levels); i++)
                json_object_set_new(j, levels[i].key,
                                    levels[i].value == TOPOLOGY_NONE ? json_null() : json_integer(levels[i].value));
        return j;
}

static json_t *topology_json(const Snapshot *s, json_t *plan) {
        const Topology *t = s->topology;
        json_t *nodes = json_array(), *cpus = json_array(), *devices = json_array();

        for (unsigned i = 0; i < t->n_nodes; i++)
                json_array_append_new(nodes, node_json(t, i));
        for (unsigned i = 0; i < t->n_cpus; i++)
                json_array_append_new(cpus, cpu_json(t, &t->cpus[i]));
        for (size_t i = 0; i < s->n_devices; i++)
                json_array_append_new(devices, record_device(s, &s->devices[i]));
        return json_pack("{s:s, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:O?}", "source", strempty(t->source),
                         "online", json_bitset(&t->online), "allowed", json_bitset(&t->allowed), "isolated",
                         json_bitset(&t->isolated), "distances_known", t->distances_known, "nodes", nodes, "cpus", cpus,
                         "devices", devices, "links", links_json(s), "messages", json_strv(t->warnings), "plan", plan);
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
