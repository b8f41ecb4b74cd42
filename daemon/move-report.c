/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of a move: as JSON, as a sentence, and what to do about what stopped it. */
#include <errno.h>

#include "common/json.h"
#include "common/text.h"
#include "daemon/move-pages-internal.h"

const char *const move_stop_names[] = { "running",     "done",       "gone",   "cancelled", "pressure", "node-full",
                                        "node-denied", "group-full", "budget", "refused",   NULL };

const char *move_stop_advice(MoveStop stop) {
        static const char *const advice[_MOVE_STOP_MAX] = {
                [MOVE_PRESSURE] = "apply the job again once that is over, or raise Pressure= in [Memory]",
                [MOVE_NODE_FULL] = "free memory there and apply the job again, or lower Reserve= in [Memory]",
                [MOVE_NODE_DENIED] = "its pages stay where they are until whoever keeps its cpuset allows that node",
                [MOVE_GROUP_FULL] =
                        "raise the limit of that cgroup and apply the job again, or lower GroupReserve= in [Memory]",
                [MOVE_BUDGET] = "raise WalkBudget= in [Memory] and apply the job again",
        };

        return advice[stop];
}

void move_report_done(MoveReport *r) {
        free(r->why);
        free(r->found);
        r->why = NULL;
        r->found = NULL;
        r->n_found = 0;
}

void move_pages_take_report(MovePages *m, MoveReport *ret) {
        *ret = m->report;
        m->report.why = NULL;
        m->report.found = NULL;
        m->report.n_found = 0;
}

/* Bytes by node. */
static json_t *found_json(const MoveReport *r) {
        json_t *o = json_object();

        for (unsigned i = 0; o && i < r->n_found; i++) {
                char node[16];

                (void) snprintf(node, sizeof(node), "%u", i);
                if (r->found[i] > 0)
                        (void) json_object_set_new(o, node, json_integer((json_int_t) (r->found[i] * r->page_size)));
        }
        return o;
}

int move_report_to_json(const MoveReport *r, json_t **ret) {
        double page = (double) r->page_size;
        json_t *pages = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "seen", (json_int_t) r->seen, "moved",
                                  (json_int_t) r->moved, "already", (json_int_t) r->already, "busy",
                                  (json_int_t) r->busy, "shared", (json_int_t) r->shared, "absent",
                                  (json_int_t) r->absent, "failed", (json_int_t) r->failed, "left",
                                  (json_int_t) r->left);
        json_t *json = json_pack("{s:i, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:I, s:I, s:b, s:o, s:o}", "pid",
                                 (int) r->process.pid, "stop", move_stop_names[r->stop], "why", json_text(r->why),
                                 "bytes_moved", (json_int_t) ((double) r->moved * page), "bytes_passed_over",
                                 (json_int_t) r->passed_over, "page_size", (json_int_t) r->page_size, "stall_max_us",
                                 (json_int_t) r->stall_max_usec, "stall_us", (json_int_t) r->stall_usec, "calls",
                                 (int) r->calls, "overruns", (int) r->overruns, "walk_us", (json_int_t) r->walk_usec,
                                 "walk_max_us", (json_int_t) r->walk_max_usec, "pressure_known",
                                 (int) r->pressure_known, "found", found_json(r), "pages", pages);

        if (!json)
                return -ENOMEM;
        *ret = json;
        return 0;
}

static void say_count(FILE *f, uint64_t n, const char *what) {
        if (n > 0)
                fprintf(f, ", %" PRIu64 " %s %s", n, n == 1 ? "page" : "pages", what);
}

char *move_report_sentence(const MoveReport *r) {
        char moved[32], there[32], *text = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);

        if (!f)
                return NULL;
        fprintf(f, "%s moved, %s were there already", text_format_bytes(moved, sizeof(moved), r->moved * r->page_size),
                text_format_bytes(there, sizeof(there), r->already * r->page_size));
        say_count(f, r->busy, "busy");
        say_count(f, r->shared, "shared with other processes");
        say_count(f, r->failed, "refused");
        say_count(f, r->left, "left");
        if (r->calls > 0)
                fprintf(f, "; longest stall %.1f ms", (double) r->stall_max_usec / 1000);
        if (r->why && r->stop != MOVE_DONE)
                fprintf(f, "; stopped: %s", r->why);
        if (fclose(f) != 0) {
                free(text);
                return NULL;
        }
        return text;
}
