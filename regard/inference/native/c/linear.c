/* y = x weightsᵀ + bias. Rows are taken a block at a time, which stays near while the weights pass by. */
#include "int8.h"
#include "vectors.h"
#include <string.h>

enum { BLOCK = 96, WIDEST = 64, DEEP = 128 };
#define ALONE 8000.0 /* nanoseconds that are not worth waking another thread for */

typedef struct {
    const Part *const *parts;
    int count, activation;
    const float *x;
    long rows;
    Worth *worth; /* of int8 */
    uint8_t *q;
    float *const *y;
} Linear;

/* ---- float32 ---- */

/* Eight outputs' weights of eight inputs, turned so that those of one input lie together */
AVX2 static inline __attribute__((always_inline)) void turn_eight(const float *w, long stride, long outs, __m256 turned[8]) {
    __m256 r[8], t[8];
    for (int i = 0; i < 4; i++) { /* the rows i and i + 4 beside each other: then nothing has to cross the middle */
        const float *upper = w + (i < outs ? i : 0) * stride, *lower = w + (i + 4 < outs ? i + 4 : 0) * stride;
        r[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(upper)), _mm_loadu_ps(lower), 1);
        r[i + 4] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(upper + 4)), _mm_loadu_ps(lower + 4), 1);
    }
    for (int i = 0; i < 8; i += 2) t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]), t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            turned[i + 2 * j] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0x44);
            turned[i + 2 * j + 1] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0xEE);
        }
}

/* float32's panels: outputs that a tile works on at once. 6 rows of them fill the registers. */
long float_panel(void) { return level() == 2 ? 64 : 16; }

/* A whole panel of some inputs, turned: [input][output], what a tile reads. Every sum runs over the inputs in their
 * order, one by one, so a row's result is the same in any company. */
AVX2 void turn(const float *w, long stride, long outs, long width, long p, float *turned) {
    for (long n = 0; n < p && n < outs; n += 8)
        for (long k = 0; k < width; k += 8) {
            __m256 t[8];
            turn_eight(w + n * stride + k, stride, outs - n, t);
            for (int i = 0; i < 8; i++) _mm256_storeu_ps(turned + (k + i) * p + n, t[i]);
        }
}

/* weights (outs, width) -> panel after panel, turned once and for all */
void pack_floats(const float *weights, long outs, long width, float *packed) {
    const long p = float_panel();
    for (long n = 0; n < outs; n += p) turn(weights + n * width, width, outs - n, width, p, packed + n * width);
}

/* The same sums of one row, which would not be worth a turned copy; two at a time, as each waits for its last addition */
AVX2 static void alone(const float *x, const float *w, long stride, long outs, long width, float *sums) {
    const float *v = outs > 8 ? w + 8 * stride : w;
    const long more = outs > 8 ? outs - 8 : outs;
    __m256 a = _mm256_load_ps(sums), b = _mm256_load_ps(sums + 8);
    for (long k = 0; k < width; k += 8) {
        __m256 t[8], u[8];
        turn_eight(w + k, stride, outs, t);
        turn_eight(v + k, stride, more, u);
        for (int i = 0; i < 8; i++) {
            const __m256 each = _mm256_broadcast_ss(x + k + i);
            a = _mm256_fmadd_ps(each, t[i], a);
            b = _mm256_fmadd_ps(each, u[i], b);
        }
    }
    _mm256_store_ps(sums, a);
    _mm256_store_ps(sums + 8, b);
}

/* `rows` rows (a number the compiler sees) go on with their sums of a panel; fused, as GCC and clang do by themselves in C */
#define FLOAT_TILE(NAME, TARGET, LANES, PANEL)                                                                            \
    typedef float NAME __attribute__((vector_size(4 * LANES), aligned(4), may_alias));                                    \
    TARGET static inline __attribute__((always_inline)) void tile_##NAME(                                                 \
        const int rows, const float *x, long stride, const float *w, long width, float *sums) {                           \
        NAME a[6][PANEL / LANES];                                                                                         \
        for (int i = 0; i < rows; i++)                                                                                    \
            for (int n = 0; n < PANEL / LANES; n++) a[i][n] = *(const NAME *)(sums + i * PANEL + n * LANES);              \
        for (long k = 0; k < width; k++, w += PANEL)                                                                      \
            for (int i = 0; i < rows; i++)                                                                                \
                for (int n = 0; n < PANEL / LANES; n++) a[i][n] += x[i * stride + k] * *(const NAME *)(w + n * LANES);    \
        for (int i = 0; i < rows; i++)                                                                                    \
            for (int n = 0; n < PANEL / LANES; n++) *(NAME *)(sums + i * PANEL + n * LANES) = a[i][n];                    \
    }                                                                                                                     \
    TARGET static long rows_##NAME(long rows, const float *x, long stride, const float *w, long width, float *sums) {     \
        if (rows >= 6) return tile_##NAME(6, x, stride, w, width, sums), 6;                                               \
        if (rows >= 4) return tile_##NAME(4, x, stride, w, width, sums), 4;                                               \
        if (rows >= 2) return tile_##NAME(2, x, stride, w, width, sums), 2;                                               \
        return tile_##NAME(1, x, stride, w, width, sums), 1;                                                              \
    }

