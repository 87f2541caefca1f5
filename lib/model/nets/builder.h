/*
 * Layers of a network, added to its set of parameters one after the other.
 * Errors stick to the builder: a network is a list of calls, the same on every
 * rank, and its error is checked once, at the end.
 */
#ifndef LS_MODEL_NETS_BUILDER_H
#define LS_MODEL_NETS_BUILDER_H

#include "lockstep/nn.h"
#include "lockstep/parallel.h"

/* The ranks over which batch normalisation computes its statistics, and how. */
typedef enum lsi_net_norm {
    LSI_NORM_FUSED,    /* all ranks */
    LSI_NORM_GATHERED, /* all ranks */
    LSI_NORM_LOCAL     /* this rank */
} lsi_net_norm;

typedef struct lsi_net_builder {
    ls_group *group;
    ls_params *params;
    lsi_net_norm norm;
    ls_status status; /* first error of the calls so far */
    bool agreed;      /* all ranks know of that error */
} lsi_net_builder;

/* Adds a layer, unless something has failed. */
#define LSI_BUILD(builder, call)                                               \
    do {                                                                       \
        if ((builder)->status == LS_OK)                                        \
            (builder)->status = (call);                                        \
    } while (0)

/* The first error of any rank. Collective. */
ls_status lsi_build_end(lsi_net_builder *builder);

/* A batch normalisation of either kind; freed before the group. */
typedef struct lsi_norm_part {
    ls_sync_bn *sync; /* or NULL, then: */
    ls_batch_norm_layer local;
} lsi_norm_part;

/* Parts of a batch normalisation; flags that can be added. */
enum {
    LSI_NORM_AFFINE = 1 << 0, /* weight and bias */
    LSI_NORM_RELU = 1 << 1    /* a result that is clipped at 0 */
};

/* Collective, unless the builder's norm is local. */
void lsi_build_norm(lsi_net_builder *builder, lsi_norm_part *part,
                    const char *name, int64_t features, unsigned flags);
void lsi_norm_part_free(lsi_norm_part *part);

/* norm(x) + residual, where the residual may be NULL. */
ls_tensor *lsi_norm_part_forward(const lsi_norm_part *part, ls_tape *tape,
                                 ls_tensor *x, ls_tensor *residual);

#endif
