#include "report/live_line.h"

#include <string.h>

#include "base/clock.h"
#include "report/terminal.h"

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

/* The least important rank that still fits; the most important is always
 * shown, cut if need be. */
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
 * To the beginning of what was drawn, of which nothing stays. A window that has
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
    /* Clears what a longer line left behind. In one piece. */
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
