/* Beam search: the same tokens as decoding/beam.py, for settings with no rule but suppressed
 * tokens.
 *
 * A search holds several requests, each at its own length. Finished ones leave at once, and new
 * ones can join at any step. A beam of one is greedy search.
 */
#include "scratch.h"
#include "search_request.h"
#include <math.h>
#include <string.h>
#include <time.h>

enum { MAX_BEAM = 1024, MAX_ENDS = 1024 }; /* Python allows less; these keep every size in bounds */
/* After about this long a call returns, finished or not: only then can Python react to Ctrl-C, a
 * deadline or a cancelled request. */
#define TURN_SECONDS 0.05
/* Rows whose logits are computed in one pass, chunk by chunk: they stay in the CPU's cache until
 * they are scanned for the best. */
enum { ROWS_PER_PASS = 48 };

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
 * numbers[i] and the tokens from starts[i] to starts[i + 1]; it generates at most max_tokens[i] >= 1
 * tokens. */
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

/* ---- one step ---- */

typedef struct {
    float total, log_prob;
    long row;
    int64_t token;
} Candidate;

static const Candidate NO_CANDIDATE = {.total = -INFINITY, .log_prob = -INFINITY};

/* What a step needs for all active requests. */
typedef struct {
    BeamCache *caches;     /* (requests) */
    TopK *topk;            /* (rows) */
    Candidate *candidates; /* (k), of one request at a time */
    int64_t *tokens;       /* (rows, row_k): the best next tokens of each row … */
    float *values;         /* (rows, row_k): … and their logits */
    float *log_sums;       /* (rows): log of the sum of e^(logit - max) */
    float *x;              /* (rows, width): embeddings, then decoder states */
    float *logits;         /* (ROWS_PER_PASS, LOGITS_PER_CHUNK) */
    void *scratch;         /* of the decoder, then of the output projection */
    long k, row_k; /* enough for a beam of tokens that do not end, of all rows or of one */
} StepBuffers;

static StepBuffers lay_out(const Search *search, long rows, Layout *layout) {
    const Stack *stack = search->params.encoder.decoder;
    const long ends = search->params.end_count, k = search->params.beam * (1 + ends);
    const long row_k = search->params.beam + ends;
    const long decoder = stack_scratch_bytes(stack, rows);
    const long output = linear_scratch_bytes(rows, stack->width);
    return (StepBuffers){
        .caches = place(layout, search->active.count, sizeof(BeamCache)),
        .topk = place(layout, rows, sizeof(TopK)),
        .candidates = place(layout, k, sizeof(Candidate)),
        .tokens = place(layout, rows * row_k, sizeof(int64_t)),
        .values = place(layout, rows * row_k, sizeof(float)),
        .log_sums = place(layout, rows, sizeof(float)),
        .x = place(layout, rows * stack->width, sizeof(float)),
        .logits = place(layout, ROWS_PER_PASS * LOGITS_PER_CHUNK, sizeof(float)),
        .scratch = place(layout, decoder > output ? decoder : output, 1),
        .k = k,
        .row_k = row_k,
    };
}

static Status step_buffers(Search *search, long rows, StepBuffers *buffers) {
    Layout layout = {.base = NULL};
    lay_out(search, rows, &layout);
    search->step_scratch = pool_reserve(&search->pool, search->step_scratch, layout.bytes);
    if (!search->step_scratch) return OUT_OF_MEMORY;
    layout = (Layout){.base = search->step_scratch};
    *buffers = lay_out(search, rows, &layout);
    return OK;
}

/* Embeds the newest token of each row. */
static Status embed_newest(const SearchParams *params, const Request *r, float *x) {
    const int64_t position = r->length;
    Status status = OK;
    for (long row = 0; row < r->rows && status == OK; row++) {
        const int64_t *newest = &params->start;
        if (r->length) newest = r->beam.tokens + row * r->length + r->length - 1;
        status = embed(&params->target, newest, &position, 1, x + row * params->target.width);
    }
    return status;
}

static BeamCache cache_of(const SearchParams *params, const Request *r) {
    const Stack *stack = params->encoder.decoder;
    const long kv_bytes =
        stack->kv_heads * r->memory->capacity * stack->head_width * kv_size(stack->fp16_kv);
    return (BeamCache){
        .self_kv = r->kv,
        .memory_kv = r->memory->kv + r->memory_index * kv_bytes,
        .seq_ids = NULL,
        /* greedy search has one row, which never moves: its keys are in order */
        .key_indices = params->beam > 1 ? r->beam.key_indices : NULL,
        .memory_lengths = &r->source_length,
        .rows = r->rows,
        .length = r->length + 1,
        .sequences = 1,
        .self_capacity = r->kv_capacity,
        .memory_sequences = r->memory->sequences,
        .memory_capacity = r->memory->capacity,
        .self_fp16 = stack->fp16_kv,
        .memory_fp16 = stack->fp16_kv,
    };
}

