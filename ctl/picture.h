/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine as a picture: packages hold NUMA nodes, nodes hold a map with one cell per CPU, devices hang below their
 * node. picture.c says what each CPU's cell shows and where each box goes; picture-node.c draws one node.
 */
#pragma once

#include "ctl/output.h"

typedef struct Mark { /* one cell */
        uint32_t glyph;
        Ink ink;
} Mark;

typedef struct Picture {
        const Snapshot *s;
        Canvas *canvas;
        Mark *cpus;            /* by index into topology cpus */
        Mark *devices;         /* by index into devices: the rank that has it; glyph 0 nobody */
        char **names;          /* of the ranks, in the order of their marks */
        bool clusters, caches; /* what the gaps in some map mean, for the legend */
        bool used[128];        /* which of the fixed letters occur */
} Picture;

/* What a node needs in cells, borders included. */
unsigned node_width(const Picture *p, unsigned node);
unsigned node_height(Picture *p, unsigned node, unsigned width); /* of the box */
unsigned node_devices(const Picture *p, unsigned node);          /* lines below it */
void node_draw(Picture *p, unsigned node, int x, int y, unsigned width, unsigned height);
/* Line for a device at (x, y), as much as fits into width; returns cells. */
unsigned device_draw(const Picture *p, unsigned device, int x, int y, unsigned width);
