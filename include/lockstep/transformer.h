/*
 * Decoder-only Transformer language models, in three variants:
 *
 *     rope   RMSNorm, rotary positions, SwiGLU, no biases, an untied head
 *     gpt2   LayerNorm, learned positions, GELU, biases, a head tied to the
 *            embedding or not; loads published weights by their own names
 *     llama  as rope, with the layout of rotary positions and the names of
 *            Llama's published weights, a head tied or not, scaled positions
 *
 * A model adds its parameters to a set of the caller's, who allocates it:
 *
 *     ls_transformer_config config = LS_TRANSFORMER_CONFIG_INIT;
 *     check(ls_transformer_size("small", &config));
 *     check(ls_params_new(&params));
 *     check(ls_transformer_new(&model, params, &config));
 *     check(ls_params_allocate(params, group, seed));
 *     logits = ls_transformer_forward(model, tape, tokens);
 *
 * Everything here is local (not collective).
 */
#ifndef LOCKSTEP_TRANSFORMER_H
#define LOCKSTEP_TRANSFORMER_H

#include "lockstep/attention.h"
#include "lockstep/autograd.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rotary positions and RMS norm, GPT-2, or Llama (see ls_transformer_new). */
typedef enum ls_transformer_kind {
    LS_TRANSFORMER_ROPE = 0,
    LS_TRANSFORMER_GPT2 = 1,
    LS_TRANSFORMER_LLAMA = 2
} ls_transformer_kind;

#define LS_TRANSFORMER_KIND_COUNT 3

/* How rotary positions are stretched to a longer context. */
typedef enum ls_rope_scaling_kind {
    LS_ROPE_SCALING_NONE = 0,
    LS_ROPE_SCALING_LINEAR = 1,
    LS_ROPE_SCALING_LLAMA3 = 2
} ls_rope_scaling_kind;

#define LS_ROPE_SCALING_COUNT 3

/*
 * Pair k turns by theta^(-2k / d_head) radians a place. LINEAR divides that by
 * `factor`. LLAMA3 (Llama 3.1's rope_scaling) depends on the places that a
 * whole turn takes. With more than original_context / low_freq_factor it
 * divides; with fewer than original_context / high_freq_factor it does not; in
 * between it interpolates. Unused numbers are zero.
 */
typedef struct ls_rope_scaling {
    ls_rope_scaling_kind kind;
    double factor; /* at least 1 */
    double low_freq_factor, high_freq_factor;
    int64_t original_context;
} ls_rope_scaling;

typedef struct ls_transformer_config {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    ls_transformer_kind kind;
    int64_t vocabulary;
    int64_t context; /* the longest sequence */
    int64_t d_model;
    int64_t d_ff; /* of the inner layer of a block */
    int64_t layers;
    int64_t heads;     /* divides d_model, unless d_head says another size */
    double rope_theta; /* 0: 10000; not of GPT2 */
    bool rope_halves;  /* of ROPE: LS_ROPE_PAIRS_TO_HALVES */
    ls_attention_method attention;
    double norm_eps;  /* 0: 1e-5 */
    bool untied_head; /* of GPT2, LLAMA; the head of ROPE is always untied */
    /* Not of GPT2: */
    int64_t kv_heads; /* of keys and values; divides heads; 0: heads */
    int64_t d_head;   /* of a head, even; 0: d_model / heads */
    ls_rope_scaling rope_scaling;
} ls_transformer_config;

/* All zeros but struct_size: to be filled by a program or a function below. */
#define LS_TRANSFORMER_CONFIG_INIT                                             \
    {                                                                          \
        sizeof(ls_transformer_config), LS_TRANSFORMER_ROPE, 0, 0, 0, 0, 0, 0,  \
            0, false, LS_ATTENTION_FLASH, 0, false, 0, 0,                      \
        {                                                                      \
            LS_ROPE_SCALING_NONE, 0, 0, 0, 0                                   \
        }                                                                      \
    }

/*
 * The configuration of that name with a context of 1024 and flash attention:
 * "tiny", "small", "medium", "large", "xl", "3.4b" or "12.8b", which are ROPE,
 * or "gpt2". "2.7B" and "10B" are usual names of the shapes of 3.4b and 12.8b.
 * Set out->struct_size before the call. LS_ERR_ARGUMENT lists the valid names.
 */
LS_API LS_MUST_CHECK ls_status ls_transformer_size(const char *name,
                                                   ls_transformer_config *out);

/* Checks a configuration; LS_ERR_ARGUMENT says what is inconsistent. */
LS_API LS_MUST_CHECK ls_status
ls_transformer_check(const ls_transformer_config *config);

typedef struct ls_transformer ls_transformer;

/*
 * Adds the parameters to a set that is not allocated, which must outlive the
 * model. On success *out is the caller's. With ROPE their order is
 * token_embeddings, for each layer attn.q_proj, k_proj, v_proj, output_proj,
 * ffn.w1, w2, w3, ln1, ln2, then ln_final, lm_head. GPT2 and LLAMA have the
 * published names, in the order of a forward pass.
 */
LS_API LS_MUST_CHECK ls_status
ls_transformer_new(ls_transformer **out, ls_params *params,
                   const ls_transformer_config *config);

