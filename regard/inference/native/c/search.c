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
    int nonfinite; /* the model's logits are not finite numbers */
} Search;

/* ---- requests join and leave ---- */

static void list_push(RequestList *list, Request *r) {
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? 2 * list->capacity : 64;
        list->items = realloc(list->items, sizeof(Request *) * (size_t)list->capacity);
        if (!list->items) abort();
    }
    list->items[list->count++] = r;
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

Search *search_new(const SearchParams *params) {
    Search *search = xcalloc(1, sizeof(Search));
    search->params = *params;
    return search;
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

/* Encodes sentences and adds a request for each. The i-th has the number numbers[i] and the tokens
 * from starts[i] to starts[i + 1]; it generates at most max_tokens[i] >= 1 tokens. */
void search_add(Search *search, const int64_t *numbers, const int64_t *max_tokens,
                const int64_t *tokens, const int64_t *starts, long count, int threads) {
    const Encoder *encoder = &search->params.encoder;
    long longest = 1;
    for (long i = 0; i < count; i++) {
        const long length = starts[i + 1] - starts[i];
        longest = length > longest ? length : longest;
    }
    const long capacity = memory_capacity(longest);
    const long kv_bytes = memory_bytes(encoder->decoder, count, capacity);
    Memory *memory = pool_alloc(&search->pool, (long)sizeof(Memory) + kv_bytes);
    search->encode_scratch = pool_reserve(&search->pool, search->encode_scratch,
                                           encode_scratch_bytes(encoder, starts[count]));
    memory->users = count;
    memory->sequences = count;
    memory->capacity = capacity;
    encode(encoder, tokens, starts, count, capacity, threads, search->encode_scratch, memory->kv);
    for (long i = 0; i < count; i++) {
        const long length = starts[i + 1] - starts[i];
        Request *r =
            request_new(&search->params, tokens + starts[i], length, numbers[i], max_tokens[i]);
        r->memory = memory;
        r->memory_index = i;
        list_push(&search->active, r);
        search->rows += search->params.beam;
    }
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
    int64_t *tokens;       /* (rows, k): the best next tokens of each row … */
    float *values;         /* (rows, k): … and their logits */
    float *log_sums;       /* (rows): log of the sum of e^(logit - max) */
    float *x;              /* (rows, width): embeddings, then decoder states */
    float *logits;         /* (ROWS_PER_PASS, LOGITS_PER_CHUNK) */
    void *scratch;         /* of the decoder, then of the output projection */
    long k;
} StepBuffers;

static StepBuffers lay_out(const Search *search, long rows, Layout *layout) {
    const Stack *stack = search->params.encoder.decoder;
    const long k = search->params.beam * (1 + search->params.end_count);
    const long decoder = stack_scratch_bytes(stack, rows);
    const long output = linear_scratch_bytes(rows, stack->width);
    return (StepBuffers){
        .caches = place(layout, search->active.count, sizeof(BeamCache)),
        .topk = place(layout, rows, sizeof(TopK)),
        .candidates = place(layout, k, sizeof(Candidate)),
        .tokens = place(layout, rows * k, sizeof(int64_t)),
        .values = place(layout, rows * k, sizeof(float)),
        .log_sums = place(layout, rows, sizeof(float)),
        .x = place(layout, rows * stack->width, sizeof(float)),
        .logits = place(layout, ROWS_PER_PASS * LOGITS_PER_CHUNK, sizeof(float)),
        .scratch = place(layout, decoder > output ? decoder : output, 1),
        .k = k,
    };
}

static StepBuffers step_buffers(Search *search, long rows) {
    Layout layout = {.base = NULL};
    lay_out(search, rows, &layout);
    search->step_scratch = pool_reserve(&search->pool, search->step_scratch, layout.bytes);
    layout = (Layout){.base = search->step_scratch};
    return lay_out(search, rows, &layout);
}

/* Embeds the newest token of each row. */
static void embed_newest(const SearchParams *params, const Request *r, float *x) {
    const int64_t position = r->length;
    for (long row = 0; row < r->rows; row++) {
        const int64_t *newest = &params->start;
        if (r->length) newest = r->beam.tokens + row * r->length + r->length - 1;
        embed(&params->target, newest, &position, 1, x + row * params->target.width);
    }
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
static void prepare(Search *search, const StepBuffers *b) {
    const SearchParams *params = &search->params;
    const Stack *stack = params->encoder.decoder;
    long first = 0; /* row */
    for (long i = 0; i < search->active.count; i++) {
        Request *r = search->active.items[i];
        embed_newest(params, r, b->x + first * stack->width);
        reserve_positions(&search->pool, stack, r, params->beam);
        b->caches[i] = cache_of(params, r);
        for (long row = first; row < first + r->rows; row++) {
            b->topk[row] = (TopK){
                .suppressed = suppressed_of(params, r),
                .k = b->k,
                .values = b->values + row * b->k,
                .tokens = b->tokens + row * b->k,
            };
            topk_init(b->topk + row);
        }
        first += r->rows;
    }
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
            if (used[row] == b->k) continue;
            const long at = (first + row) * b->k + used[row];
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

/* Moves a request one token forward; returns whether it is done. */
static int advance(const SearchParams *params, Request *r, const StepBuffers *b, long first) {
    merge(r, b, first);
    const Candidate *candidates = b->candidates;
    const int last = r->length + 1 == r->max_tokens;
    for (long i = 0; i < params->beam; i++) {
        const Candidate *c = candidates + i;
        if (c->total > -INFINITY && (last || is_end_token(params, c->token)))
            add_hypothesis(params, r, c->row, c->token, c->log_prob, (double)c->total);
    }
    if (candidates[0].total == -INFINITY && !r->hypothesis_count)
        add_hypothesis(params, r, 0, -1, 0.0f, (double)r->beam.totals[0]);
    long rows = 0;
    for (long i = 0; i < b->k && rows < params->beam && !last; i++)
        if (candidates[i].total > -INFINITY && !is_end_token(params, candidates[i].token))
            extend(r, rows++, candidates + i);
    const Beam swapped = r->beam;
    r->beam = r->next_beam;
    r->next_beam = swapped;
    r->length++;
    r->rows = rows;
    return request_is_done(params, r, rows ? (double)r->beam.totals[0] : -INFINITY);
}

/* Moves every request forward; finished ones leave the active list. */
static void advance_all(Search *search, const StepBuffers *b) {
    long active = 0, first = 0;
    for (long i = 0; i < search->active.count; i++) {
        Request *r = search->active.items[i];
        const long rows = r->rows;
        if (advance(&search->params, r, b, first)) {
            list_push(&search->done, r);
            search->rows -= search->params.beam;
        } else {
            search->active.items[active++] = r;
        }
        first += rows;
    }
    search->active.count = active;
}

/* One more token for every active request. */
static void step(Search *search, int threads) {
    const SearchParams *params = &search->params;
    long rows = 0;
    for (long i = 0; i < search->active.count; i++) rows += search->active.items[i]->rows;
    const StepBuffers b = step_buffers(search, rows);
    prepare(search, &b);
    decoder_step(params->encoder.decoder, b.caches, search->active.count, b.x, threads, b.scratch);
    if (params->related) next_tokens_of_shortlists(search, threads, &b);
    else next_tokens(params->output, b.x, rows, threads, &b, b.topk);
    for (long row = 0; row < rows; row++) {
        b.log_sums[row] = topk_finish(b.topk + row);
        if (!isfinite(b.log_sums[row])) search->nonfinite = 1;
    }
    if (!search->nonfinite) advance_all(search, &b);
}

/* Runs until `wanted_rows` of `max_rows` are free and a request is done, until all are done, or for
 * `max_steps` steps (0: no limit). 0: the logits are not finite. */
int search_step(Search *search, long max_rows, long wanted_rows, long max_steps, int threads) {
    for (long steps = 1; search->active.count && !search->nonfinite; steps++) {
        step(search, threads);
        if (max_rows - search->rows >= wanted_rows && search->done.count) break;
        if (steps == max_steps) break;
    }
    return !search->nonfinite;
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
