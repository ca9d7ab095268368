/* Shared by search.c and step.c. */
#pragma once
#include "search_request.h"

typedef struct {
    Request **items;
    long count, capacity;
} RequestList;

typedef struct {
    SearchParams params;
    RequestList active, done;
    long rows; /* reserved by active requests: a beam each */
    BufferPool pool;
    void *step_scratch, *encode_scratch;
    Status status; /* after an error a search can only be freed */
} Search;

/* One more token for every active request. Those that are done move to the list of done ones, which
 * has space for all. (Not `step`: the C library has an old function of that name, which would be
 * called instead.) */
Status one_step(Search *search, int threads);
