/* The gradient-ready hook: how higher layers learn that a gradient is final. */
#include "base/error.h"
#include "model/autograd/params.h"

void ls_params_on_grad_ready(ls_params *params, ls_grad_ready_fn fn,
                             void *context)
{
    if (params == NULL)
        return;
    params->on_ready = fn;
    params->on_ready_context = context;
}

ls_status lsi_param_ready(lsi_param *param)
{
    ls_params *set = param->set;
    if (param->written == 0) /* reached, but nothing flowed */
        lsi_params_fold(set, param->index);
    if (set->on_ready != NULL)
        LS_TRY(set->on_ready(set->on_ready_context, param->index));
    if (set->sharing.owner != NULL)
        LS_TRY(set->sharing.owner->ready(set->sharing.owner->context,
                                         param->index));
    return LS_OK;
}
