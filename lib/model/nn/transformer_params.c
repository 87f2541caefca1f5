/*
 * The parameters of a Transformer: names, order, shapes, initial values.
 *
 *     ROPE  products: normal, deviation sqrt(2 / (in + out)); the embedding 1;
 *           both cut at three deviations. Norms 1.
 *     GPT2  normal, deviation 0.02, products that add to the residual stream
 *           divided by sqrt(2 layers); norms 1; biases 0.
 *     LLAMA normal, deviation 0.02; norms 1.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "model/nn/layer.h"
#include "model/nn/transformer.h"

/* Names are short: a layer's number and a few words. */
enum { NAME_BYTES = 64 };

static const ls_init ones = {LS_INIT_CONSTANT, 1.0, 0.0};
static const ls_init zeros = {LS_INIT_CONSTANT, 0.0, 0.0};

static ls_init gpt2_normal(double factor)
{
    return (ls_init){LS_INIT_NORMAL, 0.0, 0.02 * factor};
}

static ls_status add_table(const ls_transformer *m, const char *name,
                           int64_t rows, ls_init init, ls_tensor **out)
{
    const lsi_layer_site site = {m->params, name};
    const int64_t shape[] = {rows, m->config.d_model};
    return lsi_layer_param(site, "weight", 2, shape, init, out);
}

static ls_status add_norm(const ls_transformer *m, const char *name,
                          lsi_norm *out)
{
    const lsi_layer_site site = {m->params, name};
    const int64_t features = m->config.d_model;
    LS_TRY(lsi_layer_param(site, "weight", 1, &features, ones, &out->weight));
    if (m->config.kind == LS_TRANSFORMER_GPT2)
        LS_TRY(lsi_layer_param(site, "bias", 1, &features, zeros, &out->bias));
    return LS_OK;
}

/* One product; with GPT2 its deviation is `deviation` times the usual one. */
typedef struct product {
    const char *name;
    int64_t in, out;
    double deviation;
    ls_linear_layer *layer;
} product;

static ls_status add_product(const ls_transformer *m, const char *prefix,
                             const product *p)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof(name), "%s%s", prefix, p->name);
    const lsi_layer_site site = {m->params, name};
    const bool gpt2 = m->config.kind == LS_TRANSFORMER_GPT2;
    const int64_t shape[] = {p->out, p->in};
    const ls_init init = m->config.kind != LS_TRANSFORMER_ROPE
                             ? gpt2_normal(p->deviation)
                             : (ls_init){LS_INIT_TRUNCATED_NORMAL, 0.0,
                                         sqrt(2.0 / (double)(p->in + p->out))};
    LS_TRY(lsi_layer_param(site, "weight", 2, shape, init, &p->layer->weight));
    if (gpt2)
        LS_TRY(
            lsi_layer_param(site, "bias", 1, &p->out, zeros, &p->layer->bias));
    return LS_OK;
}

static ls_status add_products(const ls_transformer *m, const char *prefix,
                              const product *products, size_t n)
{
    for (size_t i = 0; i < n; i++)
        LS_TRY(add_product(m, prefix, &products[i]));
    return LS_OK;
}

static ls_status add_block_norm(const ls_transformer *m, const char *prefix,
                                const char *name, lsi_norm *out)
{
    char full[NAME_BYTES];
    snprintf(full, sizeof(full), "%s%s", prefix, name);
    return add_norm(m, full, out);
}

/* Widths of the rows of all queries, and of all keys or values. */
typedef struct widths {
    int64_t q, kv;
} widths;

static widths widths_of(const ls_transformer_config *c)
{
    const int64_t d_head = lsi_transformer_d_head(c);
    return (widths){c->heads * d_head, lsi_transformer_kv_heads(c) * d_head};
}

static ls_status add_llama_block(ls_transformer *m, int64_t index)
{
    lsi_transformer_block *b = &m->blocks[index];
    const int64_t d = m->config.d_model, ff = m->config.d_ff;
    const widths w = widths_of(&m->config);
    const product attention[] = {{"self_attn.q_proj", d, w.q, 1, &b->q},
                                 {"self_attn.k_proj", d, w.kv, 1, &b->k},
                                 {"self_attn.v_proj", d, w.kv, 1, &b->v},
                                 {"self_attn.o_proj", w.q, d, 1, &b->output}};
    const product inner[] = {{"mlp.gate_proj", d, ff, 1, &b->w1},
                             {"mlp.up_proj", d, ff, 1, &b->w3},
                             {"mlp.down_proj", ff, d, 1, &b->w2}};
    char prefix[40];
    snprintf(prefix, sizeof(prefix), "model.layers.%lld.", (long long)index);
    LS_TRY(add_block_norm(m, prefix, "input_layernorm", &b->ln1));
    LS_TRY(add_products(m, prefix, attention, 4));
    LS_TRY(add_block_norm(m, prefix, "post_attention_layernorm", &b->ln2));
    return add_products(m, prefix, inner, 3);
}

