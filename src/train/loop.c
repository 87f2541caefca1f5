#include "train/loop.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "autograd/tape.h"
#include "base/error.h"
#include "comm/api/outcome.h"
#include "parallel/ddp.h"
#include "train/stop.h"

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

static ls_status share(const lsi_loop *l, ls_status status)
{
    return lsi_share_outcome(l->group, status, l->agreed);
}

static ls_status find_place(lsi_loop *l)
{
    LS_TRY(lsi_resume_open(&l->resume, &l->found));
    if (l->found == NULL)
        return LS_OK;
    return share(l, l->job->find_place(l->self, l->found));
}

/* What every job trains with. */
static ls_status equip(lsi_loop *l)
{
    const lsi_training *const t = &l->training;
    LS_TRY(ls_ddp_new(&l->ddp, l->group, t->params, t->ddp));
    lsi_ddp_defer_scale(l->ddp);
    lsi_ddp_watch_news(l->ddp, lsi_stop_requests());
    LS_TRY(
        lsi_stepper_init(&l->stepper, t->params, &t->recipe, t->total_steps));
    if (t->dtype == LS_F16)
        LS_TRY(
            lsi_stepper_scale_losses(&l->stepper, t->params, t->step_weight));
    LS_TRY(ls_tape_new(&l->tape));
    return ls_tape_set_autocast(l->tape, t->dtype);
}

static ls_status go_on(lsi_loop *l)
{
    if (l->found == NULL)
        return LS_OK;
    return lsi_resume_load(l->found, l->training.params, &l->stepper);
}

static ls_status make(lsi_loop *l)
{
    LS_TRY(l->job->make(l->self, &l->training));
    return lsi_recipe_settle(&l->training.recipe, &l->resume.config);
}

static ls_status start(lsi_loop *l)
{
    const lsi_train_job *const job = l->job;
    LS_TRY(share(l, job->prepare(l->self)));
    if (job->check != NULL)
        LS_TRY(job->check(l->self));
    LS_TRY(find_place(l));
    LS_TRY(share(l, make(l)));
    LS_TRY(share(l, job->begin(l->self)));
    LS_TRY(share(l, equip(l)));
    return share(l, go_on(l));
}

/* ---- steps --------------------------------------------------------------- */

static ls_status micro_step(lsi_loop *l, int64_t micro, bool last)
{
    const lsi_forward out = l->job->forward(l->self, micro);
    LS_TRY(ls_ddp_backward(l->ddp, l->tape, out.loss, out.weight, last));
    LS_TRY(l->job->add(l->self, &out));
    ls_tape_reset(l->tape);
    return LS_OK;
}

/*
 * A rank that fails before the sync refuses it: there the others wait. Whatever
 * has failed, the tape says so.
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
        return ls_ddp_backward(l->ddp, l->tape, NULL, 0, true);
    }
    return LS_OK;
}

static bool saves_after_step(const lsi_loop *l)
{
    return lsi_resume_is_due(&l->resume, l->stepper.steps) ||
           (l->stopped_by != 0 && l->resume.options->folder != NULL);
}

static ls_status step(lsi_loop *l, int64_t n)
{
    const lsi_train_job *const job = l->job;
    ls_params_zero_grad(l->training.params);
    LS_TRY(ls_ddp_set_loss_scale(l->ddp, lsi_stepper_loss_scale(&l->stepper)));
    LS_TRY(micro_steps(l, n));
    if (job->before_step != NULL)
        LS_TRY(job->before_step(l->self));
    LS_TRY(lsi_stepper_step(&l->stepper, lsi_ddp_grad_scale(l->ddp)));
    LS_TRY(job->stepped(l->self));
    /* All ranks hear of it in the same step. */
    l->stopped_by = lsi_stop_signal(lsi_ddp_news(l->ddp));
    return saves_after_step(l) ? job->checkpoint(l->self) : LS_OK;
}

ls_status lsi_loop_steps(lsi_loop *loop)
{
    while (loop->stopped_by == 0) {
        int64_t n;
        LS_TRY(loop->job->next(loop->self, &n));
        if (n == 0)
            return LS_OK;
        LS_TRY(step(loop, n));
    }
    return LS_OK;
}

ls_status lsi_loop_save(lsi_loop *loop, const char *const *values)
{
    LS_TRY(lsi_resume_save(&loop->resume, loop->training.params, &loop->stepper,
                           values));
    if (loop->on_saved != NULL)
        loop->on_saved(loop->context, loop->stepper.steps,
                       loop->resume.options->folder);
    return LS_OK;
}

/* ---- all of it ----------------------------------------------------------- */

/* Together: who has ended makes a launcher end the others. */
static ls_status end_early(lsi_loop *l)
{
    LS_TRY(share(l, LS_OK));
    *l->agreed = true;
    lsi_stop_set_ended(l->stopped_by);
    if (l->resume.options->folder != NULL)
        return lsi_fail(LS_ERR_STATE,
                        "saved step %" PRId64 "; go on with --resume",
                        l->stepper.steps);
    return lsi_fail(LS_ERR_STATE,
                    "ended by SIG%s after step %" PRId64
                    "; nothing was saved, as there is no --checkpoint-dir",
                    sigabbrev_np(l->stopped_by), l->stepper.steps);
}

static ls_status run(lsi_loop *l)
{
    const bool first = ls_group_rank(l->group) == 0;
    LS_TRY(start(l));
    lsi_stop_listen();
    LS_TRY(lsi_loop_steps(l));
    if (l->stopped_by != 0)
        return end_early(l);
    LS_TRY(lsi_stepper_swap_averages(&l->stepper));
    return share(l, first ? l->job->save(l->self) : LS_OK);
}

ls_status lsi_loop_run(lsi_loop *loop)
{
    char message[1024];
    *loop->agreed = false;
    const ls_status status = run(loop);
    /* To release what ranks share fails, too, if they are not together. */
    snprintf(message, sizeof(message), "%s", ls_last_error());
    lsi_resume_close(&loop->resume);
    ls_checkpoint_close(&loop->found);
    ls_tape_free(&loop->tape);
    lsi_stepper_release(&loop->stepper);
    ls_ddp_free(&loop->ddp);
    loop->job->release(loop->self);
    return status == LS_OK ? LS_OK : lsi_fail(status, "%s", message);
}
