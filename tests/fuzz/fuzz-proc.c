/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of /proc and of control groups: whatever stands there, parsers neither crash nor leave half a value. The first
 * byte chooses the parser, so that a corpus file is a text with a letter before it. */
#include "common/macro.h"
#include "daemon/readers/cgroup.h"
#include "daemon/readers/irq.h"
#include "daemon/readers/irqbalance.h"
#include "daemon/readers/process.h"
#include "daemon/readers/rank-identity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_stat(const char *text) {
        ProcStat s;

        if (proc_parse_stat(text, &s) >= 0 && (s.pid <= 0 || strlen(s.comm) >= sizeof(s.comm) || s.state == '\0'))
                abort();
}

static void fuzz_status(const char *text) {
        ProcStatus s;

        if (proc_parse_status(text, &s) >= 0)
                proc_status_done(&s);
}

static void fuzz_cgroup(const char *text) {
        char *paths[_CGROUP_TREE_MAX];

        if (cgroup_parse_pid(text, paths) < 0)
                return;
        for (CgroupTree i = 0; i < _CGROUP_TREE_MAX; i++) {
                _cleanup_free_ char *owner = NULL;

                if (!paths[i])
                        continue;
                if (paths[i][0] != '/')
                        abort();
                OwnerKind kind = cgroup_owner(paths[i], &owner);
                if (kind >= _OWNER_MAX || (kind == OWNER_NONE) != !owner)
                        abort();
                free(paths[i]);
        }
}

static void fuzz_mountinfo(const char *text) {
        Cgroups c;

        if (cgroups_parse_mountinfo(text, "/root", &c) < 0)
                return;
        if (c.mode == CGROUP_NONE && (c.cpuset || c.unified))
                abort();
        if (c.cpuset && strncmp(c.cpuset, "/root", 5) != 0)
                abort();
        cgroups_done(&c);
}

static void fuzz_numa(const char *text, bool maps) {
        TopologyNode nodes[] = { { .os = 0 }, { .os = 3 } };
        const Topology t = { .nodes = nodes, .n_nodes = 2 };
        uint64_t bytes[2] = {};

        if (maps)
                proc_add_numa_maps(text, &t, bytes);
        else
                (void) cgroup_parse_numa_stat(text, 4096, &t, bytes);
}

static void fuzz_environ(const char *block, size_t size) {
        static const char *const kinds[] = { "ascend", "cambricon", "nvidia", "hygon", "x" };
        const unsigned seen[] = { 2, 3, 5 };

        (void) environ_rank(block, size);
        for (size_t i = 0; i < ELEMENTSOF(kinds); i++) {
                _cleanup_free_ unsigned *list = NULL;
                size_t n = 0;

                if (environ_visible_devices(block, size, kinds[i], seen, i % 2 ? 3 : 0, &list, &n) > 0 && n > 0 &&
                    !list)
                        abort();
        }
}

static void fuzz_kubelet(const char *text) {
        _cleanup_free_ char *reason = NULL;
        Bitset b = BITSET_EMPTY;

        if (kubelet_parse_state(text, text, &b, &reason) >= 0 && bitset_isempty(&b) != !reason)
                abort();
        bitset_done(&b);
}

static void fuzz_interrupts(const char *text) {
        IrqTable t;

        if (irq_table_parse(text, &t) < 0)
                return;
        for (size_t i = 0; i < t.n_lines; i++)
                if (strchr(t.lines[i].name, '\n') || !irq_table_find(&t, t.lines[i].irq) ||
                    (i > 0 && t.lines[i - 1].irq > t.lines[i].irq))
                        abort();
        irq_table_done(&t);
}

static void fuzz_irqbalance(const char *text) {
        Bitset b = BITSET_EMPTY;

        if (irqbalance_parse_setup(text, &b) < 0 && !bitset_isempty(&b))
                abort();
        bitset_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ char *text = NULL;

        if (size == 0 || size > 1 << 20)
                return 0;
        text = malloc(size);
        if (!text)
                return 0;
        memcpy(text, data + 1, size - 1);
        text[size - 1] = '\0';
        switch (data[0]) {
        case 's': fuzz_stat(text); break;
        case 'u': fuzz_status(text); break;
        case 'c': fuzz_cgroup(text); break;
        case 'm': fuzz_mountinfo(text); break;
        case 'n':
        case 'N': fuzz_numa(text, data[0] == 'n'); break;
        case 'e': fuzz_environ(text, size - 1); break;
        case 'k': fuzz_kubelet(text); break;
        case 'i': fuzz_interrupts(text); break;
        case 'b': fuzz_irqbalance(text); break;
        default: break;
        }
        return 0;
}
