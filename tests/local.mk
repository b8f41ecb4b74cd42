# Every test speaks TAP: cmocka programs (one cmocka_run_group_tests() each), shell scripts that print it, bats files.
# A test that cannot run here skips with a reason. Add yours at the end, in a group of its own.
#   check_PROGRAMS += tests/unit/test-bitset
#   tests_unit_test_bitset_SOURCES = tests/unit/test-bitset.c
#   tests_unit_test_bitset_LDADD = libcommon.la $(CMOCKA_LIBS)
#   TESTS += tests/unit/test-bitset
TEST_EXTENSIONS = .sh .bats
LOG_DRIVER = env AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
LOG_COMPILER = bash $(top_srcdir)/tests/cmocka-tap
SH_LOG_DRIVER = $(LOG_DRIVER)
SH_LOG_COMPILER = bash
BATS_LOG_DRIVER = $(LOG_DRIVER)
BATS_LOG_COMPILER = bash $(top_srcdir)/tests/bats-tap
AM_TESTS_ENVIRONMENT = \
	CMOCKA_MESSAGE_OUTPUT=TAP; export CMOCKA_MESSAGE_OUTPUT; \
	TOP_SRCDIR='$(abs_top_srcdir)'; export TOP_SRCDIR; \
	TOP_BUILDDIR='$(abs_top_builddir)'; export TOP_BUILDDIR; \
	BATS='$(BATS)'; export BATS; \
	TEST_CC='$(CC)'; export TEST_CC; \
	TEST_SANITIZERS='$(SANITIZER_CFLAGS)'; export TEST_SANITIZERS; \
	TEST_POLICY_LIBS='$(JANSSON_LIBS) $(NLOPT_LIBS)'; export TEST_POLICY_LIBS; \
	ASAN_OPTIONS="detect_leaks=1:abort_on_error=0:$$ASAN_OPTIONS"; export ASAN_OPTIONS; \
	UBSAN_OPTIONS="print_stacktrace=1:$$UBSAN_OPTIONS"; export UBSAN_OPTIONS; \
	TSAN_OPTIONS="halt_on_error=1:$$TSAN_OPTIONS"; export TSAN_OPTIONS; \
	LC_ALL=C.UTF-8; export LC_ALL;

EXTRA_DIST += tests/bats-tap tests/cmocka-tap tests/demo $(srcdir)/tests/data

# A process to be placed; the demo, bats files and the guest start it
noinst_PROGRAMS += tests/helpers/worker
tests_helpers_worker_SOURCES = tests/helpers/worker.c
tests_helpers_worker_LDADD = -lpthread

# Layers: upward includes, and policy linked alone
TESTS += tests/layers.sh
EXTRA_DIST += tests/layers.sh

# What make install puts where
TESTS += tests/install.sh
EXTRA_DIST += tests/install.sh

# The booted four-node machine (not part of make check: it takes minutes)
EXTRA_DIST += $(srcdir)/tests/vm
check-vm: all
	$(SHELL) -c 'exec bash $(srcdir)/tests/vm/run "$(abs_top_builddir)"'
.PHONY: check-vm

# common/
check_PROGRAMS += tests/unit/test-bitset tests/unit/test-text tests/unit/test-ini
tests_unit_test_bitset_SOURCES = tests/unit/test-bitset.c
tests_unit_test_bitset_LDADD = libcommon.la $(CMOCKA_LIBS)
tests_unit_test_text_SOURCES = tests/unit/test-text.c
tests_unit_test_text_LDADD = libcommon.la $(CMOCKA_LIBS)
tests_unit_test_ini_SOURCES = tests/unit/test-ini.c
tests_unit_test_ini_LDADD = libcommon.la $(CMOCKA_LIBS)
TESTS += tests/unit/test-bitset tests/unit/test-text tests/unit/test-ini

