/*
 * Transformers token by token. Keys are stored as turned at their original
 * places: attention depends on the distance to the query, which does not
 * change. A full cache is a ring after its first tokens, the sinks. The keys of
 * the sinks are turned again for every piece, so that they stay next to the
 * oldest token of the ring.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "array/compute/attention/cached.h"
#include "array/compute/rope.h"
#include "base/error.h"
#include "base/memory.h"
#include "model/autograd/params.h"
#include "model/autograd/tape.h"
#include "model/nn/transformer.h"

enum {
    PIECE = 512,   /* tokens at a time, at most */
    RING_SHARE = 8 /* a piece may overwrite 1 / RING_SHARE of the cache */
};

/* ---- making -------------------------------------------------------------- */

static bool is_rotary(const ls_transformer_cache *c)
{
    return c->model->rates != NULL;
}

static ls_status make_tensors(ls_transformer_cache *c)
{
    const ls_transformer_config *m = &c->model->config;
    const int64_t heads = lsi_transformer_kv_heads(m);
    const int64_t d = lsi_transformer_d_head(m);
    const int64_t all[] = {m->layers, c->sequences, heads, c->slots, d};
    const int64_t first[] = {m->layers, c->sequences, c->sinks, heads, d};
    const int64_t tokens[] = {c->sequences, c->slots};
    LS_TRY(ls_tensor_new(&c->keys, LS_F32, 5, all));
    LS_TRY(ls_tensor_new(&c->values, LS_F32, 5, all));
    return is_rotary(c) ? ls_tensor_new(&c->first_keys, LS_F32, 5, first)
                        : ls_tensor_new(&c->tokens, LS_I64, 2, tokens);
}

static ls_status make(ls_transformer_cache *c)
{
    LS_TRY(lsi_alloc_zeroed(&c->next, (size_t)c->sequences * sizeof(int64_t),
                            LS_MEMORY_OTHER, "the positions of sequences"));
    return make_tensors(c);
}

enum { MOST_SEQUENCES = 1 << 20 };

static ls_status check_new(const ls_transformer *model, int64_t sequences,
                           int64_t capacity)
{
    if (sequences < 1 || sequences > MOST_SEQUENCES)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_transformer_cache_new: sequences is %" PRId64
                        "; it must be from 1 to %d",
                        sequences, MOST_SEQUENCES);
    if (capacity >= 0 && capacity <= model->config.context)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "ls_transformer_cache_new: capacity is %" PRId64
                    "; it must be from 1 to the model's context, %" PRId64
                    ", or 0 for the whole context",
                    capacity, model->config.context);
}

ls_status ls_transformer_cache_new(ls_transformer_cache **out,
                                   const ls_transformer *model,
                                   int64_t sequences, int64_t capacity)
{
    LS_NEED(out, model);
    ls_transformer_cache *c;
    LS_TRY(check_new(model, sequences, capacity));
    LS_TRY(lsi_alloc_zeroed(&c, sizeof(ls_transformer_cache), LS_MEMORY_OTHER,
                            "a cache of keys and values"));
    c->model = model;
    c->sequences = sequences;
    c->slots = capacity > 0 ? capacity : model->config.context;
    /* In a small cache the sinks would leave little room. */
    c->sinks = c->slots >= 4 * LSI_CACHE_SINKS ? LSI_CACHE_SINKS : 0;
    const ls_status status = make(c);
    if (status != LS_OK) {
        ls_transformer_cache_free(&c);
        return status;
    }
    *out = c;
    return LS_OK;
}

void ls_transformer_cache_free(ls_transformer_cache **cache)
{
    if (cache == NULL || *cache == NULL)
        return;
    ls_tensor_free(&(*cache)->keys);
    ls_tensor_free(&(*cache)->values);
    ls_tensor_free(&(*cache)->first_keys);
    ls_tensor_free(&(*cache)->tokens);
    lsi_free((*cache)->next);
    lsi_free(*cache);
    *cache = NULL;
}

void ls_transformer_cache_clear(ls_transformer_cache *cache)
{
    if (cache != NULL)
        memset(cache->next, 0, (size_t)cache->sequences * sizeof(int64_t));
}

/* ---- places of rows ------------------------------------------------------ */

static int64_t slot_of(const ls_transformer_cache *c, int64_t place)
{
    return place < c->slots
               ? place
               : c->sinks + (place - c->sinks) % (c->slots - c->sinks);
}

