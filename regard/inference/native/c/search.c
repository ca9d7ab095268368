/* Beam search, whole: what decoding/beam.py says where no rule but the forbidden tokens applies, token for token.
 *
 * A searcher has some sentences under way, each at its own length: those that are done leave at once, and others are
 * admitted in their place. A beam of one is greedy search.
 */
#include "rooms.h"
#include "search.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOGETHER = 48 }; /* rows whose logits are computed at a time, PIECE by PIECE: they stay in the cache until they are weighed */

typedef struct {
    int64_t *tokens; /* all that was said, the end token included */
    float *own;      /* the model's log-probability of each */
    long length;
    int ended;
    double total, score;
} Kept;

/* What is known of the rows that go on, (beam, limit) each; two of it, as rows change places. */
typedef struct {
    int64_t *tokens;
    float *own, *sums;
    int32_t *places;
} Rows;

/* What some sentences that were read together look at: [block][key, value][slot][head][room][]. */
typedef struct {
    long users, slots, room;
    char keys[];
} Memory;

typedef struct {
    long number, limit, said, rows;
    Rows now, next;
    char *keys; /* [block][key, value][head][place][], of halves where the stack's are */
    long room, written;
    Memory *memory;
    long slot;
    int32_t length;
    Kept *kept;
    long kept_count, finished;
    Shortlist list; /* outs is 0 where there is none */
} Sentence;

typedef struct {
    Settings settings;
    Sentence **active, **done;
    long active_count, done_count, active_room, done_room, rows;
    Rooms rooms;
    void *room, *reading; /* of a step, and of reading */
    int broken; /* the model's logits are no numbers */
} Searcher;

/* ---- a sentence comes and goes ---- */

static Rows new_rows(long beam, long limit) {
    const size_t count = (size_t)(beam * limit);
    return (Rows){some(count, sizeof(int64_t)), some(count, sizeof(float)), some((size_t)beam, sizeof(float)), some(count, sizeof(int32_t))};
}

static void free_rows(Rows *rows) { free(rows->tokens), free(rows->own), free(rows->sums), free(rows->places); }

static void free_sentence(Searcher *searcher, Sentence *s) {
    free_list(&s->list);
    if (!--s->memory->users) leave(&searcher->rooms, s->memory);
    free_rows(&s->now), free_rows(&s->next), leave(&searcher->rooms, s->keys);
    for (long i = 0; i < s->kept_count; i++) free(s->kept[i].tokens), free(s->kept[i].own);
    free(s->kept), free(s);
}

Searcher *search_begin(const Settings *settings) {
    Searcher *found = some(1, sizeof(Searcher));
    found->settings = *settings;
    return found;
}

void search_end(Searcher *s) {
    for (long i = 0; i < s->active_count; i++) free_sentence(s, s->active[i]);
    for (long i = 0; i < s->done_count; i++) free_sentence(s, s->done[i]);
    leave(&s->rooms, s->room), leave(&s->rooms, s->reading);
    give_back(&s->rooms);
    free(s->active), free(s->done), free(s);
}

static void push(Sentence ***list, long *count, long *room, Sentence *one) {
    if (*count == *room) {
        *room = *room ? 2 * *room : 64;
        *list = realloc(*list, sizeof(Sentence *) * (size_t)*room);
        if (!*list) abort();
    }
    (*list)[(*count)++] = one;
}

/* A sentence that was read; it may say `limit` >= 1 tokens. */
static void admit(Searcher *searcher, long number, long limit, Memory *memory, long slot, const int64_t *source, long length) {
    Sentence *s = some(1, sizeof(Sentence));
    s->number = number, s->limit = limit, s->rows = 1, s->length = (int32_t)length;
    s->now = new_rows(searcher->settings.beam, limit), s->next = new_rows(searcher->settings.beam, limit);
    s->memory = memory, s->slot = slot, memory->users++;
    s->kept = some((size_t)searcher->settings.n_best + 1, sizeof(Kept));
    if (searcher->settings.related) s->list = shortlist(&searcher->settings, source, length);
    push(&searcher->active, &searcher->active_count, &searcher->active_room, s);
    searcher->rows += searcher->settings.beam;
}