# Undo journal and enforcement, on real processes
check_PROGRAMS += tests/unit/test-undo tests/unit/test-undo-file
tests_unit_test_undo_SOURCES = tests/unit/test-undo.c tests/unit/undo-fixture.c tests/unit/undo-fixture.h
tests_unit_test_undo_LDADD = libdaemon.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
tests_unit_test_undo_file_SOURCES = tests/unit/test-undo-file.c tests/unit/undo-fixture.c tests/unit/undo-fixture.h
tests_unit_test_undo_file_LDADD = libdaemon.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
TESTS += tests/unit/test-undo tests/unit/test-undo-file
EXTRA_DIST += tests/fuzz/fuzz-undo.c tests/fuzz/corpus/undo
check_PROGRAMS += tests/unit/test-enforce tests/unit/test-enforce-group
tests_unit_test_enforce_SOURCES = tests/unit/test-enforce.c tests/unit/enforce-fixture.c tests/unit/enforce-fixture.h
tests_unit_test_enforce_LDADD = libdaemon.la libreaders.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
tests_unit_test_enforce_group_SOURCES = tests/unit/test-enforce-group.c tests/unit/enforce-fixture.c tests/unit/enforce-fixture.h
tests_unit_test_enforce_group_LDADD = libdaemon.la libreaders.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/test-enforce-random
tests_unit_test_enforce_random_SOURCES = tests/unit/test-enforce-random.c tests/unit/enforce-fixture.c tests/unit/enforce-fixture.h
tests_unit_test_enforce_random_LDADD = libdaemon.la libreaders.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/test-enforce-roles
tests_unit_test_enforce_roles_SOURCES = tests/unit/test-enforce-roles.c tests/unit/enforce-fixture.c tests/unit/enforce-fixture.h
tests_unit_test_enforce_roles_LDADD = libdaemon.la libreaders.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/test-enforce-order
tests_unit_test_enforce_order_SOURCES = tests/unit/test-enforce-order.c tests/unit/enforce-fixture.c tests/unit/enforce-fixture.h
tests_unit_test_enforce_order_LDADD = libdaemon.la libreaders.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
TESTS += tests/unit/test-enforce tests/unit/test-enforce-group tests/unit/test-enforce-order tests/unit/test-enforce-random \
	tests/unit/test-enforce-roles

# Tests look at the whole machine (control groups, masks, interrupts): one after another, whatever -j says.
check-TESTS recheck: AM_MAKEFLAGS = -j1

# For ./dev check, which runs a part of them under sanitizers
print-tests:
	@echo $(TESTS)
.PHONY: print-tests

# QUBO models, solvers and kernels: a file each, of the same name, and what is linked where nothing else is said
LDADD = libpolicy.la libcommon.la $(CMOCKA_LIBS) $(ZLIB_LIBS) -lm
QUBO_TESTS = \
	tests/unit/test-anneal \
	tests/unit/test-genetic \
	tests/unit/test-instances \
	tests/unit/test-kernel-runs \
	tests/unit/test-kernels \
	tests/unit/test-lower \
	tests/unit/test-onehot \
	tests/unit/test-permutation \
	tests/unit/test-portfolio \
	tests/unit/test-pt \
	tests/unit/test-qaoa \
	tests/unit/test-qubo \
	tests/unit/test-real \
	tests/unit/test-recognise \
	tests/unit/test-solvers \
	tests/unit/test-sqa \
	tests/unit/test-tabu
check_PROGRAMS += $(QUBO_TESTS)
TESTS += $(QUBO_TESTS)
EXTRA_DIST += tests/unit/qubo-models.h tests/unit/plain-models.h
# Kernels, and whole runs, on an emulated machine with NEON
TESTS += tests/cross-neon.sh
EXTRA_DIST += tests/cross-neon.sh

# How good and how fast the solvers are: make bench-solver
EXTRA_PROGRAMS += tests/bench/bench-solver
tests_bench_bench_solver_SOURCES = tests/bench/bench-solver.c
tests_bench_bench_solver_LDADD = libpolicy.la libcommon.la $(ZLIB_LIBS)
EXTRA_DIST += tests/bench/solver-goals tests/bench/bench-instructions
EXTRA_PROGRAMS += tests/bench/bench-qaoa
tests_bench_bench_qaoa_SOURCES = tests/bench/bench-qaoa.c tests/unit/qubo-models.h
tests_bench_bench_qaoa_LDADD = libpolicy.la libcommon.la -lm
EXTRA_PROGRAMS += tests/bench/bench-stop
tests_bench_bench_stop_SOURCES = tests/bench/bench-stop.c
tests_bench_bench_stop_LDADD = libpolicy.la libcommon.la
bench-solver: tests/bench/bench-solver$(EXEEXT)
	tests/bench/bench-solver$(EXEEXT) $(srcdir)/tests/bench/solver-goals $(srcdir)/tests/data/instances $(BENCH)
