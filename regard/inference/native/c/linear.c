/* y = x weightᵀ + bias. Rows are processed in blocks, which stay in the CPU's cache while the
 * weights are read. */
#include "int8.h"
#include "vectors.h"
#include <string.h>

enum {
    ROWS_PER_BLOCK = 96,
    MAX_PANEL_WIDTH = 64,
    INPUTS_PER_PASS = 128, /* of a float panel */
};
/* A layer that takes one thread less than this runs on one: to wake another takes as long. */
#define MIN_PARALLEL_NANOSECONDS 8000.0

typedef struct {
    const Linear *const *layers;
    int count, activation;
    const float *x;
    long rows;
    QParams *qparams; /* int8 only */
    uint8_t *q;       /* int8 only */
    float *const *y;
} LinearJob;

/* ---- float32 ---- */

/* Transposes the weights of eight outputs and eight inputs: the weights of one input end up
 * together. */
AVX2 ALWAYS_INLINE void transpose_8x8(const float *w, long stride, long outputs,
                                      __m256 transposed[8]) {
    __m256 r[8], t[8];
    for (int i = 0; i < 4;
         i++) { /* rows i and i + 4 side by side: then nothing crosses the halves */
        const float *upper = w + (i < outputs ? i : 0) * stride,
                    *lower = w + (i + 4 < outputs ? i + 4 : 0) * stride;
        r[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(upper)),
                                    _mm_loadu_ps(lower), 1);
        r[i + 4] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(upper + 4)),
                                        _mm_loadu_ps(lower + 4), 1);
    }
    for (int i = 0; i < 8; i += 2)
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]), t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            transposed[i + 2 * j] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0x44);
            transposed[i + 2 * j + 1] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0xEE);
        }
}

/* Outputs that a tile computes at once: 6 rows of them fill the registers. */
long float_panel_width(void) { return isa_level() == ISA_AVX512 ? 64 : 16; }

/* For weights: a panel of some inputs as a tile reads it, [input][output]. Every sum runs over the
 * inputs in order, one by one, so a row's result never depends on the other rows. */
AVX2 void transpose(const float *x, long stride, long count, long width, long capacity,
                    float *transposed) {
    for (long n = 0; n < capacity && n < count; n += 8)
        for (long k = 0; k < width; k += 8) {
            __m256 t[8];
            transpose_8x8(x + n * stride + k, stride, count - n, t);
            for (int i = 0; i < 8; i++) _mm256_storeu_ps(transposed + (k + i) * capacity + n, t[i]);
        }
}

typedef struct {
    const float *weight;
    long outputs, width;
    float *packed;
} PackJob;

static void pack_part(const void *args, int part, int parts) {
    const PackJob *job = args;
    const long p = float_panel_width(), panels = (job->outputs + p - 1) / p, width = job->width;
    const long end = part_start(panels, part + 1, parts);
    for (long n = part_start(panels, part, parts) * p; n < end * p; n += p)
        transpose(job->weight + n * width, width, job->outputs - n, width, p,
                  job->packed + n * width);
}

/* weight (outputs, width) -> transposed panels */
void pack_floats(const float *weight, long outputs, long width, int threads, float *packed) {
    const PackJob job = {.weight = weight, .outputs = outputs, .width = width, .packed = packed};
    parallel_for(pack_part, &job, outputs * width < 65536 ? 1 : threads);
}

/* Adds to the sums of up to sixteen outputs of one row, for which a transposed copy would not pay
 * off. Two registers, because each sum waits for its last addition. */
AVX2 static void single_row(const float *x, const float *w, long stride, long outputs, long width,
                            float *sums) {
    const float *v = outputs > 8 ? w + 8 * stride : w;
    const long more = outputs > 8 ? outputs - 8 : outputs;
    __m256 a = _mm256_load_ps(sums), b = _mm256_load_ps(sums + 8);
    for (long k = 0; k < width; k += 8) {
        __m256 t[8], u[8];
        transpose_8x8(w + k, stride, outputs, t);
        transpose_8x8(v + k, stride, more, u);
        for (int i = 0; i < 8; i++) {
            const __m256 input = _mm256_broadcast_ss(x + k + i);
            a = _mm256_fmadd_ps(input, t[i], a);
            b = _mm256_fmadd_ps(input, u[i], b);
        }
    }
    _mm256_store_ps(sums, a);
    _mm256_store_ps(sums + 8, b);
}

