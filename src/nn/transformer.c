/*
 * The forward pass of a Transformer. A block is
 *
 *     h = x + attention(norm(x)), y = h + feed_forward(norm(h))
 *
 * Matrices are multiplied by ls_linear and ls_attention only: what a lower
 * precision of products would change, and all of it.
 */
#include "nn/transformer.h"

#include <inttypes.h>

#include "autograd/tape.h"
#include "base/error.h"
#include "base/memory.h"
#include "compute/array.h"
#include "compute/embedding.h"
#include "compute/rope.h"

/* ---- making -------------------------------------------------------------- */

static ls_status make_tables(ls_transformer *m)
{
    const ls_transformer_config *c = &m->config;
    const int64_t pairs = c->d_model / c->heads / 2;
    const int64_t shape[] = {c->context, pairs};
    const double theta = lsi_transformer_theta(c);
    LS_TRY(ls_tensor_new(&m->cosine, LS_F32, 2, shape));
    LS_TRY(ls_tensor_new(&m->sine, LS_F32, 2, shape));
    lsi_rope_tables(lsi_tensor_raw(m->cosine), lsi_tensor_raw(m->sine),
                    (size_t)c->context, (size_t)pairs, theta);
    return LS_OK;
}

static ls_status build(ls_transformer *m)
{
    void *block = NULL;
    LS_TRY(lsi_alloc_zeroed(
        &block, (size_t)m->config.layers * sizeof(lsi_transformer_block),
        LS_MEMORY_OTHER, "the blocks of a transformer"));
    m->blocks = block;
    LS_TRY(lsi_transformer_add_params(m));
    return m->config.kind == LS_TRANSFORMER_ROPE ? make_tables(m) : LS_OK;
}

ls_status ls_transformer_new(ls_transformer **out, ls_params *params,
                             const ls_transformer_config *config)
{
    LS_NEED(out);
    LS_NEED(params);
    LS_NEED(config);
    void *block = NULL;
    LS_TRY(ls_transformer_check(config));
    LS_TRY(lsi_alloc_zeroed(&block, sizeof(ls_transformer), LS_MEMORY_OTHER,
                            "a transformer"));
    ls_transformer *model = block;
    model->config = *config;
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
    lsi_free((*model)->blocks);
    lsi_free(*model);
    *model = NULL;
}

const ls_transformer_config *
ls_transformer_get_config(const ls_transformer *model)
{
    return model != NULL ? &model->config : NULL;
}

/* ---- forward ------------------------------------------------------------- */

/* One way through a model. */
typedef struct pass {
    const ls_transformer *model;
    ls_tape *tape;
    ls_tensor *cosine, *sine; /* from the first token's place on */
    lsi_kv_cache *cache;      /* or NULL */
} pass;

static ls_tensor *normalise(const pass *p, const lsi_norm *norm, ls_tensor *x)
{
    const double eps = lsi_transformer_eps(&p->model->config);
    return norm->bias != NULL
               ? ls_layer_norm(p->tape, x, norm->weight, norm->bias, eps)
               : ls_rms_norm(p->tape, x, norm->weight, eps);
}

/* (batch, length, d_model) as (batch, length, heads, d_head). */
static ls_tensor *split_heads(const pass *p, ls_tensor *x)
{
    const ls_transformer_config *c = &p->model->config;
    if (x == NULL)
        return NULL;
    return ls_reshape(p->tape, x, 4,
                      (const int64_t[]){x->shape[0], x->shape[1], c->heads,
                                        c->d_model / c->heads});
}

/* Queries, keys and values by heads. */
typedef struct qkv {
    ls_tensor *q, *k, *v;
} qkv;

/* A product's rows, turned; as they were nobody reads them again. */
static ls_tensor *turned(const pass *p, const ls_linear_layer *layer,
                         ls_tensor *x)
{
    ls_tensor *flat = ls_linear_layer_forward(layer, p->tape, x);
    ls_tensor *rows = split_heads(p, flat);
    ls_tensor *out = ls_rope(p->tape, rows, p->cosine, p->sine,
                             p->model->config.rope_halves);
    lsi_tape_drop_values(rows);
    lsi_tape_drop_values(flat);
    return out;
}

