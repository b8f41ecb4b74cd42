/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration: defaults from the table, then the main file, then the drop-ins by name, each key of a later file
 * over the same key of an earlier one. [Device] and [Link] sections are not keys: they add up over all files, and the
 * same device twice is an error. A Config is built whole or not at all, so whoever reloads keeps the old one on error.
 *
 * The keys of [Weights] come from the placement terms, which is why the whole table is made at run time.
 */
#include "daemon/config.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <strings.h>

#include "common/fileio.h"
#include "common/log.h"
#include "daemon/readers/host.h"

#ifndef QSCHED_CONFIG_FILE
#define QSCHED_CONFIG_FILE "/etc/qsched/qschedd.conf"
#endif

#define WEIGHT_MAX 1e6

static const char *const auto_words[] = { "auto", NULL };
static const char *const level_words[] = {
        "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug", NULL
};
static const char *const drift_words[] = { "report", "reassert", "yield", NULL };
static const char *const solver_words[] = { "auto", "exact",  "greedy",      "sa",      "pt",   "sqa",
                                            "tabu", "onehot", "permutation", "genetic", "qaoa", NULL };

/* clang-format off */
const ConfigItem config_items[] = {
        { "Daemon", "Interval", CONFIG_USEC, 100e3, 3600e6, "5s", offsetof(Config, interval_usec), NULL,
          "Time between two looks at the machine and its tasks" },
        { "Daemon", "LogLevel", CONFIG_STRING, 0, 0, "info", offsetof(Config, log_level), level_words,
          "Least important messages to log" },
        { "Tasks", "DeviceNodes", CONFIG_STRV, 0, 0, "", offsetof(Config, device_nodes), NULL,
          "Further device nodes, as globs, that only a task holds open: compute nodes, not control nodes" },
        { "Tasks", "Ignore", CONFIG_STRV, 0, 0,
          HOST_IGNORE_DEFAULT,
          offsetof(Config, ignore), NULL,
          "Programs that never are tasks although they hold device nodes: globs of the kernel's comm, of which it keeps 15 bytes" },
        { "Devices", "PCIIds", CONFIG_STRV, 0, 0, "", offsetof(Config, pci_ids), NULL,
          "Further accelerators by PCI vendor and device id, with the kind they are: 1234:11e8=edu" },
        { "Placement", "HousekeepingCores", CONFIG_INT, 0, 1024, "auto", offsetof(Config, housekeeping_cores), auto_words,
          "Cores of each NUMA node that ranks do not get; auto: one, and none on hosts with fewer than 8 CPUs" },
        { "Placement", "HousekeepingCPUs", CONFIG_BITSET, 0, 0, "", offsetof(Config, housekeeping_cpus), NULL,
          "CPUs that ranks do not get, instead of HousekeepingCores=" },
        { "Placement", "Hysteresis", CONFIG_DOUBLE, 0, 1, "0.02", offsetof(Config, hysteresis), NULL,
          "A new plan must be better than leaving all as it is by this share of the present energy" },
        { "Placement", "HoldOff", CONFIG_USEC, 0, 3600e6, "10s", offsetof(Config, hold_off_usec), NULL,
          "After a change nothing is planned again by itself for this time" },
        { "Placement", "TemperatureTarget", CONFIG_DOUBLE, 0, 150, "75", offsetof(Config, temperature_target), NULL,
          "Degrees C above which a device counts as hot" },
        { "Placement", "ThreadRoles", CONFIG_BOOL, 0, 0, "yes", offsetof(Config, thread_roles), NULL,
          "Whether a rank's CPUs are split between its threads by their roles; no: each thread has all of them" },
        { "Enforce", "Interrupts", CONFIG_BOOL, 0, 0, "yes", offsetof(Config, interrupts), NULL,
          "Whether the interrupts of a job's devices go to the CPUs that its plan keeps for them; no: they are let alone, and put back where they were moved before" },
        { "Enforce", "Drift", CONFIG_STRING, 0, 0, "report", offsetof(Config, drift), drift_words,
          "What is done when somebody else changes a mask, the CPUs of a group of ours, or an interrupt: report: told once and left alone; reassert: written again, at most three times in a row; yield: theirs, and planned around, until the job is applied again" },
        { "Memory", "Move", CONFIG_BOOL, 0, 0, "yes", offsetof(Config, move), NULL,
          "Whether the pages of a placed process are moved to the memory nodes of its plan, bit by bit and after its CPUs" },
        { "Memory", "Stall", CONFIG_USEC, 100, 1e6, "20ms", offsetof(Config, move_params.stall_usec), NULL,
          "Longest time that one bit of a move may keep the process waiting" },
        { "Memory", "WalkBudget", CONFIG_USEC, 0, 3600e6, "10s", offsetof(Config, move_params.walk_usec), NULL,
          "Time that looking for the pages of one process may take in all; 0: no limit" },
        { "Memory", "Pressure", CONFIG_DOUBLE, 0, 100, "10", offsetof(Config, move_params.pressure_max), NULL,
          "A move stops when tasks of the host or of its cgroup waited for memory more than this percentage of the last ten seconds" },
        { "Memory", "Reserve", CONFIG_DOUBLE, 0, 0.9, "0.05", offsetof(Config, move_params.reserve), NULL,
          "Share of a node's memory that moves leave free" },
        { "Memory", "GroupReserve", CONFIG_DOUBLE, 0, 0.9, "0.05", offsetof(Config, move_params.group_reserve), NULL,
          "Nothing is moved in a cgroup that has less than this share of its memory limit left" },
        { "Solver", "Solver", CONFIG_STRING, 0, 0, "auto", offsetof(Config, solver), solver_words,
          "Which solver decides; auto chooses by size" },
        { "Solver", "Budget", CONFIG_USEC, 1e3, 300e6, "2s", offsetof(Config, budget_usec), NULL,
          "Longest time of one decision; the best plan so far is taken then" },
        { "Solver", "Seed", CONFIG_UINT, 0, UINT32_MAX, "1", offsetof(Config, seed), NULL,
          "Seed of the solver's random numbers: same machine, jobs and seed, same plan" },
        { "Weights", "Alpha", CONFIG_DOUBLE, 0, WEIGHT_MAX, "1", offsetof(Config, weights.group[TERM_RESOURCE]), NULL,
          "Weight of all terms of the group resource" },
        { "Weights", "Beta", CONFIG_DOUBLE, 0, WEIGHT_MAX, "1", offsetof(Config, weights.group[TERM_TIME]), NULL,
          "Weight of all terms of the group time" },
        { "Weights", "Gamma", CONFIG_DOUBLE, 0, WEIGHT_MAX, "1", offsetof(Config, weights.group[TERM_COST]), NULL,
          "Weight of all terms of the group cost" },
        { "Weights", "Delta", CONFIG_DOUBLE, 0, WEIGHT_MAX, "1", offsetof(Config, weights.group[TERM_COMPAT]), NULL,
          "Weight of all terms of the group compat" },
        {},
};
/* clang-format on */