/* Sentences to translate: the i-th is the tokens starts[i] to starts[i + 1], called by numbers[i], and may become limits[i] >= 1 long. */
void search_read(Searcher *searcher, const int64_t *numbers, const int64_t *limits, const int64_t *tokens, const int64_t *starts, long count, int threads) {
    const Reader *reader = &searcher->settings.reader;
    long longest = 1;
    for (long i = 0; i < count; i++) longest = starts[i + 1] - starts[i] > longest ? starts[i + 1] - starts[i] : longest;
    const long room = memory_room(longest);
    Memory *memory = enter(&searcher->rooms, (long)sizeof(Memory) + memory_bytes(reader->decoder, count, room));
    searcher->reading = at_least(&searcher->rooms, searcher->reading, read_room(reader, starts[count]));
    memory->users = 0, memory->slots = count, memory->room = room;
    read_sentences(reader, tokens, starts, count, room, threads, searcher->reading, memory->keys);
    for (long i = 0; i < count; i++) admit(searcher, numbers[i], limits[i], memory, i, tokens + starts[i], starts[i + 1] - starts[i]);
}

/* Keys that are no row's past any more make room for new ones: hypotheses share most of theirs, and most are given up. */
static void move_together(Rooms *rooms, const Stack *stack, Sentence *s, long beam) {
    const long stride = s->said + 1, bytes = stack->head * size_of(stack->half), lanes = 2 * stack->count * stack->kv_heads, old = s->room;
    int32_t *moved = some((size_t)s->written, sizeof(int32_t)), kept = 0;
    for (long row = 0; row < s->rows; row++)
        for (long t = 0; t < s->said; t++) moved[s->now.places[row * stride + t]] = 1;
    for (long place = 0; place < s->written; place++) moved[place] = moved[place] ? kept++ : -1;
    if (2 * (kept + s->rows) > old) s->room = kept + s->length + 4 * beam; /* most are about as long as what they translate */
    char *keys = s->room > old ? enter(rooms, lanes * s->room * bytes) : s->keys;
    for (long lane = 0; lane < lanes; lane++)
        for (long place = 0; place < s->written; place++) /* never to a later place, so nothing is overwritten that is still to move */
            if (moved[place] >= 0)
                memmove(keys + (lane * s->room + moved[place]) * bytes, s->keys + (lane * old + place) * bytes, (size_t)bytes);
    for (long row = 0; row < s->rows; row++)
        for (long t = 0; t < s->said; t++) s->now.places[row * stride + t] = moved[s->now.places[row * stride + t]];
    if (keys != s->keys) leave(rooms, s->keys);
    s->keys = keys, s->written = kept;
    free(moved);
}

/* Make places for the keys of one more token a row. */
static void make_places(Rooms *rooms, const Stack *stack, Sentence *s, long beam) {
    if (s->written + s->rows > s->room) move_together(rooms, stack, s, beam);
    for (long row = 0; row < s->rows; row++) s->now.places[row * (s->said + 1) + s->said] = (int32_t)(s->written + row);
    s->written += s->rows;
}

/* ---- what is finished ---- */

static double scored(const Settings *settings, double total, long length) {
    const double base = settings->paper ? (5.0 + (double)length) / 6.0 : (double)length;
    return length ? total / pow(base, settings->length_penalty) : total;
}

static int is_end(const Settings *settings, int64_t token) {
    for (long i = 0; i < settings->end_count; i++)
        if (settings->ends[i] == token) return 1;
    return 0;
}

