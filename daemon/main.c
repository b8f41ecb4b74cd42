/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qschedd: options, directories, one instance per runtime directory, loop. It runs in the foreground and tells
 * systemd what it does (READY, RELOADING, STOPPING, STATUS, watchdog). SIGHUP reads the configuration again; SIGTERM and
 * SIGINT end it and leave placements as they are, so that a restart or an upgrade moves nobody; SIGUSR1 puts them
 * back and ends it, and so does SIGTERM where a stop job of systemd is behind it.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

#include "common/fileio.h"
#include "common/log.h"
#include "daemon/bus.h"
#include "daemon/service.h"
#include "daemon/worker.h"

typedef struct Arguments {
        const char *config, *devices;
        bool revert_on_exit;
        int (*instead)(const char *config, const char *devices); /* what is done instead of running */
} Arguments;

static int print_help(const char *config, const char *devices);

static int print_version(const char *config, const char *devices) {
        puts("qschedd " PACKAGE_VERSION);
        return 0;
}

static int print_config(const char *config, const char *devices) {
        return config_print(stdout);
}

static int check_config(const char *config, const char *devices) {
        _cleanup_(config_freep) Config *c = NULL;
        _cleanup_(collector_freep) Collector *collector = NULL; /* goes first: it borrows */
        _cleanup_free_ char *message = NULL;
        int r;

        r = config_load(config, devices, &c, &message);
        if (r >= 0)
                r = collector_new(c, &collector, &message);
        if (r < 0)
                log_error("%s", message ? message : strerror(-r));
        return r;
}

typedef enum OptionId {
        OPTION_CONFIG = 'c',
        OPTION_DEVICES = 'd',
        OPTION_HELP = 'h',
        OPTION_VERSION = 'V',
        OPTION_PRINT_CONFIG = 256,
        OPTION_CHECK_CONFIG,
        OPTION_REVERT_ON_EXIT
} OptionId;

typedef struct OptionRow {
        OptionId id;
        const char *name, *argument, *help;
        int (*instead)(const char *config, const char *devices);
} OptionRow;

static const OptionRow option_rows[] = {
        { OPTION_CONFIG, "config", "FILE", "Read this configuration instead of " QSCHED_CONFIG_FILE " and its .d",
          NULL },
        { OPTION_DEVICES, "devices", "FILE", "Devices and links described in a file, beside those found", NULL },
        { OPTION_REVERT_ON_EXIT, "revert-on-exit", NULL, "Put everything back when ending (otherwise placements stay)",
          NULL },
        { OPTION_CHECK_CONFIG, "check-config", NULL, "Read configuration and devices, say what is wrong, and exit",
          check_config },
        { OPTION_PRINT_CONFIG, "print-config", NULL, "Print every setting with its default and range, and exit",
          print_config },
        { OPTION_HELP, "help", NULL, "Print this, and exit", print_help },
        { OPTION_VERSION, "version", NULL, "Print the version, and exit", print_version },
};

static int print_help(const char *config, const char *devices) {
        puts("qschedd [OPTIONS]\n\nPlaces the ranks of accelerator jobs: devices, CPUs, memory. Runs in the foreground.\n");
        for (size_t i = 0; i < ELEMENTSOF(option_rows); i++) {
                const OptionRow *o = &option_rows[i];
                char word[64];

                (void) snprintf(word, sizeof(word), "--%s%s%s", o->name, o->argument ? " " : "", strempty(o->argument));
                if (o->id < 256)
                        printf("  -%c, %-20s %s\n", (char) o->id, word, o->help);
                else
                        printf("      %-20s %s\n", word, o->help);
        }
        puts("\nEnvironment: DBUS_SYSTEM_BUS_ADDRESS (the bus), RUNTIME_DIRECTORY (" QSCHED_RUNTIME_DIR
             ": undo journal),\n"
             "STATE_DIRECTORY (" QSCHED_STATE_DIR ": applied jobs). See qschedd(8), qschedd.conf(5), qschedctl(1).");
        return 0;
}

/* 0, or the exit code 2. */
static int parse_argv(int argc, char **argv, Arguments *a) {
        struct option options[ELEMENTSOF(option_rows) + 1] = {};
        int id;

        for (size_t i = 0; i < ELEMENTSOF(option_rows); i++)
                options[i] = (struct option){ .name = option_rows[i].name,
                                              .has_arg = option_rows[i].argument ? required_argument : no_argument,
                                              .val = (int) option_rows[i].id };
        while ((id = getopt_long(argc, argv, "c:d:hV", options, NULL)) >= 0) {
                if (id == '?')
                        return 2; /* getopt has told */
                if (id == OPTION_CONFIG)
                        a->config = optarg;
                else if (id == OPTION_DEVICES)
                        a->devices = optarg;
                else if (id == OPTION_REVERT_ON_EXIT)
                        a->revert_on_exit = true;
                for (size_t i = 0; i < ELEMENTSOF(option_rows); i++)
                        if ((int) option_rows[i].id == id && option_rows[i].instead && !a->instead)
                                a->instead = option_rows[i].instead;
        }
        if (optind < argc) {
                log_error("qschedd takes no arguments, but \"%s\" was given; see qschedd --help", argv[optind]);
                return 2;
        }
        return 0;
}