static qkv rope_qkv(const pass *p, const lsi_transformer_block *b, ls_tensor *x)
{
    return (qkv){
        .q = turned(p, &b->q, x),
        .k = turned(p, &b->k, x),
        .v = split_heads(p, ls_linear_layer_forward(&b->v, p->tape, x))};
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

static qkv gpt2_qkv(const pass *p, const lsi_transformer_block *b, ls_tensor *x)
{
    ls_tensor *all = ls_linear_layer_forward(&b->qkv, p->tape, x);
    const qkv out = {third(p, all, 0), third(p, all, 1), third(p, all, 2)};
    lsi_tape_drop_values(all);
    return out;
}

/*
 * Puts new rows behind those of the layer in the cache; returns all, or the new
 * ones if there were no others.
 */
static ls_tensor *keep_rows(const pass *p, ls_tensor *cached, size_t layer,
                            ls_tensor *rows)
{
    const int64_t used = p->cache->used, at = (int64_t)layer;
    if (rows == NULL)
        return NULL;
    const int64_t width = rows->shape[2] * rows->shape[3];
    float *to = lsi_tensor_raw(cached);
    lsi_array_convert(to + (at * cached->shape[1] + used) * width, LS_F32,
                      lsi_tensor_raw(rows), rows->dtype, (size_t)rows->count);
    if (used == 0)
        return rows;
    ls_tensor *all = ls_narrow(p->tape, cached, 0, at, at + 1);
    return ls_narrow(p->tape, all, 1, 0, used + rows->shape[1]);
}

static ls_tensor *attend(const pass *p, size_t layer, ls_tensor *x)
{
    const ls_transformer_config *c = &p->model->config;
    const lsi_transformer_block *b = &p->model->blocks[layer];
    ls_attention_options options = {
        .method = c->attention, .causal = true, .rows_outside = true};
    qkv in =
        c->kind == LS_TRANSFORMER_GPT2 ? gpt2_qkv(p, b, x) : rope_qkv(p, b, x);
    if (p->cache != NULL) {
        options.causal = p->cache->used == 0; /* else one token sees all */
        in.k = keep_rows(p, p->cache->keys, layer, in.k);
        in.v = keep_rows(p, p->cache->values, layer, in.v);
    }
    ls_tensor *o = ls_attention(p->tape, in.q, in.k, in.v, options);
    if (o == NULL)
        return NULL;
    o = ls_reshape(p->tape, o, 3,
                   (const int64_t[]){o->shape[0], o->shape[1], c->d_model});
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

/* What joins the residual stream is in the sum from then on. */
static ls_tensor *join(const pass *p, ls_tensor *x, ls_tensor *part)
{
    ls_tensor *sum = ls_add(p->tape, x, part);
    lsi_tape_drop_values(part);
    return sum;
}

static ls_tensor *block_forward(const pass *p, size_t layer, ls_tensor *x)
{
    const lsi_transformer_block *b = &p->model->blocks[layer];
    const int mark = lsi_tape_mark(p->tape);
    x = join(p, x, attend(p, layer, normalise(p, &b->ln1, x)));
    lsi_tape_keep_only(p->tape, mark, x);
    return join(p, x, feed_forward(b, p->tape, normalise(p, &b->ln2, x)));
}

static int64_t first_place(const pass *p)
{
    return p->cache != NULL ? p->cache->used : 0;
}

/* The numbers of the places, for every sequence. */
static ls_tensor *places(const pass *p, const ls_tensor *tokens)
{
    ls_tensor *out = ls_tape_output(p->tape, LS_I64, 2, tokens->shape);
    if (out == NULL)
        return NULL;
    lsi_embedding_places(lsi_tensor_raw(out), (size_t)out->count,
                         first_place(p), tokens->shape[1]);
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
    return ls_tape_fail(tape, LS_ERR_SHAPE,
                        "transformer: the tokens %s should be (batch, length), "
                        "length at most the context, %" PRId64,
                        lsi_shape_of(tokens).text, m->config.context) != NULL;
}

static ls_tensor *forward(pass *p, ls_tensor *tokens)
{
    const ls_transformer *m = p->model;
    const int64_t first = first_place(p);
    p->cosine = m->cosine;
    p->sine = m->sine;
    if (first > 0 && m->cosine != NULL) {
        p->cosine = ls_narrow(p->tape, m->cosine, 0, first, first + 1);
        p->sine = ls_narrow(p->tape, m->sine, 0, first, first + 1);
    }
    const int mark = lsi_tape_mark(p->tape);
    ls_tensor *x = embed(p, tokens);
    for (int64_t i = 0; i < m->config.layers; i++) {
        x = block_forward(p, (size_t)i, x);
        lsi_tape_keep_only(p->tape, mark, x);
    }
    x = normalise(p, &m->ln_final, x);
    lsi_tape_keep_only(p->tape, mark, x);
    return ls_linear(p->tape, x, m->head, NULL);
}

ls_tensor *ls_transformer_forward(const ls_transformer *model, ls_tape *tape,
                                  ls_tensor *tokens)
{
    if (!lsi_tape_has(tape, model, __func__, "model"))
        return NULL;
    pass p = {.model = model, .tape = tape};
    return check_tokens(model, tape, tokens) ? forward(&p, tokens) : NULL;
}

/* ---- token by token ------------------------------------------------------ */

ls_status lsi_kv_cache_new(lsi_kv_cache *cache, const ls_transformer *model)
{
    const ls_transformer_config *c = &model->config;
    const int64_t shape[] = {c->layers, c->context, c->heads,
                             c->d_model / c->heads};
    LS_TRY(ls_tensor_new(&cache->keys, LS_F32, 4, shape));
    return ls_tensor_new(&cache->values, LS_F32, 4, shape);
}

void lsi_kv_cache_free(lsi_kv_cache *cache)
{
    ls_tensor_free(&cache->keys);
    ls_tensor_free(&cache->values);
    cache->used = 0;
}

ls_tensor *lsi_transformer_extend(const ls_transformer *model, ls_tape *tape,
                                  ls_tensor *tokens, lsi_kv_cache *cache)
{
    pass p = {.model = model, .tape = tape, .cache = cache};
    if (!check_tokens(model, tape, tokens))
        return NULL;
    const int64_t n = tokens->shape[1];
    if (tokens->shape[0] != 1 || (cache->used > 0 && n != 1) ||
        cache->used + n > model->config.context)
        return ls_tape_fail(tape, LS_ERR_SHAPE,
                            "transformer: tokens %s after %" PRId64
                            " in the cache; it takes one after the first ones, "
                            "%" PRId64 " in all",
                            lsi_shape_of(tokens).text, cache->used,
                            model->config.context);
    ls_tensor *logits = forward(&p, tokens);
    if (logits != NULL)
        cache->used += n;
    return logits;
}
