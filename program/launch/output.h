/*
 * Non-blocking writes to a stream whose reader may stall: a pager, a terminal
 * stopped by Ctrl-S, a pipe to a program that sleeps. What is put into a sink
 * waits in a buffer of bounded size; a thread of its own writes it. The flags
 * of the stream are shared with other processes and are not changed.
 */
#ifndef LS_LAUNCH_OUTPUT_H
#define LS_LAUNCH_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

enum { LSI_SINK_BYTES = 256 << 10 };

typedef struct lsi_sink lsi_sink;

/*
 * The state of a sink. `gone`: nobody can read the stream any more (EPIPE), or
 * the sink was given up. Any other error loses what was to be written then, as
 * it would for the program that wrote it; `error` is the first such errno.
 */
typedef struct lsi_sink_state {
    size_t waiting;   /* bytes in the buffer */
    uint64_t written; /* bytes so far */
    bool gone;
    int error;
} lsi_sink_state;

/*
 * A sink for a descriptor. The eventfd `wake`, if it is not negative, is
 * written to whenever the state has changed.
 */
ls_status lsi_sink_new(int fd, int wake, lsi_sink **out);

/* What was not written is lost. NULL is fine. */
void lsi_sink_free(lsi_sink *sink);

lsi_sink_state lsi_sink_look(lsi_sink *sink);

/* All of it or, if it does not fit or the sink is gone, nothing. */
bool lsi_sink_put(lsi_sink *sink, const char *data, size_t bytes);

/* Likewise, behind the end of a line that has only begun. */
bool lsi_sink_put_line(lsi_sink *sink, const char *data, size_t bytes);

/*
 * Whether bytes wait for a stalled reader. While the stream accepts bytes they
 * do not: the writer is about to write.
 */
bool lsi_sink_is_stuck(lsi_sink *sink);

/* From now on it is gone, with what waits in it. */
void lsi_sink_give_up(lsi_sink *sink);

/* The two streams of a job; one sink for both if they are the same file. */
typedef struct lsi_output {
    lsi_sink *sinks[2]; /* stdout, stderr */
    int wake;           /* readable once a sink has changed */
} lsi_output;

ls_status lsi_output_open(lsi_output *output);
void lsi_output_close(lsi_output *output);

/* Whether everything has been written that can be. */
bool lsi_output_is_empty(const lsi_output *output);

/* "lockstep: ..." and the end of the line, on stderr. */
void lsi_output_say(const lsi_output *output, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
