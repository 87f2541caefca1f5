/*
 * A planned training run: a language model in numbers, its training settings,
 * and its ranks. No memory is allocated for weights.
 */
#ifndef LS_PLAN_MODEL_H
#define LS_PLAN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/transformer.h"
#include "model/parallel/layer_sizes.h"
#include "model/parallel/strategy.h"

typedef struct lsi_plan_model {
    int64_t layers, d_model, d_ff, heads, vocabulary;
    bool gpt2;          /* variant gpt2, instead of rope */
    int64_t parameters; /* number of elements of all tensors */
    int64_t products; /* number of elements of the factors of matrix products */
    /* Elements of each tensor, in the order in which gradients become final. */
    int64_t *tensors;
    size_t n_tensors;
    lsi_layer_sizes layer_sizes; /* of what `fsdp` gathers between nodes */
} lsi_plan_model;

/*
 * Uses the description by which the model itself is made. Needs
 * lsi_plan_model_close, also after an error.
 */
ls_status lsi_plan_model_open(lsi_plan_model *model,
                              const ls_transformer_config *config);
void lsi_plan_model_close(lsi_plan_model *model);

typedef struct lsi_plan_run {
    const lsi_plan_model *model;
    const lsi_strategy *strategy;
    uint64_t bucket_bytes;  /* most bytes of a bucket (lsi_strategy_of) */
    int64_t batch, context; /* sequences of a rank, tokens of a sequence */
    bool half;              /* products use a half type */
    size_t ahead;           /* layers that fsdp gathers ahead of use */
    bool recompute;         /* backward computes blocks again */
    int64_t slices;         /* of all ranks' batches; 0: one per rank */
    int64_t ranks, nodes;   /* ranks, and nodes that divide them evenly */
    /* nodes that hold one copy of the weights under fsdp; 0: all */
    int64_t shard_over;
} lsi_plan_run;

/*
 * The end of the bucket that begins with tensor `first`: one past its last
 * tensor. *bytes: bytes of its gradients. As lsi_bucket_layout.
 */
size_t lsi_plan_bucket(const lsi_plan_run *run, size_t first, double *bytes);

#endif
