/* Attention of one query a row: what its heads take from the keys and values of its slot. */
#include "vectors.h"
#include <math.h>
#include <stdlib.h>

AVX2 void look_rows(const Look *l, long first, long end) {
    const long per = l->heads / l->kv_heads, width = l->width;
    float *scores = malloc(sizeof(float) * (size_t)(l->longest + 8));
    for (long row = first; row < end; row++) {
        const int32_t *places = l->places ? l->places + row * l->longest : NULL;
        const long slot = l->slots ? l->slots[row] : 0;
        const long length = l->lengths ? l->lengths[slot] : l->longest, whole = (length + 7) / 8 * 8;
        for (long head = 0; head < l->heads; head++) {
            const long base = slot * l->slot_stride + head / per * l->head_stride;
            const float *q = l->q + (row * l->heads + head) * width;
            float most = -INFINITY;
            for (long t = 0; t < length; t++) {
                const float *key = l->keys + base + (places ? places[t] : t) * l->stride;
                __m256 sum = _mm256_mul_ps(_mm256_loadu_ps(q), _mm256_loadu_ps(key));
                for (long k = 8; k < width; k += 8) sum = _mm256_fmadd_ps(_mm256_loadu_ps(q + k), _mm256_loadu_ps(key + k), sum);
                scores[t] = l->scale * across(sum);
                most = scores[t] > most ? scores[t] : most;
            }
            for (long t = length; t < whole; t++) scores[t] = -INFINITY;
            __m256 sums = _mm256_setzero_ps();
            for (long t = 0; t < whole; t += 8) {
                const __m256 far = _mm256_sub_ps(_mm256_loadu_ps(scores + t), _mm256_set1_ps(most));
                _mm256_storeu_ps(scores + t, power(far));
            }
            for (long t = length; t < whole; t++) scores[t] = 0.0f;
            for (long t = 0; t < whole; t += 8) sums = _mm256_add_ps(sums, _mm256_loadu_ps(scores + t));
            const float each = length ? 1.0f / across(sums) : 0.0f;
            float *out = l->out + (row * l->heads + head) * width;
            for (long k = 0; k < width; k += 32) {
                const long left = width - k;
                __m256 a = _mm256_setzero_ps(), b = a, c = a, d = a;
                for (long t = 0; t < length; t++) {
                    const float *value = l->values + base + (places ? places[t] : t) * l->stride + k;
                    const __m256 weight = _mm256_set1_ps(scores[t]);
                    a = _mm256_fmadd_ps(weight, _mm256_loadu_ps(value), a);
                    if (left > 8) b = _mm256_fmadd_ps(weight, _mm256_loadu_ps(value + 8), b);
                    if (left > 16) c = _mm256_fmadd_ps(weight, _mm256_loadu_ps(value + 16), c);
                    if (left > 24) d = _mm256_fmadd_ps(weight, _mm256_loadu_ps(value + 24), d);
                }
                const __m256 times = _mm256_set1_ps(each);
                _mm256_storeu_ps(out + k, _mm256_mul_ps(a, times));
                if (left > 8) _mm256_storeu_ps(out + k + 8, _mm256_mul_ps(b, times));
                if (left > 16) _mm256_storeu_ps(out + k + 16, _mm256_mul_ps(c, times));
                if (left > 24) _mm256_storeu_ps(out + k + 24, _mm256_mul_ps(d, times));
            }
        }
    }
    free(scores);
}

static void look_part(const void *what, int part, int parts) {
    const Look *l = what;
    look_rows(l, from(l->rows, part, parts), from(l->rows, part + 1, parts));
}

void look(const Look *l, int threads) {
    in_parts(look_part, l, l->rows * l->heads * l->longest * l->width < 65536 ? 1 : threads);
}
