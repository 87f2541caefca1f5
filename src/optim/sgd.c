/*
 * Stochastic gradient descent with momentum:
 * v = momentum * v + g + weight_decay * p; p -= lr * v.
 * One array of state with momentum, none without.
 */
#include <math.h>

#include "base/error.h"
#include "kernels/kernels.h"
#include "optim/optimizer.h"

static int n_states(const void *options)
{
    const ls_sgd_options *o = options;
    return (float)o->momentum > 0 ? 1 : 0;
}

static void update(const lsi_optimizer_update *u)
{
    const ls_sgd_options *o = u->options;
    lsi_kernels_get()->sgd(u->param, u->state[0], u->grad, u->n, u->lr,
                           (float)o->momentum, (float)o->weight_decay,
                           u->grad_scale, u->step == 0);
}

static const ls_sgd_options usual_options = {
    .lr = 0.1, .momentum = 0.9, .weight_decay = 5e-4};

const lsi_optimizer_kind lsi_optimizer_sgd = {
    .name = "sgd",
    .options_bytes = sizeof(ls_sgd_options),
    .usual_options = &usual_options,
    .n_states = n_states,
    .update = update,
};

/* Comparisons are written so that NaN is refused. */
static ls_status check(const ls_sgd_options *o)
{
    if (!(o->momentum >= 0 && (float)o->momentum < 1))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "sgd: momentum is %g, must be at least 0 and below 1",
                        o->momentum);
    if (!(o->weight_decay >= 0) || !isfinite((float)o->weight_decay))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "sgd: weight_decay is %g, must be finite and not "
                        "negative",
                        o->weight_decay);
    return LS_OK;
}

ls_status ls_sgd_new(ls_optimizer **out, ls_params *params,
                     ls_sgd_options options)
{
    lsi_range range;
    LS_TRY(check(&options));
    LS_TRY(lsi_optimizer_whole(params, &range));
    return lsi_optimizer_new(out, &lsi_optimizer_sgd, &options, options.lr,
                             params, range);
}
