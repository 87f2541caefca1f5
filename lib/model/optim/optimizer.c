/* The part of an optimizer that does not depend on its kind. */
#include "model/optim/optimizer.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "array/compute/array.h"
#include "array/compute/threads.h"
#include "base/error.h"
#include "base/memory.h"
#include "model/autograd/params.h"
#include "model/autograd/params/adopt.h"
#include "model/optim/param_group.h"
#include "observe/live.h"
#include "observe/span_file.h"
#include "observe/spans.h"

static const lsi_optimizer_row *const kinds[] = {
#define X(name, ...) &lsi_optimizer_##name,
    LSI_OPTIMIZERS(X, LSI_OPTIMIZER_NOT)
#undef X
};

static const struct {
    double lr, weight_decay;
} usual[] = {
#define X(name, lr, weight_decay) {lr, weight_decay},
    LSI_OPTIMIZERS(X, LSI_OPTIMIZER_NOT)
#undef X
};

static const lsi_optimizer_flags usual_flags = {
#define X(kind, owner, field, name, value, usual, ...) .field = (usual),
    LSI_OPTIMIZERS(LSI_OPTIMIZER_NOT, X)
#undef X
        .weight_decay = -1};

enum { KINDS = sizeof kinds / sizeof kinds[0] };

enum {
    PIECE = 1 << 15, /* elements for a thread; their average is in a cache */
    GRAIN = 1 << 14  /* elements worth a thread */
};

const lsi_optimizer_row *const *lsi_optimizer_kinds(size_t *n)
{
    *n = KINDS;
    return kinds;
}

const lsi_optimizer_row *lsi_optimizer_find(const char *name)
{
    for (size_t i = 0; i < KINDS; i++)
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    return NULL;
}

static size_t index_of(const lsi_optimizer_row *kind)
{
    size_t i = 0;
    while (kinds[i] != kind)
        i++;
    return i;
}

double lsi_optimizer_usual_lr(const lsi_optimizer_row *kind)
{
    return usual[index_of(kind)].lr;
}

double lsi_optimizer_usual_decay(const lsi_optimizer_row *kind)
{
    return usual[index_of(kind)].weight_decay;
}

int lsi_optimizer_states(const lsi_optimizer_row *kind, const void *options)
{
    int n = 0;
    if (kind->n_states != NULL)
        return kind->n_states(options);
    while (n < LSI_OPTIMIZER_MAX_STATES && kind->state_names[n] != NULL)
        n++;
    return n;
}

/* ---- flags --------------------------------------------------------------- */

static lsi_any_options read_flags(const lsi_optimizer_row *kind, double lr,
                                  const lsi_optimizer_flags *flags)
{
    lsi_any_options options;
    lsi_optimizer_flags complete = *flags;
    assert(kind->options_bytes <= sizeof(options));
    if (complete.weight_decay < 0)
        complete.weight_decay = lsi_optimizer_usual_decay(kind);
    kind->read(&options, lr, &complete);
    return options;
}

void lsi_optimizer_usual_options(const lsi_optimizer_row *kind, void *options)
{
    const lsi_any_options usual_ones =
        read_flags(kind, lsi_optimizer_usual_lr(kind), &usual_flags);
    memcpy(options, &usual_ones, kind->options_bytes);
}

ls_status lsi_optimizer_from_flags(ls_optimizer **out, ls_params *params,
                                   const lsi_optimizer_row *kind, double lr,
                                   const lsi_optimizer_flags *flags)
{
    const lsi_any_options options = read_flags(kind, lr, flags);
    const lsi_param_group_spec spec = {kind, &options, lr, NULL, 0};
    return lsi_optimizer_with(out, params, &spec);
}

int lsi_optimizer_flags_states(const lsi_optimizer_row *kind, double lr,
                               const lsi_optimizer_flags *flags)
{
    const lsi_any_options options = read_flags(kind, lr, flags);
    return lsi_optimizer_states(kind, &options);
}

