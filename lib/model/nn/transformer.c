/*
 * The forward pass of a Transformer. A block is
 *
 *     h = x + attention(norm(x)), y = h + feed_forward(norm(h))
 *
 * Only ls_linear and ls_attention multiply matrices. A lower precision of
 * products would change these, and nothing else.
 */
#include "model/nn/transformer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "array/compute/embedding.h"
#include "array/compute/rope.h"
#include "base/error.h"
#include "base/memory.h"
#include "lockstep/profile.h"
#include "model/autograd/params.h"
#include "model/autograd/tape.h"

/* ---- making -------------------------------------------------------------- */

static ls_status make_tables(ls_transformer *m)
{
    const ls_transformer_config *c = &m->config;
    const int64_t pairs = lsi_transformer_d_head(c) / 2;
    const int64_t shape[] = {c->context, pairs};
    int64_t *places;
    LS_TRY(lsi_alloc(&m->rates, (size_t)pairs * sizeof(double), LS_MEMORY_OTHER,
                     "rotary positions"));
    lsi_transformer_rates(c, m->rates);
    LS_TRY(ls_tensor_new(&m->cosine, LS_F32, 2, shape));
    LS_TRY(ls_tensor_new(&m->sine, LS_F32, 2, shape));
    LS_TRY(lsi_alloc(&places, (size_t)c->context * sizeof(int64_t),
                     LS_MEMORY_OTHER, "rotary positions"));
    for (int64_t t = 0; t < c->context; t++)
        places[t] = t;
    lsi_rope_tables(lsi_tensor_raw(m->cosine), lsi_tensor_raw(m->sine), places,
                    (size_t)c->context, m->rates, (size_t)pairs);
    lsi_free(places);
    return LS_OK;
}

static ls_status build(ls_transformer *m)
{
    LS_TRY(lsi_alloc_zeroed(
        &m->blocks, (size_t)m->config.layers * sizeof(lsi_transformer_block),
        LS_MEMORY_OTHER, "the blocks of a transformer"));
    m->first_param = ls_params_count(m->params);
    LS_TRY(lsi_transformer_add_params(m));
    m->n_params = ls_params_count(m->params) - m->first_param;
    return m->config.kind != LS_TRANSFORMER_GPT2 ? make_tables(m) : LS_OK;
}

ls_status ls_transformer_new(ls_transformer **out, ls_params *params,
                             const ls_transformer_config *config)
{
    LS_NEED(out, params, config);
    ls_transformer *model;
    ls_transformer_config own;
    LS_TRY(lsi_transformer_copy_config(config, &own));
    LS_TRY(lsi_alloc_zeroed(&model, sizeof(ls_transformer), LS_MEMORY_OTHER,
                            "a transformer"));
    model->config = own;
    model->params = params;
    const ls_status status = build(model);
    if (status != LS_OK) {
        ls_transformer_free(&model);
        return status;
    }
    *out = model;
    return LS_OK;
}

void ls_transformer_free(ls_transformer **model)
{
    if (model == NULL || *model == NULL)
        return;
    ls_tensor_free(&(*model)->cosine);
    ls_tensor_free(&(*model)->sine);
    lsi_free((*model)->rates);
    lsi_free((*model)->blocks);
    lsi_free(*model);
    *model = NULL;
}

const ls_transformer_config *
ls_transformer_get_config(const ls_transformer *model)
{
    return model != NULL ? &model->config : NULL;
}

void ls_transformer_set_recompute(ls_transformer *model, bool recompute)
{
    if (model == NULL)
        return;
    for (int64_t i = 0; i < model->config.layers; i++)
        model->blocks[i].model = model;
    model->recomputes = recompute;
}

void ls_transformer_set_dropout(ls_transformer *model, double p)
{
    if (model != NULL)
        model->dropout = p;
}

/* ---- forward ------------------------------------------------------------- */

static void enter_block(size_t layer)
{
    char name[32] = "";
    if (ls_range_is_recorded())
        snprintf(name, sizeof(name), "block %zu", layer);
    ls_range_push(name);
}

