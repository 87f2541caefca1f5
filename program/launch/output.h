/*
 * Non-blocking writes to a stream whose reader may stall: a pager, a terminal
 * stopped by Ctrl-S, a pipe to a program that sleeps. Data put into a sink wait
 * in a buffer of bounded size, which a dedicated thread writes out. The flags
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
 * The state of a sink. `gone`: the stream has no reader left (EPIPE), or the
 * sink was given up. Any other error loses the data of that write, as it would
 * for the program that wrote them. `error` is the first such errno.
 */
typedef struct lsi_sink_state {
    size_t waiting;   /* bytes in the buffer */
    uint64_t written; /* bytes so far */
    bool gone;
    int error;
} lsi_sink_state;

/*
 * Makes a sink for a descriptor. Each change of the state writes to the eventfd
 * `wake`, unless it is negative.
 */
ls_status lsi_sink_new(int fd, int wake, lsi_sink **out);

/* Discards data that were not written. NULL is fine. */
void lsi_sink_free(lsi_sink *sink);

lsi_sink_state lsi_sink_get_state(lsi_sink *sink);

/* Puts all of it or, if it does not fit or the sink is gone, nothing. */
bool lsi_sink_put(lsi_sink *sink, const char *data, size_t bytes);

/* As lsi_sink_put, but first ends a line that has no line end yet. */
bool lsi_sink_put_line(lsi_sink *sink, const char *data, size_t bytes);

/*
 * Whether bytes wait for a stalled reader. While the stream accepts bytes they
 * do not: the writer is about to write.
 */
bool lsi_sink_is_stuck(lsi_sink *sink);

/* Marks the sink as gone and discards waiting data. */
void lsi_sink_give_up(lsi_sink *sink);

/* The two streams of a job; one sink for both if they are the same file. */
typedef struct lsi_output {
    lsi_sink *sinks[2]; /* stdout, stderr */
    int wake;           /* readable after a change of a sink */
} lsi_output;

ls_status lsi_output_open(lsi_output *output);
void lsi_output_close(lsi_output *output);

/* Whether all data that can be written have been written. */
bool lsi_output_is_empty(const lsi_output *output);

/* Prints "lockstep: ..." and a line end on stderr. */
void lsi_output_print(const lsi_output *output, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
