/* int8 linear layers: packed weights, rows quantized one by one, exact integer sums. */
#include "int8.h"
#include "vectors.h"
#include <math.h>
#include <string.h>

/* Weights are packed in panels of outputs: packed[panel][input / 4][output][input % 4]. A panel has
 * 2 registers of 8 outputs with AVX2, 4 registers of 16 with AVX-512. */
int int8_panel_width(int isa) { return isa == ISA_AVX512 ? 64 : 16; }

/* qweight (outputs, width) -> packed, and the sum of each output's weights. `width` is a multiple
 * of 32. */
void pack_int8(const int8_t *qweight, long outputs, long width, int isa, int8_t *packed,
               int32_t *sums) {
    long p = int8_panel_width(isa), panels = (outputs + p - 1) / p;
    for (long n = 0; n < panels * p; n++) {
        int8_t *to = packed + (n / p) * p * width + (n % p) * 4;
        sums[n] = 0;
        for (long k = 0; k < width; k++) {
            int8_t weight = n < outputs ? qweight[n * width + k] : 0;
            to[k / 4 * p * 4 + k % 4] = weight;
            sums[n] += weight;
        }
    }
}

/* The greatest (sign 1) or least (sign -1) of zero and eight numbers. */
AVX2 static float extreme(__m256 x, float sign) {
    float each[8], found = 0.0f;
    _mm256_storeu_ps(each, x);
    for (int i = 0; i < 8; i++) found = sign * each[i] > sign * found ? each[i] : found;
    return found;
}

/* `nan` is 0, or NaN if the row has a number that is not finite: it makes the scale NaN. */
AVX2 static QParams qparams_of(float low, float high, float nan, float *inverse_scale) {
    const float range = high - low, scale = (range > 0.0f ? range / (float)INPUT_MAX : 1.0f) + nan;
    *inverse_scale = 1.0f / scale;
    const int32_t zero_point = _mm_cvtss_si32(_mm_set_ss(-low * *inverse_scale)); /* rounded */
    return (QParams){.scale = scale, .zero_point = zero_point};
}

AVX2 static QParams quantize_256(const float *x, long width, uint8_t *q) {
    __m256 most = _mm256_setzero_ps(), least = most, nan = most;
    for (long k = 0; k < width; k += 8) {
        const __m256 v = _mm256_loadu_ps(x + k);
        most = _mm256_max_ps(most, v);
        least = _mm256_min_ps(least, v);
        nan = _mm256_fmadd_ps(v, _mm256_setzero_ps(), nan); /* NaN and infinity times 0 are NaN */
    }
    float inverse_scale;
    const QParams qparams =
        qparams_of(extreme(least, -1.0f), extreme(most, 1.0f), hsum_256(nan), &inverse_scale);
    const __m256 inverse = _mm256_set1_ps(inverse_scale);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i zero_point = _mm256_set1_epi32(qparams.zero_point),
                  qmax = _mm256_set1_epi8(INPUT_MAX);
    for (long k = 0; k < width; k += 32) {
        __m256i ints[4];
        for (int i = 0; i < 4; i++) {
            const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(x + k + 8 * i), inverse);
            ints[i] = _mm256_add_epi32(_mm256_cvtps_epi32(scaled), zero_point);
        }
        const __m256i low = _mm256_packs_epi32(ints[0], ints[1]);
        const __m256i high = _mm256_packs_epi32(ints[2], ints[3]);
        const __m256i bytes = _mm256_packus_epi16(low, high);
        _mm256_storeu_si256((__m256i *)(q + k),
                            _mm256_min_epu8(_mm256_permutevar8x32_epi32(bytes, order), qmax));
    }
    return qparams;
}

/* The same results, for a width that is a multiple of 64. */
AVX512 static QParams quantize_512(const float *x, long width, uint8_t *q) {
    __m512 most = _mm512_setzero_ps(), least = most, nan = most;
    for (long k = 0; k < width; k += 16) {
        const __m512 v = _mm512_loadu_ps(x + k);
        most = _mm512_max_ps(most, v);
        least = _mm512_min_ps(least, v);
        nan = _mm512_fmadd_ps(v, _mm512_setzero_ps(), nan);
    }
    float inverse_scale;
    const QParams qparams = qparams_of(_mm512_reduce_min_ps(least), _mm512_reduce_max_ps(most),
                                       hsum_512(nan), &inverse_scale);
    const __m512 inverse = _mm512_set1_ps(inverse_scale);
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i zero_point = _mm512_set1_epi32(qparams.zero_point),
                  qmax = _mm512_set1_epi8(INPUT_MAX);
    for (long k = 0; k < width; k += 64) {
        __m512i ints[4];
        for (int i = 0; i < 4; i++) {
            const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(x + k + 16 * i), inverse);
            ints[i] = _mm512_add_epi32(_mm512_cvtps_epi32(scaled), zero_point);
        }
        const __m512i low = _mm512_packs_epi32(ints[0], ints[1]);
        const __m512i high = _mm512_packs_epi32(ints[2], ints[3]);
        const __m512i bytes = _mm512_packus_epi16(low, high);
        _mm512_storeu_si512(q + k, _mm512_min_epu8(_mm512_permutexvar_epi32(order, bytes), qmax));
    }
    return qparams;
}

