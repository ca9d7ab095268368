/* One step of a beam search: a token more for every request. */
#include "step.h"
#include "scratch.h"
#include <math.h>
#include <string.h>

/* Rows whose logits are computed in one pass, chunk by chunk: they stay in the CPU's cache until
 * they are scanned for the best. */
enum { ROWS_PER_PASS = 48 };

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
    long k, row_k;         /* enough for a beam of tokens that do not end, of all rows or of one */
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

Status one_step(Search *search, int threads) {
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
