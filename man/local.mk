# Lists in the pages are written by man/update from the programs' tables; tests/bats/man.bats compares.
dist_man_MANS += man/qschedctl.1 man/qschedd.8 man/qschedd.conf.5 man/qsched.instance.5 man/qsched.job.5 man/qsched.record.5 man/org.qsched1.5
EXTRA_DIST += man/update

# After a change of a table
update-man: qschedctl$(EXEEXT) qschedd$(EXEEXT)
	bash $(srcdir)/man/update . $(srcdir)/man
.PHONY: update-man
