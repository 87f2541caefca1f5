/*
 * AdamW, in the two orders that optim.h writes out. Two arrays of state: the
 * running means of gradients and of their squares.
 *
 * Both orders use one kernel. They differ in the learning rate and in the
 * factor of sqrt(v), and one of the two decays is 0.
 */
#include <math.h>
#include <string.h>

#include "array/compute/optimizers.h"
#include "base/error.h"
#include "base/math.h"
#include "base/structs.h"
#include "model/optim/optimizer.h"

static lsi_adamw numbers_of(const lsi_optimizer_update *u)
{
    const ls_adamw_options *o = u->options;
    const bool first = o->order == LS_ADAMW_DECAY_FIRST;
    const double t = (double)(u->step + 1);
    const double mean = 1 - lsi_pow(o->beta1, t);
    const double root = sqrt(1 - lsi_pow(o->beta2, t));
    const float decay = (float)(u->lr * o->weight_decay);
    return (lsi_adamw){.grad_scale = (float)u->grad_scale,
                       .beta1 = (float)o->beta1,
                       .rest1 = (float)(1 - o->beta1),
                       .beta2 = (float)o->beta2,
                       .rest2 = (float)(1 - o->beta2),
                       .step =
                           (float)(first ? u->lr / mean : u->lr * root / mean),
                       .root_scale = (float)(first ? 1 / root : 1),
                       .eps = (float)o->eps,
                       .decay_first = first ? decay : 0,
                       .decay_last = first ? 0 : decay};
}

static void update(const lsi_optimizer_update *u)
{
    const lsi_adamw numbers = numbers_of(u);
    lsi_step_adamw(u->param, u->state[0], u->state[1], u->grad, u->n, &numbers);
}

static ls_status check(const void *options)
{
    const ls_adamw_options *o = options;
    LS_TRY(lsi_check_beta("adamw", "beta1", o->beta1));
    LS_TRY(lsi_check_beta("adamw", "beta2", o->beta2));
    if (!((float)o->eps > 0) || !isfinite((float)o->eps))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "adamw: eps is %g; it must be positive and finite",
                        o->eps);
    if (o->order != LS_ADAMW_DECAY_FIRST && o->order != LS_ADAMW_DECAY_LAST)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "adamw: unknown order of weight decay %d",
                        (int)o->order);
    return lsi_check_weight_decay("adamw", o->weight_decay);
}

static void read(void *options, double lr, const lsi_optimizer_flags *flags)
{
    const bool last = strcmp(flags->decay_order, "last") == 0;
    *(ls_adamw_options *)options = (ls_adamw_options){
        .lr = lr,
        .beta1 = flags->beta1,
        .beta2 = flags->beta2,
        .eps = flags->eps,
        .weight_decay = flags->weight_decay,
        .order = last ? LS_ADAMW_DECAY_LAST : LS_ADAMW_DECAY_FIRST};
}

static ls_status copy(void *options, double *lr, const void *given)
{
    static const ls_adamw_options usual = LS_ADAMW_OPTIONS_INIT;
    ls_adamw_options *const o = options;
    LS_TRY(LSI_STRUCT_READ(o, given != NULL ? given : &usual, ls_adamw_options,
                           order));
    if (o->lr == 0)
        o->lr = usual.lr;
    if (o->eps == 0)
        o->eps = usual.eps;
    *lr = o->lr;
    return LS_OK;
}

const lsi_optimizer_row lsi_optimizer_adamw = {
    .name = "adamw",
    .options_bytes = sizeof(ls_adamw_options),
    .state_names = {"exp_avg", "exp_avg_sq"},
    .check = check,
    .update = update,
    .read = read,
    .copy = copy,
};
