/*
 * Lines from pipes, with their rank.
 */
#include "launch/tag.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "launch/launch.h"

enum {
    HEAD_BYTES = sizeof("[4194303] "), /* and the line end */
    /*
     * Most bytes: each byte read ends a line, and one line was begun earlier.
     */
    TEXT_BYTES = (HEAD_BYTES + 1) * LSI_TAG_LINE_BYTES + 2 * HEAD_BYTES,
    SPARE_BYTES = 16 << 10, /* for messages of the supervisor */
    /*
     * Bytes to read at once: the capacity of a pipe. A pipe that had less than
     * a quarter does not fill up during a rest, unless the rank writes 12 MB/s.
     */
    PIPE_BYTES = 64 << 10,
    BUSY_BYTES = PIPE_BYTES / 4,
};

static const double rest_seconds = 0.004;

_Static_assert((long)LSI_LAUNCH_MAX_RANKS *LSI_LAUNCH_MAX_NODES <= 4194304,
               "HEAD_BYTES");
_Static_assert(TEXT_BYTES + SPARE_BYTES <= LSI_SINK_BYTES,
               "LSI_SINK_BYTES is too small");

typedef struct text {
    size_t used;
    char bytes[TEXT_BYTES];
} text;

ls_status lsi_tag_open(lsi_tag *tag, int rank, lsi_tag_target target,
                       int *write_end)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot create a pipe for the output of a rank");
    fcntl(ends[0], F_SETFL, O_NONBLOCK); /* the rank's end is another file */
    tag->rank = rank;
    tag->in = ends[0];
    tag->target = target;
    tag->rests_until = 0;
    tag->used = 0;
    tag->tail_bytes = 0;
    *write_end = ends[1];
    return LS_OK;
}

/* A further write of the rank raises SIGPIPE. */
static void stop(lsi_tag *tag)
{
    assert(tag->in >= 0); /* once */
    close(tag->in);
    tag->in = -1;
    lsi_log_file_close(&tag->target.log);
}

/* Output that may be left out needs no room. */
static bool has_room(const lsi_tag *tag)
{
    if (tag->target.sink == NULL || tag->target.style == LSI_TAG_FOLDED)
        return true;
    const size_t waiting = lsi_sink_get_state(tag->target.sink).waiting;
    return waiting + TEXT_BYTES + SPARE_BYTES <= LSI_SINK_BYTES;
}

int lsi_tag_to_poll(lsi_tag *tag)
{
    lsi_sink *const sink = tag->target.sink;
    if (tag->in >= 0 && sink != NULL && lsi_sink_get_state(sink).gone)
        stop(tag);
    return has_room(tag) ? tag->in : -1;
}

/* ---- showing ---------------------------------------------------------- */

static void end_line(lsi_tag *tag, text *out)
{
    const lsi_tag_style style = tag->target.style;
    char *const begin = out->bytes + out->used;
    const size_t bytes = tag->used;
    tag->used = 0;
    if (style == LSI_TAG_FOLDED)
        lsi_console_line(tag->target.console, lsi_clock_seconds(), tag->rank,
                         tag->line, bytes);
    if (style == LSI_TAG_FOLDED ||
        (style == LSI_TAG_LIMITED &&
         !lsi_console_admits(tag->target.console, lsi_clock_seconds())))
        return;
    const int head = style == LSI_TAG_MARKED
                         ? snprintf(begin, HEAD_BYTES, "[%d] ", tag->rank)
                         : 0;
    memcpy(begin + head, tag->line, bytes);
    begin[(size_t)head + bytes] = '\n';
    out->used += (size_t)head + bytes + 1;
    assert(out->used <= sizeof(out->bytes));
}

/* A line that is longer than the buffer is split. */
static void show_lines(lsi_tag *tag, const char *data, size_t bytes)
{
    text out;
    out.used = 0;
    while (bytes > 0) {
        const size_t room = sizeof(tag->line) - tag->used;
        const size_t most = bytes < room ? bytes : room;
        const char *const end = memchr(data, '\n', most);
        size_t share = end == NULL ? most : (size_t)(end - data);
        memcpy(tag->line + tag->used, data, share);
        tag->used += share;
        if (end != NULL || room == 0)
            end_line(tag, &out);
        if (end != NULL || (room == 0 && *data == '\n'))
            share++;
        data += share;
        bytes -= share;
    }
    if (out.used > 0)
        (void)lsi_sink_put(tag->target.sink, out.bytes, out.used);
}

static void show(lsi_tag *tag, const char *data, size_t bytes)
{
    if (tag->target.style == LSI_TAG_BYTES)
        (void)lsi_sink_put(tag->target.sink, data, bytes);
    else
        show_lines(tag, data, bytes);
}

static void end(lsi_tag *tag)
{
    if (tag->used > 0)
        show_lines(tag, "\n", 1);
    stop(tag);
}

/* ---- the tail --------------------------------------------------------- */

static void remember(lsi_tag *tag, const char *data, size_t bytes)
{
    if (bytes > sizeof(tag->tail)) {
        data += bytes - sizeof(tag->tail);
        bytes = sizeof(tag->tail);
    }
    const size_t room = sizeof(tag->tail) - bytes;
    const size_t kept = tag->tail_bytes < room ? tag->tail_bytes : room;
    memmove(tag->tail, tag->tail + (tag->tail_bytes - kept), kept);
    memcpy(tag->tail + kept, data, bytes);
    tag->tail_bytes = kept + bytes;
}

const char *lsi_tag_tail(const lsi_tag *tag, int lines, size_t *bytes)
{
    size_t end = tag->tail_bytes;
    while (end > 0 && tag->tail[end - 1] == '\n')
        end--;
    size_t begin = end;
    while (begin > 0 && (tag->tail[begin - 1] != '\n' || --lines > 0))
        begin--;
    *bytes = end - begin;
    return tag->tail + begin;
}

/* ---- reading ---------------------------------------------------------- */

/*
 * Reads some bytes and returns their number; closes the pipe at the end or
 * after an error.
 */
static size_t read_some(lsi_tag *tag)
{
    static char data[PIPE_BYTES]; /* one thread reads */
    const size_t most =
        tag->target.sink == NULL ? sizeof(data) : LSI_TAG_LINE_BYTES;
    const ssize_t bytes = read(tag->in, data, most);
    if (bytes > 0) {
        lsi_log_file_write(&tag->target.log, data, (size_t)bytes);
        remember(tag, data, (size_t)bytes);
        if (tag->target.sink != NULL)
            show(tag, data, (size_t)bytes);
    }
    if (bytes == 0 || (bytes < 0 && errno != EAGAIN))
        end(tag);
    return bytes > 0 ? (size_t)bytes : 0;
}

bool lsi_tag_pump(lsi_tag *tag)
{
    size_t all = 0;
    size_t bytes = 0;
    do {
        bytes = lsi_tag_to_poll(tag) >= 0 ? read_some(tag) : 0;
        all += bytes;
    } while (bytes > 0 && all < PIPE_BYTES);
    tag->rests_until =
        all < BUSY_BYTES ? lsi_clock_seconds() + rest_seconds : 0;
    return all > 0;
}

/* Room may appear at any moment: only a read shows that nothing is left. */
bool lsi_tag_finish(lsi_tag *tag)
{
    while (lsi_tag_to_poll(tag) >= 0)
        if (read_some(tag) == 0 && tag->in >= 0) /* still open elsewhere */
            end(tag);
    return tag->in < 0;
}
