/*
 * The numbers of a run as a file in Prometheus' text format (version 0.0.4),
 * for node_exporter's textfile collector. The file is always whole and is
 * replaced every few seconds. Its samples have no timestamps.
 *
 * Samples have the labels job (such as "lm"), run (the file's name) and host.
 * Samples of a single process have the label rank, too.
 */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/error.h"
#include "lockstep/profile.h"
#include "report/result.h"
#include "report/run_sink.h"

enum { TEXT = 1 << 14, LABEL = 256 };

static const double write_seconds = 5;

typedef struct exporter {
    const lsi_run_about *about;
    const char *path;
    char job[LABEL], run[LABEL], host[LABEL]; /* labels, escaped */
    double written;
    lsi_run_step step;    /* last step; number 0: none yet */
    double units, waited; /* totals */
    int64_t epochs;       /* epochs done */
    double val_loss;      /* NAN: not known */
    double val_accuracy;  /* NAN: not known */
    int64_t saved;        /* step of the newest checkpoint; -1: none */
    bool running;
    size_t used;
    char text[TEXT];
} exporter;

/* ---- the text ------------------------------------------------------------ */

/* The value of a label, for use in quotation marks. */
static void escape(char out[LABEL], const char *value)
{
    size_t used = 0;
    for (; *value != '\0' && used + 3 < LABEL; value++) {
        if (*value == '\\' || *value == '"' || *value == '\n')
            out[used++] = '\\';
        out[used++] = *value == '\n' ? 'n' : *value;
    }
    out[used] = '\0';
}

__attribute__((format(printf, 2, 3))) static void put(exporter *e,
                                                      const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length =
        vsnprintf(e->text + e->used, TEXT - e->used, format, args);
    va_end(args);
    if (length > 0)
        e->used += (size_t)length < TEXT - e->used ? (size_t)length
                                                   : TEXT - e->used - 1;
}

/* "+Inf" and "NaN" as the format spells them. */
static void put_number(exporter *e, double value)
{
    if (isnan(value))
        put(e, " NaN\n");
    else if (isinf(value))
        put(e, value > 0 ? " +Inf\n" : " -Inf\n");
    else
        put(e, " %.15g\n", value);
}

static void put_metric(exporter *e, const char *type, const char *name,
                       const char *more, double value, const char *help)
{
    put(e,
        "# HELP lockstep_train_%s %s\n"
        "# TYPE lockstep_train_%s %s\n"
        "lockstep_train_%s{job=\"%s\",run=\"%s\",host=\"%s\"%s}",
        name, help, name, type, name, e->job, e->run, e->host, more);
    put_number(e, value);
}

static void gauge(exporter *e, const char *name, double value, const char *help)
{
    put_metric(e, "gauge", name, "", value, help);
}

static void counter(exporter *e, const char *name, double value,
                    const char *help)
{
    put_metric(e, "counter", name, "", value, help);
}

/* Writes a value; leaves out NAN, which is not known. */
static void known(exporter *e, const char *name, double value, const char *help)
{
    if (!isnan(value))
        gauge(e, name, value, help);
}

/* ---- the metrics --------------------------------------------------------- */

static void put_info(exporter *e)
{
    const lsi_run_about *const a = e->about;
    char more[3 * LABEL], model[LABEL];
    escape(model, a->model);
    snprintf(more, sizeof(more),
             ",model=\"%s\",ranks=\"%d\",threads=\"%d\",strategy=\"%s\","
             "dtype=\"%s\",bits=\"%s\",optimizer=\"%s\"",
             model, a->ranks, a->threads, a->strategy, a->dtype,
             lsi_bits_name(ls_bits_in_use()), a->optimizer);
    put_metric(e, "gauge", "info", more, 1,
               "Labels that describe the training run; the value is always 1.");
    gauge(e, "running", e->running, "1 during the run, 0 after its end.");
}

static void put_progress(exporter *e)
{
    const lsi_run_step *const s = &e->step;
    char name[64];
    counter(e, "steps_total", (double)(s->step > 0 ? s->step : e->about->first),
            "Optimizer steps done, including the steps before a resume.");
    gauge(e, "planned_steps", (double)e->about->steps,
          "Number of optimizer steps in the whole run.");
    snprintf(name, sizeof(name), "%s_total", e->about->unit);
    counter(e, name, e->units,
            "Training data that all ranks have processed since this process "
            "started.");
    if (e->about->epochs > 0) {
        counter(e, "epochs_total", (double)e->epochs, "Epochs done.");
        gauge(e, "planned_epochs", (double)e->about->epochs,
              "Number of epochs in the whole run.");
        counter(e, "waited_for_data_seconds_total", e->waited,
                "Seconds in which training waited for data.");
    }
    if (e->saved >= 0)
        gauge(e, "checkpoint_step", (double)e->saved,
              "Step of the newest checkpoint that this process saved.");
}

