/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one writer of qschedctl. Everything is written as UTF-8 and inked; here it is decided whether the terminal gets
 * colour (a terminal, no NO_COLOR, no --no-color) and, outside of UTF-8 locales, each box and bar character becomes
 * its ASCII stand-in. Control characters in what others named (jobs, commands) never reach the terminal.
 *
 * Table: aligned columns in 80; the one flexible column is wrapped at its separator. Canvas: a grid of cells for
 * pictures. output_finish() tells whether all of it arrived.
 */
#pragma once

#include <errno.h>

#include "ctl/ctl.h"

#define OUTPUT_WIDTH 80U

typedef enum Ink {
        INK_NONE,
        INK_BOLD,
        INK_DIM,
        INK_GOOD,
        INK_WARN,
        INK_BAD,
        INK_FRAME,
        INK_TITLE,
        INK_RANK, /* and INK_RANK + i: a colour of its own for each of a series */
} Ink;

void output_open(const Options *o);
bool output_is_terminal(void);
int output_finish(int code); /* code, or EXIT_FAILED and a sentence when stdout did not take everything */

void out(const char *format, ...) _printf_(1, 2);
void out_ink(Ink ink, const char *format, ...) _printf_(2, 3);
void out_heading(const char *format, ...) _printf_(1, 2);
void out_wrapped(const char *first, const char *rest, Ink ink, const char *text); /* paragraph with hanging indent */
void out_bar(Ink ink, double share, unsigned width);                              /* eighths of a cell */
/* Shares of width; shaded: what was saved, red: what grew. Returns the cells written. */
unsigned out_change_bar(double now, double before, unsigned width);
void out_json(const json_t *j);
#define VALUE_DIGITS 15                                 /* all that a double has */
void out_json_digits(const json_t *j, unsigned digits); /* of reals; out_json() has 12 */
unsigned text_width(const char *s) _pure_;              /* cells, for UTF-8 without wide characters */

typedef struct Table Table;
/* Columns: "NAME", ">NAME" flush right, "*NAME" takes what is left of the line and wraps. */
int table_new(const char *const *columns, Table **ret);
Table *table_free(Table *t);
DEFINE_CLEANUP(Table *, table_free);
int table_add(Table *t, Ink ink, const char *format, ...) _printf_(3, 4); /* next cell, row by row */
void table_print(const Table *t);

typedef struct Canvas Canvas;
int canvas_new(unsigned width, Canvas **ret);
Canvas *canvas_free(Canvas *c);
DEFINE_CLEANUP(Canvas *, canvas_free);
void canvas_put(Canvas *c, int x, int y, Ink ink, uint32_t codepoint); /* grows downwards; outside of the width: lost */
unsigned canvas_text(Canvas *c, int x, int y, Ink ink, const char *format, ...) _printf_(5, 6); /* cells written */
void canvas_box(Canvas *c, int x, int y, int w, int h, bool round, Ink ink);
void canvas_print(const Canvas *c);