bench-instructions: tests/bench/bench-solver$(EXEEXT)
	$(srcdir)/tests/bench/bench-instructions tests/bench/bench-solver$(EXEEXT) $(srcdir)/tests/data/instances
bench-stop: tests/bench/bench-stop$(EXEEXT)
	tests/bench/bench-stop$(EXEEXT)
bench-qaoa: tests/bench/bench-qaoa$(EXEEXT)
	tests/bench/bench-qaoa$(EXEEXT) quality
.PHONY: bench-solver bench-instructions bench-stop bench-qaoa

# What apply and a steady tick cost with thousands of threads; by hand, on a quiet machine: make bench-apply
EXTRA_DIST += tests/bench/bench-apply
bench-apply: qschedd$(EXEEXT) tests/helpers/worker$(EXEEXT)
	TOP_BUILDDIR=$(abs_top_builddir) $(srcdir)/tests/bench/bench-apply
.PHONY: bench-apply

check_PROGRAMS += tests/unit/test-decide tests/unit/test-decide-sharing
decide_fixture = tests/unit/decide-fixture.h tests/unit/fixture.c tests/unit/fixture.h
tests_unit_test_decide_SOURCES = tests/unit/test-decide.c $(decide_fixture)
tests_unit_test_decide_LDADD = libpolicy.la libcommon.la $(CMOCKA_LIBS)
tests_unit_test_decide_sharing_SOURCES = tests/unit/test-decide-sharing.c $(decide_fixture)
tests_unit_test_decide_sharing_LDADD = libpolicy.la libcommon.la $(CMOCKA_LIBS)
TESTS += tests/unit/test-decide tests/unit/test-decide-sharing

# job files, devices
check_PROGRAMS += tests/unit/test-jobfile tests/unit/test-devices
tests_unit_test_jobfile_SOURCES = tests/unit/test-jobfile.c
tests_unit_test_jobfile_LDADD = libreaders.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
tests_unit_test_devices_SOURCES = tests/unit/test-devices.c
tests_unit_test_devices_LDADD = libreaders.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
TESTS += tests/unit/test-jobfile tests/unit/test-devices

check_PROGRAMS += tests/unit/test-job
tests_unit_test_job_SOURCES = tests/unit/test-job.c tests/unit/fixture.c tests/unit/fixture.h
tests_unit_test_job_LDADD = libpolicy.la libcommon.la $(CMOCKA_LIBS)
TESTS += tests/unit/test-job

# Benchmarks: built on demand, run by hand, never part of a test
EXTRA_PROGRAMS += tests/bench/bench-decide
tests_bench_bench_decide_SOURCES = tests/bench/bench-decide.c tests/unit/fixture.c tests/unit/fixture.h
tests_bench_bench_decide_LDADD = libpolicy.la libcommon.la $(CMOCKA_LIBS)

# configuration
check_PROGRAMS += tests/unit/test-config
tests_unit_test_config_SOURCES = tests/unit/test-config.c
tests_unit_test_config_LDADD = libdaemon.la libreaders.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
TESTS += tests/unit/test-config