/* One pass through a model. */
typedef struct pass {
    const ls_transformer *model;
    ls_tape *tape;
    ls_tensor *cosine, *sine; /* rotation tables at the tokens' places */
    const lsi_piece *piece;   /* if there is a cache; tokens are in one row */
} pass;

static ls_tensor *normalise(const pass *p, const lsi_norm *norm, ls_tensor *x)
{
    const double eps = lsi_transformer_eps(&p->model->config);
    return norm->bias != NULL
               ? ls_layer_norm(p->tape, x, norm->weight, norm->bias, eps)
               : ls_rms_norm(p->tape, x, norm->weight, eps);
}

/* (batch, length, n d_head) as (batch, length, n, d_head). */
static ls_tensor *split_heads(const pass *p, ls_tensor *x)
{
    const int64_t d = lsi_transformer_d_head(&p->model->config);
    if (x == NULL)
        return NULL;
    return ls_reshape(
        p->tape, x, 4,
        (const int64_t[]){x->shape[0], x->shape[1], x->shape[2] / d, d});
}

static ls_tensor *rotate(const pass *p, ls_tensor *rows)
{
    const ls_transformer_config *const c = &p->model->config;
    const ls_rope_layout layout = c->kind == LS_TRANSFORMER_LLAMA
                                      ? LS_ROPE_HALVES
                                  : c->rope_halves ? LS_ROPE_PAIRS_TO_HALVES
                                                   : LS_ROPE_PAIRS;
    return ls_rope(p->tape, rows, p->cosine, p->sine, layout);
}

/*
 * A product's rows, turned. The rows before turning go to *before_or_null or,
 * if that is NULL, are dropped.
 */
static ls_tensor *turned(const pass *p, const ls_linear_layer *layer,
                         ls_tensor *x, ls_tensor **before_or_null)
{
    ls_tensor *flat = ls_linear_layer_forward(layer, p->tape, x);
    ls_tensor *rows = split_heads(p, flat);
    ls_tensor *out = rotate(p, rows);
    if (before_or_null != NULL) {
        *before_or_null = rows;
        return out;
    }
    lsi_tape_drop_values(rows);
    lsi_tape_drop_values(flat);
    return out;
}

static lsi_qkv rope_qkv(const pass *p, const lsi_transformer_block *b,
                        ls_tensor *x)
{
    lsi_qkv out = {0};
    out.q = turned(p, &b->q, x, NULL);
    out.k = turned(p, &b->k, x, p->piece != NULL ? &out.before : NULL);
    out.v = split_heads(p, ls_linear_layer_forward(&b->v, p->tape, x));
    return out;
}

/* A third of the columns, copied to rows of heads. */
static ls_tensor *third(const pass *p, ls_tensor *all, int64_t number)
{
    const int64_t d = p->model->config.d_model;
    ls_tensor *columns =
        ls_narrow(p->tape, all, 2, number * d, (number + 1) * d);
    ls_tensor *out = split_heads(p, columns);
    lsi_tape_drop_values(columns);
    return out;
}

static lsi_qkv gpt2_qkv(const pass *p, const lsi_transformer_block *b,
                        ls_tensor *x)
{
    ls_tensor *all = ls_linear_layer_forward(&b->qkv, p->tape, x);
    const lsi_qkv out = {third(p, all, 0), third(p, all, 1), third(p, all, 2),
                         NULL};
    lsi_tape_drop_values(all);
    return out;
}

