#include "train/loop.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/signal_name.h"
#include "comm/api/outcome.h"
#include "comm/api/same.h"
#include "model/autograd/params/sharing.h"
#include "model/autograd/tape.h"
#include "model/parallel/ddp.h"
#include "observe/span_file.h"
#include "observe/spans.h"
#include "train/copies.h"
#include "train/stop.h"

/* Number of strategy choices that a checkpoint's run has reported. */
#define CHOICES_KEY "strategy_choices"

/* Keys of the lsi_divergence in a checkpoint. */
#define FIRST_LOSS_KEY  "first_loss"
#define STEPS_ABOVE_KEY "steps_above"

/*
 * Steps and seconds for measuring a strategy: enough steps for these seconds.
 */
enum { LEAST_STEPS = 3, MOST_STEPS = 15 };
#define ENOUGH_SECONDS 0.25

lsi_loop lsi_loop_of(ls_group *group, const lsi_train_job *job, void *self,
                     const lsi_resume_options *resume, bool *agreed)
{
    return (lsi_loop){.job = job,
                      .self = self,
                      .group = group,
                      .agreed = agreed,
                      .resume = {group, resume, .agreed = agreed}};
}

/* ---- starting ------------------------------------------------------------ */

ls_status lsi_loop_share(const lsi_loop *loop, ls_status own)
{
    return lsi_share_outcome(loop->group, own, loop->agreed);
}

/* The phases follow each other as loop.h says. */
static void enter(lsi_loop *l, lsi_loop_phase from, lsi_loop_phase to)
{
    assert(l->phase == from);
    (void)from;
    l->phase = to;
}

/* ---- settings of all ranks ----------------------------------------------- */

static void collect_run(lsi_loop *l)
{
    const lsi_training *const t = &l->training;
    const lsi_resume_options *const o = l->resume.options;
    lsi_run_config *const run = &l->run;
    lsi_run_config_text(run, "--strategy",
                        t->choose_ddp ? "auto"
                                      : ls_ddp_strategy_name(t->ddp.strategy));
    lsi_run_config_real(run, "--bucket-mb", lsi_bucket_mb(t->ddp.bucket_bytes));
    lsi_run_config_text(run, "--divergence-check",
                        t->recipe.divergence_check ? "on" : "off");
    lsi_run_config_int(run, "--check-replicas", t->recipe.check_replicas);
    lsi_run_config_text(run, "--checkpoint-dir",
                        o->folder != NULL ? "given" : "none");
    lsi_run_config_int(run, "--save-every", o->every);
    lsi_run_config_int(run, "--audit-every", lsi_audit_interval(l->audit));
    lsi_run_config_text(run, "--resume", o->resume ? "on" : "off");
    lsi_run_config_text(run, "--new-schedule", o->new_schedule ? "on" : "off");
}

/* Line i of the settings of the run, then of those that checkpoints record. */
static void settings_line(const void *list, size_t i, char text[LSI_LINE_BYTES])
{
    const lsi_loop *const l = list;
    const lsi_run_setting *const setting =
        i < l->run.n ? &l->run.all[i] : &l->resume.config.all[i - l->run.n];
    snprintf(text, LSI_LINE_BYTES, "%s %s",
             setting->label != NULL ? setting->label : setting->name,
             setting->value);
}

ls_status lsi_loop_agree(lsi_loop *loop, ls_status own)
{
    LS_TRY(lsi_loop_share(loop, own));
    collect_run(loop);
    const ls_status status = lsi_same_listing(
        loop->group, &(lsi_listing){loop, loop->run.n + loop->resume.config.n,
                                    settings_line, "training settings"});
    *loop->agreed = status == LS_ERR_MISMATCH;
    return status;
}

/* ---- planning ------------------------------------------------------------ */

/* The metadata may have a tokenizer of some MB. */
static ls_status open_keep(lsi_loop *l)
{
    const char *const *text = l->resume.metadata;
    uint64_t bytes = (uint64_t)l->training.parameters * sizeof(float);
    if (!lsi_keep_is_wanted(l->keep) || ls_group_rank(l->group) != 0)
        return LS_OK;
    while (text != NULL && *text != NULL)
        bytes += strlen(*text++);
    return lsi_keep_open(l->keep, bytes, l->found != NULL);
}

