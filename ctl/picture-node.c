/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One NUMA node: a box with its name and memory in the upper border, a map of its CPUs, its devices below.
 *
 * The map has a column per core where SMT siblings are numbered far apart (0 and 64): siblings then stand one under the
 * other, in lanes. Otherwise it has a column per CPU. A blank separates clusters (or cores with adjacent siblings, or,
 * where neither is known, runs of eight or ten), "┊" separates L3 caches. Rows are made as equally long as they can be.
 */
#include <math.h>

#include "common/text.h"
#include "ctl/picture.h"

#define LANES_MAX 8U
#define RUN 8U
#define ROW_MIN 16U /* a node of more CPUs shall not have rows shorter than this */

typedef struct Column {
        int cpu[LANES_MAX]; /* index into topology cpus, -1 none */
        unsigned gap;       /* blanks before it: 0, 1, or 3 for another L3 */
} Column;

typedef struct Map {
        Column *columns;
        unsigned n_columns, n_lanes, label; /* cells of the row's label */
        bool clusters, caches;
} Map;

static void map_done(Map *m) {
        free(m->columns);
}

/* Siblings far apart: does any core have two CPUs whose numbers are not neighbours? */
static bool wants_lanes(const Topology *t, const unsigned *cpus, unsigned n) {
        for (unsigned i = 0; i < n; i++)
                for (unsigned k = i + 1; k < n; k++)
                        if (t->cpus[cpus[i]].core == t->cpus[cpus[k]].core && t->cpus[cpus[i]].core != TOPOLOGY_NONE) {
                                if (k != i + 1)
                                        return true;
                                break;
                        }
        return false;
}

static unsigned find_core(const Map *m, const Topology *t, unsigned core) {
        for (unsigned i = 0; i < m->n_columns; i++)
                if (t->cpus[m->columns[i].cpu[0]].core == core)
                        return i;
        return m->n_columns;
}

static void add_cpu(Map *m, const Topology *t, unsigned cpu, bool lanes) {
        unsigned at = m->n_columns;

        if (lanes && t->cpus[cpu].core != TOPOLOGY_NONE)
                at = find_core(m, t, t->cpus[cpu].core);
        if (at == m->n_columns) {
                m->n_columns++;
                for (unsigned l = 0; l < LANES_MAX; l++)
                        m->columns[at].cpu[l] = -1;
        }
        for (unsigned l = 0; l < LANES_MAX; l++)
                if (m->columns[at].cpu[l] < 0) {
                        m->columns[at].cpu[l] = (int) cpu;
                        m->n_lanes = MAX(m->n_lanes, l + 1);
                        return;
                }
}

static unsigned level_of(const TopologyCpu *c, int level) {
        return level == 0 ? c->l3 : level == 1 ? c->cluster : c->core;
}

/* Length of runs where no cluster parts them: eight, or ten where only that comes out even. */
static unsigned run_length(const Map *m, const Topology *t) {
        unsigned n = 1;

        while (n < m->n_columns && t->cpus[m->columns[n].cpu[0]].l3 == t->cpus[m->columns[0].cpu[0]].l3)
                n++;
        return n % 10 == 0 && (n % RUN != 0 || n > 32) ? 10 : RUN;
}

/* How often a level changes from one column to the next; 0 also where it would part every column. */
static unsigned changes(const Map *m, const Topology *t, int level) {
        unsigned n = 0;

        for (unsigned i = 1; i < m->n_columns; i++)
                n += level_of(&t->cpus[m->columns[i].cpu[0]], level) !=
                     level_of(&t->cpus[m->columns[i - 1].cpu[0]], level);
        return 2 * n >= m->n_columns ? 0 : n;
}

static void set_gaps(Map *m, const Topology *t) {
        bool l3 = changes(m, t, 0) > 0, cluster = changes(m, t, 1) > 0, core = changes(m, t, 2) > 0;
        unsigned run = run_length(m, t), since = 0;

        for (unsigned i = 1; i < m->n_columns; i++) {
                const TopologyCpu *a = &t->cpus[m->columns[i - 1].cpu[0]], *b = &t->cpus[m->columns[i].cpu[0]];
                unsigned *gap = &m->columns[i].gap;

                since++;
                if (l3 && a->l3 != b->l3) {
                        *gap = 3;
                        since = 0;
                } else if (cluster)
                        *gap = a->cluster != b->cluster;
                else if (core)
                        *gap = a->core != b->core;
                else
                        *gap = since % run == 0;
        }
        m->caches = l3;
        for (unsigned i = 1; cluster && i < m->n_columns; i++)
                m->clusters = m->clusters || m->columns[i].gap == 1;
}