static ls_tensor *attend(const pass *p, size_t layer, ls_tensor *x)
{
    const ls_transformer_config *c = &p->model->config;
    const lsi_transformer_block *b = &p->model->blocks[layer];
    const ls_attention_options options = {
        .method = c->attention, .causal = true, .rows_outside = true};
    const lsi_qkv in =
        c->kind == LS_TRANSFORMER_GPT2 ? gpt2_qkv(p, b, x) : rope_qkv(p, b, x);
    ls_tensor *o = p->piece != NULL
                       ? lsi_cache_attend(p->piece, p->tape, (int64_t)layer, in)
                       : ls_attention(p->tape, in.q, in.k, in.v, &options);
    if (o == NULL)
        return NULL;
    o = ls_reshape(
        p->tape, o, 3,
        (const int64_t[]){o->shape[0], o->shape[1], o->shape[2] * o->shape[3]});
    return ls_linear_layer_forward(&b->output, p->tape, o);
}

static ls_tensor *feed_forward(const lsi_transformer_block *b, ls_tape *tape,
                               ls_tensor *x)
{
    ls_tensor *h = ls_linear_layer_forward(&b->w1, tape, x);
    h = b->w3.weight != NULL
            ? ls_swiglu(tape, h, ls_linear_layer_forward(&b->w3, tape, x))
            : ls_gelu(tape, h);
    return ls_linear_layer_forward(&b->w2, tape, h);
}

/* The part with dropout in training; its memory is released. */
static ls_tensor *dropped(const pass *p, ls_tensor *part)
{
    if (p->model->dropout == 0.0 || !ls_tape_is_training(p->tape))
        return part;
    ls_tensor *out = ls_dropout(p->tape, part, p->model->dropout);
    lsi_tape_drop_values(part);
    return out;
}

/* Adds a part to the residual stream; the part's memory is released. */
static ls_tensor *join(const pass *p, ls_tensor *x, ls_tensor *part)
{
    part = dropped(p, part);
    ls_tensor *sum = ls_add(p->tape, x, part);
    lsi_tape_drop_values(part);
    return sum;
}

static ls_tensor *block_forward(const pass *p, size_t layer, ls_tensor *x)
{
    const lsi_transformer_block *b = &p->model->blocks[layer];
    const int mark = lsi_tape_mark(p->tape);
    enter_block(layer);
    ls_range_push("attention");
    x = join(p, x, attend(p, layer, normalise(p, &b->ln1, x)));
    ls_range_pop();
    lsi_tape_keep_only(p->tape, mark, x);
    ls_range_push("feed forward");
    x = join(p, x, feed_forward(b, p->tape, normalise(p, &b->ln2, x)));
    ls_range_pop();
    ls_range_pop();
    return x;
}

/* The context is the block. */
static ls_tensor *forward_again(void *context, ls_tape *tape,
                                ls_tensor *const *inputs)
{
    const lsi_transformer_block *const b = context;
    const ls_transformer *const m = b->model;
    const pass p = {
        .model = m, .tape = tape, .cosine = m->cosine, .sine = m->sine};
    return block_forward(&p, (size_t)(b - m->blocks), inputs[0]);
}

static ls_tensor *block(const pass *p, size_t layer, ls_tensor *x)
{
    if (!p->model->recomputes || p->piece != NULL)
        return block_forward(p, layer, x);
    return ls_recompute(p->tape, forward_again, &p->model->blocks[layer], &x,
                        1);
}

static ls_tensor *logits(const pass *p, ls_tensor *x)
{
    ls_range_push("head");
    x = ls_linear(p->tape, x, p->model->head, NULL);
    ls_range_pop();
    return x;
}

/* The numbers of the places, for every sequence. */
static ls_tensor *places(const pass *p, const ls_tensor *tokens)
{
    ls_tensor *out = ls_tape_output(p->tape, LS_I64, 2, tokens->shape);
    if (out == NULL)
        return NULL;
    if (p->piece != NULL)
        memcpy(lsi_tensor_raw(out), p->piece->places,
               (size_t)out->count * sizeof(int64_t));
    else
        lsi_embedding_places(lsi_tensor_raw(out), (size_t)out->count, 0,
                             tokens->shape[1]);
    return out;
}

static ls_tensor *embed(const pass *p, ls_tensor *tokens)
{
    const ls_transformer *m = p->model;
    ls_tensor *x = ls_embedding(p->tape, m->embedding, tokens);
    if (m->positions == NULL || x == NULL)
        return x;
    return ls_add(p->tape, x,
                  ls_embedding(p->tape, m->positions, places(p, tokens)));
}

