/*
 * Gradients of which a rank keeps only its part (strategy fsdp): pages that
 * hold other ranks' parts are freed as soon as those ranks have them.
 */
#ifndef LS_MODEL_AUTOGRAD_PARAMS_DROP_H
#define LS_MODEL_AUTOGRAD_PARAMS_DROP_H

#include "model/autograd/params/storage.h"

/*
 * Whether this rank drops gradients that it does not own. If so: parameter
 * `index`'s is there now; those of a range have been reduced, and what is not
 * this rank's part of them is dropped.
 */
void lsi_params_set_dropping(ls_params *params, bool drop);
ls_status lsi_params_count_grad(ls_params *params, size_t index);
void lsi_params_drop_grads(ls_params *params, lsi_range range);

#endif
