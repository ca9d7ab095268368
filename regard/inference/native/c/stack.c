/* A forward pass through all blocks of an encoder or a decoder: blocks/block.py in one call.
 *
 * Rows are tokens: of sentences one after the other without padding (encoder), or the newest token
 * of each hypothesis (decoder).
 */
#include "stack.h"
#include "scratch.h"
#include "vectors.h"
#include <math.h>
#include <stdlib.h>

enum { PREFETCH_MAX_BYTES = 32768 }; /* of the keys of the next cache */

/* ---- intermediate results ---- */

typedef struct {
    float *normed, *query, *key, *value, *attended, *inner, *out;
    void *linear;
} Buffers;

static long larger(long a, long b) { return a > b ? a : b; }

static Buffers lay_out(const Stack *s, long rows, Layout *layout) {
    const long q_width = s->heads * s->head_width, kv_width = s->kv_heads * s->head_width;
    const long widest = larger(larger(s->width, s->inner), q_width);
    return (Buffers){
        .normed = place(layout, rows * s->width, sizeof(float)),
        .query = place(layout, rows * q_width, sizeof(float)),
        .key = place(layout, rows * kv_width, sizeof(float)),
        .value = place(layout, rows * kv_width, sizeof(float)),
        .attended = place(layout, rows * q_width, sizeof(float)),
        .inner = place(layout, rows * s->inner, sizeof(float)),
        .out = place(layout, rows * s->width, sizeof(float)),
        .linear = place(layout, linear_scratch_bytes(rows, widest), 1),
    };
}

static Buffers buffers(const Stack *s, long rows, void *scratch) {
    Layout layout = {.base = scratch};
    return lay_out(s, rows, &layout);
}

long stack_scratch_bytes(const Stack *s, long rows) {
    Layout layout = {.base = NULL};
    lay_out(s, rows, &layout);
    return layout.bytes;
}

/* ---- add & norm ---- */

typedef struct {
    const Norm *norm;
    float *x;
    const float *sublayer; /* may be NULL */
    float *y;
    long rows, width;
} NormJob;

/* x becomes x + sublayer (the output of a sublayer), y becomes norm(x); y may be x */
#define DEFINE_NORM_ROW(NAME, TARGET, BITS, LANES)                                              \
    TARGET static void NAME(const Norm *norm, float *x, const float *sublayer, float *y,        \
                            long width) {                                                       \
        __m##BITS sum = _mm##BITS##_setzero_ps(), squares = sum;                                \
        for (long k = 0; k < width; k += LANES) {                                               \
            __m##BITS v = _mm##BITS##_loadu_ps(x + k);                                          \
            if (sublayer) v = _mm##BITS##_add_ps(v, _mm##BITS##_loadu_ps(sublayer + k));        \
            _mm##BITS##_storeu_ps(x + k, v);                                                    \
            sum = _mm##BITS##_add_ps(sum, v);                                                   \
        }                                                                                       \
        const __m##BITS mean = _mm##BITS##_set1_ps(hsum_##BITS(sum) / (float)width);            \
        for (long k = 0; k < width; k += LANES) {                                               \
            const __m##BITS centered = _mm##BITS##_sub_ps(_mm##BITS##_loadu_ps(x + k), mean);   \
            squares = _mm##BITS##_fmadd_ps(centered, centered, squares);                        \
        }                                                                                       \
        const __m##BITS inverse_std =                                                           \
            _mm##BITS##_set1_ps(1.0f / sqrtf(hsum_##BITS(squares) / (float)width + norm->eps)); \
        for (long k = 0; k < width; k += LANES) {                                               \
            const __m##BITS normalized = _mm##BITS##_mul_ps(                                    \
                _mm##BITS##_sub_ps(_mm##BITS##_loadu_ps(x + k), mean), inverse_std);            \
            const __m##BITS weight = _mm##BITS##_loadu_ps(norm->weight + k),                    \
                            bias = _mm##BITS##_loadu_ps(norm->bias + k);                        \
            _mm##BITS##_storeu_ps(y + k, _mm##BITS##_fmadd_ps(normalized, weight, bias));       \
        }                                                                                       \
    }

DEFINE_NORM_ROW(norm_row_256, AVX2, 256, 8)
DEFINE_NORM_ROW(norm_row_512, AVX512, 512, 16)

static void norm_part(const void *args, int part, int parts) {
    const NormJob *job = args;
    const int wide = isa_level() == ISA_AVX512;
    const long end = part_start(job->rows, part + 1, parts);
    for (long row = part_start(job->rows, part, parts); row < end; row++) {
        const long at = row * job->width;
        const float *sublayer = job->sublayer ? job->sublayer + at : NULL;
        (wide ? norm_row_512 : norm_row_256)(job->norm, job->x + at, sublayer, job->y + at,
                                             job->width);
    }
}

