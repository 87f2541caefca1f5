#include "train/jobs/epochs.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "model/autograd/params.h"
#include "model/autograd/tape.h"
#include "observe/spans.h"
#include "train/slices.h"

void lsi_epochs_begin(lsi_epochs *e)
{
    lsi_progress_report *const r = &e->report;
    memset(e->losses, 0, sizeof(e->losses));
    e->losses[0] = r->totals.loss;
    const ls_status begun =
        e->source.begin(e->source.self, r->epoch, r->step, &r->steps);
    if (begun == LS_OK)
        return;
    lsi_tape_stop(e->loop->tape, begun);
    r->steps = r->step + 1;
}

int64_t lsi_epochs_rehearse(lsi_epochs *e)
{
    lsi_progress_report *const r = &e->report;
    const int64_t step = r->step;
    lsi_epochs_begin(e);
    if (r->steps == step) {
        r->step = 0;
        lsi_epochs_begin(e);
    }
    const int64_t left = r->steps - r->step;
    r->step = step;
    return left;
}

int64_t lsi_epochs_next(lsi_epochs *e)
{
    e->before = e->report.totals;
    e->begun = lsi_clock_seconds();
    const int64_t left = e->report.steps - e->report.step;
    return left < e->accumulate ? left : e->accumulate;
}

/* Sets which samples a batch has, for dropout and slices. */
static void set_samples(const lsi_epochs *e, const ls_batch *batch)
{
    ls_tape *const tape = e->loop->tape;
    const ls_tape_samples samples = lsi_samples_of_rank(
        e->loop->group, batch->count, e->model->params->storage.slices);
    const ls_status status = ls_tape_set_samples(tape, &samples);
    if (status != LS_OK)
        lsi_tape_stop(tape, status);
}

/*
 * Without a batch the tape has failed. If the model has collectives, the other
 * ranks learn of the failure there.
 */
lsi_forward lsi_epochs_forward(lsi_epochs *e)
{
    const lsi_progress_report *const r = &e->report;
    ls_tape *const tape = e->loop->tape;
    ls_batch batch = {0};
    ls_tape_set_random(tape, e->seed, 0,
                       (uint64_t)(r->epoch * r->steps + r->step));
    if (tape->status == LS_OK) {
        const ls_status read = e->source.next(e->source.self, &batch);
        if (read != LS_OK)
            lsi_tape_stop(tape, read);
    }
    set_samples(e, &batch);
    return e->model->forward(e->model->self, tape, &batch);
}

static void call_on_step(const lsi_epochs *e)
{
    if (e->on_step != NULL)
        e->on_step(e->context, &e->report);
}

ls_status lsi_epochs_add(lsi_epochs *e, const lsi_forward *out)
{
    lsi_progress_report *const r = &e->report;
    const int slices = e->model->params->storage.slices;
    LS_TRY(lsi_totals_add(&r->totals, out));
    LS_TRY(lsi_tape_add_loss(e->loop->tape, out->loss, out->weight, e->losses));
    r->totals.loss = lsi_slices_fold(e->losses, slices);
    r->step++;
    if (r->step % e->accumulate != 0 && r->step < r->steps)
        call_on_step(e);
    return LS_OK;
}

/* The gain of `totals` since `before`. */
static lsi_totals gained(const lsi_totals *totals, const lsi_totals *before)
{
    return (lsi_totals){.loss = totals->loss - before->loss,
                        .hits = totals->hits - before->hits,
                        .weight = totals->weight - before->weight};
}

static void report_step(lsi_epochs *e)
{
    LSI_SPAN(PHASE, "reporting", 0, 0);
    lsi_progress_report *const r = &e->report;
    r->stepper = &e->loop->stepper;
    r->step_totals = gained(&r->totals, &e->before);
    r->step_seconds = lsi_clock_seconds() - e->begun;
    call_on_step(e);
    r->stepper = NULL;
}

ls_status lsi_epochs_step(lsi_epochs *e, int64_t micro_steps)
{
    LS_TRY(lsi_loop_gradients(e->loop, micro_steps));
    LS_TRY(lsi_loop_update(e->loop));
    report_step(e);
    return LS_OK;
}
