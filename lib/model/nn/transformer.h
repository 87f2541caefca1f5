/* Inside a Transformer; see lockstep/transformer.h. */
#ifndef LS_MODEL_NN_TRANSFORMER_H
#define LS_MODEL_NN_TRANSFORMER_H

#include "lockstep/nn.h"
#include "lockstep/transformer.h"

struct json_t;
struct lsi_safetensors_file;

typedef struct lsi_norm {
    ls_tensor *weight, *bias; /* bias with GPT2 only */
} lsi_norm;

typedef struct lsi_transformer_block {
    lsi_norm ln1, ln2;
    ls_linear_layer q, k, v; /* not GPT2 */
    ls_linear_layer qkv;     /* GPT2 */
    ls_linear_layer output;
    ls_linear_layer w1, w2, w3; /* w3 not with GPT2 */
    const ls_transformer *model;
} lsi_transformer_block;

struct ls_transformer {
    ls_transformer_config config;
    ls_params *params;
    size_t first_param, n_params; /* the model's range in its set */
    ls_tensor *embedding;
    ls_tensor *positions; /* GPT2 */
    double *rates; /* rotation rates of the d_head / 2 pairs, not GPT2; owned */
    ls_tensor *cosine, *sine; /* not GPT2: (context, d_head / 2); owned */
    lsi_transformer_block *blocks;
    double dropout;
    bool recomputes; /* blocks in backward */
    lsi_norm ln_final;
    ls_tensor *head; /* the embedding with GPT2 and LLAMA, unless untied_head */
};

/* Name of a head that is not the embedding. */
#define LSI_GPT2_HEAD "lm_head.weight"

/* Checks a configuration of this library for inconsistencies. */
ls_status lsi_transformer_check(const ls_transformer_config *config);

/* A copy of a caller's configuration, checked. */
ls_status lsi_transformer_copy_config(const ls_transformer_config *given,
                                      ls_transformer_config *out);

/*
 * norm_eps, rope_theta, kv_heads and d_head, or the values that 0 stands for.
 */
double lsi_transformer_eps(const ls_transformer_config *config);
double lsi_transformer_theta(const ls_transformer_config *config);
int64_t lsi_transformer_kv_heads(const ls_transformer_config *config);
int64_t lsi_transformer_d_head(const ls_transformer_config *config);

/* "rope", "gpt2", "llama"; "none", "linear", "llama3". Static. */
const char *lsi_transformer_kind_name(ls_transformer_kind kind);
const char *lsi_transformer_scaling_name(ls_rope_scaling_kind kind);

/* Radians per place by which pair k turns, for d_head / 2 pairs. */
void lsi_transformer_rates(const ls_transformer_config *config, double *rates);

/* ---- token by token (transformer_cache.c) -------------------------------- */

/* Tokens at the beginning of a sequence that stay in a full cache. */
enum { LSI_CACHE_SINKS = 4 };

struct ls_transformer_cache {
    const ls_transformer *model;
    ls_tensor *keys, *values; /* (layers, sequences, kv_heads, slots, d_head) */
    ls_tensor *first_keys; /* (layers, sequences, sinks, kv_heads, d_head), not
                              turned yet; NULL with GPT2 */
    ls_tensor *tokens;     /* GPT2: (sequences, slots), those in the cache */
    int64_t *next;         /* place of each sequence's next token */
    float *scores;         /* (tasks of a step, slots) */
    int64_t sequences, slots, sinks;
};

/* Part of the tokens of some sequences, in one pass through a model. */
typedef struct lsi_piece {
    ls_transformer_cache *cache;
    int64_t first;         /* sequence of row 0 */
    int64_t rows, length;  /* (rows, length) tokens */
    const int64_t *places; /* place of each token */
    bool last;             /* the logits of its last tokens are wanted */
} lsi_piece;

/*
 * Queries, keys and values by heads; `before` is k before it was turned, with a
 * cache and rotary positions.
 */
typedef struct lsi_qkv {
    ls_tensor *q, *k, *v, *before;
} lsi_qkv;

/*
 * Stores k and v (1, rows * length, kv_heads, d_head) of a layer and returns
 * the attention of q (1, rows * length, heads, d_head), in the shape of q.
 */
ls_tensor *lsi_cache_attend(const lsi_piece *piece, ls_tape *tape,
                            int64_t layer, lsi_qkv in);

