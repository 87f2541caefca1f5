/* Recipes: the optimizer that a command has named, and its steps. */
#include "train/recipe.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static const char decay_name[] = "--weight-decay";
static const char warmup_name[] = "--warmup-steps";

/* A norm that no gradients have: they are measured and not clipped. */
#define CLIP_NOTHING 1e30

enum { WARMUP_SHARE = 20, MOST_WARMUP = 2000 };

static double lr_of(const lsi_recipe *recipe, const lsi_optimizer_row *kind)
{
    return recipe->lr > 0 ? recipe->lr : lsi_optimizer_usual_lr(kind);
}

/* The flags, with defaults where the user gave none. */
static lsi_optimizer_flags flags_of(const lsi_recipe *recipe,
                                    const lsi_optimizer_row *kind)
{
    lsi_optimizer_flags flags = recipe->flags;
    if (flags.weight_decay < 0 && kind != NULL)
        flags.weight_decay = lsi_optimizer_usual_decay(kind);
    return flags;
}

/* Kind of the schedule; an unknown name is constant. */
static ls_lr_kind kind_of(const lsi_recipe *recipe)
{
    static const char *const names[] = {
        [LS_LR_CONSTANT] = "constant", [LS_LR_COSINE] = "cosine",
        [LS_LR_LINEAR] = "linear",     [LS_LR_INVERSE_SQRT] = "inverse-sqrt",
        [LS_LR_WSD] = "wsd",           [LS_LR_ONE_CYCLE] = "one-cycle"};
    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++)
        if (strcmp(names[i], recipe->schedule) == 0)
            return (ls_lr_kind)i;
    return LS_LR_CONSTANT;
}

/* Default: a share of the steps, for a schedule that ends with the last. */
static int64_t warmup_of(const lsi_recipe *recipe, int64_t total_steps)
{
    const ls_lr_kind kind = kind_of(recipe);
    const int64_t share = total_steps / WARMUP_SHARE;
    if (recipe->warmup_steps >= 0)
        return recipe->warmup_steps;
    if (kind != LS_LR_COSINE && kind != LS_LR_LINEAR && kind != LS_LR_WSD)
        return 0;
    return share < MOST_WARMUP ? share : MOST_WARMUP;
}

int lsi_recipe_moments(const lsi_recipe *recipe)
{
    const lsi_optimizer_row *const kind = lsi_optimizer_find(recipe->optimizer);
    if (kind == NULL)
        return 0;
    return (recipe->ema > 0) + lsi_optimizer_flags_states(
                                   kind, lr_of(recipe, kind), &recipe->flags);
}

ls_status lsi_recipe_check(const lsi_recipe *recipe)
{
    const lsi_optimizer_row *const kind = lsi_optimizer_find(recipe->optimizer);
    if (kind == NULL)
        return lsi_fail(LS_ERR_ARGUMENT, "unknown optimizer '%s'",
                        recipe->optimizer);
    if (kind_of(recipe) != LS_LR_CONSTANT &&
        recipe->min_lr > lr_of(recipe, kind))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--min-lr %g is above --lr %g, the highest learning "
                        "rate of the schedule",
                        recipe->min_lr, lr_of(recipe, kind));
    return LS_OK;
}

/*
 * Adds the flags of the recipe's optimizer; flags of other optimizers may
 * change when a run resumes. The weight decay is the last number, as in
 * checkpoints.
 */