ls_status lsi_loop_plan(lsi_loop *loop)
{
    const lsi_training *const t = &loop->training;
    const lsi_memory_plan room = {.parameters = t->parameters,
                                  .layers = t->layers,
                                  .moments = lsi_recipe_moments(&t->recipe),
                                  .rounded = t->dtype != LS_F32,
                                  .slices = t->slices};
    enter(loop, LSI_LOOP_NEW, LSI_LOOP_PLANNED);
    loop->choice = lsi_ddp_choice_of(&t->ddp, t->choose_ddp, t->parameters,
                                     ls_group_size(loop->group));
    const ls_status status =
        lsi_ddp_choice_ask(&loop->choice, loop->group, room, 0);
    *loop->agreed = status == LS_ERR_MEMORY || status == LS_ERR_ARGUMENT;
    LS_TRY(status);
    LS_TRY(lsi_resume_open(&loop->resume, &loop->found));
    return lsi_loop_share(loop, open_keep(loop));
}

/* Where a strategy has the weights. */
static lsi_weights_home home_of(const lsi_loop *l,
                                const ls_ddp_options *options)
{
    const lsi_strategy *strategy = NULL;
    int replicas = 1;
    /* lsi_loop_plan has asked for these options, so they are right. */
    ls_ignore(lsi_strategy_find(options->strategy, &strategy));
    ls_ignore(lsi_replicas_of(l->group, options, &replicas));
    return lsi_home_of(strategy, l->group, replicas);
}

/*
 * Makes the model. If each rank will have a copy of the weights, rank 0 loads
 * them; otherwise they are loaded once each rank has its part (equip).
 */
static ls_status make(lsi_loop *l)
{
    const lsi_train_job *const job = l->job;
    LS_TRY(lsi_loop_share(l, job->make(l->self, &l->training.params)));
    if (job->load == NULL || l->found != NULL ||
        home_of(l, &l->choice.options) != LSI_HOME_COPIES)
        return LS_OK;
    return lsi_loop_share(
        l, ls_group_rank(l->group) == 0 ? job->load(l->self, NULL) : LS_OK);
}

static ls_status load(lsi_loop *l)
{
    return l->job->load != NULL && l->found == NULL &&
                   home_of(l, &l->choice.options) != LSI_HOME_COPIES
               ? l->job->load(l->self, l->ddp)
               : LS_OK;
}

/* Makes the parts that every job trains with. */
static ls_status equip(lsi_loop *l)
{
    const lsi_training *const t = &l->training;
    LS_TRY(ls_ddp_new(&l->ddp, l->group, t->params, &l->choice.options));
    LS_TRY(load(l));
    lsi_ddp_defer_scale(l->ddp);
    lsi_ddp_watch_flags(l->ddp, lsi_stop_requests());
    LS_TRY(
        lsi_stepper_init(&l->stepper, t->params, &t->recipe, t->total_steps));
    if (t->measures_norm)
        LS_TRY(lsi_stepper_measure(&l->stepper, t->params));
    if (t->dtype == LS_F16)
        LS_TRY(
            lsi_stepper_scale_losses(&l->stepper, t->params, t->step_weight));
    LS_TRY(ls_tape_new(&l->tape));
    return ls_tape_set_autocast(l->tape, t->dtype);
}

static void unequip(lsi_loop *l)
{
    ls_tape_free(&l->tape);
    lsi_stepper_release(&l->stepper);
    ls_ddp_free(&l->ddp);
}

/* ---- steps --------------------------------------------------------------- */

static lsi_forward forward(const lsi_loop *l, int64_t micro)
{
    LSI_SPAN(PHASE, "forward", 0, 0);
    return l->job->forward(l->self, micro);
}