static const uint8_t *suppressed_of(const SearchParams *params, const Request *r) {
    const int at_start = r->length < params->min_tokens;
    /* a shortlist omits the tokens suppressed everywhere */
    if (params->related) return at_start ? r->shortlist.suppressed_at_start : NULL;
    return at_start ? params->suppressed_at_start : params->suppressed;
}

/* Prepares every request for the decoder: embeddings, caches, an empty top-k for each row. */
static Status prepare(Search *search, const StepBuffers *b) {
    const SearchParams *params = &search->params;
    const Stack *stack = params->encoder.decoder;
    long first = 0; /* row */
    for (long i = 0; i < search->active.count; i++) {
        Request *r = search->active.items[i];
        Status status = embed_newest(params, r, b->x + first * stack->width);
        if (status == OK) status = reserve_positions(&search->pool, stack, r, params->beam);
        if (status != OK) return status;
        b->caches[i] = cache_of(params, r);
        for (long row = first; row < first + r->rows; row++) {
            b->topk[row] = (TopK){
                .suppressed = suppressed_of(params, r),
                .k = b->row_k,
                .values = b->values + row * b->row_k,
                .tokens = b->tokens + row * b->row_k,
            };
            topk_init(b->topk + row);
        }
        first += r->rows;
    }
    return OK;
}

/* `count` outputs of a linear layer, from `first` on. Panels stay whole. */
static Linear output_slice(const Linear *layer, long first, long count) {
    const long size = layer->weight_sums ? 1 : (long)sizeof(float);
    Linear slice = *layer;
    slice.weight = (const char *)layer->weight + first * layer->width * size;
    slice.outputs = count;
    if (layer->weight_sums) {
        slice.weight_sums += first;
        slice.scales += first;
    }
    if (layer->bias) slice.bias += first;
    return slice;
}

/* States x (rows, width) -> logits -> top-k. The logits are computed in chunks of the vocabulary:
 * the weights of a chunk stay in the CPU's cache while all rows use them. */
static void next_tokens(const Linear *output, const float *x, long rows, int threads,
                        const StepBuffers *b, TopK *topk) {
    const LinearInput input = prepare_input(output, x, rows, threads, b->scratch);
    for (long first = 0; first < output->outputs; first += LOGITS_PER_CHUNK) {
        const long left = output->outputs - first;
        const long count = left < LOGITS_PER_CHUNK ? left : LOGITS_PER_CHUNK;
        const Linear chunk = output_slice(output, first, count);
        for (long row = 0; row < rows; row += ROWS_PER_PASS) {
            const long pass = rows - row < ROWS_PER_PASS ? rows - row : ROWS_PER_PASS;
            linear_apply(&chunk, &input, row, pass, threads, b->logits);
            for (long i = 0; i < pass; i++)
                topk_update(topk + row + i, b->logits + i * count, first, count);
        }
    }
}

/* The same where each request has its own shortlist. */
static void next_tokens_of_shortlists(const Search *search, int threads, const StepBuffers *b) {
    const float *x = b->x;
    TopK *topk = b->topk;
    for (long i = 0; i < search->active.count; i++) {
        const Request *r = search->active.items[i];
        next_tokens(&r->shortlist.output, x, r->rows, threads, b, topk);
        for (long row = 0; row < r->rows; row++)
            for (long c = 0; c < topk[row].filled; c++)
                topk[row].tokens[c] = r->shortlist.tokens[topk[row].tokens[c]];
        x += r->rows * r->shortlist.output.width;
        topk += r->rows;
    }
}

/* The k best continuations of a request's rows, which start at `first`; of equal ones the first row
 * comes first. Each row's own are sorted, so this merges them. */
