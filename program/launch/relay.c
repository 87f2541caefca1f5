/* Passes the output of ranks through the launcher; see relay.h. */
#include "launch/relay.h"

#include <assert.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/suspending_clock.h"

static bool put_line(void *context, const char *text, size_t bytes)
{
    const lsi_output *const output = context;
    return lsi_sink_put_line(output->sinks[1], text, bytes);
}

ls_status lsi_relay_open(lsi_relay *relay, bool folds)
{
    char host[HOST_NAME_MAX + 1] = "";
    *relay = (lsi_relay){0};
    LS_TRY(lsi_output_open(&relay->output));
    if (!folds)
        return LS_OK;
    (void)gethostname(host, sizeof(host) - 1);
    return lsi_console_new(host, put_line, &relay->output, &relay->console);
}

void lsi_relay_close(lsi_relay *relay)
{
    lsi_console_free(relay->console);
    lsi_output_close(&relay->output);
}

/* ---- from the ranks --------------------------------------------------- */

static void keep_earlier(double *earliest, double time)
{
    if (time > 0 && (*earliest == 0 || time < *earliest))
        *earliest = time;
}

double lsi_relay_to_poll(lsi_relay *relay, lsi_tag *tags, int n,
                         struct pollfd *polled)
{
    const double now =
        n > 0 || relay->console != NULL ? lsi_clock_seconds() : 0;
    double next = relay->console != NULL ? lsi_console_next(relay->console) : 0;
    for (int i = 0; i < n; i++) {
        const bool rests = tags[i].rests_until > now;
        polled[i] = (struct pollfd){
            .fd = rests ? -1 : lsi_tag_to_poll(&tags[i]), .events = POLLIN};
        keep_earlier(&next, rests ? tags[i].rests_until : 0);
    }
    if (next == 0)
        return -1;
    return next > now ? next - now : 0;
}

/* Printed once: the error is most likely the same for all ranks. */
static void print_log_error(lsi_relay *relay, const lsi_tag *tag)
{
    const int error = tag->target.log.error;
    if (error == 0 || relay->log_error_printed)
        return;
    relay->log_error_printed = true;
    lsi_output_print(&relay->output,
                     "output is lost: cannot write to the logs of "
                     "rank %d: %s",
                     tag->rank, strerror(error));
}

void lsi_relay_read(lsi_relay *relay, lsi_tag *tags, int n,
                    const struct pollfd *polled)
{
    for (int k = 0; k < n; k++) {
        const int i = (relay->first_tag + k) % n;
        if ((polled[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
            (void)lsi_tag_pump(&tags[i]);
        print_log_error(relay, &tags[i]);
    }
    if (relay->console != NULL)
        lsi_console_pass(relay->console, lsi_clock_seconds());
    relay->first_tag = n > 0 ? (relay->first_tag + 1) % n : 0;
}

/* ---- to the readers --------------------------------------------------- */

/*
 * Prints the error of a failed write once; true if it was printed now. A reader
 * that is gone is not an error.
 */
static bool print_write_error(lsi_relay *relay)
{
    for (int i = 0; i < 2 && relay->write_error == 0; i++) {
        relay->write_error = lsi_sink_get_state(relay->output.sinks[i]).error;
        if (relay->write_error == 0)
            continue;
        lsi_output_print(
            &relay->output, "output is lost: cannot write to %s: %s",
            i == 0 ? "stdout" : "stderr", strerror(relay->write_error));
        return true;
    }
    return false;
}

void lsi_relay_check_output(lsi_relay *relay)
{
    uint64_t changes;
    const ssize_t bytes = read(relay->output.wake, &changes, sizeof(changes));
    (void)bytes; /* the number of changes does not matter */
    (void)print_write_error(relay);
}

void lsi_relay_watch_readers(lsi_relay *relay)
{
    for (int i = 0; i < 2; i++) {
        lsi_stream_reader *r = &relay->readers[i];
        lsi_sink *const sink = relay->output.sinks[i];
        const uint64_t written = lsi_sink_get_state(sink).written;
        assert(written >= r->written);
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
            lsi_output_print(
                &relay->output,
                "output is lost: the program that reads it has read "
                "nothing for %g s",
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
        print_log_error(relay, &tags[i]);
    }
    if (all && relay->console != NULL)
        lsi_console_finish(relay->console, lsi_clock_seconds());
    return all && lsi_output_is_empty(&relay->output) &&
           !print_write_error(relay);
}
