/* Messages to hosts; see ssh_message.h. */
#include "launch/ssh_message.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "launch/launch.h"

ls_status lsi_ssh_message_read(const char *data, size_t bytes,
                               lsi_ssh_message *out)
{
    enum { MOST_DIGITS = 7 };
    size_t length = 0, digits = 0;
    *out = (lsi_ssh_message){0};
    while (digits < bytes && digits < MOST_DIGITS && data[digits] >= '0' &&
           data[digits] <= '9')
        length = 10 * length + (size_t)(data[digits++] - '0');
    if (digits == bytes && length <= LSI_SSH_MESSAGE_MOST)
        return LS_OK;
    if (digits == 0 || digits == bytes || data[digits] != ':' || length == 0 ||
        length > LSI_SSH_MESSAGE_MOST)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "standard input does not come from `lockstep run --hosts`. Do not "
            "start this command yourself; run `lockstep run --hosts`");
    if (bytes < digits + length + 2)
        return LS_OK;
    const char *const body = data + digits + 1;
    if (body[length] != ',')
        return lsi_fail(LS_ERR_ARGUMENT,
                        "malformed message from `lockstep run --hosts`: its "
                        "length is given as %zu bytes, but the byte after them "
                        "is not a comma; " LSI_ONE_VERSION,
                        length);
    *out = (lsi_ssh_message){
        .kind = body[0],
        .text = body + 1,
        .bytes = length - 1,
        .used = digits + length + 2,
    };
    return LS_OK;
}

static void write_all(int fd, const char *data, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t written = write(fd, data, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return;
        data += written;
        bytes -= (size_t)written;
    }
}

void lsi_ssh_message_write(int fd, char kind, const char *text)
{
    char head[32];
    const int length =
        snprintf(head, sizeof(head), "%zu:%c", strlen(text) + 1, kind);
    write_all(fd, head, (size_t)length);
    write_all(fd, text, strlen(text));
    write_all(fd, ",", 1);
}