# The daemon on a private bus
check_PROGRAMS += tests/helpers/fake-polkit tests/helpers/bus-flood
tests_helpers_fake_polkit_SOURCES = tests/helpers/fake-polkit.c
tests_helpers_fake_polkit_LDADD = $(SYSTEMD_LIBS)
tests_helpers_bus_flood_SOURCES = tests/helpers/bus-flood.c
tests_helpers_bus_flood_LDADD = $(SYSTEMD_LIBS)
TESTS += tests/bats/daemon.bats tests/bats/place.bats tests/bats/restart.bats tests/bats/authority.bats tests/bats/world.bats
EXTRA_DIST += tests/bats/daemon.bats tests/bats/place.bats tests/bats/restart.bats tests/bats/authority.bats tests/bats/world.bats tests/bats/helpers.bash
check_PROGRAMS += tests/unit/test-jobs
tests_unit_test_jobs_SOURCES = tests/unit/test-jobs.c
tests_unit_test_jobs_LDADD = libdaemon.la libreaders.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
TESTS += tests/unit/test-jobs

# Processes, control groups, kubelet: recorded hosts in tests/data/proc, and live processes of the test's own
check_PROGRAMS += tests/unit/test-cgroup tests/unit/test-tasks
tests_unit_test_cgroup_SOURCES = tests/unit/test-cgroup.c
tests_unit_test_cgroup_LDADD = libreaders.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
tests_unit_test_tasks_SOURCES = tests/unit/test-tasks.c tests/unit/recorded-host.h
tests_unit_test_tasks_LDADD = libreaders.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
TESTS += tests/unit/test-cgroup tests/unit/test-tasks

# Fuzz entry points with a main() of their own; the seeds always run, mutations for two seconds each
check_PROGRAMS += tests/fuzz/fuzz-bitset tests/fuzz/fuzz-ini tests/fuzz/fuzz-job tests/fuzz/fuzz-devices tests/fuzz/fuzz-undo \
	tests/fuzz/fuzz-proc
fuzz_main = tests/fuzz/standalone.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_bitset_SOURCES = tests/fuzz/fuzz-bitset.c $(fuzz_main)
tests_fuzz_fuzz_bitset_LDADD = libcommon.la
tests_fuzz_fuzz_ini_SOURCES = tests/fuzz/fuzz-ini.c $(fuzz_main)
tests_fuzz_fuzz_ini_LDADD = libcommon.la
tests_fuzz_fuzz_job_SOURCES = tests/fuzz/fuzz-job.c $(fuzz_main)
tests_fuzz_fuzz_job_LDADD = libreaders.la libpolicy.la libcommon.la
tests_fuzz_fuzz_devices_SOURCES = tests/fuzz/fuzz-devices.c $(fuzz_main)
tests_fuzz_fuzz_devices_LDADD = libreaders.la libpolicy.la libcommon.la
tests_fuzz_fuzz_undo_SOURCES = tests/fuzz/fuzz-undo.c $(fuzz_main)
tests_fuzz_fuzz_undo_LDADD = libdaemon.la libpolicy.la libcommon.la
tests_fuzz_fuzz_proc_SOURCES = tests/fuzz/fuzz-proc.c $(fuzz_main)
tests_fuzz_fuzz_proc_LDADD = libreaders.la libpolicy.la libcommon.la
TESTS += tests/fuzz/smoke.sh
EXTRA_DIST += tests/fuzz/smoke.sh tests/fuzz/seeds

# qschedctl, the manual and the completion
TESTS += tests/bats/ctl.bats tests/bats/ctl-daemon.bats tests/bats/man.bats
EXTRA_DIST += tests/bats/ctl.bats tests/bats/ctl-daemon.bats tests/bats/ctl-helpers.bash tests/bats/man.bats

# Machines and records
check_PROGRAMS += tests/unit/test-machine tests/unit/test-record
tests_unit_test_machine_SOURCES = tests/unit/test-machine.c
tests_unit_test_machine_LDADD = libreaders.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
tests_unit_test_record_SOURCES = tests/unit/test-record.c
tests_unit_test_record_LDADD = libpolicy.la libcommon.la $(CMOCKA_LIBS)
TESTS += tests/unit/test-machine tests/unit/test-record
check_PROGRAMS += tests/fuzz/fuzz-record tests/fuzz/fuzz-xml
tests_fuzz_fuzz_record_SOURCES = tests/fuzz/fuzz-record.c $(fuzz_main)
tests_fuzz_fuzz_record_LDADD = libpolicy.la libcommon.la
tests_fuzz_fuzz_xml_SOURCES = tests/fuzz/fuzz-xml.c $(fuzz_main)
tests_fuzz_fuzz_xml_LDADD = libreaders.la libpolicy.la libcommon.la

