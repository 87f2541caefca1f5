/*
 * The path of ranks' output through the launcher, from the pipes (tag.h) to the
 * streams of the job (output.h), and the waiting on the way.
 */
#ifndef LS_LAUNCH_RELAY_H
#define LS_LAUNCH_RELAY_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "launch/console.h"
#include "launch/output.h"
#include "launch/tag.h"
#include "lockstep/status.h"

/* The reader of a stream, known only by the bytes that it has accepted. */
typedef struct lsi_stream_reader {
    uint64_t written;
    double still_since; /* when it was last seen not to stall */
} lsi_stream_reader;

typedef struct lsi_relay {
    lsi_output output;
    lsi_console *console;         /* NULL: all lines are shown */
    lsi_stream_reader readers[2]; /* of stdout, of stderr */
    int first_tag;                /* tag to read first: each has its turn */
    int write_error;              /* reported error of the output; 0: none */
    bool log_error_printed;       /* a failed write to a log was reported */
} lsi_relay;

/* `folds`: use a console that leaves out lines beyond a readable rate. */
ls_status lsi_relay_open(lsi_relay *relay, bool folds);
void lsi_relay_close(lsi_relay *relay);

/*
 * Prepares poll: one entry of `polled` for each of n tags. Returns the most
 * seconds to wait; -1: no limit.
 */
double lsi_relay_to_poll(lsi_relay *relay, lsi_tag *tags, int n,
                         struct pollfd *polled);

/* Reads from the tags that poll reported as ready, and shows the output. */
void lsi_relay_read(lsi_relay *relay, lsi_tag *tags, int n,
                    const struct pollfd *polled);

/* Call it when the output's eventfd is readable. */
void lsi_relay_check_output(lsi_relay *relay);

/* Notes which streams are being read; call it before more is written. */
void lsi_relay_watch_readers(lsi_relay *relay);

/*
 * For a job that has to end: gives up output that nobody has read for `grace`
 * seconds. Returns when to look again. *lost is set if something was given up.
 */
double lsi_relay_be_patient(lsi_relay *relay, double now, double grace,
                            bool *lost);

/*
 * When all writers have ended: passes on the remaining output. Returns whether
 * all data that can be written have been written.
 */
bool lsi_relay_drain(lsi_relay *relay, lsi_tag *tags, int n);

#endif
