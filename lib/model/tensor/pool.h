/*
 * A pool keeps released blocks and hands them out again, so that repeated
 * training steps allocate nothing after the first.
 *
 * Blocks are kept by size class, with sixteen classes per doubling (rounding
 * wastes at most 6 %). A request is served only from its class, so blocks that
 * suffice for one step suffice for every equal step. Kept blocks stay counted
 * as live. The pool never looks into a block. Thread-safe.
 */
#ifndef LS_MODEL_TENSOR_POOL_H
#define LS_MODEL_TENSOR_POOL_H

#include <stddef.h>

#include "lockstep/status.h"

typedef struct lsi_pool lsi_pool;

ls_status lsi_pool_new(lsi_pool **out);

/*
 * Closes a pool: kept blocks are freed now, blocks in use when they come back,
 * and the pool itself after the last of them. Sets *pool to NULL; accepts
 * NULLs.
 */
void lsi_pool_close(lsi_pool **pool);

/*
 * A 64-byte aligned block with undefined contents. If memory or the budget is
 * used up, all kept blocks are freed before the call fails.
 */
ls_status lsi_pool_take(lsi_pool *pool, size_t bytes, const char *what,
                        void **out);

/* Gives a block back; `bytes` as it was taken. */
void lsi_pool_give(lsi_pool *pool, void *block, size_t bytes);

/*
 * As lsi_pool_take and lsi_pool_give, for structs of up to 1 KiB that describe
 * blocks. Without a pool (NULL) they come from the allocator.
 */
ls_status lsi_pool_take_header(lsi_pool *pool, size_t bytes, const char *what,
                               void **out);
void lsi_pool_give_header(lsi_pool *pool, void *header, size_t bytes);

/* Frees every block that is not in use. */
void lsi_pool_trim(lsi_pool *pool);

#endif
