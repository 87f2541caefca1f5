#include "report/run_log.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "report/run_sink.h"

typedef ls_status (*make_sink)(lsi_run_sink *, const lsi_run_about *,
                               const lsi_run_outputs *);

static const make_sink makers[] = {lsi_run_lines, lsi_run_metrics,
                                   lsi_run_tensorboard, lsi_run_prometheus};

enum { SINKS = sizeof(makers) / sizeof(makers[0]) };

struct lsi_run_log {
    lsi_run_about about;
    lsi_run_sink sinks[SINKS];
    double begun;      /* start of this process */
    double first_done; /* end of its first step, which also plans; 0: not yet */
    lsi_error error;   /* the first error */
};

ls_status lsi_run_log_open(lsi_run_log **out, const lsi_run_about *about,
                           const lsi_run_outputs *outputs)
{
    lsi_run_log *const log = calloc(1, sizeof(*log));
    if (log == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory to log the run");
    log->about = *about;
    log->begun = lsi_clock_seconds();
    ls_status status = LS_OK;
    for (size_t i = 0; i < SINKS && status == LS_OK && outputs != NULL; i++)
        status = makers[i](&log->sinks[i], &log->about, outputs);
    *out = log;
    if (status != LS_OK)
        lsi_run_log_close(out);
    return status;
}

/* ---- telling the sinks --------------------------------------------------- */

/*
 * Calls the handler of each sink for an event until one fails; the first error
 * stays. The arguments may name `sink`.
 */
#define CALL_SINKS(log, event, ...)                                            \
    for (size_t i = 0; i < SINKS && (log)->error.status == LS_OK; i++) {       \
        const lsi_run_sink *const sink = &(log)->sinks[i];                     \
        if (sink->event != NULL)                                               \
            (void)lsi_error_keep(&(log)->error, sink->event(__VA_ARGS__));     \
    }

/* Estimate at the pace so far, including the time between steps. */
static double seconds_left(lsi_run_log *log, int64_t step, double now)
{
    const int64_t timed = step - log->about.first - 1;
    if (timed <= 0) {
        log->first_done = now;
        return NAN;
    }
    return (now - log->first_done) / (double)timed *
           (double)(log->about.steps - step);
}

ls_status lsi_run_log_strategy(lsi_run_log *log,
                               const lsi_run_strategy *strategy)
{
    CALL_SINKS(log, strategy, sink->self, strategy);
    return lsi_error_again(&log->error);
}

ls_status lsi_run_log_step(lsi_run_log *log, const lsi_run_step *step)
{
    const double now = lsi_clock_seconds();
    lsi_run_step told = *step;
    told.rate = step->seconds > 0 ? step->units / step->seconds : 0;
    told.elapsed = now - log->begun;
    told.left = seconds_left(log, step->step, now);
    CALL_SINKS(log, step, sink->self, &told);
    return lsi_error_again(&log->error);
}

ls_status lsi_run_log_validation(lsi_run_log *log,
                                 const lsi_run_validation *validation)
{
    CALL_SINKS(log, validation, sink->self, validation);
    return lsi_error_again(&log->error);
}

ls_status lsi_run_log_epoch(lsi_run_log *log, const lsi_run_epoch *epoch)
{
    CALL_SINKS(log, epoch, sink->self, epoch);
    return lsi_error_again(&log->error);
}

void lsi_run_log_part(lsi_run_log *log, const lsi_run_part *part)
{
    for (size_t i = 0; i < SINKS; i++) {
        const lsi_run_sink *const sink = &log->sinks[i];
        if (sink->part != NULL)
            sink->part(sink->self, part);
    }
}

void lsi_run_log_saved(lsi_run_log *log, int64_t step, const char *folder)
{
    CALL_SINKS(log, saved, sink->self, step, folder);
}

static void pass_line(lsi_run_log *log, const char *line, bool flags)
{
    for (size_t i = 0; i < SINKS; i++) {
        const lsi_run_sink *const sink = &log->sinks[i];
        if (sink->line != NULL)
            sink->line(sink->self, line, flags);
    }
}

void lsi_run_log_say(lsi_run_log *log, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    pass_line(log, line, false);
}

void lsi_run_log_say_flags(lsi_run_log *log, const char *line)
{
    pass_line(log, line, true);
}

ls_status lsi_run_log_end(lsi_run_log *log)
{
    CALL_SINKS(log, end, sink->self);
    return lsi_error_again(&log->error);
}

void lsi_run_log_close(lsi_run_log **log)
{
    if (log == NULL || *log == NULL)
        return;
    for (size_t i = 0; i < SINKS; i++) {
        const lsi_run_sink *const sink = &(*log)->sinks[i];
        if (sink->close != NULL)
            sink->close(sink->self);
    }
    free(*log);
    *log = NULL;
}
