/* Shared by stack.c, encode.c and search.c. */
#pragma once
#include "kernels.h"

typedef struct {
    const float *weight, *bias;
    float eps;
} Norm;

typedef struct {
    Linear query, key, value, output;
    Norm norm;
} Attention;

typedef struct {
    Attention self_attention, cross_attention;
    Linear up, down;
    Norm norm;
} Block;

/* The blocks of an encoder or a decoder. width, inner and heads x head_width are multiples of 32,
 * head_width is a multiple of 8. */
typedef struct {
    const Block *blocks;
    long layers, width, inner, heads, kv_heads, head_width;
    int norm_first, activation;
    int fp16_kv;     /* round cached keys and values to float16: int8 weights are no more precise */
    Norm final_norm; /* only with norm_first */
} Stack;

/* Sequences that were started together, see blocks/beam_cache.py.
 * Layout of keys and values: [layer][key, value][sequence][head][position][head_width]. */
typedef struct {
    void *self_kv;
    const void *memory_kv;
    const int32_t *seq_ids;        /* (rows); NULL: there is only one sequence */
    const int32_t *key_indices;    /* (rows, length): the cache position of each token of a row; the
                                      last is the newest token's, not yet written; NULL: 0, 1, 2 … */
    const int32_t *memory_lengths; /* (sequences) */
    long rows, length, sequences, self_capacity, memory_sequences, memory_capacity;
    int self_fp16, memory_fp16; /* float16, or float32 */
} BeamCache;

/* Scratch bytes of a forward pass over `rows` tokens. */
long stack_scratch_bytes(const Stack *s, long rows);

/* x (tokens, width): embeddings of `count` sentences, the i-th from starts[i] to starts[i + 1].
 * x is overwritten with the encoder's output. */
Status encoder_forward(const Stack *s, const int64_t *starts, long count, float *x, int threads,
                       void *scratch);

/* Projects the encoder's output to the keys and values of every layer's cross-attention:
 * (layers, 2, count, kv_heads, capacity, head_width), float16 if fp16_kv. Keys are transposed:
 * (head_width, capacity). */
Status project_memory(const Stack *s, const float *states, const int64_t *starts, long count,
                      long capacity, int threads, void *scratch, void *memory);

/* x (rows of all caches, width): embeddings of each row's newest token. x is overwritten with the
 * decoder's output; the new keys and values are written to the caches. */
Status decoder_step(const Stack *s, const BeamCache *caches, long count, float *x, int threads,
                    void *scratch);

/* ---- encode.c ---- */

typedef struct {
    const float *weight;     /* (vocab, width) float32; NULL: int8 */
    const int8_t *qweight;   /* (vocab, width) int8 */
    const float *row_scales; /* (vocab): the scale of each int8 row */
    const float *positions;  /* (max_positions, width) or NULL */
    float scale;
    long width, vocab, max_positions;
} Embedding;

typedef struct {
    const Stack *encoder, *decoder;
    Embedding source;
} Encoder;

/* -> x (count, width). BAD_INPUT: a token outside the vocabulary, or a position outside the table.
 */
Status embed(const Embedding *e, const int64_t *tokens, const int64_t *positions, long count,
             float *x);
/* Positions per head in the memory of sentences of up to `longest` tokens. */
long memory_capacity(long longest);
long memory_bytes(const Stack *decoder, long count, long capacity);
long encode_scratch_bytes(const Encoder *e, long tokens);
/* Tokens of `count` sentences, the i-th from starts[i] to starts[i + 1] -> memory, see
 * project_memory. */
Status encode(const Encoder *e, const int64_t *tokens, const int64_t *starts, long count,
              long capacity, int threads, void *scratch, void *memory);
