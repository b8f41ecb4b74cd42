/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qschedctl [OPTIONS] VERB [OPTIONS] [ARGUMENTS]: the table of options and its parser. Options may stand before and
 * after the verb; "--" ends them, and for `run` so does the first word of the command. Which options a verb takes is
 * checked once the verb is known.
 */
#include <fcntl.h>
#include <signal.h>

#include "common/log.h"
#include "common/text.h"
#include "config.h"
#include "ctl/output.h"
#include "policy/formats/format.h"

#define AT(member) offsetof(Options, member)

const OptionItem option_items[] = {
        /* name        letter type           argument  target         given           everywhere help */
        { "json", 0, OPTION_FLAG, NULL, AT(json), 0, false, "Print JSON instead of text" },
        { "host", 'H', OPTION_STRING, "HOST", AT(host), 0, false,
          "Ask the daemon of another host, over ssh: [USER@]HOST" },
        { "machine", 0, OPTION_STRING, "PATH", AT(machine), 0, false,
          "Work without the daemon on a recorded machine: an hwloc XML file, a directory with a captured /sys in it or one level below, or a record" },
        { "devices", 0, OPTION_STRING, "FILE", AT(devices), 0, false,
          "Work without the daemon, with the devices that FILE describes; without --machine on this system" },
        { "solver", 0, OPTION_SOLVER, "NAME", AT(solver), 0, false, "Solve with this solver" },
        { "seed", 0, OPTION_U64, "N", AT(seed), AT(has_seed), false,
          "Seed of the solver: the same input, seed and sweeps give the same plan or solution" },
        { "sweeps", 0, OPTION_U64, "N", AT(sweeps), AT(has_sweeps), false, "Steps that the solver may take" },
        { "time", 0, OPTION_TIME, "S", AT(time), AT(has_time), false,
          "Seconds that a solver may take; also 5ms, 2min; default: 1, unless --sweeps is given" },
        { "target", 0, OPTION_REAL, "V", AT(target), AT(has_target), false, "End as soon as this value is reached" },
        { "threads", 0, OPTION_U64, "N", AT(threads), AT(has_threads), false,
          "Threads that auto may use, from 1 to 1024; default: 1" },
        { "output", 0, OPTION_STRING, "FILE", AT(output), 0, false,
          "Write the solution to FILE, - for standard output: a line for each variable or choice" },
        { "compare", 0, OPTION_FLAG, NULL, AT(compare), 0, false,
          "Give every solver that fits the same time, and show what each found and when" },
        { "format", 0, OPTION_FORMAT, "NAME", AT(format), 0, false,
          "Read the file as this format, whatever its name and its first line say" },
        { "to", 0, OPTION_FORMAT, "NAME", AT(to), 0, false,
          "Write this format; default: what the name of the output says" },
        { "no-recognise", 0, OPTION_FLAG, NULL, AT(no_recognise), 0, false,
          "Do not look for one-hot groups behind the penalties of a plain model" },
        { "picture", 0, OPTION_FLAG, NULL, AT(picture), 0, false,
          "Draw the machine below the plan also where the output is no terminal" },
        { "dry-run", 0, OPTION_FLAG, NULL, AT(dry_run), 0, false, "Say what would be done and change nothing" },
        { "name", 0, OPTION_STRING, "NAME", AT(name), 0, false,
          "Name of the job; default: the command's name and the process id" },
        { "cpus", 0, OPTION_STRING, "N", AT(cpus), 0, false, "At most this many logical CPUs; default: an even share" },
        { "memory", 0, OPTION_STRING, "SIZE", AT(memory), 0, false,
          "Host memory that it will need: 64G; K M G T are powers of 1024" },
        { "device", 0, OPTION_STRING, "DEVICE", AT(device), 0, false, "KIND[:N], names of devices, or none" },
        { "job", 0, OPTION_STRING, "FILE", AT(job), 0, false,
          "Take the job from FILE, see qsched.job(5), instead of these options" },
        { "quiet", 'q', OPTION_FLAG, NULL, AT(quiet), 0, false,
          "Do not tell on standard error where the command was placed" },
        { "no-color", 0, OPTION_FLAG, NULL, AT(no_color), 0, true,
          "No colours; also NO_COLOR in the environment, and where the output is no terminal" },
        { "help", 'h', OPTION_FLAG, NULL, AT(help), 0, true, "Show this help, or that of a verb" },
        { "version", 0, OPTION_FLAG, NULL, AT(version), 0, true, "Show the version" },
        { "dump-tables", 0, OPTION_FLAG, NULL, AT(dump_tables), 0, true, NULL },
        {}
};

