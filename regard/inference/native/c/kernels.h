/* What the compiled loops share. The inner loops of using a model; regard runs without them, more slowly.
 *
 *   threads.c   work in parts, on threads that are lent
 *   linear.c    x weightsᵀ + bias, of float32 or (int8.c) int8 weights: a row's result is its own, in any company
 *   look.c      attention: one query a row over the keys of its past, wherever they lie
 *   weigh.c     of each row of logits: the normaliser, and the best tokens
 *   stack.c     a whole pass through the blocks of an encoder or a decoder; read.c: from a sentence's tokens on
 *   search.c    beam search around it; shortlist.c: with a sentence's own words; rooms.c: large rooms that are used again
 *
 * Plain C and x86 intrinsics: each loop is there for AVX2, and also for AVX-512 with VNNI where that pays. The structs are
 * mirrored in kernels.py, stack.py, reading.py and search.py.
 */
#pragma once
#include <stdint.h>

#define AVX2 __attribute__((target("avx2,fma,f16c")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vnni,fma,f16c")))

/* ---- threads.c ---- */

typedef void (*Work)(const void *what, int part, int parts);

/* work(what, part, parts) for every part at once */
void in_parts(Work work, const void *what, int parts);
static inline long from(long count, int part, int parts) { return count * part / parts; }

/* 0: nothing here runs; 1: AVX2; 2: AVX-512 VNNI */
int level(void);

/* ---- linear.c ---- */

enum { NONE, RELU, SILU, GELU, GELU_TANH };

typedef struct {
    const void *weights;        /* float (outs, width), or as `pack_floats` leaves them, or int8 as `pack` does */
    const int32_t *sums;        /* of int8 weights, which are -64..64: each output's; else NULL */
    const float *scales, *bias; /* of int8 weights, what one is worth; bias may be NULL for float ones */
    long width, outs;           /* width: a multiple of 32 */
    long packed;                /* whether floats are */
} Part;

/* y[i] (rows, outs) = x (rows, width) weights[i]ᵀ + bias[i], then the activation; all parts have the same width.
 * `room`: see linear_room. */
void linear(const Part *const *parts, int count, const float *x, long rows, int activation, int threads, void *room, float *const *y);
long linear_room(long rows, long width);

/* The same in two steps, for rows that go through many parts, or through a part piece by piece: what they are is found once. */
typedef struct Worth Worth;
typedef struct {
    const float *x;
    Worth *worth;
    uint8_t *q;
} Given;
Given give(const Part *part, const float *x, long rows, int threads, void *room);
/* y (rows, outs) of the rows from `first` on */
void linear_given(const Part *part, const Given *given, long first, long rows, int threads, float *y);
long float_panel(void);
/* (count, width) -> (width, room), room >= count rounded up to eight; both widths are multiples of eight */
void turn(const float *x, long stride, long count, long width, long room, float *turned);

/* ---- look.c ---- */

typedef struct {
    const float *q;                        /* (rows, heads, width) */
    const void *keys, *values;             /* of floats, or of halves */
    const int32_t *slots;                  /* (rows): whose keys; NULL: the first's */
    const int32_t *places;                 /* (rows, longest): which of them; NULL: all in a row */
    const int32_t *lengths;                /* (slots): how many; NULL: longest */
    long rows, heads, kv_heads, width;     /* width: a multiple of 8 */
    long slot_stride, head_stride, stride; /* from one slot's, head's, place's key to the next */
    long longest;
    long turned;                           /* 0; or keys lie turned, (width, turned), a multiple of eight; eight more may be read */
    float scale;
    int half;                              /* whether keys and values are halves */
    float *out;                            /* (rows, heads, width) */
} Look;

/* bytes of a key's number */
static inline long size_of(int half) { return half ? 2 : (long)sizeof(float); }

/* Numbers to where keys lie: as halves, or as floats; rounded to halves either way, where that is asked for. */
void put_keys(const float *x, long count, int rounded, int half, void *to);

void look_rows(const Look *l, long first, long end);
void look(const Look *l, int threads);

/* ---- weigh.c ---- */

enum { PIECE = 2048 }; /* logits of a row that are weighed at a time, so that they need not all be there at once */

/* Of a row of logits: the greatest, the sum of e^(x - greatest), and the `count` best that are not banned, best first, of
 * equals the first. */
typedef struct {
    const uint8_t *banned; /* (vocab) or NULL */
    long count, filled;
    float *values;
    int64_t *tokens;
    float most, sum;
} Weighing;

void weigh_begin(Weighing *w);
/* the logits of the tokens first..first + count: PIECE of them, or the last */
void weigh_more(Weighing *w, const float *x, long first, long count);
/* the log of the sum */
float weigh_end(Weighing *w);
