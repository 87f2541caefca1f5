/*
 * Output of a run on stderr. A capable terminal has a live line of the whole
 * run, with permanent lines above it. Elsewhere plain lines are printed.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/append.h"
#include "base/error.h"
#include "base/printable.h"
#include "report/paragraph.h"
#include "report/progress.h"
#include "report/run_sink.h"

enum { USUAL_EVERY = 10 };

/* Limits for mentioning waiting: share of an epoch's time, and seconds. */
static const double waited_share = 0.01, waited_seconds = 0.05;

typedef struct lines {
    const lsi_run_about *about;
    lsi_live_line live;
    lsi_progress_bar epoch; /* bar of an epoch, without a live line */
    bool within;            /* an epoch's bar has begun */
    char label[48];
    lsi_run_step last; /* last step; number 0: none yet */
} lines;

/* ---- parts of lines ------------------------------------------------------ */

static void add_perplexity(char *text, size_t bytes, const lines *l,
                           double loss)
{
    if (l->about->perplexity)
        lsi_append(text, bytes, ", perplexity %.4g", exp(loss));
}

static void add_loss_scale(char *text, size_t bytes, double scale,
                           int64_t skipped)
{
    if (scale > 0)
        lsi_append(text, bytes,
                   ", loss scale %g, skipped steps so far: %" PRId64, scale,
                   skipped);
}

/* ---- steps --------------------------------------------------------------- */

#define PART(parts, n, importance, ...)                                        \
    do {                                                                       \
        (parts)[n].rank = (importance);                                        \
        snprintf((parts)[n].text, sizeof((parts)[n].text), __VA_ARGS__);       \
        (n)++;                                                                 \
    } while (0)

static void draw(lines *l)
{
    const lsi_run_step *const s = &l->last;
    lsi_live_part parts[12] = {0};
    char left[LSI_TIME_TEXT], elapsed[LSI_TIME_TEXT], bar[LSI_LIVE_BAR];
    size_t n = 0;
    lsi_time_text(left, s->left);
    lsi_time_text(elapsed, s->elapsed);
    lsi_live_bar(bar, s->step, l->about->steps);
    if (l->about->epochs > 0)
        PART(parts, n, 3, "epoch %" PRId64 "/%" PRId64, s->epoch,
             l->about->epochs);
    PART(parts, n, 0, "step %" PRId64 "/%" PRId64, s->step, l->about->steps);
    PART(parts, n, 9, "%s", bar);
    PART(parts, n, 1, "loss %.4f", s->loss);
    if (l->about->perplexity)
        PART(parts, n, 6, "perplexity %.4g", exp(s->loss));
    PART(parts, n, 7, "lr %.3g", s->lr);
    PART(parts, n, 5, "%.3g ms/step", s->seconds * 1e3);
    PART(parts, n, 4, "%.0f %s/s", s->rate, l->about->unit);
    PART(parts, n, 8, "%s elapsed", elapsed);
    PART(parts, n, 2, "%s left", left);
    lsi_live_line_draw(&l->live, parts, n);
}

/* Prints a permanent line above the live line. */
static void print_as(lines *l, const char *text, bool flags)
{
    char shown[1024];
    lsi_printable(shown, sizeof(shown), text);
    lsi_live_line_clear(&l->live);
    if (flags)
        lsi_paragraph_of_flags(stderr, shown);
    else
        lsi_paragraph(stderr, "%s", shown);
    if (l->live.stream != NULL && l->last.step > 0)
        draw(l);
}

__attribute__((format(printf, 2, 3))) static void
print_line(lines *l, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    print_as(l, text, false);
}

static void print_step(lines *l, const lsi_run_step *s)
{
    char scale[80] = "", perplexity[40] = "";
    add_loss_scale(scale, sizeof(scale), s->loss_scale, s->skipped);
    add_perplexity(perplexity, sizeof(perplexity), l, s->loss);
    print_line(l,
               "step %" PRId64 "/%" PRId64 ": loss %.4f, lr %.3g, gradient "
               "norm %.3f%s, %.0f %s/s%s",
               s->step, l->about->steps, s->loss, s->lr, s->gradient_norm,
               scale, s->rate, l->about->unit, perplexity);
}