static const char *const sections[] = { "Daemon",  "Tasks",  "Devices", "Placement",
                                        "Enforce", "Memory", "Solver",  "Weights" };

void config_table_done(ConfigTable *t) {
        free(t->items);
        strv_free(t->strings);
        *t = (ConfigTable){};
}

/* Keeps a new string with the table; NULL on OOM. */
static const char *keep(ConfigTable *t, char *s) {
        return strv_push(&t->strings, s) < 0 ? NULL : s;
}

/* "memory_distance" -> "MemoryDistance" */
static char *term_key(const char *name) {
        char *key = strdup(name), *to = key;
        bool upper = true;

        if (!key)
                return NULL;
        for (const char *p = name; *p; p++)
                if (*p == '_')
                        upper = true;
                else {
                        *to++ = (char) (upper ? toupper((unsigned char) *p) : *p);
                        upper = false;
                }
        *to = '\0';
        return key;
}

static char *allocf(const char *format, ...) _printf_(1, 2);
static char *allocf(const char *format, ...) {
        va_list ap;
        char *s;

        va_start(ap, format);
        if (vasprintf(&s, format, ap) < 0)
                s = NULL;
        va_end(ap);
        return s;
}

static int fill_term(ConfigTable *t, size_t i, ConfigItem *ret) {
        const PlacementTerm *term = &placement_terms[i];

        *ret = (ConfigItem){
                .section = "Weights",
                .key = keep(t, term_key(term->name)),
                .type = CONFIG_DOUBLE,
                .max = WEIGHT_MAX,
                .def = keep(t, allocf("%.10g", term->weight)),
                .offset = offsetof(Config, weights.term) + i * sizeof(double),
                .help = keep(t, allocf("Weight of \"%s\" (%s, in %s): %s", term->name, term_group_names[term->group],
                                       term->unit, term->help)),
        };
        return ret->key && ret->def && ret->help ? 0 : -ENOMEM;
}