/* Slots of one sequence and head. */
static float *slots_of(const ls_transformer_cache *c, const ls_tensor *all,
                       int64_t layer, int64_t sequence, int64_t head)
{
    const int64_t heads = all->shape[2];
    return (float *)lsi_tensor_raw(all) +
           ((layer * c->sequences + sequence) * heads + head) * c->slots *
               all->shape[4];
}

/* Copies rows (1, n, heads, d) to their slots. */
static void store_rows(const lsi_piece *p, const ls_tensor *all, int64_t layer,
                       const ls_tensor *rows)
{
    const ls_transformer_cache *c = p->cache;
    const int64_t heads = rows->shape[2], d = rows->shape[3];
    const float *from = lsi_tensor_raw(rows);
    for (int64_t i = 0; i < p->rows * p->length; i++) {
        const int64_t sequence = p->first + i / p->length;
        const int64_t slot = slot_of(c, p->places[i]);
        for (int64_t h = 0; h < heads; h++, from += d)
            memcpy(slots_of(c, all, layer, sequence, h) + slot * d, from,
                   (size_t)d * sizeof *from);
    }
}

/* ---- sinks --------------------------------------------------------------- */

static float *first_keys_of(const ls_transformer_cache *c, int64_t layer,
                            int64_t sequence)
{
    const int64_t *n = c->first_keys->shape;
    return (float *)lsi_tensor_raw(c->first_keys) +
           (layer * c->sequences + sequence) * n[2] * n[3] * n[4];
}

/* The keys of a sequence's first tokens before they are turned. */
static void keep_first(const lsi_piece *p, int64_t layer, const ls_tensor *raw)
{
    const ls_transformer_cache *c = p->cache;
    const int64_t width = raw->shape[2] * raw->shape[3];
    const float *from = lsi_tensor_raw(raw);
    for (int64_t i = 0; i < p->rows * p->length; i++)
        if (p->places[i] < c->sinks)
            memcpy(first_keys_of(c, layer, p->first + i / p->length) +
                       p->places[i] * width,
                   from + i * width, (size_t)width * sizeof *from);
}

static lsi_rope_pairing layout_of(const ls_transformer_config *m)
{
    if (m->kind == LS_TRANSFORMER_LLAMA)
        return LSI_ROPE_HALVES;
    return m->rope_halves ? LSI_ROPE_TO_HALVES : LSI_ROPE_PAIRS;
}

/* Room to turn sinks. */
typedef struct sink_room {
    float *cosine, *sine; /* (sinks, d / 2) */
    float *turned;        /* (sinks, heads, d) */
} sink_room;

/* Turns the sinks to the places before the oldest token of the ring. */
static void turn_sinks(const lsi_piece *p, int64_t layer, int64_t row,
                       const sink_room *room)
{
    const ls_transformer_cache *c = p->cache;
    const int64_t heads = c->keys->shape[2], d = c->keys->shape[4];
    const int64_t last = p->places[(row + 1) * p->length - 1];
    int64_t places[LSI_CACHE_SINKS];
    const lsi_rope rope = {(size_t)c->sinks, (size_t)heads, (size_t)d,
                           layout_of(&c->model->config)};
    for (int64_t s = 0; s < c->sinks; s++)
        places[s] = s + last - (c->slots - 1);
    lsi_rope_tables(room->cosine, room->sine, places, (size_t)c->sinks,
                    c->model->rates, (size_t)d / 2);
    lsi_rope_forward(&rope, room->turned,
                     first_keys_of(c, layer, p->first + row), room->cosine,
                     room->sine, (size_t)c->sinks);
    for (int64_t s = 0; s < c->sinks; s++)
        for (int64_t h = 0; h < heads; h++)
            memcpy(slots_of(c, c->keys, layer, p->first + row, h) + s * d,
                   room->turned + (s * heads + h) * d,
                   (size_t)d * sizeof(float));
}

