/* A whole pass through the blocks of an encoder or a decoder: what blocks/block.py says, in one call.
 *
 * Rows are tokens: of sentences one after the other without padding (encode), or the newest of each hypothesis (decode).
 */
#include "stack.h"
#include "vectors.h"
#include <math.h>
#include <stdlib.h>

enum { FETCHED = 32768 }; /* bytes of keys that are asked for ahead, at most */

/* ---- room for what lies between ---- */

typedef struct {
    float *normed, *query, *key, *value, *gathered, *inner, *out;
    void *linear;
} Between;

static long most(long a, long b) { return a > b ? a : b; }

static Between between(const Stack *s, long rows, float *room) {
    const long all = s->heads * s->head, kv = s->kv_heads * s->head;
    Between b;
    b.normed = room, room += rows * s->width;
    b.query = room, room += rows * all;
    b.key = room, room += rows * kv;
    b.value = room, room += rows * kv;
    b.gathered = room, room += rows * all;
    b.inner = room, room += rows * s->inner;
    b.out = room, room += rows * s->width;
    b.linear = room;
    return b;
}

long stack_room(const Stack *s, long rows) {
    const long all = s->heads * s->head, kv = s->kv_heads * s->head;
    return rows * (2 * s->width + 2 * all + 2 * kv + s->inner) * (long)sizeof(float) + linear_room(rows, most(most(s->width, s->inner), all));
}

/* ---- add & norm ---- */

typedef struct {
    const Norm *norm;
    float *x;
    const float *plus; /* may be NULL */
    float *y;
    long rows, width;
} Normed;

/* x becomes x + plus, and y its norm; they may be one */

#define NORM_ROW(NAME, TARGET, BITS, LANES, ACROSS)                                                                      \
    TARGET static void NAME(const Norm *by, float *x, const float *plus, float *y, long width) {                         \
        __m##BITS sum = _mm##BITS##_setzero_ps(), squares = sum;                                                         \
        for (long k = 0; k < width; k += LANES) {                                                                        \
            __m##BITS v = _mm##BITS##_loadu_ps(x + k);                                                                   \
            if (plus) v = _mm##BITS##_add_ps(v, _mm##BITS##_loadu_ps(plus + k));                                         \
            _mm##BITS##_storeu_ps(x + k, v);                                                                             \
            sum = _mm##BITS##_add_ps(sum, v);                                                                            \
        }                                                                                                                \
        const __m##BITS mean = _mm##BITS##_set1_ps(ACROSS(sum) / (float)width);                                          \
        for (long k = 0; k < width; k += LANES) {                                                                        \
            const __m##BITS far = _mm##BITS##_sub_ps(_mm##BITS##_loadu_ps(x + k), mean);                                 \
            squares = _mm##BITS##_fmadd_ps(far, far, squares);                                                           \
        }                                                                                                                \
        const __m##BITS times = _mm##BITS##_set1_ps(1.0f / sqrtf(ACROSS(squares) / (float)width + by->eps));             \
        for (long k = 0; k < width; k += LANES) {                                                                        \
            const __m##BITS even = _mm##BITS##_mul_ps(_mm##BITS##_sub_ps(_mm##BITS##_loadu_ps(x + k), mean), times);     \
            const __m##BITS weight = _mm##BITS##_loadu_ps(by->weight + k), bias = _mm##BITS##_loadu_ps(by->bias + k);    \
            _mm##BITS##_storeu_ps(y + k, _mm##BITS##_fmadd_ps(even, weight, bias));                                      \
        }                                                                                                                \
    }

NORM_ROW(norm_row, AVX2, 256, 8, across)
NORM_ROW(norm_row_512, AVX512, 512, 16, across_512)

static void norm_part(const void *what, int part, int parts) {
    const Normed *n = what;
    const int wide = level() == 2;
    for (long row = from(n->rows, part, parts); row < from(n->rows, part + 1, parts); row++) {
        const long at = row * n->width;
        (wide ? norm_row_512 : norm_row)(n->norm, n->x + at, n->plus ? n->plus + at : NULL, n->y + at, n->width);
    }
}

static void norm(const Norm *by, float *x, const float *plus, float *y, long rows, long width, int threads) {
    const Normed n = {by, x, plus, y, rows, width};
    in_parts(norm_part, &n, rows * width < 32768 ? 1 : threads);
}

/* What a part of a block is given. Where the norm comes first, it is now that what the part before made is added: `made`, or NULL. */
static const float *given(const Stack *s, const Norm *by, float *x, const float *made, const Between *b, long rows, int threads) {
    if (!s->norm_first) return x;
    norm(by, x, made, b->normed, rows, s->width, threads);
    return b->normed;
}

/* x and what a part made of it */
static void put_back(const Stack *s, const Norm *by, float *x, const Between *b, long rows, int threads) {
    if (!s->norm_first) norm(by, x, b->out, x, rows, s->width, threads);
}

static void finish(const Stack *s, float *x, const Between *b, long rows, int threads) {
    if (s->norm_first) norm(&s->last, x, s->count ? b->out : NULL, x, rows, s->width, threads);
}

