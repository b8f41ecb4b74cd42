/* SPDX-License-Identifier: Apache-2.0 */
/* What kernel-tabu.inc.h includes once for each pair of types of gains and dense weights. */
#define TABU_LANES (TABU_VECTOR / sizeof(TABU_GAIN))
#define TABU_VECTORS (TABU_BLOCK / TABU_LANES)
typedef TABU_WEIGHT TABU_W(TabuRow) __attribute__((vector_size(TABU_LANES * sizeof(TABU_WEIGHT)), may_alias));

#ifndef TABU_WIDE
#define TABU_WIDE(row) __builtin_convertvector(*(row), TABU_(TabuV))
#endif

static uint32_t TABU_W(tabu_dense)(TabuWalk *w, uint32_t i, uint32_t tenure) {
        const TABU_W(TabuRow) *row = (const TABU_W(TabuRow) *) ((const TABU_WEIGHT *) w->dense + i * w->stride);
        TABU_(TabuV) *gain = (TABU_(TabuV) *) w->gain, *lows = (TABU_(TabuV) *) w->low;
        const TABU_(TabuV) *ones = (const TABU_(TabuV) *) w->ones, *closed = (const TABU_(TabuV) *) w->closed;
        TABU_(TabuV) open = TABU_(tabu_all)(TABU_MOST), all = open, flip;
        const uint32_t blocks = w->blocks;
#ifdef TABU_SHIFT
        const TABU_GAIN shift = (TABU_GAIN) TABU_SHIFT(w);
#endif

        TABU_(tabu_turn)(w, i, tenure);
        flip = TABU_(tabu_all)((TABU_GAIN) ~((const TABU_GAIN *) w->ones)[i]);
        for (uint32_t b = 0; b < blocks; b++) {
                TABU_(TabuV) low = TABU_(tabu_all)(TABU_MOST);

#pragma GCC unroll 8
                for (unsigned k = 0; k < TABU_VECTORS; k++) {
                        TABU_(TabuV) turn = *ones++ ^ flip, d = TABU_WIDE(row++);

#ifdef TABU_SHIFT
                        d <<= shift;
#endif
                        d = *gain + ((d ^ turn) - turn);
                        *gain++ = d;
                        all = TABU_(tabu_min)(all, d);
                        low = TABU_(tabu_min)(low, TABU_(tabu_max)(d, *closed++));
                }
                lows[b] = low;
                open = TABU_(tabu_min)(open, low);
        }
        return TABU_(tabu_choose)(w, TABU_(tabu_least)(open), TABU_(tabu_least)(all));
}
#undef TABU_W
#undef TABU_WEIGHT
#undef TABU_SHIFT
#undef TABU_WIDE
#undef TABU_LANES
#undef TABU_VECTORS
