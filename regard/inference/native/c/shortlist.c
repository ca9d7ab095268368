/* A request's own vocabulary: some hundreds of outputs, copied from the full projection. */
#include "int8.h"
#include "search.h"
#include <string.h>

void shortlist_free(Shortlist *list) {
    free((void *)list->output.weight);
    free((void *)list->output.weight_sums);
    free((void *)list->output.scales);
    free((void *)list->output.bias);
    free(list->tokens);
    free(list->suppressed_at_start);
}

/* Copies output `from` of `all` to output `to` of `few`, which has the same format. */
static void copy_output(const Linear *all, long from, const Linear *few, long to) {
    const long width = few->width;
    float *bias = (float *)few->bias;
    if (bias) bias[to] = all->bias[from];
    if (all->packed) {
        const long p = float_panel_width();
        const float *source = (const float *)all->weight + from / p * p * width + from % p;
        float *target = (float *)few->weight + to / p * p * width + to % p;
        for (long k = 0; k < width; k++) target[k * p] = source[k * p];
        return;
    }
    if (!all->weight_sums) {
        const float *source = (const float *)all->weight + from * width;
        memcpy((float *)few->weight + to * width, source, sizeof(float) * (size_t)width);
        return;
    }
    const long p = int8_panel_width(isa_level());
    const char *source = (const char *)all->weight + from / p * p * width + from % p * 4;
    char *target = (char *)few->weight + to / p * p * width + to % p * 4;
    for (long k = 0; k < width / 4; k++) memcpy(target + k * p * 4, source + k * p * 4, 4);
    ((int32_t *)few->weight_sums)[to] = all->weight_sums[from];
    ((float *)few->scales)[to] = all->scales[from];
}

static void allow(uint8_t *allowed, long vocab, long token) {
    if (token >= 0 && token < vocab) allowed[token] = 1;
}

/* Which tokens of the vocabulary a source sentence allows; the caller frees them. */
static uint8_t *allowed_tokens(const SearchParams *params, const int64_t *source, long length) {
    const long vocab = params->output->outputs;
    uint8_t *allowed = zeros(vocab, 1);
    if (!allowed) return NULL;
    for (long i = 0; i < params->frequent_count; i++) allow(allowed, vocab, params->frequent[i]);
    for (long i = 0; i < length; i++)
        for (long k = 0; k < params->related_count; k++)
            allow(allowed, vocab, params->related[source[i] * params->related_count + k]);
    for (long i = 0; i < params->end_count; i++) allowed[params->ends[i]] = 1;
    for (long token = 0; token < vocab; token++)
        if (params->suppressed[token]) allowed[token] = 0;
    return allowed;
}

/* Room for `outputs` outputs in the format of `all`; parts are NULL when memory runs out. */
static Linear linear_like(const Linear *all, long outputs) {
    const int int8 = all->weight_sums != NULL;
    const long p = int8 ? int8_panel_width(isa_level()) : float_panel_width();
    const long padded = (outputs + p - 1) / p * p;
    return (Linear){
        .weight = zeros(padded * all->width, int8 ? 1 : sizeof(float)),
        .weight_sums = int8 ? zeros(padded, sizeof(int32_t)) : NULL,
        .scales = int8 ? zeros(padded, sizeof(float)) : NULL,
        .bias = all->bias ? zeros(padded, sizeof(float)) : NULL,
        .width = all->width,
        .outputs = outputs,
        .packed = all->packed,
    };
}

static int complete(const Shortlist *list, const Linear *all) {
    const Linear *few = &list->output;
    return list->tokens && list->suppressed_at_start && few->weight && (few->bias || !all->bias) &&
           ((few->weight_sums && few->scales) || !all->weight_sums);
}

Status shortlist_new(const SearchParams *params, const int64_t *source, long length,
                     Shortlist *list) {
    const long vocab = params->output->outputs;
    uint8_t *allowed = allowed_tokens(params, source, length);
    if (!allowed) return OUT_OF_MEMORY;
    long count = 0;
    for (long token = 0; token < vocab; token++) count += allowed[token];
    *list = (Shortlist){
        .output = linear_like(params->output, count),
        .tokens = zeros(count, sizeof(int64_t)),
        .suppressed_at_start = zeros(count, 1),
    };
    const Status status = complete(list, params->output) ? OK : OUT_OF_MEMORY;
    for (long token = 0, to = 0; token < vocab && status == OK; token++) {
        if (!allowed[token]) continue;
        list->tokens[to] = token;
        list->suppressed_at_start[to] = params->suppressed_at_start[token];
        copy_output(params->output, token, &list->output, to++);
    }
    free(allowed);
    return status; /* on an error the caller still frees the list */
}