typedef struct Parse {
        Options options;
        const Verb *verb;
        char **args; /* borrowed words; NULL-terminated, for exec */
        int n_args;
        bool given[ELEMENTSOF(option_items)];
} Parse;

static const OptionItem *option_by_name(const char *name, size_t n) {
        for (const OptionItem *i = option_items; i->name; i++)
                if (strlen(i->name) == n && memcmp(i->name, name, n) == 0)
                        return i;
        return NULL;
}

static const OptionItem *option_by_letter(char letter) {
        for (const OptionItem *i = option_items; i->name; i++)
                if (i->letter == letter)
                        return i;
        return NULL;
}

static int bad_solver(const char *value) {
        _cleanup_free_ char *known = NULL;
        _cleanup_(strv_freep) char **names = NULL;
        size_t n = 0;

        for (; solvers[n]; n++)
                (void) strv_extend(&names, solvers[n]->name);
        for (size_t i = 0; i < n && names && names[i]; i++) {
                char *s = NULL;

                if (asprintf(&s, "%s%s%s", strempty(known), known ? ", " : "", names[i]) < 0)
                        break;
                free(known);
                known = s;
        }
        log_error("There is no solver \"%s\"; solvers are %s.", value, strempty(known));
        return EXIT_USAGE;
}

static int bad_format(const char *value) {
        _cleanup_free_ char *names = format_names();

        log_error("There is no format \"%s\"; formats are %s.", value, strempty(names));
        return EXIT_USAGE;
}

static int set_time(uint64_t *target, const OptionItem *i, const char *value) {
        if (text_parse_usec(value, target) >= 0 && *target > 0 && *target <= INT64_MAX)
                return EXIT_DONE;
        log_error("--%s=%s: not a time; allowed are seconds above 0 as in 0.5, and 5ms, 2min.", i->name, value);
        return EXIT_USAGE;
}

static int set_option(Parse *p, const OptionItem *i, const char *value) {
        char *target = (char *) &p->options + i->offset;
        uint64_t number;

        p->given[i - option_items] = true;
        if (i->has_offset)
                *((bool *) ((char *) &p->options + i->has_offset)) = true;
        switch (i->type) {
        case OPTION_FLAG: *(bool *) target = true; return EXIT_DONE;
        case OPTION_SOLVER:
                if (!solver_by_name(value))
                        return bad_solver(value);
                *(const char **) target = value;
                return EXIT_DONE;
        case OPTION_STRING:
                if (!*value) {
                        log_error("--%s= needs a value: %s.", i->name, i->argument);
                        return EXIT_USAGE;
                }
                *(const char **) target = value;
                return EXIT_DONE;
        case OPTION_FORMAT:
                if (!format_by_name(value))
                        return bad_format(value);
                *(const char **) target = value;
                return EXIT_DONE;
        case OPTION_TIME: return set_time((uint64_t *) target, i, value);
        case OPTION_REAL:
                if (text_parse_double(value, (double *) target) >= 0)
                        return EXIT_DONE;
                log_error("--%s=%s: not a number.", i->name, value);
                return EXIT_USAGE;
        case OPTION_U64:
                if (text_parse_u64(value, &number) >= 0 && number <= INT64_MAX) { /* what JSON can carry */
                        *(uint64_t *) target = number;
                        return EXIT_DONE;
                }
                log_error("--%s=%s: not a whole number from 0 to %" PRIi64 ".", i->name, value, INT64_MAX);
                return EXIT_USAGE;
        }
        return EXIT_USAGE;
}

/* *at is the index of the option in argv; moved to its value when that is a word of its own. */
static int parse_long(Parse *p, char **argv, int *at) {
        const char *word = argv[*at] + 2, *eq = strchr(word, '=');
        const OptionItem *i = option_by_name(word, eq ? (size_t) (eq - word) : strlen(word));

        if (!i) {
                log_error("There is no option --%.*s; see qschedctl --help.",
                          (int) (eq ? eq - word : (long) strlen(word)), word);
                return EXIT_USAGE;
        }
        if (i->type == OPTION_FLAG) {
                if (!eq)
                        return set_option(p, i, NULL);
                log_error("--%s takes no value.", i->name);
                return EXIT_USAGE;
        }
        if (!eq && !argv[*at + 1]) {
                log_error("--%s needs a value: %s.", i->name, i->argument);
                return EXIT_USAGE;
        }
        return set_option(p, i, eq ? eq + 1 : argv[++*at]);
}

