/*
 * Lines from pipes, with their rank.
 */
#include "launch/tag.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "launch/launch.h"

enum {
    HEAD_BYTES = sizeof("[1023] "), /* and the end of the line */
    /* At most: of bytes that all end a line, and of a line begun before. */
    TEXT_BYTES = (HEAD_BYTES + 1) * LSI_TAG_LINE_BYTES + 2 * HEAD_BYTES,
    SPARE_BYTES = 16 << 10 /* for what the supervisor has to say */
};

_Static_assert(LSI_LAUNCH_MAX_RANKS <= 1024, "HEAD_BYTES");
_Static_assert(TEXT_BYTES + SPARE_BYTES <= LSI_SINK_BYTES, "never any room");

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
                              "cannot make a pipe for a rank's output");
    fcntl(ends[0], F_SETFL, O_NONBLOCK); /* the rank's end is another file */
    tag->rank = rank;
    tag->in = ends[0];
    tag->target = target;
    tag->log_error = 0;
    tag->used = 0;
    *write_end = ends[1];
    return LS_OK;
}

/* The rank is told by SIGPIPE, if it writes again. */
static void stop(lsi_tag *tag)
{
    close(tag->in);
    tag->in = -1;
    if (tag->target.log >= 0)
        close(tag->target.log);
    tag->target.log = -1;
}

static bool has_room(const lsi_tag *tag)
{
    if (tag->target.sink == NULL)
        return true;
    const size_t waiting = lsi_sink_look(tag->target.sink).waiting;
    return waiting + TEXT_BYTES + SPARE_BYTES <= LSI_SINK_BYTES;
}

int lsi_tag_to_poll(lsi_tag *tag)
{
    lsi_sink *const sink = tag->target.sink;
    if (tag->in >= 0 && sink != NULL && lsi_sink_look(sink).gone)
        stop(tag);
    return has_room(tag) ? tag->in : -1;
}

static void end_line(lsi_tag *tag, text *out)
{
    char *begin = out->bytes + out->used;
    const int head = tag->target.marked
                         ? snprintf(begin, HEAD_BYTES, "[%d] ", tag->rank)
                         : 0;
    memcpy(begin + head, tag->line, tag->used);
    begin[(size_t)head + tag->used] = '\n';
    out->used += (size_t)head + tag->used + 1;
    tag->used = 0;
}

/* An error costs the log what was to be written, and nobody else. */
static void write_log(lsi_tag *tag, const char *data, size_t bytes)
{
    while (tag->target.log >= 0 && bytes > 0) {
        const ssize_t written = write(tag->target.log, data, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0 && tag->log_error == 0)
            tag->log_error = errno;
        if (written < 0)
            return;
        data += written;
        bytes -= (size_t)written;
    }
}

static void show(lsi_tag *tag, const char *data, size_t bytes)
{
    text out;
    out.used = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (data[i] == '\n' || tag->used == sizeof(tag->line))
            end_line(tag, &out);
        if (data[i] != '\n')
            tag->line[tag->used++] = data[i];
    }
    if (out.used > 0)
        (void)lsi_sink_put(tag->target.sink, out.bytes, out.used);
}

static void end(lsi_tag *tag)
{
    if (tag->used > 0)
        show(tag, "\n", 1);
    stop(tag);
}

/* Whether there was something; at the end, or after an error, it is over. */
static bool read_some(lsi_tag *tag)
{
    char data[LSI_TAG_LINE_BYTES];
    const ssize_t bytes = read(tag->in, data, sizeof(data));
    if (bytes > 0)
        write_log(tag, data, (size_t)bytes);
    if (bytes > 0 && tag->target.sink != NULL)
        show(tag, data, (size_t)bytes);
    if (bytes == 0 || (bytes < 0 && errno != EAGAIN))
        end(tag);
    return bytes > 0;
}

bool lsi_tag_pump(lsi_tag *tag)
{
    return lsi_tag_to_poll(tag) >= 0 && read_some(tag);
}

/* The room may come at any moment: only a read says that nothing is left. */
bool lsi_tag_finish(lsi_tag *tag)
{
    while (lsi_tag_to_poll(tag) >= 0)
        if (!read_some(tag) && tag->in >= 0) /* a stranger holds it open */
            end(tag);
    return tag->in < 0;
}
