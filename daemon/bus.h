/* SPDX-License-Identifier: Apache-2.0 */
/*
 * org.qsched1 on the system bus: one table of methods (name, signature, names of arguments, does it change something).
 * A pure translation: messages to manager calls and back, authority by polkit (without polkit on the bus: uid 0 and the
 * daemon's own uid), observers to signals and PropertiesChanged. See org.qsched1(5).
 *
 * /org/qsched1              org.qsched1.Manager, org.freedesktop.DBus.ObjectManager
 *   Plan(a(ss) jobs, a{sv} options) -> s json        each job: its text, and the text of the matrix it names or "".
 *                                                    options: solver s, seed t, sweeps t
 *   Apply(a(ss) jobs, a{sv} options) -> s json       as Plan; dry-run b. The plan, "outcome" beside it
 *   Run(s job, a{sv} options) -> s json              places the calling process; the plan, "group" s, "outcome"
 *   Revert(s job) -> s json                          "" all; {"jobs":[names],"outcome":{…}}
 *   Explain(s task) -> s json                        "train/0", a pid, or a job; {"tasks":[plan task with "reasons"], "terms":[…], "weights":{…}}
 *   GetStatus() -> s json
 *   DumpByFileDescriptor() -> h                      the record
 *   Reload()
 *   properties: Version s, Feasible b, Devices u, Tasks u, Jobs u, LastChange t (usec realtime), Energy d
 *   signals: PlanApplied(s job, b changed, u written), Drift(u pid, u tid, s expected, s found, s author, s done; interrupts: 0 and number; groups: tid 0), DeviceFault(s device, s health)
 * /org/qsched1/device/NAME  org.qsched1.Device: Name s Kind s PCI s NUMANode i Memory t Temperature d Power d Health s
 * /org/qsched1/job/NAME     org.qsched1.Job: Name s Priority u Ranks u Matched u
 * /org/qsched1/task/PID     org.qsched1.Task: PID u Name s Job s CPUs s AllowedCPUs s Mems s Devices as Threads u Owner s
 * GetStatus: {"version":s,"pid":n,"state":"idle|solving","cgroup":"none|v1|hybrid|v2","interval_us":n,
 *   "machine":{"source":s,"cpus":n,"nodes":n,"online":"0-1","allowed":"0-1","isolated":"","housekeeping":""},
 *   "devices":[record device],"tasks":[record task, with "owner":s|null,"owner_kind":s,"applied":bool],
 *   "jobs":[{"name":s,"priority":n,"ranks":n,"matched":n,"uid":n,"confined":bool,"run":bool}],
 *   "plan":null | the plan in force as by Plan, "last_change":usec realtime or 0, "ticks":n, "queued":n,
 *   "drift":[{"job":s,"pid":n,"tid":n,"comm":s,"expected":cpus,"found":cpus,"author":s?,"hint":s?,
 *     "done":"left|reasserted|given-up|yielded"}], of groups "path":s for tid, of interrupts "irq":n,"device":s for both
 *   "interrupts":[{"irq":n,"name":s,"device":s,"pci":s,"job":s,"state":"ok|pending|drift|fixed|failed","wanted":cpus,
 *     "affinity":cpus,"effective":cpus, "spilled":true, "error":s, "author":s}],"moves":{"enabled":b,"waiting":n,"running":move|null,
 *     "last":[move]},"walls":[{"job":s,"task":s|null,"pid":n,"nodes":s|null,"state":"set|refused|relaxed","why":s|null}],
 *   "warnings":[sentences]}
 *   move: {"job":s,"task":s,"pid":n,"nodes":s,"stop":"running|done|…" or in Explain "waiting","why":s|null,"sentence":s,
 *     "advice":s,"found":{"0":bytes},"bytes_moved":n,"stall_max_us":n,"pages":{"seen","moved",…},…}, move_report_to_json()
 * Plan tasks of Apply, Run, GetStatus and Explain that are placed, with ThreadRoles=yes: "roles":[{"role":s,"cpus":cpus,
 *   "threads":n,"own":b,"shared":b}] own: cores of its own, shared: … with other helpers
 * Explain: "tasks": plan tasks with "pid", "energy":{"total":x,"terms":{}}, "reasons":[sentences], "now":record task|null;
 *   "memory_by_node":{"0":bytes}|null by numa_maps, null when it may not be read (not one's own process) or time is up,
 *   "memory_complete":b (false: time was up, more was not looked at); "moves":[move] and "drift":[…], of the process and its children;
 *   "terms":[{"name","group","unit","weight","value","help"}] value: of the whole plan; "weights":{"alpha","beta","gamma","delta"}
 * Apply and Run of what is infeasible: Apply answers with the plan ("feasible":false, no "outcome"), Run with .Infeasible.
 * Apply with dry-run: the plan and "dry_run":true, no "outcome". A job without Name= is called "job" (so put the name in).
 * errors: org.qsched1.Error.BadJob, .Infeasible (never for Plan), .NoSuchJob, .NoSuchTask; org.freedesktop.DBus.Error.AccessDenied
 */
#pragma once

#include <systemd/sd-bus.h>

#include "daemon/manager.h"

typedef struct Bus Bus;

/* Connects to the system bus (DBUS_SYSTEM_BUS_ADDRESS), takes the name; logs what fails. Pending requests of the manager
 * are answered (manager_stop) before it is freed. */
int bus_new(sd_event *event, Manager *m, Bus **ret);
Bus *bus_free(Bus *b);
DEFINE_CLEANUP(Bus *, bus_free);
