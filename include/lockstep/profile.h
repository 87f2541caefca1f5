/*
 * Memory accounting: bytes by kind, live and at their peak.
 *
 * All numbers are of this process. Every byte that the library allocates for
 * tensors, parameters, buckets, collectives and workspace goes through one
 * accounting allocator with a tag.
 */
#ifndef LOCKSTEP_PROFILE_H
#define LOCKSTEP_PROFILE_H

#include "lockstep/status.h"
#include "lockstep/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, text): what a block of memory is for. */
#define LS_MEMORY_TAG_LIST(X)                                                  \
    X(PARAMETERS, 0, "parameters")                                             \
    X(GRADIENTS, 1, "gradients")                                               \
    X(STATE, 2, "optimizer state")                                             \
    X(ACTIVATIONS, 3, "activations")                                           \
    X(WORKSPACE, 4, "workspace")                                               \
    X(COMM, 5, "communication")                                                \
    X(DATA, 6, "data")                                                         \
    X(OTHER, 7, "other")

typedef enum ls_memory_tag {
#define X(name, value, text) LS_MEMORY_##name = (value),
    LS_MEMORY_TAG_LIST(X)
#undef X
} ls_memory_tag;

#define LS_MEMORY_TAG_COUNT 8

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

#ifdef __cplusplus
}
#endif

#endif
