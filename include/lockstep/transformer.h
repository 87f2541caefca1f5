/*
 * Decoder-only Transformer language models, in two variants:
 *
 *     rope   RMSNorm, rotary positions, SwiGLU, no biases, an untied head
 *     gpt2   LayerNorm, learned positions, GELU, biases, a head tied to the
 *            embedding or not; loads published weights by their own names
 *
 * A model adds its parameters to a set of the caller's, who allocates it:
 *
 *     ls_transformer_config config;
 *     ls_transformer_size("small", &config);
 *     ls_params_new(&params);
 *     ls_transformer_new(&model, params, &config);
 *     ls_params_allocate(params, group, seed);
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

/* X(NAME, value, text) */
#define LS_TRANSFORMER_KIND_LIST(X)                                            \
    X(ROPE, 0, "rope")                                                         \
    X(GPT2, 1, "gpt2")

typedef enum ls_transformer_kind {
#define X(NAME, value, text) LS_TRANSFORMER_##NAME = (value),
    LS_TRANSFORMER_KIND_LIST(X)
#undef X
} ls_transformer_kind;

#define LS_TRANSFORMER_KIND_COUNT 2

typedef struct ls_transformer_config {
    ls_transformer_kind kind;
    int64_t vocabulary;
    int64_t context; /* the longest sequence */
    int64_t d_model;
    int64_t d_ff; /* of the inner layer of a block */
    int64_t layers;
    int64_t heads;     /* divides d_model; d_model / heads is even with ROPE */
    double rope_theta; /* 0 means 10000 */
    bool rope_halves;  /* as of ls_rope */
    ls_attention_method attention;
    double norm_eps;  /* 0 means 1e-5 */
    bool untied_head; /* of GPT2; the head of ROPE is always untied */
} ls_transformer_config;

/* X(name, KIND, d_model, d_ff, layers, heads, vocabulary) */
#define LS_TRANSFORMER_SIZE_LIST(X)                                            \
    X("tiny", ROPE, 256, 1024, 4, 4, 10000)                                    \
    X("small", ROPE, 768, 3072, 12, 12, 10000)                                 \
    X("medium", ROPE, 1024, 4096, 24, 16, 10000)                               \
    X("large", ROPE, 1280, 5120, 36, 20, 10000)                                \
    X("xl", ROPE, 1600, 6400, 48, 25, 10000)                                   \
    X("2.7B", ROPE, 2560, 10240, 32, 32, 10000)                                \
    X("10B", ROPE, 4608, 12288, 50, 36, 10000)                                 \
    X("gpt2", GPT2, 768, 3072, 12, 12, 50257)

/*
 * The configuration of that name with a context of 1024 and flash attention.
 * LS_ERR_ARGUMENT lists the valid names.
 */
LS_API ls_status ls_transformer_size(const char *name,
                                     ls_transformer_config *out);

/* Checks a configuration; LS_ERR_ARGUMENT says what is inconsistent. */
LS_API ls_status ls_transformer_check(const ls_transformer_config *config);

typedef struct ls_transformer ls_transformer;

/*
 * Adds the parameters to a set that is not allocated, which must outlive the
 * model. On success *out is the caller's. With ROPE their order is
 * token_embeddings, for each layer attn.q_proj, k_proj, v_proj, output_proj,
 * ffn.w1, w2, w3, ln1, ln2, then ln_final, lm_head.
 */
LS_API ls_status ls_transformer_new(ls_transformer **out, ls_params *params,
                                    const ls_transformer_config *config);

/* Frees it and sets *model to NULL. Accepts NULLs. */
LS_API void ls_transformer_free(ls_transformer **model);

/* What it was made with. */
LS_API const ls_transformer_config *
ls_transformer_get_config(const ls_transformer *model);

/*
 * tokens i64 (batch, length), length at most the context -> logits (batch,
 * length, vocabulary). The logits of a position depend on the tokens up to it.
 */
LS_API ls_tensor *ls_transformer_forward(const ls_transformer *model,
                                         ls_tape *tape, ls_tensor *tokens);

/* ---- files --------------------------------------------------------------- */

/*
 * Writes the parameters as safetensors, with the configuration and `metadata`
 * (as for ls_safetensors_save) in its metadata. GPT2 writes the names and
 * layouts of the published files.
 */
LS_API ls_status ls_transformer_save(const ls_transformer *model,
                                     const char *path,
                                     const char *const *metadata);

/*
 * Fills the allocated parameters from a file: every one must be there with the
 * right shape, in f32, bf16 or f16, and the first that is not is named. GPT2's
 * names may all begin with "transformer.", and its matrices may all be (out,
 * in) as in checkpoints. Other settings that the file states (heads, norm_eps,
 * rotary positions, an untied head) must be those of the model, too:
 * LS_ERR_FORMAT names what differs.
 */
LS_API ls_status ls_transformer_load(ls_transformer *model, const char *path);

/*
 * The configuration that ls_transformer_save wrote into the file; or, for
 * published GPT-2 weights, that of config.json beside the file, in the format
 * of Hugging Face (LS_ERR_UNSUPPORTED names what is not supported); or, without
 * one, that which follows from the shapes: for published sizes the number of
 * heads is known.
 */
LS_API ls_status ls_transformer_read_config(const char *path,
                                            ls_transformer_config *out);

#ifdef __cplusplus
}
#endif

#endif
