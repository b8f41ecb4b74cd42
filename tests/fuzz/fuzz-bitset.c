/* SPDX-License-Identifier: Apache-2.0 */
/* What parses must come back the same through the kernel's list format, and a failure must leave the set alone. */
#include "common/bitset.h"

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(bitset_done) Bitset a = BITSET_EMPTY, b = BITSET_EMPTY;
        _cleanup_free_ char *text = strndup((const char *) data, size), *list = NULL;
        unsigned n = 0;

        must(text && bitset_set(&a, 4711) == 0);
        if (bitset_parse(text, &a) < 0) {
                must(bitset_weight(&a) == 1 && bitset_test(&a, 4711));
                return 0;
        }
        must(bitset_format(&a, &list) == 0);
        must(bitset_parse(list, &b) == 0);
        must(bitset_equal(&a, &b));
        BITSET_FOREACH (i, &a)
                n++;
        must(n == bitset_weight(&a));
        bitset_andnot(&b, &a);
        must(bitset_isempty(&b));
        return 0;
}