static int parse_short(Parse *p, char **argv, int *at) {
        int r = EXIT_DONE;

        for (const char *s = argv[*at] + 1; *s && r == EXIT_DONE; s++) {
                const OptionItem *i = option_by_letter(*s);

                if (!i) {
                        log_error("There is no option -%c; see qschedctl --help.", *s);
                        return EXIT_USAGE;
                }
                if (i->type == OPTION_FLAG) {
                        r = set_option(p, i, NULL);
                        continue;
                }
                if (!s[1] && !argv[*at + 1]) {
                        log_error("-%c needs a value: %s.", *s, i->argument);
                        return EXIT_USAGE;
                }
                return set_option(p, i, s[1] ? s + 1 : argv[++*at]);
        }
        return r;
}

static int unknown_verb(const char *word) {
        fprintf(stderr, "qschedctl: There is no verb \"%s\"; verbs are", word);
        for (const Verb *v = verbs; v->name; v++)
                fprintf(stderr, "%s %s", v == verbs ? "" : ",", v->name);
        fprintf(stderr, ".\n");
        return EXIT_USAGE;
}

static int parse(Parse *p, int argc, char **argv) {
        bool options = true;

        for (int i = 1; i < argc; i++) {
                int r = EXIT_DONE;

                if (options && streq(argv[i], "--"))
                        options = false;
                else if (options && strncmp(argv[i], "--", 2) == 0)
                        r = parse_long(p, argv, &i);
                else if (options && argv[i][0] == '-' && argv[i][1])
                        r = parse_short(p, argv, &i);
                else if (!p->verb) {
                        p->verb = verb_by_name(argv[i]);
                        if (!p->verb)
                                return unknown_verb(argv[i]);
                } else {
                        p->args[p->n_args++] = argv[i];
                        options = options && !p->verb->command;
                }
                if (r != EXIT_DONE)
                        return r;
        }
        return EXIT_DONE;
}

static int check_verb(const Parse *p) {
        const Verb *v = p->verb;

        for (const OptionItem *i = option_items; i->name; i++)
                if (p->given[i - option_items] && !verb_takes(v, i)) {
                        log_error("\"%s\" does not take --%s; see qschedctl %s --help.", v->name, i->name, v->name);
                        return EXIT_USAGE;
                }
        if ((unsigned) p->n_args < v->min_args) {
                log_error("\"%s\" needs more: qschedctl %s %s", v->name, v->name, v->arguments);
                return EXIT_USAGE;
        }
        if ((unsigned) p->n_args > v->max_args) {
                log_error("\"%s\" is too much for \"%s\": qschedctl %s%s%s", p->args[v->max_args], v->name, v->name,
                          *v->arguments ? " " : "", v->arguments);
                return EXIT_USAGE;
        }
        if (p->options.host && options_offline(&p->options)) {
                log_error("--host asks a daemon, --machine and --devices do without one: give one or the other.");
                return EXIT_USAGE;
        }
        return EXIT_DONE;
}

/* With stdout closed, the next file opened (the bus) would become it. Reading end: a write to it still fails. */
static void occupy_standard_fds(void) {
        for (int fd = 0; fd <= 2; fd++)
                if (fcntl(fd, F_GETFD) < 0)
                        (void) open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
}

static int dispatch(const Parse *p) {
        int r;

        if (p->options.dump_tables) {
                verbs_dump_tables();
                return EXIT_DONE;
        }
        if (p->options.version) {
                out("qschedctl %s\n", PACKAGE_VERSION);
                return EXIT_DONE;
        }
        if (p->options.help)
                return verbs_help(p->verb);
        if (!p->verb) {
                log_error("What shall be done? Give a verb; see qschedctl --help.");
                return EXIT_USAGE;
        }
        r = check_verb(p);
        if (r != EXIT_DONE)
                return r;
        return p->verb->run(&p->options, p->n_args, p->args);
}

int main(int argc, char **argv) {
        Parse p = {};
        int r;

        log_open("qschedctl");
        occupy_standard_fds();
        (void) signal(SIGPIPE, SIG_IGN); /* an apply shall not die of a reader that has gone */
        p.args = calloc((size_t) argc + 1, sizeof(*p.args));
        if (!p.args)
                return log_oom(), EXIT_FAILED;
        r = parse(&p, argc, argv);
        output_open(&p.options);
        if (r == EXIT_DONE)
                r = dispatch(&p);
        r = output_finish(r);
        free(p.args);
        return r;
}
