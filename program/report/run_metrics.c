/*
 * The file of metrics: a line of JSON for each step and validation, or epoch.
 */
#include <jansson.h>
#include <math.h>

#include "base/error.h"
#include "report/jsonl.h"
#include "report/run_sink.h"

/* JSON has no infinities: a loss that is not finite becomes null. */
static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* Adds the members for scaled losses; NULL, as jansson, without memory. */
static json_t *with_loss_scale(json_t *line, double scale, int64_t skipped)
{
    if (line == NULL || scale <= 0)
        return line;
    if (json_object_set_new(line, "loss_scale", json_real(scale)) == 0 &&
        json_object_set_new(line, "skipped", json_integer(skipped)) == 0)
        return line;
    json_decref(line);
    return NULL;
}

/* Adds what --check-replicas has compared; NULL without memory. */
static json_t *with_compared(json_t *line, uint64_t bytes)
{
    if (line == NULL || bytes == 0 ||
        json_object_set_new(line, "compared_bytes",
                            json_integer((json_int_t)bytes)) == 0)
        return line;
    json_decref(line);
    return NULL;
}

static ls_status write_strategy(void *self, const lsi_run_strategy *s)
{
    json_t *const measured = json_object();
    for (size_t i = 0; measured != NULL && i < s->n; i++)
        (void)json_object_set_new(measured, s->measured[i].name,
                                  json_real(s->measured[i].seconds));
    return lsi_jsonl_write(self, json_pack("{s:s, s:s, s:o, s:o}", "event",
                                           "strategy", "strategy", s->name,
                                           "bucket_mb", real(s->bucket_mb),
                                           "measured_seconds", measured));
}

static ls_status write_step(void *self, const lsi_run_step *s)
{
    json_t *line = json_pack(
        "{s:s, s:I, s:o, s:o, s:o, s:o, s:o}", "event", "step", "step",
        (json_int_t)s->step, "loss", real(s->loss), "lr", real(s->lr),
        "gradient_norm", real(s->gradient_norm), "seconds", real(s->seconds),
        "tokens_per_second", real(s->rate));
    line = with_loss_scale(line, s->loss_scale, s->skipped);
    return lsi_jsonl_write(self, with_compared(line, s->compared));
}

static ls_status write_validation(void *self, const lsi_run_validation *v)
{
    return lsi_jsonl_write(
        self, json_pack("{s:s, s:I, s:o}", "event", "validation", "step",
                        (json_int_t)v->step, "val_loss", real(v->loss)));
}

/* NULL, as jansson, without memory. */
static json_t *ranks_of(const lsi_run_epoch *e)
{
    json_t *const all = json_array();
    for (size_t i = 0; i < e->n_ranks; i++) {
        const lsi_run_rank *const r = &e->ranks[i];
        json_t *const rank = json_pack(
            "{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I}", "rank",
            (json_int_t)i, "train_loss", real(r->train_loss), "train_accuracy",
            real(r->train_accuracy), "train_seconds", real(r->train_seconds),
            "waited_seconds", real(r->waited_seconds), "images_per_second",
            real(r->rate), "val_loss", real(r->val_loss), "val_accuracy",
            real(r->val_accuracy), "peak_bytes", (json_int_t)r->peak_bytes);
        if (json_array_append_new(all, rank) != 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

static ls_status write_epoch(void *self, const lsi_run_epoch *e)
{
    json_t *line = json_pack(
        "{s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o}", "event",
        "epoch", "epoch", (json_int_t)e->epoch, "train_loss",
        real(e->train_loss), "train_accuracy", real(e->train_accuracy),
        "train_seconds", real(e->train_seconds), "waited_seconds",
        real(e->waited_seconds), "images_per_second", real(e->rate), "val_loss",
        real(e->val_loss), "val_accuracy", real(e->val_accuracy), "peak_bytes",
        (json_int_t)e->peak_bytes, "collectives", (json_int_t)e->collectives,
        "ranks", ranks_of(e));
    line = with_loss_scale(line, e->loss_scale, e->skipped);
    return lsi_jsonl_write(self, with_compared(line, e->compared));
}

static void close_lines(void *self)
{
    lsi_jsonl *lines = self;
    lsi_jsonl_close(&lines);
}

ls_status lsi_run_metrics(lsi_run_sink *out, const lsi_run_about *about,
                          const lsi_run_outputs *outputs)
{
    lsi_jsonl *lines;
    if (outputs->metrics == NULL)
        return LS_OK;
    LS_TRY(lsi_jsonl_open(&lines, outputs->metrics, about->kept_lines));
    *out = (lsi_run_sink){.self = lines,
                          .strategy = write_strategy,
                          .step = about->epochs > 0 ? NULL : write_step,
                          .validation = write_validation,
                          .epoch = write_epoch,
                          .close = close_lines};
    return LS_OK;
}
