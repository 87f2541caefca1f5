/*
 * The training loop's view of a model and its data.
 */
#ifndef LS_MODEL_NETS_MODEL_H
#define LS_MODEL_NETS_MODEL_H

#include "lockstep/autograd.h"
#include "lockstep/data.h"

/* The result of a forward pass; tensors belong to the tape. */
typedef struct lsi_forward {
    ls_tensor *loss;         /* mean over `weight` items; NULL: error */
    ls_tensor *logits;       /* (rows, classes) */
    const ls_tensor *labels; /* i64 (rows) */
    double weight;           /* samples, or tokens; may be 0 */
} lsi_forward;

typedef struct lsi_model {
    ls_params *params;
    void *self;
    /*
     * Errors stick to the tape. A batch may be empty; the model must then take
     * part in the same collectives as with any other batch.
     */
    lsi_forward (*forward)(void *self, ls_tape *tape, const ls_batch *batch);
} lsi_model;

/* This rank's batches. */
typedef struct lsi_source {
    void *self;
    /*
     * Begins an epoch at its batch `first` (0, or where a checkpoint was made).
     * *steps is the epoch's total number of batches, the same on every rank.
     */
    ls_status (*begin)(void *self, int64_t epoch, int64_t first,
                       int64_t *steps);
    /* The next batch, valid until the next call; empty if none is left. */
    ls_status (*next)(void *self, ls_batch *batch);
} lsi_source;

#endif
