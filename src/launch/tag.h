/*
 * Output of ranks with "[rank] " in front of each line. The supervisor reads
 * it from pipes and writes whole lines, so that ranks do not cut each other's.
 */
#ifndef LS_LAUNCH_TAG_H
#define LS_LAUNCH_TAG_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/status.h"

enum { LSI_TAG_LINE_BYTES = 8192 };

/* One pipe: a rank's stdout or stderr. */
typedef struct lsi_tag {
    int rank;
    int in;  /* the end that is read; -1: closed */
    int out; /* where lines go: 1 or 2 */
    size_t used;
    char line[LSI_TAG_LINE_BYTES]; /* begun, without its end */
} lsi_tag;

/* Makes a pipe; *write_end is the rank's. Both are closed on exec. */
ls_status lsi_tag_open(lsi_tag *tag, int rank, int out, int *write_end);

/* Reads what is there and writes the lines that it ends. */
void lsi_tag_pump(lsi_tag *tag);

/* Reads until the other end is closed. */
void lsi_tag_drain(lsi_tag *tag);

#endif
