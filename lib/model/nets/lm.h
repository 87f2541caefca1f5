/*
 * A language model with its parameters, as training and benches use it.
 */
#ifndef LS_MODEL_NETS_LM_H
#define LS_MODEL_NETS_LM_H

#include "lockstep/parallel.h"
#include "lockstep/tokenizer.h"
#include "lockstep/transformer.h"
#include "model/nets/model.h"
#include "model/parallel/layer_sizes.h"

typedef struct lsi_lm {
    ls_params *params;
    ls_transformer *transformer;
} lsi_lm;

/*
 * Fills *lm; its gradients are shared by the ranks of the group (NULL: none).
 * Collective. To be freed before the group.
 */
ls_status lsi_lm_new(lsi_lm *lm, ls_group *group,
                     const ls_transformer_config *config, uint64_t seed);
/* The same with several slices of each batch (ls_params_set_slices). */
ls_status lsi_lm_new_sliced(lsi_lm *lm, ls_group *group,
                            const ls_transformer_config *config, uint64_t seed,
                            int slices);
/* Without gradients, which take as much memory as the weights. Local. */
ls_status lsi_lm_new_frozen(lsi_lm *lm, const ls_transformer_config *config,
                            uint64_t seed);
/*
 * As lsi_lm_new_frozen, with the weights of a file (as ls_transformer_load),
 * which keep their types: a model of half weights takes half the memory. Local.
 */
ls_status lsi_lm_open(lsi_lm *lm, const ls_transformer_config *config,
                      const char *path);
/*
 * The same for weights that the ranks of a group divide, as strategy fsdp does.
 * Each rank reads its part of the file. Halves of one type stay halves. *ddp is
 * to be freed before the model, also after an error. Collective; ranks may have
 * different errors.
 */
ls_status lsi_lm_open_divided(lsi_lm *lm, ls_ddp **ddp, ls_group *group,
                              const ls_transformer_config *config,
                              const char *path, size_t prefetch_layers);
void lsi_lm_free(lsi_lm *lm);

/*
 * The number of elements of a model's parameters, and the sizes of its layers,
 * which are freed by lsi_free(layers->of). Does not allocate parameters. Local.
 */
ls_status lsi_lm_count(const ls_transformer_config *config, int64_t *parameters,
                       lsi_layer_sizes *layers_or_null);

/* The sizes of the layers of a model with this description. Local. */
ls_status lsi_lm_layer_sizes(ls_params *params,
                             const ls_transformer_config *config,
                             lsi_layer_sizes *out);

/* Tokens of a model of bytes. */
enum { LSI_BYTE_TOKENS = 256 };

/* Metadata key for the kind of a file's tokens: bytes, or numbers. */
#define LSI_LM_TOKENS_KEY "tokens"
const char *lsi_lm_tokens_name(bool bytes);

/*
 * Metadata key for the tokenizer's checksum as text. LS_ERR_FORMAT if a file
 * has another checksum, or if the model's vocabulary does not fit; both paths
 * are for errors. Local.
 */
#define LSI_LM_TOKENIZER_KEY "tokenizer"
typedef struct lsi_lm_digest {
    char text[17];
} lsi_lm_digest;
lsi_lm_digest lsi_lm_digest_of(const ls_tokenizer *tokenizer);
ls_status lsi_lm_check_tokenizer(const char *path, int64_t vocabulary,
                                 const ls_tokenizer *tokenizer,
                                 const char *tokenizer_path);

/*
 * The metadata that keep a tokenizer in a file: pairs, with NULL at the end.
 * They point into the tokenizer, and are empty without one. A tokenizer.json of
 * more than 40 MB is kept as its checksum only.
 */
typedef struct lsi_lm_kept {
    lsi_lm_digest digest;
    char end[24]; /* the token that ends a text */
    const char *pairs[7];
} lsi_lm_kept;
void lsi_lm_keep(lsi_lm_kept *out, const ls_tokenizer *tokenizer);

/*
 * Opens the tokenizer that a file keeps; *out is NULL without one, else the
 * caller's. LS_ERR_FORMAT if its checksum differs. Local.
 */
ls_status lsi_lm_kept_tokenizer(const char *path, ls_tokenizer **out);

/*
 * Whether a file's tokens are bytes; without metadata, whether the vocabulary
 * is LSI_BYTE_TOKENS. Local.
 */
ls_status lsi_lm_has_bytes(const char *path, int64_t vocabulary, bool *out);

/* How the tokens of a model are made of text. */
typedef struct lsi_lm_tokens {
    const ls_tokenizer *tokenizer; /* or NULL */
    bool bytes;                    /* without a tokenizer: tokens are bytes */
} lsi_lm_tokens;

/*
 * Writes a model to a folder that Hugging Face's transformers open
 * (lsi_transformer_save_published), with the files of its tokenizer if it has
 * one. model.safetensors comes last.
 */
#define LSI_LM_TOKENIZER_FILE   "tokenizer.json"
#define LSI_LM_TOKENIZER_CONFIG "tokenizer_config.json"
ls_status lsi_lm_save_folder(const lsi_lm *lm, const char *folder,
                             const lsi_lm_tokens *tokens,
                             const char *const *metadata);

/*
 * The loss of predicting targets i64 (batch * length) from tokens i64 (batch,
 * length): the mean over all targets, which are the weight.
 */
lsi_forward lsi_lm_forward(const lsi_lm *lm, ls_tape *tape, ls_tensor *tokens,
                           ls_tensor *targets);

#endif