int config_table(ConfigTable *ret) {
        ConfigTable t = {};
        size_t n = ELEMENTSOF(config_items) - 1;
        int r = 0;

        t.items = calloc(n + PLACEMENT_TERM_MAX + 1, sizeof(*t.items));
        if (!t.items)
                return -ENOMEM;
        memcpy(t.items, config_items, n * sizeof(*t.items));
        for (size_t i = 0; placement_terms[i].name && r >= 0; i++)
                r = fill_term(&t, i, &t.items[n + i]);
        if (r < 0) {
                config_table_done(&t);
                return r;
        }
        *ret = t;
        return 0;
}

Config *config_free(Config *c) {
        if (!c)
                return NULL;
        for (size_t i = 0; i < ELEMENTSOF(sections); i++)
                config_done(config_items, sections[i], c); /* weights own nothing */
        device_text_done(&c->devices);
        roles_done(&c->roles);
        free(c);
        return NULL;
}

typedef struct Loader {
        Config *config;
        const ConfigTable *table;
        char **ret_message;
} Loader;

static int check_log_level(Loader *l, const Ini *ini, const IniItem *item) {
        if (log_level_from_string(item->value) >= 0)
                return 0;
        return ini_fail(l->ret_message, ini, item->line,
                        "LogLevel=%.40s is not one of: emerg alert crit err warning notice info debug", item->value);
}

static int check_drift(Loader *l, const Ini *ini, const IniItem *item) {
        for (const char *const *w = drift_words; *w; w++)
                if (streq(*w, item->value))
                        return 0;
        return ini_fail(l->ret_message, ini, item->line, "Drift=%.40s is not one of: report reassert yield",
                        item->value);
}

static int check_solver(Loader *l, const Ini *ini, const IniItem *item) {
        if (solver_by_name(item->value))
                return 0;
        return ini_fail(l->ret_message, ini, item->line, "Solver=%.40s is not one of: auto greedy sa exact",
                        item->value);
}

static int check_pci_ids(Loader *l, const Ini *ini, const IniItem *item) {
        _cleanup_free_ char *why = NULL;
        DeviceText scratch = {};
        int r = 0;

        for (char **id = l->config->pci_ids; id && *id && r >= 0; id++)
                r = device_text_add_pci_id(&scratch, *id, &why);
        device_text_done(&scratch);
        return r == -EBADMSG ? ini_fail(l->ret_message, ini, item->line, "PCIIds: %s", strempty(why)) : r;
}

