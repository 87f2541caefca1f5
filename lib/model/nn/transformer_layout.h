/*
 * How a file stores the parameters of a Transformer: their names, and the order
 * of their elements.
 */
#ifndef LS_MODEL_NN_TRANSFORMER_LAYOUT_H
#define LS_MODEL_NN_TRANSFORMER_LAYOUT_H

#include "model/nn/transformer.h"
#include "model/tensor/safetensors.h"

typedef enum lsi_weights_layout {
    LSI_WEIGHTS_IN_MEMORY,  /* names and elements as the model has them */
    LSI_WEIGHTS_TRANSPOSED, /* GPT2 as published: products are (in, out) */
    LSI_WEIGHTS_AS_LLAMA,   /* ROPE as a Llama model, which turns pairs of rows
                               k and d_head / 2 + k of queries and keys, not of
                               2k and 2k + 1 */
} lsi_weights_layout;

/* One parameter of a file. */
typedef struct lsi_weight {
    ls_tensor *tensor; /* the model's */
    char name[80];     /* a model's names have 64 characters at most */
    bool transposed;
    int64_t heads; /* whose pairs of rows are apart; 0: none */
} lsi_weight;

/* All parameters of a file, in its order. */
typedef struct lsi_weights {
    lsi_weight *items;
    ls_named_tensor *views; /* NULL before lsi_weights_view */
    size_t n;
} lsi_weights;

/*
 * Lists the model's parameters, which need no memory yet. A caller's other
 * parameters in the set are left out. *out is to be freed by lsi_weights_free,
 * also after an error.
 */
ls_status lsi_weights_list(const ls_transformer *model,
                           lsi_weights_layout layout, lsi_weights *out);
void lsi_weights_free(lsi_weights *weights);

/* Puts a prefix before all names but that of a head. */
void lsi_weights_prefix(lsi_weights *weights, const char *prefix);

/*
 * Makes views of the allocated parameters whose elements the file has, for a
 * file of matrices (safetensors.h).
 */
ls_status lsi_weights_view(lsi_weights *weights);

/* A file of the model's weights. It refers to its own place: do not copy it. */
typedef struct lsi_weights_file {
    lsi_safetensors_file file;
    lsi_weights_path place;
    lsi_weights weights; /* with views */
} lsi_weights_file;

/*
 * Opens the file of ls_transformer_load, and checks its settings; on success it
 * is to be closed. Closing a closed one does nothing.
 */
ls_status lsi_weights_open(const ls_transformer *model, const char *path,
                           lsi_weights_file *out);
void lsi_weights_close(lsi_weights_file *file);

#endif
