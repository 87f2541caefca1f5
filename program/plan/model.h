/*
 * A run of training that is planned: a language model in numbers, what it is
 * trained with, and on how many ranks. Nothing here takes memory for weights.
 */
#ifndef LS_PLAN_MODEL_H
#define LS_PLAN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/transformer.h"
#include "model/parallel/strategy.h"

typedef struct lsi_plan_model {
    int64_t layers, d_model, d_ff, heads, vocabulary;
    bool gpt2;          /* of the variants rope and gpt2 */
    int64_t parameters; /* of all tensors */
    int64_t products;   /* of those that are factors of matrix products */
    /* Elements of each, in the order in which gradients become final. */
    int64_t *tensors;
    size_t n_tensors;
} lsi_plan_model;

/*
 * Of the very description by which the model is made. To be freed, after an
 * error, too.
 */
ls_status lsi_plan_model_open(lsi_plan_model *model,
                              const ls_transformer_config *config);
void lsi_plan_model_close(lsi_plan_model *model);

typedef struct lsi_plan_run {
    const lsi_plan_model *model;
    const lsi_strategy *strategy;
    uint64_t bucket_bytes;  /* of a bucket, at most (lsi_strategy_of) */
    int64_t batch, context; /* sequences of a rank, and tokens of each */
    bool half;              /* products are of a half type */
    bool recompute;         /* blocks are computed again in backward */
    int64_t ranks, nodes;   /* which divide the ranks evenly */
} lsi_plan_run;

/*
 * Where the bucket that begins with tensor `first` ends: one past
 * its last tensor; *bytes: of its gradients. As lsi_bucket_layout.
 */
size_t lsi_plan_bucket(const lsi_plan_run *run, size_t first, double *bytes);

#endif