static void add_and_norm(const Norm *norm, float *x, const float *sublayer, float *y, long rows,
                         long width, int threads) {
    const NormJob job = {
        .norm = norm, .x = x, .sublayer = sublayer, .y = y, .rows = rows, .width = width};
    parallel_for(norm_part, &job, rows * width < 32768 ? 1 : threads);
}

/* The input of a sublayer. With norm_first, the previous sublayer's output is added only here; it
 * is NULL before the first sublayer. */
static const float *sublayer_input(const Stack *s, const Norm *norm, float *x,
                                   const float *previous, const Buffers *b, long rows,
                                   int threads) {
    if (!s->norm_first) return x;
    add_and_norm(norm, x, previous, b->normed, rows, s->width, threads);
    return b->normed;
}

/* Adds a sublayer's output to x, unless the next sublayer_input does. */
static void sublayer_output(const Stack *s, const Norm *norm, float *x, const Buffers *b, long rows,
                            int threads) {
    if (!s->norm_first) add_and_norm(norm, x, b->out, x, rows, s->width, threads);
}

static void final_norm(const Stack *s, float *x, const Buffers *b, long rows, int threads) {
    const float *previous = s->layers ? b->out : NULL;
    if (s->norm_first) add_and_norm(&s->final_norm, x, previous, x, rows, s->width, threads);
}

/* ---- sublayers ---- */

static void project(const Linear *layer, const float *x, long rows, int activation, int threads,
                    const Buffers *b, float *y) {
    linear(&layer, 1, x, rows, activation, threads, b->linear, &y);
}

static void project_qkv(const Attention *a, const float *x, long rows, int threads,
                        const Buffers *b) {
    const Linear *layers[3] = {&a->query, &a->key, &a->value};
    float *const y[3] = {b->query, b->key, b->value};
    linear(layers, 3, x, rows, NONE, threads, b->linear, y);
}

/* From the attended values back to x. */
static void attention_output(const Stack *s, const Attention *a, float *x, const Buffers *b,
                             long rows, int threads) {
    project(&a->output, b->attended, rows, NONE, threads, b, b->out);
    sublayer_output(s, &a->norm, x, b, rows, threads);
}

static void feed_forward(const Stack *s, const Block *block, float *x, const Buffers *b, long rows,
                         int threads) {
    const float *h = sublayer_input(s, &block->norm, x, b->out, b, rows, threads);
    project(&block->up, h, rows, s->activation, threads, b, b->inner);
    project(&block->down, b->inner, rows, NONE, threads, b, b->out);
    sublayer_output(s, &block->norm, x, b, rows, threads);
}

/* Attention of the rows from `first` on; the caller adds the keys. */
static AttentionArgs attention_args(const Stack *s, const Buffers *b, long first) {
    const long at = first * s->heads * s->head_width;
    return (AttentionArgs){
        .q = b->query + at,
        .out = b->attended + at,
        .heads = s->heads,
        .kv_heads = s->kv_heads,
        .width = s->head_width,
        .scale = 1.0f / sqrtf((float)s->head_width),
    };
}

/* ---- encoder ---- */

typedef struct {
    const Stack *stack;
    const Buffers *buffers;
    const int64_t *starts;
    long count;
    float *scratch;        /* of all threads: transposed keys, then scores */
    long transposed, each; /* floats: the transposed keys of the longest sentence; one thread's */
} EncoderAttention;

/* `scratch` is still to be allocated. */
static EncoderAttention encoder_attention(const Stack *s, const Buffers *b, const int64_t *starts,
                                          long count) {
    long longest = 0;
    for (long i = 0; i < count; i++) longest = larger(longest, starts[i + 1] - starts[i]);
    const long transposed = s->kv_heads * s->head_width * memory_capacity(longest) + 8;
    return (EncoderAttention){
        .stack = s,
        .buffers = b,
        .starts = starts,
        .count = count,
        .transposed = transposed,
        .each = (transposed + score_floats(longest) + 15) / 16 * 16, /* whole cache lines */
    };
}

/* Every token attends to its whole sentence. Threads share tokens, because sentences differ in
 * length. */
