/*
 * Memory accounting: bytes by kind, live and at their peak, and what holds
 * them. And ranges: the time of named parts of a program.
 *
 * All numbers are of this process. Every byte that the library allocates for
 * tensors, parameters, buckets, collectives and workspace goes through one
 * accounting allocator with a tag.
 */
#ifndef LOCKSTEP_PROFILE_H
#define LOCKSTEP_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"
#include "lockstep/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The purpose of a block of memory. */
typedef enum ls_memory_tag {
    LS_MEMORY_PARAMETERS = 0,
    LS_MEMORY_GRADIENTS = 1,
    LS_MEMORY_STATE = 2,
    LS_MEMORY_ACTIVATIONS = 3,
    LS_MEMORY_WORKSPACE = 4,
    LS_MEMORY_COMM = 5,
    LS_MEMORY_DATA = 6,
    LS_MEMORY_OTHER = 7,
    LS_MEMORY_GATHERED = 8 /* weights that another node owns, during use */
} ls_memory_tag;

#define LS_MEMORY_TAG_COUNT 9

typedef struct ls_memory_stats {
    size_t live_bytes;  /* allocated now */
    size_t peak_bytes;  /* most that was live at once since the last reset */
    uint64_t allocated; /* blocks ever allocated */
} ls_memory_stats;

/*
 * Frees memory that a function of the library has returned, where its comment
 * says so; it is counted until then. Accepts NULL.
 */
LS_API void ls_free(void *memory);

/*
 * Where the memory of tensors, parameters, gradients, optimizer state,
 * workspace, requests and data comes from: all that the counters below count,
 * but for shared buffers, which are mappings. Both functions may be called from
 * any thread, several at once, and must call nothing of the library. The
 * library writes a header in front of each block, so blocks are a little larger
 * than what is counted.
 *
 * Small bookkeeping of the library, and what OpenMP, oneDNN and the other
 * libraries take for themselves, still comes from malloc.
 */
typedef struct ls_allocator {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    void *context;      /* is passed on */
    /*
     * A block of `bytes`, a multiple of 64, at a multiple of `alignment`: 64,
     * or 2 MiB for blocks of more than 4 MiB. NULL if it has none; the call
     * that needs it then fails with LS_ERR_MEMORY.
     */
    void *(*allocate)(void *context, size_t alignment, size_t bytes);
    /* Takes a block back, with the number of bytes that it was made with. */
    void (*release)(void *context, void *block, size_t bytes);
} ls_allocator;

/*
 * Allocates from here on by the functions of the program, until the process
 * ends. Large blocks are no longer compared with the memory that the machine
 * has available; budgets count as before. Must come before the library has
 * allocated anything, so before any group, tensor or dataset is made, and can
 * be called once: LS_ERR_STATE afterwards. LS_ERR_ARGUMENT if a function is
 * NULL. The struct is copied. Local.
 */
LS_API LS_MUST_CHECK ls_status ls_set_allocator(const ls_allocator *allocator);

/* "parameters", ...; "unknown" for any other value. Static. */
LS_API const char *ls_memory_tag_name(ls_memory_tag tag);

/* Totals over all tags. */
LS_API void ls_memory_total(ls_memory_stats *out);

/* The numbers of one tag. Its peak need not coincide with the total's. */
LS_API void ls_memory_of(ls_memory_tag tag, ls_memory_stats *out);

/* Sets every peak to what is live now. */
LS_API void ls_memory_reset_peak(void);

/*
 * Limits the live total. An allocation that would go over it fails with
 * LS_ERR_BUDGET and a message that says what asked for how much. 0 removes the
 * limit; then a large block fails with LS_ERR_MEMORY if the machine, or the
 * process's control group, does not have that many bytes available.
 */
LS_API void ls_memory_set_budget(size_t bytes);

/* ---- what holds the memory ---------------------------------------------- */

/*
 * Starts to record allocations and frees. Each tensor and each block has its
 * bytes and kind, the phase and the open ranges, the operation of the tape, and
 * the calls that led there. Storage that a tape keeps for the next step counts
 * as kept, not as live. The file at `path` is for `lockstep memory`
 * (docs/how-to/memory.md); "": none, but snapshots can be written, and a
 * refused allocation names the largest holder.
 *
 * Of this process, in which it is started once at a time; not collective. A
 * process records from its start on if LOCKSTEP_MEMORY names a folder. Costs
 * some microseconds for each tensor while it is on, and nothing otherwise.
 *
 * LS_ERR_STATE if it is on, LS_ERR_IO if the file cannot be made.
 */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status
ls_memory_record_start(const char *path);

/*
 * Ends it, which also happens at the exit of the process. LS_ERR_STATE if it is
 * off, LS_ERR_IO if the file could not be written.
 */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status ls_memory_record_stop(void);

/*
 * Writes what is live now, and who took it, to a file of the same form.
 * LS_ERR_STATE if nothing is recorded, LS_ERR_IO if it cannot be written.
 */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status
ls_memory_snapshot(const char *path);

/*
 * Such a snapshot, once: as soon as more than `bytes` are live (0: never), or
 * an allocation is refused. Takes the place of an earlier request; the path ""
 * takes that back. One that cannot be written is a warning. LS_ERR_STATE if
 * nothing is recorded, LS_ERR_ARGUMENT if the path is too long.
 */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status
ls_memory_snapshot_above(size_t bytes, const char *path);

/* ---- ranges -------------------------------------------------------------- */

/*
 * Names what this thread does until the ls_range_pop that belongs to it, for
 * the timeline and the tables that `lockstep trace`, `lockstep profile` and
 * `lockstep memory` make (docs/how-to/profiling.md). Ranges nest, up to 64
 * deep; deeper ones are not recorded. `name` is copied, NULL is "unnamed"; a
 * process can have 4096 different names of 95 bytes, and more are recorded as
 * "other".
 *
 * Ranges are recorded if LOCKSTEP_TRACE names a folder, or a command has the
 * flag --trace, and while memory is recorded; otherwise a call costs a
 * nanosecond. Each thread has separate ranges. Nothing here can fail, and
 * nothing is collective.
 */
LS_API void ls_range_push(const char *name);

/*
 * The same for a range with these bytes of memory traffic and floating-point
 * operations, which become rates in the tables.
 */
LS_API void ls_range_push_work(const char *name, uint64_t bytes,
                               uint64_t operations);

/* Ends the range that this thread has begun last; without one, does nothing. */
LS_API void ls_range_pop(void);

/* Whether ranges are recorded: if not, names need not be made up for them. */
LS_API bool ls_range_is_recorded(void);

#ifdef __cplusplus
}
#endif

#endif
