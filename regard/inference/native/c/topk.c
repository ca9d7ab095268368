/* Log-sum-exp and the k best tokens of each row of logits. */
#include "vectors.h"
#include <math.h>
#include <stddef.h>

enum { SCAN_BLOCK = 64 }; /* logits skipped together if none can be among the best */

/* Sorts in a value that is greater than the last one; of equal ones the first stays first. */
static void insert(float *values, int64_t *tokens, long k, float value, long token) {
    long at = k - 1;
    for (; at > 0 && value > values[at - 1]; at--) {
        values[at] = values[at - 1];
        tokens[at] = tokens[at - 1];
    }
    values[at] = value;
    tokens[at] = token;
}

void topk_init(TopK *t) {
    t->max = -INFINITY;
    t->exp_sum = 0.0f;
    t->filled = 0;
}

/* Scans logits start..end one by one; returns their maximum. */
static float scan_each(TopK *t, const float *x, long first, long start, long end) {
    float max = -INFINITY;
    for (long i = start; i < end; i++) {
        max = x[i] > max ? x[i] : max;
        if (t->suppressed && t->suppressed[first + i]) continue;
        if (t->filled < t->k) {
            t->values[t->filled] = -INFINITY;
            insert(t->values, t->tokens, ++t->filled, x[i], first + i);
        } else if (x[i] > t->values[t->k - 1]) {
            insert(t->values, t->tokens, t->k, x[i], first + i);
        }
    }
    return max;
}

static inline void insert_if_better(TopK *t, float value, long token) {
    if (value > t->values[t->k - 1] && !(t->suppressed && t->suppressed[token]))
        insert(t->values, t->tokens, t->k, value, token);
}

static inline float greater(float a, float b) { return a > b ? a : b; }

/* A bit for each number that is not <= `least`; NaN counts. */
AVX2 static inline unsigned above_256(__m256 x, __m256 least) {
    return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(x, least, _CMP_NLE_UQ));
}
AVX512 static inline unsigned above_512(__m512 x, __m512 least) {
    return _mm512_cmp_ps_mask(x, least, _CMP_NLE_UQ);
}

/* Scans `count` logits; returns their maximum. Looks closely only at blocks with a number that is
 * greater than the k-th best so far. */