FLOAT_TILE(Eight, AVX2, 8, 16)
FLOAT_TILE(Sixteen, AVX512, 16, 64)

/* y of the panels start..end, of up to BLOCK rows */
AVX2 static void float_outputs(const Part *part, const float *x, long rows, long start, long end, int relu, float *y) {
    const int wide = level() == 2;
    const long p = float_panel();
    float turned[DEEP * WIDEST] __attribute__((aligned(64))), sums[BLOCK * WIDEST] __attribute__((aligned(64)));
    for (long at = start; at < end; at++) {
        const long first = at * p, count = part->outs - first < p ? part->outs - first : p;
        memset(sums, 0, sizeof(float) * (size_t)(p * rows));
        for (long deep = 0; deep < part->width; deep += DEEP) {
            const long width = part->width - deep < DEEP ? part->width - deep : DEEP;
            const float *w = (const float *)part->weights + first * part->width + (part->packed ? deep * p : deep);
            if (!part->packed && rows == 1) {
                for (long n = 0; n < count; n += 16) alone(x + deep, w + n * part->width, part->width, count - n < 16 ? count - n : 16, width, sums + n);
                continue;
            }
            if (!part->packed) turn(w, part->width, count, width, p, turned), w = turned;
            for (long row = 0; row < rows;)
                row += (wide ? rows_Sixteen : rows_Eight)(
                    rows - row, x + row * part->width + deep, part->width, w, width, sums + row * p);
        }
        float bias[WIDEST] = {0};
        if (part->bias) memcpy(bias, part->bias + first, sizeof(float) * (size_t)count);
        for (long row = 0; row < rows; row++) {
            float *sum = sums + row * p;
            for (long n = 0; n < p; n++) sum[n] += bias[n];
            if (relu)
                for (long n = 0; n < p; n++) sum[n] = sum[n] < 0.0f ? 0.0f : sum[n];
            memcpy(y + row * part->outs + first, sum, sizeof(float) * (size_t)count);
        }
    }
}

/* ---- activations that are no part of the product ---- */

AVX2 static inline __m256 silu(__m256 x) {
    const __m256 one = _mm256_set1_ps(1.0f), small = power(_mm256_or_ps(x, _mm256_set1_ps(-0.0f))); /* e^-|x| */
    const __m256 above = _mm256_blendv_ps(one, small, x);                                           /* x < 0: e^x, else 1 */
    return _mm256_div_ps(_mm256_mul_ps(x, above), _mm256_add_ps(one, small));
}

/* x times the normal distribution function: the error function by Abramowitz and Stegun's 7.1.26, to 1.5e-7 */
AVX2 static inline __m256 gelu(__m256 x) {
    static const float A[5] = {1.061405429f, -1.453152027f, 1.421413741f, -0.284496736f, 0.254829592f};
    const __m256 one = _mm256_set1_ps(1.0f), sign = _mm256_set1_ps(-0.0f);
    const __m256 z = _mm256_mul_ps(_mm256_andnot_ps(sign, x), _mm256_set1_ps(0.70710678f));
    const __m256 t = _mm256_div_ps(one, _mm256_fmadd_ps(z, _mm256_set1_ps(0.3275911f), one));
    __m256 sum = _mm256_set1_ps(A[0]);
    for (int i = 1; i < 5; i++) sum = _mm256_fmadd_ps(sum, t, _mm256_set1_ps(A[i]));
    const __m256 tail = _mm256_mul_ps(_mm256_mul_ps(sum, t), power(_mm256_xor_ps(_mm256_mul_ps(z, z), sign)));
    const __m256 both = _mm256_or_ps(_mm256_sub_ps(one, tail), _mm256_and_ps(sign, x));
    return _mm256_mul_ps(_mm256_mul_ps(x, _mm256_set1_ps(0.5f)), _mm256_add_ps(one, both));
}

