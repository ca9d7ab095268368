/* int8: weights packed for the loop that reads them, rows quantised one by one, exact integer sums. */
#include "int8.h"
#include "vectors.h"
#include <math.h>
#include <string.h>

/* Weights are packed in panels of outputs; in a panel, four inputs of all its outputs lie together:
 * out[panel][input / 4][output][input % 4]. AVX2's panel is 2 registers of 8 outputs, AVX-512's 4 of 16. */
int panel(int at_level) { return at_level == 2 ? 64 : 16; }

/* weights (outs, width) -> packed, and the sum of each output's weights; width a multiple of 32 */
void pack(const int8_t *weights, long outs, long width, int at_level, int8_t *packed, int32_t *sums) {
    long p = panel(at_level), panels = (outs + p - 1) / p;
    for (long n = 0; n < panels * p; n++) {
        int8_t *to = packed + (n / p) * p * width + (n % p) * 4;
        sums[n] = 0;
        for (long k = 0; k < width; k++) {
            int8_t weight = n < outs ? weights[n * width + k] : 0;
            to[k / 4 * p * 4 + k % 4] = weight;
            sums[n] += weight;
        }
    }
}

AVX2 static float extreme(__m256 x, float sign) {
    float each[8], found = 0.0f;
    _mm256_storeu_ps(each, x);
    for (int i = 0; i < 8; i++) found = sign * each[i] > sign * found ? each[i] : found;
    return found;
}

/* what a row with these extremes has for one; `nothing` is 0, or NaN where a number is none */
AVX2 static Worth worth_of(float low, float high, float nothing, float *times) {
    const float range = high - low, one = (range > 0.0f ? range / (float)MOST : 1.0f) + nothing;
    *times = 1.0f / one;
    return (Worth){one, (int32_t)_mm_cvtss_si32(_mm_set_ss(-low * *times))};
}

AVX2 static Worth quantise_eight(const float *x, long width, uint8_t *q) {
    __m256 most = _mm256_setzero_ps(), least = most, nothing = most;
    for (long k = 0; k < width; k += 8) {
        const __m256 v = _mm256_loadu_ps(x + k);
        most = _mm256_max_ps(most, v), least = _mm256_min_ps(least, v);
        nothing = _mm256_fmadd_ps(v, _mm256_setzero_ps(), nothing); /* of NaN and of infinity it stays NaN */
    }
    float times;
    const Worth worth = worth_of(extreme(least, -1.0f), extreme(most, 1.0f), across(nothing), &times);
    const __m256 by = _mm256_set1_ps(times);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7), zero = _mm256_set1_epi32(worth.zero), end = _mm256_set1_epi8(MOST);
    for (long k = 0; k < width; k += 32) {
        __m256i part[4];
        for (int i = 0; i < 4; i++) part[i] = _mm256_add_epi32(_mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + k + 8 * i), by)), zero);
        const __m256i bytes = _mm256_packus_epi16(_mm256_packs_epi32(part[0], part[1]), _mm256_packs_epi32(part[2], part[3]));
        _mm256_storeu_si256((__m256i *)(q + k), _mm256_min_epu8(_mm256_permutevar8x32_epi32(bytes, order), end));
    }
    return worth;
}

/* the same numbers, for a width that is a multiple of 64 */
AVX512 static Worth quantise_sixteen(const float *x, long width, uint8_t *q) {
    __m512 most = _mm512_setzero_ps(), least = most, nothing = most;
    for (long k = 0; k < width; k += 16) {
        const __m512 v = _mm512_loadu_ps(x + k);
        most = _mm512_max_ps(most, v), least = _mm512_min_ps(least, v);
        nothing = _mm512_fmadd_ps(v, _mm512_setzero_ps(), nothing);
    }
    float times;
    const Worth worth = worth_of(_mm512_reduce_min_ps(least), _mm512_reduce_max_ps(most), across_512(nothing), &times);
    const __m512 by = _mm512_set1_ps(times);
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i zero = _mm512_set1_epi32(worth.zero), end = _mm512_set1_epi8(MOST);
    for (long k = 0; k < width; k += 64) {
        __m512i part[4];
        for (int i = 0; i < 4; i++) part[i] = _mm512_add_epi32(_mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + k + 16 * i), by)), zero);
        const __m512i bytes = _mm512_packus_epi16(_mm512_packs_epi32(part[0], part[1]), _mm512_packs_epi32(part[2], part[3]));
        _mm512_storeu_si512(q + k, _mm512_min_epu8(_mm512_permutexvar_epi32(order, bytes), end));
    }
    return worth;
}

Worth quantise(const float *x, long width, uint8_t *q) {
    return (level() == 2 && width % 64 == 0 ? quantise_sixteen : quantise_eight)(x, width, q);
}

