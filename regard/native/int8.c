/* int8: weights packed for the loop that reads them, rows quantised one by one, exact integer sums. */
#include "int8.h"
#include <immintrin.h>
#include <string.h>

/* Weights are packed in panels of outputs; in a panel, four inputs of all its outputs lie together:
 * out[panel][input / 4][output][input % 4]. AVX2's panel is 2 registers of 8 outputs, AVX-512's 4 of 16. */
enum { ROWS = 6 };

int panel(int at_level) { return at_level == 2 ? 64 : 16; }

/* weights (outs, width) -> packed, and 128 x the sum of each output's weights; width a multiple of 32 */
void pack(const int8_t *weights, long outs, long width, int at_level, int8_t *packed, int32_t *sums) {
    long p = panel(at_level), panels = (outs + p - 1) / p;
    for (long n = 0; n < panels * p; n++) {
        int8_t *to = packed + (n / p) * p * width + (n % p) * 4;
        int32_t sum = 0;
        for (long k = 0; k < width; k++) {
            int8_t weight = n < outs ? weights[n * width + k] : 0;
            to[k / 4 * p * 4 + k % 4] = weight;
            sum += weight;
        }
        sums[n] = 128 * sum;
    }
}

/* A row as bytes of 1..255, 128 for nothing, and what one of them is worth. */
AVX2 float quantise(const float *x, long width, uint8_t *q) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 most = _mm256_setzero_ps();
    for (long k = 0; k < width; k += 8) most = _mm256_max_ps(most, _mm256_andnot_ps(sign, _mm256_loadu_ps(x + k)));
    float each[8], greatest = 0.0f;
    _mm256_storeu_ps(each, most);
    for (int i = 0; i < 8; i++) greatest = each[i] > greatest ? each[i] : greatest;
    const float scale = greatest > 0.0f ? greatest / 127.0f : 1.0f;
    const __m256 times = _mm256_set1_ps(1.0f / scale);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7), middle = _mm256_set1_epi8((char)0x80);
    for (long k = 0; k < width; k += 32) {
        __m256i part[4];
        for (int i = 0; i < 4; i++) part[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + k + 8 * i), times));
        __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(part[0], part[1]), _mm256_packs_epi32(part[2], part[3]));
        bytes = _mm256_xor_si256(_mm256_permutevar8x32_epi32(bytes, order), middle);
        _mm256_storeu_si256((__m256i *)(q + k), bytes);
    }
    return scale;
}

#define STEP2(i)                                                                                                   \
    b = _mm256_set1_epi32(*(const int32_t *)(q + i * width + k));                                                  \
    a##i##0 = _mm256_add_epi32(a##i##0, _mm256_madd_epi16(_mm256_maddubs_epi16(b, w0), one));                      \
    a##i##1 = _mm256_add_epi32(a##i##1, _mm256_madd_epi16(_mm256_maddubs_epi16(b, w1), one));