QParams quantize(const float *x, long width, uint8_t *q) {
    return (isa_level() == ISA_AVX512 && width % 64 == 0 ? quantize_512 : quantize_256)(x, width,
                                                                                        q);
}

/* ---- tiles: a few rows times one panel ---- */

/* How a tile turns its integer sums into outputs, and where these go. */
typedef struct {
    const int32_t *weight_sums;
    const float *scales, *bias;
    const QParams *qparams; /* of the tile's rows */
    float *y;
    long stride;
    int relu;
} TileOutput;

/* Sums up to 2^24 are exact as floats, which those of a width of 2,000 always are; a fused product
 * rounds once. In this order of max NaN stays NaN. */
#define PUT2(i, n, a)                                                                    \
    out = _mm256_cvtepi32_ps(_mm256_loadu_si256((const __m256i *)(o->weight_sums + n))); \
    out = _mm256_fnmadd_ps(out, _mm256_set1_ps((float)o->qparams[i].zero_point),         \
                           _mm256_cvtepi32_ps(a));                                       \
    out = _mm256_mul_ps(_mm256_mul_ps(out, _mm256_set1_ps(o->qparams[i].scale)),         \
                        _mm256_loadu_ps(o->scales + n));                                 \
    out = _mm256_max_ps(least, _mm256_add_ps(out, _mm256_loadu_ps(o->bias + n)));        \
    _mm256_storeu_ps(o->y + i * o->stride + n, out);