/* ---- the parts of a block ---- */

static void project(const Part *part, const float *x, long rows, int activation, int threads, const Between *b, float *y) {
    linear(&part, 1, x, rows, activation, threads, b->linear, &y);
}

static void queries_keys_values(const Attention *a, const float *x, long rows, int threads, const Between *b) {
    const Part *parts[3] = {&a->query, &a->key, &a->value};
    float *const y[3] = {b->query, b->key, b->value};
    linear(parts, 3, x, rows, NONE, threads, b->linear, y);
}

static void feed_forward(const Stack *s, const Block *block, float *x, long rows, int threads, const Between *b) {
    const float *h = given(s, &block->norm, x, b->out, b, rows, threads);
    project(&block->up, h, rows, s->activation, threads, b, b->inner);
    project(&block->down, b->inner, rows, NONE, threads, b, b->out);
    put_back(s, &block->norm, x, b, rows, threads);
}

static Look looking(const Stack *s, const Between *b, long first) {
    Look l = {0};
    l.q = b->query + first * s->heads * s->head, l.out = b->gathered + first * s->heads * s->head;
    l.heads = s->heads, l.kv_heads = s->kv_heads, l.width = s->head;
    l.scale = 1.0f / sqrtf((float)s->head);
    return l;
}

/* ---- an encoder ---- */

typedef struct {
    const Stack *stack;
    const Between *between;
    const int64_t *starts;
    long count;
} Reading;

/* room for the turned keys of the longest sentence; zeros, so that what is looked past is a number all the same */
static float *some_turned(const Stack *s, const int64_t *starts, long count, long heads) {
    long longest = 0;
    for (long i = 0; i < count; i++) longest = most(longest, starts[i + 1] - starts[i]);
    float *turned = calloc((size_t)(heads * s->head * memory_room(longest) + 8), sizeof(float));
    if (!turned) abort();
    return turned;
}

/* every token of a sentence looks at all of it; parts are made of tokens, as sentences are of any length */
static void read_part(const void *what, int part, int parts) {
    const Reading *r = what;
    const Stack *s = r->stack;
    const Between *b = r->between;
    const long kv = s->kv_heads * s->head, tokens = r->starts[r->count];
    const long start = from(tokens, part, parts), end = from(tokens, part + 1, parts);
    float *turned = some_turned(s, r->starts, r->count, s->kv_heads);
    for (long i = 0; i < r->count; i++) {
        const long first = r->starts[i], last = r->starts[i + 1];
        if (last <= start || first >= end) continue;
        Look l = looking(s, b, first);
        l.turned = memory_room(last - first);
        for (long head = 0; head < s->kv_heads; head++)
            turn(b->key + first * kv + head * s->head, kv, last - first, s->head, l.turned, turned + head * s->head * l.turned);
        l.keys = turned, l.values = b->value + first * kv;
        l.head_stride = s->head, l.stride = kv, l.rows = l.longest = last - first;
        look_rows(&l, first < start ? start - first : 0, (last < end ? last : end) - first);
    }
    free(turned);
}

void encode(const Stack *s, const int64_t *starts, long count, float *x, int threads, void *room) {
    const long rows = starts[count];
    const Between b = between(s, rows, room);
    const Reading reading = {s, &b, starts, count};
    for (long i = 0; i < s->count; i++) {
        const Block *block = s->blocks + i;
        queries_keys_values(&block->own, given(s, &block->own.norm, x, i ? b.out : NULL, &b, rows, threads), rows, threads, &b);
        in_parts(read_part, &reading, rows < 16 ? 1 : threads);
        project(&block->own.output, b.gathered, rows, NONE, threads, &b, b.out);
        put_back(s, &block->own.norm, x, &b, rows, threads);
        feed_forward(s, block, x, rows, threads, &b);
    }
    finish(s, x, &b, rows, threads);
}

/* ---- a decoder ---- */

/* what was read of one sentence, from its token `first` on, by one head */
static void keep_keys(const Stack *s, const float *keys, long count, long room, float *turned, void *to) {
    turn(keys, s->kv_heads * s->head, count, s->head, room, turned);
    put_keys(turned, s->head * room, s->half, s->half, to);
}

static void keep_values(const Stack *s, const float *values, long count, char *to) {
    for (long token = 0; token < count; token++)
        put_keys(values + token * s->kv_heads * s->head, s->head, s->half, s->half, to + token * s->head * size_of(s->half));
}

