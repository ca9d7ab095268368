/* Tokens become rows of numbers, and sentences are read: embedded, encoded, and kept as what a decoder looks at. */
#include "stack.h"

/* No fused products here: these are the numbers of the modules. */
__attribute__((target("avx2"))) void embed(const Embedding *e, const int64_t *tokens, const int64_t *positions, long count, float *x) {
    const long width = e->width;
    for (long i = 0; i < count; i++, x += width) {
        const long first = tokens[i] * width;
        if (e->numbers)
            for (long k = 0; k < width; k++) x[k] = e->numbers[first + k] * e->scale;
        else
            for (long k = 0; k < width; k++) x[k] = (float)e->whole[first + k] * e->row_scales[tokens[i]] * e->scale;
        if (e->positions)
            for (long k = 0; k < width; k++) x[k] += e->positions[positions[i] * width + k];
    }
}

/* places of a head in a memory whose longest sentence has so many tokens: keys are turned by eights */
long memory_room(long longest) { return (longest + 7) / 8 * 8; }

long memory_bytes(const Stack *decoder, long count, long room) {
    return 2 * decoder->count * count * decoder->kv_heads * room * decoder->head * size_of(decoder->half);
}

/* bytes that it takes to read so many tokens */
long read_room(const Reader *r, long rows) {
    const long one = stack_room(r->encoder, rows), other = stack_room(r->decoder, rows);
    return (one > other ? one : other) + rows * (r->source.width * (long)sizeof(float) + (long)sizeof(int64_t));
}

/* tokens of `count` sentences, the i-th from starts[i] to starts[i + 1] -> memory: see `remember` */
void read_sentences(const Reader *r, const int64_t *tokens, const int64_t *starts, long count, long room, int threads, void *space, void *memory) {
    const long rows = starts[count];
    int64_t *positions = space;
    float *x = (float *)(positions + rows), *between = x + rows * r->source.width;
    for (long i = 0; i < count; i++)
        for (long at = starts[i]; at < starts[i + 1]; at++) positions[at] = at - starts[i];
    embed(&r->source, tokens, positions, rows, x);
    encode(r->encoder, starts, count, x, threads, between);
    remember(r->decoder, x, starts, count, room, threads, between, memory);
}