/* Frees it and sets *model to NULL. Accepts NULLs. */
LS_API void ls_transformer_free(ls_transformer **model);

/*
 * Whether the forward passes from now on keep only what enters each block, and
 * backward computes the blocks again (ls_recompute): less memory, the same
 * bits, about a third more time. At first not.
 */
LS_API void ls_transformer_set_recompute(ls_transformer *model, bool recompute);

/*
 * Dropout with probability p, 0 <= p < 1, of the embeddings and of each part
 * that joins the residual stream, as in GPT-2; attention weights are not
 * dropped. 0 at first. The next training pass reports another p.
 */
LS_API void ls_transformer_set_dropout(ls_transformer *model, double p);

/* Its configuration, of as many bytes as its struct_size says. */
LS_API const ls_transformer_config *
ls_transformer_get_config(const ls_transformer *model);

/*
 * tokens i64 (batch, length), length at most the context -> logits (batch,
 * length, vocabulary). The logits of a position depend on the tokens up to it.
 */
LS_API ls_tensor *ls_transformer_forward(const ls_transformer *model,
                                         ls_tape *tape, ls_tensor *tokens);

/* ---- token by token ------------------------------------------------------ */

/*
 * Keys and values of the tokens that a model has seen, of several sequences.
 * One more token then costs the computation of that token alone.
 *
 * A sequence may be of any length. Beyond the capacity the model sees the first
 * four tokens and the newest of the others. With rotary positions a new token
 * replaces the oldest, and nothing is computed again. Distances between tokens
 * are those within the cache, so none exceeds the capacity (Xiao et al. 2023,
 * "Efficient streaming language models with attention sinks"). GPT2 has learned
 * positions, only as many as the context. Each time the cache is full, the
 * later half of its tokens is computed again from position 0.
 */
typedef struct ls_transformer_cache ls_transformer_cache;

/*
 * Empty, for `sequences` sequences of `capacity` tokens each, at most the
 * context; 0 means the context. Memory: 8 capacity kv_heads d_head layers bytes
 * a sequence. On success *out is the caller's; the model must outlive it.
 */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status ls_transformer_cache_new(
    ls_transformer_cache **out, const ls_transformer *model, int64_t sequences,
    int64_t capacity);

/* Frees it and sets *cache to NULL. Accepts NULLs. */
LS_API LS_EXPERIMENTAL void
ls_transformer_cache_free(ls_transformer_cache **cache);

/* Forgets the tokens of all sequences. */
LS_API LS_EXPERIMENTAL void
ls_transformer_cache_clear(ls_transformer_cache *cache);

/*
 * Shows the model tokens i64 (batch, n) that follow those in the cache: row i
 * is of sequence first + i. Returns the logits (batch, vocabulary) of what
 * follows the last of each row, in f32. The tape must not be training. Many
 * tokens are processed in pieces, of which only one at a time uses memory. The
 * pieces change the rounding. Beyond the capacity, the first token of a piece
 * misses some of the oldest tokens, at most an eighth of the capacity. After an
 * error clear the cache.
 */
LS_API LS_EXPERIMENTAL ls_tensor *
ls_transformer_extend(const ls_transformer *model, ls_tape *tape,
                      ls_transformer_cache *cache, int64_t first,
                      ls_tensor *tokens);

/* ---- files --------------------------------------------------------------- */

/*
 * Writes the model's parameters as safetensors, with the configuration and
 * `metadata` (as for ls_safetensors_save) in its metadata. GPT2 and LLAMA write
 * the names and layouts of the published files. Other parameters of the set are
 * not written; ls_safetensors_save writes any tensors.
 */
LS_API LS_MUST_CHECK ls_status ls_transformer_save(const ls_transformer *model,
                                                   const char *path,
                                                   const char *const *metadata);

/*
 * Fills the model's allocated parameters from a file: every one must be there
 * with the right shape, in f32, bf16 or f16, and the first that is not is
 * named. Other parameters of the set keep their values. `path` is a safetensors
 * file, a model.safetensors.index.json, whose shards are in its folder, or a
 * folder with one of them, as Hugging Face's transformers write it. GPT2's
 * names may all begin with "transformer.", and its matrices may all be (out,
 * in) as in checkpoints. Other settings that the file states (heads, norm_eps,
 * rotary positions, an untied head) must be those of the model, too:
 * LS_ERR_FORMAT names what differs. Collective where ls_params_load is.
 */
LS_API LS_MUST_CHECK ls_status ls_transformer_load(ls_transformer *model,
                                                   const char *path);

/*
 * The configuration that ls_transformer_save wrote into the file; or, for
 * published GPT-2 and Llama weights, that of config.json in the same folder, in
 * the format of Hugging Face (LS_ERR_UNSUPPORTED names unsupported settings).
 * For GPT-2 without config.json it follows from the shapes: for published sizes
 * the number of heads is known. `path` as of ls_transformer_load. Set
 * out->struct_size before the call.
 */
LS_API LS_MUST_CHECK ls_status
ls_transformer_read_config(const char *path, ls_transformer_config *out);

#ifdef __cplusplus
}
#endif

#endif
