/* Declarations shared by the compiled kernels. They speed up inference; regard also runs without
 * them.
 *
 *   threads.c    parallel_for, and the instruction set of this CPU
 *   linear.c     x weightᵀ + bias with float32 or (int8.c) int8 weights; a row's result never
 * depends on the other rows of the batch attention.c  attention of one query per row over keys
 * anywhere in a cache topk.c       log-sum-exp and the k best tokens of each row of logits stack.c
 * a forward pass through all blocks of an encoder or a decoder encode.c     tokens -> embeddings ->
 * encoder -> keys and values for cross-attention search.c     beam search; shortlist.c restricts a
 * request to a small vocabulary of its own pool.c      reuses large buffers; layout.h places
 * arrays in one buffer
 *
 * Plain C with x86 intrinsics. Every loop exists for AVX2, and for AVX-512 with VNNI where that is
 * faster. kernels.py, layers.py and search.py mirror the structs.
 */
#pragma once
#include <stdint.h>

/* What a function returns that can fail. Nothing here aborts: whoever calls from Python gets an
 * exception. kernels.py mirrors the numbers. */
typedef enum { OK, OUT_OF_MEMORY, BAD_INPUT, NOT_FINITE } Status;

#define AVX2 __attribute__((target("avx2,fma,f16c")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vnni,fma,f16c")))
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* ---- threads.c ---- */

typedef void (*Task)(const void *args, int part, int parts);

/* Runs task(args, part, parts) for every part, in parallel. */
void parallel_for(Task task, const void *args, int parts);
/* The first of `count` items that belongs to this part. */
static inline long part_start(long count, int part, int parts) { return count * part / parts; }

enum { ISA_NONE, ISA_AVX2, ISA_AVX512 }; /* ISA_NONE: nothing here can run; ISA_AVX512: with VNNI */
int isa_level(void);

/* ---- linear.c ---- */

enum { NONE, RELU, SILU, GELU, GELU_TANH };

/* The weights of a linear layer. */
typedef struct {
    const void *weight;         /* float (outputs, width), or packed by pack_floats or pack_int8 */
    const int32_t *weight_sums; /* int8 only, else NULL: the sum of each output's weights */
    const float *scales, *bias; /* scales: int8 only, per output. bias: NULL only for float */
    long width, outputs;        /* width: a multiple of 32. int8 weights are in -64..64 */
    long packed;                /* whether float weights are packed */
} Linear;

/* y[i] (rows, outputs) = activation(x (rows, width) layers[i].weightᵀ + bias). All layers have the
 * same width. `scratch` has linear_scratch_bytes. */
void linear(const Linear *const *layers, int count, const float *x, long rows, int activation,
            int threads, void *scratch, float *const *y);
long linear_scratch_bytes(long rows, long width);

/* The same in two steps, for rows that pass through many layers, or through one layer in pieces:
 * quantises the rows only once. */
typedef struct QParams QParams;
typedef struct {
    const float *x;
    QParams *qparams;
    uint8_t *q;
} LinearInput;
LinearInput prepare_input(const Linear *layer, const float *x, long rows, int threads,
                          void *scratch);
/* y (rows, outputs) of the rows from `first` on */
void linear_apply(const Linear *layer, const LinearInput *input, long first, long rows, int threads,
                  float *y);
/* Outputs in a panel of packed float weights. */
long float_panel_width(void);
/* (count, width) -> (width, capacity), where capacity >= count rounded up to eight; `width` and
 * `stride` are multiples of eight */
void transpose(const float *x, long stride, long count, long width, long capacity,
               float *transposed);

/* ---- attention.c ---- */

typedef struct {
    const float *q;             /* (rows, heads, width) */
    const void *keys, *values;  /* float32 or float16 */
    const int32_t *seq_ids;     /* (rows): the sequence whose keys a row uses; NULL: the first */
    const int32_t *key_indices; /* (rows, max_keys): which of its keys; NULL: 0, 1, 2 … */
    const int32_t *lengths;     /* (sequences): how many keys; NULL: max_keys */
    long rows, heads, kv_heads, width;        /* width of a head: a multiple of 8 */
    long seq_stride, head_stride, key_stride; /* in numbers */
    long max_keys;
    long transposed_stride; /* 0; or keys are stored as (width, transposed_stride), a multiple of
                               eight, with eight more numbers readable after the last */
    float scale;
    int fp16;   /* keys and values are float16 */
    float *out; /* (rows, heads, width) */
} AttentionArgs;

/* bytes of one number of a key or value */
static inline long kv_size(int fp16) { return fp16 ? 2 : (long)sizeof(float); }

/* Stores numbers as float16, or as float32, rounded to float16 precision if `rounded`. */
void store_kv(const float *x, long count, int rounded, int fp16, void *to);

/* Floats that one thread needs for the scores of `max_keys` keys. */
static inline long score_floats(long max_keys) { return 4 * (max_keys + 16); }
/* `scores`: score_floats(max_keys) of scratch */
void attention_rows(const AttentionArgs *args, long first, long end, float *scores);
Status attention(const AttentionArgs *args, int threads);

/* ---- topk.c ---- */

/* Logits of a row are computed and scanned in chunks, so that they never exist all at once. */
enum { LOGITS_PER_CHUNK = 2048 };

/* Running over the logits of a row: their maximum, the sum of e^(x - max), and the k best that are
 * not suppressed, best first; of equal ones the first comes first. */
typedef struct {
    const uint8_t *suppressed; /* (vocab) or NULL */
    long k, filled;
    float *values;
    int64_t *tokens;
    float max, exp_sum;
} TopK;

void topk_init(TopK *t);
/* Adds the logits of the tokens first .. first + count: LOGITS_PER_CHUNK of them, or the last. */
void topk_update(TopK *t, const float *logits, long first, long count);
/* Fills up missing entries; returns log(exp_sum). */
float topk_finish(TopK *t);
