/* Attention of one query per row over keys anywhere in a cache.
 *
 * `fp16`, `scattered` (keys are found through key_indices) and usually `width` are constants to the
 * compiler: everything is inlined into one function for each combination.
 */
#include "vectors.h"
#include <math.h>
#include <stdlib.h>

ALWAYS_INLINE void prefetch(const char *x, long bytes) {
    for (long k = 0; k < bytes; k += 64) __builtin_prefetch(x + k);
}

/* Eight or sixteen numbers of a key, from the k-th on. */
AVX2 ALWAYS_INLINE __m256 load_256(const char *key, long k, const int fp16) {
    return fp16 ? _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(key + 2 * k)))
                : _mm256_loadu_ps((const float *)key + k);
}

AVX512 ALWAYS_INLINE __m512 load_512(const char *key, long k, const int fp16) {
    return fp16 ? _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(key + 2 * k)))
                : _mm512_loadu_ps((const float *)key + k);
}

AVX2 void store_kv(const float *x, long count, int rounded, int fp16, void *to) {
    /* clamped to what float16 can hold; in this order of min and max NaN stays NaN */
    const __m256 most = _mm256_set1_ps(65504.0f), least = _mm256_set1_ps(-65504.0f);
    for (long k = 0; k < count; k += 8) {
        const __m256 v = _mm256_loadu_ps(x + k);
        const __m128i halves = _mm256_cvtps_ph(_mm256_max_ps(least, _mm256_min_ps(most, v)),
                                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        if (fp16) _mm_storeu_si128((__m128i *)((char *)to + 2 * k), halves);
        else _mm256_storeu_ps((float *)to + k, rounded ? _mm256_cvtph_ps(halves) : v);
    }
}

/* The dot products of one query with four keys. */
AVX2 ALWAYS_INLINE __m128 dot_4_keys(const float *q, const char *const key[4], const long width,
                                     const int fp16) {
    __m256 a = _mm256_setzero_ps(), b = a, c = a, d = a;
    for (long k = 0; k < width; k += 8) {
        const __m256 query = _mm256_loadu_ps(q + k);
        a = _mm256_fmadd_ps(query, load_256(key[0], k, fp16), a);
        b = _mm256_fmadd_ps(query, load_256(key[1], k, fp16), b);
        c = _mm256_fmadd_ps(query, load_256(key[2], k, fp16), c);
        d = _mm256_fmadd_ps(query, load_256(key[3], k, fp16), d);
    }
    const __m256 sums = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    return _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
}

/* The maximum, in all eight lanes. */
AVX2 static inline __m256 broadcast_max(__m256 x) {
    x = _mm256_max_ps(x, _mm256_permute2f128_ps(x, x, 1));
    x = _mm256_max_ps(x, _mm256_permute_ps(x, 0x4E));
    return _mm256_max_ps(x, _mm256_permute_ps(x, 0xB1));
}

/* Read from 8 - n on: sets the lanes from the n-th on. */
static const int32_t TAIL_MASK[16] = {0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1};

/* One head of one row: its query, and where its keys and values are. Strides are in bytes. */
typedef struct {
    const float *q;
    const char *keys, *values;
    const int32_t *key_indices;
    long length, key_stride;
    long next_head;         /* to the same keys of the head that comes next */
    long transposed_stride; /* 0; or from one number of the keys to the next */
    float *out;
} Head;

ALWAYS_INLINE const char *entry(const Head *h, const char *first, long t, const int scattered) {
    return first + (scattered ? h->key_indices[t] : t) * h->key_stride;
}

/* Eight keys from t on; after the last one, the last again. Prefetches scattered keys of the next
 * head. */
ALWAYS_INLINE void eight_keys(const Head *h, long t, long bytes, const int scattered,
                              const char *key[8]) {
    if (t + 8 <= h->length) {
        for (long i = 0; i < 8; i++) key[i] = entry(h, h->keys, t + i, scattered);
    } else {
        for (long i = 0; i < 8; i++)
            key[i] = entry(h, h->keys, t + i < h->length ? t + i : h->length - 1, scattered);
    }
    if (scattered)
        for (long i = 0; i < 8; i++) prefetch(key[i] + h->next_head, bytes);
}

/* Scores of eight transposed keys from t on: each lane sums for its own key, so no sum runs across
 * a register. Four sums, because each waits for its last addition. */
AVX2 ALWAYS_INLINE __m256 scores_transposed_256(const Head *h, long t, const long width,
                                                const int fp16) {
    __m256 a[4];
    for (long i = 0; i < 4; i++)
        a[i] = _mm256_mul_ps(_mm256_set1_ps(h->q[i]),
                             load_256(h->keys + i * h->transposed_stride, t, fp16));
    for (long k = 4; k < width; k += 4)
        for (long i = 0; i < 4; i++)
            a[i] =
                _mm256_fmadd_ps(_mm256_set1_ps(h->q[k + i]),
                                load_256(h->keys + (k + i) * h->transposed_stride, t, fp16), a[i]);
    return _mm256_add_ps(_mm256_add_ps(a[0], a[1]), _mm256_add_ps(a[2], a[3]));
}

/* Scores -> weights; returns 1 / their sum. */
AVX2 ALWAYS_INLINE float softmax(float *scores, long length, __m256 max) {
    __m256 sums = _mm256_setzero_ps();
    max = broadcast_max(max);
    for (long t = 0; t < length; t += 8) {
        const __m256 weights = exp_256(_mm256_sub_ps(_mm256_loadu_ps(scores + t), max));
        _mm256_storeu_ps(scores + t, weights);
        sums = _mm256_add_ps(sums, weights); /* masked ones add 1e-38 */
    }
    return length ? 1.0f / hsum_256(sums) : 0.0f;
}

/* Masks the scores after the last key, of eight from t on. */
AVX2 ALWAYS_INLINE __m256 mask_tail(__m256 scores, long t, long length) {
    if (t + 8 <= length) return scores;
    return _mm256_blendv_ps(scores, _mm256_set1_ps(-INFINITY),
                            _mm256_loadu_ps((const float *)(TAIL_MASK + 8 - (length - t))));
}

AVX2 ALWAYS_INLINE __m256 scores_256(const Head *h, long t, const long width, const int fp16,
                                     const int scattered) {
    const char *key[8];
    eight_keys(h, t, width * kv_size(fp16), scattered, key);
    return _mm256_set_m128(dot_4_keys(h->q, key + 4, width, fp16),
                           dot_4_keys(h->q, key, width, fp16));
}

AVX2 ALWAYS_INLINE void head_256(const Head *h, float scale, float *scores, const long width,
                                 const int fp16, const int scattered) {
    const __m256 scale_of_lanes = _mm256_set1_ps(scale);
    __m256 max = _mm256_set1_ps(-INFINITY);
    for (long t = 0; t < h->length; t += 8) {
        const __m256 products = h->transposed_stride ? scores_transposed_256(h, t, width, fp16)
                                                     : scores_256(h, t, width, fp16, scattered);
        const __m256 score = mask_tail(_mm256_mul_ps(products, scale_of_lanes), t, h->length);
        _mm256_storeu_ps(scores + t, score);
        max = _mm256_max_ps(score, max);
    }
    const __m256 inverse_sum = _mm256_set1_ps(softmax(scores, h->length, max));
    long k = 0;
    for (; k + 32 <= width; k += 32) {
        __m256 a = _mm256_setzero_ps(), b = a, c = a, d = a;
        for (long t = 0; t < h->length; t++) {
            const char *value = entry(h, h->values, t, scattered);
            if (scattered) prefetch(value + h->next_head + k * kv_size(fp16), 32 * kv_size(fp16));
            const __m256 weight = _mm256_set1_ps(scores[t]);
            a = _mm256_fmadd_ps(weight, load_256(value, k, fp16), a);
            b = _mm256_fmadd_ps(weight, load_256(value, k + 8, fp16), b);
            c = _mm256_fmadd_ps(weight, load_256(value, k + 16, fp16), c);
            d = _mm256_fmadd_ps(weight, load_256(value, k + 24, fp16), d);
        }
        _mm256_storeu_ps(h->out + k, _mm256_mul_ps(a, inverse_sum));
        _mm256_storeu_ps(h->out + k + 8, _mm256_mul_ps(b, inverse_sum));
        _mm256_storeu_ps(h->out + k + 16, _mm256_mul_ps(c, inverse_sum));
        _mm256_storeu_ps(h->out + k + 24, _mm256_mul_ps(d, inverse_sum));
    }
    for (; k < width; k += 8) {
        __m256 a = _mm256_setzero_ps();
        for (long t = 0; t < h->length; t++)
            a = _mm256_fmadd_ps(_mm256_set1_ps(scores[t]),
                                load_256(entry(h, h->values, t, scattered), k, fp16), a);
        _mm256_storeu_ps(h->out + k, _mm256_mul_ps(a, inverse_sum));
    }
}

/* With AVX-512, for heads of 32 or 64: several heads of a row at once, because one alone would wait
 * for its own sums. */
enum { HEADS_AT_ONCE = 4 }; /* score_floats counts on it */

AVX512 ALWAYS_INLINE __m128 dot_4_keys_512(const __m512 *q, const char *const key[4],
                                           const long width, const int fp16) {
    __m512 a[4];
    for (int i = 0; i < 4; i++) a[i] = _mm512_mul_ps(q[0], load_512(key[i], 0, fp16));
    for (long k = 1; k < width / 16; k++)
        for (int i = 0; i < 4; i++)
            a[i] = _mm512_fmadd_ps(q[k], load_512(key[i], 16 * k, fp16), a[i]);
    const __m256 sums = _mm256_hadd_ps(_mm256_hadd_ps(fold_512(a[0]), fold_512(a[1])),
                                       _mm256_hadd_ps(fold_512(a[2]), fold_512(a[3])));
    return _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
}

AVX512 ALWAYS_INLINE __m256 scores_8_keys_512(const Head *h, const __m512 *q, long t,
                                              const long width, const int fp16,
                                              const int scattered) {
    const char *key[8];
    eight_keys(h, t, width * kv_size(fp16), scattered, key);
    return _mm256_set_m128(dot_4_keys_512(q, key + 4, width, fp16),
                           dot_4_keys_512(q, key, width, fp16));
}

/* Scores of sixteen keys, not transposed. */
AVX512 ALWAYS_INLINE __m512 scores_512(const Head *h, long t, const long width, const int fp16,
                                       const int scattered) {
    __m512 q[4];
    for (long k = 0; k < width / 16; k++) q[k] = _mm512_loadu_ps(h->q + 16 * k);
    const __m256 low = scores_8_keys_512(h, q, t, width, fp16, scattered);
    const __m256 high =
        t + 8 < h->length ? scores_8_keys_512(h, q, t + 8, width, fp16, scattered) : low;
    return _mm512_castpd_ps(_mm512_insertf64x4(_mm512_castps_pd(_mm512_castps256_ps512(low)),
                                               _mm256_castps_pd(high), 1));
}

/* Scores of sixteen transposed keys for each head. */
AVX512 ALWAYS_INLINE void scores_transposed_512(const Head *h, const int heads, long t,
                                                const long width, const int fp16, __m512 *scores) {
    __m512 even[HEADS_AT_ONCE], odd[HEADS_AT_ONCE];
    for (int i = 0; i < heads; i++) even[i] = odd[i] = _mm512_setzero_ps();
    for (long k = 0; k < width; k += 2)
        for (int i = 0; i < heads; i++) {
            even[i] =
                _mm512_fmadd_ps(_mm512_set1_ps(h[i].q[k]),
                                load_512(h[i].keys + k * h->transposed_stride, t, fp16), even[i]);
            odd[i] = _mm512_fmadd_ps(_mm512_set1_ps(h[i].q[k + 1]),
                                     load_512(h[i].keys + (k + 1) * h->transposed_stride, t, fp16),
                                     odd[i]);
        }
    for (int i = 0; i < heads; i++) scores[i] = _mm512_add_ps(even[i], odd[i]);
}

AVX512 ALWAYS_INLINE void heads_512(const Head *h, const int heads, float scale, float *scores,
                                    long stride, const long width, const int fp16,
                                    const int scattered) {
    const long length = h->length;
    __m512 score[HEADS_AT_ONCE], max[HEADS_AT_ONCE], sums[HEADS_AT_ONCE], out[HEADS_AT_ONCE][4];
    for (int i = 0; i < heads; i++) {
        max[i] = _mm512_set1_ps(-INFINITY);
        sums[i] = _mm512_setzero_ps();
    }
    for (long t = 0; t < length; t += 16) {
        const __mmask16 valid = t + 16 <= length ? 0xFFFF : (__mmask16)((1u << (length - t)) - 1);
        if (h->transposed_stride) scores_transposed_512(h, heads, t, width, fp16, score);
        else
            for (int i = 0; i < heads; i++) score[i] = scores_512(h + i, t, width, fp16, scattered);
        for (int i = 0; i < heads; i++) {
            score[i] = _mm512_mask_mul_ps(_mm512_set1_ps(-INFINITY), valid, score[i],
                                          _mm512_set1_ps(scale));
            _mm512_storeu_ps(scores + i * stride + t, score[i]);
            max[i] = _mm512_max_ps(score[i], max[i]);
        }
    }
    for (int i = 0; i < heads; i++) max[i] = _mm512_set1_ps(_mm512_reduce_max_ps(max[i]));
    for (long t = 0; t < length; t += 16)
        for (int i = 0; i < heads; i++) {
            const __m512 weights =
                exp_512(_mm512_sub_ps(_mm512_loadu_ps(scores + i * stride + t), max[i]));
            _mm512_storeu_ps(scores + i * stride + t, weights);
            sums[i] = _mm512_add_ps(sums[i], weights); /* masked ones add 1e-38 */
        }
    for (int i = 0; i < heads; i++)
        for (long k = 0; k < width / 16; k++) out[i][k] = _mm512_setzero_ps();
    for (long t = 0; t < length; t++)
        for (int i = 0; i < heads; i++) {
            const char *value = entry(h + i, h[i].values, t, scattered);
            const __m512 weight = _mm512_set1_ps(scores[i * stride + t]);
            if (scattered) prefetch(value + h->next_head, width * kv_size(fp16));
            for (long k = 0; k < width / 16; k++)
                out[i][k] = _mm512_fmadd_ps(weight, load_512(value, 16 * k, fp16), out[i][k]);
        }
    for (int i = 0; i < heads; i++) {
        const __m512 inverse_sum = _mm512_set1_ps(length ? 1.0f / hsum_512(sums[i]) : 0.0f);
        for (long k = 0; k < width / 16; k++)
            _mm512_storeu_ps(h[i].out + 16 * k, _mm512_mul_ps(out[i][k], inverse_sum));
    }
}

/* `at_once`: how many heads are processed together, for the distance to the next. */
ALWAYS_INLINE Head head_at(const AttentionArgs *a, long row, long head, const long width,
                           const int fp16, int at_once) {
    const long seq = a->seq_ids ? a->seq_ids[row] : 0, q = (row * a->heads + head) * width;
    const long kv_head = head / (a->heads / a->kv_heads), size = kv_size(fp16);
    const long values = seq * a->seq_stride + kv_head * a->head_stride;
    const long transposed = seq * a->seq_stride + kv_head * width * a->transposed_stride;
    const long keys = a->transposed_stride ? transposed : values;
    return (Head){
        .q = a->q + q,
        .keys = (const char *)a->keys + keys * size,
        .values = (const char *)a->values + values * size,
        .key_indices = a->key_indices ? a->key_indices + row * a->max_keys : NULL,
        .length = a->lengths ? a->lengths[seq] : a->max_keys,
        .key_stride = a->key_stride * size,
        .next_head = at_once * a->head_stride * size,
        .transposed_stride = a->transposed_stride * size,
        .out = a->out + q,
    };
}

/* Head by head, and row by row in each: rows of one sequence share most of their keys, which are
 * then in the CPU's cache. */
AVX2 ALWAYS_INLINE void rows_256(const AttentionArgs *a, long first, long end, float *scores,
                                 const long width, const int fp16, const int scattered) {
    for (long head = 0; head < a->heads; head++)
        for (long row = first; row < end; row++) {
            const Head h = head_at(a, row, head, width, fp16, 1);
            head_256(&h, a->scale, scores, width, fp16, scattered);
        }
}

AVX512 ALWAYS_INLINE void rows_512(const AttentionArgs *a, long first, long end, float *scores,
                                   const long width, const int fp16, const int scattered) {
    long head = 0;
    for (; head + HEADS_AT_ONCE <= a->heads; head += HEADS_AT_ONCE)
        for (long row = first; row < end; row++) {
            Head h[HEADS_AT_ONCE];
            for (int i = 0; i < HEADS_AT_ONCE; i++)
                h[i] = head_at(a, row, head + i, width, fp16, HEADS_AT_ONCE);
            heads_512(h, HEADS_AT_ONCE, a->scale, scores, a->max_keys + 16, width, fp16, scattered);
        }
    for (; head < a->heads; head++)
        for (long row = first; row < end; row++) {
            const Head h = head_at(a, row, head, width, fp16, 1);
            heads_512(&h, 1, a->scale, scores, a->max_keys + 16, width, fp16, scattered);
        }
}

/* For the usual head widths the compiler knows the length of the loops. */
#define DEFINE_ATTENTION(NAME, TARGET, ROWS, WIDTH)                                        \
    TARGET static void NAME(const AttentionArgs *a, long first, long end, float *scores) { \
        if (a->key_indices)                                                                \
            a->fp16 ? ROWS(a, first, end, scores, WIDTH, 1, 1)                             \
                    : ROWS(a, first, end, scores, WIDTH, 0, 1);                            \
        else                                                                               \
            a->fp16 ? ROWS(a, first, end, scores, WIDTH, 1, 0)                             \
                    : ROWS(a, first, end, scores, WIDTH, 0, 0);                            \
    }
DEFINE_ATTENTION(attention_32, AVX2, rows_256, 32)
DEFINE_ATTENTION(attention_64, AVX2, rows_256, 64)
DEFINE_ATTENTION(attention_any, AVX2, rows_256, a->width)
DEFINE_ATTENTION(attention_32_512, AVX512, rows_512, 32)
DEFINE_ATTENTION(attention_64_512, AVX512, rows_512, 64)

void attention_rows(const AttentionArgs *a, long first, long end, float *scores) {
    const int wide = isa_level() == ISA_AVX512;
    if (a->width == 32) (wide ? attention_32_512 : attention_32)(a, first, end, scores);
    else if (a->width == 64) (wide ? attention_64_512 : attention_64)(a, first, end, scores);
    else attention_any(a, first, end, scores);
}

typedef struct {
    const AttentionArgs *args;
    float *scores; /* of all threads */
} AttentionJob;

static void attention_part(const void *given, int part, int parts) {
    const AttentionJob *job = given;
    const AttentionArgs *a = job->args;
    attention_rows(a, part_start(a->rows, part, parts), part_start(a->rows, part + 1, parts),
                   job->scores + part * score_floats(a->max_keys));
}

Status attention(const AttentionArgs *a, int threads) {
    const int parts =
        a->rows * a->heads * a->max_keys * a->width < 65536 || threads < 1 ? 1 : threads;
    float *scores = malloc(sizeof(float) * (size_t)(parts * score_floats(a->max_keys)));
    if (!scores) return OUT_OF_MEMORY;
    const AttentionJob job = {.args = a, .scores = scores};
    parallel_for(attention_part, &job, parts);
    free(scores);
    return OK;
}