/* 16 bits hold 2 x 2 x 127 x 64: the products of eight inputs are added before they are widened. */
#define STEP2(i)                                                                    \
    b = _mm256_set1_epi32(*(const int32_t *)(q + i * width + k));                   \
    c = _mm256_set1_epi32(*(const int32_t *)(q + i * width + k + 4));               \
    d = _mm256_add_epi16(_mm256_maddubs_epi16(b, w0), _mm256_maddubs_epi16(c, w2)); \
    b = _mm256_add_epi16(_mm256_maddubs_epi16(b, w1), _mm256_maddubs_epi16(c, w3)); \
    a##i##0 = _mm256_add_epi32(a##i##0, _mm256_madd_epi16(d, one));                 \
    a##i##1 = _mm256_add_epi32(a##i##1, _mm256_madd_epi16(b, one));                 \
    IN_ORDER(a##i##0, a##i##1)
/* Keeps the rows in order: GCC would interleave them all and run out of registers. */
#define IN_ORDER(x, y) __asm__ volatile("" : "+x"(x), "+x"(y));

#define ZERO2(i) __m256i a##i##0 = zero, a##i##1 = zero;
#define PUT_ROW2(i) PUT2(i, 0, a##i##0) PUT2(i, 8, a##i##1)
#define ONE(DO) DO(0)
#define TWO(DO) ONE(DO) DO(1)
#define THREE(DO) TWO(DO) DO(2)
#define FOUR(DO) THREE(DO) DO(3)
#define FIVE(DO) FOUR(DO) DO(4)
#define SIX(DO) FIVE(DO) DO(5)

#define TILE_AVX2(NAME, EACH)                                                                   \
    AVX2 static void NAME(const uint8_t *q, const int8_t *w, long width, const TileOutput *o) { \
        const __m256i one = _mm256_set1_epi16(1), zero = _mm256_setzero_si256();                \
        __m256i b, c, d;                                                                        \
        EACH(ZERO2)                                                                             \
        for (long k = 0; k < width; k += 8, w += 128) {                                         \
            const __m256i *v = (const __m256i *)w;                                              \
            const __m256i w0 = _mm256_loadu_si256(v), w1 = _mm256_loadu_si256(v + 1);           \
            const __m256i w2 = _mm256_loadu_si256(v + 2), w3 = _mm256_loadu_si256(v + 3);       \
            EACH(STEP2)                                                                         \
        }                                                                                       \
        const __m256 least = _mm256_set1_ps(o->relu ? 0.0f : -INFINITY);                        \
        __m256 out;                                                                             \
        EACH(PUT_ROW2)                                                                          \
    }

TILE_AVX2(four_avx2, FOUR)
TILE_AVX2(three_avx2, THREE)
TILE_AVX2(two_avx2, TWO)
TILE_AVX2(row_avx2, ONE)

/* Sixteen outputs of a row; the rows of a tile share sums, scales and bias. */
#define PUT4(i, n)                                                                             \
    out = _mm512_fnmadd_ps(sums, _mm512_set1_ps((float)qparams[i].zero_point),                 \
                           _mm512_cvtepi32_ps(a##i##n));                                       \
    out = _mm512_fmadd_ps(_mm512_mul_ps(out, _mm512_set1_ps(qparams[i].scale)), scales, bias); \
    _mm512_storeu_ps(y + i * stride + 16 * n, _mm512_max_ps(least, out));
#define PUT40(i) PUT4(i, 0)
#define PUT41(i) PUT4(i, 1)
#define PUT42(i) PUT4(i, 2)
#define PUT43(i) PUT4(i, 3)
#define PUT_COLUMN(n, EACH)                                                                 \
    sums = _mm512_cvtepi32_ps(_mm512_loadu_si512(o->weight_sums + 16 * n));                 \
    scales = _mm512_loadu_ps(o->scales + 16 * n), bias = _mm512_loadu_ps(o->bias + 16 * n); \
    EACH(PUT4##n)
/* In assembly: GCC 12 makes three copies of every sum, one of them in memory, which halves the
 * speed. */
#define DOT(a, b, w) __asm__("vpdpbusd %2, %1, %0" : "+v"(a) : "v"(b), "v"(w))
#define STEP4(i)                                                  \
    b = _mm512_set1_epi32(*(const int32_t *)(q + i * width + k)); \
    DOT(a##i##0, b, w0);                                          \
    DOT(a##i##1, b, w1);                                          \
    DOT(a##i##2, b, w2);                                          \
    DOT(a##i##3, b, w3);
#define ZERO4(i) __m512i a##i##0 = zero, a##i##1 = zero, a##i##2 = zero, a##i##3 = zero;
#define LOAD4                                                                  \
    const __m512i w0 = _mm512_loadu_si512(w), w1 = _mm512_loadu_si512(w + 64); \
    const __m512i w2 = _mm512_loadu_si512(w + 128), w3 = _mm512_loadu_si512(w + 192);

#define TILE_VNNI(NAME, EACH)                                                                     \
    AVX512 static void NAME(const uint8_t *q, const int8_t *w, long width, const TileOutput *o) { \
        const __m512i zero = _mm512_setzero_si512();                                              \
        __m512i b;                                                                                \
        EACH(ZERO4)                                                                               \
        for (long k = 0; k < width; k += 4, w += 256) {                                           \
            LOAD4 EACH(STEP4)                                                                     \
        }                                                                                         \
        const __m512 least = _mm512_set1_ps(o->relu ? 0.0f : -INFINITY);                          \
        const QParams *qparams = o->qparams;                                                      \
        const long stride = o->stride;                                                            \
        float *y = o->y;                                                                          \
        __m512 out, sums, scales, bias;                                                           \
        PUT_COLUMN(0, EACH) PUT_COLUMN(1, EACH) PUT_COLUMN(2, EACH) PUT_COLUMN(3, EACH)           \
    }

TILE_VNNI(six_vnni, SIX)
TILE_VNNI(five_vnni, FIVE)
TILE_VNNI(four_vnni, FOUR)
TILE_VNNI(three_vnni, THREE)
TILE_VNNI(two_vnni, TWO)
TILE_VNNI(row_vnni, ONE)

typedef void (*Tile)(const uint8_t *q, const int8_t *w, long width, const TileOutput *o);
/* By the number of rows; the last is the tallest that the registers allow. */
static const Tile AVX2_TILES[] = {row_avx2, two_avx2, three_avx2, four_avx2};
static const Tile VNNI_TILES[] = {row_vnni, two_vnni, three_vnni, four_vnni, five_vnni, six_vnni};

/* Prefetches one part of the next panel's weights: each tile of this panel fetches another. */
static inline void prefetch_part(const int8_t *panel, long bytes, long part, long parts) {
    const long end = part_start(bytes, (int)part + 1, (int)parts);
    long at = part_start(bytes, (int)part, (int)parts) & ~63L;
    for (; at < end; at += 64) __builtin_prefetch(panel + at, 0, 2);
}

void int8_outputs(const Linear *layer, const uint8_t *q, const QParams *qparams, long rows,
                  long start, long end, int relu, float *y) {
    const int wide = isa_level() == ISA_AVX512;
    const Tile *tiles = wide ? VNNI_TILES : AVX2_TILES;
    const long tallest = wide ? 6 : 4, tile_count = (rows + tallest - 1) / tallest;
    const long p = int8_panel_width(isa_level()), width = layer->width, outputs = layer->outputs;
    float spare[6 * 64]; /* for the last panel, which can be wider than the outputs left */
    for (long panel = start; panel < end; panel++) {
        const long first = panel * p, count = outputs - first < p ? outputs - first : p;
        const int8_t *w = (const int8_t *)layer->weight + first * width;
        TileOutput out = {
            .weight_sums = layer->weight_sums + first,
            .scales = layer->scales + first,
            .bias = layer->bias + first,
            .qparams = qparams,
            .y = count == p ? y + first : spare,
            .stride = count == p ? outputs : p,
            .relu = relu,
        };
        for (long tile = 0, row = 0; row < rows; tile++) {
            const long height = rows - row < tallest ? rows - row : tallest;
            if (panel + 1 < end) prefetch_part(w + p * width, p * width, tile, tile_count);
            tiles[height - 1](q + row * width, w, width, &out);
            if (count == p) out.y += height * outputs;
            else
                for (long i = 0; i < height; i++)
                    memcpy(y + (row + i) * outputs + first, spare + i * p,
                           sizeof(float) * (size_t)count);
            out.qparams += height;
            row += height;
        }
    }
}
