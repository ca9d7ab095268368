#include "search_request.h"
#include <math.h>
#include <string.h>

static Beam beam_new(long beam, long max_tokens) {
    return (Beam){
        .tokens = zeros(beam * max_tokens, sizeof(int64_t)),
        .log_probs = zeros(beam * max_tokens, sizeof(float)),
        .totals = zeros(beam, sizeof(float)),
        .key_indices = zeros(beam * max_tokens, sizeof(int32_t)),
    };
}

static int complete(const Beam *beam) {
    return beam->tokens && beam->log_probs && beam->totals && beam->key_indices;
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
    if (r->memory && !--r->memory->users) pool_free(pool, r->memory);
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
    Request *r = zeros(1, sizeof(Request));
    if (!r) return NULL;
    r->number = number;
    r->max_tokens = max_tokens;
    r->rows = 1;
    r->source_length = (int32_t)length;
    r->beam = beam_new(params->beam, max_tokens);
    r->next_beam = beam_new(params->beam, max_tokens);
    r->hypotheses = zeros(params->n_best + 1, sizeof(Hypothesis));
    Status status = OK;
    if (params->related) status = shortlist_new(params, source, length, &r->shortlist);
    if (status == OK && complete(&r->beam) && complete(&r->next_beam) && r->hypotheses) return r;
    request_free(NULL, r); /* nothing in it is from an pool yet */
    return NULL;
}

/* ---- the key/value cache of a request ---- */

/* Drops the keys and values that no live hypothesis uses: hypotheses share most of their tokens,
 * and most are given up. Grows the cache if that does not free half of it. */
static Status compact(BufferPool *pool, const Stack *stack, Request *r, long beam) {
    const long stride = r->length + 1, bytes = stack->head_width * kv_size(stack->fp16_kv);
    const long heads = 2 * stack->layers * stack->kv_heads, old_capacity = r->kv_capacity;
    int32_t *moved_to = zeros(r->kv_used, sizeof(int32_t)), used = 0;
    if (!moved_to) return OUT_OF_MEMORY;
    for (long row = 0; row < r->rows; row++)
        for (long t = 0; t < r->length; t++) moved_to[r->beam.key_indices[row * stride + t]] = 1;
    for (long i = 0; i < r->kv_used; i++) moved_to[i] = moved_to[i] ? used++ : -1;
    long capacity = old_capacity;
    if (2 * (used + r->rows) > old_capacity) /* most translations are about as long as the source */
        capacity = used + r->source_length + 4 * beam;
    char *kv = capacity > old_capacity ? pool_alloc(pool, heads * capacity * bytes) : r->kv;
    if (!kv) {
        free(moved_to);
        return OUT_OF_MEMORY;
    }
    r->kv_capacity = capacity;
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
    return OK;
}

Status reserve_positions(BufferPool *pool, const Stack *stack, Request *r, long beam) {
    if (r->kv_used + r->rows > r->kv_capacity) {
        const Status status = compact(pool, stack, r, beam);
        if (status != OK) return status;
    }
    for (long row = 0; row < r->rows; row++)
        r->beam.key_indices[row * (r->length + 1) + r->length] = (int32_t)(r->kv_used + row);
    r->kv_used += r->rows;
    return OK;
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

Status add_hypothesis(const SearchParams *params, Request *r, long row, int64_t token,
                      float log_prob, double total) {
    const long length = r->length + (token >= 0);
    const long text = length - (token >= 0 && is_end_token(params, token));
    const int64_t *generated = r->beam.tokens + row * r->length;
    r->finished++;
    for (long i = 0; i < r->hypothesis_count; i++)
        if (same_text(r->hypotheses + i, generated, r->length, token, text)) return OK;
    Hypothesis new = {
        .tokens = zeros(length, sizeof(int64_t)),
        .log_probs = zeros(length, sizeof(float)),
        .length = length,
        .ended = length > text,
        .total = total,
        .score = length_normalised(params, total, length),
    };
    if (!new.tokens || !new.log_probs) {
        hypothesis_free(&new);
        return OUT_OF_MEMORY;
    }
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
    return OK;
}

int request_is_done(const SearchParams *params, const Request *r, double best) {
    if (r->length >= r->max_tokens || best == -INFINITY) return 1;
    if ((double)r->finished >= params->max_finished) return 1;
    if (r->hypothesis_count < params->n_best) return 0;
    const double soon = length_normalised(params, best, r->length + 1);
    const double late = length_normalised(params, best, r->max_tokens);
    return (soon > late ? soon : late) <= r->hypotheses[r->hypothesis_count - 1].score;
}
