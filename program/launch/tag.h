/*
 * Output of ranks that passes through the launcher, because it goes to a log
 * file, with "[rank] " in front of each line, or to a console that leaves some
 * out (console.h). The supervisor reads it from pipes and puts whole lines into
 * a sink, so that ranks do not cut each other's.
 *
 * Nothing is lost and nothing grows: while the sink is full its pipes are not
 * read, and the ranks wait in write() as they would for the reader itself; only
 * those whose lines may be left out do not. When the reader is gone the pipes
 * are closed, and the next write is answered by SIGPIPE, as it would be.
 */
#ifndef LS_LAUNCH_TAG_H
#define LS_LAUNCH_TAG_H

#include <stdbool.h>
#include <stddef.h>

#include "launch/console.h"
#include "launch/logs.h"
#include "launch/output.h"
#include "lockstep/status.h"

enum { LSI_TAG_LINE_BYTES = 8192, LSI_TAIL_BYTES = 8192 };

/* How a pipe's output is shown. */
typedef enum lsi_tag_style {
    LSI_TAG_LINES,   /* whole lines */
    LSI_TAG_MARKED,  /* with "[rank] " before each */
    LSI_TAG_BYTES,   /* as they come, also lines that have only begun */
    LSI_TAG_FOLDED,  /* by the console, which folds and leaves out */
    LSI_TAG_LIMITED, /* whole lines, as many as the console admits */
} lsi_tag_style;

/* Where a pipe's output goes. */
typedef struct lsi_tag_target {
    lsi_sink *sink; /* NULL: not to the console */
    lsi_tag_style style;
    lsi_console *console; /* of the last two styles */
    lsi_log_file log;     /* the file that gets all of it as it is */
} lsi_tag_target;

/* One pipe: a rank's stdout or stderr. */
typedef struct lsi_tag {
    int rank;
    int stream; /* LSI_STREAM_OUT or LSI_STREAM_ERR */
    int in;     /* the end that is read; -1: closed */
    lsi_tag_target target;
    double rests_until; /* not to be read before, by the clock */
    size_t used;
    char line[LSI_TAG_LINE_BYTES]; /* begun, without its end */
    size_t tail_bytes;             /* of `tail` */
    char tail[LSI_TAIL_BYTES];     /* what was written last */
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
 * room. False if nothing was read. A rank that writes little by little then
 * rests for some milliseconds, so that it does not wake us for every line.
 */
bool lsi_tag_pump(lsi_tag *tag);

/*
 * When all who wrote have ended: passes on all that is left and closes the
 * pipe. False if that has to wait until there is room.
 */
bool lsi_tag_finish(lsi_tag *tag);

/*
 * The last lines, at most `lines`, of what was written, without the end of the
 * very last. They lie in the tag, *bytes of them.
 */
const char *lsi_tag_tail(const lsi_tag *tag, int lines, size_t *bytes);

#endif
