/*
 * Weights divided over nodes: which of them a node has at a time.
 *
 * A layer is a run of parameters with the same layer in their names
 * (layer_name.h). A window of `ahead` + 1 layers moves over the model, forward
 * and then backward: layers that enter it are gathered, those that leave it are
 * let go (Rajbhandari et al. 2020, ZeRO, section 5.3). It stays within the
 * model, so backward begins with layers that forward has kept. A layer that is
 * used again after it was left, such as a tied table, is kept until the next
 * step.
 *
 * The ranks of a node gather each parameter once, into the node's one copy: the
 * first that needs it asks, and the others wait. The last that lets it go gives
 * its pages back. A word for each parameter, which all of them map, says how
 * far it is and how many ranks use it. A rank can access the pages of the
 * weights that it uses; those of other absent weights are PROT_NONE
 * (params/page_guard.h).
 */
#ifndef LS_MODEL_PARALLEL_GATHER_H
#define LS_MODEL_PARALLEL_GATHER_H

#include "model/parallel/weight_fetch.h"

typedef struct lsi_gather lsi_gather;

/* As lsi_weight_fetch_new. */
ls_status lsi_gather_new(lsi_gather **out, ls_group *group, ls_params *params,
                         size_t shard, size_t ahead);
void lsi_gather_free(lsi_gather **out); /* collective */

/*
 * Returns when the parameter is on this node. It stays until this thread has
 * finished an operation (lsi_tensor_uses) and needed another parameter, unless
 * the window has its layer. A need that is in no pass leaves the window where
 * it is.
 */
ls_status lsi_gather_need(lsi_gather *gather, size_t param,
                          lsi_weights_need need);

/* The same for the kinds in which the parameter was needed before. */
ls_status lsi_gather_need_again(lsi_gather *gather, size_t param);

/*
 * Lets all go: owners may write when all ranks have returned. Answers nobody; a
 * barrier must follow.
 */
ls_status lsi_gather_let_go(lsi_gather *gather);

#endif
