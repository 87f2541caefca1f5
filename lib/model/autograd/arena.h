/*
 * Memory that is handed out in pieces and reclaimed all at once. The arena
 * keeps its chunks, so filling it the same way again allocates nothing.
 */
#ifndef LS_MODEL_AUTOGRAD_ARENA_H
#define LS_MODEL_AUTOGRAD_ARENA_H

#include <stddef.h>

#include "lockstep/status.h"

typedef struct lsi_arena_chunk lsi_arena_chunk;

typedef struct lsi_arena {
    lsi_arena_chunk *first, *current;
    size_t used; /* bytes used in the current chunk */
} lsi_arena;     /* all zero: empty */

/* 16-byte aligned; undefined contents. *out stays valid until the reset. */
ls_status lsi_arena_alloc(lsi_arena *arena, size_t bytes, void **out);
void lsi_arena_reset(lsi_arena *arena);
void lsi_arena_free(lsi_arena *arena);

#endif
