/* Beam search: the same tokens as decoding/beam.py, for settings with no rule but suppressed
 * tokens.
 *
 * A search holds several requests, each at its own length. Finished ones leave at once, and new
 * ones can join at any step. A beam of one is greedy search.
 */
#include "step.h"
#include <string.h>
#include <time.h>

enum { MAX_BEAM = 1024, MAX_ENDS = 1024 }; /* Python allows less; these keep every size in bounds */
/* After about this long a call returns, finished or not: only then can Python react to Ctrl-C, a
 * deadline or a cancelled request. */
#define TURN_SECONDS 0.05

/* ---- requests join and leave ---- */

/* Makes space for this many requests in all. */
static Status list_reserve(RequestList *list, long count) {
    if (count <= list->capacity) return OK;
    const long capacity = count > 32 ? 2 * count : 64;
    Request **items = realloc(list->items, sizeof(Request *) * (size_t)capacity);
    if (!items) return OUT_OF_MEMORY;
    list->items = items;
    list->capacity = capacity;
    return OK;
}

/* Takes a request out of the list and keeps the order of the others; NULL if it is not there. */
static Request *list_remove(RequestList *list, long number) {
    for (long i = 0; i < list->count; i++) {
        Request *r = list->items[i];
        if (r->number != number) continue;
        list->count--;
        memmove(list->items + i, list->items + i + 1,
                sizeof(Request *) * (size_t)(list->count - i));
        return r;
    }
    return NULL;
}

static int in_bounds(const SearchParams *p) {
    const long vocab = p->output->outputs;
    if (p->beam < 1 || p->beam > MAX_BEAM || p->n_best < 1 || p->n_best > p->beam) return 0;
    if (p->start < 0 || p->start >= p->target.vocab || vocab > p->target.vocab) return 0;
    if (p->end_count < 0 || p->end_count > MAX_ENDS) return 0;
    for (long i = 0; i < p->end_count; i++)
        if (p->ends[i] < 0 || p->ends[i] >= vocab) return 0;
    return p->related_count >= 0 && p->frequent_count >= 0;
}

Status search_new(const SearchParams *params, Search **search) {
    if (!in_bounds(params)) return BAD_INPUT;
    *search = zeros(1, sizeof(Search));
    if (!*search) return OUT_OF_MEMORY;
    (*search)->params = *params;
    return OK;
}

void search_free(Search *search) {
    for (long i = 0; i < search->active.count; i++)
        request_free(&search->pool, search->active.items[i]);
    for (long i = 0; i < search->done.count; i++)
        request_free(&search->pool, search->done.items[i]);
    pool_free(&search->pool, search->step_scratch);
    pool_free(&search->pool, search->encode_scratch);
    pool_release(&search->pool);
    free(search->active.items);
    free(search->done.items);
    free(search);
}

/* Sentences to encode: the tokens of the i-th are from starts[i] to starts[i + 1]. */
typedef struct {
    const int64_t *numbers, *max_tokens, *tokens, *starts;
    long count, longest;
} NewRequests;

static int fits(const Embedding *e, int64_t length) {
    return length <= INT32_MAX && (!e->positions || length <= e->max_positions);
}

/* The tokens themselves are checked where they are embedded. */
static Status check(const SearchParams *params, NewRequests *new) {
    new->longest = 1;
    if (new->starts[0] != 0) return BAD_INPUT;
    for (long i = 0; i < new->count; i++) {
        const int64_t length = new->starts[i + 1] - new->starts[i], most = new->max_tokens[i];
        if (length < 0 || !fits(&params->encoder.source, length)) return BAD_INPUT;
        if (most < 1 || !fits(&params->target, most)) return BAD_INPUT;
        new->longest = length > new->longest ? length : new->longest;
    }
    return OK;
}

