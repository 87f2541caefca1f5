/*
 * Weights that other nodes have, on request.
 *
 * A rank may ask at any time between two steps, whatever the others do: no call
 * here but new and free is collective. A rank answers whenever it polls, and
 * while it waits in any group (lsi_service).
 */
#ifndef LS_MODEL_PARALLEL_WEIGHT_FETCH_H
#define LS_MODEL_PARALLEL_WEIGHT_FETCH_H

#include "model/autograd/params.h"

typedef struct lsi_weight_fetch lsi_weight_fetch;

/* Weights as f32, or rounded to the half type that products read. */
typedef enum lsi_weight_kind {
    LSI_WEIGHTS_F32,
    LSI_WEIGHTS_HALF
} lsi_weight_kind;
enum { LSI_WEIGHTS_KINDS = LSI_WEIGHTS_HALF + 1 };

/*
 * Called whenever the weights in flight may have moved: parts may have come.
 * This thread may wait in another group then.
 */
typedef void lsi_weight_fetch_moved_fn(void *context);

/*
 * For a set of which rank r of `group` owns elements r * shard .. (r + 1) *
 * shard - 1. A node also has those of its replicas' ranks
 * (lsi_node_is_replica). Collective.
 */
ls_status lsi_weight_fetch_new(lsi_weight_fetch **out, ls_group *group,
                               ls_params *params, size_t shard,
                               lsi_weight_fetch_moved_fn *moved, void *context);

/*
 * Returns when no rank asks any more, unless the group has failed. Collective.
 */
void lsi_weight_fetch_free(lsi_weight_fetch **out);

/* The lowest rank of this node, by which spans name it (observe/spans.h). */
int lsi_weight_fetch_node(const lsi_weight_fetch *fetch);

/* Elements of one owner that are asked for, from a rank that has them. */
typedef struct lsi_weight_fetch_part lsi_weight_fetch_part;

/*
 * The elements of a range that this node lacks, as parts: one for each owner.
 * *n is 0 if this node has them all. *out is the caller's (lsi_free).
 */
ls_status lsi_weight_fetch_plan(const lsi_weight_fetch *fetch,
                                lsi_range elements, lsi_weight_kind kind,
                                lsi_weight_fetch_part **out, size_t *n);

/* The elements of a part. */
lsi_range lsi_weight_fetch_elements(const lsi_weight_fetch_part *parts,
                                    size_t i);

/*
 * Asks for the parts, which come to their places in the node's copy. They have
 * come once lsi_weight_fetch_has_come, which lsi_weight_fetch_poll and waiting
 * bring about.
 */
void lsi_weight_fetch_ask(lsi_weight_fetch *fetch, lsi_weight_fetch_part *parts,
                          size_t n);
bool lsi_weight_fetch_has_come(const lsi_weight_fetch_part *parts, size_t n);

/* Moves what is in flight, and answers others. Does not wait. */
ls_status lsi_weight_fetch_poll(lsi_weight_fetch *fetch);

/* Waits until reached(goal), and answers others meanwhile. */
ls_status lsi_weight_fetch_wait(lsi_weight_fetch *fetch,
                                bool (*reached)(const void *goal),
                                const void *goal);

#endif
