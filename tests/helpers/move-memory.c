/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves a process's pages as the daemon would, step by step with a pause as long as the step between, and prints the
 * report as JSON. Exit: 0 done, 3 it ended before (the report says why), 1 it could not begin.
 *
 *   move-memory [--stall=MS] [--pressure=PERCENT] [--reserve=PERCENT] PID NODES
 */
#include <errno.h>
#include <getopt.h>

#include "common/clock.h"
#include "common/text.h"
#include "daemon/move-pages.h"
#include "daemon/readers/cgroup.h"
#include "daemon/readers/tasks.h"

static double number(const char *s) {
        double v;

        if (text_parse_double(s, &v) < 0) {
                fprintf(stderr, "move-memory: %s is not a number\n", s);
                exit(2);
        }
        return v;
}

static void rest(uint64_t usec) {
        (void) nanosleep(&(struct timespec){ (time_t) (usec / USEC_PER_SEC), (long) (usec % USEC_PER_SEC * 1000) },
                         NULL);
}

static int run(Process process, const Bitset *nodes, MoveParams *params) {
        _cleanup_(cgroup_info_done) CgroupInfo group = {};
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        _cleanup_(cgroups_done) Cgroups cgroups = {};
        uint64_t start;
        json_t *json;
        int r;

        r = process_start_time(process.pid, &process.start_time);
        if (r >= 0)
                r = cgroups_read("", &cgroups);
        if (r >= 0)
                r = cgroup_of_pid(&cgroups, "", process.pid, &group);
        params->group_dir = group.memory_directory;
        if (r >= 0)
                r = move_pages_new(process, nodes, params, NULL, &m);
        while (r >= 0) {
                start = clock_monotonic_usec();
                r = move_pages_step(m);
                if (r <= 0)
                        break;
                rest(clock_monotonic_usec() - start);
        }
        if (r >= 0)
                r = move_report_to_json(move_pages_report(m), &json);
        if (r < 0) {
                fprintf(stderr, "move-memory: %s\n", strerror(-r));
                return 1;
        }
        (void) json_dumpf(json, stdout, JSON_COMPACT);
        (void) putchar('\n');
        json_decref(json);
        return move_pages_report(m)->stop == MOVE_DONE ? 0 : 3;
}

int main(int argc, char **argv) {
        static const struct option options[] = { { "stall", required_argument, NULL, 's' },
                                                 { "pressure", required_argument, NULL, 'p' },
                                                 { "reserve", required_argument, NULL, 'r' },
                                                 {} };
        _cleanup_(bitset_done) Bitset nodes = BITSET_EMPTY;
        MoveParams params = move_params_default;
        Process process;
        int c;

        while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0)
                switch (c) {
                case 's': params.stall_usec = (uint64_t) (number(optarg) * 1000); break;
                case 'p': params.pressure_max = number(optarg); break;
                case 'r': params.reserve = number(optarg) / 100; break;
                default: return 2;
                }
        if (argc - optind != 2 || text_parse_pid(argv[optind], &process.pid) < 0 ||
            bitset_parse(argv[optind + 1], &nodes) < 0) {
                fputs("usage: move-memory [--stall=MS] [--pressure=PERCENT] [--reserve=PERCENT] PID NODES\n", stderr);
                return 2;
        }
        return run(process, &nodes, &params);
}
