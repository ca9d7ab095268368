/* The three inner loops of decoding that torch has no operation for. regard runs without them, more slowly.
 *
 *   linear8   rows quantised one by one, times int8 weights, in exact integer sums: a row's result is its own
 *   look      one query a row over the keys of its past, wherever they lie
 *   weigh     of each row of logits: the normaliser, and the best tokens
 *
 * Plain C and x86 intrinsics. Each loop is there for AVX2; linear8 also for AVX-512 with VNNI. `level` says what this
 * CPU runs. Threads are lent by whoever has them (torch's OpenMP): see `lend_threads`.
 */
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- threads ---- */

typedef void (*Team)(void (*)(void *), void *, unsigned, unsigned); /* GOMP_parallel */
typedef int (*Member)(void);                                        /* omp_get_thread_num */
static Team team;
static Member member;

void lend_threads(void *gomp_parallel, void *omp_get_thread_num) {
    team = (Team)gomp_parallel;
    member = (Member)omp_get_thread_num;
}

typedef struct {
    void (*work)(const void *, int, int);
    const void *what;
    int parts;
} Share;

static void one_share(void *given) {
    const Share *share = given;
    share->work(share->what, member(), share->parts);
}

/* work(what, part, parts) for every part at once */
static void in_parts(void (*work)(const void *, int, int), const void *what, int parts) {
    if (parts <= 1 || !team) {
        for (int part = 0; part < (parts < 1 ? 1 : parts); part++) work(what, part, parts < 1 ? 1 : parts);
        return;
    }
    Share share = {work, what, parts};
    team(one_share, &share, (unsigned)parts, 0);
}

static long from(long count, int part, int parts) { return count * part / parts; }

/* 0: nothing here runs; 1: AVX2, whose sums of two products are 16 bits wide, so weights must be -64..64; 2: AVX-512 VNNI */
int level(void) {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vnni")
               ? 2
               : 1;
}

/* ---- linear8 ---- */

/* Weights are packed in panels of outputs; in a panel, four inputs of all its outputs lie together:
 * out[panel][input / 4][output][input % 4]. AVX2's panel is 2 registers of 8 outputs, AVX-512's 4 of 16. */
enum { ROWS = 6, BLOCK = 96 };

int panel(int at_level) { return at_level == 2 ? 64 : 16; }

/* weights (outs, width) -> packed, and 128 x the sum of each output's weights; width a multiple of 32 */
void pack(const int8_t *weights, long outs, long width, int at_level, int8_t *packed, int32_t *sums) {
    long p = panel(at_level), panels = (outs + p - 1) / p;
    for (long n = 0; n < panels * p; n++) {
        int8_t *to = packed + (n / p) * p * width + (n % p) * 4;
        int32_t sum = 0;
        for (long k = 0; k < width; k++) {
            int8_t weight = n < outs ? weights[n * width + k] : 0;
            to[k / 4 * p * 4 + k % 4] = weight;
            sum += weight;
        }
        sums[n] = 128 * sum;
    }
}

/* A row as bytes of 1..255, 128 for nothing, and what one of them is worth. */
__attribute__((target("avx2,fma"))) static float quantise(const float *x, long width, uint8_t *q) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 most = _mm256_setzero_ps();
    for (long k = 0; k < width; k += 8) most = _mm256_max_ps(most, _mm256_andnot_ps(sign, _mm256_loadu_ps(x + k)));
    float each[8], greatest = 0.0f;
    _mm256_storeu_ps(each, most);
    for (int i = 0; i < 8; i++) greatest = each[i] > greatest ? each[i] : greatest;
    const float scale = greatest > 0.0f ? greatest / 127.0f : 1.0f;
    const __m256 times = _mm256_set1_ps(1.0f / scale);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7), middle = _mm256_set1_epi8((char)0x80);
    for (long k = 0; k < width; k += 32) {
        __m256i part[4];
        for (int i = 0; i < 4; i++) part[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + k + 8 * i), times));
        __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(part[0], part[1]), _mm256_packs_epi32(part[2], part[3]));
        bytes = _mm256_xor_si256(_mm256_permutevar8x32_epi32(bytes, order), middle);
        _mm256_storeu_si256((__m256i *)(q + k), bytes);
    }
    return scale;
}

