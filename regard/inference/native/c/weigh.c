/* Of each row of logits: the normaliser, and the best tokens. */
#include "vectors.h"
#include <math.h>
#include <stddef.h>

enum { CHUNK = 64 };

typedef struct {
    const float *logits;
    long rows, vocab, count;
    float *most, *rest, *values;
    int64_t *tokens;
} Weigh;

/* put a value that is greater than the least where it belongs; of equals, the first that came stays before */
static void insert(float *values, int64_t *tokens, long count, float value, long token) {
    long at = count - 1;
    for (; at > 0 && value > values[at - 1]; at--) {
        values[at] = values[at - 1];
        tokens[at] = tokens[at - 1];
    }
    values[at] = value;
    tokens[at] = token;
}

void weigh_begin(Weighing *w) {
    w->most = -INFINITY, w->sum = 0.0f, w->filled = 0;
}

/* one by one */
static float keep_each(Weighing *w, const float *x, long first, long start, long end) {
    const long wanted = w->count;
    float most = -INFINITY;
    for (long k = start; k < end; k++) {
        most = x[k] > most ? x[k] : most;
        if (w->banned && w->banned[first + k]) continue;
        if (w->filled < wanted) {
            w->values[w->filled] = -INFINITY;
            insert(w->values, w->tokens, ++w->filled, x[k], first + k);
        } else if (x[k] > w->values[wanted - 1]) {
            insert(w->values, w->tokens, wanted, x[k], first + k);
        }
    }
    return most;
}

/* of a place that has something greater than the least of the best */
static inline void keep_one(Weighing *w, float value, long token) {
    if (value > w->values[w->count - 1] && !(w->banned && w->banned[token])) insert(w->values, w->tokens, w->count, value, token);
}

static inline float greater(float a, float b) { return a > b ? a : b; }

/* which numbers are not below `least`: those that are none count, too */
AVX2 static inline unsigned above(__m256 x, __m256 least) { return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(x, least, _CMP_NLE_UQ)); }
AVX512 static inline unsigned above_512(__m512 x, __m512 least) { return _mm512_cmp_ps_mask(x, least, _CMP_NLE_UQ); }

/* the best: only chunks with something greater than the least of them are looked at more closely */
#define KEEP_BEST(NAME, TARGET, BITS, LANES, ABOVE)                                                                      \
    TARGET static float NAME(Weighing *w, const float *x, long first, long count) {                                      \
        const long wanted = w->count;                                                                                    \
        float most = -INFINITY, each[LANES];                                                                             \
        __m##BITS greatest = _mm##BITS##_set1_ps(-INFINITY);                                                             \
        for (long v = 0; v < count; v += CHUNK) {                                                                        \
            const long end = v + CHUNK < count ? v + CHUNK : count;                                                      \
            if (end - v == CHUNK) {                                                                                      \
                __m##BITS here = _mm##BITS##_loadu_ps(x + v);                                                            \
                for (long k = LANES; k < CHUNK; k += LANES) here = _mm##BITS##_max_ps(_mm##BITS##_loadu_ps(x + v + k), here); \
                greatest = _mm##BITS##_max_ps(here, greatest);                                                           \
                if (w->filled == wanted) {                                                                               \
                    const __m##BITS least = _mm##BITS##_set1_ps(w->values[wanted - 1]);                                  \
                    if (ABOVE(here, least))                                                                              \
                        for (long k = v; k < end; k += LANES)                                                            \
                            for (unsigned set = ABOVE(_mm##BITS##_loadu_ps(x + k), least); set; set &= set - 1)          \
                                keep_one(w, x[k + __builtin_ctz(set)], first + k + __builtin_ctz(set));                  \
                    continue;                                                                                            \
                }                                                                                                        \
            }                                                                                                            \
            most = greater(keep_each(w, x, first, v, end), most);                                                        \
        }                                                                                                                \
        _mm##BITS##_storeu_ps(each, greatest);                                                                           \
        for (int i = 0; i < LANES; i++) most = greater(each[i], most);                                                   \
        return most;                                                                                                     \
    }

KEEP_BEST(keep_best, AVX2, 256, 8, above)
KEEP_BEST(keep_best_512, AVX512, 512, 16, above_512)

/* the sum of e^(x - far), as far as whole vectors go; how far that is */
AVX2 static long sum_of(const float *x, long count, float far, float *sum) {
    const __m256 most = _mm256_set1_ps(far);
    __m256 a = _mm256_setzero_ps(), b = a;
    long v = 0;
    for (; v + 16 <= count; v += 16) {
        a = _mm256_add_ps(a, power(_mm256_sub_ps(_mm256_loadu_ps(x + v), most)));
        b = _mm256_add_ps(b, power(_mm256_sub_ps(_mm256_loadu_ps(x + v + 8), most)));
    }
    *sum = across(a) + across(b);
    return v;
}

AVX512 static long sum_of_512(const float *x, long count, float far, float *sum) {
    const __m512 most = _mm512_set1_ps(far);
    __m512 a = _mm512_setzero_ps(), b = a;
    long v = 0;
    for (; v + 32 <= count; v += 32) {
        a = _mm512_add_ps(a, power_512(_mm512_sub_ps(_mm512_loadu_ps(x + v), most)));
        b = _mm512_add_ps(b, power_512(_mm512_sub_ps(_mm512_loadu_ps(x + v + 16), most)));
    }
    *sum = across_512(_mm512_add_ps(a, b));
    return v;
}

void weigh_more(Weighing *w, const float *x, long first, long count) {
    const int wide = level() == 2;
    const float here = (wide ? keep_best_512 : keep_best)(w, x, first, count);
    if (here > w->most) { /* all sums are of e^(x - most) */
        w->sum *= w->most == -INFINITY ? 0.0f : expf(w->most - here);
        w->most = here;
    }
    float sum;
    for (long v = (wide ? sum_of_512 : sum_of)(x, count, w->most, &sum); v < count; v++) sum += expf(x[v] - w->most);
    w->sum += sum;
}

float weigh_end(Weighing *w) {
    for (long i = w->filled; i < w->count; i++) w->values[i] = -INFINITY, w->tokens[i] = 0;
    return logf(w->sum);
}

static void weigh_part(const void *what, int part, int parts) {
    const Weigh *w = what;
    for (long row = from(w->rows, part, parts); row < from(w->rows, part + 1, parts); row++) {
        Weighing one = {.count = w->count, .values = w->values + row * w->count, .tokens = w->tokens + row * w->count};
        weigh_begin(&one);
        for (long v = 0; v < w->vocab; v += PIECE)
            weigh_more(&one, w->logits + row * w->vocab + v, v, w->vocab - v < PIECE ? w->vocab - v : PIECE);
        w->rest[row] = weigh_end(&one);
        w->most[row] = one.most;
    }
}

/* Of each row of logits: the greatest, the log of the sum of e^(x - greatest), and the `count` best, best first. */
void weigh(const float *logits, long rows, long vocab, long count, int threads, float *most, float *rest, float *values, int64_t *tokens) {
    Weigh w = {logits, rows, vocab, count, most, rest, values, tokens};
    in_parts(weigh_part, &w, rows * vocab < 16384 ? 1 : threads);
}
