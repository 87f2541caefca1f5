/*
 * Output of ranks that passes through the launcher. It goes to a log file, with
 * "[rank] " in front of each line, or to a console that leaves some lines out
 * (console.h). The supervisor reads it from pipes and puts whole lines into a
 * sink, so that lines of different ranks do not mix.
 *
 * Nothing is lost and nothing grows. While the sink is full its pipes are not
 * read, and the ranks wait in write() as they would for the reader itself.
 * Ranks whose lines may be left out do not wait. When the reader is gone the
 * pipes are closed, and the next write raises SIGPIPE, as it would without the
 * launcher.
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

/* Forms of a pipe's output. */
typedef enum lsi_tag_style {
    LSI_TAG_LINES,   /* whole lines */
    LSI_TAG_MARKED,  /* each line with "[rank] " */
    LSI_TAG_BYTES,   /* unchanged, incomplete lines included */
    LSI_TAG_FOLDED,  /* by the console, which folds and leaves out */
    LSI_TAG_LIMITED, /* whole lines, as many as the console admits */
} lsi_tag_style;

/* Destinations of a pipe's output. */
typedef struct lsi_tag_target {
    lsi_sink *sink; /* NULL: not to the console */
    lsi_tag_style style;
    lsi_console *console; /* for the last two styles */
    lsi_log_file log;     /* file that gets all of it unchanged */
} lsi_tag_target;

/* One pipe: a rank's stdout or stderr. */
typedef struct lsi_tag {
    int rank;
    int stream; /* LSI_STREAM_OUT or LSI_STREAM_ERR */
    int in;     /* end for reading; -1: closed */
    lsi_tag_target target;
    double rests_until; /* no reads before this time of the clock */
    size_t used;
    char line[LSI_TAG_LINE_BYTES]; /* a begun line, without its end */
    size_t tail_bytes;             /* bytes in `tail` */
    char tail[LSI_TAIL_BYTES];     /* most recent output */
} lsi_tag;

/*
 * Makes a pipe; *write_end is for the rank. Both ends are closed on exec. On
 * success the tag closes the log with the pipe.
 */
ls_status lsi_tag_open(lsi_tag *tag, int rank, lsi_tag_target target,
                       int *write_end);

/*
 * The descriptor to wait for: -1 while the sink is full and once the pipe is
 * closed. This call closes the pipe if the reader is gone.
 */
int lsi_tag_to_poll(lsi_tag *tag);

/*
 * Reads available data and passes on complete lines, if the sink has room.
 * False if nothing was read. A rank that writes small pieces is then not read
 * for some milliseconds, so that it does not wake us for every line.
 */
bool lsi_tag_pump(lsi_tag *tag);

/*
 * When all writers have ended: passes on all remaining data and closes the
 * pipe. False if this has to wait for room.
 */
bool lsi_tag_finish(lsi_tag *tag);

/*
 * The last lines of the output, at most `lines`, without the final line end.
 * They are stored in the tag, *bytes of them.
 */
const char *lsi_tag_tail(const lsi_tag *tag, int lines, size_t *bytes);

#endif