typedef struct {
    const float *x, *scales, *bias;
    const int8_t *packed;
    const int32_t *sums;
    float *y, *worth;
    uint8_t *q;
    long rows, width, outs;
    int at_level, relu;
} Linear;

#define STEP2(i)                                                                                                   \
    b = _mm256_set1_epi32(*(const int32_t *)(q + i * width + k));                                                  \
    a##i##0 = _mm256_add_epi32(a##i##0, _mm256_madd_epi16(_mm256_maddubs_epi16(b, w0), one));                      \
    a##i##1 = _mm256_add_epi32(a##i##1, _mm256_madd_epi16(_mm256_maddubs_epi16(b, w1), one));
#define KEEP2(i)                                               \
    _mm256_storeu_si256((__m256i *)(sums + i * 16), a##i##0);  \
    _mm256_storeu_si256((__m256i *)(sums + i * 16 + 8), a##i##1);

__attribute__((target("avx2,fma"))) static void tile_avx2(const uint8_t *q, const int8_t *w, long width, int32_t *sums) {
    const __m256i one = _mm256_set1_epi16(1), zero = _mm256_setzero_si256();
    __m256i a00 = zero, a01 = zero, a10 = zero, a11 = zero, a20 = zero, a21 = zero;
    __m256i a30 = zero, a31 = zero, a40 = zero, a41 = zero, a50 = zero, a51 = zero, b;
    for (long k = 0; k < width; k += 4, w += 64) {
        const __m256i w0 = _mm256_loadu_si256((const __m256i *)w), w1 = _mm256_loadu_si256((const __m256i *)(w + 32));
        STEP2(0) STEP2(1) STEP2(2) STEP2(3) STEP2(4) STEP2(5)
    }
    KEEP2(0) KEEP2(1) KEEP2(2) KEEP2(3) KEEP2(4) KEEP2(5)
}

/* few rows: the weights are what there is to read, and they are read once */
__attribute__((target("avx2,fma"))) static void row_avx2(const uint8_t *q, const int8_t *w, long width, int32_t *sums) {
    const __m256i one = _mm256_set1_epi16(1);
    __m256i a0 = _mm256_setzero_si256(), a1 = a0, c0 = a0, c1 = a0;
    for (long k = 0; k < width; k += 8, w += 128) {
        const __m256i b = _mm256_set1_epi32(*(const int32_t *)(q + k)), c = _mm256_set1_epi32(*(const int32_t *)(q + k + 4));
        const __m256i *v = (const __m256i *)w;
        a0 = _mm256_add_epi32(a0, _mm256_madd_epi16(_mm256_maddubs_epi16(b, _mm256_loadu_si256(v)), one));
        a1 = _mm256_add_epi32(a1, _mm256_madd_epi16(_mm256_maddubs_epi16(b, _mm256_loadu_si256(v + 1)), one));
        c0 = _mm256_add_epi32(c0, _mm256_madd_epi16(_mm256_maddubs_epi16(c, _mm256_loadu_si256(v + 2)), one));
        c1 = _mm256_add_epi32(c1, _mm256_madd_epi16(_mm256_maddubs_epi16(c, _mm256_loadu_si256(v + 3)), one));
    }
    _mm256_storeu_si256((__m256i *)sums, _mm256_add_epi32(a0, c0));
    _mm256_storeu_si256((__m256i *)(sums + 8), _mm256_add_epi32(a1, c1));
}

#define STEP4(i)                                                      \
    b = _mm512_set1_epi32(*(const int32_t *)(q + i * width + k));     \
    a##i##0 = _mm512_dpbusd_epi32(a##i##0, b, w0);                    \
    a##i##1 = _mm512_dpbusd_epi32(a##i##1, b, w1);                    \
    a##i##2 = _mm512_dpbusd_epi32(a##i##2, b, w2);                    \
    a##i##3 = _mm512_dpbusd_epi32(a##i##3, b, w3);
#define KEEP4(i)                                    \
    _mm512_storeu_si512(sums + i * 64, a##i##0);      \
    _mm512_storeu_si512(sums + i * 64 + 16, a##i##1); \
    _mm512_storeu_si512(sums + i * 64 + 32, a##i##2); \
    _mm512_storeu_si512(sums + i * 64 + 48, a##i##3);
#define ZERO4(i) __m512i a##i##0 = zero, a##i##1 = zero, a##i##2 = zero, a##i##3 = zero;

__attribute__((target("avx512f,avx512bw,avx512vnni"))) static void tile_vnni(
    const uint8_t *q, const int8_t *w, long width, int32_t *sums) {
    const __m512i zero = _mm512_setzero_si512();
    __m512i b;
    ZERO4(0) ZERO4(1) ZERO4(2) ZERO4(3) ZERO4(4) ZERO4(5)
    for (long k = 0; k < width; k += 4, w += 256) {
        const __m512i w0 = _mm512_loadu_si512(w), w1 = _mm512_loadu_si512(w + 64);
        const __m512i w2 = _mm512_loadu_si512(w + 128), w3 = _mm512_loadu_si512(w + 192);
        STEP4(0) STEP4(1) STEP4(2) STEP4(3) STEP4(4) STEP4(5)
    }
    KEEP4(0) KEEP4(1) KEEP4(2) KEEP4(3) KEEP4(4) KEEP4(5)
}

__attribute__((target("avx512f,avx512bw,avx512vnni"))) static void row_vnni(
    const uint8_t *q, const int8_t *w, long width, int32_t *sums) {
    const __m512i zero = _mm512_setzero_si512();
    __m512i b;
    ZERO4(0)
    for (long k = 0; k < width; k += 4, w += 256) {
        const __m512i w0 = _mm512_loadu_si512(w), w1 = _mm512_loadu_si512(w + 64);
        const __m512i w2 = _mm512_loadu_si512(w + 128), w3 = _mm512_loadu_si512(w + 192);
        STEP4(0)
    }
    KEEP4(0)
}

/* integer sums of one row and one panel -> outputs */
__attribute__((target("avx2,fma"))) static void finish(const Linear *l, const int32_t *sums, long row, long first, long count) {
    const __m256 worth = _mm256_set1_ps(l->worth[row]), zero = _mm256_setzero_ps();
    float *y = l->y + row * l->outs + first;
    for (long n = 0; n < count; n += 8) {
        const long left = count - n;
        __m256i sum = _mm256_sub_epi32(
            _mm256_loadu_si256((const __m256i *)(sums + n)), _mm256_loadu_si256((const __m256i *)(l->sums + first + n)));
        __m256 out = _mm256_mul_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sum), worth), _mm256_loadu_ps(l->scales + first + n));
        out = _mm256_add_ps(out, _mm256_loadu_ps(l->bias + first + n));
        if (l->relu) out = _mm256_max_ps(out, zero);
        if (left >= 8) {
            _mm256_storeu_ps(y + n, out);
        } else {
            float rest[8];
            _mm256_storeu_ps(rest, out);
            memcpy(y + n, rest, sizeof(float) * (size_t)left);
        }
    }
}

static void quantise_part(const void *what, int part, int parts) {
    const Linear *l = what;
    for (long row = from(l->rows, part, parts); row < from(l->rows, part + 1, parts); row++)
        l->worth[row] = quantise(l->x + row * l->width, l->width, l->q + row * l->width);
}

static void multiply_part(const void *what, int part, int parts) {
    const Linear *l = what;
    const long p = panel(l->at_level), panels = (l->outs + p - 1) / p;
    const long start = from(panels, part, parts), end = from(panels, part + 1, parts);
    int32_t sums[ROWS * 64];
    for (long block = 0; block < l->rows; block += BLOCK) { /* rows that stay near while the weights pass by */
        const long stop = block + BLOCK < l->rows ? block + BLOCK : l->rows;
        for (long at = start; at < end; at++) {
            const int8_t *w = l->packed + at * p * l->width;
            const long first = at * p, count = l->outs - first < p ? l->outs - first : p;
            long row = block;
            for (; row + ROWS <= stop; row += ROWS) {
                (l->at_level == 2 ? tile_vnni : tile_avx2)(l->q + row * l->width, w, l->width, sums);
                for (long i = 0; i < ROWS; i++) finish(l, sums + i * p, row + i, first, count);
            }
            for (; row < stop; row++) {
                (l->at_level == 2 ? row_vnni : row_avx2)(l->q + row * l->width, w, l->width, sums);
                finish(l, sums, row, first, count);
            }
        }
    }
}

/* y (rows, outs) = x (rows, width) weightsᵀ + bias, perhaps without what is negative. `room` holds rows * (width + 4) bytes. */
void linear8(const float *x, long rows, long width, const int8_t *packed, const int32_t *sums, const float *scales,
             const float *bias, long outs, int at_level, int relu, int threads, void *room, float *y) {
    float *worth = room;
    Linear l = {x, scales, bias, packed, sums, y, worth, (uint8_t *)(worth + rows), rows, width, outs, at_level, relu};
    in_parts(quantise_part, &l, rows * width < 16384 ? 1 : threads);
    in_parts(multiply_part, &l, outs * width < 16384 ? 1 : threads);
}

/* ---- look ---- */

/* e^x for x <= 0, to a few units in the last place: 2^n times a polynomial */
__attribute__((target("avx2,fma"))) static inline __m256 power(__m256 x) {
    x = _mm256_max_ps(_mm256_set1_ps(-87.3f), x); /* in this order NaN stays NaN */
    const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), r);
    __m256 y = _mm256_set1_ps(1.9875691500e-4f);
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(1.3981999507e-3f));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(8.3334519073e-3f));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(4.1665795894e-2f));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(1.6666665459e-1f));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(5.0000001201e-1f));
    y = _mm256_fmadd_ps(y, _mm256_mul_ps(r, r), _mm256_add_ps(r, _mm256_set1_ps(1.0f)));
    const __m256i shift = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(y, _mm256_castsi256_ps(shift));
}

