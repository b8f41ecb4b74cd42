# decisions: no I/O, clock, log or global; libm, pthread, NLopt and jansson only
noinst_LTLIBRARIES += libpolicy.la libkernels.la
# Fields of kernels may wrap on the way: only differences count (-fwrapv)
KERNEL_CFLAGS = $(AM_CFLAGS) -ffp-contract=off -fwrapv -Wno-psabi
libkernels_la_SOURCES = \
	policy/qubo/kernel-anneal-dense.inc.h \
	policy/qubo/kernel-anneal-lanes.inc.h \
	policy/qubo/kernel-anneal.inc.h \
	policy/qubo/kernel-mask.inc.h \
	policy/qubo/kernel-multispin.inc.h \
	policy/qubo/kernel-qaoa.inc.h \
	policy/qubo/kernel-qap-step.inc.h \
	policy/qubo/kernel-qap.inc.h \
	policy/qubo/kernel-sqa-lanes.inc.h \
	policy/qubo/kernel-sqa.inc.h \
	policy/qubo/kernel-tabu-dense.inc.h \
	policy/qubo/kernel-tabu-gain.inc.h \
	policy/qubo/kernel-tabu.inc.h \
	policy/qubo/kernels-plain.c \
	policy/qubo/kernels.c \
	policy/qubo/kernels.h \
	policy/qubo/kernels.inc.h
libkernels_la_CFLAGS = $(KERNEL_CFLAGS)
libkernels_la_LIBADD =
if X86_64
noinst_LTLIBRARIES += libkernels-avx2.la libkernels-avx512.la
libkernels_avx2_la_SOURCES = policy/qubo/kernels-avx2.c
libkernels_avx2_la_CFLAGS = $(KERNEL_CFLAGS) -mavx2 -mbmi2
libkernels_avx512_la_SOURCES = policy/qubo/kernels-avx512.c
libkernels_avx512_la_CFLAGS = $(KERNEL_CFLAGS) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mbmi2
libkernels_la_LIBADD += libkernels-avx2.la libkernels-avx512.la
endif
EXTRA_DIST += policy/qubo/kernels-avx2.c policy/qubo/kernels-avx512.c
libpolicy_la_SOURCES = policy/topology.c policy/topology.h policy/snapshot.c policy/snapshot.h policy/record.c policy/record.h policy/record-write.c \
	policy/job.c policy/job.h policy/plan.c policy/plan.h policy/decide.c policy/decide.h policy/explain.c policy/explain.h \
	policy/roles.c policy/roles-split.c policy/roles.h \
	policy/qubo/qubo.c policy/qubo/qubo-expand.c policy/qubo/qubo-penalty.c policy/qubo/penalty.h policy/qubo/qubo.h policy/qubo/lower.c policy/qubo/lower.h policy/qubo/lower-bound.c policy/qubo/real.c policy/qubo/real.h policy/qubo/recognise.c policy/qubo/recognise-model.c policy/qubo/recognise-product.c policy/qubo/recognise-prove.c policy/qubo/recognise-solve.c policy/qubo/recognise.h policy/qubo/recognise-internal.h policy/qubo/limit.c policy/qubo/solver.c policy/qubo/solver.h policy/qubo/search.h policy/qubo/rng.h policy/qubo/width.h \
	policy/qubo/frame.c policy/qubo/frame-tables.c policy/qubo/frame.h policy/qubo/state.c \
	policy/qubo/genetic.c policy/qubo/greedy.c policy/qubo/rows.c policy/qubo/rows.h policy/qubo/anneal.c policy/qubo/anneal-dense.c policy/qubo/anneal-lanes.c policy/qubo/anneal.h policy/qubo/multispin.c policy/qubo/multispin.h policy/qubo/sa.c policy/qubo/exact.c policy/qubo/exact.h policy/qubo/bound.c policy/qubo/dual.c policy/qubo/dual.h policy/qubo/onehot.c \
	policy/qubo/sqa.c policy/qubo/sqa.h policy/qubo/sqa-walk.c policy/qubo/pt.c policy/qubo/pt.h policy/qubo/pt-replicas.c policy/qubo/polish.c policy/qubo/polish.h \
	policy/qubo/tabu.c policy/qubo/tabu.h policy/qubo/tabu-walk.c policy/qubo/relink.c \
	policy/qubo/permutation.c policy/qubo/permutation-elite.c policy/qubo/permutation-tabu.c policy/qubo/permutation-walk.c policy/qubo/permutation.h \
	policy/qubo/qaoa.c policy/qubo/qaoa-angles.c policy/qubo/qaoa-energies.c policy/qubo/qaoa-state.c policy/qubo/qaoa-state.h \
	policy/formats/format.h policy/formats/formats.c policy/formats/instance.c policy/formats/internal.h policy/formats/plain.c policy/formats/plain.h policy/formats/read-assign.c policy/formats/read-sparse.c policy/formats/scan.c policy/formats/scan.h policy/formats/solution.c policy/formats/write.c \
	policy/qubo/auto.c policy/qubo/auto-grouped.c policy/qubo/portfolio.c policy/qubo/portfolio.h \
	policy/problems/placement.c policy/problems/placement-model.c policy/problems/placement-kinds.c policy/problems/placement-internal.h policy/problems/placement-terms.c policy/problems/placement.h policy/problems/blocks.c policy/problems/blocks.h policy/problems/packing.c policy/problems/packing.h \
	policy/problems/device-sets.c policy/problems/device-sets.h
libpolicy_la_LIBADD = libkernels.la $(JANSSON_LIBS) $(NLOPT_LIBS) -lm -lpthread
