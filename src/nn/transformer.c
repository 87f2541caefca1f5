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
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "tensor/tensor.h"

static const double norm_eps = 1e-5;

/* ---- making -------------------------------------------------------------- */

/* The angle of row t and pair k is t theta^(-2k / d_head). */
static ls_status make_tables(ls_transformer *m)
{
    const ls_transformer_config *c = &m->config;
    const int64_t pairs = c->d_model / c->heads / 2;
    const int64_t shape[] = {c->context, pairs};
    const double theta = c->rope_theta > 0.0 ? c->rope_theta : 10000.0;
    LS_TRY(ls_tensor_new(&m->cosine, LS_F32, 2, shape));
    LS_TRY(ls_tensor_new(&m->sine, LS_F32, 2, shape));
    float *cosine = lsi_tensor_raw(m->cosine), *sine = lsi_tensor_raw(m->sine);
    for (int64_t k = 0; k < pairs; k++) {
        const double turn = pow(theta, -(double)k / (double)pairs);
        for (int64_t t = 0; t < c->context; t++) {
            cosine[t * pairs + k] = (float)cos((double)t * turn);
            sine[t * pairs + k] = (float)sin((double)t * turn);
        }
    }
    return LS_OK;
}

static ls_status build(ls_transformer *m)
{
    void *block = NULL;
    LS_TRY(lsi_alloc_zeroed(&block,
                            (size_t)m->config.layers * sizeof(lsi_block),
                            LS_MEMORY_OTHER, "the blocks of a transformer"));
    m->blocks = block;
    LS_TRY(lsi_transformer_add_params(m));
    return m->config.kind == LS_TRANSFORMER_ROPE ? make_tables(m) : LS_OK;
}

ls_status ls_transformer_new(ls_transformer **out, ls_params *params,
                             const ls_transformer_config *config)
{
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
    return &model->config;
}

/* ---- forward ------------------------------------------------------------- */

static ls_tensor *normalise(const lsi_norm *norm, ls_tape *tape, ls_tensor *x)
{
    return norm->bias != NULL
               ? ls_layer_norm(tape, x, norm->weight, norm->bias, norm_eps)
               : ls_rms_norm(tape, x, norm->weight, norm_eps);
}

/* (batch, length, d_model) as (batch, length, heads, d_head). */
static ls_tensor *split_heads(const ls_transformer *m, ls_tape *tape,
                              ls_tensor *x)
{
    const int64_t heads = m->config.heads;
    if (x == NULL)
        return NULL;
    return ls_reshape(tape, x, 4,
                      (const int64_t[]){x->shape[0], x->shape[1], heads,
                                        m->config.d_model / heads});
}

/* Queries, keys and values by heads. */
typedef struct qkv {
    ls_tensor *q, *k, *v;
} qkv;

static qkv rope_qkv(const ls_transformer *m, const lsi_block *b, ls_tape *tape,
                    ls_tensor *x)
{
    ls_tensor *q =
        split_heads(m, tape, ls_linear_layer_forward(&b->q, tape, x));
    ls_tensor *k =
        split_heads(m, tape, ls_linear_layer_forward(&b->k, tape, x));
    ls_tensor *v =
        split_heads(m, tape, ls_linear_layer_forward(&b->v, tape, x));
    const bool halves = m->config.rope_halves;
    return (qkv){.q = ls_rope(tape, q, m->cosine, m->sine, halves),
                 .k = ls_rope(tape, k, m->cosine, m->sine, halves),
                 .v = v};
}

static qkv gpt2_qkv(const ls_transformer *m, const lsi_block *b, ls_tape *tape,
                    ls_tensor *x)
{
    const int64_t d = m->config.d_model;
    ls_tensor *all = ls_linear_layer_forward(&b->qkv, tape, x);
    return (qkv){
        .q = split_heads(m, tape, ls_narrow(tape, all, 2, 0, d)),
        .k = split_heads(m, tape, ls_narrow(tape, all, 2, d, 2 * d)),
        .v = split_heads(m, tape, ls_narrow(tape, all, 2, 2 * d, 3 * d))};
}

static ls_tensor *attend(const ls_transformer *m, const lsi_block *b,
                         ls_tape *tape, ls_tensor *x)
{
    const ls_attention_options options = {
        .method = m->config.attention, .causal = true, .rows_outside = true};
    const qkv in = m->config.kind == LS_TRANSFORMER_GPT2
                       ? gpt2_qkv(m, b, tape, x)
                       : rope_qkv(m, b, tape, x);
    ls_tensor *o = ls_attention(tape, in.q, in.k, in.v, options);
    if (o == NULL)
        return NULL;
    o = ls_reshape(
        tape, o, 3,
        (const int64_t[]){o->shape[0], o->shape[1], m->config.d_model});
    return ls_linear_layer_forward(&b->output, tape, o);
}

static ls_tensor *feed_forward(const lsi_block *b, ls_tape *tape, ls_tensor *x)
{
    ls_tensor *h = ls_linear_layer_forward(&b->w1, tape, x);
    h = b->w3.weight != NULL
            ? ls_swiglu(tape, h, ls_linear_layer_forward(&b->w3, tape, x))
            : ls_gelu(tape, h);
    return ls_linear_layer_forward(&b->w2, tape, h);
}

static ls_tensor *block_forward(const ls_transformer *m, const lsi_block *b,
                                ls_tape *tape, ls_tensor *x)
{
    x = ls_add(tape, x, attend(m, b, tape, normalise(&b->ln1, tape, x)));
    return ls_add(tape, x, feed_forward(b, tape, normalise(&b->ln2, tape, x)));
}

/* The numbers of the places, for every sequence. */
static ls_tensor *places(ls_tape *tape, const ls_tensor *tokens)
{
    ls_tensor *out = ls_tape_output(tape, LS_I64, 2, tokens->shape);
    if (out == NULL)
        return NULL;
    int64_t *place = lsi_tensor_raw(out);
    for (int64_t i = 0; i < out->count; i++)
        place[i] = i % tokens->shape[1];
    return out;
}

static ls_tensor *embed(const ls_transformer *m, ls_tape *tape,
                        ls_tensor *tokens)
{
    ls_tensor *x = ls_embedding(tape, m->embedding, tokens);
    if (m->positions == NULL || x == NULL)
        return x;
    return ls_add(tape, x,
                  ls_embedding(tape, m->positions, places(tape, tokens)));
}

static bool check_tokens(const ls_transformer *m, ls_tape *tape,
                         const ls_tensor *tokens)
{
    if (tokens == NULL)
        return ls_tape_fail(tape, LS_ERR_ARGUMENT,
                            "transformer: the tokens are NULL") != NULL;
    if (tokens->ndim == 2 && tokens->shape[1] <= m->config.context)
        return true;
    return ls_tape_fail(tape, LS_ERR_SHAPE,
                        "transformer: the tokens %s should be (batch, length), "
                        "length at most the context, %" PRId64,
                        lsi_shape_of(tokens).text, m->config.context) != NULL;
}

ls_tensor *ls_transformer_forward(const ls_transformer *model, ls_tape *tape,
                                  ls_tensor *tokens)
{
    if (!check_tokens(model, tape, tokens))
        return NULL;
    ls_tensor *x = embed(model, tape, tokens);
    for (int64_t i = 0; i < model->config.layers; i++)
        x = block_forward(model, &model->blocks[i], tape, x);
    x = normalise(&model->ln_final, tape, x);
    return ls_linear(tape, x, model->head, NULL);
}