/* Adds to the sums of a panel; `rows` is a constant to the compiler. GCC and clang fuse the
 * products by themselves. */
#define DEFINE_FLOAT_TILE(NAME, TARGET, LANES, PANEL)                                      \
    typedef float NAME __attribute__((vector_size(4 * LANES), aligned(4), may_alias));     \
    TARGET ALWAYS_INLINE void tile_##NAME(const int rows, const float *x, long stride,     \
                                          const float *w, long width, float *sums) {       \
        NAME a[6][PANEL / LANES];                                                          \
        for (int i = 0; i < rows; i++)                                                     \
            for (int n = 0; n < PANEL / LANES; n++)                                        \
                a[i][n] = *(const NAME *)(sums + i * PANEL + n * LANES);                   \
        for (long k = 0; k < width; k++, w += PANEL)                                       \
            for (int i = 0; i < rows; i++)                                                 \
                for (int n = 0; n < PANEL / LANES; n++)                                    \
                    a[i][n] += x[i * stride + k] * *(const NAME *)(w + n * LANES);         \
        for (int i = 0; i < rows; i++)                                                     \
            for (int n = 0; n < PANEL / LANES; n++)                                        \
                *(NAME *)(sums + i * PANEL + n * LANES) = a[i][n];                         \
    }                                                                                      \
    TARGET static long rows_##NAME(long rows, const float *x, long stride, const float *w, \
                                   long width, float *sums) {                              \
        if (rows >= 6) return tile_##NAME(6, x, stride, w, width, sums), 6;                \
        if (rows >= 4) return tile_##NAME(4, x, stride, w, width, sums), 4;                \
        if (rows >= 2) return tile_##NAME(2, x, stride, w, width, sums), 2;                \
        return tile_##NAME(1, x, stride, w, width, sums), 1;                               \
    }

DEFINE_FLOAT_TILE(Floats8, AVX2, 8, 16)
DEFINE_FLOAT_TILE(Floats16, AVX512, 16, 64)

/* Adds the inputs from `k` on, INPUTS_PER_PASS or the last, to the sums (rows, panel) of a panel
 * with `count` outputs from `first` on. */
AVX2 static void add_inputs(const Linear *layer, const float *x, long rows, long first, long count,
                            long k, float *sums) {
    const long p = float_panel_width(), stride = layer->width;
    const long width = stride - k < INPUTS_PER_PASS ? stride - k : INPUTS_PER_PASS;
    const float *w = (const float *)layer->weight + first * stride + (layer->packed ? k * p : k);
    float transposed[INPUTS_PER_PASS * MAX_PANEL_WIDTH] __attribute__((aligned(64)));
    if (!layer->packed && rows == 1) {
        for (long n = 0; n < count; n += 16)
            single_row(x + k, w + n * stride, stride, count - n < 16 ? count - n : 16, width,
                       sums + n);
        return;
    }
    if (!layer->packed) {
        transpose(w, stride, count, width, p, transposed);
        w = transposed;
    }
    const int wide = isa_level() == ISA_AVX512;
    for (long row = 0; row < rows;)
        row += (wide ? rows_Floats16 : rows_Floats8)(rows - row, x + row * stride + k, stride, w,
                                                     width, sums + row * p);
}

/* y of the panels start..end, for up to ROWS_PER_BLOCK rows */
AVX2 static void float_outputs(const Linear *layer, const float *x, long rows, long start, long end,
                               int relu, float *y) {
    const long p = float_panel_width(), outputs = layer->outputs;
    float sums[ROWS_PER_BLOCK * MAX_PANEL_WIDTH] __attribute__((aligned(64)));
    for (long panel = start; panel < end; panel++) {
        const long first = panel * p, count = outputs - first < p ? outputs - first : p;
        memset(sums, 0, sizeof(float) * (size_t)(p * rows));
        for (long k = 0; k < layer->width; k += INPUTS_PER_PASS)
            add_inputs(layer, x, rows, first, count, k, sums);
        float bias[MAX_PANEL_WIDTH] = {0};
        if (layer->bias) memcpy(bias, layer->bias + first, sizeof(float) * (size_t)count);
        for (long row = 0; row < rows; row++) {
            float *sum = sums + row * p;
            for (long n = 0; n < p; n++) sum[n] += bias[n];
            if (relu)
                for (long n = 0; n < p; n++) sum[n] = sum[n] < 0.0f ? 0.0f : sum[n];
            memcpy(y + row * outputs + first, sum, sizeof(float) * (size_t)count);
        }
    }
}