static bool check_tokens(const ls_transformer *m, ls_tape *tape,
                         const ls_tensor *tokens)
{
    if (tokens == NULL)
        return ls_tape_fail(tape, LS_ERR_ARGUMENT,
                            "ls_transformer_forward: tokens is NULL") != NULL;
    if (tokens->ndim == 2 && tokens->shape[1] <= m->config.context)
        return true;
    return ls_tape_fail(
               tape, LS_ERR_SHAPE,
               "transformer: tokens have shape %s; expected (batch, length), "
               "where length is at most the context, %" PRId64,
               lsi_shape_of(tokens).text, m->config.context) != NULL;
}

/* All blocks, and the norm after them. */
static ls_tensor *hidden(const pass *p, ls_tensor *tokens)
{
    const ls_transformer *m = p->model;
    const int mark = lsi_tape_mark(p->tape);
    ls_range_push("embedding");
    ls_tensor *x = dropped(p, embed(p, tokens));
    ls_range_pop();
    for (int64_t i = 0; i < m->config.layers; i++) {
        x = block(p, (size_t)i, x);
        lsi_tape_keep_only(p->tape, mark, x);
    }
    ls_range_push("final norm");
    x = normalise(p, &m->ln_final, x);
    ls_range_pop();
    lsi_tape_keep_only(p->tape, mark, x);
    return x;
}

ls_tensor *ls_transformer_forward(const ls_transformer *model, ls_tape *tape,
                                  ls_tensor *tokens)
{
    if (!lsi_tape_has(tape, model, __func__, "model"))
        return NULL;
    const pass p = {.model = model,
                    .tape = tape,
                    .cosine = model->cosine,
                    .sine = model->sine};
    if (!check_tokens(model, tape, tokens))
        return NULL;
    return logits(&p, hidden(&p, tokens));
}

/* ---- a piece of sequences with a cache ----------------------------------- */

/* The tables of the piece's places. */
static bool turn_places(pass *p)
{
    const ls_transformer *m = p->model;
    const int64_t n = p->piece->rows * p->piece->length;
    const int64_t shape[] = {n, lsi_transformer_d_head(&m->config) / 2};
    if (m->rates == NULL)
        return true;
    p->cosine = ls_tape_output(p->tape, LS_F32, 2, shape);
    p->sine = ls_tape_output(p->tape, LS_F32, 2, shape);
    if (p->cosine == NULL || p->sine == NULL)
        return false;
    lsi_rope_tables(lsi_tensor_raw(p->cosine), lsi_tensor_raw(p->sine),
                    p->piece->places, (size_t)n, m->rates, (size_t)shape[1]);
    return true;
}

/* (1, rows * length, d) -> the last of each row, (rows, d). */
static ls_tensor *last_of_rows(const pass *p, ls_tensor *x)
{
    const lsi_piece *piece = p->piece;
    if (x == NULL)
        return NULL;
    const int64_t d = x->shape[2];
    x = ls_reshape(p->tape, x, 3,
                   (const int64_t[]){piece->rows, piece->length, d});
    x = ls_narrow(p->tape, x, 1, piece->length - 1, piece->length);
    return ls_reshape(p->tape, x, 2, (const int64_t[]){piece->rows, d});
}

ls_tensor *lsi_transformer_piece(const ls_transformer *model, ls_tape *tape,
                                 const lsi_piece *piece, ls_tensor *tokens)
{
    pass p = {.model = model, .tape = tape, .piece = piece};
    const int64_t shape[] = {1, piece->rows * piece->length};
    tokens = ls_reshape(tape, tokens, 2, shape);
    if (tokens == NULL || !turn_places(&p))
        return NULL;
    ls_tensor *x = hidden(&p, tokens);
    if (!piece->last)
        return x;
    return logits(&p, last_of_rows(&p, x));
}
