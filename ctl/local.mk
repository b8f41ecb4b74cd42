bin_PROGRAMS += qschedctl
qschedctl_SOURCES = ctl/main.c ctl/ctl.h
qschedctl_LDADD = libreaders.la libpolicy.la libcommon.la $(SYSTEMD_LIBS)
