# readers: one kernel or file interface each; ctl uses them too
noinst_LTLIBRARIES += libreaders.la libdaemon.la
libreaders_la_SOURCES = \
	daemon/readers/author.c daemon/readers/author.h daemon/readers/cgroup.c daemon/readers/cgroup.h \
	daemon/readers/device-text.c daemon/readers/device-text.h daemon/readers/devices.c daemon/readers/devices.h \
	daemon/readers/doctor-devices.c daemon/readers/doctor-internal.h daemon/readers/doctor-kernel.c \
	daemon/readers/doctor-rivals.c daemon/readers/doctor-tasks.c daemon/readers/doctor.c daemon/readers/doctor.h \
	daemon/readers/host.c daemon/readers/host.h daemon/readers/jobfile.c daemon/readers/jobfile.h \
	daemon/readers/kubelet.c daemon/readers/machine-check.c daemon/readers/machine-guard.c \
	daemon/readers/machine-internal.h daemon/readers/machine-pci.c daemon/readers/machine-topology.c \
	daemon/readers/machine-watch.c daemon/readers/machine-watch.h daemon/readers/machine.c \
	daemon/readers/machine.h daemon/readers/owner.c daemon/readers/pins.c daemon/readers/pins.h \
	daemon/readers/process.c daemon/readers/process.h daemon/readers/psi.c daemon/readers/psi.h \
	daemon/readers/rank-identity.c daemon/readers/rank-identity.h daemon/readers/role-threads.c \
	daemon/readers/role-threads.h daemon/readers/rolefile.c daemon/readers/rolefile.h \
	daemon/readers/task-devices.c daemon/readers/task-devices.h daemon/readers/tasks-family.c \
	daemon/readers/tasks-internal.h daemon/readers/tasks-scan.c daemon/readers/tasks.c daemon/readers/tasks.h
libreaders_la_LIBADD = $(HWLOC_LIBS)
libdaemon_la_SOURCES = \
	daemon/authority.c daemon/authority.h daemon/bus-internal.h daemon/bus-objects.c daemon/bus-objects.h \
	daemon/bus-signals.c daemon/bus.c daemon/bus.h daemon/collect.c daemon/collect.h daemon/config.c \
	daemon/config.h daemon/enforce-born.c daemon/enforce-bus.c daemon/enforce-cpuset.c daemon/enforce-drift.c \
	daemon/enforce-drift.h daemon/enforce-group-file.c daemon/enforce-group.c daemon/enforce-internal.h \
	daemon/enforce-outcome.c daemon/enforce-revert-internal.h daemon/enforce-revert.c daemon/enforce-roles.c \
	daemon/enforce-util.c daemon/enforce-wall.c daemon/enforce.c daemon/enforce.h daemon/jobs.c daemon/jobs.h \
	daemon/manager-apply.c daemon/manager-change.c daemon/manager-drift.c daemon/manager-enact.c \
	daemon/manager-internal.h daemon/manager-log.c daemon/manager-machine.c daemon/manager-move.c \
	daemon/manager-run.c daemon/manager-scope.c daemon/manager-show.c daemon/manager-wall.c daemon/manager.c \
	daemon/manager.h daemon/move-limits.c daemon/move-pages-internal.h daemon/move-pages.c daemon/move-pages.h \
	daemon/move-queue.c daemon/move-queue.h daemon/move-report.c daemon/move-walk.c daemon/undo-index.c \
	daemon/undo-internal.h daemon/undo-lines.c daemon/undo-replay.c daemon/undo.c daemon/undo.h daemon/worker.c \
	daemon/worker.h
libdaemon_la_LIBADD = $(SYSTEMD_LIBS)
sbin_PROGRAMS += qschedd
qschedd_SOURCES = daemon/main.c daemon/service.c daemon/service.h
qschedd_LDADD = libdaemon.la libreaders.la libpolicy.la libcommon.la

# interrupts of devices
libreaders_la_SOURCES += daemon/readers/irq.c daemon/readers/irq.h daemon/readers/irqbalance.c daemon/readers/irqbalance.h
libdaemon_la_SOURCES += daemon/manager-irq.c daemon/enforce-irq.c daemon/enforce-irq-back.c daemon/enforce-irq-plan.c daemon/enforce-irq-say.c daemon/enforce-irq-vectors.c \
	daemon/enforce-irq.h daemon/enforce-irq-internal.h

# the last configuration that was in force
libdaemon_la_SOURCES += daemon/config-last.c daemon/config-last.h
