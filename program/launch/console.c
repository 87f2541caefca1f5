/*
 * Folding equal lines and limiting their rate; see console.h.
 *
 * Lines wait in the order of their first arrival. A rank's line joins the first
 * equal line that the rank has not written yet. So each copy counts one line of
 * a rank, and a line that a traceback contains twice is shown twice.
 */
#include "launch/console.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "launch/launch.h"

enum {
    WAITING_LINES = 256,
    HEAD_BYTES = 96,  /* "host:rank: " */
    COUNT_BYTES = 32, /* " (x1024 ranks)" and the line end */
};

static const double window = 0.1; /* seconds in which equal lines are joined */

typedef struct waiting_line {
    double since;
    int rank; /* first rank that wrote it */
    int ranks;
    unsigned char wrote[LSI_LAUNCH_MAX_RANKS / 8]; /* one bit for each rank */
    size_t bytes;
    char *text;
} waiting_line;

struct lsi_console {
    char host[HEAD_BYTES - 32];
    char *logs;
    lsi_console_put put;
    void *context;
    waiting_line lines[WAITING_LINES]; /* line k at k % WAITING_LINES */
    size_t first, end;                 /* waiting lines, counted from 0 */
    double second;                     /* start of the second that is counted */
    int shown;                         /* lines shown in this second */
    size_t skipped;                    /* lines left out in this second */
};

ls_status lsi_console_new(const char *host, lsi_console_put put, void *context,
                          lsi_console **out)
{
    lsi_console *const c = calloc(1, sizeof(*c));
    if (c == NULL)
        return lsi_fail(LS_ERR_MEMORY,
                        "not enough memory to collect lines for the console");
    c->put = put;
    c->context = context;
    snprintf(c->host, sizeof(c->host), "%s", host);
    *out = c;
    return LS_OK;
}

void lsi_console_free(lsi_console *c)
{
    if (c == NULL)
        return;
    for (; c->first < c->end; c->first++)
        free(c->lines[c->first % WAITING_LINES].text);
    free(c->logs);
    free(c);
}

void lsi_console_set_logs(lsi_console *c, const char *folder)
{
    free(c->logs);
    c->logs = folder == NULL ? NULL : strdup(folder);
}

/* ---- 200 lines a second ----------------------------------------------- */

static void print_skipped(lsi_console *c)
{
    char text[512];
    const char *const s = c->skipped == 1 ? "" : "s";
    if (c->skipped == 0)
        return;
    if (c->logs != NULL)
        snprintf(text, sizeof(text),
                 "lockstep: %zu line%s not shown (limit: %d lines per second); "
                 "all lines are in %.350s\n",
                 c->skipped, s, LSI_CONSOLE_LINES_A_SECOND, c->logs);
    else
        snprintf(text, sizeof(text),
                 "lockstep: %zu line%s not shown (limit: %d lines per second); "
                 "--log-dir DIR would keep all lines\n",
                 c->skipped, s, LSI_CONSOLE_LINES_A_SECOND);
    if (!c->put(c->context, text, strlen(text)))
        return; /* try again once there is room */
    c->skipped = 0;
    c->shown++;
}

bool lsi_console_admits(lsi_console *c, double now)
{
    if (c->shown == 0 || now >= c->second + 1) {
        c->second = now;
        c->shown = 0;
        print_skipped(c);
    }
    if (c->shown >= LSI_CONSOLE_LINES_A_SECOND) {
        c->skipped++;
        return false;
    }
    c->shown++;
    return true;
}

/* ---- folding ---------------------------------------------------------- */

static void show_first(lsi_console *c, double now)
{
    assert(c->first < c->end && c->end - c->first <= WAITING_LINES);
    waiting_line *const line = &c->lines[c->first++ % WAITING_LINES];
    char *const text = malloc(HEAD_BYTES + line->bytes + COUNT_BYTES);
    if (text != NULL && lsi_console_admits(c, now)) {
        const int head =
            snprintf(text, HEAD_BYTES, "%s:%d: ", c->host, line->rank);
        memcpy(text + head, line->text, line->bytes);
        size_t used = (size_t)head + line->bytes;
        if (line->ranks > 1)
            used += (size_t)snprintf(text + used, COUNT_BYTES, " (x%d ranks)",
                                     line->ranks);
        text[used++] = '\n';
        if (!c->put(c->context, text, used))
            c->skipped++;
    }
    free(text);
    free(line->text);
    line->text = NULL;
}

/* The index of a rank on this node, whose ranks are consecutive. */
static int slot_of(int rank)
{
    return rank % LSI_LAUNCH_MAX_RANKS;
}

static bool join(lsi_console *c, int rank, const char *line, size_t bytes)
{
    const int slot = slot_of(rank);
    const unsigned char bit = (unsigned char)(1U << (slot % 8));
    for (size_t k = c->first; k < c->end; k++) {
        waiting_line *const other = &c->lines[k % WAITING_LINES];
        if (other->bytes != bytes || (other->wrote[slot / 8] & bit) != 0 ||
            memcmp(other->text, line, bytes) != 0)
            continue;
        other->ranks++;
        other->wrote[slot / 8] |= bit;
        return true;
    }
    return false;
}

void lsi_console_line(lsi_console *c, double now, int rank, const char *line,
                      size_t bytes)
{
    lsi_console_pass(c, now);
    /* Lines beyond the limit are not compared. */
    const bool is_full =
        c->shown >= LSI_CONSOLE_LINES_A_SECOND && now < c->second + 1;
    if (!is_full && join(c, rank, line, bytes))
        return;
    char *const text = is_full ? NULL : malloc(bytes + 1);
    if (text == NULL) {
        c->skipped++;
        return;
    }
    if (c->end - c->first == WAITING_LINES)
        show_first(c, now);
    /* Lines wait in the order of their arrival. */
    assert(c->first == c->end ||
           c->lines[(c->end - 1) % WAITING_LINES].since <= now);
    waiting_line *const own = &c->lines[c->end++ % WAITING_LINES];
    *own = (waiting_line){
        .since = now, .rank = rank, .ranks = 1, .bytes = bytes, .text = text};
    const int slot = slot_of(rank);
    own->wrote[slot / 8] = (unsigned char)(1U << (slot % 8));
    memcpy(text, line, bytes);
}

void lsi_console_pass(lsi_console *c, double now)
{
    while (c->first < c->end &&
           now >= c->lines[c->first % WAITING_LINES].since + window)
        show_first(c, now);
    if (c->skipped > 0 && now >= c->second + 1) {
        c->second = now;
        c->shown = 0;
        print_skipped(c);
    }
}

double lsi_console_next(const lsi_console *c)
{
    double next = c->skipped > 0 ? c->second + 1 : 0;
    if (c->first < c->end) {
        const double due = c->lines[c->first % WAITING_LINES].since + window;
        next = next == 0 || due < next ? due : next;
    }
    return next;
}

void lsi_console_finish(lsi_console *c, double now)
{
    while (c->first < c->end)
        show_first(c, now);
    print_skipped(c);
}
