# What the host's systemd, D-Bus and polkit read, and the commented default configuration
systemunit_DATA = units/qschedd.service
dist_systemunit_DATA = units/qsched.slice
dist_dbuspolicy_DATA = units/org.qsched1.conf
dist_dbussystemservice_DATA = units/org.qsched1.service
dist_polkitaction_DATA = units/org.qsched1.policy

EXTRA_DIST += units/qschedd.service.in units/sysusers.conf units/tmpfiles.conf
CLEANFILES += units/qschedd.service

units/qschedd.service: $(srcdir)/units/qschedd.service.in Makefile
	$(AM_V_GEN)$(MKDIR_P) units && \
	$(SED) -e 's|@sbindir[@]|$(sbindir)|g' $(srcdir)/units/qschedd.service.in >$@.tmp && mv -f $@.tmp $@

# The default configuration is what the daemon's own table prints. The distribution carries it, so that a cross build,
# which cannot run the daemon, has it too.
if !CROSS
units/qschedd.conf: qschedd$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) units && ./qschedd --print-config >$@.tmp && mv -f $@.tmp $@
endif
noinst_DATA = units/qschedd.conf
EXTRA_DIST += units/qschedd.conf
clean-local:
	test '$(srcdir)' = . && test ! -e .git || rm -f units/qschedd.conf

# An administrator's configuration stays; the new default is then put beside it.
install-data-local: units/qschedd.conf
	$(MKDIR_P) '$(DESTDIR)$(sysconfdir)/qsched/qschedd.conf.d'
	@from=units/qschedd.conf; test -f "$$from" || from='$(srcdir)/units/qschedd.conf'; \
	to='$(DESTDIR)$(sysconfdir)/qsched/qschedd.conf'; \
	if test -f "$$to" && ! cmp -s "$$from" "$$to"; then to="$$to.new"; fi; \
	echo " $(INSTALL_DATA) $$from '$$to'"; $(INSTALL_DATA) "$$from" "$$to"
	$(MKDIR_P) '$(DESTDIR)$(sysusersdir)' '$(DESTDIR)$(tmpfilesdir)'
	$(INSTALL_DATA) $(srcdir)/units/sysusers.conf '$(DESTDIR)$(sysusersdir)/qsched.conf'
	$(INSTALL_DATA) $(srcdir)/units/tmpfiles.conf '$(DESTDIR)$(tmpfilesdir)/qsched.conf'

uninstall-local:
	@from=units/qschedd.conf; test -f "$$from" || from='$(srcdir)/units/qschedd.conf'; \
	to='$(DESTDIR)$(sysconfdir)/qsched/qschedd.conf'; \
	if cmp -s "$$from" "$$to"; then rm -f "$$to"; fi; rm -f "$$to.new"
	-rmdir '$(DESTDIR)$(sysconfdir)/qsched/qschedd.conf.d' '$(DESTDIR)$(sysconfdir)/qsched' 2>/dev/null
	rm -f '$(DESTDIR)$(sysusersdir)/qsched.conf' '$(DESTDIR)$(tmpfilesdir)/qsched.conf'