static bool keep_sinks(const lsi_piece *p, ls_tape *tape, int64_t layer,
                       const ls_tensor *raw)
{
    const ls_transformer_cache *c = p->cache;
    const size_t pairs = (size_t)(c->sinks * c->keys->shape[4] / 2);
    const size_t elements = 2 * pairs * (size_t)c->keys->shape[2];
    if (c->sinks == 0 || !is_rotary(c))
        return true;
    keep_first(p, layer, raw);
    float *room = ls_tape_scratch(tape, (2 * pairs + elements) * sizeof *room);
    if (room == NULL)
        return false;
    const sink_room parts = {room, room + pairs, room + 2 * pairs};
    for (int64_t row = 0; row < p->rows; row++)
        if (p->places[(row + 1) * p->length - 1] >= c->slots)
            turn_sinks(p, layer, row, &parts);
    return true;
}

/* ---- attention ----------------------------------------------------------- */

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Attention of one token per sequence. */
static ls_status attend_step(const lsi_piece *p, ls_tape *tape, int64_t layer,
                             const ls_tensor *q, const ls_tensor *o)
{
    const ls_transformer_cache *c = p->cache;
    const int64_t d = q->shape[3];
    int64_t *keys = ls_tape_scratch(tape, (size_t)p->rows * sizeof *keys);
    if (keys == NULL)
        return ls_tape_status(tape);
    for (int64_t i = 0; i < p->rows; i++)
        keys[i] = smaller(p->places[i] + 1, c->slots);
    const lsi_attention_step step = {.rows = (size_t)p->rows,
                                     .heads = (size_t)q->shape[2],
                                     .kv_heads = (size_t)c->keys->shape[2],
                                     .d = (size_t)d,
                                     .slots = (size_t)c->slots,
                                     .keys = keys,
                                     .scale = (float)(1.0 / sqrt((double)d))};
    return lsi_attention_step_run(&step, lsi_tensor_raw(o), lsi_tensor_raw(q),
                                  slots_of(c, c->keys, layer, p->first, 0),
                                  slots_of(c, c->values, layer, p->first, 0));
}

/* A row of a piece: its layer, its sequence, its queries and its results. */
typedef struct row_view {
    const lsi_piece *p;
    int64_t layer, sequence, heads, d;
    const float *q;
    float *o, *saved[2]; /* room for another part, and what both saved */
} row_view;

/*
 * Attention of a row's queries over slots begin..end-1. If it is causal, the
 * last of these keys are those of the queries.
 */
static ls_status attend_slots(const row_view *r, int64_t begin, int64_t end,
                              bool causal, lsi_attention_part out)
{
    const ls_transformer_cache *c = r->p->cache;
    const int64_t d = r->d;
    const ls_attention_strides rows = {r->p->length * r->heads * d, d,
                                       r->heads * d};
    const ls_attention_shape shape = {.batch = 1,
                                      .heads = r->heads,
                                      .queries = r->p->length,
                                      .keys = end - begin,
                                      .d = d,
                                      .kv_heads = c->keys->shape[2],
                                      .dtype = LS_F32,
                                      .causal = causal,
                                      .q_strides = rows,
                                      .o_strides = rows,
                                      .kv_strides = {0, c->slots * d, d}};
    return lsi_attention_from(
        &shape, causal ? (size_t)(end - begin - r->p->length) : 0, out, r->q,
        slots_of(c, c->keys, r->layer, r->sequence, 0) + begin * d,
        slots_of(c, c->values, r->layer, r->sequence, 0) + begin * d);
}

static ls_status join_slots(const row_view *r, int64_t begin, int64_t end,
                            lsi_attention_part part)
{
    const lsi_attention_part other = {r->o, r->saved[1]};
    if (begin >= end)
        return LS_OK;
    LS_TRY(attend_slots(r, begin, end, false, other));
    lsi_attention_join(part, other, (size_t)r->p->length, (size_t)r->heads,
                       (size_t)r->d);
    return LS_OK;
}

/*
 * The piece's own keys are adjacent. Each query sees these keys up to its own,
 * and all earlier keys. Before the ring is full, they follow each other in the
 * slots. Afterwards none of the earlier keys has the piece's slots any more.
 */
static ls_status attend_row(const row_view *r, int64_t row, float *o)
{
    const ls_transformer_cache *c = r->p->cache;
    const int64_t first = r->p->places[row * r->p->length];
    const int64_t own = slot_of(c, first), end = own + r->p->length;
    const lsi_attention_part part = {o, r->saved[0]};
    if (first < c->slots)
        return attend_slots(r, 0, end, true, part);
    LS_TRY(attend_slots(r, own, end, true, part));
    LS_TRY(join_slots(r, 0, own, part));
    return join_slots(r, end, c->slots, part);
}

