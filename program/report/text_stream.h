/*
 * A stream into memory that remembers whether everything fitted. glibc's
 * open_memstream drops what it cannot store, and neither ferror nor fclose
 * report the loss.
 */
#ifndef LS_REPORT_TEXT_STREAM_H
#define LS_REPORT_TEXT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "lockstep/status.h"

typedef struct lsi_text_stream {
    FILE *file; /* stream to print to */
    char *text;
    size_t bytes, room;
    bool full; /* at least one byte was dropped: out of memory */
} lsi_text_stream;

/*
 * Opens a stream, which must not move until lsi_text_stream_close.
 * LS_ERR_MEMORY leaves nothing to close.
 */
ls_status lsi_text_stream_open(lsi_text_stream *stream);

/*
 * Closes an open stream. *out is the text with a terminating zero, which the
 * caller frees with free(). LS_ERR_MEMORY: the text is not complete. If
 * `status`, the result of the printing, is not LS_OK, returns `status`.
 */
ls_status lsi_text_stream_close(lsi_text_stream *stream, ls_status status,
                                char **out);

#endif