/*
 * Tokens i64 (rows, length) through the model; the logits (rows, vocabulary) of
 * the last ones if piece->last, else nothing of use. NULL on failure.
 */
ls_tensor *lsi_transformer_piece(const ls_transformer *model, ls_tape *tape,
                                 const lsi_piece *piece, ls_tensor *tokens);

/* ---- files --------------------------------------------------------------- */

/* Metadata key of the text of lsi_transformer_describe. */
#define LSI_TRANSFORMER_KEY "transformer"

/* A configuration as JSON; *out is the caller's (free). */
ls_status lsi_transformer_describe(const ls_transformer_config *config,
                                   char **out);

/*
 * Opens the safetensors file, or index, that `path` or its folder is; `file`
 * refers to `place`.
 */
typedef struct lsi_weights_path {
    char text[4096];
} lsi_weights_path;
ls_status lsi_transformer_open_file(struct lsi_safetensors_file *file,
                                    const char *path, lsi_weights_path *place);

/*
 * Writes the parameters to `path` by the names and in the layout of Hugging
 * Face's transformers, ROPE's as a Llama model, and in the same folder
 * config.json: AutoModelForCausalLM opens the folder of a model.safetensors,
 * and so do we, to the same bits. `end` is the token that ends a text, or -1;
 * metadata as in ls_transformer_save.
 */
ls_status lsi_transformer_save_published(const ls_transformer *model,
                                         const char *path, int64_t end,
                                         const char *const *metadata);

/*
 * Parameters of two dimensions get the types that their tensors have in a file,
 * as lsi_params_set_dtype allows: halves are then read and multiplied as they
 * are. None may be trained. To be called before they are allocated.
 */
ls_status lsi_transformer_keep_types(const ls_transformer *model,
                                     const char *path);

/* Whether a file has the matrices of GPT-2's attention as published, (in, out).
 */
bool lsi_gpt2_is_published(const struct lsi_safetensors_file *file);

/*
 * The configuration of a file of published GPT-2 weights, from config.json in
 * the same folder and from its shapes. `heads` is the number of heads if
 * neither has it; 0: unknown.
 */
ls_status lsi_gpt2_infer(const struct lsi_safetensors_file *file, int64_t heads,
                         ls_transformer_config *out);

/* Whether a file has a head whose elements are not those of the embedding. */
ls_status lsi_gpt2_has_own_head(const struct lsi_safetensors_file *file,
                                bool *out);

/* As ls_transformer_read_config, where `heads` may be needed; 0: unknown. */
ls_status lsi_transformer_read_config(const char *path, int64_t heads,
                                      ls_transformer_config *out);

/* Whether a file has tensors by the names of Llama. */
bool lsi_llama_is_published(const struct lsi_safetensors_file *file);

/*
 * Reads the configuration of a Llama model from config.json in the folder of
 * `path`; *found is whether the file exists.
 */
ls_status lsi_llama_read_json(const char *path, ls_transformer_config *out,
                              bool *found);

/* Adds the keys of a Llama model to a config.json; false: no memory. */
bool lsi_llama_write_json(const ls_transformer_config *config,
                          struct json_t *json);

/* The configuration of a file of Llama weights, whose tensors must match it. */
ls_status lsi_llama_infer(const struct lsi_safetensors_file *file,
                          ls_transformer_config *out);

/* Values of GPT-2's config.json; 0 where a key is missing. */
typedef struct lsi_gpt2_json {
    bool found;
    int64_t layers, heads, d_model, d_ff, context, vocabulary;
    double norm_eps;
    bool untied_head;
} lsi_gpt2_json;

/*
 * Reads config.json in the folder of `path`, if it exists. LS_ERR_FORMAT if it
 * is not of a GPT-2 model, LS_ERR_UNSUPPORTED if it needs an unsupported
 * feature.
 */
ls_status lsi_gpt2_read_json(const char *path, lsi_gpt2_json *out);

/* Adds the keys of a GPT-2 model to a config.json; false: no memory. */
bool lsi_gpt2_write_json(const ls_transformer_config *config,
                         struct json_t *json);

/*
 * The config.json of a model; `end` is the token that ends a text (-1: none).
 * NULL: no memory.
 */
struct json_t *lsi_transformer_to_json(const ls_transformer_config *config,
                                       int64_t end);

/* Adds all parameters, in order. */
ls_status lsi_transformer_add_params(ls_transformer *model);

#endif
