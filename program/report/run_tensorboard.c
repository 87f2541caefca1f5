/* The numbers of a run as scalars for TensorBoard, over steps. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "report/event_file.h"
#include "report/run_sink.h"

enum { MOST_SCALARS = 16 };

typedef struct board {
    const lsi_run_about *about;
    lsi_event_file *file;
    char rate[64]; /* tag "throughput/tokens_per_second" */
} board;

typedef struct scalars {
    size_t n;
    lsi_scalar all[MOST_SCALARS];
} scalars;

/* Adds infinities and NaN as such; leaves out values that are not known. */
static void add(scalars *s, const char *tag, double value)
{
    if (s->n < MOST_SCALARS)
        s->all[s->n++] = (lsi_scalar){tag, value};
}

static void add_loss(scalars *s, const board *b, bool validation, double loss)
{
    add(s, validation ? "loss/validation" : "loss/train", loss);
    if (b->about->perplexity)
        add(s, validation ? "perplexity/validation" : "perplexity/train",
            exp(loss));
}

static ls_status write_step(void *self, const lsi_run_step *step)
{
    const board *const b = self;
    scalars s = {0};
    add_loss(&s, b, false, step->loss);
    add(&s, "learning_rate", step->lr);
    if (!isnan(step->gradient_norm))
        add(&s, "gradient_norm", step->gradient_norm);
    if (step->loss_scale > 0)
        add(&s, "loss_scale", step->loss_scale);
    add(&s, b->rate, step->rate);
    add(&s, "throughput/step_seconds", step->seconds);
    return lsi_event_file_add(b->file, step->step, s.all, s.n);
}

static ls_status write_validation(void *self, const lsi_run_validation *v)
{
    const board *const b = self;
    scalars s = {0};
    add_loss(&s, b, true, v->loss);
    return lsi_event_file_add(b->file, v->step, s.all, s.n);
}

static ls_status write_epoch(void *self, const lsi_run_epoch *e)
{
    const board *const b = self;
    scalars s = {0};
    add(&s, "epoch", (double)e->epoch);
    add(&s, "loss/epoch", e->train_loss);
    add(&s, "accuracy/epoch", e->train_accuracy);
    add_loss(&s, b, true, e->val_loss);
    add(&s, "accuracy/validation", e->val_accuracy);
    add(&s, "epoch_seconds/training", e->train_seconds);
    add(&s, "epoch_seconds/waiting_for_data", e->waited_seconds);
    add(&s, "memory/peak_bytes", (double)e->peak_bytes);
    return lsi_event_file_add(b->file, e->step, s.all, s.n);
}

/*
 * Flushes, so that the steps up to a checkpoint are in the file whatever
 * happens later.
 */
static ls_status write_saved(void *self, int64_t step, const char *folder)
{
    const board *const b = self;
    (void)step;
    (void)folder;
    return lsi_event_file_flush(b->file);
}

static ls_status end(void *self)
{
    const board *const b = self;
    return lsi_event_file_flush(b->file);
}

static void close_board(void *self)
{
    board *const b = self;
    lsi_event_file_close(b->file);
    free(b);
}

ls_status lsi_run_tensorboard(lsi_run_sink *out, const lsi_run_about *about,
                              const lsi_run_outputs *outputs)
{
    if (outputs->tensorboard == NULL)
        return LS_OK;
    board *const b = calloc(1, sizeof(*b));
    if (b == NULL)
        return lsi_fail(LS_ERR_MEMORY,
                        "not enough memory for the TensorBoard events");
    b->about = about;
    snprintf(b->rate, sizeof(b->rate), "throughput/%s_per_second", about->unit);
    const ls_status status = lsi_event_file_open(&b->file, outputs->tensorboard,
                                                 about->first, about->resumes);
    if (status != LS_OK) {
        free(b);
        return status;
    }
    *out = (lsi_run_sink){.self = b,
                          .step = write_step,
                          .validation = write_validation,
                          .epoch = write_epoch,
                          .saved = write_saved,
                          .end = end,
                          .close = close_board};
    return LS_OK;
}