/* ---- activations other than ReLU, which is part of the product ---- */

AVX2 static inline __m256 silu(__m256 x) {
    const __m256 one = _mm256_set1_ps(1.0f);
    const __m256 small = exp_256(_mm256_or_ps(x, _mm256_set1_ps(-0.0f))); /* e^-|x| */
    const __m256 above = _mm256_blendv_ps(one, small, x);                 /* e^x if x < 0, else 1 */
    return _mm256_div_ps(_mm256_mul_ps(x, above), _mm256_add_ps(one, small));
}

/* x times the normal distribution function; the error function is Abramowitz and Stegun 7.1.26, to
 * 1.5e-7. */
AVX2 static inline __m256 gelu(__m256 x) {
    static const float A[5] = {1.061405429f, -1.453152027f, 1.421413741f, -0.284496736f,
                               0.254829592f};
    const __m256 one = _mm256_set1_ps(1.0f), sign = _mm256_set1_ps(-0.0f);
    const __m256 z = _mm256_mul_ps(_mm256_andnot_ps(sign, x), _mm256_set1_ps(0.70710678f));
    const __m256 t = _mm256_div_ps(one, _mm256_fmadd_ps(z, _mm256_set1_ps(0.3275911f), one));
    __m256 sum = _mm256_set1_ps(A[0]);
    for (int i = 1; i < 5; i++) sum = _mm256_fmadd_ps(sum, t, _mm256_set1_ps(A[i]));
    const __m256 tail =
        _mm256_mul_ps(_mm256_mul_ps(sum, t), exp_256(_mm256_xor_ps(_mm256_mul_ps(z, z), sign)));
    const __m256 both = _mm256_or_ps(_mm256_sub_ps(one, tail), _mm256_and_ps(sign, x));
    return _mm256_mul_ps(_mm256_mul_ps(x, _mm256_set1_ps(0.5f)), _mm256_add_ps(one, both));
}

/* x times a sigmoid: (1 + tanh(u)) / 2 = 1 / (1 + e^-2u) */
AVX2 static inline __m256 gelu_tanh(__m256 x) {
    const __m256 cube = _mm256_mul_ps(_mm256_mul_ps(x, x), x);
    const __m256 u = _mm256_mul_ps(_mm256_fmadd_ps(cube, _mm256_set1_ps(0.044715f), x),
                                   _mm256_set1_ps(2.0f * 0.79788456f));
    const __m256 one = _mm256_set1_ps(1.0f),
                 small = exp_256(_mm256_or_ps(u, _mm256_set1_ps(-0.0f)));
    return _mm256_div_ps(_mm256_mul_ps(x, _mm256_blendv_ps(one, small, u)),
                         _mm256_add_ps(one, small));
}

AVX2 static void activate(float *y, long count, int activation) {
    for (long i = 0; i < count; i += 8) {
        float eight[8] = {0};
        const long left = count - i < 8 ? count - i : 8;
        memcpy(eight, y + i, sizeof(float) * (size_t)left);
        const __m256 x = _mm256_loadu_ps(eight);
        const __m256 result = activation == SILU   ? silu(x)
                              : activation == GELU ? gelu(x)
                                                   : gelu_tanh(x);
        _mm256_storeu_ps(eight, result);
        memcpy(y + i, eight, sizeof(float) * (size_t)left);
    }
}

/* ---- float32 and int8 ---- */

static void quantize_part(const void *args, int part, int parts) {
    const LinearJob *job = args;
    const long width = job->layers[0]->width, end = part_start(job->rows, part + 1, parts);
    for (long row = part_start(job->rows, part, parts); row < end; row++)
        job->qparams[row] = quantize(job->x + row * width, width, job->q + row * width);
}

