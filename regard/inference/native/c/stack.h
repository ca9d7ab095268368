/* Between stack.c, read.c and search.c. */
#pragma once
#include "kernels.h"

typedef struct {
    const float *weight, *bias;
    float eps;
} Norm;

typedef struct {
    Part query, key, value, output;
    Norm norm;
} Attention;

typedef struct {
    Attention own, cross;
    Part up, down;
    Norm norm;
} Block;

typedef struct {
    const Block *blocks;
    long count, width, inner, heads, kv_heads, head; /* width, inner, heads x head: multiples of 32; head: of 8 */
    int norm_first, activation;
    int half; /* keys and values that are kept are rounded to halves: a decoder of int8 weights is no more exact */
    Norm last; /* where the norm comes first */
} Stack;

/* Some sentences that began together: see blocks/beam_cache.py. Keys and values lie as [block][key, value][slot][head][place][]. */
typedef struct {
    void *own;
    const void *memory;
    const int32_t *slots;   /* (rows); NULL: there is one */
    const int32_t *places;  /* (rows, said): where a row's tokens are; the last is the newest's, not yet written; NULL: in a row */
    const int32_t *lengths; /* (slots), of the memory */
    long rows, said, slot_count, own_room, memory_slots, memory_room;
    int own_half, memory_half; /* whether they are halves, or floats */
} Seated;

/* bytes that a pass over so many rows needs */
long stack_room(const Stack *s, long rows);

/* x (tokens, width): the embeddings of `count` sentences, the i-th from starts[i] to starts[i + 1]; becomes the states */
void encode(const Stack *s, const int64_t *starts, long count, float *x, int threads, void *room);

/* The keys and values of what was read, for all blocks, of halves where the stack's are: (blocks, 2, count, kv_heads, room, head).
 * Keys lie turned: (head, room). */
void remember(const Stack *s, const float *states, const int64_t *starts, long count, long room, int threads, void *between, void *memory);

/* x (rows of all groups, width): the embeddings of their newest tokens; becomes their states */
void decode(const Stack *s, const Seated *groups, long count, float *x, int threads, void *room);

/* ---- read.c ---- */

typedef struct {
    const float *numbers;    /* (vocab, width); NULL: whole ones */
    const int8_t *whole;     /* (vocab, width) of int8 */
    const float *row_scales; /* (vocab): what one is worth in each row */
    const float *positions;  /* (longest, width) or NULL */
    float scale;
    long width;
} Embedding;

typedef struct {
    const Stack *encoder, *decoder;
    Embedding source;
} Reader;

/* -> x (count, width) */
void embed(const Embedding *e, const int64_t *tokens, const int64_t *positions, long count, float *x);
long memory_room(long longest);
long memory_bytes(const Stack *decoder, long count, long room);
long read_room(const Reader *r, long rows);
void read_sentences(const Reader *r, const int64_t *tokens, const int64_t *starts, long count, long room, int threads, void *space, void *memory);