static void encoder_attention_part(const void *args, int part, int parts) {
    const EncoderAttention *e = args;
    const Stack *s = e->stack;
    const Buffers *b = e->buffers;
    const long kv_width = s->kv_heads * s->head_width, tokens = e->starts[e->count];
    const long start = part_start(tokens, part, parts), end = part_start(tokens, part + 1, parts);
    float *transposed = e->scratch + part * e->each;
    for (long i = 0; i < e->count; i++) {
        const long first = e->starts[i], last = e->starts[i + 1], length = last - first;
        if (last <= start || first >= end) continue;
        const long capacity = memory_capacity(length);
        for (long head = 0; head < s->kv_heads; head++)
            transpose(b->key + first * kv_width + head * s->head_width, kv_width, length,
                      s->head_width, capacity, transposed + head * s->head_width * capacity);
        AttentionArgs a = attention_args(s, b, first);
        a.keys = transposed;
        a.transposed_stride = capacity;
        a.values = b->value + first * kv_width;
        a.head_stride = s->head_width;
        a.key_stride = kv_width;
        a.rows = a.max_keys = length;
        attention_rows(&a, first < start ? start - first : 0, (last < end ? last : end) - first,
                       transposed + e->transposed);
    }
}

Status encoder_forward(const Stack *s, const int64_t *starts, long count, float *x, int threads,
                       void *scratch) {
    const long rows = starts[count];
    const Buffers b = buffers(s, rows, scratch);
    EncoderAttention self = encoder_attention(s, &b, starts, count);
    const int parts = rows < 16 || threads < 1 ? 1 : threads;
    /* zeros, so that the padding of the keys is finite */
    self.scratch = calloc((size_t)(parts * self.each), sizeof(float));
    if (!self.scratch) return OUT_OF_MEMORY;
    for (long i = 0; i < s->layers; i++) {
        const Block *block = s->blocks + i;
        const Attention *a = &block->self_attention;
        const float *previous = i ? b.out : NULL;
        project_qkv(a, sublayer_input(s, &a->norm, x, previous, &b, rows, threads), rows, threads,
                    &b);
        parallel_for(encoder_attention_part, &self, parts);
        attention_output(s, a, x, &b, rows, threads);
        feed_forward(s, block, x, &b, rows, threads);
    }
    final_norm(s, x, &b, rows, threads);
    free(self.scratch);
    return OK;
}

/* ---- decoder ---- */

static void store_memory_keys(const Stack *s, const float *keys, long count, long capacity,
                              float *transposed, void *to) {
    transpose(keys, s->kv_heads * s->head_width, count, s->head_width, capacity, transposed);
    store_kv(transposed, s->head_width * capacity, s->fp16_kv, s->fp16_kv, to);
}

static void store_memory_values(const Stack *s, const float *values, long count, char *to) {
    const long bytes = s->head_width * kv_size(s->fp16_kv);
    for (long token = 0; token < count; token++)
        store_kv(values + token * s->kv_heads * s->head_width, s->head_width, s->fp16_kv,
                 s->fp16_kv, to + token * bytes);
}

Status project_memory(const Stack *s, const float *states, const int64_t *starts, long count,
                      long capacity, int threads, void *scratch, void *memory) {
    const long rows = starts[count], kv_width = s->kv_heads * s->head_width;
    const long head_bytes = capacity * s->head_width * kv_size(s->fp16_kv);
    const long half_bytes =
        count * s->kv_heads * head_bytes; /* the keys of a layer, or its values */
    const Buffers b = buffers(s, rows, scratch);
    float *transposed = calloc((size_t)(s->head_width * capacity), sizeof(float));
    if (!transposed) return OUT_OF_MEMORY;
    /* the same input for all layers */
    const LinearInput input =
        prepare_input(&s->blocks->cross_attention.key, states, rows, threads, b.linear);
    for (long i = 0; i < s->layers; i++) {
        const Attention *a = &s->blocks[i].cross_attention;
        linear_apply(&a->key, &input, 0, rows, threads, b.key);
        linear_apply(&a->value, &input, 0, rows, threads, b.value);
        char *keys = (char *)memory + 2 * i * half_bytes, *values = keys + half_bytes;
        for (long seq = 0; seq < count; seq++)
            for (long head = 0; head < s->kv_heads; head++) {
                const long from = starts[seq] * kv_width + head * s->head_width;
                const long length = starts[seq + 1] - starts[seq];
                const long to = (seq * s->kv_heads + head) * head_bytes;
                store_memory_keys(s, b.key + from, length, capacity, transposed, keys + to);
                store_memory_values(s, b.value + from, length, values + to);
            }
    }
    free(transposed);
    return OK;
}

/* Writes the keys (or values) of each row's newest token to the cache. */
static void store_newest(const Stack *s, const BeamCache *c, const float *new, char *to) {
    for (long row = 0; row < c->rows; row++) {
        const long newest = c->length - 1;
        const long position = c->key_indices ? c->key_indices[row * c->length + newest] : newest;
        const long seq = c->seq_ids ? c->seq_ids[row] : 0;
        for (long head = 0; head < s->kv_heads; head++) {
            const long at =
                ((seq * s->kv_heads + head) * c->self_capacity + position) * s->head_width;
            store_kv(new + (row * s->kv_heads + head) * s->head_width, s->head_width, s->fp16_kv,
                     c->self_fp16, to + at * kv_size(c->self_fp16));
        }
    }
}