/* One part's panels of a layer, for a block of rows. */
static void multiply_block(const LinearJob *job, const Linear *layer, long row, long rows, int part,
                           int parts, float *y) {
    const int relu = job->activation == RELU, int8 = layer->weight_sums != NULL;
    const long p = int8 ? int8_panel_width(isa_level()) : float_panel_width();
    const long outputs = layer->outputs, panels = (outputs + p - 1) / p, at = row * layer->width;
    const long start = part_start(panels, part, parts), end = part_start(panels, part + 1, parts);
    if (int8) int8_outputs(layer, job->q + at, job->qparams + row, rows, start, end, relu, y);
    else float_outputs(layer, job->x + at, rows, start, end, relu, y);
    if (job->activation > RELU && end > start) {
        const long first = start * p, count = (end * p < outputs ? end * p : outputs) - first;
        for (long i = 0; i < rows; i++) activate(y + i * outputs + first, count, job->activation);
    }
}

static void multiply_part(const void *args, int part, int parts) {
    const LinearJob *job = args;
    for (long row = 0; row < job->rows; row += ROWS_PER_BLOCK) {
        const long left = job->rows - row, rows = left < ROWS_PER_BLOCK ? left : ROWS_PER_BLOCK;
        for (int i = 0; i < job->count; i++)
            multiply_block(job, job->layers[i], row, rows, part, parts,
                           job->y[i] + row * job->layers[i]->outputs);
    }
}

/* About how many nanoseconds one thread takes: for the products or, if that is longer, to read the
 * weights from memory. */
static double nanoseconds(const Linear *layer, long rows) {
    const int int8 = layer->weight_sums != NULL, wide = isa_level() == ISA_AVX512;
    const double products = (double)(layer->outputs * layer->width);
    const double per_nanosecond = int8 ? (wide ? 300.0 : 90.0) : (wide ? 80.0 : 40.0);
    const double compute = products * (double)rows / per_nanosecond;
    const double memory = products * (int8 ? 1.0 : 4.0) / 30.0;
    return compute > memory ? compute : memory;
}

static void quantize_rows(const LinearJob *job, int threads) {
    if (!job->layers[0]->weight_sums) return;
    parallel_for(quantize_part, job, job->rows * job->layers[0]->width < 32768 ? 1 : threads);
}

static void multiply(const LinearJob *job, int threads) {
    double time = 0.0;
    for (int i = 0; i < job->count; i++) time += nanoseconds(job->layers[i], job->rows);
    parallel_for(multiply_part, job, time < MIN_PARALLEL_NANOSECONDS ? 1 : threads);
}

long linear_scratch_bytes(long rows, long width) { return rows * (width + (long)sizeof(QParams)); }

LinearInput prepare_input(const Linear *layer, const float *x, long rows, int threads,
                          void *scratch) {
    QParams *qparams = scratch;
    const LinearInput input = {.x = x, .qparams = qparams, .q = (uint8_t *)(qparams + rows)};
    const LinearJob job = {
        .layers = &layer,
        .count = 1,
        .x = x,
        .rows = rows,
        .qparams = input.qparams,
        .q = input.q,
    };
    quantize_rows(&job, threads);
    return input;
}

void linear_apply(const Linear *layer, const LinearInput *input, long first, long rows, int threads,
                  float *y) {
    const LinearJob job = {
        .layers = &layer,
        .count = 1,
        .activation = NONE,
        .x = input->x + first * layer->width,
        .rows = rows,
        .qparams = input->qparams + first,
        .q = input->q + first * layer->width,
        .y = &y,
    };
    multiply(&job, threads);
}

void linear(const Linear *const *layers, int count, const float *x, long rows, int activation,
            int threads, void *scratch, float *const *y) {
    QParams *qparams = scratch;
    const LinearJob job = {
        .layers = layers,
        .count = count,
        .activation = activation,
        .x = x,
        .rows = rows,
        .qparams = qparams,
        .q = (uint8_t *)(qparams + rows),
        .y = y,
    };
    quantize_rows(&job, threads);
    multiply(&job, threads);
}
