/*
 * One epoch of training. Nothing here knows what the model is.
 */
#include "train/trainer.h"

#include "autograd/tape.h"
#include "base/error.h"
#include "parallel/ddp.h"

/* Where a micro-step stands in its group of `accumulate`. */
typedef struct position {
    bool first, last;
} position;

static position position_of(const lsi_trainer *trainer, int64_t step,
                            int64_t steps)
{
    const int64_t within = step % trainer->accumulate;
    return (position){.first = within == 0,
                      .last = within + 1 == trainer->accumulate ||
                              step + 1 == steps};
}

/*
 * Without a batch the tape has failed; but if the model has collectives of its
 * own, that is where the others hear of it.
 */
static lsi_forward forward(const lsi_trainer *t, ls_status read,
                           const ls_batch *batch)
{
    if (read != LS_OK)
        lsi_tape_stop(t->tape, read);
    return t->model->forward(t->model->self, t->tape, batch);
}

static ls_status micro_step(lsi_trainer *t, const lsi_source *source,
                            position at, lsi_progress_report *report)
{
    ls_batch batch = {0};
    if (at.first) {
        ls_params_zero_grad(t->model->params);
        LS_TRY(
            ls_ddp_set_loss_scale(t->ddp, lsi_stepper_loss_scale(t->stepper)));
    }
    ls_tape_set_random(
        t->tape, t->seed, (uint64_t)ls_group_rank(t->group),
        (uint64_t)(report->epoch * report->steps + report->step));
    const ls_status read = source->next(source->self, &batch);
    const lsi_forward out = forward(t, read, &batch);
    LS_TRY(ls_ddp_backward(t->ddp, t->tape, out.loss, out.weight, at.last));
    LS_TRY(lsi_totals_add(&report->totals, &out));
    ls_tape_reset(t->tape);
    if (!at.last)
        return LS_OK;
    return lsi_stepper_step(t->stepper, lsi_ddp_grad_scale(t->ddp));
}

static ls_status tell(const lsi_trainer *t, position at,
                      const lsi_progress_report *report)
{
    if (t->on_step != NULL)
        t->on_step(t->context, report);
    return at.last && t->on_stepped != NULL
               ? t->on_stepped(t->stepped_context, report)
               : LS_OK;
}

/* Refuses the sync, where the others wait for a rank that has failed. */
static ls_status give_up(lsi_trainer *t)
{
    return ls_ddp_backward(t->ddp, t->tape, NULL, 0, true);
}

ls_status lsi_train_epoch(lsi_trainer *trainer, const lsi_source *source,
                          lsi_progress_report *report)
{
    const ls_status begun = source->begin(source->self, report->epoch,
                                          report->step, &report->steps);
    if (begun != LS_OK) {
        (void)forward(trainer, begun, &(ls_batch){0});
        return give_up(trainer);
    }
    while (report->step < report->steps) {
        const position at = position_of(trainer, report->step, report->steps);
        const ls_status status = micro_step(trainer, source, at, report);
        if (status != LS_OK)
            return at.last ? status : give_up(trainer);
        report->step++;
        LS_TRY(tell(trainer, at, report));
    }
    return lsi_totals_reduce(&report->totals, trainer->group);
}
