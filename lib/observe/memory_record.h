/*
 * Holders of memory. A recording has a table of all live blocks with their
 * holders, and a file of all allocations and frees (memory_events.h). Without a
 * recording, each place that reports costs one relaxed load.
 *
 * The holder of a block is the phase, the path of the open ranges, the
 * operation of the tape, the caller's name for the block, and its call stack. A
 * backward function runs under the path that its operation ran under. A tape's
 * operation is known when it is recorded, which is after it has allocated its
 * memory. So it claims the blocks that its thread got from the tape's pool
 * since the previous operation.
 */
#ifndef LS_OBSERVE_MEMORY_RECORD_H
#define LS_OBSERVE_MEMORY_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"

static inline bool lsi_memory_is_recorded(void)
{
    return lsi_memory_get_hook() != NULL;
}

/*
 * Bytes in use now, and their peak since it was last reset, or since the
 * recording began. Unused memory of pools does not count, so earlier work does
 * not matter. Zeros without a recording.
 */
typedef struct lsi_memory_use {
    int64_t now, peak;
} lsi_memory_use;

lsi_memory_use lsi_memory_in_use(void);
void lsi_memory_reset_in_use(void);

/* ---- where this thread is ------------------------------------------------ */

void lsi_memory_enter_range(const char *name);
void lsi_memory_leave_range(void);

/* Returns the phase around this one, to which leaving it returns. */
uint32_t lsi_memory_enter_phase(const char *name);
void lsi_memory_leave_phase(uint32_t outer);

/* The path of ranges, to come back to by lsi_memory_enter_operation. */
uint32_t lsi_memory_path(void);

typedef struct lsi_memory_place {
    uint32_t of; /* the recording whose numbers these are */
    uint32_t path, operation;
} lsi_memory_place;

/* An operation that begins, on such a path; returns where the thread was. */
lsi_memory_place lsi_memory_enter_operation(uint32_t path, const char *name,
                                            const char *suffix);
void lsi_memory_leave_operation(lsi_memory_place before);

/* One of that name has ended. */
void lsi_memory_claim(const char *name);

/* ---- the rank ------------------------------------------------------------ */

/* The file of LOCKSTEP_MEMORY or of a flag is named after it from then on. */
void lsi_memory_record_set_rank(int rank);

/* ls_memory_record_start with a file in the folder of this name; nothing for
 * NULL. */
ls_status lsi_memory_record_in(const char *name);

#endif