static ls_status attend_rows(const lsi_piece *p, ls_tape *tape, int64_t layer,
                             const ls_tensor *q, const ls_tensor *o)
{
    const int64_t heads = q->shape[2], d = q->shape[3];
    const int64_t n = p->length * heads, saved = n * LSI_ATTENTION_SAVED;
    row_view r = {.p = p, .layer = layer, .heads = heads, .d = d};
    r.o = ls_tape_scratch(tape, (size_t)(n * d + 2 * saved) * sizeof(float));
    if (r.o == NULL)
        return ls_tape_status(tape);
    r.saved[0] = r.o + n * d;
    r.saved[1] = r.saved[0] + saved;
    for (int64_t row = 0; row < p->rows; row++) {
        r.sequence = p->first + row;
        r.q = (const float *)lsi_tensor_raw(q) + row * n * d;
        LS_TRY(attend_row(&r, row, (float *)lsi_tensor_raw(o) + row * n * d));
    }
    return LS_OK;
}

/* In f32, also if products are half. */
static bool widen(ls_tape *tape, ls_tensor *tensors[4])
{
    for (int i = 0; i < 4; i++) {
        if (tensors[i] == NULL || tensors[i]->dtype == LS_F32)
            continue;
        tensors[i] = ls_cast(tape, tensors[i], LS_F32);
        if (tensors[i] == NULL)
            return false;
    }
    return true;
}

ls_tensor *lsi_cache_attend(const lsi_piece *piece, ls_tape *tape,
                            int64_t layer, lsi_qkv in)
{
    const ls_transformer_cache *c = piece->cache;
    ls_tensor *all[] = {in.q, in.k, in.v, in.before};
    if (in.q == NULL || in.k == NULL || in.v == NULL || !widen(tape, all))
        return NULL;
    store_rows(piece, c->keys, layer, all[1]);
    store_rows(piece, c->values, layer, all[2]);
    ls_tensor *o = ls_tape_output(tape, LS_F32, 4, in.q->shape);
    if (o == NULL || !keep_sinks(piece, tape, layer, all[3]))
        return NULL;
    const ls_status status = piece->length == 1
                                 ? attend_step(piece, tape, layer, all[0], o)
                                 : attend_rows(piece, tape, layer, all[0], o);
    return status == LS_OK ? o : lsi_tape_stop(tape, status);
}

/* ---- pieces -------------------------------------------------------------- */

/* The number of tokens that a sequence can accept at once. */
static int64_t room_of(const ls_transformer_cache *c, int64_t sequence)
{
    const int64_t next = c->next[sequence];
    if (next < c->slots)
        return c->slots - next;
    const int64_t share = (c->slots - c->sinks) / RING_SHARE;
    return smaller(share > 1 ? share : 1, c->slots - slot_of(c, next));
}

static int64_t piece_length(const ls_transformer_cache *c, int64_t first,
                            int64_t rows, int64_t wanted)
{
    int64_t n = smaller(wanted, rows < PIECE ? PIECE / rows : 1);
    for (int64_t i = 0; i < rows; i++)
        n = smaller(n, room_of(c, first + i));
    return n;
}

static ls_tensor *run_piece(ls_tape *tape, lsi_piece *p, ls_tensor *tokens)
{
    ls_transformer_cache *c = p->cache;
    const int64_t n = p->rows * p->length;
    lsi_tape_begin_pass();
    ls_tensor *places = ls_tape_output(tape, LS_I64, 1, &n);
    tokens = ls_reshape(tape, tokens, 1, &n);
    if (places == NULL || tokens == NULL)
        return NULL;
    int64_t *at = lsi_tensor_raw(places);
    for (int64_t i = 0; i < n; i++)
        at[i] = c->next[p->first + i / p->length] + i % p->length;
    p->places = at;
    ls_tensor *out = lsi_transformer_piece(c->model, tape, p, tokens);
    if (out == NULL)
        return NULL;
    const int64_t *numbers = lsi_tensor_raw(tokens);
    for (int64_t i = 0; i < n && c->tokens != NULL; i++)
        ((int64_t *)lsi_tensor_raw(
            c->tokens))[(p->first + i / p->length) * c->slots + at[i]] =
            numbers[i];
    for (int64_t row = 0; row < p->rows; row++)
        c->next[p->first + row] += p->length;
    return out;
}

