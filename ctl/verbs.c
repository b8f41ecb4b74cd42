/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of verbs, and what is made from the tables: --help and --dump-tables. The latter is one row per line, tab-
 * separated, the first word its kind; the completion and the check of the manual read it.
 */
#include "common/text.h"
#include "daemon/readers/devices.h"
#include "daemon/readers/doctor.h"
#include "daemon/readers/jobfile.h"
#include "ctl/output.h"
#include "policy/formats/format.h"

#define SOLVE " solver seed sweeps"
#define OFFLINE " machine devices"

const Verb verbs[] = {
        /* name, arguments, at least, at most, is a command, options beside those of all, what it does */
        { "status", "", 0, 0, false, "json host", "Show the daemon, its devices, tasks, jobs and last plan",
          verb_status },
        { "plan", "JOBFILE…", 1, UINT_MAX, false, "json host picture" OFFLINE SOLVE,
          "Solve once and print the plan, changing nothing", verb_plan },
        { "apply", "JOBFILE…", 1, UINT_MAX, false, "json host dry-run" SOLVE,
          "Plan, and place the jobs' processes accordingly", verb_apply },
        { "revert", "[JOB]", 0, 1, false, "json host", "Put back what was changed for a job, or for all", verb_revert },
        { "run", "[--] COMMAND [ARGUMENT…]", 1, UINT_MAX, true, "name cpus memory device job quiet",
          "Start a command in its place", verb_run },
        { "explain", "[JOBFILE…] TASK|PID|JOB", 1, UINT_MAX, false, "json host" OFFLINE SOLVE,
          "Say why a task is where it is, in numbers", verb_explain },
        { "dump", "", 0, 0, false, "json host",
          "Print the record: machine, devices, tasks; for bug reports and --machine", verb_dump },
        { "devices", "", 0, 0, false, "json host" OFFLINE, "List the devices", verb_devices },
        { "topology", "[JOBFILE…]", 0, UINT_MAX, false, "json host" OFFLINE SOLVE,
          "Draw the machine and who is where on it", verb_topology },
        { "doctor", "", 0, 0, false, "json devices", "Say what on this host works against placement, changing nothing",
          verb_doctor },
        { "solve", "FILE", 1, 1, false, "json time target threads output compare format no-recognise" SOLVE,
          "Solve the optimisation problem in a file; - is standard input", verb_solve },
        { "convert", "IN OUT", 2, 2, false, "format to",
          "Write the problem in a file in another format; - is standard input and output", verb_convert },
        {}
};

static const struct {
        int code;
        const char *help;
} exit_codes[] = {
        /* code, meaning */
        { EXIT_DONE, "done, or nothing to do" }, { EXIT_FAILED, "failed" },
        { EXIT_USAGE, "wrong usage" },           { EXIT_RISKY, "risky" },
        { EXIT_INFEASIBLE, "infeasible" },
};

const Verb *verb_by_name(const char *name) {
        for (const Verb *v = verbs; v->name; v++)
                if (streq(v->name, name))
                        return v;
        return NULL;
}

bool verb_takes(const Verb *v, const OptionItem *item) {
        size_t n = strlen(item->name);

        if (item->everywhere)
                return true;
        for (const char *p = v->options; *p;) {
                size_t word = strcspn(p, " ");

                if (word == n && memcmp(p, item->name, n) == 0)
                        return true;
                p += word;
                p += strspn(p, " ");
        }
        return false;
}

static void help_option(const OptionItem *i) {
        char left[64], letter[8] = "   ";

        if (i->letter)
                snprintf(letter, sizeof(letter), "-%c,", i->letter);
        snprintf(left, sizeof(left), " %s --%s%s%s", letter, i->name, i->argument ? "=" : "", strempty(i->argument));
        if (strlen(left) < 22)
                memset(left + strlen(left), ' ', 22 - strlen(left)), left[22] = '\0';
        out_wrapped(left, "                      ", INK_NONE, i->help);
}

