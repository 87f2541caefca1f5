/*
 * Drawing progress without slowing the work down.
 */
#include "report/progress.h"

#include <inttypes.h>

#include "base/clock.h"
#include "report/time_text.h"

enum { TENTHS = 10 };

/* Work that is over before this needs no lines in a log. */
static const double log_seconds = 2.0;

void lsi_progress_begin(lsi_progress_bar *progress, FILE *stream,
                        const char *label, int64_t total)
{
    const double now = lsi_clock_seconds();
    *progress = (lsi_progress_bar){
        .stream = stream,
        .live = lsi_live_line_on(stream),
        .label = label,
        .total = total,
        .start = now,
        .last_told = now,
    };
    progress->live.drawn_at = now;
}

static void draw_bar(lsi_progress_bar *progress, int64_t done, const char *note)
{
    char bar[LSI_LIVE_BAR], left[LSI_TIME_TEXT];
    lsi_live_part parts[3] = {{.rank = 0}, {.rank = 1}, {.rank = 2}};
    const double elapsed = lsi_clock_seconds() - progress->start;
    lsi_live_bar(bar, done, progress->total);
    snprintf(parts[0].text, sizeof(parts[0].text), "%s %s %" PRId64 "/%" PRId64,
             progress->label, bar, done, progress->total);
    lsi_time_text(left,
                  elapsed / (double)done * (double)(progress->total - done));
    if (done > 0 && done < progress->total)
        snprintf(parts[1].text, sizeof(parts[1].text), "%s left", left);
    if (note != NULL)
        snprintf(parts[2].text, sizeof(parts[2].text), "%s", note);
    lsi_live_line_draw(&progress->live, parts, 3);
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
    if (progress->live.stream != NULL) {
        if (lsi_live_line_is_due(&progress->live))
            draw_bar(progress, done, note);
        return;
    }
    const double now = lsi_clock_seconds();
    if (now - progress->last_told < log_seconds)
        return;
    progress->last_told = now;
    log_line(progress, done, note);
}

void lsi_progress_end(lsi_progress_bar *progress)
{
    lsi_live_line_clear(&progress->live);
}
