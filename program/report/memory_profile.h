/*
 * Owners of memory at the peak of a recording: by layer, by operation, and by
 * largest block. Also the course of memory over time, in a given number of
 * points.
 */
#ifndef LS_REPORT_MEMORY_PROFILE_H
#define LS_REPORT_MEMORY_PROFILE_H

#include "report/memory_file.h"

/* Properties by which blocks are grouped into rows. */
typedef enum lsi_memory_key {
    LSI_MEMORY_BY_LAYER,     /* path of ranges; else the block's purpose */
    LSI_MEMORY_BY_OPERATION, /* operation of the tape; else the purpose */
    LSI_MEMORY_BY_SIZE       /* kind, path, operation, stack, bytes */
} lsi_memory_key;

typedef struct lsi_memory_row {
    const lsi_memory_block *first; /* one of the blocks */
    int64_t bytes, blocks; /* bytes and number of blocks live at the time */
} lsi_memory_row;

/*
 * The rows at a time, sorted by bytes; by size: sorted by the largest block.
 * *out is freed with free(). Memory without an address, and memory from before
 * the recording, is in none of the rows.
 */
ls_status lsi_memory_rows(const lsi_memory_file *file, lsi_memory_key key,
                          int64_t time, lsi_memory_row **out, size_t *n);

/* The label of a row, by layer or operation. */
void lsi_memory_row_text(const lsi_memory_file *file, lsi_memory_key key,
                         const lsi_memory_row *row, char *out, size_t room);

/* The state of all kinds at one time. */
typedef struct lsi_memory_point {
    int64_t time;
    int64_t bytes[LSI_MEMORY_SERIES];
} lsi_memory_point;

/*
 * The course of memory in at most `most` points (2 or more). Time is divided
 * evenly; each part shows its moment with the most bytes. Freed with free().
 */
ls_status lsi_memory_course(const lsi_memory_file *file, size_t most,
                            lsi_memory_point **out, size_t *n);

#endif
