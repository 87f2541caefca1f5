/*
 * The memory recording of a process (observe/memory_events.h), read from its
 * file and replayed. It contains the live bytes over time, their owners at the
 * peak, and the largest blocks.
 */
#ifndef LS_REPORT_MEMORY_FILE_H
#define LS_REPORT_MEMORY_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/profile.h"
#include "observe/trails.h"
#include "report/timeline.h"

/* A series in addition to the kinds: memory that pools keep for later use. */
enum {
    LSI_MEMORY_KEPT = LS_MEMORY_TAG_COUNT,
    LSI_MEMORY_SERIES /* number of series */
};

/* "parameters", ..., "kept by pools". */
const char *lsi_memory_series_name(int kind);

/* A block, from its allocation until it was freed. */
typedef struct lsi_memory_block {
    uint64_t id;
    int64_t taken, given; /* ns; given is INT64_MAX if it was never freed */
    uint64_t bytes;
    uint32_t phase, path, operation, what,
        stack; /* numbers of names + 1, of trails */
    uint8_t kind;
    bool kept; /* whether it is part of a pool's memory */
} lsi_memory_block;

/* Bytes of a kind from some time on. */
typedef struct lsi_memory_change {
    int64_t time;
    int64_t bytes; /* bytes of the kind from this time on */
    uint8_t kind;
} lsi_memory_change;

struct lsi_memory_file {
    lsi_timeline_process *process; /* rank, host, names, `whole` and others */
    lsi_trail *trails;             /* [number - 1] */
    size_t n_trails;
    lsi_memory_block *blocks; /* blocks in the order of their allocation */
    size_t n_blocks;
    lsi_memory_change *changes; /* changes in the order of time */
    size_t n_changes;
    char *maps; /* lines of /proc/self/maps */
    size_t maps_bytes;
    uint64_t refused; /* number of refused allocations */

    /* Values at the peak of the total: */
    int64_t peak, peak_time;
    int64_t at_peak[LSI_MEMORY_SERIES];
    /* The peak of each kind by itself, in bytes: */
    int64_t peak_of[LSI_MEMORY_SERIES];
    /* Most live bytes without those that pools keep, and their time. */
    int64_t live_peak, live_peak_time;
    int64_t at_live_peak[LSI_MEMORY_SERIES];

    /* Values while it is read, after the last event: */
    int64_t live[LSI_MEMORY_SERIES];
    int64_t in_use, time; /* bytes in use of pool memory; time */
    uint64_t events;      /* number of events, to compare with the end record */
    size_t trail_room, block_room, change_room, maps_room;
};

/*
 * Reads a file. LS_ERR_FORMAT if it is not such a file, or of another version.
 * A file that was cut off is valid up to there. `path` is for messages.
 */
ls_status lsi_memory_read(const char *path, lsi_memory_file **out);
void lsi_memory_file_free(lsi_memory_file **file);

/* A name; "" without one. */
const char *lsi_memory_text(const lsi_memory_file *file, uint32_t number);

/* A path as text: "block 3/attention"; "" for no path. */
void lsi_memory_path_text(const lsi_memory_file *file, uint32_t path, char *out,
                          size_t room);

#endif
