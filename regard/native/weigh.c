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

/* the best: only chunks with something greater than the least of them are looked at one by one */
AVX2 static float keep_best(Weighing *w, const float *x, long first, long count) {
    const long wanted = w->count;
    float most = -INFINITY;
    __m256 above = _mm256_set1_ps(-INFINITY);
    for (long v = 0; v < count; v += CHUNK) {
        const long end = v + CHUNK < count ? v + CHUNK : count;
        if (end - v == CHUNK) {
            __m256 here = _mm256_loadu_ps(x + v);
            for (long k = 8; k < CHUNK; k += 8) here = _mm256_max_ps(_mm256_loadu_ps(x + v + k), here);
            above = _mm256_max_ps(here, above);
            if (w->filled == wanted && !_mm256_movemask_ps(_mm256_cmp_ps(here, _mm256_set1_ps(w->values[wanted - 1]), _CMP_NLE_UQ))) continue;
        }
        for (long k = v; k < end; k++) {
            most = x[k] > most ? x[k] : most;
            if (w->banned && w->banned[first + k]) continue;
            if (w->filled < wanted) {
                w->values[w->filled] = -INFINITY;
                insert(w->values, w->tokens, ++w->filled, x[k], first + k);
            } else if (x[k] > w->values[wanted - 1]) {
                insert(w->values, w->tokens, wanted, x[k], first + k);
            }
        }
    }
    float each[8];
    _mm256_storeu_ps(each, above);
    for (int i = 0; i < 8; i++) most = each[i] > most ? each[i] : most;
    return most;
}

AVX2 void weigh_more(Weighing *w, const float *x, long first, long count) {
    const float here = keep_best(w, x, first, count);
    if (here > w->most) { /* all sums are of e^(x - most) */
        w->sum *= w->most == -INFINITY ? 0.0f : expf(w->most - here);
        w->most = here;
    }
    const __m256 far = _mm256_set1_ps(w->most);
    __m256 a = _mm256_setzero_ps(), b = a;
    long v = 0;
    for (; v + 16 <= count; v += 16) {
        a = _mm256_add_ps(a, power(_mm256_sub_ps(_mm256_loadu_ps(x + v), far)));
        b = _mm256_add_ps(b, power(_mm256_sub_ps(_mm256_loadu_ps(x + v + 8), far)));
    }
    float sum = across(a) + across(b);
    for (; v < count; v++) sum += expf(x[v] - w->most);
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
