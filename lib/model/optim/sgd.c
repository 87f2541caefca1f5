/*
 * Stochastic gradient descent with momentum:
 * v = momentum * v + g + weight_decay * p; p -= lr * v.
 * One array of state with momentum, none without.
 */
#include "array/compute/optimizers.h"
#include "base/error.h"
#include "base/structs.h"
#include "model/optim/optimizer.h"

static int n_states(const void *options)
{
    const ls_sgd_options *o = options;
    return (float)o->momentum > 0 ? 1 : 0;
}

static void update(const lsi_optimizer_update *u)
{
    const ls_sgd_options *o = u->options;
    const lsi_sgd numbers = {.lr = (float)u->lr,
                             .momentum = (float)o->momentum,
                             .weight_decay = (float)o->weight_decay,
                             .grad_scale = (float)u->grad_scale,
                             .first = u->step == 0};
    lsi_step_sgd(u->param, u->state[0], u->grad, u->n, &numbers);
}

/* Comparisons are written so that NaN is refused. */
static ls_status check(const void *options)
{
    const ls_sgd_options *o = options;
    if (!(o->momentum >= 0 && (float)o->momentum < 1))
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "sgd: momentum is %g; it must be at least 0 and below 1",
            o->momentum);
    return lsi_check_weight_decay("sgd", o->weight_decay);
}

static void read(void *options, double lr, const lsi_optimizer_flags *flags)
{
    *(ls_sgd_options *)options =
        (ls_sgd_options){.lr = lr,
                         .momentum = flags->momentum,
                         .weight_decay = flags->weight_decay};
}

static ls_status copy(void *options, double *lr, const void *given)
{
    static const ls_sgd_options usual = LS_SGD_OPTIONS_INIT;
    ls_sgd_options *const o = options;
    LS_TRY(LSI_STRUCT_READ(o, given != NULL ? given : &usual, ls_sgd_options,
                           weight_decay));
    if (o->lr == 0)
        o->lr = usual.lr;
    *lr = o->lr;
    return LS_OK;
}

const lsi_optimizer_row lsi_optimizer_sgd = {
    .name = "sgd",
    .options_bytes = sizeof(ls_sgd_options),
    .state_names = {"momentum_buffer"},
    .check = check,
    .n_states = n_states,
    .update = update,
    .read = read,
    .copy = copy,
};
