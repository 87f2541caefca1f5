/*
 * Drawing progress without slowing the work down.
 */
#include "report/progress.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

/* ---- terminals, times ---------------------------------------------------- */

enum { USUAL_WIDTH = 80, MAX_WIDTH = 10000 };

bool lsi_terminal_redraws(FILE *stream)
{
    const char *const term = getenv("TERM");
    return stream != NULL && isatty(fileno(stream)) && term != NULL &&
           term[0] != '\0' && strcmp(term, "dumb") != 0;
}

bool lsi_terminal_has_colour(FILE *stream)
{
    const char *const refused = getenv("NO_COLOR");
    return lsi_terminal_redraws(stream) &&
           (refused == NULL || refused[0] == '\0');
}

int lsi_terminal_width(FILE *stream)
{
    struct winsize size;
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    const char *const columns = getenv("COLUMNS");
    const long told = columns != NULL ? strtol(columns, NULL, 10) : 0;
    return told > 0 && told <= MAX_WIDTH ? (int)told : USUAL_WIDTH;
}

static const double most_seconds = 1e9; /* about 32 years */

void lsi_time_text(char out[LSI_TIME_TEXT], double seconds)
{
    if (!(seconds >= 0 && seconds < most_seconds)) {
        snprintf(out, LSI_TIME_TEXT, "-:--");
        return;
    }
    const int64_t s = (int64_t)seconds;
    if (s < 3600)
        snprintf(out, LSI_TIME_TEXT, "%" PRId64 ":%02" PRId64, s / 60, s % 60);
    else
        snprintf(out, LSI_TIME_TEXT, "%" PRId64 ":%02" PRId64 ":%02" PRId64,
                 s / 3600, s / 60 % 60, s % 60);
}

/* ---- a live line --------------------------------------------------------- */

static const double redraw_seconds = 0.1;
static const char separator[] = ", ";

lsi_live_line lsi_live_line_on(FILE *stream)
{
    return (lsi_live_line){.stream =
                               lsi_terminal_redraws(stream) ? stream : NULL};
}

bool lsi_live_line_is_due(const lsi_live_line *line)
{
    return line->stream != NULL &&
           lsi_clock_seconds() - line->drawn_at >= redraw_seconds;
}

/* Columns of the parts that are at least as important as `rank`. */
static size_t columns(const lsi_live_part *parts, size_t n, int rank)
{
    size_t total = 0;
    for (size_t i = 0; i < n; i++) {
        if (parts[i].rank <= rank && parts[i].text[0] != '\0')
            total +=
                (total > 0 ? strlen(separator) : 0) + strlen(parts[i].text);
    }
    return total;
}

/*
 * The least important rank that still fits. The most important part is always
 * shown, cut if necessary.
 */
static int last_rank(const lsi_live_part *parts, size_t n, size_t room)
{
    int rank = 0;
    for (size_t i = 0; i < n; i++)
        rank = parts[i].rank > rank ? parts[i].rank : rank;
    while (rank > 0 && columns(parts, n, rank) > room)
        rank--;
    return rank;
}

/* Appends to a text of `used` columns. */
static size_t append(char *out, size_t used, size_t room, const char *text)
{
    const size_t length = strlen(text);
    const size_t shown = used + length <= room ? length : room - used;
    memcpy(out + used, text, shown);
    return used + shown;
}

/*
 * Goes to the beginning of the drawn line and clears it. A window that has
 * become narrower shows it on several rows.
 */
static void go_back(const lsi_live_line *line, int width)
{
    const int rows = line->drawn > 0 ? (line->drawn - 1) / width : 0;
    if (rows > 0)
        fprintf(line->stream, "\033[%dA\r\033[J", rows);
    else
        fputc('\r', line->stream);
}

void lsi_live_line_draw(lsi_live_line *line, const lsi_live_part *parts,
                        size_t n)
{
    enum { MOST = 512 };
    char text[MOST];
    if (line->stream == NULL)
        return;
    const int width = lsi_terminal_width(line->stream);
    const size_t room = width > MOST ? MOST : width > 1 ? (size_t)width - 1 : 1;
    const int rank = last_rank(parts, n, room);
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        if (parts[i].rank > rank || parts[i].text[0] == '\0')
            continue;
        used = append(text, used, room, used > 0 ? separator : "");
        used = append(text, used, room, parts[i].text);
    }
    /* In one piece, and without remains of a longer line. */
    go_back(line, width);
    fprintf(line->stream, "%.*s\033[K", (int)used, text);
    fflush(line->stream);
    line->drawn_at = lsi_clock_seconds();
    line->drawn = (int)used;
}

void lsi_live_line_clear(lsi_live_line *line)
{
    if (line->drawn == 0)
        return;
    go_back(line, lsi_terminal_width(line->stream));
    fputs("\033[K", line->stream);
    fflush(line->stream);
    line->drawn = 0;
}

void lsi_live_bar(char out[LSI_LIVE_BAR], int64_t done, int64_t all)
{
    enum { CELLS = LSI_LIVE_BAR - 3 };
    const double part = all > 0 ? (double)done / (double)all : 0;
    out[0] = '[';
    memset(out + 1, '.', CELLS);
    memset(out + 1, '#', (size_t)((part < 1 ? part : 1) * CELLS));
    memcpy(out + 1 + CELLS, "]", 2);
}

/* ---- a bar --------------------------------------------------------------- */

enum { TENTHS = 10 };

/* Work that ends earlier writes no lines to a log. */
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
