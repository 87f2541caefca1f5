/*
 * Gradients of a set: what becomes of them from backward to the optimizer.
 *
 * A batch may be cut into *slices*, and each gradient then has a buffer for
 * each of them: slice 0's is flat_grad. An operation that sums over the batch
 * adds each slice's sum to the slice's buffer; one without support for slices
 * adds everything to slice 0. Before gradients leave the set the slices are
 * folded into flat_grad, as ranks are by a reduction, so that m slices on each
 * of N ranks give the bits of one slice on each of m N ranks, for powers of 2.
 */
#ifndef LS_MODEL_AUTOGRAD_PARAMS_GRADS_H
#define LS_MODEL_AUTOGRAD_PARAMS_GRADS_H

#include "model/autograd/params/storage.h"

enum { LSI_MAX_SLICES = 64 };

/*
 * Cuts batches into 1..LSI_MAX_SLICES slices. Before ls_params_allocate. While
 * there are several, ls_grad is that of slice 0 until a fold.
 */
ls_status lsi_params_set_slices(ls_params *params, int slices);

/*
 * Where slice j's sum goes, if there is such a slice, else slice 0's;
 * *accumulate says whether something is there already.
 */
float *lsi_param_slice(lsi_param *param, int slice, bool *accumulate);

/* Parameter `index`'s gradient becomes that of all slices, or zeros if there is
 * none. */
void lsi_params_fold(ls_params *params, size_t index);

/*
 * Gradients of which a rank keeps only its part (strategy fsdp): pages that
 * hold other ranks' parts are freed as soon as those ranks have them.
 *
 * Whether this rank drops gradients that it does not own. If so: parameter
 * `index`'s is there now; those of a range have been reduced, and what is not
 * this rank's part of them is dropped.
 */
void lsi_params_set_dropping(ls_params *params, bool drop);
ls_status lsi_params_count_grad(ls_params *params, size_t index);
void lsi_params_drop_grads(ls_params *params, lsi_range range);

/* Tells that the gradient is final: the program's hook, then the owner. */
ls_status lsi_param_ready(lsi_param *param);

#endif
