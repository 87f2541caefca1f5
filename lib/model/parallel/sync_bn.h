/*
 * Inside synchronised batch normalisation: what its implementations share and
 * where they differ, which is in what the ranks tell each other.
 *
 * Forward every rank fills a slot, one all-gather shows all slots to all ranks,
 * and each folds them as a reduction does: the same numbers in the same order,
 * hence the same bits. Backward one all-reduce adds two sums for each feature.
 *
 * A rank whose batch is cut into slices (model/autograd/params.h) takes part as
 * so many ranks: slice j of rank r is *part* r + N j of all N m, of which each
 * has a slot and two sums, and which are folded in the order of their numbers.
 *
 * Vectors over features are padded with zeros to `stride`, a multiple of
 * LSI_BN_BLOCK floats, so that loops over them have no tails.
 */
#ifndef LS_MODEL_PARALLEL_SYNC_BN_H
#define LS_MODEL_PARALLEL_SYNC_BN_H

#include "lockstep/nn.h"
#include "lockstep/parallel.h"
#include "model/autograd/node.h"

enum { LSI_BN_BLOCK = 16 };

/* What one part tells the others forward, in one block of floats. */
typedef struct lsi_bn_slot {
    /* [LSI_BN_BLOCK]; the number of rows, and what of it f32 has not held; the
     * rest unused */
    float *count;
    float *mean; /* [stride] */
    /* [stride]: sum of squared differences from the mean, or what `pack` made
     * of it */
    float *spread;
} lsi_bn_slot;

/* The statistics of all rows of all ranks. */
typedef struct lsi_bn_stats {
    float *mean, *inv_std, *variance; /* [stride]; variance is biased */
    double rows;
} lsi_bn_stats;

typedef struct lsi_bn_exchange {
    /* Turns a slot of this rank's into what is sent. May be NULL. */
    void (*pack)(const ls_sync_bn *bn, lsi_bn_slot own);
    /* Combines the slots of all parts. */
    void (*combine)(const ls_sync_bn *bn, lsi_bn_stats *out);
    /*
     * What becomes of a part's sums of dy * xhat, [stride], before they are
     * added over parts, and of the total after. May be NULL.
     */
    void (*pack_sums)(const ls_sync_bn *bn, float *sums, const float *inv_std);
    void (*unpack_sums)(const ls_sync_bn *bn, float *sums,
                        const float *inv_std);
} lsi_bn_exchange;

extern const lsi_bn_exchange lsi_bn_fused, lsi_bn_gathered;

struct ls_sync_bn {
    const lsi_bn_exchange *exchange;
    ls_group *group;
    int64_t features;
    size_t stride;
    int slices; /* of this rank's batch, the same on all ranks */
    ls_batch_norm_args args;
    float *own;         /* this rank's slots, in shared memory */
    float *slots;       /* of all ranks, gathered */
    float *sums;        /* sum dy [stride], sum dy * xhat [stride]; shared */
    float *slice_sums;  /* the same of slices 1, 2, ... */
    float *variance;    /* [stride] */
    ls_request *reduce; /* of the sums, in place */
};

static inline size_t lsi_bn_slot_floats(const ls_sync_bn *bn)
{
    return LSI_BN_BLOCK + 2 * bn->stride;
}

/* The slot that begins there. */
static inline lsi_bn_slot lsi_bn_slot_at(const ls_sync_bn *bn, float *begin)
{
    return (lsi_bn_slot){.count = begin,
                         .mean = begin + LSI_BN_BLOCK,
                         .spread = begin + LSI_BN_BLOCK + bn->stride};
}

static inline int lsi_bn_parts(const ls_sync_bn *bn)
{
    return ls_group_size(bn->group) * bn->slices;
}

/* What that part has told. */
static inline lsi_bn_slot lsi_bn_slot_of(const ls_sync_bn *bn, int part)
{
    const int ranks = ls_group_size(bn->group);
    const int slot = part % ranks * bn->slices + part / ranks;
    return lsi_bn_slot_at(bn,
                          bn->slots + (size_t)slot * lsi_bn_slot_floats(bn));
}

static inline double lsi_bn_rows(lsi_bn_slot slot)
{
    return (double)slot.count[0] + (double)slot.count[1];
}

static inline void lsi_bn_set_rows(lsi_bn_slot slot, size_t rows)
{
    slot.count[0] = (float)rows;
    slot.count[1] = (float)((double)rows - (double)slot.count[0]);
}

/* The slot of a slice of this rank's, to be filled. */
static inline lsi_bn_slot lsi_bn_own_slot(const ls_sync_bn *bn, int slice)
{
    return lsi_bn_slot_at(bn, bn->own + (size_t)slice * lsi_bn_slot_floats(bn));
}

/* The state of a node. */
typedef struct lsi_bn_node {
    ls_sync_bn *bn;
    double rows; /* of all ranks */
    bool relu;   /* of images */
} lsi_bn_node;

/* What those of matrices and those of images share. */

/* Shows the slots to all ranks and combines them all. */
ls_status lsi_bn_gather(ls_sync_bn *bn, lsi_bn_stats *out);

/* Moves the running statistics. */
void lsi_bn_track(const ls_sync_bn *bn, const lsi_bn_stats *stats);

/* A slice's sums: those of dy, then, a stride further, those of dy * xhat. */
float *lsi_bn_sums_of(const ls_sync_bn *bn, int slice);

/* Gives them to weight and bias, and makes of them what ranks exchange. */
ls_status lsi_bn_give_sums(ls_tape *tape, ls_node *node, int slice,
                           const float *inv_std);

/* bn->sums = the sums of all slices of all ranks, divided by all rows. */
ls_status lsi_bn_exchange_sums(const lsi_bn_node *s, const float *inv_std);

/* This rank does not come to the sums: says why (lsi_tape_abandon). */
void lsi_bn_abandon(const ls_node *node, ls_status status);

/* The others wait for this rank's statistics, and get its reason. NULL. */
ls_tensor *lsi_bn_stay_away(const ls_sync_bn *bn, const ls_tape *tape);

/* In training, of x (N, C, ...) with three dimensions or more. */
ls_tensor *lsi_bn_images(ls_sync_bn *bn, ls_tape *tape, ls_tensor *x,
                         ls_tensor *residual);

#endif
