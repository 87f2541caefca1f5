/*
 * Inside synchronised batch normalisation: the common part of its
 * implementations, and their differences, which are in the data that ranks
 * exchange.
 *
 * In forward every rank fills a slot, and one all-gather gives all slots to all
 * ranks. Each rank folds them as a reduction does: the same numbers in the same
 * order, hence the same bits. In backward one all-reduce adds two sums for each
 * feature.
 *
 * A rank whose batch is cut into slices (model/autograd/params.h) takes part as
 * several ranks. Slice j of rank r is *part* r + N j of all N m. Each part has
 * a slot and two sums, and parts are folded in the order of their numbers.
 *
 * Vectors over features are padded with zeros to `stride`, a multiple of
 * LSI_BN_BLOCK floats, so that loops over them have no tails.
 */
#ifndef LS_MODEL_PARALLEL_SYNC_BN_H
#define LS_MODEL_PARALLEL_SYNC_BN_H

#include "comm/api/place.h"
#include "lockstep/nn.h"
#include "lockstep/parallel.h"
#include "model/autograd/node.h"

enum { LSI_BN_BLOCK = 16 };

/* The data that one part sends in forward, in one block of floats. */
typedef struct lsi_bn_slot {
    /*
     * [LSI_BN_BLOCK]: number of rows, and its remainder that f32 does not hold;
     * the rest is unused
     */
    float *count;
    float *mean; /* [stride] */
    /*
     * [stride]: sum of squared differences from the mean, or the result of
     * `pack`
     */
    float *spread;
} lsi_bn_slot;

/* The statistics of all rows of all ranks. */
typedef struct lsi_bn_stats {
    float *mean, *inv_std, *variance; /* [stride]; variance is biased */
    double rows;
} lsi_bn_stats;

typedef struct lsi_bn_exchange {
    /* Converts this rank's slot to the data that are sent. May be NULL. */
    void (*pack)(const ls_sync_bn *bn, lsi_bn_slot own);
    /* Combines the slots of all parts. */
    void (*combine)(const ls_sync_bn *bn, lsi_bn_stats *out);
    /*
     * Convert a part's sums of dy * xhat, [stride], before they are added over
     * parts, and the total after. May be NULL.
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
    float *slots;       /* slots of all ranks, gathered */
    float *sums;        /* sum dy [stride], sum dy * xhat [stride]; shared */
    float *slice_sums;  /* laid out as sums, one for each of slices 1, 2, ... */
    float *variance;    /* [stride] */
    ls_request *reduce; /* reduces the sums, in place */
};

static inline size_t lsi_bn_slot_floats(const ls_sync_bn *bn)
{
    return LSI_BN_BLOCK + 2 * bn->stride;
}

/* The slot that begins at `begin`. */
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

/* The slot of a part. */
static inline lsi_bn_slot lsi_bn_slot_of(const ls_sync_bn *bn, int part)
{
    const int ranks = ls_group_size(bn->group);
    const int rank = lsi_group_rank_at(bn->group, part % ranks);
    const int slot = rank * bn->slices + part / ranks;
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

/* The slot of a slice of this rank, to be filled. */
static inline lsi_bn_slot lsi_bn_own_slot(const ls_sync_bn *bn, int slice)
{
    return lsi_bn_slot_at(bn, bn->own + (size_t)slice * lsi_bn_slot_floats(bn));
}

/* The state of a node. */
typedef struct lsi_bn_node {
    ls_sync_bn *bn;
    double rows; /* number of rows of all ranks */
    bool relu;   /* of images */
} lsi_bn_node;

/* Functions shared by the forms for matrices and for images. */

/* Shows the slots to all ranks and combines them all. */
ls_status lsi_bn_gather(ls_sync_bn *bn, lsi_bn_stats *out);

/* Updates the running statistics. */
void lsi_bn_track(const ls_sync_bn *bn, const lsi_bn_stats *stats);

/* A slice's sums of dy and, one stride further, of dy * xhat. */
float *lsi_bn_sums_of(const ls_sync_bn *bn, int slice);

/*
 * Passes a slice's sums to the gradients of weight and bias, and converts them
 * for the exchange.
 */
ls_status lsi_bn_give_sums(ls_tape *tape, ls_node *node, int slice,
                           const float *inv_std);

/* bn->sums = the sums of all slices of all ranks, divided by all rows. */
ls_status lsi_bn_exchange_sums(const lsi_bn_node *s, const float *inv_std);

/* For a rank that does not reach the sums: reports why (lsi_tape_abandon). */
void lsi_bn_abandon(const ls_node *node, ls_status status);

/*
 * Gives the reason to the ranks that wait for this rank's statistics. Returns
 * NULL.
 */
ls_tensor *lsi_bn_refuse(const ls_sync_bn *bn, const ls_tape *tape);

/* Training, for x (N, C, ...) with three dimensions or more. */
ls_tensor *lsi_bn_images(ls_sync_bn *bn, ls_tape *tape, ls_tensor *x,
                         ls_tensor *residual);

#endif