static ls_status micro_step(lsi_loop *l, int64_t micro, bool last)
{
    const lsi_forward out = forward(l, micro);
    LS_TRY(last ? ls_ddp_backward(l->ddp, l->tape, out.loss, out.weight)
                : ls_ddp_accumulate(l->ddp, l->tape, out.loss, out.weight));
    if (!l->rehearses)
        LS_TRY(l->job->add(l->self, &out));
    ls_tape_reset(l->tape);
    return LS_OK;
}

/*
 * A rank that fails before the sync still enters it, with an error, since the
 * other ranks wait there. The tape keeps the failure.
 */
static ls_status micro_steps(lsi_loop *l, int64_t n)
{
    for (int64_t m = 0; m < n; m++) {
        const ls_status status = micro_step(l, m, m + 1 == n);
        if (status == LS_OK)
            continue;
        if (m + 1 == n)
            return status;
        lsi_tape_stop(l->tape, status);
        return ls_ddp_backward(l->ddp, l->tape, NULL, 0);
    }
    return LS_OK;
}

static ls_status compute(lsi_loop *l, int64_t n)
{
    ls_params_zero_grad(l->training.params);
    LS_TRY(ls_ddp_set_loss_scale(l->ddp, lsi_stepper_loss_scale(&l->stepper)));
    return micro_steps(l, n);
}

ls_status lsi_loop_gradients(lsi_loop *loop, int64_t n)
{
    assert(loop->stopped_by == 0);
    enter(loop, LSI_LOOP_OPEN, LSI_LOOP_GRADIENTS);
    lsi_span_begin_step((uint64_t)loop->stepper.steps + 1);
    loop->began = lsi_span_begin();
    return compute(loop, n);
}

/*
 * Describes the files left of a run that has diverged; "" if none were wanted.
 */
static void describe_left(const lsi_loop *l, char *out, size_t bytes)
{
    const bool wanted = lsi_keep_is_wanted(l->keep);
    int used = 0;
    out[0] = '\0';
    if (wanted)
        used =
            snprintf(out, bytes, ". '%s' was not written", l->keep->model.text);
    if (l->saved > 0 && (size_t)used < bytes)
        snprintf(out + used, bytes - (size_t)used,
                 ". '%s' contains the checkpoint of step %" PRId64
                 "; to continue from it with another --lr, use --resume "
                 "--new-schedule",
                 l->resume.options->folder, l->saved);
}

static void set_over(const lsi_loop *l)
{
    if (l->keep != NULL)
        l->keep->over = true;
}

/* All ranks have the error; rank 0, which prints it, knows the files left. */
static ls_status end_diverged(lsi_loop *l, ls_status status)
{
    char left[2 * LSI_KEEP_TEXT];
    set_over(l);
    lsi_divergence_set_ended();
    describe_left(l, left, sizeof(left));
    return lsi_fail(status, "%s%s", ls_last_error(), left);
}

typedef struct high_text {
    char text[200];
} high_text;

static high_text describe_high(const lsi_divergence *d)
{
    high_text out;
    snprintf(out.text, sizeof(out.text),
             "above %g. This limit is %g times the first loss (%g) or the loss "
             "of random guessing (%g), whichever is larger",
             lsi_divergence_limit(d), LSI_DIVERGENCE_FACTOR, d->first,
             d->guess);
    return out;
}

static ls_status fail_high(lsi_loop *l, double loss)
{
    char why[256];
    snprintf(why, sizeof(why), "for %" PRId64 " steps it was %s",
             l->divergence.above, describe_high(&l->divergence).text);
    const ls_status status =
        lsi_stepper_fail(&l->stepper, l->stepper.steps + 1, "loss", loss, why);
    return lsi_fail(status, "%s. To continue anyway, use --no-divergence-check",
                    ls_last_error());
}

/* A run may end before its loss has been high for long enough to end it. */
static void warn_high(const lsi_loop *l)
{
    const int64_t n = l->divergence.above;
    if (n == 0 || !l->training.recipe.divergence_check ||
        ls_group_rank(l->group) != 0)
        return;
    lsi_log(LS_LOG_WARN,
            "the model has probably diverged: the loss of the last %" PRId64
            " step%s was %s. Try a lower --lr than %g",
            n, n == 1 ? "" : "s", describe_high(&l->divergence).text,
            l->stepper.schedule.max_lr);
}

