bin_PROGRAMS += qschedctl
qschedctl_SOURCES = ctl/main.c ctl/ctl.h ctl/verbs.c ctl/output.c ctl/output.h ctl/table.c ctl/canvas.c ctl/json.c \
	ctl/client.c ctl/offline.c ctl/patience.c ctl/plan.c ctl/status.c ctl/drift.c ctl/run.c ctl/explain.c ctl/dump.c ctl/devices.c ctl/doctor.c \
	ctl/solve.c ctl/solve.h ctl/solve-run.c ctl/compare.c ctl/convert.c ctl/model-file.c \
	ctl/topology.c ctl/picture.c ctl/picture-node.c ctl/picture.h
qschedctl_LDADD = libreaders.la libpolicy.la libcommon.la $(SYSTEMD_LIBS)
dist_bashcompletion_DATA = units/completion/qschedctl
