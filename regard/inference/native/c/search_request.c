#include "search_request.h"
#include <math.h>
#include <string.h>

static Beam beam_new(long beam, long max_tokens) {
    return (Beam){
        .tokens = xcalloc(beam * max_tokens, sizeof(int64_t)),
        .log_probs = xcalloc(beam * max_tokens, sizeof(float)),
        .totals = xcalloc(beam, sizeof(float)),
        .key_indices = xcalloc(beam * max_tokens, sizeof(int32_t)),
    };
}

static void beam_free(Beam *beam) {
    free(beam->tokens);
    free(beam->log_probs);
    free(beam->totals);
    free(beam->key_indices);
}

static void hypothesis_free(Hypothesis *hypothesis) {
    free(hypothesis->tokens);
    free(hypothesis->log_probs);
}

void request_free(BufferPool *pool, Request *r) {
    if (!--r->memory->users) pool_free(pool, r->memory);
    pool_free(pool, r->kv);
    beam_free(&r->beam);
    beam_free(&r->next_beam);
    for (long i = 0; i < r->hypothesis_count; i++) hypothesis_free(r->hypotheses + i);
    free(r->hypotheses);
    shortlist_free(&r->shortlist);
    free(r);
}

Request *request_new(const SearchParams *params, const int64_t *source, long length, long number,
                     long max_tokens) {
    Request *r = xcalloc(1, sizeof(Request));
    r->number = number;
    r->max_tokens = max_tokens;
    r->rows = 1;
    r->source_length = (int32_t)length;
    r->beam = beam_new(params->beam, max_tokens);
    r->next_beam = beam_new(params->beam, max_tokens);
    r->hypotheses = xcalloc(params->n_best + 1, sizeof(Hypothesis));
    if (params->related) r->shortlist = shortlist_new(params, source, length);
    return r;
}

/* ---- the key/value cache of a request ---- */

/* Drops the keys and values that no live hypothesis uses: hypotheses share most of their tokens,
 * and most are given up. Grows the cache if that does not free half of it. */
static void compact(BufferPool *pool, const Stack *stack, Request *r, long beam) {
    const long stride = r->length + 1, bytes = stack->head_width * kv_size(stack->fp16_kv);
    const long heads = 2 * stack->layers * stack->kv_heads, old_capacity = r->kv_capacity;
    int32_t *moved_to = xcalloc(r->kv_used, sizeof(int32_t)), used = 0;
    for (long row = 0; row < r->rows; row++)
        for (long t = 0; t < r->length; t++) moved_to[r->beam.key_indices[row * stride + t]] = 1;
    for (long i = 0; i < r->kv_used; i++) moved_to[i] = moved_to[i] ? used++ : -1;
    if (2 * (used + r->rows) > old_capacity) /* most translations are about as long as the source */
        r->kv_capacity = used + r->source_length + 4 * beam;
    char *kv = r->kv;
    if (r->kv_capacity > old_capacity) kv = pool_alloc(pool, heads * r->kv_capacity * bytes);
    for (long head = 0; head < heads; head++)
        for (long i = 0; i < r->kv_used; i++) {
            if (moved_to[i] < 0) continue;
            /* never to a later position, so this overwrites nothing that is still to move */
            char *to = kv + (head * r->kv_capacity + moved_to[i]) * bytes;
            memmove(to, r->kv + (head * old_capacity + i) * bytes, (size_t)bytes);
        }
    for (long row = 0; row < r->rows; row++)
        for (long t = 0; t < r->length; t++) {
            int32_t *index = r->beam.key_indices + row * stride + t;
            *index = moved_to[*index];
        }
    if (kv != r->kv) pool_free(pool, r->kv);
    r->kv = kv;
    r->kv_used = used;
    free(moved_to);
}

void reserve_positions(BufferPool *pool, const Stack *stack, Request *r, long beam) {
    if (r->kv_used + r->rows > r->kv_capacity) compact(pool, stack, r, beam);
    for (long row = 0; row < r->rows; row++)
        r->beam.key_indices[row * (r->length + 1) + r->length] = (int32_t)(r->kv_used + row);
    r->kv_used += r->rows;
}

/* ---- finished hypotheses ---- */

static double length_normalised(const SearchParams *params, double total, long length) {
    const double base =
        params->paper_length_penalty ? (5.0 + (double)length) / 6.0 : (double)length;
    return length ? total / pow(base, params->length_penalty) : total;
}

int is_end_token(const SearchParams *params, int64_t token) {
    for (long i = 0; i < params->end_count; i++)
        if (params->ends[i] == token) return 1;
    return 0;
}

/* Whether a finished hypothesis has the first `text` tokens of: generated, then `token`. Two end
 * tokens can end the same text. */
static int same_text(const Hypothesis *other, const int64_t *generated, long length, int64_t token,
                     long text) {
    if (other->length - other->ended != text) return 0;
    const long shared = text < length ? text : length;
    return !memcmp(other->tokens, generated, sizeof(int64_t) * (size_t)shared) &&
           (text <= length || other->tokens[length] == token);
}

void add_hypothesis(const SearchParams *params, Request *r, long row, int64_t token, float log_prob,
                    double total) {
    const long length = r->length + (token >= 0);
    const long text = length - (token >= 0 && is_end_token(params, token));
    const int64_t *generated = r->beam.tokens + row * r->length;
    r->finished++;
    for (long i = 0; i < r->hypothesis_count; i++)
        if (same_text(r->hypotheses + i, generated, r->length, token, text)) return;
    Hypothesis new = {
        .tokens = xcalloc(length, sizeof(int64_t)),
        .log_probs = xcalloc(length, sizeof(float)),
        .length = length,
        .ended = length > text,
        .total = total,
        .score = length_normalised(params, total, length),
    };
    const float *log_probs = r->beam.log_probs + row * r->length;
    memcpy(new.tokens, generated, sizeof(int64_t) * (size_t)r->length);
    memcpy(new.log_probs, log_probs, sizeof(float) * (size_t)r->length);
    if (token >= 0) {
        new.tokens[r->length] = token;
        new.log_probs[r->length] = log_prob;
    }
    long at = r->hypothesis_count++;
    for (; at > 0 && new.score > r->hypotheses[at - 1].score; at--)
        r->hypotheses[at] = r->hypotheses[at - 1];
    r->hypotheses[at] = new;
    if (r->hypothesis_count > params->n_best)
        hypothesis_free(r->hypotheses + --r->hypothesis_count);
}

int request_is_done(const SearchParams *params, const Request *r, double best) {
    if (r->length >= r->max_tokens || best == -INFINITY) return 1;
    if ((double)r->finished >= params->max_finished) return 1;
    if (r->hypothesis_count < params->n_best) return 0;
    const double soon = length_normalised(params, best, r->length + 1);
    const double late = length_normalised(params, best, r->max_tokens);
    return (soon > late ? soon : late) <= r->hypotheses[r->hypothesis_count - 1].score;
}
