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

AVX2 void weigh_row(const float *x, long vocab, const uint8_t *banned, long count, float *values, int64_t *tokens, float *greatest, float *rest) {
    long filled = 0, v = 0;
    __m256 above = _mm256_set1_ps(-INFINITY);
    for (; v < vocab; v += CHUNK) { /* the best: only chunks with something greater than the least of them */
        const long end = v + CHUNK < vocab ? v + CHUNK : vocab;
        if (end - v == CHUNK) {
            __m256 most = _mm256_loadu_ps(x + v);
            for (long k = 8; k < CHUNK; k += 8) most = _mm256_max_ps(_mm256_loadu_ps(x + v + k), most);
            above = _mm256_max_ps(most, above);
            if (filled == count && !_mm256_movemask_ps(_mm256_cmp_ps(most, _mm256_set1_ps(values[count - 1]), _CMP_NLE_UQ))) continue;
        }
        for (long k = v; k < end; k++) {
            if (banned && banned[k]) continue;
            if (filled < count) {
                values[filled] = -INFINITY;
                insert(values, tokens, ++filled, x[k], k);
            } else if (x[k] > values[count - 1]) {
                insert(values, tokens, count, x[k], k);
            }
        }
    }
    for (; filled < count; filled++) values[filled] = -INFINITY, tokens[filled] = 0;
    float most = -INFINITY, each[8];
    _mm256_storeu_ps(each, above);
    for (int i = 0; i < 8; i++) most = each[i] > most ? each[i] : most;
    for (v = vocab / CHUNK * CHUNK; v < vocab; v++) most = x[v] > most ? x[v] : most;
    const __m256 far = _mm256_set1_ps(most);
    __m256 a = _mm256_setzero_ps(), b = a;
    for (v = 0; v + 16 <= vocab; v += 16) {
        a = _mm256_add_ps(a, power(_mm256_sub_ps(_mm256_loadu_ps(x + v), far)));
        b = _mm256_add_ps(b, power(_mm256_sub_ps(_mm256_loadu_ps(x + v + 8), far)));
    }
    float sum = across(a) + across(b);
    for (; v < vocab; v++) sum += expf(x[v] - most);
    *greatest = most;
    *rest = logf(sum);
}

static void weigh_part(const void *what, int part, int parts) {
    const Weigh *w = what;
    for (long row = from(w->rows, part, parts); row < from(w->rows, part + 1, parts); row++)
        weigh_row(w->logits + row * w->vocab, w->vocab, NULL, w->count, w->values + row * w->count,
                  w->tokens + row * w->count, w->most + row, w->rest + row);
}

/* Of each row of logits: the greatest, the log of the sum of e^(x - greatest), and the `count` best, best first. */
void weigh(const float *logits, long rows, long vocab, long count, int threads, float *most, float *rest, float *values, int64_t *tokens) {
    Weigh w = {logits, rows, vocab, count, most, rest, values, tokens};
    in_parts(weigh_part, &w, rows * vocab < 16384 ? 1 : threads);
}