/* ---- options ------------------------------------------------------------- */

/* Whether a rate is positive and finite as a float. */
static bool is_positive(double lr)
{
    return (float)lr > 0 && isfinite((float)lr);
}

ls_status lsi_check_lr(const char *kind, double lr)
{
    if (is_positive(lr))
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "%s: lr is %g; it must be positive and finite", kind, lr);
}

ls_status lsi_check_beta(const char *kind, const char *name, double beta)
{
    if (beta >= 0 && (float)beta < 1)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "%s: %s is %g; it must be at least 0 and below 1", kind,
                    name, beta);
}

ls_status lsi_check_weight_decay(const char *kind, double weight_decay)
{
    if (weight_decay >= 0 && isfinite((float)weight_decay))
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "%s: weight_decay is %g; it must be finite and at least 0",
                    kind, weight_decay);
}

/* ---- life ---------------------------------------------------------------- */

static ls_status check_params(const ls_params *params)
{
    if (params != NULL && params->storage.allocated)
        return LS_OK;
    return lsi_fail(LS_ERR_STATE,
                    "optimizer: the parameters are not allocated; call "
                    "ls_params_allocate first");
}

ls_status lsi_optimizer_with(ls_optimizer **out, ls_params *params,
                             const lsi_param_group_spec *spec)
{
    LS_TRY(check_params(params));
    LS_TRY(lsi_params_fill(params));
    ls_optimizer *optimizer;
    LS_TRY(lsi_alloc_zeroed(&optimizer, sizeof(ls_optimizer), LS_MEMORY_STATE,
                            "optimizer"));
    optimizer->kind = spec->kind;
    optimizer->params = params;
    optimizer->division = params->sharing.divisions;
    const ls_status status = lsi_optimizer_join(optimizer, spec);
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
    for (size_t i = 0; i < (*optimizer)->n_groups; i++)
        lsi_param_group_free(&(*optimizer)->groups[i]);
    lsi_free((*optimizer)->groups);
    lsi_ema_free_buffers(&(*optimizer)->ema);
    lsi_free(*optimizer);
    *optimizer = NULL;
}

/* Groups are few and added seldom, so each reallocates the list. */
ls_status lsi_optimizer_join(ls_optimizer *optimizer,
                             const lsi_param_group_spec *spec)
{
    if (spec->kind != optimizer->kind)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "cannot add a parameter group of kind %s to an "
                        "optimizer of kind %s",
                        spec->kind->name, optimizer->kind->name);
    const size_t n = optimizer->n_groups;
    lsi_param_group *group = NULL;
    LS_TRY(lsi_param_group_new(&group, optimizer, spec));
    ls_status status =
        lsi_alloc_larger(&optimizer->groups, n * sizeof(lsi_param_group *),
                         (n + 1) * sizeof(lsi_param_group *), LS_MEMORY_STATE,
                         "the groups of an optimizer");
    if (status == LS_OK && optimizer->ema.decay > 0)
        status = lsi_param_group_add_average(group, optimizer->params,
                                             optimizer->ema.decay);
    if (status != LS_OK) {
        lsi_param_group_free(&group);
        return status;
    }
    optimizer->groups[optimizer->n_groups++] = group;
    return LS_OK;
}

size_t ls_optimizer_groups(const ls_optimizer *optimizer)
{
    return optimizer != NULL ? optimizer->n_groups : 0;
}

/* ---- steps --------------------------------------------------------------- */

typedef struct part_job {
    const lsi_optimizer_row *kind;
    const lsi_optimizer_update *whole;
} part_job;

static void update_part(void *context, size_t begin, size_t end)
{
    const part_job *const job = context;
    lsi_optimizer_update part = *job->whole;
    part.param += begin;
    part.grad += begin;
    part.n = end - begin;
    for (int i = 0; i < LSI_OPTIMIZER_MAX_STATES; i++)
        part.state[i] = part.state[i] != NULL ? part.state[i] + begin : NULL;
    job->kind->update_part(&part);
}

