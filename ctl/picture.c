/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each CPU's cell shows, and the arrangement. With a plan, a CPU shows the rank that the plan gives it to; without,
 * the task that is confined to it now. Ranks are numbered 0 to 9, then A to Z and the small letters that mean nothing
 * else; after those they repeat in other colours.
 *
 * Packages that hold several nodes are boxes around them; where a package is a node (or nodes do not nest in packages)
 * the nodes stand alone. As many nodes stand side by side as fit.
 */
#include "common/text.h"
#include "ctl/picture.h"

#define PADDING 2U
#define LEGEND_MAX 64U

static const char rank_glyphs[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefgjklmnpqstuvwyz"; /* without h i o r x */

static Mark rank_mark(size_t i) {
        return (Mark){ (uint32_t) rank_glyphs[i % (sizeof(rank_glyphs) - 1)], INK_RANK + (Ink) (i % 1000) };
}

static void mark_set(Picture *p, const Bitset *set, char glyph, Ink ink) {
        const Topology *t = p->s->topology;

        for (unsigned i = 0; i < t->n_cpus; i++)
                if (bitset_test(set, t->cpus[i].os)) {
                        p->cpus[i] = (Mark){ (uint32_t) glyph, ink };
                        p->used[(unsigned char) glyph] = true;
                }
}

/* A CPU that two ranks share is '+'. */
static void mark_rank(Picture *p, const Bitset *cpus, Mark mark) {
        const Topology *t = p->s->topology;

        for (unsigned i = 0; i < t->n_cpus; i++) {
                if (!bitset_test(cpus, t->cpus[i].os))
                        continue;
                if (p->cpus[i].ink >= INK_RANK || p->cpus[i].glyph == '+') {
                        p->cpus[i] = (Mark){ '+', INK_WARN };
                        p->used['+'] = true;
                } else
                        p->cpus[i] = mark;
        }
}

static void mark_device(Picture *p, const char *name, Mark mark) {
        unsigned i;

        if (name && snapshot_device(p->s, name, &i))
                p->devices[i] = mark;
}

static bool is_confined(const Picture *p, const Task *task) {
        return !bitset_isempty(&task->cpus) && !bitset_subset(&p->s->topology->allowed, &task->cpus);
}

static void mark_tasks(Picture *p) {
        for (size_t i = 0; i < p->s->n_tasks; i++) {
                const Task *task = &p->s->tasks[i];
                Mark mark = rank_mark(i);

                (void) strv_extend(&p->names, task->name);
                if (is_confined(p, task))
                        mark_rank(p, &task->cpus, mark);
                for (size_t k = 0; k < task->n_devices; k++)
                        p->devices[task->devices[k]] = mark;
        }
}

static void mark_others(Picture *p, const json_t *tasks) {
        for (size_t i = 0; i < p->s->n_tasks; i++) {
                const Task *task = &p->s->tasks[i];
                bool planned = false;
                const json_t *t;
                size_t k;

                json_array_foreach ((json_t *) tasks, k, t)
                        planned = planned || (task->pid > 0 && jnum(t, "pid") == task->pid) ||
                                  streq(jstr(t, "name"), strempty(task->name));
                if (!planned && !task->job && is_confined(p, task))
                        mark_set(p, &task->cpus, 'o', INK_DIM);
        }
}

static void mark_plan(Picture *p, const json_t *plan) {
        const json_t *tasks = jget(plan, "tasks"), *t, *d;
        _cleanup_(bitset_done) Bitset housekeeping = BITSET_EMPTY;
        size_t i, k;

        mark_others(p, tasks);
        if (bitset_parse(jstr(plan, "housekeeping"), &housekeeping) >= 0)
                mark_set(p, &housekeeping, 'h', INK_WARN);
        json_array_foreach ((json_t *) tasks, i, t) {
                _cleanup_(bitset_done) Bitset cpus = BITSET_EMPTY;

                (void) strv_extend(&p->names, jstr(t, "name"));
                if (bitset_parse(jstr(t, "cpus"), &cpus) >= 0)
                        mark_rank(p, &cpus, rank_mark(i));
                json_array_foreach ((json_t *) jget(t, "device"), k, d)
                        mark_device(p, json_string_value(d), rank_mark(i));
        }
}

static int mark_all(Picture *p, const json_t *plan) {
        const Topology *t = p->s->topology;

        p->cpus = calloc(t->n_cpus + 1, sizeof(*p->cpus));
        p->devices = calloc(p->s->n_devices + 1, sizeof(*p->devices));
        if (!p->cpus || !p->devices)
                return -ENOMEM;
        for (unsigned i = 0; i < t->n_cpus; i++) {
                bool allowed = bitset_test(&t->allowed, t->cpus[i].os);

                p->cpus[i] = allowed ? (Mark){ 0xB7, INK_NONE } : (Mark){ 'x', INK_DIM };
                p->used['x'] = p->used['x'] || !allowed;
        }
        mark_set(p, &t->isolated, 'i', INK_DIM);
        mark_set(p, &p->s->reserved, 'r', INK_DIM);
        if (plan)
                mark_plan(p, plan);
        else
                mark_tasks(p);
        return 0;
}

/* The package that holds the node, TOPOLOGY_NONE where it has no CPUs or spans several. */
static unsigned node_package(const Topology *t, unsigned node) {
        unsigned package = TOPOLOGY_NONE;
        bool first = true;

        for (unsigned i = 0; i < t->n_cpus; i++) {
                if (t->cpus[i].node != node)
                        continue;
                if (!first && t->cpus[i].package != package)
                        return TOPOLOGY_NONE;
                package = t->cpus[i].package;
                first = false;
        }
        return package;
}

/* CPU-less nodes are told in a line, unless a device hangs on them. */
static bool is_drawn(const Picture *p, unsigned node) {
        return !bitset_isempty(&p->s->topology->nodes[node].cpus) || node_devices(p, node) > 0;
}

/* A row of at most `columns` nodes side by side; returns its height. */
static unsigned draw_row(Picture *p, const unsigned *nodes, unsigned n, unsigned columns, int x, int y,
                         unsigned width) {
        unsigned each = (width - (columns - 1) * PADDING) / columns, height = 0, below = 0;

        for (unsigned i = 0; i < n; i++) {
                height = MAX(height, node_height(p, nodes[i], each));
                below = MAX(below, node_devices(p, nodes[i]));
        }
        for (unsigned i = 0; i < n; i++)
                node_draw(p, nodes[i], x + (int) (i * (each + PADDING)), y, each, height);
        return height + below;
}

static unsigned draw_nodes(Picture *p, const unsigned *nodes, unsigned n, int x, int y, unsigned width) {
        unsigned need = 1, columns = 4, height = 0;

        for (unsigned i = 0; i < n; i++)
                need = MAX(need, node_width(p, nodes[i]));
        while (columns > 1 && (need > (width - (columns - 1) * PADDING) / columns || columns > n))
                columns--;
        if (columns == 3 && n % 3 != 0) /* two and two rather than three and one */
                columns = 2;
        for (unsigned i = 0; i < n; i += columns)
                height += draw_row(p, nodes + i, MIN(columns, n - i), columns, x, y + (int) height, width);
        return height;
}

static unsigned collect(const Picture *p, unsigned package, bool any, unsigned *ret) {
        unsigned n = 0;

        for (unsigned i = 0; i < p->s->topology->n_nodes; i++)
                if (is_drawn(p, i) && (any || node_package(p->s->topology, i) == package))
                        ret[n++] = i;
        return n;
}

static bool packages_hold_nodes(const Topology *t) {
        bool several = false;

        for (unsigned i = 0; i < t->n_nodes; i++)
                for (unsigned k = i + 1; k < t->n_nodes; k++)
                        several = several ||
                                  (node_package(t, i) != TOPOLOGY_NONE && node_package(t, i) == node_package(t, k));
        return several;
}

static unsigned draw_package(Picture *p, unsigned package, const unsigned *nodes, unsigned n, int y) {
        unsigned height = draw_nodes(p, nodes, n, 2, y + 1, OUTPUT_WIDTH - 4);

        canvas_box(p->canvas, 0, y, OUTPUT_WIDTH, (int) height + 2, true, INK_NONE);
        (void) canvas_text(p->canvas, 2, y, INK_TITLE, " package %u ", package);
        return height + 2;
}

static int draw_machine(Picture *p) {
        const Topology *t = p->s->topology;
        _cleanup_free_ unsigned *nodes = calloc(t->n_nodes + 1, sizeof(*nodes));
        _cleanup_free_ bool *done = calloc(t->n_nodes + 1, sizeof(*done));
        unsigned y = 0, n;

        if (!nodes || !done)
                return -ENOMEM;
        if (!packages_hold_nodes(t)) {
                n = collect(p, 0, true, nodes);
                (void) draw_nodes(p, nodes, n, 0, 0, OUTPUT_WIDTH);
                return 0;
        }
        for (unsigned i = 0; i < t->n_nodes; i++) {
                unsigned package = node_package(t, i);

                if (done[i] || !is_drawn(p, i))
                        continue;
                n = collect(p, package, false, nodes);
                for (unsigned k = 0; k < n; k++)
                        done[nodes[k]] = true;
                y += package == TOPOLOGY_NONE ? draw_nodes(p, nodes, n, 2, (int) y, OUTPUT_WIDTH - 4)
                                              : draw_package(p, package, nodes, n, (int) y);
        }
        return 0;
}

static unsigned nearest_with_cpus(const Topology *t, unsigned node) {
        unsigned best = TOPOLOGY_NONE;

        for (unsigned i = 0; i < t->n_nodes; i++)
                if (!bitset_isempty(&t->nodes[i].cpus) &&
                    (best == TOPOLOGY_NONE || topology_distance(t, node, i) < topology_distance(t, node, best)))
                        best = i;
        return best;
}

static bool told_with(const Picture *p, unsigned first, unsigned other) {
        const Topology *t = p->s->topology;

        return other < t->n_nodes && !is_drawn(p, other) && t->nodes[other].memory == t->nodes[first].memory &&
               t->nodes[other].os == t->nodes[first].os + (other - first) &&
               nearest_with_cpus(t, other) == nearest_with_cpus(t, first);
}

/* Nodes of memory alone: one line for each run of equal ones. */
static void show_undrawn(const Picture *p) {
        const Topology *t = p->s->topology;
        char memory[32];

        for (unsigned i = 0, last; i < t->n_nodes; i = last + 1) {
                unsigned near = nearest_with_cpus(t, i);

                last = i;
                if (is_drawn(p, i))
                        continue;
                while (told_with(p, i, last + 1))
                        last++;
                if (last > i)
                        out("nodes %u-%u: ", t->nodes[i].os, t->nodes[last].os);
                else
                        out("node %u: ", t->nodes[i].os);
                if (t->nodes[i].memory > 0)
                        out("%s%s, no CPUs", text_format_bytes(memory, sizeof(memory), t->nodes[i].memory),
                            last > i ? " each" : "");
                else
                        out("no memory, no CPUs");
                if (near != TOPOLOGY_NONE)
                        out(", nearest node %u", t->nodes[near].os);
                out("\n");
        }
}

static void show_unplaced(Picture *p) {
        int y = 0;

        for (unsigned i = 0; i < p->s->n_devices; i++) {
                if (p->s->devices[i].node != TOPOLOGY_NONE)
                        continue;
                if (y == 0)
                        (void) canvas_text(p->canvas, 0, y++, INK_NONE, "Devices whose NUMA node is unknown:");
                (void) device_draw(p, i, y % 2 ? 2 : 42, 1 + (y - 1) / 2, 38);
                y++;
        }
        canvas_print(p->canvas);
}

static void show_letters(const Picture *p) {
        static const struct {
                char letter;
                const char *help;
        } letters[] = {
                { '+', "shared" },   { 'h', "housekeeping" }, { 'o', "other tasks" },
                { 'i', "isolated" }, { 'r', "reserved" },     { 'x', "not allowed" },
        };

        out("· idle");
        for (size_t i = 0; i < ELEMENTSOF(letters); i++)
                if (p->used[(unsigned char) letters[i].letter])
                        out("   %c %s", letters[i].letter, letters[i].help);
        for (unsigned i = 0; i < p->s->n_devices; i++)
                if (!p->devices[i].glyph) {
                        out("   ○ device without a task");
                        break;
                }
        if (p->caches)
                out("   ┊ between L3 caches");
        if (p->clusters)
                out("   blank between clusters");
        out("\n");
}

static void show_legend(const Picture *p) {
        size_t n = strv_length(p->names);
        unsigned at = 0;

        for (size_t i = 0; i < MIN(n, (size_t) LEGEND_MAX); i++) {
                unsigned width = text_width(p->names[i]) + 2;

                if (at > 0 && at + 3 + width > OUTPUT_WIDTH) {
                        out("\n");
                        at = 0;
                }
                out("%s", at > 0 ? "   " : "");
                out_ink(rank_mark(i).ink, "%c", (char) rank_mark(i).glyph);
                out(" %s", p->names[i]);
                at += width + (at > 0 ? 3 : 0);
        }
        if (n > LEGEND_MAX)
                out("   and %zu more", n - LEGEND_MAX);
        if (n > 0)
                out("\n");
        show_letters(p);
}

void show_picture(const Snapshot *s, const json_t *plan) {
        _cleanup_(canvas_freep) Canvas *machine = NULL, *unplaced = NULL;
        Picture p = { .s = s };

        if (canvas_new(OUTPUT_WIDTH, &machine) < 0 || canvas_new(OUTPUT_WIDTH, &unplaced) < 0 || mark_all(&p, plan) < 0)
                goto finish;
        out("\n");
        p.canvas = machine;
        if (draw_machine(&p) >= 0)
                canvas_print(machine);
        show_undrawn(&p);
        p.canvas = unplaced;
        show_unplaced(&p);
        show_legend(&p);
finish:
        free(p.cpus);
        free(p.devices);
        strv_free(p.names);
}
