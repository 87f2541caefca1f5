/* Inside a Transformer; see lockstep/transformer.h. */
#ifndef LS_NN_TRANSFORMER_H
#define LS_NN_TRANSFORMER_H

#include "lockstep/nn.h"
#include "lockstep/transformer.h"

struct lsi_safetensors_file;

typedef struct lsi_norm {
    ls_tensor *weight, *bias; /* bias with GPT2 only */
} lsi_norm;

typedef struct lsi_transformer_block {
    lsi_norm ln1, ln2;
    ls_linear_layer q, k, v; /* ROPE */
    ls_linear_layer qkv;     /* GPT2 */
    ls_linear_layer output;
    ls_linear_layer w1, w2, w3; /* w3 with ROPE only */
} lsi_transformer_block;

struct ls_transformer {
    ls_transformer_config config;
    ls_params *params;
    ls_tensor *embedding;
    ls_tensor *positions;     /* GPT2 */
    ls_tensor *cosine, *sine; /* ROPE: (context, d_head / 2); owned */
    lsi_transformer_block *blocks;
    lsi_norm ln_final;
    ls_tensor *head; /* the embedding with GPT2, unless untied_head */
};

/* Of a head that is not the embedding. */
#define LSI_GPT2_HEAD "lm_head.weight"

/* norm_eps and rope_theta, or what 0 means. */
double lsi_transformer_eps(const ls_transformer_config *config);
double lsi_transformer_theta(const ls_transformer_config *config);

/*
 * The keys and values of the tokens that a model has seen, (layers, context,
 * heads, d_head), in f32 also if products are half: what is left to do for one
 * token more is that token alone.
 */
typedef struct lsi_kv_cache {
    ls_tensor *keys, *values;
    int64_t used; /* tokens; the caller may set it to 0 */
} lsi_kv_cache;

/* *cache, all zero before, is freed by lsi_kv_cache_free in any case. */
ls_status lsi_kv_cache_new(lsi_kv_cache *cache, const ls_transformer *model);
void lsi_kv_cache_free(lsi_kv_cache *cache);

/*
 * As ls_transformer_forward for tokens (1, n) that follow those in the cache,
 * and adds them to it. n is 1 unless the cache is empty. Without gradients.
 */
ls_tensor *lsi_transformer_extend(const ls_transformer *model, ls_tape *tape,
                                  ls_tensor *tokens, lsi_kv_cache *cache);

/* Under which a file's metadata has the text of lsi_transformer_describe. */
#define LSI_TRANSFORMER_KEY "transformer"

/* A configuration as JSON; *out is the caller's (free). */
ls_status lsi_transformer_describe(const ls_transformer_config *config,
                                   char **out);

/* Whether a file has the matrices of GPT-2's attention as published, (in, out).
 */
bool lsi_gpt2_is_published(const struct lsi_safetensors_file *file);

/*
 * The configuration of such a file, by config.json beside it and by its shapes.
 * `heads` is how many there are if neither says it; 0: not known.
 */
ls_status lsi_gpt2_infer(const struct lsi_safetensors_file *file, int64_t heads,
                         ls_transformer_config *out);

/* Whether a file has a head whose elements are not those of the embedding. */
ls_status lsi_gpt2_has_own_head(const struct lsi_safetensors_file *file,
                                bool *out);

/* As ls_transformer_read_config, where `heads` may help out; 0: not known. */
ls_status lsi_transformer_read_config(const char *path, int64_t heads,
                                      ls_transformer_config *out);

/* What config.json says; 0 where it says nothing. */
typedef struct lsi_gpt2_json {
    bool found;
    int64_t layers, heads, d_model, d_ff, context, vocabulary;
    double norm_eps;
    bool untied_head;
} lsi_gpt2_json;

/*
 * Reads config.json in the folder of `path`, if there is one. LS_ERR_FORMAT if
 * it is none of GPT-2, LS_ERR_UNSUPPORTED if it asks for what there is not.
 */
ls_status lsi_gpt2_read_json(const char *path, lsi_gpt2_json *out);

/* Adds all parameters, in order. */
ls_status lsi_transformer_add_params(ls_transformer *model);

#endif