static ls_status add_rope_block(const ls_transformer *m, int64_t index)
{
    lsi_transformer_block *b = &m->blocks[index];
    const int64_t d = m->config.d_model, ff = m->config.d_ff;
    const widths w = widths_of(&m->config);
    const product products[] = {
        {"attn.q_proj", d, w.q, 1, &b->q},
        {"attn.k_proj", d, w.kv, 1, &b->k},
        {"attn.v_proj", d, w.kv, 1, &b->v},
        {"attn.output_proj", w.q, d, 1, &b->output},
        {"ffn.w1", d, ff, 1, &b->w1},
        {"ffn.w2", ff, d, 1, &b->w2},
        {"ffn.w3", d, ff, 1, &b->w3},
    };
    char prefix[32];
    snprintf(prefix, sizeof(prefix), "layers.%lld.", (long long)index);
    LS_TRY(add_products(m, prefix, products,
                        sizeof products / sizeof products[0]));
    LS_TRY(add_block_norm(m, prefix, "ln1", &b->ln1));
    return add_block_norm(m, prefix, "ln2", &b->ln2);
}

static ls_status add_gpt2_block(const ls_transformer *m, int64_t index)
{
    lsi_transformer_block *b = &m->blocks[index];
    const int64_t d = m->config.d_model, ff = m->config.d_ff;
    const double residual = 1.0 / sqrt(2.0 * (double)m->config.layers);
    const product attention[] = {{"attn.c_attn", d, 3 * d, 1, &b->qkv},
                                 {"attn.c_proj", d, d, residual, &b->output}};
    const product inner[] = {{"mlp.c_fc", d, ff, 1, &b->w1},
                             {"mlp.c_proj", ff, d, residual, &b->w2}};
    char prefix[32];
    snprintf(prefix, sizeof(prefix), "h.%lld.", (long long)index);
    LS_TRY(add_block_norm(m, prefix, "ln_1", &b->ln1));
    LS_TRY(add_products(m, prefix, attention, 2));
    LS_TRY(add_block_norm(m, prefix, "ln_2", &b->ln2));
    return add_products(m, prefix, inner, 2);
}

static ls_status add_rope(ls_transformer *m)
{
    const ls_transformer_config *c = &m->config;
    const ls_init normal = {LS_INIT_TRUNCATED_NORMAL, 0.0, 1.0};
    ls_linear_layer head = {0};
    const product last = {"lm_head", c->d_model, c->vocabulary, 1, &head};
    LS_TRY(
        add_table(m, "token_embeddings", c->vocabulary, normal, &m->embedding));
    for (int64_t i = 0; i < c->layers; i++)
        LS_TRY(add_rope_block(m, i));
    LS_TRY(add_norm(m, "ln_final", &m->ln_final));
    LS_TRY(add_product(m, "", &last));
    m->head = head.weight;
    return LS_OK;
}

static ls_status add_gpt2(ls_transformer *m)
{
    const ls_transformer_config *c = &m->config;
    LS_TRY(add_table(m, "wte", c->vocabulary, gpt2_normal(1), &m->embedding));
    LS_TRY(add_table(m, "wpe", c->context, gpt2_normal(1), &m->positions));
    for (int64_t i = 0; i < c->layers; i++)
        LS_TRY(add_gpt2_block(m, i));
    LS_TRY(add_norm(m, "ln_f", &m->ln_final));
    m->head = m->embedding;
    return c->untied_head ? add_table(m, "lm_head", c->vocabulary,
                                      gpt2_normal(1), &m->head)
                          : LS_OK;
}

static ls_status add_llama(ls_transformer *m)
{
    const ls_transformer_config *c = &m->config;
    LS_TRY(add_table(m, "model.embed_tokens", c->vocabulary, gpt2_normal(1),
                     &m->embedding));
    for (int64_t i = 0; i < c->layers; i++)
        LS_TRY(add_llama_block(m, i));
    LS_TRY(add_norm(m, "model.norm", &m->ln_final));
    m->head = m->embedding;
    return c->untied_head ? add_table(m, "lm_head", c->vocabulary,
                                      gpt2_normal(1), &m->head)
                          : LS_OK;
}

ls_status lsi_transformer_add_params(ls_transformer *model)
{
    switch (model->config.kind) {
    case LS_TRANSFORMER_GPT2:
        return add_gpt2(model);
    case LS_TRANSFORMER_LLAMA:
        return add_llama(model);
    case LS_TRANSFORMER_ROPE:
        break;
    }
    return add_rope(model);
}
