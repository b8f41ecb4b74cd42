/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that Run placed, and their end. Each is watched by a pidfd, so that its job ends with it and not a tick
 * later; the tick looks too, which is all there is before Linux 5.3.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#include "common/log.h"
#include "daemon/manager-internal.h"

/* Run's processes that ended leave their job; a job that Run made ends with the last of them. */
void manager_end_runs(Manager *m) {
        bool ended = false;
        int r;

        for (size_t i = m->jobs->n_jobs; i-- > 0;) {
                _cleanup_(applied_job_unrefp) AppliedJob *j = applied_job_ref(m->jobs->jobs[i]);
                Outcome outcome = {};
                size_t before = j->n_processes;

                for (size_t k = j->n_processes; k-- > 0;)
                        if (process_is(j->processes[k].pid, j->processes[k].start_time) == 0)
                                applied_job_remove_process(j, k);
                if (j->n_processes == before)
                        continue;
                ended = true;
                if (j->run && j->n_processes == 0) {
                        log_info("Job %s: its last process ended", j->job->name);
                        r = manager_revert_job(m, j, "its last process ended", &outcome);
                        outcome_done(&outcome);
                } else
                        r = job_store_save(m->jobs, j);
                if (r < 0)
                        (void) log_warning_errno(r, "Failed to let go of what ended in job %s: %m", j->job->name);
        }
        r = ended ? enforce_sweep(m->enforcer) : 0;
        if (r < 0)
                (void) log_warning_errno(r, "Failed to remove empty groups: %m");
}

/* The loop owns the source, and that its descriptor, until then. */
static int on_run_end(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        (void) sd_event_source_set_floating(source, false); /* drops the only reference */
        manager_tick_soon(userdata);
        return 0;
}

void manager_watch_run(Manager *m, Process p) {
        _cleanup_close_ int fd = -1;
        sd_event_source *source;

        fd = (int) syscall(SYS_pidfd_open, p.pid, 0);
        if (fd < 0 || process_is(p.pid, p.start_time) != 1 ||
            sd_event_add_io(m->event, &source, fd, EPOLLIN, on_run_end, m) < 0)
                return;
        (void) sd_event_source_set_io_fd_own(source, true);
        TAKE_FD(fd);
        (void) sd_event_source_set_floating(source, true);
        sd_event_source_unref(source);
}

void manager_watch_runs(Manager *m) {
        for (size_t i = 0; i < m->jobs->n_jobs; i++)
                for (size_t k = 0; k < m->jobs->jobs[i]->n_processes; k++)
                        manager_watch_run(m, m->jobs->jobs[i]->processes[k]);
}