static void describe_flags(const lsi_optimizer_flags *flags,
                           const char *optimizer, lsi_run_config *config)
{
#define FLAG(kind, owner, field, name, ...)                                    \
    if (strcmp(#owner, optimizer) == 0)                                        \
        kind("--" name, flags->field);
#define REAL(name, value)   lsi_run_config_real(config, name, value)
#define CHOICE(name, value) (void)(value)
    LSI_OPTIMIZERS(LSI_OPTIMIZER_NOT, FLAG)
#undef REAL
#undef CHOICE
    lsi_run_config_real(config, decay_name, flags->weight_decay);
#define REAL(name, value)   (void)(value)
#define CHOICE(name, value) lsi_run_config_text(config, name, value)
    LSI_OPTIMIZERS(LSI_OPTIMIZER_NOT, FLAG)
#undef FLAG
}

void lsi_recipe_describe(const lsi_recipe *recipe, int64_t total_steps,
                         lsi_run_config *config)
{
    const lsi_optimizer_row *const kind = lsi_optimizer_find(recipe->optimizer);
    const lsi_optimizer_flags flags = flags_of(recipe, kind);
    lsi_run_config_text(config, "--optimizer", recipe->optimizer);
    const size_t lr = config->n;
    lsi_run_config_real(config, "--lr",
                        kind != NULL ? lr_of(recipe, kind) : recipe->lr);
    lsi_run_config_schedule(config, lr);
    describe_flags(&flags, recipe->optimizer, config);
    if (recipe->flags.weight_decay < 0)
        lsi_run_config_usual(config, decay_name);
    lsi_run_config_real(config, "--clip-norm", recipe->clip_norm);
    lsi_run_config_real(config, "--ema", recipe->ema);
    lsi_run_config_before(config, "0");
    const size_t first = config->n;
    lsi_run_config_text(config, "--schedule", recipe->schedule);
    lsi_run_config_int(config, warmup_name, warmup_of(recipe, total_steps));
    if (recipe->warmup_steps < 0)
        lsi_run_config_usual(config, warmup_name);
    lsi_run_config_real(config, "--min-lr", recipe->min_lr);
    const ls_lr_kind schedule = kind_of(recipe);
    if (schedule != LS_LR_CONSTANT && schedule != LS_LR_INVERSE_SQRT) {
        lsi_run_config_int(config, "steps of the schedule", total_steps);
        lsi_run_config_end(config);
    }
    if (schedule == LS_LR_WSD)
        lsi_run_config_int(config, "--decay-steps", recipe->decay_steps);
    lsi_run_config_schedule(config, first);
}

/* Number of a setting, whose text may come from a checkpoint. */
static ls_status read_number(const lsi_run_config *config, const char *name,
                             double *out)
{
    const char *const text = lsi_run_config_value(config, name);
    char *end;
    *out = strtod(text, &end);
    if (end != text && *end == '\0' && *out >= 0 && isfinite(*out))
        return LS_OK;
    return lsi_fail(LS_ERR_FORMAT,
                    "the checkpoint is damaged: its %s is '%s', but must be a "
                    "number of at least 0",
                    name, text);
}

ls_status lsi_recipe_settle(lsi_recipe *recipe, const lsi_run_config *config)
{
    const lsi_optimizer_row *const kind = lsi_optimizer_find(recipe->optimizer);
    double decay = recipe->flags.weight_decay;
    double warmup = (double)recipe->warmup_steps;
    if (decay < 0)
        LS_TRY(read_number(config, decay_name, &decay));
    if (warmup < 0)
        LS_TRY(read_number(config, warmup_name, &warmup));
    if (kind != NULL)
        recipe->lr = lr_of(recipe, kind);
    recipe->flags.weight_decay = decay;
    recipe->warmup_steps = warmup < 1e15 ? (int64_t)warmup : (int64_t)1e15;
    return LS_OK;
}

static ls_status fill(lsi_stepper *stepper, ls_params *params,
                      const lsi_recipe *recipe, int64_t total_steps)
{
    LS_TRY(lsi_recipe_check(recipe));
    const lsi_optimizer_row *const kind = lsi_optimizer_find(recipe->optimizer);
    const double lr = lr_of(recipe, kind);
    stepper->schedule =
        (ls_lr_schedule){.kind = kind_of(recipe),
                         .max_lr = lr,
                         .min_lr = recipe->min_lr,
                         .warmup_steps = warmup_of(recipe, total_steps),
                         .total_steps = total_steps,
                         .decay_steps = recipe->decay_steps};
    LS_TRY(lsi_optimizer_from_flags(&stepper->optimizer, params, kind, lr,
                                    &recipe->flags));
    if (recipe->ema > 0)
        LS_TRY(ls_ema_start(stepper->optimizer, recipe->ema));
    stepper->clip_norm = recipe->clip_norm;
    if (recipe->clip_norm > 0)
        LS_TRY(ls_clip_new(&stepper->clip, params, recipe->clip_norm));
    return LS_OK;
}

ls_status lsi_stepper_init(lsi_stepper *stepper, ls_params *params,
                           const lsi_recipe *recipe, int64_t total_steps)
{
    *stepper = (lsi_stepper){0};
    const ls_status status = fill(stepper, params, recipe, total_steps);
    if (status != LS_OK)
        lsi_stepper_release(stepper);
    return status;
}

void lsi_stepper_release(lsi_stepper *stepper)
{
    ls_clip_free(&stepper->clip);
    ls_optimizer_free(&stepper->optimizer);
}

ls_status lsi_stepper_measure(lsi_stepper *stepper, ls_params *params)
{
    return stepper->clip != NULL
               ? LS_OK
               : ls_clip_new(&stepper->clip, params, CLIP_NOTHING);
}

ls_status lsi_stepper_scale_losses(lsi_stepper *stepper, ls_params *params,
                                   double step_weight)
{
    stepper->loss_scale = ls_loss_scale_defaults();
    stepper->step_weight = step_weight;
    return lsi_stepper_measure(stepper, params);
}

double lsi_stepper_loss_scale(const lsi_stepper *stepper)
{
    const double scale = stepper->loss_scale.scale;
    return scale > 0 ? scale / stepper->step_weight : 1;
}

ls_status lsi_stepper_fail(lsi_stepper *stepper, int64_t step, const char *what,
                           double value, const char *why)
{
    const double clip = stepper->clip_norm;
    char clipping[64] = "--clip-norm 1";
    if (clip > 0)
        snprintf(clipping, sizeof(clipping), "a --clip-norm below %g", clip);
    stepper->diverged = true;
    return lsi_fail(LS_ERR_STATE,
                    "step %" PRId64 ": %s is %g: %s. Try a lower --lr than %g, "
                    "more --warmup-steps than %" PRId64 ", or %s",
                    step, what, isnan(value) ? fabs(value) : value, why,
                    stepper->schedule.max_lr, stepper->schedule.warmup_steps,
                    clipping);
}

/*
 * Clips the gradients. *finite: whether they can be used. With loss scaling, an
 * overflow skips the step; in f32 it is an error, since the run cannot recover.
 */
static ls_status prepare_gradients(lsi_stepper *s, double *grad_scale,
                                   bool *finite)
{
    *finite = true;
    if (s->clip == NULL)
        return LS_OK;
    LS_TRY(ls_clip_grad(s->clip, grad_scale, &s->norm, finite));
    if (s->loss_scale.scale > 0)
        return ls_loss_scale_update(&s->loss_scale, *finite);
    return *finite ? LS_OK
                   : lsi_stepper_fail(s, s->steps + 1, "gradient norm", s->norm,
                                      LSI_NOT_FINITE);
}

ls_status lsi_stepper_step(lsi_stepper *stepper, double grad_scale)
{
    bool finite;
    LS_TRY(prepare_gradients(stepper, &grad_scale, &finite));
    stepper->lr = ls_lr_at(&stepper->schedule, stepper->steps);
    LS_TRY(ls_optimizer_set_lr(stepper->optimizer, stepper->lr));
    if (finite)
        LS_TRY(ls_optimizer_step(stepper->optimizer, grad_scale));
    stepper->steps++;
    return LS_OK;
}

ls_status lsi_stepper_swap_averages(const lsi_stepper *stepper)
{
    return ls_ema_decay(stepper->optimizer) > 0
               ? ls_ema_swap(stepper->optimizer)
               : LS_OK;
}
