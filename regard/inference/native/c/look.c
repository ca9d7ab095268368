/* Attention of one query a row: what its heads take from the keys and values of its slot. */
#include "vectors.h"
#include <math.h>
#include <stdlib.h>

static inline __attribute__((always_inline)) void fetch(const char *x, long bytes) {
    for (long k = 0; k < bytes; k += 64) __builtin_prefetch(x + k);
}

/* eight or sixteen numbers of a key, from its k-th on */
AVX2 static inline __attribute__((always_inline)) __m256 eight(const char *key, long k, const int half) {
    return half ? _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(key + 2 * k))) : _mm256_loadu_ps((const float *)key + k);
}

AVX512 static inline __attribute__((always_inline)) __m512 sixteen(const char *key, long k, const int half) {
    return half ? _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(key + 2 * k))) : _mm512_loadu_ps((const float *)key + k);
}

AVX2 void put_keys(const float *x, long count, int rounded, int half, void *to) {
    const __m256 most = _mm256_set1_ps(65504.0f), least = _mm256_set1_ps(-65504.0f); /* what halves can say; NaN stays NaN */
    for (long k = 0; k < count; k += 8) {
        const __m256 v = _mm256_loadu_ps(x + k);
        const __m128i halves = _mm256_cvtps_ph(_mm256_max_ps(least, _mm256_min_ps(most, v)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        if (half) _mm_storeu_si128((__m128i *)((char *)to + 2 * k), halves);
        else _mm256_storeu_ps((float *)to + k, rounded ? _mm256_cvtph_ps(halves) : v);
    }
}

/* one query times four keys */
AVX2 static inline __attribute__((always_inline)) __m128 products(const float *q, const char *const key[4], const long width, const int half) {
    __m256 a = _mm256_setzero_ps(), b = a, c = a, d = a;
    for (long k = 0; k < width; k += 8) {
        const __m256 query = _mm256_loadu_ps(q + k);
        a = _mm256_fmadd_ps(query, eight(key[0], k, half), a);
        b = _mm256_fmadd_ps(query, eight(key[1], k, half), b);
        c = _mm256_fmadd_ps(query, eight(key[2], k, half), c);
        d = _mm256_fmadd_ps(query, eight(key[3], k, half), d);
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

/* One row's head: where its keys and values begin, and which of them are its own. */
typedef struct {
    const float *q;
    const char *keys, *values;
    const int32_t *places;
    long length, stride, next; /* bytes from one place, from one head to the next */
    long turned;               /* 0; or bytes from one number of the keys to the next */
    float *out;
} Head;

static inline __attribute__((always_inline)) const char *place(const Head *h, const char *first, long t, const int scattered) {
    return first + (scattered ? h->places[t] : t) * h->stride;
}

/* Eight keys from t on; after the last, the last again. Scattered ones of the next head come while this one's are worked on. */
static inline __attribute__((always_inline)) void eight_keys(const Head *h, long t, long bytes, const int scattered, const char *key[8]) {
    if (t + 8 <= h->length) {
        for (long i = 0; i < 8; i++) key[i] = place(h, h->keys, t + i, scattered);
    } else {
        for (long i = 0; i < 8; i++) key[i] = place(h, h->keys, t + i < h->length ? t + i : h->length - 1, scattered);
    }
    if (scattered)
        for (long i = 0; i < 8; i++) fetch(key[i] + h->next, bytes);
}

/* Keys that lie turned, eight from t on: a number of all of them, then the next, so that nothing is added up across a register. Four
 * sums, as each waits for its last addition. */
AVX2 static inline __attribute__((always_inline)) __m256 turned_eight(const Head *h, long t, const long width, const int half) {
    __m256 a[4];
    for (long i = 0; i < 4; i++) a[i] = _mm256_mul_ps(_mm256_set1_ps(h->q[i]), eight(h->keys + i * h->turned, t, half));
    for (long k = 4; k < width; k += 4)
        for (long i = 0; i < 4; i++) a[i] = _mm256_fmadd_ps(_mm256_set1_ps(h->q[k + i]), eight(h->keys + (k + i) * h->turned, t, half), a[i]);
    return _mm256_add_ps(_mm256_add_ps(a[0], a[1]), _mm256_add_ps(a[2], a[3]));
}

/* scores -> weights that add up to 1 / what is returned */
AVX2 static inline __attribute__((always_inline)) float weights_of(float *scores, long length, __m256 highest) {
    __m256 sums = _mm256_setzero_ps();
    highest = most_of(highest);
    for (long t = 0; t < length; t += 8) {
        const __m256 weights = power(_mm256_sub_ps(_mm256_loadu_ps(scores + t), highest));
        _mm256_storeu_ps(scores + t, weights);
        sums = _mm256_add_ps(sums, weights); /* what is unseen weighs 1e-38 */
    }
    return length ? 1.0f / across(sums) : 0.0f;
}

/* eight scores from t on; after the last, nothing is seen */
AVX2 static inline __attribute__((always_inline)) __m256 seen(__m256 scores, long t, long length) {
    if (t + 8 <= length) return scores;
    return _mm256_blendv_ps(scores, _mm256_set1_ps(-INFINITY), _mm256_loadu_ps((const float *)(AFTER + 8 - (length - t))));
}

AVX2 static inline __attribute__((always_inline)) __m256 rows_eight(const Head *h, long t, const long width, const int half, const int scattered) {
    const char *key[8];
    eight_keys(h, t, width * size_of(half), scattered, key);
    return _mm256_set_m128(products(h->q, key + 4, width, half), products(h->q, key, width, half));
}

AVX2 static inline __attribute__((always_inline)) void look_eight(const Head *h, float times, float *scores, const long width, const int half, const int scattered) {
    const __m256 scale = _mm256_set1_ps(times);
    __m256 highest = _mm256_set1_ps(-INFINITY);
    for (long t = 0; t < h->length; t += 8) { /* eight keys at a time; after the last, the last again, but unseen */
        const __m256 both = h->turned ? turned_eight(h, t, width, half) : rows_eight(h, t, width, half, scattered);
        const __m256 score = seen(_mm256_mul_ps(both, scale), t, h->length);
        _mm256_storeu_ps(scores + t, score);
        highest = _mm256_max_ps(score, highest);
    }
    const __m256 each = _mm256_set1_ps(weights_of(scores, h->length, highest));
    long k = 0;
    for (; k + 32 <= width; k += 32) {
        __m256 a = _mm256_setzero_ps(), b = a, c = a, d = a;
        for (long t = 0; t < h->length; t++) {
            const char *value = place(h, h->values, t, scattered);
            if (scattered) fetch(value + h->next + k * size_of(half), 32 * size_of(half));
            const __m256 weight = _mm256_set1_ps(scores[t]);
            a = _mm256_fmadd_ps(weight, eight(value, k, half), a);
            b = _mm256_fmadd_ps(weight, eight(value, k + 8, half), b);
            c = _mm256_fmadd_ps(weight, eight(value, k + 16, half), c);
            d = _mm256_fmadd_ps(weight, eight(value, k + 24, half), d);
        }
        _mm256_storeu_ps(h->out + k, _mm256_mul_ps(a, each));
        _mm256_storeu_ps(h->out + k + 8, _mm256_mul_ps(b, each));
        _mm256_storeu_ps(h->out + k + 16, _mm256_mul_ps(c, each));
        _mm256_storeu_ps(h->out + k + 24, _mm256_mul_ps(d, each));
    }
    for (; k < width; k += 8) {
        __m256 a = _mm256_setzero_ps();
        for (long t = 0; t < h->length; t++) a = _mm256_fmadd_ps(_mm256_set1_ps(scores[t]), eight(place(h, h->values, t, scattered), k, half), a);
        _mm256_storeu_ps(h->out + k, _mm256_mul_ps(a, each));
    }
}

/* With AVX-512, for heads of 32 or 64: some heads of a row side by side, as one alone would wait for its own sums at every turn. */
enum { SIDE = 4 };

AVX512 static inline __attribute__((always_inline)) __m128 products_512(const __m512 *q, const char *const key[4], const long width, const int half) {
    __m512 a[4];
    for (int i = 0; i < 4; i++) a[i] = _mm512_mul_ps(q[0], sixteen(key[i], 0, half));
    for (long k = 1; k < width / 16; k++)
        for (int i = 0; i < 4; i++) a[i] = _mm512_fmadd_ps(q[k], sixteen(key[i], 16 * k, half), a[i]);
    const __m256 sums = _mm256_hadd_ps(_mm256_hadd_ps(folded(a[0]), folded(a[1])), _mm256_hadd_ps(folded(a[2]), folded(a[3])));
    return _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
}

AVX512 static inline __attribute__((always_inline)) __m256 rows_eight_512(const Head *h, const __m512 *q, long t, const long width, const int half, const int scattered) {
    const char *key[8];
    eight_keys(h, t, width * size_of(half), scattered, key);
    return _mm256_set_m128(products_512(q, key + 4, width, half), products_512(q, key, width, half));
}

/* sixteen scores of a head whose keys lie one after the other */
AVX512 static inline __attribute__((always_inline)) __m512 rows_sixteen(const Head *h, long t, const long width, const int half, const int scattered) {
    __m512 q[4];
    for (long k = 0; k < width / 16; k++) q[k] = _mm512_loadu_ps(h->q + 16 * k);
    const __m256 low = rows_eight_512(h, q, t, width, half, scattered);
    const __m256 high = t + 8 < h->length ? rows_eight_512(h, q, t + 8, width, half, scattered) : low;
    return _mm512_castpd_ps(_mm512_insertf64x4(_mm512_castps_pd(_mm512_castps256_ps512(low)), _mm256_castps_pd(high), 1));
}

/* sixteen scores of each head where keys lie turned: no sum runs across a register */
AVX512 static inline __attribute__((always_inline)) void turned_sixteen(const Head *h, const int heads, long t, const long width, const int half, __m512 *scores) {
    __m512 even[SIDE], odd[SIDE];
    for (int i = 0; i < heads; i++) even[i] = odd[i] = _mm512_setzero_ps();
    for (long k = 0; k < width; k += 2)
        for (int i = 0; i < heads; i++) {
            even[i] = _mm512_fmadd_ps(_mm512_set1_ps(h[i].q[k]), sixteen(h[i].keys + k * h->turned, t, half), even[i]);
            odd[i] = _mm512_fmadd_ps(_mm512_set1_ps(h[i].q[k + 1]), sixteen(h[i].keys + (k + 1) * h->turned, t, half), odd[i]);
        }
    for (int i = 0; i < heads; i++) scores[i] = _mm512_add_ps(even[i], odd[i]);
}

AVX512 static inline __attribute__((always_inline)) void look_sixteen(const Head *h, const int heads, float times, float *scores, long room, const long width, const int half, const int scattered) {
    const long length = h->length;
    __m512 score[SIDE], highest[SIDE], sums[SIDE], out[SIDE][4];
    for (int i = 0; i < heads; i++) highest[i] = _mm512_set1_ps(-INFINITY), sums[i] = _mm512_setzero_ps();
    for (long t = 0; t < length; t += 16) {
        const __mmask16 seen = t + 16 <= length ? 0xFFFF : (__mmask16)((1u << (length - t)) - 1);
        if (h->turned) turned_sixteen(h, heads, t, width, half, score);
        else
            for (int i = 0; i < heads; i++) score[i] = rows_sixteen(h + i, t, width, half, scattered);
        for (int i = 0; i < heads; i++) {
            score[i] = _mm512_mask_mul_ps(_mm512_set1_ps(-INFINITY), seen, score[i], _mm512_set1_ps(times));
            _mm512_storeu_ps(scores + i * room + t, score[i]);
            highest[i] = _mm512_max_ps(score[i], highest[i]);
        }
    }
    for (int i = 0; i < heads; i++) highest[i] = _mm512_set1_ps(_mm512_reduce_max_ps(highest[i]));
    for (long t = 0; t < length; t += 16)
        for (int i = 0; i < heads; i++) {
            const __m512 weights = power_512(_mm512_sub_ps(_mm512_loadu_ps(scores + i * room + t), highest[i]));
            _mm512_storeu_ps(scores + i * room + t, weights);
            sums[i] = _mm512_add_ps(sums[i], weights); /* what is unseen weighs 1e-38 */
        }
    for (int i = 0; i < heads; i++)
        for (long k = 0; k < width / 16; k++) out[i][k] = _mm512_setzero_ps();
    for (long t = 0; t < length; t++)
        for (int i = 0; i < heads; i++) {
            const char *value = place(h + i, h[i].values, t, scattered);
            const __m512 weight = _mm512_set1_ps(scores[i * room + t]);
            if (scattered) fetch(value + h->next, width * size_of(half));
            for (long k = 0; k < width / 16; k++) out[i][k] = _mm512_fmadd_ps(weight, sixteen(value, 16 * k, half), out[i][k]);
        }
    for (int i = 0; i < heads; i++) {
        const __m512 each = _mm512_set1_ps(length ? 1.0f / across_512(sums[i]) : 0.0f);
        for (long k = 0; k < width / 16; k++) _mm512_storeu_ps(h[i].out + 16 * k, _mm512_mul_ps(out[i][k], each));
    }
}

/* where a head of a row looks */
static inline __attribute__((always_inline)) Head head_of(const Look *l, long row, long head, const long width, const int half, int heads) {
    const long slot = l->slots ? l->slots[row] : 0, at = (row * l->heads + head) * width, kept = head / (l->heads / l->kv_heads), size = size_of(half);
    const long values = slot * l->slot_stride + kept * l->head_stride, keys = l->turned ? slot * l->slot_stride + kept * width * l->turned : values;
    return (Head){l->q + at, (const char *)l->keys + keys * size, (const char *)l->values + values * size,
                  l->places ? l->places + row * l->longest : NULL, l->lengths ? l->lengths[slot] : l->longest,
                  l->stride * size, heads * l->head_stride * size, l->turned * size, l->out + at};
}

static float *some_scores(const Look *l, long heads) {
    float *scores = malloc(sizeof(float) * (size_t)(heads * (l->longest + 16)));
    if (!scores) abort();
    return scores;
}

/* A head after the other, and in it row by row: rows of one slot share most of their keys, and find them near. */
AVX2 static inline __attribute__((always_inline)) void look_some(const Look *l, long first, long end, const long width, const int half, const int scattered) {
    float *scores = some_scores(l, 1);
    for (long head = 0; head < l->heads; head++)
        for (long row = first; row < end; row++) {
            const Head h = head_of(l, row, head, width, half, 1);
            look_eight(&h, l->scale, scores, width, half, scattered);
        }
    free(scores);
}

AVX512 static inline __attribute__((always_inline)) void look_some_512(const Look *l, long first, long end, const long width, const int half, const int scattered) {
    float *scores = some_scores(l, SIDE);
    long head = 0;
    for (; head + SIDE <= l->heads; head += SIDE)
        for (long row = first; row < end; row++) {
            Head h[SIDE];
            for (int i = 0; i < SIDE; i++) h[i] = head_of(l, row, head + i, width, half, SIDE);
            look_sixteen(h, SIDE, l->scale, scores, l->longest + 16, width, half, scattered);
        }
    for (; head < l->heads; head++)
        for (long row = first; row < end; row++) {
            const Head h = head_of(l, row, head, width, half, 1);
            look_sixteen(&h, 1, l->scale, scores, l->longest + 16, width, half, scattered);
        }
    free(scores);
}

/* for the usual widths the compiler knows how long the loops are */
#define LOOK(NAME, TARGET, HOW, WIDTH)                                                                                   \
    TARGET static void NAME(const Look *l, long first, long end) {                                                       \
        if (l->places) l->half ? HOW(l, first, end, WIDTH, 1, 1) : HOW(l, first, end, WIDTH, 0, 1);                      \
        else l->half ? HOW(l, first, end, WIDTH, 1, 0) : HOW(l, first, end, WIDTH, 0, 0);                                \
    }
LOOK(look_32, AVX2, look_some, 32)
LOOK(look_64, AVX2, look_some, 64)
LOOK(look_any, AVX2, look_some, l->width)
LOOK(look_32_512, AVX512, look_some_512, 32)
LOOK(look_64_512, AVX512, look_some_512, 64)

void look_rows(const Look *l, long first, long end) {
    const int wide = level() == 2;
    if (l->width == 32) (wide ? look_32_512 : look_32)(l, first, end);
    else if (l->width == 64) (wide ? look_64_512 : look_64)(l, first, end);
    else look_any(l, first, end);
}

static void look_part(const void *what, int part, int parts) {
    const Look *l = what;
    look_rows(l, from(l->rows, part, parts), from(l->rows, part + 1, parts));
}

void look(const Look *l, int threads) {
    in_parts(look_part, l, l->rows * l->heads * l->longest * l->width < 65536 ? 1 : threads);
}