#define KEEP2(i)                                               \
    _mm256_storeu_si256((__m256i *)(sums + i * 16), a##i##0);  \
    _mm256_storeu_si256((__m256i *)(sums + i * 16 + 8), a##i##1);

AVX2 static void tile_avx2(const uint8_t *q, const int8_t *w, long width, int32_t *sums) {
    const __m256i one = _mm256_set1_epi16(1), zero = _mm256_setzero_si256();
    __m256i a00 = zero, a01 = zero, a10 = zero, a11 = zero, a20 = zero, a21 = zero;
    __m256i a30 = zero, a31 = zero, a40 = zero, a41 = zero, a50 = zero, a51 = zero, b;
    for (long k = 0; k < width; k += 4, w += 64) {
        const __m256i w0 = _mm256_loadu_si256((const __m256i *)w), w1 = _mm256_loadu_si256((const __m256i *)(w + 32));
        STEP2(0) STEP2(1) STEP2(2) STEP2(3) STEP2(4) STEP2(5)
    }
    KEEP2(0) KEEP2(1) KEEP2(2) KEEP2(3) KEEP2(4) KEEP2(5)
}

/* few rows: the weights are what there is to read, and they are read once */
AVX2 static void row_avx2(const uint8_t *q, const int8_t *w, long width, int32_t *sums) {
    const __m256i one = _mm256_set1_epi16(1);
    __m256i a0 = _mm256_setzero_si256(), a1 = a0, c0 = a0, c1 = a0;
    for (long k = 0; k < width; k += 8, w += 128) {
        const __m256i b = _mm256_set1_epi32(*(const int32_t *)(q + k)), c = _mm256_set1_epi32(*(const int32_t *)(q + k + 4));
        const __m256i *v = (const __m256i *)w;
        a0 = _mm256_add_epi32(a0, _mm256_madd_epi16(_mm256_maddubs_epi16(b, _mm256_loadu_si256(v)), one));
        a1 = _mm256_add_epi32(a1, _mm256_madd_epi16(_mm256_maddubs_epi16(b, _mm256_loadu_si256(v + 1)), one));
        c0 = _mm256_add_epi32(c0, _mm256_madd_epi16(_mm256_maddubs_epi16(c, _mm256_loadu_si256(v + 2)), one));
        c1 = _mm256_add_epi32(c1, _mm256_madd_epi16(_mm256_maddubs_epi16(c, _mm256_loadu_si256(v + 3)), one));
    }
    _mm256_storeu_si256((__m256i *)sums, _mm256_add_epi32(a0, c0));
    _mm256_storeu_si256((__m256i *)(sums + 8), _mm256_add_epi32(a1, c1));
}

#define STEP4(i)                                                      \
    b = _mm512_set1_epi32(*(const int32_t *)(q + i * width + k));     \
    a##i##0 = _mm512_dpbusd_epi32(a##i##0, b, w0);                    \
    a##i##1 = _mm512_dpbusd_epi32(a##i##1, b, w1);                    \
    a##i##2 = _mm512_dpbusd_epi32(a##i##2, b, w2);                    \
    a##i##3 = _mm512_dpbusd_epi32(a##i##3, b, w3);
#define KEEP4(i)                                    \
    _mm512_storeu_si512(sums + i * 64, a##i##0);      \
    _mm512_storeu_si512(sums + i * 64 + 16, a##i##1); \
    _mm512_storeu_si512(sums + i * 64 + 32, a##i##2); \
    _mm512_storeu_si512(sums + i * 64 + 48, a##i##3);
#define ZERO4(i) __m512i a##i##0 = zero, a##i##1 = zero, a##i##2 = zero, a##i##3 = zero;

AVX512 static void tile_vnni(
    const uint8_t *q, const int8_t *w, long width, int32_t *sums) {
    const __m512i zero = _mm512_setzero_si512();
    __m512i b;
    ZERO4(0) ZERO4(1) ZERO4(2) ZERO4(3) ZERO4(4) ZERO4(5)
    for (long k = 0; k < width; k += 4, w += 256) {
        const __m512i w0 = _mm512_loadu_si512(w), w1 = _mm512_loadu_si512(w + 64);
        const __m512i w2 = _mm512_loadu_si512(w + 128), w3 = _mm512_loadu_si512(w + 192);
        STEP4(0) STEP4(1) STEP4(2) STEP4(3) STEP4(4) STEP4(5)
    }
    KEEP4(0) KEEP4(1) KEEP4(2) KEEP4(3) KEEP4(4) KEEP4(5)
}

AVX512 static void row_vnni(
    const uint8_t *q, const int8_t *w, long width, int32_t *sums) {
    const __m512i zero = _mm512_setzero_si512();
    __m512i b;
    ZERO4(0)
    for (long k = 0; k < width; k += 4, w += 256) {
        const __m512i w0 = _mm512_loadu_si512(w), w1 = _mm512_loadu_si512(w + 64);
        const __m512i w2 = _mm512_loadu_si512(w + 128), w3 = _mm512_loadu_si512(w + 192);
        STEP4(0)
    }
    KEEP4(0)
}

/* integer sums of one row and one panel -> outputs */
AVX2 static void finish(const Part *part, const int32_t *sums, float worth, long first, long count, int relu, float *y) {
    const __m256 times = _mm256_set1_ps(worth), zero = _mm256_setzero_ps();
    for (long n = 0; n < count; n += 8) {
        const long left = count - n;
        const __m256i sum = _mm256_sub_epi32(
            _mm256_loadu_si256((const __m256i *)(sums + n)), _mm256_loadu_si256((const __m256i *)(part->sums + first + n)));
        __m256 out = _mm256_mul_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sum), times), _mm256_loadu_ps(part->scales + first + n));
        out = _mm256_add_ps(out, _mm256_loadu_ps(part->bias + first + n));
        if (relu) out = _mm256_max_ps(out, zero);
        if (left >= 8) {
            _mm256_storeu_ps(y + n, out);
        } else {
            float rest[8];
            _mm256_storeu_ps(rest, out);
            memcpy(y + n, rest, sizeof(float) * (size_t)left);
        }
    }
}

void int8_outputs(const Part *part, const uint8_t *q, const float *worth, long rows, long start, long end, int relu, float *y) {
    const int wide = level() == 2;
    const long p = panel(wide ? 2 : 1), width = part->width, outs = part->outs;
    int32_t sums[ROWS * 64];
    for (long at = start; at < end; at++) {
        const int8_t *w = (const int8_t *)part->weights + at * p * width;
        const long first = at * p, count = outs - first < p ? outs - first : p;
        long row = 0;
        for (; row + ROWS <= rows; row += ROWS) {
            (wide ? tile_vnni : tile_avx2)(q + row * width, w, width, sums);
            for (long i = 0; i < ROWS; i++)
                finish(part, sums + i * p, worth[row + i], first, count, relu, y + (row + i) * outs + first);
        }
        for (; row < rows; row++) {
            (wide ? row_vnni : row_avx2)(q + row * width, w, width, sums);
            finish(part, sums, worth[row], first, count, relu, y + row * outs + first);
        }
    }
}
