/*
 * What ranks write, on its way through the launcher: from the pipes (tag.h) to
 * the streams of the job (output.h), and who waits for whom meanwhile.
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

/* Who reads a stream: nobody knows but by what has been written. */
typedef struct lsi_stream_reader {
    uint64_t written;
    double still_since; /* when it was last seen not to stand still */
} lsi_stream_reader;

typedef struct lsi_relay {
    lsi_output output;
    lsi_console *console;         /* NULL: everything is shown */
    lsi_stream_reader readers[2]; /* of stdout, of stderr */
    int first_tag;                /* to be read next: each in its turn */
    int write_error; /* of the output, which has been told; 0: none */
    bool told_log;   /* that a log could not be written */
} lsi_relay;

/* `folds`: with a console that leaves out what cannot be read. */
ls_status lsi_relay_open(lsi_relay *relay, bool folds);
void lsi_relay_close(lsi_relay *relay);

/*
 * What to wait for: one entry of `polled` for each of n tags. Returns for how
 * many seconds at most; -1: for any time.
 */
double lsi_relay_to_poll(lsi_relay *relay, lsi_tag *tags, int n,
                         struct pollfd *polled);

/* Reads from the tags that poll has found something for, and shows it. */
void lsi_relay_read(lsi_relay *relay, lsi_tag *tags, int n,
                    const struct pollfd *polled);

/* The output's eventfd is readable. */
void lsi_relay_look(lsi_relay *relay);

/* Notes who reads; to be called before more is written. */
void lsi_relay_watch_readers(lsi_relay *relay);

/*
 * For a job that is to end: gives up what nobody has read for `grace` seconds.
 * Returns when to look again. *lost is set if something was given up.
 */
double lsi_relay_be_patient(lsi_relay *relay, double now, double grace,
                            bool *lost);

/*
 * When all who wrote have ended: passes on what is left. Whether everything is
 * written that can be.
 */
bool lsi_relay_drain(lsi_relay *relay, lsi_tag *tags, int n);

#endif