/* What the bounds of the table cannot say. */
static int check_section(Loader *l, const Ini *ini, const IniSection *section) {
        static const struct {
                const char *section, *key;
                int (*check)(Loader *l, const Ini *ini, const IniItem *item);
        } checks[] = {
                { "Daemon", "LogLevel", check_log_level },
                { "Enforce", "Drift", check_drift },
                { "Solver", "Solver", check_solver },
                { "Devices", "PCIIds", check_pci_ids },
        };
        int r = 0;

        for (size_t i = 0; i < ELEMENTSOF(checks) && r >= 0; i++) {
                const IniItem *item = ini_find_item(section, checks[i].key);

                if (item && strcasecmp(section->type, checks[i].section) == 0)
                        r = checks[i].check(l, ini, item);
        }
        return r;
}

static int load_section(Loader *l, const Ini *ini, const IniSection *section) {
        int r;

        if (strcasecmp(section->type, "Device") == 0 || strcasecmp(section->type, "Link") == 0)
                return 0; /* read by device_text_add() */
        if (strcasecmp(section->type, "Role") == 0)
                return 0; /* read by roles_from_ini() */
        for (size_t i = 0; i < ELEMENTSOF(sections); i++)
                if (strcasecmp(section->type, sections[i]) == 0) {
                        if (section->args)
                                return ini_fail(l->ret_message, ini, section->line, "[%s] takes no name",
                                                section->type);
                        r = config_section_fill(ini, section, l->table->items, l->config, l->ret_message);
                        return r < 0 ? r : check_section(l, ini, section);
                }
        return ini_fail(
                l->ret_message, ini, section->line,
                "[%s] is not known, allowed: Daemon, Tasks, Devices, Placement, Enforce, Memory, Solver, Weights, Role, Device, Link",
                section->type);
}

static int load_file(Loader *l, const char *path) {
        _cleanup_(ini_freep) Ini *ini = NULL;
        int r;

        r = ini_load(path, &ini, l->ret_message);
        for (size_t i = 0; r >= 0 && i < ini->n_sections; i++)
                r = load_section(l, ini, &ini->sections[i]);
        if (r < 0)
                return r;
        r = roles_from_ini(&l->config->roles, ini, l->ret_message);
        if (r >= 0)
                r = device_text_add(&l->config->devices, ini, true, l->ret_message);
        if (r < 0)
                return r;
        TAKE_PTR(ini);
        return 0;
}

static int load_devices_file(Loader *l, const char *path) {
        _cleanup_(ini_freep) Ini *ini = NULL;
        int r;

        r = ini_load(path, &ini, l->ret_message);
        if (r >= 0)
                r = device_text_add(&l->config->devices, ini, false, l->ret_message);
        if (r < 0)
                return r;
        TAKE_PTR(ini);
        return 0;
}

static int is_drop_in(const struct dirent *e) {
        return fnmatch("*.conf", e->d_name, FNM_PERIOD) == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
        return strcmp((*a)->d_name, (*b)->d_name);
}

static int load_drop_ins(Loader *l, const char *path) {
        _cleanup_free_ char *dir = allocf("%s.d", path);
        struct dirent **entries = NULL;
        int r = 0, n;

        if (!dir)
                return -ENOMEM;
        n = scandir(dir, &entries, is_drop_in, by_name);
        if (n < 0)
                return errno == ENOENT ? 0
                                       : text_fail(-errno, l->ret_message, "%s: the directory cannot be read: %s", dir,
                                                   strerror(errno));
        for (int i = 0; i < n; i++) {
                _cleanup_free_ char *file = path_join(dir, entries[i]->d_name);

                if (r >= 0)
                        r = file ? load_file(l, file) : -ENOMEM;
                free(entries[i]);
        }
        free(entries);
        return r;
}

static int set_defaults(Loader *l) {
        int r = roles_default(&l->config->roles);

        for (size_t i = 0; i < ELEMENTSOF(sections) && r >= 0; i++)
                r = config_defaults(l->table->items, sections[i], l->config);
        return r;
}

/* What is derived from several keys, once all files are read. */
static int finish(Loader *l) {
        int r = 0;

        l->config->weights.temperature_target = l->config->temperature_target;
        for (char **id = l->config->pci_ids; id && *id && r >= 0; id++)
                r = device_text_add_pci_id(&l->config->devices, *id, l->ret_message);
        return r;
}