static int make_directory(const char *variable, const char *fallback, mode_t mode, const char **ret) {
        const char *path = getenv(variable);
        int r;

        path = path && path[0] ? path : fallback;
        if (path[0] != '/' || strchr(path, ':')) {
                log_error("%s=%s: one absolute path is expected", variable, path);
                return -EINVAL;
        }
        r = mkdir_parents(path, mode);
        if (r < 0 && r != -EEXIST)
                return log_error_errno(r, "Directory %s cannot be made: %m", path);
        *ret = path;
        return 0;
}

typedef struct End { /* what is done when the loop ends, however it does */
        Manager *manager;
        bool revert;
        int r;
} End;

/* Stopped for good: not for a restart, not with the host, and not where systemd does not say so. */
static bool is_stopped(void) {
        _cleanup_free_ char *message = NULL;
        ServiceEnd why = service_why_ended(&message);

        if (message)
                log_warning("%s; placements stay as they are", message);
        return why == SERVICE_END_STOP;
}

static int on_end(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata) {
        End *end = userdata;

        if (si->ssi_signo == SIGUSR1 || (si->ssi_signo == SIGTERM && is_stopped()))
                end->revert = true;
        log_info("Ending (%s)%s", strsignal((int) si->ssi_signo), end->revert ? "" : ": placements stay");
        return sd_event_exit(sd_event_source_get_event(source), 0);
}

static int on_exit_loop(sd_event_source *source, void *userdata) {
        End *end = userdata;

        (void) sd_notify(0, "STOPPING=1");
        end->r = manager_stop(end->manager, end->revert);
        return 0;
}

/* Before the bus closes itself, so that who waits for an answer still gets one. */
static int add_exit(sd_event *event, End *end) {
        sd_event_source *source;
        int r;

        r = sd_event_add_exit(event, &source, on_exit_loop, end);
        if (r < 0)
                return r;
        (void) sd_event_source_set_priority(source, SD_EVENT_PRIORITY_IMPORTANT);
        (void) sd_event_source_set_floating(source, true);
        sd_event_source_unref(source);
        return 0;
}

static int on_reload(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata) {
        _cleanup_free_ char *message = NULL;
        int r;

        (void) sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, now_monotonic());
        r = manager_reload(userdata, &message);
        if (r < 0)
                log_error("The configuration was not read again, the old one stays in force: %s",
                          message ? message : strerror(-r));
        else
                log_info("The configuration was read again");
        (void) sd_notify(0, "READY=1");
        return 0;
}

static int setup_loop(End *end, sd_event **ret) {
        _cleanup_(sd_event_unrefp) sd_event *event = NULL;
        sigset_t set;
        int r;

        (void) sigemptyset(&set);
        (void) sigaddset(&set, SIGTERM);
        (void) sigaddset(&set, SIGINT);
        (void) sigaddset(&set, SIGUSR1);
        (void) sigaddset(&set, SIGHUP);
        (void) sigaddset(&set, SIGPIPE);
        (void) sigprocmask(SIG_BLOCK, &set, NULL); /* before the solver's thread, which inherits it */
        r = sd_event_default(&event);
        if (r >= 0)
                r = sd_event_add_signal(event, NULL, SIGTERM, on_end, end);
        if (r >= 0)
                r = sd_event_add_signal(event, NULL, SIGINT, on_end, end);
        if (r >= 0)
                r = sd_event_add_signal(event, NULL, SIGUSR1, on_end, end);
        if (r < 0)
                return log_error_errno(r, "Failed to set up the loop: %m");
        *ret = TAKE_PTR(event);
        return 0;
}

static int run(const Arguments *a) {
        _cleanup_(sd_event_unrefp) sd_event *event = NULL;
        _cleanup_(manager_freep) Manager *m = NULL;
        _cleanup_(bus_freep) Bus *bus = NULL; /* goes before the manager */
        _cleanup_free_ char *message = NULL;
        ManagerPaths paths = { .config = a->config, .devices = a->devices };
        End end = { .revert = a->revert_on_exit };
        int r;

        r = make_directory("RUNTIME_DIRECTORY", QSCHED_RUNTIME_DIR, 0755, &paths.runtime);
        if (r >= 0)
                r = make_directory("STATE_DIRECTORY", QSCHED_STATE_DIR, 0755, &paths.state);
        if (r >= 0)
                r = setup_loop(&end, &event);
        if (r < 0)
                return r;
        r = manager_new(event, &paths, &m, &message);
        if (r < 0) {
                log_error("%s", message ? message : strerror(-r));
                return r;
        }
        end.manager = m;
        r = add_exit(event, &end);
        if (r >= 0)
                r = bus_new(event, m, &bus); /* before anything is changed: without a bus nobody could take it back */
        if (r >= 0)
                r = sd_event_add_signal(event, NULL, SIGHUP, on_reload, m);
        if (r >= 0)
                r = service_attach(event, m);
        if (r >= 0)
                r = manager_start(m);
        if (r < 0)
                return r;
        (void) sd_notify(0, "READY=1");
        log_info("qschedd " PACKAGE_VERSION " runs");
        r = sd_event_loop(event);
        return r != 0 ? -EIO : end.r;
}

int main(int argc, char **argv) {
        Arguments a = {};
        int r;

        log_open("qschedd");
        r = parse_argv(argc, argv, &a);
        if (r != 0)
                return r;
        r = a.instead ? a.instead(a.config, a.devices) : run(&a);
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
