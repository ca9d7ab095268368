/* Between search.c and shortlist.c. */
#pragma once
#include "stack.h"
#include <stdlib.h>

typedef struct {
    Reader reader;
    Embedding target;
    const Part *output;
    const uint8_t *never, *never_at_first; /* (vocab): what is not said; what is not while fewer than min_new were */
    const int64_t *ends;
    int64_t start;
    long end_count, min_new, beam, n_best;
    double length_penalty, enough; /* `enough` hypotheses that ended are enough */
    int paper;                     /* the form of the length penalty */
    const int32_t *related;        /* (source vocabulary, related_count): words that may translate each, -1 for none; NULL: all */
    const int32_t *frequent;       /* (frequent_count): words that may always be said */
    long related_count, frequent_count;
} Settings;

/* The words that a sentence may say, where that is not all of them: their own, small projection. */
typedef struct {
    Part output;
    int64_t *tokens; /* (outs), in order */
    uint8_t *never_at_first;
} Shortlist;

static inline void *some(size_t count, size_t size) {
    void *found = calloc(count ? count : 1, size);
    if (!found) abort(); /* as torch's own allocator would end us: there is nobody to tell */
    return found;
}

/* What a sentence may say: what is frequent, what is related to one of its words, and the ends. */
Shortlist shortlist(const Settings *settings, const int64_t *source, long length);
void free_list(Shortlist *list);