/* Updates with all threads. */
static void update_in_parts(const lsi_optimizer_row *kind,
                            const lsi_optimizer_update *whole)
{
    LSI_SPAN(KERNEL, kind->name, 20 * whole->n, 10 * whole->n); /* about */
    part_job job = {kind, whole};
    lsi_parallel_for(whole->n, GRAIN, update_part, &job);
}

static void update_run(const ls_params *params, const lsi_param_group *group,
                       lsi_state_run run, double grad_scale)
{
    lsi_optimizer_update update = {.param = run.weights,
                                   .grad = params->storage.flat_grad + run.flat,
                                   .n = run.n,
                                   .options = group->options,
                                   .lr = group->lr,
                                   .grad_scale = grad_scale,
                                   .step = group->steps};
    const int own = group->n_states - (group->average != NULL);
    for (int i = 0; i < own; i++)
        update.state[i] = group->state[i] + run.at;
    if (group->kind->update != NULL)
        group->kind->update(&update);
    else
        update_in_parts(group->kind, &update);
}

/* Updates a run, and the average of its weights. */
static void average_run(const ls_params *params, const lsi_param_group *group,
                        lsi_state_run run, double grad_scale)
{
    update_run(params, group, run, grad_scale);
    lsi_array_blend(group->average + run.at, run.weights,
                    lsi_ema_rest(group->decay, group->steps), run.n);
}

/* Walks piece by piece if the weights are not contiguous. */
static void walk_run(const ls_params *params, const lsi_param_group *group,
                     lsi_state_run run, lsi_state_run_fn fn, double argument)
{
    const size_t flat_end = run.flat + run.n;
    for (; run.flat < flat_end; run.flat += run.n, run.at += run.n) {
        run.n = flat_end - run.flat;
        run.weights = lsi_params_weights(params, run.flat, &run.n);
        if (run.weights != NULL)
            fn(params, group, run, argument);
    }
}

/* Walks the groups' parts of a range of the flat layout. */
static void walk_range(const ls_optimizer *optimizer, lsi_range range,
                       lsi_state_run_fn fn, double argument)
{
    for (size_t i = 0; i < optimizer->n_groups; i++) {
        const lsi_param_group *group = optimizer->groups[i];
        const lsi_range part = lsi_param_group_part(group, range);
        const lsi_state_segment *segment =
            lsi_param_group_segment(group, part.begin);
        lsi_range run = part;
        for (; run.begin < part.end; run.begin = run.end, segment++) {
            const size_t end = segment->at + lsi_range_size(segment->range);
            run.end = part.end < end ? part.end : end;
            walk_run(
                optimizer->params, group,
                (lsi_state_run){segment->range.begin + run.begin - segment->at,
                                run.begin, lsi_range_size(run), NULL},
                fn, argument);
        }
    }
}

static void end_step(ls_optimizer *optimizer)
{
    lsi_ema_step_buffers(optimizer);
    for (size_t i = 0; i < optimizer->n_groups; i++)
        optimizer->groups[i]->steps++;
    lsi_params_stepped(optimizer->params);
}

/* An ls_ddp over a set may leave only a part of it to an optimizer. */
ls_status lsi_optimizer_check_division(const ls_optimizer *optimizer,
                                       const char *function)
{
    const ls_params *const params = optimizer->params;
    if (params->sharing.one_copy && params->sharing.owner == NULL)
        return lsi_fail(
            LS_ERR_STATE,
            "%s: the ranks of a node share one copy of these parameters, so "
            "this works only under an ls_ddp; call ls_ddp_new, then create the "
            "optimizer",
            function);
    if (optimizer->division == params->sharing.divisions)
        return LS_OK;
    return lsi_fail(
        LS_ERR_STATE,
        "%s: this optimizer was created before ls_ddp_new or ls_ddp_free "
        "changed which rank owns which parameters; create it after that call",
        function);
}

/*
 * Elements per piece: a rank works piece by piece if it passes updated weights
 * on, or averages them.
 */