static void help_verb(const Verb *v) {
        out_ink(INK_BOLD, "qschedctl %s", v->name);
        out(" [OPTIONS]%s%s\n\n%s.\n", *v->arguments ? " " : "", v->arguments, v->help);
}

static void help_program(void) {
        out_ink(INK_BOLD, "qschedctl");
        out(" [OPTIONS] VERB [ARGUMENTS]\n\nPlan, place, explain and put back the processes of accelerator jobs.\n");
        out_heading("Verbs");
        for (const Verb *v = verbs; v->name; v++) {
                char left[32];

                snprintf(left, sizeof(left), "  %-10s", v->name);
                out_wrapped(left, "            ", INK_NONE, v->help);
        }
}

int verbs_help(const Verb *v) {
        if (v)
                help_verb(v);
        else
                help_program();
        out_heading("Options");
        for (const OptionItem *i = option_items; i->name; i++)
                if (i->help && (!v || verb_takes(v, i)))
                        help_option(i);
        out_heading("Exit codes");
        for (size_t i = 0; i < ELEMENTSOF(exit_codes); i++)
                out("  %d  %s\n", exit_codes[i].code, exit_codes[i].help);
        if (!v)
                out("\nqschedctl VERB --help tells what a verb takes; see also qschedctl(1).\n");
        return EXIT_DONE;
}

static const char *const type_names[] = {
        [CONFIG_BOOL] = "bool",  [CONFIG_UINT] = "uint", [CONFIG_DOUBLE] = "double", [CONFIG_USEC] = "time",
        [CONFIG_SIZE] = "size",  [CONFIG_RATE] = "rate", [CONFIG_STRING] = "string", [CONFIG_STRV] = "list",
        [CONFIG_BITSET] = "set", [CONFIG_ENUM] = "word",
};

static void dump_names(const char *kind, const char *const *names) {
        for (; *names; names++)
                out("%s\t%s\n", kind, *names);
}

static void dump_ctl(void) {
        for (const Verb *v = verbs; v->name; v++) {
                out("verb\t%s\t%s\t%s\n", v->name, v->arguments, v->help);
                for (const OptionItem *i = option_items; i->name; i++)
                        if (i->help && verb_takes(v, i))
                                out("verb-option\t%s\t%s\n", v->name, i->name);
        }
        for (const OptionItem *i = option_items; i->name; i++)
                if (i->help)
                        out("option\t%s\t%.1s\t%s\t%s\n", i->name, i->letter ? &i->letter : "", strempty(i->argument),
                            i->help);
        for (size_t i = 0; i < ELEMENTSOF(exit_codes); i++)
                out("exit\t%d\t%s\n", exit_codes[i].code, exit_codes[i].help);
}

void verbs_dump_tables(void) {
        dump_ctl();
        for (const ConfigItem *i = job_items; i->key; i++)
                out("job-key\t%s\t%s\t%s\t%s\t%s\n", i->section, i->key, type_names[i->type], strempty(i->def),
                    strempty(i->help));
        for (const PlacementTerm *t = placement_terms; t->name; t++)
                out("term\t%s\t%s\t%s\t%g\t%s\n", t->name, term_group_names[t->group], t->unit, t->weight, t->help);
        for (const Solver *const *s = solvers; *s; s++)
                out("solver\t%s\t%s\n", (*s)->name, (*s)->help);
        for (const Format *f = formats; f->name; f++)
                out("format\t%s\t%s\t%s\n", f->name, f->suffix, f->help);
        for (const PciKind *k = pci_kinds; k->kind; k++) /* rows of one kind stand together */
                if (k == pci_kinds || !streq(k->kind, k[-1].kind))
                        out("kind\t%s\n", k->kind);
        for (const DoctorCheck *c = doctor_checks; c->name; c++)
                out("check\t%s\t%s\n", c->name, c->looks_at);
        dump_names("match", match_names);
        dump_names("link", link_names);
        dump_names("health", health_names);
}