__attribute__((target("avx2,fma"))) static inline float across(__m256 x) {
    __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}

typedef struct {
    const float *q, *keys, *values;
    const int32_t *slots, *places, *lengths;
    long rows, heads, kv_heads, width, slot_stride, head_stride, longest;
    float scale;
    float *out;
} Look;

__attribute__((target("avx2,fma"))) static void look_part(const void *what, int part, int parts) {
    const Look *l = what;
    const long per = l->heads / l->kv_heads, width = l->width;
    float *scores = malloc(sizeof(float) * (size_t)(l->longest + 8));
    for (long row = from(l->rows, part, parts); row < from(l->rows, part + 1, parts); row++) {
        const int32_t *places = l->places ? l->places + row * l->longest : NULL;
        const long length = l->lengths ? l->lengths[row] : l->longest, whole = (length + 7) / 8 * 8;
        for (long head = 0; head < l->heads; head++) {
            const long base = l->slots[row] * l->slot_stride + head / per * l->head_stride;
            const float *q = l->q + (row * l->heads + head) * width;
            float most = -INFINITY;
            for (long t = 0; t < length; t++) {
                const float *key = l->keys + base + (places ? places[t] : t) * width;
                __m256 sum = _mm256_mul_ps(_mm256_loadu_ps(q), _mm256_loadu_ps(key));
                for (long k = 8; k < width; k += 8) sum = _mm256_fmadd_ps(_mm256_loadu_ps(q + k), _mm256_loadu_ps(key + k), sum);
                scores[t] = l->scale * across(sum);
                most = scores[t] > most ? scores[t] : most;
            }
            for (long t = length; t < whole; t++) scores[t] = -INFINITY;
            __m256 sums = _mm256_setzero_ps();
            for (long t = 0; t < whole; t += 8) {
                const __m256 far = _mm256_sub_ps(_mm256_loadu_ps(scores + t), _mm256_set1_ps(most));
                _mm256_storeu_ps(scores + t, power(far));
            }
            for (long t = length; t < whole; t++) scores[t] = 0.0f;
            for (long t = 0; t < whole; t += 8) sums = _mm256_add_ps(sums, _mm256_loadu_ps(scores + t));
            const float each = length ? 1.0f / across(sums) : 0.0f;
            float *out = l->out + (row * l->heads + head) * width;
            for (long k = 0; k < width; k += 32) {
                const long left = width - k;
                __m256 a = _mm256_setzero_ps(), b = a, c = a, d = a;
                for (long t = 0; t < length; t++) {
                    const float *value = l->values + base + (places ? places[t] : t) * width + k;
                    const __m256 weight = _mm256_set1_ps(scores[t]);
                    a = _mm256_fmadd_ps(weight, _mm256_loadu_ps(value), a);
                    if (left > 8) b = _mm256_fmadd_ps(weight, _mm256_loadu_ps(value + 8), b);
                    if (left > 16) c = _mm256_fmadd_ps(weight, _mm256_loadu_ps(value + 16), c);
                    if (left > 24) d = _mm256_fmadd_ps(weight, _mm256_loadu_ps(value + 24), d);
                }
                const __m256 times = _mm256_set1_ps(each);
                _mm256_storeu_ps(out + k, _mm256_mul_ps(a, times));
                if (left > 8) _mm256_storeu_ps(out + k + 8, _mm256_mul_ps(b, times));
                if (left > 16) _mm256_storeu_ps(out + k + 16, _mm256_mul_ps(c, times));
                if (left > 24) _mm256_storeu_ps(out + k + 24, _mm256_mul_ps(d, times));
            }
        }
    }
    free(scores);
}

