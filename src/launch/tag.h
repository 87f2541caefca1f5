/*
 * Output of ranks that passes through the launcher, because it goes to a log
 * file or with "[rank] " in front of each line. The supervisor reads it from
 * pipes and puts whole lines into a sink, so that ranks do not cut each
 * other's.
 *
 * Nothing is lost and nothing grows: while the sink is full its pipes are not
 * read, and the ranks wait in write() as they would for the reader itself. When
 * the reader is gone the pipes are closed, and the next write is answered by
 * SIGPIPE, as it would be.
 */
#ifndef LS_LAUNCH_TAG_H
#define LS_LAUNCH_TAG_H

#include <stdbool.h>
#include <stddef.h>

#include "launch/output.h"
#include "lockstep/status.h"

enum { LSI_TAG_LINE_BYTES = 8192 };

/* Where a pipe's output goes. */
typedef struct lsi_tag_target {
    lsi_sink *sink; /* NULL: not to the console */
    bool marked;    /* there with "[rank] " */
    int log;        /* the file that gets all of it as it is; -1: none */
} lsi_tag_target;

/* One pipe: a rank's stdout or stderr. */
typedef struct lsi_tag {
    int rank;
    int in; /* the end that is read; -1: closed */
    lsi_tag_target target;
    int log_error; /* errno of the first write to the log that failed, or 0 */
    size_t used;
    char line[LSI_TAG_LINE_BYTES]; /* begun, without its end */
} lsi_tag;

/*
 * Makes a pipe; *write_end is the rank's. Both are closed on exec. On success
 * the tag closes the log with the pipe.
 */
ls_status lsi_tag_open(lsi_tag *tag, int rank, lsi_tag_target target,
                       int *write_end);

/*
 * The descriptor to wait for: -1 while the sink is full and once the pipe is
 * closed, which it is here if the reader is gone.
 */
int lsi_tag_to_poll(lsi_tag *tag);

/*
 * Reads what is there and passes on the lines that it ends, if the sink has
 * room. False if nothing was read.
 */
bool lsi_tag_pump(lsi_tag *tag);

/*
 * When all who wrote have ended: passes on all that is left and closes the
 * pipe. False if that has to wait until there is room.
 */
bool lsi_tag_finish(lsi_tag *tag);

#endif
