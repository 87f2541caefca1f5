/* The arena: a chain of chunks; see arena.h. */
#include "model/autograd/arena.h"

#include <assert.h>

#include "base/error.h"
#include "base/memory.h"

enum { ALIGN = 16, CHUNK = 1 << 14 };

struct lsi_arena_chunk {
    lsi_arena_chunk *next;
    size_t size;
    _Alignas(16) unsigned char bytes[];
};

/* Inserts a chunk of at least `bytes` bytes after the current one. */
static ls_status insert_chunk(lsi_arena *arena, size_t bytes)
{
    const size_t size = bytes > CHUNK ? bytes : CHUNK;
    lsi_arena_chunk *chunk;
    LS_TRY(lsi_alloc(&chunk, sizeof(lsi_arena_chunk) + size, LS_MEMORY_OTHER,
                     "a tape's arena"));
    lsi_arena_chunk **link =
        arena->current != NULL ? &arena->current->next : &arena->first;
    chunk->size = size;
    chunk->next = *link;
    *link = chunk;
    return LS_OK;
}

ls_status lsi_arena_alloc(lsi_arena *arena, size_t bytes, void **out)
{
    const size_t size = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (arena->current == NULL || arena->current->size - arena->used < size) {
        const lsi_arena_chunk *next =
            arena->current != NULL ? arena->current->next : arena->first;
        if (next == NULL || next->size < size)
            LS_TRY(insert_chunk(arena, size));
        arena->current =
            arena->current != NULL ? arena->current->next : arena->first;
        arena->used = 0;
    }
    *out = arena->current->bytes + arena->used;
    arena->used += size;
    assert(arena->used <= arena->current->size);
    return LS_OK;
}

void lsi_arena_reset(lsi_arena *arena)
{
    arena->current = NULL;
    arena->used = 0;
}

void lsi_arena_free(lsi_arena *arena)
{
    while (arena->first != NULL) {
        lsi_arena_chunk *chunk = arena->first;
        arena->first = chunk->next;
        lsi_free(chunk);
    }
    lsi_arena_reset(arena);
}