static ls_tensor *read_pieces(ls_tape *tape, ls_transformer_cache *c,
                              int64_t first, ls_tensor *tokens, bool logits);

/* With learned positions, the later half of a full cache is read again. */
static bool make_room(ls_tape *tape, ls_transformer_cache *c, int64_t sequence)
{
    const int64_t kept[] = {1, c->slots / 2};
    if (c->tokens == NULL || c->next[sequence] < c->slots)
        return true;
    c->next[sequence] = 0;
    if (kept[1] == 0)
        return true;
    ls_tensor *again = ls_tape_output(tape, LS_I64, 2, kept);
    if (again == NULL)
        return false;
    memcpy(lsi_tensor_raw(again),
           (const int64_t *)lsi_tensor_raw(c->tokens) +
               (sequence + 1) * c->slots - kept[1],
           (size_t)kept[1] * sizeof(int64_t));
    return read_pieces(tape, c, sequence, again, false) != NULL;
}

static ls_tensor *read_pieces(ls_tape *tape, ls_transformer_cache *c,
                              int64_t first, ls_tensor *tokens, bool logits)
{
    const int64_t rows = tokens->shape[0], n = tokens->shape[1];
    const int mark = lsi_tape_mark(tape);
    ls_tensor *out = NULL;
    for (int64_t at = 0; at < n;) {
        for (int64_t i = 0; i < rows; i++)
            if (!make_room(tape, c, first + i))
                return NULL;
        lsi_piece p = {.cache = c,
                       .first = first,
                       .rows = rows,
                       .length = piece_length(c, first, rows, n - at)};
        p.last = logits && at + p.length == n;
        out =
            run_piece(tape, &p, ls_narrow(tape, tokens, 1, at, at + p.length));
        if (out == NULL)
            return NULL;
        lsi_tape_keep_only(tape, mark, out);
        at += p.length;
    }
    return out;
}

static bool check_tokens(ls_tape *tape, const ls_transformer_cache *c,
                         int64_t first, const ls_tensor *tokens)
{
    if (tokens->dtype != LS_I64 || tokens->ndim != 2 || tokens->shape[0] < 1 ||
        tokens->shape[1] < 1)
        return ls_tape_fail(
                   tape, LS_ERR_SHAPE,
                   "ls_transformer_extend: tokens are %s with shape %s; "
                   "expected i64 with shape (batch, n), both at least 1",
                   ls_dtype_name(tokens->dtype),
                   lsi_shape_of(tokens).text) != NULL;
    if (first >= 0 && first <= c->sequences - tokens->shape[0])
        return true;
    return ls_tape_fail(tape, LS_ERR_SHAPE,
                        "ls_transformer_extend: a batch of %" PRId64
                        ", starting with sequence %" PRId64
                        ", does not fit the cache (sequences: %" PRId64 ")",
                        tokens->shape[0], first, c->sequences) != NULL;
}

static bool check(const ls_transformer *model, ls_tape *tape,
                  const ls_transformer_cache *c, int64_t first,
                  const ls_tensor *tokens)
{
    if (!lsi_tape_has(tape, model, "ls_transformer_extend", "model") ||
        !lsi_tape_has(tape, c, "ls_transformer_extend", "cache") ||
        !lsi_tape_has(tape, tokens, "ls_transformer_extend", "tokens"))
        return false;
    if (c->model != model)
        return ls_tape_fail(tape, LS_ERR_ARGUMENT,
                            "ls_transformer_extend: the cache was made for "
                            "another model") != NULL;
    if (tape->training)
        return ls_tape_fail(tape, LS_ERR_ARGUMENT,
                            "ls_transformer_extend: the tape is training; call "
                            "ls_tape_set_training(tape, false) first") != NULL;
    return check_tokens(tape, c, first, tokens);
}

ls_tensor *ls_transformer_extend(const ls_transformer *model, ls_tape *tape,
                                 ls_transformer_cache *cache, int64_t first,
                                 ls_tensor *tokens)
{
    if (!check(model, tape, cache, first, tokens))
        return NULL;
    ls_tensor *logits = read_pieces(tape, cache, first, tokens, true);
    return logits != NULL && logits->dtype != LS_F32
               ? ls_cast(tape, logits, LS_F32)
               : logits;
}