static int load_all(Loader *l, const char *path, const char *devices_path) {
        const char *file = path ? path : QSCHED_CONFIG_FILE;
        int r;

        r = set_defaults(l);
        if (r < 0)
                return r;
        if (path || access(file, F_OK) == 0 || errno != ENOENT) {
                r = load_file(l, file);
                if (r < 0)
                        return r;
        }
        r = load_drop_ins(l, file);
        if (r >= 0 && devices_path)
                r = load_devices_file(l, devices_path);
        return r < 0 ? r : finish(l);
}

int config_load(const char *path, const char *devices_path, Config **ret, char **ret_message) {
        _cleanup_(config_freep) Config *c = calloc(1, sizeof(*c));
        _cleanup_(config_table_done) ConfigTable table = {};
        Loader l = { .config = c, .table = &table, .ret_message = ret_message };
        int r;

        if (!c)
                return -ENOMEM;
        r = config_table(&table);
        if (r >= 0)
                r = load_all(&l, path, devices_path);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(c);
        return 0;
}

static int print_section(FILE *f, const ConfigItem *items, const char *section) {
        for (; items->section; items++) {
                _cleanup_free_ char *range = NULL;

                if (strcasecmp(items->section, section) != 0)
                        continue;
                range = config_range(items);
                if (!range)
                        return -ENOMEM;
                fprintf(f, "\n# %s.\n# Allowed: %s\n#%s=%s\n", items->help, range, items->key, strempty(items->def));
        }
        return 0;
}

static const char file_head[] =
        "# Configuration of qschedd, see qschedd.conf(5).\n"
        "# Each line that starts with '#' and a key shows the default. Change it here, or better in a file of your own\n"
        "# in qschedd.conf.d/ that ends in .conf: those are read after this one, in the order of their names.\n"
        "# qschedd --check-config tells what is wrong with it; systemctl reload qschedd takes it over.\n";

static const char devices_head[] =
        "\n# Devices that the machine does not show, or more about those it does (PCI=), and how they are joined:\n"
        "# any number of such sections, here or in the file that --devices names.\n"
        "#\n"
        "#[Device npu0]\n";

static const char roles_head[] =
        "\n# How the CPUs of a rank are split between its threads (ThreadRoles=yes): any number of such sections. One with the\n"
        "# name of a role below changes the keys that it gives.\n"
        "#\n"
        "#[Role NAME]\n";

static int print_keys(FILE *f, const ConfigItem *items, const char *section) {
        for (const ConfigItem *i = items; i->section; i++) {
                _cleanup_free_ char *range = NULL;

                if (!streq(i->section, section))
                        continue;
                range = config_range(i);
                if (!range)
                        return -ENOMEM;
                fprintf(f, "#   %s=  %s (%s)\n", i->key, i->help, range);
        }
        return 0;
}

static int print_roles(FILE *f) {
        Roles roles;
        int r;

        fputs(roles_head, f);
        r = print_keys(f, role_items, "Role");
        if (r >= 0)
                r = roles_default(&roles);
        if (r < 0)
                return r;
        roles_print(&roles, f);
        roles_done(&roles);
        return 0;
}

int config_print(FILE *f) {
        _cleanup_(config_table_done) ConfigTable t = {};
        int r;

        r = config_table(&t);
        fputs(file_head, f);
        for (size_t i = 0; i < ELEMENTSOF(sections) && r >= 0; i++) {
                fprintf(f, "\n[%s]\n", sections[i]);
                r = print_section(f, t.items, sections[i]);
        }
        fputs(devices_head, f);
        if (r >= 0)
                r = print_keys(f, device_items, "Device");
        fputs("#\n#[Link npu0 npu1]\n", f);
        if (r >= 0)
                r = print_keys(f, device_items, "Link");
        if (r >= 0)
                r = print_roles(f);
        if (r >= 0 && (fflush(f) != 0 || ferror(f)))
                r = -EIO;
        return r;
}