static ls_status write_step(void *self, const lsi_run_step *s)
{
    lines *const l = self;
    const bool live = l->live.stream != NULL;
    const int64_t given = l->about->every;
    const int64_t every = given > 0 ? given : live ? 0 : USUAL_EVERY;
    if (l->about->epochs == 0 && every > 0 &&
        (s->step % every == 0 || s->step == 1 || s->step == l->about->steps))
        print_step(l, s);
    l->last = *s;
    if (lsi_live_line_is_due(&l->live))
        draw(l);
    return LS_OK;
}

/* ---- epochs -------------------------------------------------------------- */

static void write_part(void *self, const lsi_run_part *part)
{
    char note[48];
    lines *const l = self;
    if (l->live.stream != NULL)
        return;
    if (!l->within) {
        l->within = true;
        snprintf(l->label, sizeof(l->label), "epoch %" PRId64 "/%" PRId64,
                 part->epoch, l->about->epochs);
        lsi_progress_begin(&l->epoch, stderr, l->label, part->all);
    }
    snprintf(note, sizeof(note), "loss %.4f", part->loss);
    lsi_progress_update(&l->epoch, part->done, note);
}

static ls_status write_epoch(void *self, const lsi_run_epoch *e)
{
    lines *const l = self;
    char scale[80] = "", waited[64] = "";
    add_loss_scale(scale, sizeof(scale), e->loss_scale, e->skipped);
    if (e->waited_seconds > waited_share * e->train_seconds &&
        e->waited_seconds > waited_seconds)
        snprintf(waited, sizeof(waited), ", waited for data %.2f s",
                 e->waited_seconds);
    lsi_progress_end(&l->epoch);
    l->within = false;
    print_line(l,
               "epoch %" PRId64 "/%" PRId64 ": loss %.4f, accuracy %.4f; "
               "validation loss %.4f, accuracy %.4f%s; %.2f s, %.0f %s/s%s",
               e->epoch, l->about->epochs, e->train_loss, e->train_accuracy,
               e->val_loss, e->val_accuracy, scale, e->train_seconds, e->rate,
               l->about->unit, waited);
    return LS_OK;
}

/* ---- the rest ------------------------------------------------------------ */

static ls_status write_validation(void *self, const lsi_run_validation *v)
{
    lines *const l = self;
    char perplexity[40] = "";
    add_perplexity(perplexity, sizeof(perplexity), l, v->loss);
    print_line(l, "step %" PRId64 "/%" PRId64 ": validation loss %.4f%s",
               v->step, l->about->steps, v->loss, perplexity);
    return LS_OK;
}

static ls_status write_saved(void *self, int64_t step, const char *folder)
{
    lines *const l = self;
    print_line(l, "saved step %" PRId64 " in '%s'", step, folder);
    return LS_OK;
}

static void write_line(void *self, const char *text, bool flags)
{
    print_as(self, text, flags);
}

/* Ends the drawing; further lines may follow. */
static ls_status end(void *self)
{
    lines *const l = self;
    lsi_live_line_clear(&l->live);
    l->last.step = 0;
    return LS_OK;
}

static void close_lines(void *self)
{
    lines *const l = self;
    lsi_live_line_clear(&l->live);
    lsi_progress_end(&l->epoch);
    free(l);
}

ls_status lsi_run_lines(lsi_run_sink *out, const lsi_run_about *about,
                        const lsi_run_outputs *outputs)
{
    if (outputs->quiet)
        return LS_OK;
    lines *const l = calloc(1, sizeof(*l));
    if (l == NULL)
        return lsi_fail(LS_ERR_MEMORY,
                        "not enough memory to print the progress of the run");
    l->about = about;
    l->live = lsi_live_line_on(stderr);
    *out = (lsi_run_sink){.self = l,
                          .step = write_step,
                          .part = about->epochs > 0 ? write_part : NULL,
                          .validation = write_validation,
                          .epoch = write_epoch,
                          .saved = write_saved,
                          .line = write_line,
                          .end = end,
                          .close = close_lines};
    return LS_OK;
}
