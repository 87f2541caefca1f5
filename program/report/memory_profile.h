/*
 * Who holds the memory at the peak of a recording: by layer, by operation, and
 * which blocks are the largest; and the course of it over time, in so many
 * points.
 */
#ifndef LS_REPORT_MEMORY_PROFILE_H
#define LS_REPORT_MEMORY_PROFILE_H

#include "report/memory_file.h"

/* What blocks have in common of which a row tells. */
typedef enum lsi_memory_key {
    LSI_MEMORY_BY_LAYER,     /* the path of ranges; else what it is */
    LSI_MEMORY_BY_OPERATION, /* of the tape; else what it is */
    LSI_MEMORY_BY_SIZE       /* kind, path, operation, stack, bytes */
} lsi_memory_key;

typedef struct lsi_memory_row {
    const lsi_memory_block *first; /* one of them */
    int64_t bytes, blocks;         /* that are live at the time */
} lsi_memory_row;

/*
 * The rows at a time, those with most bytes first; by size: with the largest
 * blocks first. *out is freed with free(). Memory without an address, and what
 * was there before the recording, is in none.
 */
ls_status lsi_memory_rows(const lsi_memory_file *file, lsi_memory_key key,
                          int64_t time, lsi_memory_row **out, size_t *n);

/* What a row is about, by layer or operation. */
void lsi_memory_row_text(const lsi_memory_file *file, lsi_memory_key key,
                         const lsi_memory_row *row, char *out, size_t room);

/* The state of all kinds at one time. */
typedef struct lsi_memory_point {
    int64_t time;
    int64_t bytes[LSI_MEMORY_SERIES];
} lsi_memory_point;

/*
 * Its course in at most `most` points (2 or more): the time is divided evenly,
 * and of each part the moment with most bytes is shown. Freed with free().
 */
ls_status lsi_memory_course(const lsi_memory_file *file, size_t most,
                            lsi_memory_point **out, size_t *n);

#endif
