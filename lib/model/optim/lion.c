/*
 * Lion, as optim.h writes it out. One array of state, the running mean of
 * gradients: half of what AdamW keeps.
 */
#include <math.h>

#include "array/compute/optimizers.h"
#include "base/error.h"
#include "base/structs.h"
#include "model/optim/optimizer.h"

static void update(const lsi_optimizer_update *u)
{
    const ls_lion_options *o = u->options;
    const lsi_lion numbers = {.grad_scale = (float)u->grad_scale,
                              .beta1 = (float)o->beta1,
                              .rest1 = (float)(1 - o->beta1),
                              .beta2 = (float)o->beta2,
                              .rest2 = (float)(1 - o->beta2),
                              .lr = (float)u->lr,
                              .decay = (float)(u->lr * o->weight_decay)};
    lsi_step_lion(u->param, u->state[0], u->grad, u->n, &numbers);
}

static ls_status check(const void *options)
{
    const ls_lion_options *o = options;
    LS_TRY(lsi_check_beta("lion", "beta1", o->beta1));
    LS_TRY(lsi_check_beta("lion", "beta2", o->beta2));
    return lsi_check_weight_decay("lion", o->weight_decay);
}

static void read(void *options, double lr, const lsi_optimizer_flags *flags)
{
    *(ls_lion_options *)options =
        (ls_lion_options){.lr = lr,
                          .beta1 = flags->lion_beta1,
                          .beta2 = flags->lion_beta2,
                          .weight_decay = flags->weight_decay};
}

static ls_status copy(void *options, double *lr, const void *given)
{
    static const ls_lion_options usual = LS_LION_OPTIONS_INIT;
    ls_lion_options *const o = options;
    LS_TRY(LSI_STRUCT_READ(o, given != NULL ? given : &usual, ls_lion_options,
                           weight_decay));
    if (o->lr == 0)
        o->lr = usual.lr;
    *lr = o->lr;
    return LS_OK;
}

const lsi_optimizer_row lsi_optimizer_lion = {
    .name = "lion",
    .options_bytes = sizeof(ls_lion_options),
    .state_names = {"exp_avg"},
    .check = check,
    .update = update,
    .read = read,
    .copy = copy,
};