#define DEFINE_SCAN(NAME, TARGET, BITS, LANES)                                               \
    TARGET static float NAME(TopK *t, const float *x, long first, long count) {              \
        float max = -INFINITY, each[LANES];                                                  \
        __m##BITS max_of_lanes = _mm##BITS##_set1_ps(-INFINITY);                             \
        for (long v = 0; v < count; v += SCAN_BLOCK) {                                       \
            const long end = v + SCAN_BLOCK < count ? v + SCAN_BLOCK : count;                \
            if (end - v == SCAN_BLOCK) {                                                     \
                __m##BITS here = _mm##BITS##_loadu_ps(x + v);                                \
                for (long i = LANES; i < SCAN_BLOCK; i += LANES)                             \
                    here = _mm##BITS##_max_ps(_mm##BITS##_loadu_ps(x + v + i), here);        \
                max_of_lanes = _mm##BITS##_max_ps(here, max_of_lanes);                       \
                if (t->filled == t->k) {                                                     \
                    const __m##BITS least = _mm##BITS##_set1_ps(t->values[t->k - 1]);        \
                    if (above_##BITS(here, least))                                           \
                        for (long i = v; i < end; i += LANES) {                              \
                            unsigned set = above_##BITS(_mm##BITS##_loadu_ps(x + i), least); \
                            for (; set; set &= set - 1)                                      \
                                insert_if_better(t, x[i + __builtin_ctz(set)],               \
                                                 first + i + __builtin_ctz(set));            \
                        }                                                                    \
                    continue;                                                                \
                }                                                                            \
            }                                                                                \
            max = greater(scan_each(t, x, first, v, end), max);                              \
        }                                                                                    \
        _mm##BITS##_storeu_ps(each, max_of_lanes);                                           \
        for (int i = 0; i < LANES; i++) max = greater(each[i], max);                         \
        return max;                                                                          \
    }

DEFINE_SCAN(scan_256, AVX2, 256, 8)
DEFINE_SCAN(scan_512, AVX512, 512, 16)

/* The sum of e^(x - max) over whole vectors; returns how many logits these are. */
AVX2 static long exp_sum_256(const float *x, long count, float max, float *sum) {
    const __m256 shift = _mm256_set1_ps(max);
    __m256 a = _mm256_setzero_ps(), b = a;
    long v = 0;
    for (; v + 16 <= count; v += 16) {
        a = _mm256_add_ps(a, exp_256(_mm256_sub_ps(_mm256_loadu_ps(x + v), shift)));
        b = _mm256_add_ps(b, exp_256(_mm256_sub_ps(_mm256_loadu_ps(x + v + 8), shift)));
    }
    *sum = hsum_256(a) + hsum_256(b);
    return v;
}

AVX512 static long exp_sum_512(const float *x, long count, float max, float *sum) {
    const __m512 shift = _mm512_set1_ps(max);
    __m512 a = _mm512_setzero_ps(), b = a;
    long v = 0;
    for (; v + 32 <= count; v += 32) {
        a = _mm512_add_ps(a, exp_512(_mm512_sub_ps(_mm512_loadu_ps(x + v), shift)));
        b = _mm512_add_ps(b, exp_512(_mm512_sub_ps(_mm512_loadu_ps(x + v + 16), shift)));
    }
    *sum = hsum_512(_mm512_add_ps(a, b));
    return v;
}

void topk_update(TopK *t, const float *logits, long first, long count) {
    const int wide = isa_level() == ISA_AVX512;
    const float max = (wide ? scan_512 : scan_256)(t, logits, first, count);
    if (max > t->max) { /* the sum is always relative to the maximum so far */
        t->exp_sum *= t->max == -INFINITY ? 0.0f : expf(t->max - max);
        t->max = max;
    }
    float sum;
    long v = (wide ? exp_sum_512 : exp_sum_256)(logits, count, t->max, &sum);
    for (; v < count; v++) sum += expf(logits[v] - t->max);
    t->exp_sum += sum;
}

float topk_finish(TopK *t) {
    for (long i = t->filled; i < t->k; i++) {
        t->values[i] = -INFINITY;
        t->tokens[i] = 0;
    }
    return logf(t->exp_sum);
}

typedef struct {
    const float *logits;
    long rows, vocab, k;
    float *max, *log_sum, *values;
    int64_t *tokens;
} TopKJob;

static void topk_part(const void *args, int part, int parts) {
    const TopKJob *job = args;
    const long end = part_start(job->rows, part + 1, parts);
    for (long row = part_start(job->rows, part, parts); row < end; row++) {
        TopK t = {
            .k = job->k,
            .values = job->values + row * job->k,
            .tokens = job->tokens + row * job->k,
        };
        topk_init(&t);
        for (long v = 0; v < job->vocab; v += LOGITS_PER_CHUNK) {
            const long left = job->vocab - v;
            topk_update(&t, job->logits + row * job->vocab + v, v,
                        left < LOGITS_PER_CHUNK ? left : LOGITS_PER_CHUNK);
        }
        job->log_sum[row] = topk_finish(&t);
        job->max[row] = t.max;
    }
}

/* Of each row of logits: the maximum, the log of the sum of e^(x - max), and the k best, best
 * first. */
void topk(const float *logits, long rows, long vocab, long k, int threads, float *max,
          float *log_sum, float *values, int64_t *tokens) {
    const TopKJob job = {
        .logits = logits,
        .rows = rows,
        .vocab = vocab,
        .k = k,
        .max = max,
        .log_sum = log_sum,
        .values = values,
        .tokens = tokens,
    };
    parallel_for(topk_part, &job, rows * vocab < 16384 ? 1 : threads);
}
