/* A sentence's own words: a projection of some hundreds of outputs, cut out of that to the whole vocabulary. */
#include "int8.h"
#include "search.h"
#include <string.h>

void free_list(Shortlist *list) {
    free((void *)list->output.weights), free((void *)list->output.sums), free((void *)list->output.scales);
    free((void *)list->output.bias), free(list->tokens), free(list->never_at_first);
}

/* One output of a linear part becomes the `to`-th of another. */
static void copy_output(const Part *from, long which, const Part *part, long to) {
    float *bias = (float *)part->bias;
    if (bias) bias[to] = from->bias[which];
    if (from->packed) {
        const long p = float_panel();
        const float *source = (const float *)from->weights + which / p * p * from->width + which % p;
        float *target = (float *)part->weights + to / p * p * part->width + to % p;
        for (long k = 0; k < part->width; k++) target[k * p] = source[k * p];
        return;
    }
    if (!from->sums) {
        memcpy((float *)part->weights + to * part->width, (const float *)from->weights + which * from->width, sizeof(float) * (size_t)part->width);
        return;
    }
    const long p = panel(level());
    const char *source = (const char *)from->weights + which / p * p * from->width + which % p * 4;
    char *target = (char *)part->weights + to / p * p * part->width + to % p * 4;
    for (long k = 0; k < part->width / 4; k++) memcpy(target + k * p * 4, source + k * p * 4, 4);
    ((int32_t *)part->sums)[to] = from->sums[which], ((float *)part->scales)[to] = from->scales[which];
}

Shortlist shortlist(const Settings *settings, const int64_t *source, long length) {
    const Part *all = settings->output;
    uint8_t *may = some((size_t)all->outs, 1);
    for (long i = 0; i < settings->frequent_count; i++) may[settings->frequent[i]] = 1;
    for (long i = 0; i < length; i++)
        for (long k = 0; k < settings->related_count; k++) {
            const int32_t token = settings->related[source[i] * settings->related_count + k];
            if (token >= 0) may[token] = 1;
        }
    for (long i = 0; i < settings->end_count; i++) may[settings->ends[i]] = 1;
    long count = 0;
    for (long token = 0; token < all->outs; token++) count += may[token] = may[token] && !settings->never[token];
    const long p = all->sums ? panel(level()) : float_panel(), room = (count + p - 1) / p * p;
    Shortlist list = {*all, some((size_t)count, sizeof(int64_t)), some((size_t)count, 1)};
    list.output.outs = count;
    list.output.weights = some((size_t)(room * all->width), all->sums ? 1 : sizeof(float));
    list.output.sums = all->sums ? some((size_t)room, sizeof(int32_t)) : NULL;
    list.output.scales = all->sums ? some((size_t)room, sizeof(float)) : NULL;
    list.output.bias = all->bias ? some((size_t)room, sizeof(float)) : NULL;
    for (long token = 0, to = 0; token < all->outs; token++) {
        if (!may[token]) continue;
        list.tokens[to] = token, list.never_at_first[to] = settings->never_at_first[token];
        copy_output(all, token, &list.output, to++);
    }
    free(may);
    return list;
}

