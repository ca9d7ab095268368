/* Attention of one query a row: what its heads take from the keys and values of its slot. */
#include "vectors.h"
#include <math.h>
#include <stdlib.h>

static inline __attribute__((always_inline)) void fetch(const float *x, long width) {
    for (long k = 0; k < width; k += 16) __builtin_prefetch(x + k);
}

/* one query times four keys */
AVX2 static inline __attribute__((always_inline)) __m128 products(const float *q, const float *const key[4], long width) {
    __m256 a = _mm256_setzero_ps(), b = a, c = a, d = a;
    for (long k = 0; k < width; k += 8) {
        const __m256 query = _mm256_loadu_ps(q + k);
        a = _mm256_fmadd_ps(query, _mm256_loadu_ps(key[0] + k), a);
        b = _mm256_fmadd_ps(query, _mm256_loadu_ps(key[1] + k), b);
        c = _mm256_fmadd_ps(query, _mm256_loadu_ps(key[2] + k), c);
        d = _mm256_fmadd_ps(query, _mm256_loadu_ps(key[3] + k), d);
    }
    const __m256 sums = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    return _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
}

/* the greatest, in all eight places */
AVX2 static inline __m256 most_of(__m256 x) {
    x = _mm256_max_ps(x, _mm256_permute2f128_ps(x, x, 1));
    x = _mm256_max_ps(x, _mm256_permute_ps(x, 0x4E));
    return _mm256_max_ps(x, _mm256_permute_ps(x, 0xB1));
}

static const int32_t AFTER[16] = {0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1};

AVX2 static inline __attribute__((always_inline)) void look_some(const Look *l, long first, long end, const long width) {
    const long per = l->heads / l->kv_heads;
    const __m256 scale = _mm256_set1_ps(l->scale), unseen = _mm256_set1_ps(-INFINITY);
    float *scores = malloc(sizeof(float) * (size_t)(l->longest + 8));
    for (long row = first; row < end; row++) {
        const int32_t *places = l->places ? l->places + row * l->longest : NULL;
        const long slot = l->slots ? l->slots[row] : 0;
        const long length = l->lengths ? l->lengths[slot] : l->longest;
        for (long head = 0; head < l->heads; head++) {
            const long base = slot * l->slot_stride + head / per * l->head_stride;
            const float *q = l->q + (row * l->heads + head) * width;
            const float *keys = l->keys + base;
            __m256 highest = _mm256_set1_ps(-INFINITY), sums = _mm256_setzero_ps();
            for (long t = 0; t < length; t += 8) { /* eight keys at a time; after the last, the last again, but unseen */
                const float *key[8];
                for (long i = 0; i < 8; i++) {
                    const long at = t + i < length ? t + i : length - 1;
                    key[i] = keys + (places ? places[at] : at) * l->stride;
                    fetch(key[i] + l->head_stride, width); /* the next head's: they come while this one's are worked on */
                }
                __m256 score = _mm256_mul_ps(_mm256_set_m128(products(q, key + 4, width), products(q, key, width)), scale);
                if (t + 8 > length) score = _mm256_blendv_ps(score, unseen, _mm256_loadu_ps((const float *)(AFTER + 8 - (length - t))));
                _mm256_storeu_ps(scores + t, score);
                highest = _mm256_max_ps(score, highest);
            }
            highest = most_of(highest);
            for (long t = 0; t < length; t += 8) {
                const __m256 weights = power(_mm256_sub_ps(_mm256_loadu_ps(scores + t), highest));
                _mm256_storeu_ps(scores + t, weights);
                sums = _mm256_add_ps(sums, weights); /* what is unseen weighs 1e-38 */
            }
            const float each = length ? 1.0f / across(sums) : 0.0f;
            float *out = l->out + (row * l->heads + head) * width;
            const float *values = l->values + base;
            const __m256 times = _mm256_set1_ps(each);
            long k = 0;
            for (; k + 32 <= width; k += 32) {
                __m256 a = _mm256_setzero_ps(), b = a, c = a, d = a;
                for (long t = 0; t < length; t++) {
                    const float *value = values + (places ? places[t] : t) * l->stride + k;
                    fetch(value + l->head_stride, 32);
                    const __m256 weight = _mm256_set1_ps(scores[t]);
                    a = _mm256_fmadd_ps(weight, _mm256_loadu_ps(value), a);
                    b = _mm256_fmadd_ps(weight, _mm256_loadu_ps(value + 8), b);
                    c = _mm256_fmadd_ps(weight, _mm256_loadu_ps(value + 16), c);
                    d = _mm256_fmadd_ps(weight, _mm256_loadu_ps(value + 24), d);
                }
                _mm256_storeu_ps(out + k, _mm256_mul_ps(a, times));
                _mm256_storeu_ps(out + k + 8, _mm256_mul_ps(b, times));
                _mm256_storeu_ps(out + k + 16, _mm256_mul_ps(c, times));
                _mm256_storeu_ps(out + k + 24, _mm256_mul_ps(d, times));
            }
            for (; k < width; k += 8) {
                __m256 a = _mm256_setzero_ps();
                for (long t = 0; t < length; t++)
                    a = _mm256_fmadd_ps(_mm256_set1_ps(scores[t]), _mm256_loadu_ps(values + (places ? places[t] : t) * l->stride + k), a);
                _mm256_storeu_ps(out + k, _mm256_mul_ps(a, times));
            }
        }
    }
    free(scores);
}

/* for the usual widths the compiler knows how long the loops are */
AVX2 void look_rows(const Look *l, long first, long end) {
    if (l->width == 32) look_some(l, first, end, 32);
    else if (l->width == 64) look_some(l, first, end, 64);
    else look_some(l, first, end, l->width);
}

static void look_part(const void *what, int part, int parts) {
    const Look *l = what;
    look_rows(l, from(l->rows, part, parts), from(l->rows, part + 1, parts));
}

void look(const Look *l, int threads) {
    in_parts(look_part, l, l->rows * l->heads * l->longest * l->width < 65536 ? 1 : threads);
}