static ls_status check_loss(lsi_loop *l)
{
    const double loss = lsi_ddp_loss(l->ddp);
    if (!isfinite(loss))
        return lsi_stepper_fail(&l->stepper, l->stepper.steps + 1, "loss", loss,
                                LSI_NOT_FINITE);
    return lsi_divergence_add(&l->divergence, loss) &&
                   l->training.recipe.divergence_check
               ? fail_high(l, loss)
               : LS_OK;
}

static ls_status end_corrupt(lsi_loop *l, ls_status status)
{
    if (status != LS_ERR_CORRUPT)
        return status;
    *l->agreed = true;
    return lsi_copies_fail(status, l->resume.options->folder, l->saved);
}

/* Data that are about to be saved should be equal. */
static ls_status compare_saved(lsi_loop *l)
{
    const int64_t step = l->stepper.steps;
    const bool ends = step == l->training.total_steps || l->stopped_by != 0;
    if (l->training.recipe.check_replicas == 0 ||
        (!ends && !lsi_loop_is_due(l)))
        return LS_OK;
    return end_corrupt(
        l, ls_ddp_compare_state(l->ddp, l->stepper.optimizer, step));
}

static ls_status step_optimizer(lsi_loop *l)
{
    LS_TRY(
        end_corrupt(l, lsi_copies_compare(l->ddp, &l->stepper,
                                          l->training.recipe.check_replicas)));
    LS_TRY(check_loss(l));
    return lsi_stepper_step(&l->stepper, lsi_ddp_grad_scale(l->ddp));
}

ls_status lsi_loop_check_validation(lsi_loop *loop, double loss)
{
    if (isfinite(loss))
        return LS_OK;
    return end_diverged(
        loop, lsi_stepper_fail(&loop->stepper, loop->stepper.steps,
                               "validation loss", loss, LSI_NOT_FINITE));
}

static ls_status rescue(lsi_loop *l, ls_status status);

static ls_status audit_step(lsi_loop *l)
{
    if (!lsi_audit_is_wanted(l->audit))
        return LS_OK;
    const ls_status status =
        lsi_audit_step(l->audit, &l->stepper, l->job->samples(l->self),
                       lsi_loop_is_due(l) || l->stopped_by != 0,
                       l->stepper.steps == l->training.total_steps);
    return status == LS_OK ? LS_OK : rescue(l, status);
}

ls_status lsi_loop_update(lsi_loop *loop)
{
    enter(loop, LSI_LOOP_GRADIENTS, LSI_LOOP_UPDATED);
    const ls_status status = step_optimizer(loop);
    if (status != LS_OK && loop->stepper.diverged) {
        *loop->agreed = true;
        return end_diverged(loop, status);
    }
    LS_TRY(status);
    /* All ranks receive the flags of all signals in the same step. */
    loop->stopped_by = lsi_stop_signal(lsi_ddp_all_flags(loop->ddp));
    LS_TRY(compare_saved(loop));
    return audit_step(loop);
}

bool lsi_loop_is_due(const lsi_loop *loop)
{
    assert(loop->phase == LSI_LOOP_UPDATED);
    return lsi_resume_is_due(&loop->resume, loop->stepper.steps) ||
           (loop->stopped_by != 0 && loop->resume.options->folder != NULL);
}

void lsi_loop_end_step(lsi_loop *loop)
{
    enter(loop, LSI_LOOP_UPDATED, LSI_LOOP_OPEN);
    lsi_span_step(loop->began, (uint64_t)loop->stepper.steps);
}

/* ---- choice of the strategy ---------------------------------------------- */