/* what a row said, perhaps with one more token; -1 is none */
static void keep(const Settings *settings, Sentence *s, long row, int64_t token, float own, double total) {
    const long length = s->said + (token >= 0), text = length - (token >= 0 && is_end(settings, token));
    const int64_t *said = s->now.tokens + row * s->said;
    s->finished++;
    for (long i = 0; i < s->kept_count; i++) { /* two end tokens can end one text */
        const Kept *other = s->kept + i;
        if (other->length - other->ended != text) continue;
        if (!memcmp(other->tokens, said, sizeof(int64_t) * (size_t)(text < s->said ? text : s->said)) && (text <= s->said || other->tokens[s->said] == token)) return;
    }
    Kept new = {some((size_t)length, sizeof(int64_t)), some((size_t)length, sizeof(float)), length, length > text, total, scored(settings, total, length)};
    memcpy(new.tokens, said, sizeof(int64_t) * (size_t)s->said);
    memcpy(new.own, s->now.own + row * s->said, sizeof(float) * (size_t)s->said);
    if (token >= 0) new.tokens[s->said] = token, new.own[s->said] = own;
    long at = s->kept_count++;
    for (; at > 0 && new.score > s->kept[at - 1].score; at--) s->kept[at] = s->kept[at - 1];
    s->kept[at] = new;
    if (s->kept_count > settings->n_best) {
        s->kept_count--;
        free(s->kept[s->kept_count].tokens), free(s->kept[s->kept_count].own);
    }
}

/* After `said` tokens, when the best row that goes on has the sum `best`. */
static int is_done(const Settings *settings, const Sentence *s, double best) {
    if (s->said >= s->limit || best == -INFINITY) return 1;
    if ((double)s->finished >= settings->enough) return 1;
    const double soon = scored(settings, best, s->said + 1), late = scored(settings, best, s->limit);
    return s->kept_count == settings->n_best && (soon > late ? soon : late) <= s->kept[s->kept_count - 1].score;
}

/* ---- one step ---- */

typedef struct {
    const Weighing *weighing;
    float *values; /* (rows, count): the best logits of each row */
    int64_t *tokens;
    float *rest;
    long count;
} Best;

typedef struct {
    float sum, own;
    long row;
    int64_t token;
} Candidate;

/* the `count` best continuations of a sentence's rows, the first of equals first */
static void continuations(const Sentence *s, const Best *best, long first, long count, Candidate *found) {
    long at[s->rows];
    memset(at, 0, sizeof(at));
    for (long i = 0; i < count; i++) {
        found[i] = (Candidate){-INFINITY, -INFINITY, 0, 0};
        for (long row = 0; row < s->rows; row++) {
            if (at[row] == best->count) continue;
            const long place = (first + row) * best->count + at[row];
            const float own = best->values[place] - best->weighing[first + row].most - best->rest[first + row];
            const float sum = s->now.sums[row] + own;
            if (sum > found[i].sum) found[i] = (Candidate){sum, own, row, best->tokens[place]};
        }
        if (found[i].sum > -INFINITY) at[found[i].row]++;
    }
}

/* Row `to` of what comes next: what row `from` said, and the candidate's token. */
static void extend(Sentence *s, long to, const Candidate *by) {
    const long before = s->said, after = before + 1;
    memcpy(s->next.tokens + to * after, s->now.tokens + by->row * before, sizeof(int64_t) * (size_t)before);
    memcpy(s->next.own + to * after, s->now.own + by->row * before, sizeof(float) * (size_t)before);
    /* the places have one more each: that of the token which was just read */
    memcpy(s->next.places + to * (after + 1), s->now.places + by->row * after, sizeof(int32_t) * (size_t)after);
    s->next.tokens[to * after + before] = by->token;
    s->next.own[to * after + before] = by->own;
    s->next.sums[to] = by->sum;
}

