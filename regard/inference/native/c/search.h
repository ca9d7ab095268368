/* Shared by search.c and shortlist.c. */
#pragma once
#include "stack.h"
#include <stdlib.h>

typedef struct {
    Encoder encoder;
    Embedding target;
    const Linear *output;
    const uint8_t *suppressed; /* (vocab): tokens never generated */
    const uint8_t
        *suppressed_at_start; /* (vocab): the same while fewer than min_tokens were generated */
    const int64_t *ends;
    int64_t start;
    long end_count, min_tokens, beam, n_best;
    double length_penalty;
    double max_finished;      /* stop a request after this many finished hypotheses */
    int paper_length_penalty; /* ((5 + n) / 6)^a instead of n^a */
    const int32_t *related;  /* (source vocab, related_count): target tokens that may translate each
                                source token, -1 for none; NULL: no shortlist */
    const int32_t *frequent; /* (frequent_count): target tokens allowed for every source */
    long related_count, frequent_count;
} SearchParams;

/* A request's own small vocabulary and the output projection to it. */
typedef struct {
    Linear output;
    int64_t *tokens; /* (outputs), ascending */
    uint8_t *suppressed_at_start;
} Shortlist;

/* Zeros; NULL only when memory runs out. */
static inline void *zeros(long count, size_t size) {
    return calloc(count ? (size_t)count : 1, size);
}

/* The tokens that a source sentence allows: frequent ones, those related to its tokens, and the end
 * tokens. The sentence's tokens are in the vocabulary; those of the lists need not be: their arrays
 * can be a file's, which may have changed since it was checked. */
Status shortlist_new(const SearchParams *params, const int64_t *source, long length,
                     Shortlist *list);
void shortlist_free(Shortlist *list);
