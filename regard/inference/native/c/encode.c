/* Tokens -> embeddings -> encoder -> keys and values for the decoder's cross-attention. */
#include "scratch.h"
#include "stack.h"

/* Without FMA: the results are those of the torch modules, bit for bit. */
__attribute__((target("avx2"))) Status embed(const Embedding *e, const int64_t *tokens,
                                             const int64_t *positions, long count, float *x) {
    const long width = e->width;
    for (long i = 0; i < count; i++, x += width) {
        if (tokens[i] < 0 || tokens[i] >= e->vocab) return BAD_INPUT;
        if (e->positions && (positions[i] < 0 || positions[i] >= e->max_positions))
            return BAD_INPUT;
        const long first = tokens[i] * width;
        if (e->weight)
            for (long k = 0; k < width; k++) x[k] = e->weight[first + k] * e->scale;
        else
            for (long k = 0; k < width; k++)
                x[k] = (float)e->qweight[first + k] * e->row_scales[tokens[i]] * e->scale;
        if (e->positions)
            for (long k = 0; k < width; k++) x[k] += e->positions[positions[i] * width + k];
    }
    return OK;
}

/* A multiple of eight, because keys are transposed in blocks of eight. */
long memory_capacity(long longest) { return (longest + 7) / 8 * 8; }

long memory_bytes(const Stack *decoder, long count, long capacity) {
    return 2 * decoder->layers * count * decoder->kv_heads * capacity * decoder->head_width *
           kv_size(decoder->fp16_kv);
}

typedef struct {
    int64_t *positions; /* (tokens) */
    float *x;           /* (tokens, width) */
    void *scratch;      /* of the encoder, then of project_memory */
} EncodeBuffers;

static EncodeBuffers lay_out(const Encoder *e, long tokens, Layout *layout) {
    const long encoder = stack_scratch_bytes(e->encoder, tokens);
    const long decoder = stack_scratch_bytes(e->decoder, tokens);
    return (EncodeBuffers){
        .positions = place(layout, tokens, sizeof(int64_t)),
        .x = place(layout, tokens * e->source.width, sizeof(float)),
        .scratch = place(layout, encoder > decoder ? encoder : decoder, 1),
    };
}

long encode_scratch_bytes(const Encoder *e, long tokens) {
    Layout layout = {.base = NULL};
    lay_out(e, tokens, &layout);
    return layout.bytes;
}

Status encode(const Encoder *e, const int64_t *tokens, const int64_t *starts, long count,
              long capacity, int threads, void *scratch, void *memory) {
    Layout layout = {.base = scratch};
    const EncodeBuffers b = lay_out(e, starts[count], &layout);
    for (long i = 0; i < count; i++)
        for (long at = starts[i]; at < starts[i + 1]; at++) b.positions[at] = at - starts[i];
    Status status = embed(&e->source, tokens, b.positions, starts[count], b.x);
    if (status == OK) status = encoder_forward(e->encoder, starts, count, b.x, threads, b.scratch);
    if (status != OK) return status;
    return project_memory(e->decoder, b.x, starts, count, capacity, threads, b.scratch, memory);
}