/* one sentence goes on; 1 when it is done */
static int advance(const Settings *settings, Sentence *s, const Best *best, long first, Candidate *found) {
    const long wanted = settings->beam * (1 + settings->end_count);
    continuations(s, best, first, wanted, found);
    const int last = s->said + 1 == s->limit;
    for (long c = 0; c < settings->beam; c++)
        if (found[c].sum > -INFINITY && (last || is_end(settings, found[c].token)))
            keep(settings, s, found[c].row, found[c].token, found[c].own, (double)found[c].sum);
    if (found[0].sum == -INFINITY && !s->kept_count) keep(settings, s, 0, -1, 0.0f, (double)s->now.sums[0]);
    long rows = 0;
    for (long c = 0; c < wanted && rows < settings->beam; c++)
        if (found[c].sum > -INFINITY && !is_end(settings, found[c].token) && !last) extend(s, rows++, found + c);
    const Rows swapped = s->now;
    s->now = s->next, s->next = swapped;
    s->said++, s->rows = rows;
    return is_done(settings, s, rows ? (double)s->now.sums[0] : -INFINITY);
}

static long next_rows(const Searcher *searcher) {
    long rows = 0;
    for (long i = 0; i < searcher->active_count; i++) rows += searcher->active[i]->rows;
    return rows;
}

/* the newest token of each row */
static void embed_newest(const Settings *settings, const Sentence *s, float *x) {
    const int64_t said = s->said;
    for (long row = 0; row < s->rows; row++)
        embed(&settings->target, said ? s->now.tokens + row * said + said - 1 : &settings->start, &said, 1, x + row * settings->target.width);
}

/* The next tokens of some rows: states x (rows, width) -> logits, a piece at a time, -> the best. A piece's weights stay near
 * while all rows pass by. `y`: TOGETHER x PIECE */
static void weigh_rows(const Part *output, const float *x, long rows, int threads, void *room, float *y, Weighing *weighing) {
    const Given given = give(output, x, rows, threads, room);
    for (long first = 0; first < output->outs; first += PIECE) {
        const long count = output->outs - first < PIECE ? output->outs - first : PIECE;
        Part piece = *output;
        const long size = output->sums ? 1 : (long)sizeof(float);
        piece.weights = (const char *)output->weights + first * output->width * size, piece.outs = count;
        if (piece.sums) piece.sums += first, piece.scales += first;
        if (piece.bias) piece.bias += first;
        for (long row = 0; row < rows; row += TOGETHER) {
            const long some_rows = rows - row < TOGETHER ? rows - row : TOGETHER;
            linear_given(&piece, &given, row, some_rows, threads, y);
            for (long r = 0; r < some_rows; r++) weigh_more(weighing + row + r, y + r * count, first, count);
        }
    }
}

/* The same where each sentence has its own list of words. */
static void weigh_lists(Searcher *searcher, const float *x, int threads, void *room, float *y, Weighing *weighing) {
    for (long i = 0; i < searcher->active_count; i++) {
        const Sentence *s = searcher->active[i];
        weigh_rows(&s->list.output, x, s->rows, threads, room, y, weighing);
        for (long row = 0; row < s->rows; row++)
            for (long c = 0; c < weighing[row].filled; c++) weighing[row].tokens[c] = s->list.tokens[weighing[row].tokens[c]];
        x += s->rows * s->list.output.width, weighing += s->rows;
    }
}