/* *seconds: time of the slowest rank. */
static ls_status time_step(lsi_loop *l, int64_t n, double *seconds)
{
    LS_TRY(ls_barrier(l->group));
    const double begin = lsi_clock_seconds();
    LS_TRY(compute(l, n));
    LS_TRY(lsi_stepper_step(&l->stepper, lsi_ddp_grad_scale(l->ddp)));
    *seconds = lsi_clock_seconds() - begin;
    return ls_all_reduce(l->group, seconds, seconds, 1, LS_F64, LS_REDUCE_MAX);
}

/*
 * The shortest of some steps after the first, which also plans: disturbances
 * only add time. Two micro-steps are enough, one with and one without a sync.
 */
static ls_status time_steps(lsi_loop *l, lsi_ddp_candidate *candidate)
{
    const int64_t there = l->job->rehearse(l->self);
    const int64_t wish = l->training.accumulate < 2 ? 1 : 2;
    const int64_t each = wish < there ? wish : there;
    double first, seconds[MOST_STEPS];
    LS_TRY(time_step(l, each, &first));
    const double wanted = fmax(LEAST_STEPS, ENOUGH_SECONDS / first);
    int64_t n = there / each - 1;
    n = wanted < (double)n ? (int64_t)wanted : n;
    n = n < MOST_STEPS ? n : MOST_STEPS;
    for (int64_t i = 0; i < n; i++)
        LS_TRY(time_step(l, each, &seconds[i]));
    if (n > 0)
        lsi_ddp_choice_add(candidate, seconds, (size_t)n);
    else
        lsi_ddp_choice_add(candidate, &first, 1);
    return LS_OK;
}

static void unmake(lsi_loop *l)
{
    l->job->unmake(l->self);
    l->training.params = NULL;
}

/* Makes the model again if the candidate has the weights elsewhere. */
static ls_status make_for(lsi_loop *l, const lsi_ddp_candidate *candidate,
                          lsi_weights_home *home)
{
    l->choice.options = candidate->options;
    if (l->training.params != NULL && *home == home_of(l, &candidate->options))
        return LS_OK;
    *home = home_of(l, &candidate->options);
    unmake(l);
    return make(l);
}

static ls_status measure_one(lsi_loop *l, lsi_ddp_candidate *c,
                             lsi_weights_home *home)
{
    LS_TRY(make_for(l, c, home));
    LS_TRY(lsi_loop_share(l, equip(l)));
    LS_TRY(lsi_loop_share(l, time_steps(l, c)));
    unequip(l);
    return LS_OK;
}

/* Measures all candidates; two that are too close to compare, once more. */
static ls_status measure(lsi_loop *l)
{
    LSI_SPAN(PHASE, "strategy choice", 0, 0);
    lsi_ddp_choice *const choice = &l->choice;
    lsi_weights_home home = LSI_HOME_COPIES;
    size_t close[2];
    for (size_t i = 0; i < choice->n; i++)
        if (choice->all[i].fits)
            LS_TRY(measure_one(l, &choice->all[i], &home));
    if (!lsi_ddp_choice_is_close(choice, close))
        return LS_OK;
    for (size_t i = 0; i < 2; i++)
        LS_TRY(measure_one(l, &choice->all[close[i]], &home));
    return LS_OK;
}

/*
 * Measures steps of every candidate; the model is made again afterwards. So the
 * run is the same as if the strategy had been named.
 */
static ls_status choose(lsi_loop *l)
{
    if (l->choice.reason == LSI_DDP_MEASURED) {
        l->rehearses = true;
        LS_TRY(measure(l));
        l->rehearses = false;
        unmake(l);
        lsi_ddp_choice_settle(&l->choice);
        ls_memory_reset_peak();
    }
    l->choices += lsi_ddp_choice_is_new(&l->choice);
    return LS_OK;
}

/* ---- start and end ------------------------------------------------------- */

/* Takes over the choice of the checkpoint's run. */
static ls_status restore_choice(lsi_loop *l)
{
    if (l->found == NULL)
        return LS_OK;
    (void)lsi_ddp_choice_restore(&l->choice, l->found, ls_group_size(l->group));
    return ls_checkpoint_value(l->found, CHOICES_KEY) == NULL
               ? LS_OK
               : lsi_resume_number(l->found, CHOICES_KEY, &l->choices);
}