/* x times a sigmoid: (1 + tanh(u)) / 2 = 1 / (1 + e^-2u) */
AVX2 static inline __m256 gelu_tanh(__m256 x) {
    const __m256 cube = _mm256_mul_ps(_mm256_mul_ps(x, x), x);
    const __m256 u = _mm256_mul_ps(_mm256_fmadd_ps(cube, _mm256_set1_ps(0.044715f), x), _mm256_set1_ps(2.0f * 0.79788456f));
    const __m256 one = _mm256_set1_ps(1.0f), small = power(_mm256_or_ps(u, _mm256_set1_ps(-0.0f)));
    return _mm256_div_ps(_mm256_mul_ps(x, _mm256_blendv_ps(one, small, u)), _mm256_add_ps(one, small));
}

AVX2 static void activate(float *y, long count, int activation) {
    for (long i = 0; i < count; i += 8) {
        float some[8] = {0};
        const long left = count - i < 8 ? count - i : 8;
        memcpy(some, y + i, sizeof(float) * (size_t)left);
        const __m256 x = _mm256_loadu_ps(some);
        _mm256_storeu_ps(some, activation == SILU ? silu(x) : activation == GELU ? gelu(x) : gelu_tanh(x));
        memcpy(y + i, some, sizeof(float) * (size_t)left);
    }
}

/* ---- both ---- */

static void quantise_part(const void *what, int part, int parts) {
    const Linear *l = what;
    const long width = l->parts[0]->width;
    for (long row = from(l->rows, part, parts); row < from(l->rows, part + 1, parts); row++)
        l->worth[row] = quantise(l->x + row * width, width, l->q + row * width);
}

static void multiply_part(const void *what, int part, int parts) {
    const Linear *l = what;
    const int relu = l->activation == RELU;
    for (long row = 0; row < l->rows; row += BLOCK) {
        const long rows = l->rows - row < BLOCK ? l->rows - row : BLOCK;
        for (int i = 0; i < l->count; i++) {
            const Part *p = l->parts[i];
            const long outs = p->outs, step = p->sums ? panel(level()) : float_panel(), steps = (outs + step - 1) / step;
            const long start = from(steps, part, parts), end = from(steps, part + 1, parts);
            float *y = l->y[i] + row * outs;
            if (p->sums) {
                int8_outputs(p, l->q + row * p->width, l->worth + row, rows, start, end, relu, y);
            } else {
                float_outputs(p, l->x + row * p->width, rows, start, end, relu, y);
            }
            if (l->activation > RELU && end > start) {
                const long first = start * step, count = (end * step < outs ? end * step : outs) - first;
                for (long r = 0; r < rows; r++) activate(y + r * outs + first, count, l->activation);
            }
        }
    }
}

/* About how many nanoseconds one thread takes: as long as the products take, or as long as the weights take to come. */
static double time_of(const Part *part, long rows) {
    const double products = (double)(part->outs * part->width), wide = level() == 2;
    const double working = products * (double)rows / (part->sums ? (wide ? 300.0 : 90.0) : (wide ? 80.0 : 40.0));
    const double coming = products * (part->sums ? 1.0 : 4.0) / 30.0;
    return working > coming ? working : coming;
}

long linear_room(long rows, long width) { return rows * (width + (long)sizeof(Worth)); }

void linear_given(const Part *part, const Given *given, long first, long rows, int threads, float *y) {
    const Linear l = {&part, 1, NONE, given->x + first * part->width, rows, given->worth + first, given->q + first * part->width, &y};
    in_parts(multiply_part, &l, time_of(part, rows) < ALONE ? 1 : threads);
}

Given give(const Part *part, const float *x, long rows, int threads, void *room) {
    Worth *worth = room;
    const Given given = {x, worth, (uint8_t *)(worth + rows)};
    const Linear l = {&part, 1, NONE, x, rows, worth, given.q, NULL};
    if (part->sums) in_parts(quantise_part, &l, rows * part->width < 32768 ? 1 : threads);
    return given;
}

void linear(const Part *const *parts, int count, const float *x, long rows, int activation, int threads, void *room, float *const *y) {
    Worth *worth = room;
    const long width = parts[0]->width;
    double time = 0.0;
    Linear l = {parts, count, activation, x, rows, worth, (uint8_t *)(worth + rows), y};
    for (int i = 0; i < count; i++) time += time_of(parts[i], rows);
    if (parts[0]->sums) in_parts(quantise_part, &l, rows * width < 32768 ? 1 : threads);
    in_parts(multiply_part, &l, time < ALONE ? 1 : threads);
}
