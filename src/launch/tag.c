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

ls_status lsi_tag_open(lsi_tag *tag, int rank, int out, int *write_end)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return lsi_fail_errno(LS_ERR_SYSTEM, "no pipe for a rank's output");
    tag->rank = rank;
    tag->in = ends[0];
    tag->out = out;
    tag->used = 0;
    *write_end = ends[1];
    return LS_OK;
}

/* Nobody reads any more: the rank is told by SIGPIPE, as it would be. */
static void stop(lsi_tag *tag)
{
    close(tag->in);
    tag->in = -1;
}

static void write_out(lsi_tag *tag, const char *data, size_t bytes)
{
    while (bytes > 0 && tag->in >= 0) {
        const ssize_t written = write(tag->out, data, bytes);
        if (written < 0 && errno != EINTR) {
            stop(tag);
        } else if (written > 0) {
            data += written;
            bytes -= (size_t)written;
        }
    }
}

/* A begun line, ended here, in one piece with its tag. */
static void end_line(lsi_tag *tag)
{
    char text[LSI_TAG_LINE_BYTES + 32];
    const int head = snprintf(text, sizeof(text), "[%d] ", tag->rank);
    memcpy(text + head, tag->line, tag->used);
    text[(size_t)head + tag->used] = '\n';
    write_out(tag, text, (size_t)head + tag->used + 1);
    tag->used = 0;
}

static void take(lsi_tag *tag, const char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (data[i] == '\n' || tag->used == sizeof(tag->line))
            end_line(tag);
        if (data[i] != '\n')
            tag->line[tag->used++] = data[i];
    }
}

void lsi_tag_pump(lsi_tag *tag)
{
    char data[LSI_TAG_LINE_BYTES];
    const ssize_t bytes = read(tag->in, data, sizeof(data));
    if (bytes < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (bytes > 0) {
        take(tag, data, (size_t)bytes);
        return;
    }
    if (tag->used > 0)
        end_line(tag);
    if (tag->in >= 0)
        stop(tag);
}

void lsi_tag_drain(lsi_tag *tag)
{
    while (tag->in >= 0)
        lsi_tag_pump(tag);
}