void remember(const Stack *s, const float *states, const int64_t *starts, long count, long room, int threads, void *space, void *memory) {
    const long rows = starts[count], kv = s->kv_heads * s->head, one = room * s->head * size_of(s->half), pair = count * s->kv_heads * one;
    const Between b = between(s, rows, space);
    const Given read = give(&s->blocks->cross.key, states, rows, threads, b.linear); /* the same for all blocks */
    float *turned = calloc((size_t)(s->head * room), sizeof(float));
    if (!turned) abort();
    for (long i = 0; i < s->count; i++) {
        linear_given(&s->blocks[i].cross.key, &read, 0, rows, threads, b.key);
        linear_given(&s->blocks[i].cross.value, &read, 0, rows, threads, b.value);
        char *keys = (char *)memory + 2 * i * pair, *values = keys + pair;
        for (long slot = 0; slot < count; slot++)
            for (long head = 0; head < s->kv_heads; head++) {
                const long from = starts[slot] * kv + head * s->head, length = starts[slot + 1] - starts[slot], at = (slot * s->kv_heads + head) * one;
                keep_keys(s, b.key + from, length, room, turned, keys + at);
                keep_values(s, b.value + from, length, values + at);
            }
    }
    free(turned);
}

static void write_keys(const Stack *s, const Seated *g, const float *new, char *to) {
    for (long row = 0; row < g->rows; row++) {
        const long place = g->places ? g->places[row * g->said + g->said - 1] : g->said - 1;
        const long slot = g->slots ? g->slots[row] : 0;
        for (long head = 0; head < s->kv_heads; head++) {
            const long at = ((slot * s->kv_heads + head) * g->own_room + place) * s->head;
            put_keys(new + (row * s->kv_heads + head) * s->head, s->head, s->half, g->own_half, to + at * size_of(g->own_half));
        }
    }
}

/* what a group looks at: its own past, or its memory */
typedef struct {
    char *keys, *values;
    long room; /* places of a head */
    int half;
} Lane;

static Lane lane(const Stack *s, const Seated *g, long block, int own) {
    const long room = own ? g->own_room : g->memory_room, pair = (own ? g->slot_count : g->memory_slots) * s->kv_heads * s->head * room;
    const int half = own ? g->own_half : g->memory_half;
    char *keys = (char *)(own ? g->own : g->memory) + 2 * block * pair * size_of(half);
    return (Lane){keys, keys + pair * size_of(half), room, half};
}

static void look_in_lane(const Stack *s, const Between *b, const Seated *g, long first, long block, int own, int threads) {
    const Lane at = lane(s, g, block, own);
    const long kv = s->kv_heads * s->head;
    Look l = looking(s, b, first);
    l.keys = at.keys, l.values = at.values, l.half = at.half, l.slots = g->slots;
    l.places = own ? g->places : NULL, l.lengths = own ? NULL : g->lengths;
    l.rows = g->rows, l.slot_stride = kv * at.room, l.head_stride = s->head * at.room, l.stride = s->head;
    l.longest = own ? g->said : at.room, l.turned = own ? 0 : at.room;
    if (own) {
        write_keys(s, g, b->key + first * kv, at.keys);
        write_keys(s, g, b->value + first * kv, at.values);
    }
    look(&l, threads);
}

/* The keys and values that a group will look at come while the group before it is worked on: each has its own, far apart. */
static void fetch_lane(const Stack *s, const Seated *g, long block, int own) {
    if (g->slots) return; /* many sentences: the first of them would be little of it */
    const Lane at = lane(s, g, block, own);
    const long size = size_of(at.half), some = (own ? g->said : at.room) * s->head * size, most = FETCHED / s->kv_heads;
    for (long head = 0; head < s->kv_heads; head++)
        for (long k = head * at.room * s->head * size, end = k + (some < most ? some : most); k < end; k += 64) {
            __builtin_prefetch(at.keys + k, 0, 2);
            __builtin_prefetch(at.values + k, 0, 2);
        }
}

static void look_in_lanes(const Stack *s, const Between *b, const Seated *groups, long count, long block, int own, int threads) {
    for (long i = 0, first = 0; i < count; first += groups[i++].rows) {
        if (i + 1 < count) fetch_lane(s, groups + i + 1, block, own);
        look_in_lane(s, b, groups + i, first, block, own, threads);
    }
}

void decode(const Stack *s, const Seated *groups, long count, float *x, int threads, void *room) {
    long rows = 0;
    for (long i = 0; i < count; i++) rows += groups[i].rows;
    const Between b = between(s, rows, room);
    for (long i = 0; i < s->count; i++) {
        const Block *block = s->blocks + i;
        queries_keys_values(&block->own, given(s, &block->own.norm, x, i ? b.out : NULL, &b, rows, threads), rows, threads, &b);
        look_in_lanes(s, &b, groups, count, i, 1, threads);
        project(&block->own.output, b.gathered, rows, NONE, threads, &b, b.out);
        put_back(s, &block->own.norm, x, &b, rows, threads);

        project(&block->cross.query, given(s, &block->cross.norm, x, b.out, &b, rows, threads), rows, NONE, threads, &b, b.query);
        look_in_lanes(s, &b, groups, count, i, 0, threads);
        project(&block->cross.output, b.gathered, rows, NONE, threads, &b, b.out);
        put_back(s, &block->cross.norm, x, &b, rows, threads);

        feed_forward(s, block, x, rows, threads, &b);
    }
    finish(s, x, &b, rows, threads);
}
