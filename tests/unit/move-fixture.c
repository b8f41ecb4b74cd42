/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/move-fixture.h"

#include <sys/stat.h>

#include "common/fileio.h"

FakeKernel kernel;

uint64_t page_size(void) {
        return (uint64_t) sysconf(_SC_PAGESIZE);
}

static uint64_t fake_now(void *userdata) {
        return kernel.clock;
}

static long fake_query(size_t n, void *const *pages, int *status) {
        kernel.queries++;
        kernel.clock += kernel.per_query * n;
        for (size_t i = 0; i < n; i++) {
                uint64_t p = ((uint64_t) (uintptr_t) pages[i] - BASE) / page_size();

                status[i] = p >= kernel.n_pages || kernel.trait[p] == ABSENT ? -ENOENT : kernel.node[p];
        }
        return 0;
}

static long fake_move(void *userdata, pid_t pid, size_t n, void *const *pages, const int *nodes, int *status) {
        kernel.last = pid;
        assert_true(n > 0);
        if (!nodes)
                return fake_query(n, pages, status);
        if (kernel.before)
                kernel.before();
        if (kernel.fail_with && kernel.moves >= kernel.fail_after)
                return kernel.fail_with;
        kernel.moves++;
        kernel.largest = MAX(kernel.largest, n);
        kernel.clock += kernel.per_call;
        for (size_t i = 0; i < n; i++) {
                uint64_t p = ((uint64_t) (uintptr_t) pages[i] - BASE) / page_size();

                assert_true(p < kernel.n_pages);
                switch (kernel.trait[p]) {
                case STUCK: return (long) (n - i);
                case BUSY: status[i] = -EBUSY; break;
                case SHARED: status[i] = -EACCES; break;
                case REFUSES: status[i] = -EIO; break;
                case ABSENT: status[i] = -ENOENT; break;
                case FREE:
                        kernel.clock += kernel.per_page;
                        kernel.node[p] = nodes[i];
                        status[i] = nodes[i];
                        break;
                }
        }
        return 0;
}

static bool fake_same_space(void *userdata, pid_t a, pid_t b) {
        return a / 10 == 10 && b / 10 == 10;
}

const MoveOps fake_ops = { fake_now, fake_move, fake_same_space, NULL };

void put(const char *path, const char *format, ...) {
        _cleanup_free_ char *full = NULL, *text = NULL, *dir = NULL;
        va_list ap;
        FILE *f;

        va_start(ap, format);
        assert_true(vasprintf(&text, format, ap) >= 0);
        va_end(ap);
        full = path_join(kernel.root, path);
        dir = strdup(full);
        *strrchr(dir, '/') = '\0';
        assert_int_equal(mkdir_parents(dir, 0755), 0);
        f = fopen(full, "we");
        assert_non_null(f);
        fputs(text, f);
        fclose(f);
}

void put_node(unsigned node, uint64_t total_kb, uint64_t free_kb) {
        char path[80];

        (void) snprintf(path, sizeof(path), "sys/devices/system/node/node%u/meminfo", node);
        put(path, "Node %u MemTotal:       %" PRIu64 " kB\nNode %u MemFree:        %" PRIu64 " kB\n", node, total_kb,
            node, free_kb);
}

void put_pressure(const char *path, double avg10) {
        put(path, "some avg10=%.2f avg60=0.00 avg300=0.00 total=5\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n",
            avg10);
}

void put_status(pid_t pid, const char *mems) {
        char path[40];

        (void) snprintf(path, sizeof(path), "proc/%d/status", (int) pid);
        put(path, "Name:\tx\nUid:\t0\t0\t0\t0\nCpus_allowed_list:\t0-3\nMems_allowed_list:\t%s\n", mems);
}

int move_setup(void **state) {
        memset(&kernel, 0, sizeof(kernel));
        strcpy(kernel.root, "/tmp/qsched-move-XXXXXX");
        assert_non_null(mkdtemp(kernel.root));
        kernel.per_page = 10;
        kernel.per_call = 50;
        put_node(0, 16 << 20, 8 << 20);
        put_node(1, 16 << 20, 8 << 20);
        put_pressure("proc/pressure/memory", 0);
        put_status(PID, "0-1");
        return 0;
}

int move_teardown(void **state) {
        _cleanup_free_ char *command = NULL;

        assert_true(asprintf(&command, "rm -rf '%s'", kernel.root) >= 0);
        return system(command);
}

void put_pages(pid_t pid, unsigned n, unsigned each) {
        _cleanup_free_ char *text = NULL;
        char path[40];
        size_t size;
        FILE *f = open_memstream(&text, &size);

        kernel.n_pages = n;
        for (unsigned i = 0; i < n; i += each)
                fprintf(f, "%" PRIx64 "-%" PRIx64 " rw-p 00000000 00:00 0 \n", BASE + i * page_size(),
                        BASE + MIN(i + each, n) * page_size());
        fprintf(f, "7f0000000000-7f8000000000 ---p 00000000 00:00 0 \n");
        fclose(f);
        (void) snprintf(path, sizeof(path), "proc/%d/maps", (int) pid);
        put(path, "%s", text);
}

MovePages *new_move(const char *nodes, const MoveParams *params) {
        MoveParams p = params ? *params : move_params_default;
        _cleanup_(bitset_done) Bitset b = BITSET_EMPTY;
        MovePages *m;

        p.root = kernel.root;
        assert_int_equal(bitset_parse(nodes, &b), 0);
        assert_int_equal(move_pages_new((Process){ PID, 1 }, &b, &p, &fake_ops, &m), 0);
        return m;
}

void check_sum(const MoveReport *r) {
        assert_int_equal(r->seen, r->moved + r->already + r->busy + r->shared + r->absent + r->failed + r->left);
}

const MoveReport *run(MovePages *m) {
        unsigned steps = 0;

        while (move_pages_step(m) > 0)
                assert_true(++steps < 1000000);
        check_sum(move_pages_report(m));
        return move_pages_report(m);
}
