/* The way of ranks' output through the launcher; see relay.h. */
#include "launch/relay.h"

#include <string.h>
#include <unistd.h>

#include "base/suspending_clock.h"

ls_status lsi_relay_open(lsi_relay *relay)
{
    *relay = (lsi_relay){0};
    return lsi_output_open(&relay->output);
}

void lsi_relay_close(lsi_relay *relay)
{
    lsi_output_close(&relay->output);
}

/* ---- from the ranks --------------------------------------------------- */

void lsi_relay_to_poll(lsi_tag *tags, int n, struct pollfd *polled)
{
    for (int i = 0; i < n; i++)
        polled[i] =
            (struct pollfd){.fd = lsi_tag_to_poll(&tags[i]), .events = POLLIN};
}

/* Said once: it is most likely the same for all. */
static void tell_log_error(lsi_relay *relay, const lsi_tag *tag)
{
    if (tag->log_error == 0 || relay->told_log)
        return;
    relay->told_log = true;
    lsi_output_say(&relay->output,
                   "output is lost: cannot write to the logs of "
                   "rank %d: %s",
                   tag->rank, strerror(tag->log_error));
}

void lsi_relay_read(lsi_relay *relay, lsi_tag *tags, int n,
                    const struct pollfd *polled)
{
    for (int k = 0; k < n; k++) {
        const int i = (relay->first_tag + k) % n;
        if ((polled[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
            (void)lsi_tag_pump(&tags[i]);
        tell_log_error(relay, &tags[i]);
    }
    relay->first_tag = n > 0 ? (relay->first_tag + 1) % n : 0;
}

/* ---- to the readers --------------------------------------------------- */

/*
 * What a write failed with is said once; true if it is said now. That a reader
 * has gone is no error.
 */
static bool tell_error(lsi_relay *relay)
{
    for (int i = 0; i < 2 && relay->write_error == 0; i++) {
        relay->write_error = lsi_sink_look(relay->output.sinks[i]).error;
        if (relay->write_error == 0)
            continue;
        lsi_output_say(&relay->output, "output is lost: cannot write to %s: %s",
                       i == 0 ? "stdout" : "stderr",
                       strerror(relay->write_error));
        return true;
    }
    return false;
}

void lsi_relay_look(lsi_relay *relay)
{
    uint64_t changes;
    const ssize_t bytes = read(relay->output.wake, &changes, sizeof(changes));
    (void)bytes; /* how often it has changed does not matter */
    (void)tell_error(relay);
}

void lsi_relay_watch_readers(lsi_relay *relay)
{
    for (int i = 0; i < 2; i++) {
        lsi_stream_reader *r = &relay->readers[i];
        lsi_sink *const sink = relay->output.sinks[i];
        const uint64_t written = lsi_sink_look(sink).written;
        if (written != r->written || !lsi_sink_is_stuck(sink))
            r->still_since = lsi_suspending_clock_seconds();
        r->written = written;
    }
}

double lsi_relay_be_patient(lsi_relay *relay, double now, double grace,
                            bool *lost)
{
    double next = 0;
    for (int i = 0; i < 2; i++) {
        lsi_sink *const sink = relay->output.sinks[i];
        double end = relay->readers[i].still_since + grace;
        if (now >= end && lsi_sink_is_stuck(sink)) {
            lsi_sink_give_up(sink);
            lsi_output_say(&relay->output,
                           "output is lost: for %g s nobody has read it",
                           grace);
            *lost = true;
        }
        end = end > now ? end : now + grace;
        if (next == 0 || end < next)
            next = end;
    }
    return next;
}

bool lsi_relay_drain(lsi_relay *relay, lsi_tag *tags, int n)
{
    bool all = true;
    for (int i = 0; i < n; i++) {
        all = lsi_tag_finish(&tags[i]) && all;
        tell_log_error(relay, &tags[i]);
    }
    return all && lsi_output_is_empty(&relay->output) && !tell_error(relay);
}
