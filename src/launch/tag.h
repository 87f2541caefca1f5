/*
 * Output of ranks with "[rank] " in front of each line. The supervisor reads
 * it from pipes and puts whole lines into a sink, so that ranks do not cut each
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

/* One pipe: a rank's stdout or stderr. */
typedef struct lsi_tag {
    int rank;
    int in; /* the end that is read; -1: closed */
    lsi_sink *sink;
    size_t used;
    char line[LSI_TAG_LINE_BYTES]; /* begun, without its end */
} lsi_tag;

/* Makes a pipe; *write_end is the rank's. Both are closed on exec. */
ls_status lsi_tag_open(lsi_tag *tag, int rank, lsi_sink *sink, int *write_end);

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
