#include "input/text/buffers.h"

#include "base/error.h"
#include "base/memory.h"

/* Replaces `at` by a block of at least twice the room. */
static ls_status grow(void **at, size_t used, size_t *room, size_t needed,
                      size_t size)
{
    size_t wish = *room < 64 ? 64 : *room * 2;
    void *block = NULL;
    if (wish < needed)
        wish = needed;
    LS_TRY(lsi_alloc(&block, wish * size, LS_MEMORY_DATA, "text or tokens"));
    if (used > 0)
        memcpy(block, *at, used * size);
    lsi_free(*at);
    *at = block;
    *room = wish;
    return LS_OK;
}

ls_status lsi_bytes_reserve(lsi_bytes *bytes, size_t more)
{
    void *at = bytes->at;
    if (bytes->room - bytes->n >= more)
        return LS_OK;
    LS_TRY(grow(&at, bytes->n, &bytes->room, bytes->n + more, 1));
    bytes->at = at;
    return LS_OK;
}

ls_status lsi_bytes_add(lsi_bytes *bytes, const void *data, size_t n)
{
    LS_TRY(lsi_bytes_reserve(bytes, n));
    if (n > 0)
        memcpy(bytes->at + bytes->n, data, n);
    bytes->n += n;
    return LS_OK;
}

ls_status lsi_ids_reserve(lsi_ids *ids, size_t more)
{
    void *at = ids->at;
    if (ids->room - ids->n >= more)
        return LS_OK;
    LS_TRY(grow(&at, ids->n, &ids->room, ids->n + more, sizeof *ids->at));
    ids->at = at;
    return LS_OK;
}
