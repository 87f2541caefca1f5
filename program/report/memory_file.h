/*
 * What a process has recorded of its memory (observe/memory_events.h), as read
 * from its file and played again: what was live when, who held it at the peak,
 * and what the largest blocks were.
 */
#ifndef LS_REPORT_MEMORY_FILE_H
#define LS_REPORT_MEMORY_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/profile.h"
#include "observe/trails.h"
#include "report/timeline.h"

/* Behind the kinds: what pools keep for the next time. */
enum {
    LSI_MEMORY_KEPT = LS_MEMORY_TAG_COUNT,
    LSI_MEMORY_SERIES /* how many there are with it */
};

/* "parameters", ..., "kept by pools". */
const char *lsi_memory_series_name(int kind);

/* A block, from when it was taken until it was given back. */
typedef struct lsi_memory_block {
    uint64_t id;
    int64_t taken, given; /* ns; given is INT64_MAX if it was not */
    uint64_t bytes;
    uint32_t phase, path, operation, what,
        stack; /* numbers of names + 1 and trails */
    uint8_t kind;
    bool kept; /* it is of a pool's memory */
} lsi_memory_block;

/* How much there was of a kind from some time on. */
typedef struct lsi_memory_change {
    int64_t time;
    int64_t bytes; /* of that kind, from then on */
    uint8_t kind;
} lsi_memory_change;

struct lsi_memory_file {
    lsi_timeline_process *process; /* rank, host, names, `whole`, ... */
    lsi_trail *trails;             /* [number - 1] */
    size_t n_trails;
    lsi_memory_block *blocks; /* in the order in which they were taken */
    size_t n_blocks;
    lsi_memory_change *changes; /* in the order of time */
    size_t n_changes;
    char *maps; /* lines of /proc/self/maps */
    size_t maps_bytes;
    uint64_t refused; /* allocations */

    /* At the peak of the whole: */
    int64_t peak, peak_time;
    int64_t at_peak[LSI_MEMORY_SERIES];
    /* The peak of each kind by itself: */
    int64_t peak_of[LSI_MEMORY_SERIES];
    /* The most that was live without what pools keep, and when. */
    int64_t live_peak, live_peak_time;
    int64_t at_live_peak[LSI_MEMORY_SERIES];

    /* While it is read, after the last event: */
    int64_t live[LSI_MEMORY_SERIES];
    int64_t in_use, time; /* of what pools have */
    uint64_t events;      /* that the end counts */
    size_t trail_room, block_room, change_room, maps_room;
};

/*
 * Reads one. LS_ERR_FORMAT if it is not such a file, or of another version; one
 * that was cut off at its end is good up to there. `path` is for messages.
 */
ls_status lsi_memory_read(const char *path, lsi_memory_file **out);
void lsi_memory_file_free(lsi_memory_file **file);

/* A name, "" if there is none. */
const char *lsi_memory_text(const lsi_memory_file *file, uint32_t number);

/* "block 3/attention"; "" for no path. */
void lsi_memory_path_text(const lsi_memory_file *file, uint32_t path, char *out,
                          size_t room);

#endif