# Recorded machines, planned
TESTS += tests/replay/plans.bats
EXTRA_DIST += tests/replay/plans.bats

# Threads by role
check_PROGRAMS += tests/unit/test-roles tests/unit/test-role-threads
tests_unit_test_roles_SOURCES = tests/unit/test-roles.c tests/unit/roles-fixture.h tests/unit/fixture.c tests/unit/fixture.h
tests_unit_test_roles_LDADD = libpolicy.la libcommon.la $(CMOCKA_LIBS)
tests_unit_test_role_threads_SOURCES = tests/unit/test-role-threads.c tests/unit/roles-fixture.h
tests_unit_test_role_threads_LDADD = libreaders.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
TESTS += tests/unit/test-roles tests/unit/test-role-threads

# What works against placement: recorded hosts in tests/data/doctor
check_PROGRAMS += tests/unit/test-doctor
tests_unit_test_doctor_SOURCES = tests/unit/test-doctor.c tests/unit/recorded-host.h
tests_unit_test_doctor_LDADD = libreaders.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
TESTS += tests/unit/test-doctor
TESTS += tests/bats/doctor.bats
EXTRA_DIST += tests/bats/doctor.bats

# What the daemon and qschedctl without it both read of a host
check_PROGRAMS += tests/unit/test-host
tests_unit_test_host_SOURCES = tests/unit/test-host.c tests/unit/recorded-host.h
tests_unit_test_host_LDADD = libreaders.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
TESTS += tests/unit/test-host

# Page moves; the helpers serve tests/vm/memory.bats
check_PROGRAMS += tests/unit/test-move-pages tests/unit/test-move-limits tests/unit/test-move-queue
tests_unit_test_move_pages_SOURCES = tests/unit/test-move-pages.c tests/unit/move-fixture.c tests/unit/move-fixture.h
tests_unit_test_move_pages_LDADD = libdaemon.la libreaders.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
tests_unit_test_move_limits_SOURCES = tests/unit/test-move-limits.c tests/unit/move-fixture.c tests/unit/move-fixture.h
tests_unit_test_move_limits_LDADD = libdaemon.la libreaders.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
tests_unit_test_move_queue_SOURCES = tests/unit/test-move-queue.c tests/unit/move-fixture.c tests/unit/move-fixture.h
tests_unit_test_move_queue_LDADD = libdaemon.la libreaders.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
TESTS += tests/unit/test-move-pages tests/unit/test-move-limits tests/unit/test-move-queue
TESTS += tests/bats/memory.bats
EXTRA_DIST += tests/bats/memory.bats
# Pages that are on the wrong node, in the guest: make bench-memory
EXTRA_DIST += tests/bench/far-memory
bench-memory: all
	$(SHELL) -c 'exec bash $(srcdir)/tests/bench/far-memory "$(abs_top_builddir)"'
.PHONY: bench-memory
noinst_PROGRAMS += tests/helpers/far-memory tests/helpers/move-memory
tests_helpers_far_memory_SOURCES = tests/helpers/far-memory.c
tests_helpers_move_memory_SOURCES = tests/helpers/move-memory.c
tests_helpers_move_memory_LDADD = libdaemon.la libreaders.la libpolicy.la libcommon.la

check_PROGRAMS += tests/unit/test-json
tests_unit_test_json_SOURCES = tests/unit/test-json.c
tests_unit_test_json_LDADD = libcommon.la $(CMOCKA_LIBS)
TESTS += tests/unit/test-json