/* out (rows, heads, width): what each row's queries take from the keys and values of its slot. A row looks at the first
 * `lengths[row]` (else all `longest`) of its places, or of the slot's where it has none. width a multiple of 8. */
void look(const float *q, const float *keys, const float *values, const int32_t *slots, const int32_t *places,
          const int32_t *lengths, long rows, long heads, long kv_heads, long width, long slot_stride, long head_stride,
          long longest, float scale, int threads, float *out) {
    Look l = {q, keys, values, slots, places, lengths, rows, heads, kv_heads, width, slot_stride, head_stride, longest, scale, out};
    in_parts(look_part, &l, rows * heads * longest * width < 65536 ? 1 : threads);
}

/* ---- weigh ---- */

enum { CHUNK = 64 };

typedef struct {
    const float *logits;
    long rows, vocab, count;
    float *most, *rest, *values;
    int64_t *tokens;
} Weigh;

/* put a value that is greater than the least where it belongs; of equals, the first that came stays before */
static void insert(float *values, int64_t *tokens, long count, float value, long token) {
    long at = count - 1;
    for (; at > 0 && value > values[at - 1]; at--) {
        values[at] = values[at - 1];
        tokens[at] = tokens[at - 1];
    }
    values[at] = value;
    tokens[at] = token;
}

