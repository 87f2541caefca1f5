/* The part of an optimizer that does not depend on its kind. */
#include "optim/optimizer.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"

/* Elements that are worth another thread: about 10 microseconds. */
enum { GRAIN = 16384 };

struct ls_optimizer {
    const lsi_optimizer_kind *kind;
    ls_params *params;
    lsi_range range;
    void *options;
    float *state[LSI_OPTIMIZER_MAX_STATES];
    double lr;
    uint64_t step;
};

static const lsi_optimizer_kind *const kinds[] = {
#define X(name) &lsi_optimizer_##name,
#include "optim/optimizers.def"
#undef X
};

const lsi_optimizer_kind *const *lsi_optimizer_kinds(size_t *n)
{
    *n = sizeof kinds / sizeof kinds[0];
    return kinds;
}

ls_status lsi_optimizer_whole(const ls_params *params, lsi_range *range)
{
    size_t count = 0;
    if (ls_params_flat(params, &count) == NULL)
        return lsi_fail(LS_ERR_STATE,
                        "optimizer: the parameters are not allocated; call "
                        "ls_params_allocate first");
    *range = (lsi_range){0, count};
    return LS_OK;
}

/* What stays positive and finite as a float. */
static bool is_positive(double lr)
{
    return (float)lr > 0 && isfinite((float)lr);
}

static ls_status fill(ls_optimizer *optimizer, const void *options)
{
    const lsi_optimizer_kind *kind = optimizer->kind;
    LS_TRY(lsi_alloc(&optimizer->options, kind->options_bytes, LS_MEMORY_STATE,
                     "options of an optimizer"));
    memcpy(optimizer->options, options, kind->options_bytes);
    const size_t bytes = lsi_range_size(optimizer->range) * sizeof(float);
    const int n = kind->n_states(options);
    for (int i = 0; i < n; i++) {
        void *block = NULL;
        LS_TRY(lsi_alloc_zeroed(&block, bytes, LS_MEMORY_STATE, kind->name));
        optimizer->state[i] = block;
    }
    return LS_OK;
}

ls_status lsi_optimizer_new(ls_optimizer **out, const lsi_optimizer_kind *kind,
                            const void *options, double lr, ls_params *params,
                            lsi_range range)
{
    if (!is_positive(lr))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%s: lr is %g, must be positive and finite", kind->name,
                        lr);
    void *block = NULL;
    LS_TRY(lsi_alloc_zeroed(&block, sizeof(ls_optimizer), LS_MEMORY_STATE,
                            "optimizer"));
    ls_optimizer *optimizer = block;
    optimizer->kind = kind;
    optimizer->params = params;
    optimizer->range = range;
    optimizer->lr = lr;
    const ls_status status = fill(optimizer, options);
    if (status != LS_OK) {
        ls_optimizer_free(&optimizer);
        return status;
    }
    *out = optimizer;
    return LS_OK;
}

void ls_optimizer_free(ls_optimizer **optimizer)
{
    if (optimizer == NULL || *optimizer == NULL)
        return;
    for (int i = 0; i < LSI_OPTIMIZER_MAX_STATES; i++)
        lsi_free((*optimizer)->state[i]);
    lsi_free((*optimizer)->options);
    lsi_free(*optimizer);
    *optimizer = NULL;
}

typedef struct step_job {
    const ls_optimizer *optimizer;
    lsi_optimizer_update whole;
} step_job;

static void update_part(void *context, size_t begin, size_t end)
{
    const step_job *job = context;
    lsi_optimizer_update part = job->whole;
    part.param += begin;
    part.grad += begin;
    for (int i = 0; i < LSI_OPTIMIZER_MAX_STATES; i++) {
        if (part.state[i] != NULL)
            part.state[i] += begin;
    }
    part.n = end - begin;
    job->optimizer->kind->update(&part);
}

ls_status ls_optimizer_step(ls_optimizer *optimizer, double grad_scale)
{
    if (!isfinite((float)grad_scale))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_optimizer_step: grad_scale is %g, must be finite",
                        grad_scale);
    ls_params_finish_grad(optimizer->params);
    size_t count;
    const size_t first = optimizer->range.begin;
    step_job job = {
        .optimizer = optimizer,
        .whole = {
            .param = ls_params_flat(optimizer->params, &count) + first,
            .grad = ls_params_flat_grad(optimizer->params, &count) + first,
            .options = optimizer->options,
            .lr = (float)optimizer->lr,
            .grad_scale = (float)grad_scale,
            .step = optimizer->step,
        }};
    memcpy(job.whole.state, optimizer->state, sizeof job.whole.state);
    lsi_parallel_for(lsi_range_size(optimizer->range), GRAIN, update_part,
                     &job);
    optimizer->step++;
    return LS_OK;
}

ls_status ls_optimizer_set_lr(ls_optimizer *optimizer, double lr)
{
    if (lr != 0 && !is_positive(lr))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_optimizer_set_lr: lr is %g, must be finite and not "
                        "negative",
                        lr);
    optimizer->lr = lr;
    return LS_OK;
}

double ls_optimizer_lr(const ls_optimizer *optimizer)
{
    return optimizer->lr;
}
