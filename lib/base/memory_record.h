/*
 * What holds memory: while it is recorded, a table of everything that is live,
 * each with who took it, and a file of all that is taken and given back
 * (memory_lines.h). Off, each place that tells of it costs one relaxed load.
 *
 * Who took a block is: the phase, the path of the ranges that were open, the
 * operation of the tape, what the caller calls it, and the calls that led
 * there. A backward function runs under the path that its operation ran under.
 * A tape's operation is known when it is recorded, which is after it has taken
 * its memory; so it claims what its thread took of the tape's pool since the
 * operation before.
 */
#ifndef LS_BASE_MEMORY_RECORD_H
#define LS_BASE_MEMORY_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/profile.h"

extern atomic_bool lsi_memory_recorded;

static inline bool lsi_memory_is_recorded(void)
{
    return atomic_load_explicit(&lsi_memory_recorded, memory_order_relaxed);
}

/* ---- what is taken and given back ---------------------------------------- */

/*
 * A block is in use from here on, for which `bytes` were asked; `of_pool`: it
 * is of one (lsi_alloc_kept). Told before anybody else can have it: taken
 * after it is made, given before it is freed. `bytes` of one that nobody has
 * told of, which was there before the recording, are subtracted from its kind.
 */
void lsi_memory_note_taken(const void *block, size_t bytes, ls_memory_tag tag,
                           const char *what, bool of_pool);
void lsi_memory_note_given(const void *block, size_t bytes, ls_memory_tag tag);

/* Pools have so much more, or less. */
void lsi_memory_note_kept(int64_t bytes);

/* Memory without an address of its own: so much more, or less. */
void lsi_memory_note_counted(int64_t bytes, ls_memory_tag tag);

/*
 * Bytes that are in use now, and the most that were since a peak was last
 * reset, or since the recording began: without what pools keep unused, so that
 * it does not matter what was run before. Zeros if nothing is recorded.
 */
typedef struct lsi_memory_use {
    int64_t now, peak;
} lsi_memory_use;

lsi_memory_use lsi_memory_in_use(void);
void lsi_memory_reset_in_use(void);

/*
 * An allocation is refused, with so much live: who holds most, in words to be
 * added to the error, or nothing. Takes the snapshot that was asked for.
 */
void lsi_memory_note_refused(char *out, size_t room);

/* ---- where this thread is ------------------------------------------------ */

void lsi_memory_enter_range(const char *name);
void lsi_memory_leave_range(void);
void lsi_memory_enter_phase(const char *name);
void lsi_memory_leave_phase(void);

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