/* Encodes the sentences; NULL and a status if that fails. */
static Memory *encode_new(Search *search, const NewRequests *new, int threads, Status *status) {
    const Encoder *encoder = &search->params.encoder;
    const long count = new->count, capacity = memory_capacity(new->longest);
    const long kv_bytes = memory_bytes(encoder->decoder, count, capacity);
    Memory *memory = pool_alloc(&search->pool, (long)sizeof(Memory) + kv_bytes);
    search->encode_scratch = pool_reserve(&search->pool, search->encode_scratch,
                                          encode_scratch_bytes(encoder, new->starts[count]));
    *status = OUT_OF_MEMORY;
    if (memory && search->encode_scratch) {
        *memory = (Memory){.sequences = count, .capacity = capacity};
        *status = encode(encoder, new->tokens, new->starts, count, capacity, threads,
                         search->encode_scratch, memory->kv);
    }
    if (*status == OK) return memory;
    pool_free(&search->pool, memory);
    return NULL;
}

/* Encodes sentences and adds a request for each, or none and an error. The i-th has the number
 * numbers[i] and the tokens from starts[i] to starts[i + 1]; it generates at most max_tokens[i] >=
 * 1 tokens. */
Status search_add(Search *search, const int64_t *numbers, const int64_t *max_tokens,
                  const int64_t *tokens, const int64_t *starts, long count, int threads) {
    NewRequests new = {.numbers = numbers,
                       .max_tokens = max_tokens,
                       .tokens = tokens,
                       .starts = starts,
                       .count = count};
    if (count < 1) return OK;
    RequestList *active = &search->active, *done = &search->done;
    const long all = active->count + done->count + count;
    Status status = check(&search->params, &new);
    /* of both lists, so that no step has to */
    if (status == OK) status = list_reserve(active, all);
    if (status == OK) status = list_reserve(done, all);
    if (status != OK) return status;
    Memory *memory = encode_new(search, &new, threads, &status);
    if (!memory) return status;
    Request **items = active->items + active->count;
    for (long i = 0; i < count; i++) {
        items[i] = request_new(&search->params, tokens + starts[i], starts[i + 1] - starts[i],
                               numbers[i], max_tokens[i]);
        if (!items[i]) {
            if (!i) pool_free(&search->pool, memory);
            while (i) request_free(&search->pool, items[--i]);
            return OUT_OF_MEMORY;
        }
        items[i]->memory = memory;
        items[i]->memory_index = i;
        memory->users++;
    }
    active->count += count;
    search->rows += count * search->params.beam;
    return OK;
}

/* Drops a request, under way or done; the others are untouched. 0: there is none with this number.
 */
int search_cancel(Search *search, long number) {
    Request *r = list_remove(&search->active, number);
    if (r) search->rows -= search->params.beam;
    else r = list_remove(&search->done, number);
    if (!r) return 0;
    request_free(&search->pool, r);
    return 1;
}

/* ---- steps ---- */

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Runs until `wanted_rows` of `max_rows` are free and a request is done, until all are done, for
 * `max_steps` steps (0: no limit), or for about TURN_SECONDS. */
Status search_step(Search *search, long max_rows, long wanted_rows, long max_steps, int threads) {
    const double end = seconds() + TURN_SECONDS;
    for (long steps = 1; search->active.count && search->status == OK; steps++) {
        search->status = one_step(search, threads);
        if (max_rows - search->rows >= wanted_rows && search->done.count) break;
        if (steps == max_steps || seconds() >= end) break;
    }
    return search->status;
}

long search_rows(const Search *search) { return search->rows; }

/* A request that is done: its number, and how many hypotheses it has; -1: there is none. Valid
 * until search_pop_done. */
long search_done(const Search *search, long *hypotheses) {
    if (!search->done.count) return -1;
    const Request *r = search->done.items[search->done.count - 1];
    *hypotheses = r->hypothesis_count;
    return r->number;
}

const Hypothesis *search_hypothesis(const Search *search, long which) {
    return search->done.items[search->done.count - 1]->hypotheses + which;
}

void search_pop_done(Search *search) {
    request_free(&search->pool, search->done.items[--search->done.count]);
}
