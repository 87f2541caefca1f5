/*
 * Drawing progress without slowing the work down.
 */
#include "report/progress.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum { BAR_CELLS = 24, TENTHS = 10 };

static const double redraw_seconds = 0.1;
/* Work that is over before this needs no lines in a log. */
static const double log_seconds = 2.0;

void lsi_progress_begin(lsi_progress_bar *progress, FILE *stream,
                        const char *label, int64_t total)
{
    const double now = lsi_clock_seconds();
    *progress = (lsi_progress_bar){
        .stream = stream,
        .terminal = stream != NULL && isatty(fileno(stream)),
        .label = label,
        .total = total,
        .start = now,
        .last_drawn = now,
    };
}

/* "1:05" or "2:00:10" */
static void format_time(double seconds, char *out, size_t bytes)
{
    const int64_t s = (int64_t)seconds;
    if (s < 3600)
        snprintf(out, bytes, "%" PRId64 ":%02" PRId64, s / 60, s % 60);
    else
        snprintf(out, bytes, "%" PRId64 ":%02" PRId64 ":%02" PRId64, s / 3600,
                 s / 60 % 60, s % 60);
}

static void draw_bar(lsi_progress_bar *progress, int64_t done, const char *note)
{
    char bar[BAR_CELLS + 1];
    const int full = (int)((double)done / (double)progress->total * BAR_CELLS);
    memset(bar, '.', BAR_CELLS);
    memset(bar, '#', (size_t)full);
    bar[BAR_CELLS] = '\0';
    fprintf(progress->stream, "\r%s [%s] %" PRId64 "/%" PRId64, progress->label,
            bar, done, progress->total);
    const double elapsed = lsi_clock_seconds() - progress->start;
    if (done > 0 && done < progress->total) {
        char left[32];
        format_time(elapsed / (double)done * (double)(progress->total - done),
                    left, sizeof(left));
        fprintf(progress->stream, ", %s left", left);
    }
    if (note != NULL)
        fprintf(progress->stream, ", %s", note);
    fputs("\033[K", progress->stream); /* what a longer line left behind */
    fflush(progress->stream);
    progress->drawn = true;
}

static void log_line(lsi_progress_bar *progress, int64_t done, const char *note)
{
    const int tenths = (int)((double)done / (double)progress->total * TENTHS);
    if (tenths <= progress->tenths || tenths >= TENTHS)
        return;
    progress->tenths = tenths;
    fprintf(progress->stream, "%s: %d%% (%" PRId64 "/%" PRId64 ")%s%s\n",
            progress->label, tenths * (100 / TENTHS), done, progress->total,
            note ? ", " : "", note ? note : "");
    fflush(progress->stream);
}

void lsi_progress_update(lsi_progress_bar *progress, int64_t done,
                         const char *note)
{
    if (progress->stream == NULL || progress->total <= 0)
        return;
    done = done > progress->total ? progress->total : done;
    const double now = lsi_clock_seconds();
    const double wait = progress->terminal ? redraw_seconds : log_seconds;
    if (now - progress->last_drawn < wait)
        return;
    progress->last_drawn = now;
    if (progress->terminal)
        draw_bar(progress, done, note);
    else
        log_line(progress, done, note);
}

void lsi_progress_end(lsi_progress_bar *progress)
{
    if (!progress->drawn)
        return;
    fputs("\r\033[K", progress->stream);
    fflush(progress->stream);
    progress->drawn = false;
}
