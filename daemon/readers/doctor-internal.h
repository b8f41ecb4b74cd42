/* SPDX-License-Identifier: Apache-2.0 */
/* One examination, between doctor.c (table, engine, what the house needs), -kernel (settings), -rivals (who else places),
 * -devices and -tasks. Paths are those of the host ("/proc/swaps"); the root is put in front here. */
#pragma once

#include <errno.h>

#include "common/fileio.h"
#include "common/text.h"
#include "daemon/readers/cgroup.h"
#include "daemon/readers/doctor.h"
#include "daemon/readers/process.h"

struct Doctor {
        const DoctorParams *params;
        const Snapshot *snapshot;
        const Topology *topology;
        const DoctorCheck *check; /* that runs */
        int proc_fd;
        ProcStat *processes; /* all but kernel threads and dead ones, when it began */
        size_t n_processes;
        pid_t *left; /* processes with masks of a daemon that is gone, each once */
        size_t n_left;
        DoctorReport report;
};

/* Adds a finding. -ENOMEM or 0; doctor_mend() adds to the last one what to do. */
int doctor_say(Doctor *d, DoctorLevel level, const char *format, ...) _printf_(3, 4);
int doctor_mend(Doctor *d, const char *format, ...) _printf_(2, 3);

int doctor_open(const Doctor *d, const char *path, int flags);
int doctor_text(const Doctor *d, const char *path, char **ret);
int doctor_line(const Doctor *d, const char *path, char **ret);
int doctor_number(const Doctor *d, const char *path, uint64_t *ret);
int doctor_set(const Doctor *d, const char *path, Bitset *ret); /* a list of CPUs, nodes; "(null)" and "" are empty */
bool doctor_exists(const Doctor *d, const char *path);
bool doctor_is_live(const Doctor *d);
/* The word in brackets of "always [madvise] never", else the whole line. */
int doctor_choice(const Doctor *d, const char *path, char **ret);
/* Is a process of that name (comm) there? Its pid, or 0. */
pid_t doctor_find_process(const Doctor *d, const char *comm);
bool doctor_applied(const Doctor *d, const Task *t);

/* The first few of many, as "a, b, c and 5 more". */
typedef struct Listing {
        unsigned n, shown, limit; /* limit 0: a few */
        char text[600];
} Listing;
void listing_add(Listing *l, const char *format, ...) _printf_(2, 3);
const char *listing_end(Listing *l);

static inline const char *plural(size_t n) {
        return n == 1 ? "" : "s";
}

int doctor_numa_balancing(Doctor *d);
int doctor_governor(Doctor *d);
int doctor_isolation(Doctor *d);
int doctor_huge_pages(Doctor *d);
int doctor_swap(Doctor *d);
int doctor_zone_reclaim(Doctor *d);
int doctor_smt(Doctor *d);
int doctor_offline(Doctor *d);

int doctor_irqbalance(Doctor *d);
int doctor_kubelet(Doctor *d);
int doctor_rivals(Doctor *d);

int doctor_device_node(Doctor *d);
int doctor_device_irqs(Doctor *d);
/* MSI vectors of a device; caller frees. n 0: none, or no PCI address. */
int doctor_device_vectors(const Doctor *d, const Device *device, int **ret, size_t *ret_n);

int doctor_cpu_wall(Doctor *d);
int doctor_memory_wall(Doctor *d);
int doctor_pins(Doctor *d);
int doctor_vllm(Doctor *d);
int doctor_masks(Doctor *d);
int doctor_shared(Doctor *d);