static size_t piece_of(const ls_optimizer *optimizer)
{
    const lsi_params_owner *const owner = optimizer->params->sharing.owner;
    if (owner != NULL && owner->moved != NULL)
        return owner->piece;
    return optimizer->ema.decay > 0 ? (size_t)lsi_threads() * PIECE : SIZE_MAX;
}

void lsi_optimizer_walk(const ls_optimizer *optimizer, lsi_state_run_fn fn,
                        double argument)
{
    size_t n;
    const ls_params *const params = optimizer->params;
    const lsi_params_owner *const owner = params->sharing.owner;
    const lsi_range *const owned = lsi_params_owned(params, &n);
    const size_t most = piece_of(optimizer);
    for (size_t i = 0; i < n; i++) {
        lsi_range piece = owned[i];
        for (; piece.begin < owned[i].end; piece.begin = piece.end) {
            const size_t left = owned[i].end - piece.begin;
            piece.end = piece.begin + (left < most ? left : most);
            walk_range(optimizer, piece, fn, argument);
            if (owner != NULL && owner->moved != NULL)
                owner->moved(owner->context, piece);
        }
    }
}

static ls_status step(ls_optimizer *optimizer, double grad_scale)
{
    LSI_SPAN(PHASE, "optimizer", 0, 0);
    const lsi_params_owner *const owner = optimizer->params->sharing.owner;
    LS_TRY(lsi_optimizer_check_division(optimizer, "ls_optimizer_step"));
    LS_TRY(lsi_ema_check_place(optimizer, "ls_optimizer_step"));
    if (owner != NULL)
        LS_TRY(owner->before_step(owner->context));
    ls_params_finish_grad(optimizer->params);
    lsi_optimizer_walk(optimizer,
                       optimizer->ema.decay > 0 ? average_run : update_run,
                       grad_scale);
    end_step(optimizer);
    if (owner != NULL)
        LS_TRY(owner->after_step(owner->context));
    lsi_params_write_back(optimizer->params, true);
    lsi_live_step();
    return LS_OK;
}

ls_status ls_optimizer_step(ls_optimizer *optimizer, double grad_scale)
{
    LS_NEED(optimizer);
    if (!isfinite((float)grad_scale))
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "ls_optimizer_step: grad_scale is %g; it must be finite",
            grad_scale);
    LS_TRY(step(optimizer, grad_scale));
    lsi_span_end_optimizer_step(); /* after the span of the step */
    return LS_OK;
}

/* ---- learning rates ------------------------------------------------------ */

static ls_status check_new_lr(double lr)
{
    if (lr == 0 || is_positive(lr))
        return LS_OK;
    return lsi_fail(
        LS_ERR_ARGUMENT,
        "ls_optimizer_set_lr: lr is %g; it must be finite and at least 0", lr);
}

ls_status ls_optimizer_set_lr(ls_optimizer *optimizer, double lr)
{
    LS_NEED(optimizer);
    LS_TRY(check_new_lr(lr));
    for (size_t i = 0; i < optimizer->n_groups; i++)
        optimizer->groups[i]->lr = lr;
    return LS_OK;
}

ls_status ls_optimizer_set_group_lr(ls_optimizer *optimizer, size_t group,
                                    double lr)
{
    LS_NEED(optimizer);
    LS_TRY(check_new_lr(lr));
    if (group >= optimizer->n_groups)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_optimizer_set_group_lr: group %zu does not exist; "
                        "groups in the optimizer: %zu",
                        group, optimizer->n_groups);
    optimizer->groups[group]->lr = lr;
    return LS_OK;
}

double ls_optimizer_group_lr(const ls_optimizer *optimizer, size_t group)
{
    return optimizer != NULL && group < optimizer->n_groups
               ? optimizer->groups[group]->lr
               : 0;
}

double ls_optimizer_lr(const ls_optimizer *optimizer)
{
    return ls_optimizer_group_lr(optimizer, 0);
}
