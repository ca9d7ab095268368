/* One search request: its beam, its key/value cache and its finished hypotheses. */
#pragma once
#include "buffer_pool.h"
#include "search.h"

typedef struct {
    int64_t *tokens;  /* all generated tokens, the end token included */
    float *log_probs; /* of each token */
    long length;
    int ended;
    double total, score; /* total: the sum of log_probs */
} Hypothesis;

/* The live hypotheses of a request: (beam, length) each, but key_indices (beam, length + 1). */
typedef struct {
    int64_t *tokens;
    float *log_probs, *totals;
    int32_t *key_indices; /* where each token's key is in the request's cache */
} Beam;

/* Keys and values for cross-attention of requests that were encoded together:
 * [layer][key, value][request][head][capacity][head_width]. */
typedef struct {
    long users, sequences, capacity;
    char kv[];
} Memory;

typedef struct {
    long number, max_tokens, length, rows; /* length: generated tokens; rows: live hypotheses */
    Beam beam, next_beam;                  /* two, because hypotheses change rows */
    char *kv;                              /* [layer][key, value][head][position][head_width] */
    long kv_capacity, kv_used;             /* positions */
    Memory *memory;                        /* NULL only while the request is made */
    long memory_index;
    int32_t source_length;
    Hypothesis *hypotheses; /* the n_best finished ones, best first */
    long hypothesis_count, finished;
    Shortlist shortlist; /* outputs is 0 without one */
} Request;

/* NULL when memory runs out. */
Request *request_new(const SearchParams *params, const int64_t *source, long length, long number,
                     long max_tokens);
void request_free(BufferPool *pool, Request *r);

/* Reserves a cache position for the newest token of each row. */
Status reserve_positions(BufferPool *pool, const Stack *stack, Request *r, long beam);

int is_end_token(const SearchParams *params, int64_t token);
/* Keeps a row's tokens and one more token (-1: none) among the n_best finished hypotheses. */
Status add_hypothesis(const SearchParams *params, Request *r, long row, int64_t token,
                      float log_prob, double total);
/* `best`: the total of the best live hypothesis, -INFINITY if there is none. */
int request_is_done(const SearchParams *params, const Request *r, double best);