static void step(Searcher *searcher, int threads) {
    const Settings *settings = &searcher->settings;
    const Stack *stack = settings->reader.decoder;
    const long rows = next_rows(searcher), wanted = settings->beam * (1 + settings->end_count);
    /* what lies where in the room: the widest kinds first, so that each lies where it may */
    const long pass = stack_room(stack, rows), project = linear_room(rows, stack->width);
    const long need = searcher->active_count * (long)sizeof(Seated) + rows * (long)sizeof(Weighing) + wanted * (long)sizeof(Candidate) +
                      rows * wanted * (long)(sizeof(int64_t) + sizeof(float)) +
                      (rows * stack->width + TOGETHER * PIECE + rows) * (long)sizeof(float) + (pass > project ? pass : project) + 64;
    searcher->room = at_least(&searcher->rooms, searcher->room, need);
    Seated *seated = searcher->room;
    Weighing *weighing = (Weighing *)(seated + searcher->active_count);
    Candidate *found = (Candidate *)(weighing + rows);
    Best best = {.weighing = weighing, .count = wanted};
    best.tokens = (int64_t *)(found + wanted), best.values = (float *)(best.tokens + rows * wanted), best.rest = best.values + rows * wanted;
    float *x = best.rest + rows, *y = x + rows * stack->width;
    void *room = y + TOGETHER * PIECE;

    long first = 0;
    for (long i = 0; i < searcher->active_count; i++) {
        Sentence *s = searcher->active[i];
        embed_newest(settings, s, x + first * stack->width);
        make_places(&searcher->rooms, stack, s, settings->beam);
        /* the one row of greedy search never changes places: its tokens lie in a row */
        const char *memory = s->memory->keys + s->slot * stack->kv_heads * s->memory->room * stack->head * size_of(stack->half);
        seated[i] = (Seated){s->keys, memory, NULL, settings->beam > 1 ? s->now.places : NULL, &s->length, s->rows, s->said + 1, 1, s->room, s->memory->slots, s->memory->room, stack->half, stack->half};
        const int young = s->said < settings->min_new;
        const uint8_t *banned = young ? settings->never_at_first : settings->never;
        if (settings->related) banned = young ? s->list.never_at_first : NULL; /* a list has nothing that is never said */
        for (long row = 0; row < s->rows; row++, first++) {
            weighing[first] = (Weighing){.banned = banned, .count = wanted};
            weighing[first].values = best.values + first * wanted, weighing[first].tokens = best.tokens + first * wanted;
            weigh_begin(weighing + first);
        }
    }
    decode(stack, seated, searcher->active_count, x, threads, room);
    if (settings->related) weigh_lists(searcher, x, threads, room, y, weighing);
    else weigh_rows(settings->output, x, rows, threads, room, y, weighing);
    for (long row = 0; row < rows; row++) {
        best.rest[row] = weigh_end(weighing + row);
        if (!isfinite(best.rest[row])) searcher->broken = 1;
    }
    if (searcher->broken) return;

    long stay = 0;
    first = 0;
    for (long i = 0; i < searcher->active_count; i++) {
        Sentence *s = searcher->active[i];
        const long had = s->rows;
        if (advance(settings, s, &best, first, found)) {
            push(&searcher->done, &searcher->done_count, &searcher->done_room, s);
            searcher->rows -= settings->beam;
        } else {
            searcher->active[stay++] = s;
        }
        first += had;
    }
    searcher->active_count = stay;
}

/* Go on until there is room for `wanted` more rows of at most `most`, or until all is done. 0: the logits are no numbers. */
int search_go_on(Searcher *searcher, long most, long wanted, int threads) {
    while (searcher->active_count && !searcher->broken) {
        step(searcher, threads);
        if (most - searcher->rows >= wanted && searcher->done_count) break;
    }
    return !searcher->broken;
}

long search_rows(const Searcher *searcher) { return searcher->rows; }

/* A sentence that is done: its number, and how many hypotheses it has; -1 where there is none. Good until search_drop. */
long search_done(const Searcher *searcher, long *hypotheses) {
    if (!searcher->done_count) return -1;
    const Sentence *s = searcher->done[searcher->done_count - 1];
    *hypotheses = s->kept_count;
    return s->number;
}

const Kept *search_hypothesis(const Searcher *searcher, long which) { return searcher->done[searcher->done_count - 1]->kept + which; }

void search_drop(Searcher *searcher) { free_sentence(searcher, searcher->done[--searcher->done_count]); }