static int map_make(const Topology *t, unsigned node, Map *ret) {
        _cleanup_free_ unsigned *cpus = calloc(t->n_cpus + 1, sizeof(*cpus));
        Map m = { .columns = calloc(t->n_cpus + 1, sizeof(Column)) };
        unsigned n = 0, last = 0, digits = 1;
        bool lanes;

        if (!cpus || !m.columns) {
                map_done(&m);
                return -ENOMEM;
        }
        for (unsigned i = 0; i < t->n_cpus; i++)
                if (t->cpus[i].node == node) {
                        cpus[n++] = i;
                        last = t->cpus[i].os;
                }
        lanes = wants_lanes(t, cpus, n);
        for (unsigned i = 0; i < n; i++)
                add_cpu(&m, t, cpus[i], lanes);
        set_gaps(&m, t);
        for (; last >= 10; last /= 10)
                digits++;
        m.label = 2 * digits + 1;
        *ret = m;
        return 0;
}

/* End of the row that starts at column `from` when a row has `width` cells. *ret_cells: what it takes. */
static unsigned row_end(const Map *m, unsigned from, unsigned width, unsigned *ret_cells) {
        unsigned cells = 0, end = from, at_gap = from, cells_at_gap = 0, at_cache = from;

        while (end < m->n_columns) {
                unsigned gap = end > from ? m->columns[end].gap : 0;

                if (gap == 3 && 2 * cells >= width)
                        at_cache = end;
                if (gap > 0) {
                        at_gap = at_cache > from ? at_cache : end;
                        cells_at_gap = at_gap == end ? cells : cells_at_gap;
                }
                if (cells + gap + 1 > width)
                        break;
                cells += gap + 1;
                end++;
        }
        if (end < m->n_columns && at_gap > from) { /* break between groups, not inside of one */
                end = at_gap;
                cells = cells_at_gap;
        }
        *ret_cells = cells;
        return MAX(end, from + 1);
}

static unsigned count_rows(const Map *m, unsigned width) {
        unsigned rows = 0, cells;

        for (unsigned i = 0; i < m->n_columns; rows++)
                i = row_end(m, i, width, &cells);
        return rows;
}

/* The narrowest width that needs no more rows than `width` does: rows become equally long. */
static unsigned balanced(const Map *m, unsigned width) {
        unsigned rows = count_rows(m, width);

        while (width > 1 && count_rows(m, width - 1) == rows)
                width--;
        return width;
}

static unsigned natural_cells(const Map *m, unsigned columns) {
        unsigned n = 0;

        for (unsigned i = 0; i < MIN(columns, m->n_columns); i++)
                n += 1 + (i > 0 ? m->columns[i].gap : 0);
        return n;
}

static char *node_title(const Picture *p, unsigned node) {
        const TopologyNode *n = &p->s->topology->nodes[node];
        char memory[32], spare[32], *s = NULL;

        if (n->memory == 0)
                (void) snprintf(memory, sizeof(memory), "no memory");
        else
                (void) text_format_bytes(memory, sizeof(memory), n->memory);
        if (n->free == UINT64_MAX || n->memory == 0)
                return asprintf(&s, " node %u · %s%s ", n->os, memory,
                                n->allowed || n->memory == 0 ? "" : ", not allowed") < 0
                               ? NULL
                               : s;
        return asprintf(&s, " node %u · %s, %s free ", n->os, memory,
                        text_format_bytes(spare, sizeof(spare), n->free)) < 0
                       ? NULL
                       : s;
}

unsigned node_width(const Picture *p, unsigned node) {
        _cleanup_free_ char *title = node_title(p, node);
        _cleanup_(map_done) Map m = {};
        unsigned width = title ? text_width(title) + 4 : 0;

        if (map_make(p->s->topology, node, &m) >= 0)
                width = MAX(width, m.label + 2 + natural_cells(&m, ROW_MIN) + 4);
        for (unsigned i = 0; i < p->s->n_devices; i++)
                if (p->s->devices[i].node == node)
                        width = MAX(width, 34U);
        return width;
}

unsigned node_height(Picture *p, unsigned node, unsigned width) {
        _cleanup_(map_done) Map m = {};

        if (map_make(p->s->topology, node, &m) < 0)
                return 3;
        p->clusters = p->clusters || m.clusters;
        p->caches = p->caches || m.caches;
        return 2 + MAX(1U, count_rows(&m, width - 4 - m.label - 2) * m.n_lanes);
}

unsigned node_devices(const Picture *p, unsigned node) {
        unsigned n = 0;

        for (unsigned i = 0; i < p->s->n_devices; i++)
                n += p->s->devices[i].node == node;
        return n;
}