typedef enum { SELF, CROSS } AttentionKind;

/* The keys and values of one layer of a cache. */
typedef struct {
    char *keys, *values;
    long capacity; /* positions per head */
    int fp16;
} LayerCache;

static LayerCache layer_cache(const Stack *s, const BeamCache *c, long layer, AttentionKind kind) {
    const int self = kind == SELF, fp16 = self ? c->self_fp16 : c->memory_fp16;
    const long capacity = self ? c->self_capacity : c->memory_capacity;
    const long sequences = self ? c->sequences : c->memory_sequences;
    const long half_bytes = sequences * s->kv_heads * s->head_width * capacity * kv_size(fp16);
    char *keys = (char *)(self ? c->self_kv : c->memory_kv) + 2 * layer * half_bytes;
    return (LayerCache){
        .keys = keys, .values = keys + half_bytes, .capacity = capacity, .fp16 = fp16};
}

/* The rows of a cache start at `first`. */
static Status cache_attention(const Stack *s, const Buffers *b, const BeamCache *c, long first,
                              long layer, AttentionKind kind, int threads) {
    const LayerCache cache = layer_cache(s, c, layer, kind);
    const long kv_width = s->kv_heads * s->head_width;
    AttentionArgs a = attention_args(s, b, first);
    a.keys = cache.keys;
    a.values = cache.values;
    a.fp16 = cache.fp16;
    a.seq_ids = c->seq_ids;
    a.rows = c->rows;
    a.seq_stride = kv_width * cache.capacity;
    a.head_stride = s->head_width * cache.capacity;
    a.key_stride = s->head_width;
    if (kind == SELF) {
        a.key_indices = c->key_indices;
        a.max_keys = c->length;
        store_newest(s, c, b->key + first * kv_width, cache.keys);
        store_newest(s, c, b->value + first * kv_width, cache.values);
    } else {
        a.lengths = c->memory_lengths;
        a.max_keys = a.transposed_stride = cache.capacity;
    }
    return attention(&a, threads);
}

/* Prefetches keys and values while the previous cache is in use: caches are far apart in memory. */
static void prefetch(const Stack *s, const BeamCache *c, long layer, AttentionKind kind) {
    if (c->seq_ids) return; /* many sequences: the first would be a small part of them */
    const LayerCache cache = layer_cache(s, c, layer, kind);
    const long bytes = s->head_width * kv_size(cache.fp16); /* of a position */
    const long used = (kind == SELF ? c->length : cache.capacity) * bytes;
    const long most = PREFETCH_MAX_BYTES / s->kv_heads;
    for (long head = 0; head < s->kv_heads; head++) {
        const long start = head * cache.capacity * bytes, end = start + (used < most ? used : most);
        for (long at = start; at < end; at += CACHE_LINE) {
            __builtin_prefetch(cache.keys + at, 0, 2);
            __builtin_prefetch(cache.values + at, 0, 2);
        }
    }
}

static Status decoder_attention(const Stack *s, const Buffers *b, const BeamCache *caches,
                                long count, long layer, AttentionKind kind, int threads) {
    for (long i = 0, first = 0; i < count; first += caches[i++].rows) {
        if (i + 1 < count) prefetch(s, caches + i + 1, layer, kind);
        const Status status = cache_attention(s, b, caches + i, first, layer, kind, threads);
        if (status != OK) return status;
    }
    return OK;
}

Status decoder_step(const Stack *s, const BeamCache *caches, long count, float *x, int threads,
                    void *scratch) {
    long rows = 0;
    for (long i = 0; i < count; i++) rows += caches[i].rows;
    const Buffers b = buffers(s, rows, scratch);
    for (long i = 0; i < s->layers; i++) {
        const Block *block = s->blocks + i;
        const Attention *self = &block->self_attention, *cross = &block->cross_attention;
        const float *h = sublayer_input(s, &self->norm, x, i ? b.out : NULL, &b, rows, threads);
        project_qkv(self, h, rows, threads, &b);
        Status status = decoder_attention(s, &b, caches, count, i, SELF, threads);
        if (status != OK) return status;
        attention_output(s, self, x, &b, rows, threads);

        h = sublayer_input(s, &cross->norm, x, b.out, &b, rows, threads);
        project(&cross->query, h, rows, NONE, threads, &b, b.query);
        status = decoder_attention(s, &b, caches, count, i, CROSS, threads);
        if (status != OK) return status;
        attention_output(s, cross, x, &b, rows, threads);

        feed_forward(s, block, x, &b, rows, threads);
    }
    final_norm(s, x, &b, rows, threads);
    return OK;
}
