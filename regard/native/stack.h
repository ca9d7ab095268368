/* Between stack.c and search.c. */
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

/* Some sentences that began together: see blocks/lanes.py. Keys and values lie as [block][key, value][slot][head][place][]. */
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

/* x (rows of all groups, width): the embeddings of their newest tokens; becomes their states */
void decode(const Stack *s, const Seated *groups, long count, float *x, int threads, void *room);