/* ---- tiles: some rows times one panel, and their outputs ---- */

/* where a tile's outputs go, and what its integer sums are worth */
typedef struct {
    const int32_t *sums;
    const float *scales, *bias;
    const Worth *worth; /* of the tile's rows */
    float *y;
    long stride;
    int relu;
} Out;

/* Sums up to 2^24 are exact as floats, too: those of a width of 2,000 always are, and a fused product rounds once. */
#define PUT2(i, n, a)                                                                                                    \
    out = _mm256_cvtepi32_ps(_mm256_loadu_si256((const __m256i *)(o->sums + n)));                                        \
    out = _mm256_fnmadd_ps(out, _mm256_set1_ps((float)o->worth[i].zero), _mm256_cvtepi32_ps(a));                         \
    out = _mm256_mul_ps(_mm256_mul_ps(out, _mm256_set1_ps(o->worth[i].one)), _mm256_loadu_ps(o->scales + n));            \
    out = _mm256_max_ps(least, _mm256_add_ps(out, _mm256_loadu_ps(o->bias + n))); /* so NaN stays NaN */                 \
    _mm256_storeu_ps(o->y + i * o->stride + n, out);
/* 2 x 2 x 127 x 64 is what 16 bits hold: the products of eight inputs are added before they are widened */
#define STEP2(i)                                                                                                         \
    b = _mm256_set1_epi32(*(const int32_t *)(q + i * width + k));                                                        \
    c = _mm256_set1_epi32(*(const int32_t *)(q + i * width + k + 4));                                                    \
    d = _mm256_add_epi16(_mm256_maddubs_epi16(b, w0), _mm256_maddubs_epi16(c, w2));                                      \
    b = _mm256_add_epi16(_mm256_maddubs_epi16(b, w1), _mm256_maddubs_epi16(c, w3));                                      \
    a##i##0 = _mm256_add_epi32(a##i##0, _mm256_madd_epi16(d, one));                                                      \
    a##i##1 = _mm256_add_epi32(a##i##1, _mm256_madd_epi16(b, one));                                                      \
    IN_ORDER(a##i##0, a##i##1)
/* A row after the other: left to itself, GCC begins with all of them at once, and has not the registers to go on. */
#define IN_ORDER(x, y) __asm__ volatile("" : "+x"(x), "+x"(y));

#define ZERO2(i) __m256i a##i##0 = zero, a##i##1 = zero;
#define PUT_ROW2(i) PUT2(i, 0, a##i##0) PUT2(i, 8, a##i##1)
#define ONE(DO) DO(0)
#define TWO(DO) ONE(DO) DO(1)
#define THREE(DO) TWO(DO) DO(2)
#define FOUR(DO) THREE(DO) DO(3)
#define FIVE(DO) FOUR(DO) DO(4)
#define SIX(DO) FIVE(DO) DO(5)

#define TILE_AVX2(NAME, EACH)                                                                                            \
    AVX2 static void NAME(const uint8_t *q, const int8_t *w, long width, const Out *o) {                                 \
        const __m256i one = _mm256_set1_epi16(1), zero = _mm256_setzero_si256();                                         \
        __m256i b, c, d;                                                                                                 \
        EACH(ZERO2)                                                                                                      \
        for (long k = 0; k < width; k += 8, w += 128) {                                                                  \
            const __m256i *v = (const __m256i *)w;                                                                       \
            const __m256i w0 = _mm256_loadu_si256(v), w1 = _mm256_loadu_si256(v + 1);                                    \
            const __m256i w2 = _mm256_loadu_si256(v + 2), w3 = _mm256_loadu_si256(v + 3);                                \
            EACH(STEP2)                                                                                                  \
        }                                                                                                                \
        const __m256 least = _mm256_set1_ps(o->relu ? 0.0f : -INFINITY);                                                 \
        __m256 out;                                                                                                      \
        EACH(PUT_ROW2)                                                                                                   \
    }

TILE_AVX2(four_avx2, FOUR)
TILE_AVX2(three_avx2, THREE)
TILE_AVX2(two_avx2, TWO)
TILE_AVX2(row_avx2, ONE)

/* sixteen outputs of a row; the rows of a tile share what their outputs are worth */
#define PUT4(i, n)                                                                                                       \
    out = _mm512_fnmadd_ps(sums, _mm512_set1_ps((float)worth[i].zero), _mm512_cvtepi32_ps(a##i##n));                     \
    out = _mm512_fmadd_ps(_mm512_mul_ps(out, _mm512_set1_ps(worth[i].one)), scales, bias);                               \
    _mm512_storeu_ps(y + i * stride + 16 * n, _mm512_max_ps(least, out));
#define PUT40(i) PUT4(i, 0)
#define PUT41(i) PUT4(i, 1)
#define PUT42(i) PUT4(i, 2)
#define PUT43(i) PUT4(i, 3)
#define PUT_COLUMN(n, EACH)                                                                                              \
    sums = _mm512_cvtepi32_ps(_mm512_loadu_si512(o->sums + 16 * n));                                                     \
    scales = _mm512_loadu_ps(o->scales + 16 * n), bias = _mm512_loadu_ps(o->bias + 16 * n);                              \
    EACH(PUT4##n)
/* Written out: GCC 12 makes three copies of every sum, one of them in memory, which halves the speed. */
#define DOT(a, b, w) __asm__("vpdpbusd %2, %1, %0" : "+v"(a) : "v"(b), "v"(w))
#define STEP4(i)                                                                                                         \
    b = _mm512_set1_epi32(*(const int32_t *)(q + i * width + k));                                                        \
    DOT(a##i##0, b, w0); DOT(a##i##1, b, w1); DOT(a##i##2, b, w2); DOT(a##i##3, b, w3);
#define ZERO4(i) __m512i a##i##0 = zero, a##i##1 = zero, a##i##2 = zero, a##i##3 = zero;
#define LOAD4                                                                                                            \
    const __m512i w0 = _mm512_loadu_si512(w), w1 = _mm512_loadu_si512(w + 64);                                           \
    const __m512i w2 = _mm512_loadu_si512(w + 128), w3 = _mm512_loadu_si512(w + 192);

#define TILE_VNNI(NAME, EACH)                                                                                            \
    AVX512 static void NAME(const uint8_t *q, const int8_t *w, long width, const Out *o) {                               \
        const __m512i zero = _mm512_setzero_si512();                                                                     \
        __m512i b;                                                                                                       \
        EACH(ZERO4)                                                                                                      \
        for (long k = 0; k < width; k += 4, w += 256) {                                                                  \
            LOAD4 EACH(STEP4)                                                                                            \
        }                                                                                                                \
        const __m512 least = _mm512_set1_ps(o->relu ? 0.0f : -INFINITY);                                                 \
        const Worth *worth = o->worth;                                                                                   \
        const long stride = o->stride;                                                                                   \
        float *y = o->y;                                                                                                 \
        __m512 out, sums, scales, bias;                                                                                  \
        PUT_COLUMN(0, EACH) PUT_COLUMN(1, EACH) PUT_COLUMN(2, EACH) PUT_COLUMN(3, EACH)                                  \
    }

TILE_VNNI(six_vnni, SIX)
TILE_VNNI(five_vnni, FIVE)
TILE_VNNI(four_vnni, FOUR)
TILE_VNNI(three_vnni, THREE)
TILE_VNNI(two_vnni, TWO)
TILE_VNNI(row_vnni, ONE)

typedef void (*Tile)(const uint8_t *q, const int8_t *w, long width, const Out *o);
/* by the number of rows; the last is the tallest that there are registers for */
static const Tile AVX2_TILES[] = {row_avx2, two_avx2, three_avx2, four_avx2};
static const Tile VNNI_TILES[] = {row_vnni, two_vnni, three_vnni, four_vnni, five_vnni, six_vnni};

/* The weights of the next panel come while this one's rows are worked on: each tile asks for a part of them. */
static inline void fetch_share(const int8_t *panel, long bytes, long part, long parts) {
    for (long at = from(bytes, (int)part, (int)parts) & ~63L; at < from(bytes, (int)part + 1, (int)parts); at += 64) __builtin_prefetch(panel + at, 0, 2);
}

void int8_outputs(const Part *part, const uint8_t *q, const Worth *worth, long rows, long start, long end, int relu, float *y) {
    const int wide = level() == 2;
    const Tile *tiles = wide ? VNNI_TILES : AVX2_TILES;
    const long tallest = wide ? 6 : 4, p = panel(wide ? 2 : 1), width = part->width, outs = part->outs, count = (rows + tallest - 1) / tallest;
    float spare[6 * 64]; /* for the last panel, which may be more than the outputs */
    for (long at = start; at < end; at++) {
        const int8_t *w = (const int8_t *)part->weights + at * p * width;
        const long first = at * p, real = outs - first < p ? outs - first : p;
        Out out = {part->sums + first, part->scales + first, part->bias + first, worth, spare, p, relu};
        if (real == p) out.y = y + first, out.stride = outs;
        for (long tile = 0, row = 0; row < rows; tile++) {
            const long some = rows - row < tallest ? rows - row : tallest;
            if (at + 1 < end) fetch_share(w + p * width, p * width, tile, count);
            tiles[some - 1](q + row * width, w, width, &out);
            if (real < p)
                for (long i = 0; i < some; i++) memcpy(y + (row + i) * outs + first, spare + i * p, sizeof(float) * (size_t)real);
            else
                out.y += some * outs;
            out.worth += some, row += some;
        }
    }
}