TESTS += tests/bats/irq.bats tests/bats/drift.bats
EXTRA_DIST += tests/bats/irq.bats tests/bats/drift.bats
# Interrupts: a recorded host in tests/data/irq, vectors of this machine, irqbalance
check_PROGRAMS += tests/unit/test-irq
tests_unit_test_irq_SOURCES = tests/unit/test-irq.c
tests_unit_test_irq_LDADD = libreaders.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/test-enforce-irq tests/unit/test-irq-drift
irq_fixture = tests/unit/irq-fixture.c tests/unit/irq-fixture.h
tests_unit_test_enforce_irq_SOURCES = tests/unit/test-enforce-irq.c $(irq_fixture)
tests_unit_test_enforce_irq_LDFLAGS = -Wl,--wrap=irq_set_affinity
tests_unit_test_enforce_irq_LDADD = libdaemon.la libreaders.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
tests_unit_test_irq_drift_SOURCES = tests/unit/test-irq-drift.c $(irq_fixture)
tests_unit_test_irq_drift_LDFLAGS = -Wl,--wrap=irq_set_affinity
tests_unit_test_irq_drift_LDADD = libdaemon.la libreaders.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
TESTS += tests/unit/test-irq tests/unit/test-enforce-irq tests/unit/test-irq-drift

# Is the machine still the one that was read?
check_PROGRAMS += tests/unit/test-machine-watch
tests_unit_test_machine_watch_SOURCES = tests/unit/test-machine-watch.c
tests_unit_test_machine_watch_LDADD = libreaders.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
TESTS += tests/unit/test-machine-watch

# Looks at the masks of processes all the time; bats files and the guest start it
noinst_PROGRAMS += tests/helpers/mask-watch
tests_helpers_mask_watch_SOURCES = tests/helpers/mask-watch.c
tests_helpers_mask_watch_LDADD = libreaders.la libpolicy.la libcommon.la

# The unit, what the watchdog asks, and state files that are broken
TESTS += tests/bats/service.bats
check_PROGRAMS += tests/unit/test-worker
tests_unit_test_worker_SOURCES = tests/unit/test-worker.c tests/unit/fixture.c tests/unit/fixture.h
tests_unit_test_worker_LDADD = libdaemon.la libreaders.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
TESTS += tests/unit/test-worker
EXTRA_DIST += tests/bats/service.bats tests/vm/service.bats

# A rank's CPUs, split between its threads
TESTS += tests/bats/roles.bats
EXTRA_DIST += tests/bats/roles.bats

# Complaints from real hosts; random sequences against a running daemon: make random N=200 SEED=1
TESTS += tests/bats/complaints.bats tests/bats/random.bats
EXTRA_DIST += tests/bats/complaints.bats tests/bats/random.bats
noinst_PROGRAMS += tests/helpers/sequences
tests_helpers_sequences_SOURCES = tests/helpers/sequences.c tests/helpers/sequences-world.c tests/helpers/sequences-check.c \
	tests/helpers/sequences-account.c tests/helpers/sequences.h
tests_helpers_sequences_LDADD = libdaemon.la libreaders.la libpolicy.la libcommon.la $(SYSTEMD_LIBS) $(JANSSON_LIBS) -lpthread
N = 200
SEED = 1
random: all
	$(AM_TESTS_ENVIRONMENT) QSCHED_RANDOM='$(N)' QSCHED_SEED='$(SEED)' '$(BATS)' --filter 'as many' $(srcdir)/tests/bats/random.bats
.PHONY: random

# Drift: who changed a mask, and what is done about it
check_PROGRAMS += tests/unit/test-author
tests_unit_test_author_SOURCES = tests/unit/test-author.c
tests_unit_test_author_LDADD = libdaemon.la libreaders.la libpolicy.la libcommon.la $(CMOCKA_LIBS)
TESTS += tests/unit/test-author

# Files of models, and qschedctl solve and convert
check_PROGRAMS += tests/unit/test-formats tests/unit/test-format-text
EXTRA_DIST += tests/unit/format-texts.h
TESTS += tests/unit/test-formats tests/unit/test-format-text
check_PROGRAMS += tests/fuzz/fuzz-format
tests_fuzz_fuzz_format_SOURCES = tests/fuzz/fuzz-format.c $(fuzz_main)
tests_fuzz_fuzz_format_LDADD = libpolicy.la libcommon.la
TESTS += tests/bats/solve.bats
EXTRA_DIST += tests/bats/solve.bats