ls_status lsi_loop_make(lsi_loop *loop)
{
    lsi_training *const t = &loop->training;
    enter(loop, LSI_LOOP_PLANNED, LSI_LOOP_MADE);
    LS_TRY(restore_choice(loop));
    LS_TRY(lsi_loop_share(loop,
                          lsi_recipe_settle(&t->recipe, &loop->resume.config)));
    LS_TRY(choose(loop));
    return make(loop);
}

/* Restores the loop from the checkpoint, if there is one. */
static ls_status restore_loop(lsi_loop *l)
{
    lsi_divergence *const d = &l->divergence;
    *d = (lsi_divergence){.guess = l->training.guess};
    if (l->found == NULL)
        return LS_OK;
    d->begun = true;
    LS_TRY(lsi_resume_real(l->found, FIRST_LOSS_KEY, &d->first));
    /* With another learning rate the count of high losses starts at 0. */
    if (!l->resume.options->new_schedule)
        LS_TRY(lsi_resume_number(l->found, STEPS_ABOVE_KEY, &d->above));
    return lsi_resume_load(l->found, l->training.params, &l->stepper);
}

static ls_status begin_audit(lsi_loop *l)
{
    lsi_audit_run *const a = l->audit;
    if (!lsi_audit_is_wanted(a))
        return LS_OK;
    a->group = l->group;
    a->settings = &l->resume.config;
    a->resume = l->resume.options->resume;
    return lsi_audit_begin(a, l->training.params, &l->stepper,
                           l->job->samples(l->self));
}

ls_status lsi_loop_open(lsi_loop *loop)
{
    enter(loop, LSI_LOOP_MADE, LSI_LOOP_OPEN);
    LS_TRY(lsi_loop_share(loop, equip(loop)));
    LS_TRY(lsi_loop_share(loop, restore_loop(loop)));
    loop->saved = loop->stepper.steps;
    const bool verifies =
        lsi_audit_is_wanted(loop->audit) && loop->audit->check != NULL;
    if (loop->training.recipe.check_replicas > 0 && !verifies)
        lsi_copies_warn(loop->ddp, loop->group, &loop->choice.options);
    LS_TRY(begin_audit(loop));
    lsi_stop_listen();
    return LS_OK;
}

/* Called on rank 0, which writes the result. */
static ls_status save_model(const lsi_loop *l)
{
    if (!lsi_keep_is_wanted(l->keep))
        return LS_OK;
    lsi_keep_begin(l->keep);
    return lsi_keep_end(l->keep, l->job->save(l->self, l->keep->model.text));
}

static ls_status finish(lsi_loop *l)
{
    LS_TRY(lsi_stepper_swap_averages(&l->stepper));
    return lsi_loop_share(l,
                          ls_group_rank(l->group) == 0 ? save_model(l) : LS_OK);
}

/* Rank 0, whose error is printed, knows what was saved. */
static ls_status fail_rescued(const lsi_loop *l, const char *why,
                              ls_status saved)
{
    char text[LSI_KEEP_TEXT];
    if (saved != LS_OK)
        return lsi_fail(LS_ERR_IO,
                        "%s. The model could not be saved either: %s", why,
                        ls_last_error());
    set_over(l);
    if (!lsi_keep_is_wanted(l->keep) || ls_group_rank(l->group) != 0)
        return lsi_fail(LS_ERR_IO, "%s", why);
    lsi_keep_describe(l->keep, text);
    return lsi_fail(LS_ERR_IO, "%s. The run ended after step %" PRId64 "; %s",
                    why, l->stepper.steps, text);
}

/*
 * Saves the model of a run that cannot continue. If the last step is in a
 * checkpoint, nothing needs to be saved. Called on all ranks.
 */
static ls_status rescue(lsi_loop *l, ls_status status)
{
    char why[1024];
    if (status != LS_ERR_IO || l->stepper.steps == l->saved)
        return status;
    snprintf(why, sizeof(why), "%s", ls_last_error());
    return fail_rescued(l, why, finish(l));
}