static void merge(const Request *r, const StepBuffers *b, long first) {
    long used[r->rows]; /* of each row's best */
    memset(used, 0, sizeof(used));
    for (long i = 0; i < b->k; i++) {
        Candidate best = NO_CANDIDATE;
        for (long row = 0; row < r->rows; row++) {
            if (used[row] == b->row_k) continue;
            const long at = (first + row) * b->row_k + used[row];
            const float log_prob =
                b->values[at] - b->topk[first + row].max - b->log_sums[first + row];
            const float total = r->beam.totals[row] + log_prob;
            if (total > best.total)
                best = (Candidate){
                    .total = total, .log_prob = log_prob, .row = row, .token = b->tokens[at]};
        }
        if (best.total > -INFINITY) used[best.row]++;
        b->candidates[i] = best;
    }
}

/* Row `to` of the next beam: the candidate's row and its token. */
static void extend(Request *r, long to, const Candidate *c) {
    const long before = r->length, after = before + 1;
    memcpy(r->next_beam.tokens + to * after, r->beam.tokens + c->row * before,
           sizeof(int64_t) * (size_t)before);
    memcpy(r->next_beam.log_probs + to * after, r->beam.log_probs + c->row * before,
           sizeof(float) * (size_t)before);
    /* one more for each row: that of the token which the decoder just read */
    memcpy(r->next_beam.key_indices + to * (after + 1), r->beam.key_indices + c->row * after,
           sizeof(int32_t) * (size_t)after);
    r->next_beam.tokens[to * after + before] = c->token;
    r->next_beam.log_probs[to * after + before] = c->log_prob;
    r->next_beam.totals[to] = c->total;
}

/* The hypotheses that end with this step; `last`: all do. */
static Status add_ended(const SearchParams *params, Request *r, const Candidate *candidates,
                        int last) {
    Status status = OK;
    for (long i = 0; i < params->beam && status == OK; i++) {
        const Candidate *c = candidates + i;
        if (c->total > -INFINITY && (last || is_end_token(params, c->token)))
            status = add_hypothesis(params, r, c->row, c->token, c->log_prob, (double)c->total);
    }
    if (candidates[0].total == -INFINITY && !r->hypothesis_count)
        status = add_hypothesis(params, r, 0, -1, 0.0f, (double)r->beam.totals[0]);
    return status;
}

/* Moves a request one token forward. */
static Status advance(const SearchParams *params, Request *r, const StepBuffers *b, long first,
                      int *done) {
    merge(r, b, first);
    const Candidate *candidates = b->candidates;
    const int last = r->length + 1 == r->max_tokens;
    const Status status = add_ended(params, r, candidates, last);
    if (status != OK) return status;
    long rows = 0;
    for (long i = 0; i < b->k && rows < params->beam && !last; i++)
        if (candidates[i].total > -INFINITY && !is_end_token(params, candidates[i].token))
            extend(r, rows++, candidates + i);
    const Beam swapped = r->beam;
    r->beam = r->next_beam;
    r->next_beam = swapped;
    r->length++;
    r->rows = rows;
    *done = request_is_done(params, r, rows ? (double)r->beam.totals[0] : -INFINITY);
    return OK;
}

/* Moves every request forward; finished ones leave the active list. After an error all that are
 * left stay in it, to be freed. */
static Status advance_all(Search *search, const StepBuffers *b) {
    long active = 0, first = 0;
    Status status = OK;
    for (long i = 0; i < search->active.count; i++) {
        Request *r = search->active.items[i];
        const long rows = r->rows;
        int done = 0;
        if (status == OK) status = advance(&search->params, r, b, first, &done);
        if (done) {
            search->done.items[search->done.count++] = r; /* search_add reserved the space */
            search->rows -= search->params.beam;
        } else {
            search->active.items[active++] = r;
        }
        first += rows;
    }
    search->active.count = active;
    return status;
}

/* One more token for every active request. */
static Status step(Search *search, int threads) {
    const SearchParams *params = &search->params;
    long rows = 0;
    for (long i = 0; i < search->active.count; i++) rows += search->active.items[i]->rows;
    StepBuffers b;
    Status status = step_buffers(search, rows, &b);
    if (status == OK) status = prepare(search, &b);
    if (status == OK)
        status = decoder_step(params->encoder.decoder, b.caches, search->active.count, b.x, threads,
                              b.scratch);
    if (status != OK) return status;
    if (params->related) next_tokens_of_shortlists(search, threads, &b);
    else next_tokens(params->output, b.x, rows, threads, &b, b.topk);
    for (long row = 0; row < rows; row++) {
        b.log_sums[row] = topk_finish(b.topk + row);
        if (!isfinite(b.log_sums[row])) return NOT_FINITE;
    }
    return advance_all(search, &b);
}

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
        search->status = step(search, threads);
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
