/* SPDX-License-Identifier: Apache-2.0 */
/* What somebody else has changed, for status and explain: a row for each process, group or device and what was done, then for each who
 * it may have been and what to do next. */
#include "common/log.h"
#include "common/text.h"
#include "ctl/ctl.h"
#include "ctl/output.h"

static const struct {
        const char *done, *word, *next;
} acts[] = {
        { "left", "left alone",
          "`qschedctl revert JOB` and `qschedctl apply FILE` place it anew; with Drift=reassert it would be written again, "
          "with Drift=yield planned around" },
        { "reasserted", "written again", "up to three times in a row" },
        { "given-up", "left alone",
          "it was written three times in a row; end what changes it, then `qschedctl revert JOB` and `qschedctl apply "
          "FILE`" },
        { "yielded", "theirs", "it is planned around; `qschedctl apply FILE` takes it back" },
};

static size_t act_of(const json_t *d) {
        for (size_t i = 0; i < ELEMENTSOF(acts); i++)
                if (streq(jstr(d, "done"), acts[i].done))
                        return i;
        return 0;
}

static bool same_row(const json_t *a, const json_t *b) {
        if (!streq(jstr(a, "done"), jstr(b, "done")) || !streq(jstr(a, "device"), jstr(b, "device")) ||
            !streq(jstr(a, "path"), jstr(b, "path")))
                return false;
        return *jstr(a, "device") || jnum(a, "pid") == jnum(b, "pid");
}

/* Threads of a process follow each other. */
static bool is_first(const json_t *drift, size_t at) {
        const json_t *d = json_array_get(drift, at);
        size_t from = *jstr(d, "device") || at == 0 ? 0 : at - 1;

        for (size_t i = from; i < at; i++)
                if (same_row(json_array_get(drift, i), d))
                        return false;
        return true;
}

static void add_row(Table *table, const json_t *drift, const json_t *d) {
        const char *what = *jstr(d, "device") ? "interrupt" : "thread";
        unsigned n = 0;
        bool same = true;
        const json_t *e;
        size_t i;

        json_array_foreach ((json_t *) drift, i, e) {
                if (!same_row(d, e))
                        continue;
                n++;
                same = same && streq(jstr(d, "found"), jstr(e, "found")) &&
                       streq(jstr(d, "expected"), jstr(e, "expected"));
        }
        table_add(table, INK_BOLD, "%s", jstr(d, "job"));
        if (*jstr(d, "device"))
                table_add(table, INK_NONE, "%s", jstr(d, "device"));
        else
                table_add(table, INK_NONE, "%.0f", jnum(d, "pid"));
        if (*jstr(d, "path"))
                table_add(table, INK_NONE, "its group");
        else
                table_add(table, INK_NONE, "%u %s%s", n, what, n == 1 ? "" : "s");
        table_add(table, INK_WARN, "%s%s", jstr(d, "found"), same ? "" : ", …");
        table_add(table, INK_NONE, "%.24s%s", jstr(d, "expected"), strlen(jstr(d, "expected")) > 24 ? "…" : "");
        table_add(table, INK_NONE, "%s", acts[act_of(d)].word);
}

static void say_next(const json_t *d) {
        const char *hint = jstr(d, "hint"), *author = jstr(d, "author");
        _cleanup_free_ char *text = NULL;

        if (asprintf(&text, "%s%s%.0f: changed by %s; %s%s%s", *jstr(d, "device") ? jstr(d, "device") : "pid",
                     *jstr(d, "device") ? ", interrupt " : " ", *jstr(d, "device") ? jnum(d, "irq") : jnum(d, "pid"),
                     *author ? author : "somebody else", acts[act_of(d)].next, *hint ? ". " : "", hint) < 0)
                text = NULL;
        if (text)
                out_wrapped("! ", "  ", INK_WARN, text);
}

void show_drift(const json_t *drift) {
        static const char *const columns[] = { "DRIFT OF", "IN", "WHAT", "*IS ON", "PLANNED", "DONE", NULL };
        _cleanup_(table_freep) Table *table = NULL;
        const json_t *d;
        size_t i;

        if (json_array_size(drift) == 0 || table_new(columns, &table) < 0)
                return;
        json_array_foreach ((json_t *) drift, i, d)
                if (is_first(drift, i))
                        add_row(table, drift, d);
        out("\n");
        table_print(table);
        json_array_foreach ((json_t *) drift, i, d)
                if (is_first(drift, i))
                        say_next(d);
}
