/*
 * A pool keeps released blocks and hands them out again, so that a training
 * step that repeats asks the allocator for nothing after the first.
 *
 * Blocks are kept by size class, sixteen classes to each doubling (6 % is the
 * most that rounding wastes), and a request is served from its own class only:
 * whatever sufficed for one step therefore suffices for every equal one. What
 * the pool keeps stays counted as live. It never looks into a block.
 * Thread-safe.
 */
#ifndef LS_MODEL_TENSOR_POOL_H
#define LS_MODEL_TENSOR_POOL_H

#include <stddef.h>

#include "lockstep/status.h"

typedef struct lsi_pool lsi_pool;

ls_status lsi_pool_new(lsi_pool **out);

/*
 * The owner lets go: what is kept is freed now, blocks that are still out when
 * they come back, and the pool itself after the last of them. Sets *pool to
 * NULL; accepts NULLs.
 */
void lsi_pool_close(lsi_pool **pool);

/*
 * A 64-byte aligned block with undefined contents. If memory or the budget is
 * used up, everything that is kept is freed before it is an error.
 */
ls_status lsi_pool_take(lsi_pool *pool, size_t bytes, const char *what,
                        void **out);

/* Gives a block back; `bytes` as it was taken. */
void lsi_pool_give(lsi_pool *pool, void *block, size_t bytes);

/*
 * The same for structs that describe blocks, of up to 1 KiB. Without a pool
 * (NULL) they come from the allocator.
 */
ls_status lsi_pool_take_header(lsi_pool *pool, size_t bytes, const char *what,
                               void **out);
void lsi_pool_give_header(lsi_pool *pool, void *header, size_t bytes);

/* Frees every block that nobody uses. */
void lsi_pool_trim(lsi_pool *pool);

#endif
