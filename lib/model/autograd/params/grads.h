/*
 * Gradients of a set, from backward to the optimizer.
 *
 * A batch may be cut into *slices*, and each gradient then has one buffer per
 * slice; slice 0's buffer is flat_grad. An operation that sums over the batch
 * adds each slice's sum to the slice's buffer. An operation without support for
 * slices fails in backward (node.c). Before gradients leave the set, the slices
 * are folded into flat_grad as a reduction folds ranks. So m slices on each of
 * N ranks give the same bits as one slice on each of m N ranks, for powers of
 * 2.
 */
#ifndef LS_MODEL_AUTOGRAD_PARAMS_GRADS_H
#define LS_MODEL_AUTOGRAD_PARAMS_GRADS_H

#include "model/autograd/params/storage.h"
#include "model/autograd/slices.h"

/*
 * The target of slice j's sum, or slice 0's target if slice j does not exist.
 * *accumulate is true if the target already holds a sum.
 */
float *lsi_param_slice(lsi_param *param, int slice, bool *accumulate);

/* Folds all slices into parameter `index`'s gradient; zeros without any. */
void lsi_params_fold(ls_params *params, size_t index);

/*
 * Gradients of which a rank keeps only its part (strategy fsdp): pages that
 * hold other ranks' parts are freed as soon as those ranks have them.
 *
 * lsi_params_set_dropping sets whether this rank drops gradients that it does
 * not own. If so, lsi_params_count_grad counts the memory of parameter
 * `index`'s gradient, which is now in use. lsi_params_drop_grads drops a range
 * that has been reduced, except for this rank's part.
 */
void lsi_params_set_dropping(ls_params *params, bool drop);
ls_status lsi_params_count_grad(ls_params *params, size_t index);
void lsi_params_drop_grads(ls_params *params, lsi_range range);

/* Announces a final gradient: calls the program's hook, then the owner. */
ls_status lsi_param_ready(lsi_param *param);

#endif