ls_status lsi_loop_report(lsi_loop *loop, ls_status own)
{
    const ls_status status = lsi_loop_share(loop, own);
    return status == LS_OK ? LS_OK : rescue(loop, status);
}

ls_status lsi_loop_save(lsi_loop *loop, const char *const *values)
{
    const char *all[2 * LSI_JOB_VALUES + 1];
    char choices[24], first[32], above[24];
    const lsi_ddp_choice_value chosen =
        lsi_ddp_choice_value_of(&loop->choice, ls_group_size(loop->group));
    size_t n = 0;
    assert(loop->phase == LSI_LOOP_UPDATED);
    while (*values != NULL && n < 2 * LSI_JOB_VALUES - 8)
        all[n++] = *values++;
    assert(*values == NULL);
    snprintf(first, sizeof(first), "%.17g", loop->divergence.first);
    snprintf(above, sizeof(above), "%" PRId64, loop->divergence.above);
    all[n++] = FIRST_LOSS_KEY;
    all[n++] = first;
    all[n++] = STEPS_ABOVE_KEY;
    all[n++] = above;
    if (loop->choice.reason != LSI_DDP_NAMED) {
        all[n++] = LSI_DDP_CHOICE_KEY;
        all[n++] = chosen.text;
    }
    if (loop->choices > 0) {
        snprintf(choices, sizeof(choices), "%" PRId64, loop->choices);
        all[n++] = CHOICES_KEY;
        all[n++] = choices;
    }
    all[n] = NULL;
    const ls_status status = lsi_resume_save(
        &loop->resume, loop->training.params, &loop->stepper, all);
    if (status != LS_OK)
        return rescue(loop, status);
    loop->saved = loop->stepper.steps;
    /* A run that ends here prints its end, and where to resume. */
    if (loop->on_saved != NULL && loop->stopped_by == 0)
        loop->on_saved(loop->context, loop->stepper.steps,
                       loop->resume.options->folder);
    return LS_OK;
}

/* The error of a run that a signal stopped; rank 0 prints it. */
static ls_status fail_stopped(const lsi_loop *l)
{
    char saved[LSI_KEEP_TEXT] = "nothing was saved (--no-save)";
    if (lsi_keep_is_wanted(l->keep))
        lsi_keep_describe(l->keep, saved);
    return lsi_fail(
        LS_ERR_STATE, "the run was ended by %s after step %" PRId64 "; %s",
        lsi_signal_name(l->stopped_by).text, l->stepper.steps, saved);
}

/*
 * Ranks end together: a rank that ends alone makes a launcher end the others.
 */
static ls_status end_early(lsi_loop *l)
{
    const bool resumes = l->resume.options->folder != NULL;
    LS_TRY(resumes ? lsi_loop_share(l, LS_OK) : finish(l));
    set_over(l);
    *l->agreed = true;
    lsi_stop_set_ended(l->stopped_by);
    if (resumes)
        return lsi_fail(LS_ERR_STATE,
                        "saved step %" PRId64 "; continue with --resume",
                        l->stepper.steps);
    return fail_stopped(l);
}

ls_status lsi_loop_finish(lsi_loop *loop)
{
    enter(loop, LSI_LOOP_OPEN, LSI_LOOP_FINISHED);
    if (lsi_audit_has_ended(loop->audit))
        return LS_OK;
    warn_high(loop);
    if (loop->stopped_by != 0)
        return end_early(loop);
    LS_TRY(finish(loop));
    set_over(loop);
    return LS_OK;
}

void lsi_loop_close(lsi_loop *loop)
{
    char message[1024];
    /* Releasing shared objects may fail, too, and replace the message. */
    snprintf(message, sizeof(message), "%s", ls_last_error());
    lsi_resume_close(&loop->resume);
    lsi_audit_end(loop->audit);
    if (loop->keep != NULL)
        lsi_keep_close(loop->keep);
    ls_checkpoint_close(&loop->found);
    unequip(loop);
    unmake(loop);
    lsi_free(loop->training.layers.of);
    lsi_restore_error(message);
}