__attribute__((target("avx2,fma"))) static void weigh_part(const void *what, int part, int parts) {
    const Weigh *w = what;
    for (long row = from(w->rows, part, parts); row < from(w->rows, part + 1, parts); row++) {
        const float *x = w->logits + row * w->vocab;
        float *values = w->values + row * w->count;
        int64_t *tokens = w->tokens + row * w->count;
        for (long i = 0; i < w->count; i++) values[i] = -INFINITY, tokens[i] = 0;
        long filled = 0, v = 0;
        for (; v < w->vocab; v += CHUNK) { /* the best: only chunks with something greater than the least of them */
            const long end = v + CHUNK < w->vocab ? v + CHUNK : w->vocab;
            if (end - v == CHUNK && filled == w->count) {
                __m256 most = _mm256_loadu_ps(x + v);
                for (long k = 8; k < CHUNK; k += 8) most = _mm256_max_ps(most, _mm256_loadu_ps(x + v + k));
                if (!_mm256_movemask_ps(_mm256_cmp_ps(most, _mm256_set1_ps(values[w->count - 1]), _CMP_NLE_UQ))) continue;
            }
            for (long k = v; k < end; k++) {
                if (filled < w->count) {
                    values[filled] = -INFINITY;
                    insert(values, tokens, ++filled, x[k], k);
                } else if (x[k] > values[w->count - 1]) {
                    insert(values, tokens, w->count, x[k], k);
                }
            }
        }
        const float most = values[0];
        const __m256 above = _mm256_set1_ps(most);
        __m256 a = _mm256_setzero_ps(), b = a;
        for (v = 0; v + 16 <= w->vocab; v += 16) {
            a = _mm256_add_ps(a, power(_mm256_sub_ps(_mm256_loadu_ps(x + v), above)));
            b = _mm256_add_ps(b, power(_mm256_sub_ps(_mm256_loadu_ps(x + v + 8), above)));
        }
        float sum = across(a) + across(b);
        for (; v < w->vocab; v++) sum += expf(x[v] - most);
        w->most[row] = most;
        w->rest[row] = logf(sum);
    }
}

/* Of each row of logits: the greatest, the log of the sum of e^(x - greatest), and the `count` best, best first. */
void weigh(const float *logits, long rows, long vocab, long count, int threads, float *most, float *rest, float *values, int64_t *tokens) {
    Weigh w = {logits, rows, vocab, count, most, rest, values, tokens};
    in_parts(weigh_part, &w, rows * vocab < 16384 ? 1 : threads);
}
