/* Output of hosts; see ssh_state.h. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "launch/signals.h"
#include "launch/ssh_message.h"
#include "launch/ssh_state.h"
#include "lockstep/version.h"

bool lsi_ssh_can_read(const lsi_output *output, int stream)
{
    enum { ROOM = 4 * LSI_SSH_LINE };
    return lsi_sink_get_state(output->sinks[stream]).waiting + ROOM <=
           LSI_SINK_BYTES;
}

/* "lockstep-on-host VERSION PORT ADDRESS" */
static void greet(lsi_ssh_node *node, const lsi_output *output,
                  const char *line)
{
    char version[64] = "", port[16] = "";
    node->greeted = sscanf(line, LSI_SSH_HELLO " %63s %15s %63s", version, port,
                           node->address) == 3 &&
                    strcmp(version, ls_version_string()) == 0;
    node->port = (int)strtol(port, NULL, 10);
    if (node->greeted)
        return;
    node->refused = true;
    lsi_output_print(
        output,
        "host %s has lockstep %s, but this host has %s; install the "
        "same version on all hosts",
        node->name, version, ls_version_string());
}

static unsigned *times_of(lsi_ssh_line_counts *counts, uint64_t hash)
{
    enum { N = sizeof(counts->lines) / sizeof(counts->lines[0]) };
    for (size_t i = 0; i < N; i++) {
        if (counts->lines[i].hash == hash)
            return &counts->lines[i].times;
    }
    const size_t i = counts->next++ % N;
    counts->lines[i].hash = hash;
    counts->lines[i].times = 0;
    return &counts->lines[i].times;
}

/*
 * For a line of a launcher: whether another host's launcher has already printed
 * it as often.
 */
static bool is_known(lsi_ssh_node *node, const char *line)
{
    const uint64_t hash = lsi_hash(LSI_HASH_START, line, strlen(line));
    unsigned *const shown = times_of(node->shown, hash);
    if (++*times_of(&node->own, hash) <= *shown)
        return true;
    ++*shown;
    return false;
}

static void pass_line(lsi_ssh_node *node, const lsi_output *output, int stream,
                      size_t bytes)
{
    char marked[LSI_SSH_LINE + 320];
    char *const line = node->lines[stream].text;
    lsi_sink *const sink = output->sinks[stream];
    line[bytes - 1] = '\0';
    if (!node->greeted && stream == 0 &&
        strncmp(line, LSI_SSH_HELLO, sizeof(LSI_SSH_HELLO) - 1) == 0) {
        greet(node, output, line);
        return;
    }
    if (!node->greeted && stream == 1) {
        if (line[0] != '\0')
            snprintf(node->last, sizeof(node->last), "%.255s", line);
        return;
    }
    if (!node->greeted)
        return; /* output of the host's shell at its start */
    const bool is_launcher =
        stream == 1 && strncmp(line, "lockstep: ", 10) == 0;
    if (is_launcher && is_known(node, line))
        return;
    if (is_launcher && strstr(line, "host ") == NULL) {
        const int length =
            snprintf(marked, sizeof(marked), "lockstep: host %s: %s\n",
                     node->name, line + 10);
        (void)lsi_sink_put(sink, marked, (size_t)length);
        return;
    }
    line[bytes - 1] = '\n';
    (void)lsi_sink_put(sink, line, bytes);
}

static void pass_lines(lsi_ssh_node *node, const lsi_output *output, int stream)
{
    lsi_ssh_line *const line = &node->lines[stream];
    const char *end;
    while ((end = memchr(line->text, '\n', line->used)) != NULL) {
        const size_t bytes = (size_t)(end - line->text) + 1;
        pass_line(node, output, stream, bytes);
        line->used -= bytes;
        memmove(line->text, line->text + bytes, line->used);
    }
}

void lsi_ssh_read_lines(lsi_ssh_node *node, const lsi_output *output,
                        int stream)
{
    lsi_ssh_line *const line = &node->lines[stream];
    const size_t room = sizeof(line->text) - 1 - line->used;
    const ssize_t bytes = read(line->fd, line->text + line->used, room);
    if (bytes < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    line->used += bytes > 0 ? (size_t)bytes : 0;
    if (line->used > 0 &&
        (bytes <= 0 || (line->used == sizeof(line->text) - 1 &&
                        memchr(line->text, '\n', line->used) == NULL)))
        line->text[line->used++] = '\n'; /* a last or a long line */
    pass_lines(node, output, stream);
    if (bytes > 0)
        return;
    close(line->fd);
    line->fd = -1;
}

void lsi_ssh_write_rest(const lsi_output *output, int signals, double seconds)
{
    enum { SLICE_MS = 100 };
    struct pollfd polled[] = {{.fd = output->wake, .events = POLLIN},
                              {.fd = signals, .events = POLLIN}};
    struct signalfd_siginfo info;
    uint64_t changes;
    double until = 0; /* no limit */
    while (!lsi_output_is_empty(output) &&
           (until == 0 || lsi_clock_seconds() < until)) {
        if (poll(polled, 2, until == 0 ? -1 : SLICE_MS) <= 0)
            continue;
        if (polled[0].revents != 0 &&
            read(polled[0].fd, &changes, sizeof(changes)) < 0)
            return;
        if (polled[1].revents != 0 &&
            read(polled[1].fd, &info, sizeof(info)) == sizeof(info) &&
            lsi_signal_ends((int)info.ssi_signo) && until == 0)
            until = lsi_clock_seconds() + seconds;
    }
}