static void draw_label(const Picture *p, const Map *m, unsigned from, unsigned end, unsigned lane, int x, int y) {
        const TopologyCpu *cpus = p->s->topology->cpus;
        int first = -1, last = -1;
        unsigned n = 0;
        char text[32];

        for (unsigned i = from; i < end; i++)
                if (m->columns[i].cpu[lane] >= 0) {
                        last = (int) cpus[m->columns[i].cpu[lane]].os;
                        first = first < 0 ? last : first;
                        n++;
                }
        if (first < 0)
                return;
        if (n == 1)
                (void) snprintf(text, sizeof(text), "%d", first);
        else /* "…": not every number between the two */
                (void) snprintf(text, sizeof(text), "%d%s%d", first, last - first == (int) n - 1 ? "-" : "…", last);
        (void) canvas_text(p->canvas, x + (int) (m->label - MIN(m->label, text_width(text))), y, INK_DIM, "%s", text);
}

static void draw_row(const Picture *p, const Map *m, unsigned from, unsigned end, unsigned lane, int x, int y) {
        draw_label(p, m, from, end, lane, x, y);
        x += (int) m->label + 2;
        for (unsigned i = from; i < end; i++) {
                unsigned gap = i > from ? m->columns[i].gap : 0;
                int cpu = m->columns[i].cpu[lane];

                if (gap == 3)
                        canvas_put(p->canvas, x + 1, y, INK_FRAME, 0x250A);
                x += (int) gap;
                if (cpu >= 0)
                        canvas_put(p->canvas, x, y, p->cpus[cpu].ink, p->cpus[cpu].glyph);
                x++;
        }
}

static void draw_map(const Picture *p, unsigned node, int x, int y, unsigned width) {
        _cleanup_(map_done) Map m = {};
        unsigned cells;

        if (map_make(p->s->topology, node, &m) < 0)
                return;
        if (m.n_columns == 0)
                (void) canvas_text(p->canvas, x, y, INK_DIM, "no CPUs");
        width = balanced(&m, width - m.label - 2);
        for (unsigned i = 0; i < m.n_columns;) {
                unsigned end = row_end(&m, i, width, &cells);

                for (unsigned lane = 0; lane < m.n_lanes; lane++)
                        draw_row(p, &m, i, end, lane, x, y++);
                i = end;
        }
}

static Ink health_ink(const Device *d) {
        return d->health == HEALTH_ALARM || d->health == HEALTH_CRITICAL ? INK_BAD
               : d->health == HEALTH_WARNING                             ? INK_WARN
                                                                         : INK_BOLD;
}

unsigned device_draw(const Picture *p, unsigned device, int x, int y, unsigned width) {
        const Device *d = &p->s->devices[device];
        const Mark *mark = &p->devices[device];
        char memory[32];
        int at = x;

        if (mark->glyph)
                canvas_put(p->canvas, at, y, mark->ink, mark->glyph);
        else
                canvas_put(p->canvas, at, y, INK_DIM, 0x25CB);
        at += 2;
        at += (int) canvas_text(p->canvas, at, y, health_ink(d), "%s", d->name);
        if (width >= 20)
                at += (int) canvas_text(p->canvas, at, y, INK_NONE, "  %s", d->kind);
        if (width >= 28 && d->memory > 0)
                at += (int) canvas_text(p->canvas, at, y, INK_NONE, "  %s",
                                        text_format_bytes(memory, sizeof(memory), d->memory));
        if (d->health > HEALTH_OK)
                at += (int) canvas_text(p->canvas, at, y, health_ink(d), "  %s", health_names[d->health]);
        else if (width >= 28 && !isnan(d->temperature))
                at += (int) canvas_text(p->canvas, at, y, INK_DIM, "  %.0f °C", d->temperature);
        return (unsigned) (at - x);
}

static void draw_devices(const Picture *p, unsigned node, int x, int y, unsigned width) {
        unsigned n = node_devices(p, node), k = 0;

        if (n == 0)
                return;
        canvas_put(p->canvas, x + 2, y - 1, INK_FRAME, 0x252C);
        for (unsigned i = 0; i < p->s->n_devices; i++) {
                if (p->s->devices[i].node != node)
                        continue;
                k++;
                canvas_put(p->canvas, x + 2, y, INK_FRAME, k < n ? 0x251C : 0x2514);
                canvas_put(p->canvas, x + 3, y, INK_FRAME, 0x2500);
                (void) device_draw(p, i, x + 5, y++, width - 6);
        }
}

void node_draw(Picture *p, unsigned node, int x, int y, unsigned width, unsigned height) {
        _cleanup_free_ char *title = node_title(p, node);

        canvas_box(p->canvas, x, y, (int) width, (int) height, false, INK_FRAME);
        (void) canvas_text(p->canvas, x + 2, y, INK_TITLE, "%s", strempty(title));
        draw_map(p, node, x + 2, y + 1, width - 4);
        draw_devices(p, node, x, y + (int) height, width);
}
