/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layers of a simulated QAOA circuit on single-precision amplitudes, in chunks of QAOA_LANES real parts followed by
 * as many imaginary ones: one cache line, so that a strided walk has one stream and every load is a whole vector.
 *
 * The rotation exp(i b X) = cos b (1 + i tan b X) is applied in its tangent form, two products and two sums for each
 * amplitude; the cosines of all qubits and layers are one number that the caller keeps. A pass over memory takes four
 * or eight amplitudes at once, that is two or three qubits. The phase is a sine and a cosine of each energy, by quadrant
 * and polynomial (the minimax coefficients of Cephes' sinf and cosf): as fast as looking up a table of phases would be,
 * however many energies there are.
 */

#define QAOA_V (sizeof(float) * QAOA_LANES)

typedef float QaoaReal __attribute__((vector_size(QAOA_V), may_alias));
typedef int32_t QaoaInt __attribute__((vector_size(QAOA_V), may_alias));
typedef struct QaoaChunk {
        QaoaReal re, im;
} QaoaChunk;

#define QAOA_INLINE static inline __attribute__((always_inline))

/* A pair of amplitudes that differ in one qubit: both times (1 + i t X). */
QAOA_INLINE void qaoa_pair(QaoaChunk *a, QaoaChunk *b, float t) {
        QaoaReal re = a->re, im = a->im;

        a->re = re - t * b->im;
        a->im = im + t * b->re;
        b->re = b->re - t * im;
        b->im = b->im + t * re;
}

static void qaoa_rx_two(QaoaChunk *a, size_t stride, size_t chunks, float t) {
        for (QaoaChunk *end = a + chunks; a < end; a += 2 * stride)
                for (size_t i = 0; i < stride; i++)
                        qaoa_pair(&a[i], &a[i + stride], t);
}

static void qaoa_rx_four(QaoaChunk *a, size_t stride, size_t chunks, float t) {
        for (QaoaChunk *end = a + chunks; a < end; a += 4 * stride)
                for (size_t i = 0; i < stride; i++) {
                        QaoaChunk v0 = a[i], v1 = a[i + stride], v2 = a[i + 2 * stride], v3 = a[i + 3 * stride];

                        qaoa_pair(&v0, &v1, t);
                        qaoa_pair(&v2, &v3, t);
                        qaoa_pair(&v0, &v2, t);
                        qaoa_pair(&v1, &v3, t);
                        a[i] = v0;
                        a[i + stride] = v1;
                        a[i + 2 * stride] = v2;
                        a[i + 3 * stride] = v3;
                }
}

/* k qubits, the first of which tells amplitudes apart that are stride chunks from each other. */
static void qaoa_rx(float *amplitude, size_t stride, unsigned k, size_t chunks, float t) {
        QaoaChunk *a = (QaoaChunk *) (void *) amplitude;

        for (; k >= 2; k -= 2, stride *= 4)
                qaoa_rx_four(a, stride, chunks, t);
        if (k == 1)
                qaoa_rx_two(a, stride, chunks, t);
}

#define QAOA_SWAP1(v) __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6)
#define QAOA_SWAP2(v) __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5)
#define QAOA_SWAP4(v) __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3)
#define QAOA_WITHIN(c, SWAP, t)                                                                                        \
        do {                                                                                                           \
                QaoaReal _re = SWAP((c).re), _im = SWAP((c).im);                                                       \
                (c).re = (c).re - (t) *_im;                                                                            \
                (c).im = (c).im + (t) *_re;                                                                            \
        } while (0)

/* The first k qubits, at most 3: their amplitudes are lanes of one chunk. */
static void qaoa_rx_low(float *amplitude, unsigned k, size_t chunks, float t) {
        QaoaChunk *a = (QaoaChunk *) (void *) amplitude;

        for (size_t i = 0; i < chunks; i++) {
                QaoaChunk c = a[i];

                if (k > 0)
                        QAOA_WITHIN(c, QAOA_SWAP1, t);
                if (k > 1)
                        QAOA_WITHIN(c, QAOA_SWAP2, t);
                if (k > 2)
                        QAOA_WITHIN(c, QAOA_SWAP4, t);
                a[i] = c;
        }
}

/* exp(-2 pi i turns energy): the quarter turn that is nearest, and polynomials for what is left of it. */
QAOA_INLINE void qaoa_cis(const QaoaReal *energy, float turns, QaoaReal *ret_cos, QaoaReal *ret_sin) {
        const float magic = 12582912.0F; /* 1.5 * 2^23: adding it rounds to a whole number */
        QaoaReal quarters = *energy * (turns * -4.0F), shifted = quarters + magic;
        QaoaReal x = (quarters - (shifted - magic)) * 1.57079632679F, z = x * x;
        QaoaReal s = ((-1.9515295891e-4F * z + 8.3321608736e-3F) * z - 1.6666654611e-1F) * z * x + x;
        QaoaReal c = ((2.443315711809948e-5F * z - 1.388731625493765e-3F) * z + 4.166664568298827e-2F) * z * z -
                     0.5F * z + 1.0F;
        QaoaInt k = (QaoaInt) shifted, odd = -(k & 1);
        QaoaInt cos_sign = ((k + 1) & 2) << 30, sin_sign = (k & 2) << 30;

        *ret_cos = (QaoaReal) ((((QaoaInt) s & odd) | ((QaoaInt) c & ~odd)) ^ cos_sign);
        *ret_sin = (QaoaReal) ((((QaoaInt) c & odd) | ((QaoaInt) s & ~odd)) ^ sin_sign);
}

/* Each amplitude times factor exp(-2 pi i turns energy). Fresh: the amplitudes are all 1 before. */
static void qaoa_phase(float *amplitude, const float *energy, size_t chunks, float turns, float factor, bool fresh) {
        QaoaChunk *a = (QaoaChunk *) (void *) amplitude;
        const QaoaReal *e = (const QaoaReal *) (const void *) energy;

        for (size_t i = 0; i < chunks; i++) {
                QaoaReal c, s;

                qaoa_cis(&e[i], turns, &c, &s);
                c *= factor;
                s *= factor;
                if (fresh)
                        a[i] = (QaoaChunk){ .re = c, .im = s };
                else
                        a[i] = (QaoaChunk){ .re = a[i].re * c - a[i].im * s, .im = a[i].re * s + a[i].im * c };
        }
}

/*
 * The mixer of one-hot groups of d choices, stride chunks apart: 1 + (re + i im) J, J all ones; see qaoa-state.h. Four
 * columns at a time, so that sums do not wait for each other, and in parts, so that single precision suffices.
 */
#define QAOA_PART 32U

QAOA_INLINE void qaoa_plus(QaoaChunk *sum, const QaoaChunk *a) {
        sum->re += a->re;
        sum->im += a->im;
}

QAOA_INLINE QaoaChunk qaoa_times(const QaoaChunk *a, float re, float im) {
        return (QaoaChunk){ .re = re * a->re - im * a->im, .im = re * a->im + im * a->re };
}

static void qaoa_mix_one(QaoaChunk *a, size_t stride, size_t d, float re, float im) {
        QaoaChunk sum = {}, *end = a + d * stride;

        for (QaoaChunk *at = a; at < end;) {
                QaoaChunk part = *at, *stop = at + MIN((size_t) (end - at), QAOA_PART * stride);

                for (at += stride; at < stop; at += stride)
                        qaoa_plus(&part, at);
                qaoa_plus(&sum, &part);
        }
        sum = qaoa_times(&sum, re, im);
        for (; a < end; a += stride)
                qaoa_plus(a, &sum);
}

/* The same of four columns, "step" from each other. */
static void qaoa_mix_four(QaoaChunk *a, size_t stride, size_t d, size_t step, float re, float im) {
        QaoaChunk s0 = {}, s1 = {}, s2 = {}, s3 = {}, *end = a + d * stride;

        for (QaoaChunk *at = a; at < end;) {
                QaoaChunk p0 = at[0], p1 = at[step], p2 = at[2 * step], p3 = at[3 * step];
                QaoaChunk *stop = at + MIN((size_t) (end - at), QAOA_PART * stride);

                for (at += stride; at < stop; at += stride) {
                        qaoa_plus(&p0, at);
                        qaoa_plus(&p1, at + step);
                        qaoa_plus(&p2, at + 2 * step);
                        qaoa_plus(&p3, at + 3 * step);
                }
                qaoa_plus(&s0, &p0);
                qaoa_plus(&s1, &p1);
                qaoa_plus(&s2, &p2);
                qaoa_plus(&s3, &p3);
        }
        s0 = qaoa_times(&s0, re, im);
        s1 = qaoa_times(&s1, re, im);
        s2 = qaoa_times(&s2, re, im);
        s3 = qaoa_times(&s3, re, im);
        for (; a < end; a += stride) {
                qaoa_plus(a, &s0);
                qaoa_plus(a + step, &s1);
                qaoa_plus(a + 2 * step, &s2);
                qaoa_plus(a + 3 * step, &s3);
        }
}

/* Columns beside each other; where there are too few of them, those of groups beside each other. */
static void qaoa_mix(float *amplitude, size_t stride, size_t d, size_t chunks, float re, float im) {
        QaoaChunk *a = (QaoaChunk *) (void *) amplitude, *end = a + chunks;
        size_t group = d * stride;

        for (; stride < 4 && (size_t) (end - a) >= 4 * group; a += 4 * group)
                for (size_t i = 0; i < stride; i++)
                        qaoa_mix_four(a + i, stride, d, group, re, im);
        for (; a < end; a += group) {
                size_t i = 0;

                for (; i + 4 <= stride; i += 4)
                        qaoa_mix_four(a + i, stride, d, 1, re, im);
                for (; i < stride; i++)
                        qaoa_mix_one(a + i, stride, d, re, im);
        }
}

#define QAOA_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define QAOA_HIGH(a, b) __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define QAOA_EVEN(a, b) __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define QAOA_ODD(a, b) __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define QAOA_FRONT(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define QAOA_BACK(a, b) __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)

/* A square of vectors; strides in vectors. */
QAOA_INLINE void qaoa_transpose(QaoaReal *to, size_t n, const QaoaReal *from, size_t m) {
        QaoaReal a0 = QAOA_LOW(from[0], from[m]), a1 = QAOA_HIGH(from[0], from[m]);
        QaoaReal a2 = QAOA_LOW(from[2 * m], from[3 * m]), a3 = QAOA_HIGH(from[2 * m], from[3 * m]);
        QaoaReal a4 = QAOA_LOW(from[4 * m], from[5 * m]), a5 = QAOA_HIGH(from[4 * m], from[5 * m]);
        QaoaReal a6 = QAOA_LOW(from[6 * m], from[7 * m]), a7 = QAOA_HIGH(from[6 * m], from[7 * m]);
        QaoaReal b0 = QAOA_EVEN(a0, a2), b1 = QAOA_ODD(a0, a2), b2 = QAOA_EVEN(a1, a3), b3 = QAOA_ODD(a1, a3);
        QaoaReal b4 = QAOA_EVEN(a4, a6), b5 = QAOA_ODD(a4, a6), b6 = QAOA_EVEN(a5, a7), b7 = QAOA_ODD(a5, a7);

        to[0] = QAOA_FRONT(b0, b4);
        to[n] = QAOA_FRONT(b1, b5);
        to[2 * n] = QAOA_FRONT(b2, b6);
        to[3 * n] = QAOA_FRONT(b3, b7);
        to[4 * n] = QAOA_BACK(b0, b4);
        to[5 * n] = QAOA_BACK(b1, b5);
        to[6 * n] = QAOA_BACK(b2, b6);
        to[7 * n] = QAOA_BACK(b3, b7);
}

/* Eight rows of chunks, one after the other, from amplitudes of a row in lanes to amplitudes of eight rows in lanes. */
static void qaoa_turn(float *to, const float *from, size_t row) {
        for (size_t i = 0; i < row; i++)
                for (size_t part = 0; part < 2; part++)
                        qaoa_transpose((QaoaReal *) (void *) to + i * QAOA_LANES * 2 + part, 2,
                                       (const QaoaReal *) (const void *) from + i * 2 + part, row * 2);
}

static void qaoa_turn_back(float *to, const float *from, size_t row) {
        for (size_t i = 0; i < row; i++)
                for (size_t part = 0; part < 2; part++)
                        qaoa_transpose((QaoaReal *) (void *) to + i * 2 + part, row * 2,
                                       (const QaoaReal *) (const void *) from + i * QAOA_LANES * 2 + part, 2);
}

/* Rows of so many columns, stride chunks apart, into a tile of rows without gaps; and back. */
static void qaoa_gather(float *tile, const float *amplitude, size_t rows, size_t stride, size_t columns) {
        QaoaChunk *t = (QaoaChunk *) (void *) tile;
        const QaoaChunk *a = (const QaoaChunk *) (const void *) amplitude;

        for (size_t j = 0; j < rows; j++, a += stride)
                for (size_t k = 0; k < columns; k++)
                        *t++ = a[k];
}

static void qaoa_scatter(float *amplitude, const float *tile, size_t rows, size_t stride, size_t columns) {
        QaoaChunk *a = (QaoaChunk *) (void *) amplitude;
        const QaoaChunk *t = (const QaoaChunk *) (const void *) tile;

        for (size_t j = 0; j < rows; j++, a += stride)
                for (size_t k = 0; k < columns; k++)
                        a[k] = *t++;
}

/* Adds the sums of |a|^2 and |a|^2 energy; at most a few thousand chunks, summed in single precision. */
static void qaoa_moments(const float *amplitude, const float *energy, size_t chunks, double ret[static 2]) {
        const QaoaChunk *a = (const QaoaChunk *) (const void *) amplitude;
        const QaoaReal *e = (const QaoaReal *) (const void *) energy;
        QaoaReal norm[2] = {}, sum[2] = {};

        for (size_t i = 0; i < chunks; i++) {
                QaoaReal square = a[i].re * a[i].re + a[i].im * a[i].im;

                norm[i % 2] += square;
                sum[i % 2] += square * e[i];
        }
        norm[0] += norm[1];
        sum[0] += sum[1];
        for (unsigned lane = 0; lane < QAOA_LANES; lane++) {
                ret[0] += (double) norm[0][lane];
                ret[1] += (double) sum[0][lane];
        }
}