static void put_step(exporter *e)
{
    const lsi_run_step *const s = &e->step;
    char name[64];
    gauge(e, "loss", s->loss,
          "Loss of the last step, computed before the weights were updated.");
    if (e->about->perplexity)
        gauge(e, "perplexity", exp(s->loss), "Perplexity of the last step.");
    gauge(e, "learning_rate", s->lr, "Learning rate of the last step.");
    known(e, "gradient_norm", s->gradient_norm,
          "Norm of all gradients of the last step, before clipping.");
    if (s->loss_scale > 0) {
        gauge(e, "loss_scale", s->loss_scale,
              "Loss scale: factor by which losses are multiplied.");
        counter(e, "skipped_steps_total", (double)s->skipped,
                "Steps skipped because their gradients overflowed.");
    }
    gauge(e, "step_seconds", s->seconds,
          "Duration of the last step in seconds.");
    snprintf(name, sizeof(name), "%s_per_second", e->about->unit);
    gauge(e, name, s->rate,
          "Throughput of all ranks together in the last step.");
    gauge(e, "elapsed_seconds", s->elapsed,
          "Seconds since this process started training.");
    known(e, "remaining_seconds", s->left,
          "Estimated seconds until the end of the run, at the mean speed so "
          "far.");
}

static void put_results(exporter *e)
{
    known(e, "validation_loss", e->val_loss, "Loss of the last validation.");
    if (e->about->perplexity && !isnan(e->val_loss))
        gauge(e, "validation_perplexity", exp(e->val_loss),
              "Perplexity of the last validation.");
    known(e, "validation_accuracy_ratio", e->val_accuracy,
          "Share of samples that were classified correctly in the last "
          "validation.");
}

static void put_memory(exporter *e)
{
    ls_memory_stats memory;
    ls_memory_total(&memory);
    put_metric(e, "gauge", "memory_bytes", ",rank=\"0\"",
               (double)memory.live_bytes,
               "Bytes in use for tensors and buffers.");
    put_metric(e, "gauge", "memory_peak_bytes", ",rank=\"0\"",
               (double)memory.peak_bytes,
               "Most bytes in use at once since the start or, in a run with "
               "epochs, in the current epoch.");
}

static ls_status write_now(exporter *e)
{
    e->written = lsi_clock_seconds();
    e->used = 0;
    put_info(e);
    put_progress(e);
    if (e->step.step > 0)
        put_step(e);
    put_results(e);
    put_memory(e);
    return lsi_result_replace(e->path, e->text, e->used);
}

static ls_status write_sometimes(exporter *e)
{
    return lsi_clock_seconds() - e->written < write_seconds ? LS_OK
                                                            : write_now(e);
}

/* ---- what it is told ----------------------------------------------------- */

static ls_status write_step(void *self, const lsi_run_step *step)
{
    exporter *const e = self;
    e->step = *step;
    e->units += step->units;
    return write_sometimes(e);
}

static ls_status write_validation(void *self, const lsi_run_validation *v)
{
    exporter *const e = self;
    e->val_loss = v->loss;
    return write_sometimes(e);
}

static ls_status write_epoch(void *self, const lsi_run_epoch *epoch)
{
    exporter *const e = self;
    e->epochs = epoch->epoch;
    e->val_loss = epoch->val_loss;
    e->val_accuracy = epoch->val_accuracy;
    e->waited += epoch->waited_seconds;
    return write_sometimes(e);
}

static ls_status write_saved(void *self, int64_t step, const char *folder)
{
    exporter *const e = self;
    (void)folder;
    e->saved = step;
    return write_sometimes(e);
}

static ls_status end(void *self)
{
    exporter *const e = self;
    e->running = false;
    return write_now(e);
}

/* Also called for a failed run, which reports no further error. */
static void close_exporter(void *self)
{
    exporter *const e = self;
    if (e->running) {
        e->running = false;
        (void)write_now(e);
    }
    free(e);
}

/* The file name without folder and ".prom". */
static void name_run(char out[LABEL], const char *path)
{
    const char *const slash = strrchr(path, '/');
    char name[NAME_MAX + 1];
    snprintf(name, sizeof(name), "%s", slash != NULL ? slash + 1 : path);
    char *const dot = strrchr(name, '.');
    if (dot != NULL && dot != name)
        *dot = '\0';
    escape(out, name);
}

static void name_host(char out[LABEL])
{
    char host[HOST_NAME_MAX + 1] = "";
    if (gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0')
        snprintf(host, sizeof(host), "localhost");
    escape(out, host);
}

ls_status lsi_run_prometheus(lsi_run_sink *out, const lsi_run_about *about,
                             const lsi_run_outputs *outputs)
{
    if (outputs->prometheus == NULL)
        return LS_OK;
    if (lsi_result_is_stdout(outputs->prometheus))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--prometheus cannot write to standard output (-), "
                        "because each update replaces the whole file; give a "
                        "file name, such as run.prom");
    LS_TRY(lsi_result_check_file(outputs->prometheus));
    exporter *const e = calloc(1, sizeof(*e));
    if (e == NULL)
        return lsi_fail(LS_ERR_MEMORY,
                        "not enough memory for the Prometheus metrics");
    e->about = about;
    e->path = outputs->prometheus;
    e->val_loss = e->val_accuracy = NAN;
    e->saved = -1;
    e->epochs = about->epochs > 0 ? about->kept_lines : 0; /* one per epoch */
    e->running = true;
    escape(e->job, about->job);
    name_run(e->run, e->path);
    name_host(e->host);
    *out = (lsi_run_sink){.self = e,
                          .step = write_step,
                          .validation = write_validation,
                          .epoch = write_epoch,
                          .saved = write_saved,
                          .end = end,
                          .close = close_exporter};
    const ls_status status = write_now(e);
    e->running = status == LS_OK; /* on failure there is nothing to take back */
    return status;
}
