/*
 * The model and data for measuring data parallelism: a model of any size, and a
 * batch of random numbers for each rank.
 */
#ifndef LS_CLI_BENCH_DDP_MODEL_H
#define LS_CLI_BENCH_DDP_MODEL_H

#include "cli/frame/lm_flags.h"
#include "lockstep/lockstep.h"

/* Layers of the "mlp", and their default width. */
enum { LSI_MLP_LAYERS = 8, LSI_MLP_WIDTH = 4096 };

typedef struct lsi_ddp_model_spec {
    /* Of the size or of the architecture; of another shape "12x768". */
    char name[LSI_LM_NAME_BYTES];
    bool is_lm;
    int64_t width;                /* of the mlp */
    ls_transformer_config config; /* of the lm */
    int64_t batch, context;       /* batch * context rows, or tokens */
    ls_dtype dtype;               /* of products */
} lsi_ddp_model_spec;

typedef struct lsi_ddp_model_flags {
    const char *arch;         /* or NULL, as the size */
    lsi_lm_shape_flags shape; /* of a language model */
} lsi_ddp_model_flags;

/* The rows for a field of that name, to be used where ROW is defined. */
#define LSI_DDP_MODEL_ROWS(field)                                              \
    ROW(field.arch, STRING, "arch", 0, "NAME", NULL,                           \
        "model: mlp (eight layers, 134 million parameters), or mlp:WIDTH for " \
        "layers with WIDTH features (default mlp)"),                           \
        ROW(field.shape.size, STRING, "size", 0, "NAME", NULL,                 \
            "measure a language model of this size instead of the mlp: tiny, " \
            "small, ... (default tiny, if one of the next nine flags is "      \
            "given)"),                                                         \
        LSI_LM_CHANGE_ROWS(field.shape)

/*
 * The name, architecture and shape of the flags. LS_ERR_ARGUMENT: two models
 * are given, or one is not known.
 */
ls_status lsi_ddp_model_parse(const lsi_ddp_model_flags *flags,
                              lsi_ddp_model_spec *out);

/* How many parameters it has; takes no memory for them. Local. */
ls_status lsi_ddp_model_parameters(const lsi_ddp_model_spec *spec,
                                   int64_t *out);

typedef struct lsi_ddp_model {
    lsi_ddp_model_spec spec;
    ls_params *params;
    ls_tape *tape;
    ls_linear_layer layers[LSI_MLP_LAYERS];
    ls_transformer *lm;
    ls_tensor *x, *y;
} lsi_ddp_model;

/* After an error, too, the model is to be released. Collective. */
ls_status lsi_ddp_model_init(lsi_ddp_model *model, ls_group *group,
                             const lsi_ddp_model_spec *spec);

/* The mean over lsi_ddp_model_weight samples or tokens. */
ls_tensor *lsi_ddp_model_loss(lsi_ddp_model *model);
double lsi_ddp_model_weight(const lsi_ddp_model *model);

/* Collective. */
void lsi_ddp_model_release(lsi_ddp_model *model);

/* A number that differs if any bit of any weight does. */
uint64_t lsi_ddp_model_hash(const lsi_ddp_model *model);

#endif
