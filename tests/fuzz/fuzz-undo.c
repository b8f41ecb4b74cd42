/* SPDX-License-Identifier: Apache-2.0 */
/* The undo journal's parser: any text gives entries that are whole, and counts the rest. */
#include "common/macro.h"
#include "daemon/undo.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(undo_freep) Undo *u = NULL;
        const UndoEntry *e;
        unsigned n_bad;
        size_t n;

        if (undo_from_text((const char *) data, size, &n_bad, &u) < 0)
                return 0;
        e = undo_entries(u, &n);
        for (size_t i = 0; i < n; i++) {
                must(e[i].job && e[i].type < _UNDO_MAX);
                if (e[i].type == UNDO_AFFINITY) {
                        must(e[i].tid > 0 && !bitset_isempty(&e[i].old) && !bitset_isempty(&e[i].new));
                        must(undo_find_tid(u, e[i].tid, e[i].tid_start) == &e[i]);
                } else
                        must(e[i].new_path && e[i].new_path[0] == '/');
        }
        return 0;
}
