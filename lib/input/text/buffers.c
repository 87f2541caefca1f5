#include "input/text/buffers.h"

#include "base/error.h"
#include "base/memory.h"

/* Replaces `at` by a block of at least twice the room. */
static ls_status grow(void *at, size_t used, size_t *room, size_t needed,
                      size_t size)
{
    size_t wish = *room < 64 ? 64 : *room * 2;
    if (wish < needed)
        wish = needed;
    LS_TRY(lsi_alloc_larger(at, used * size, wish * size, LS_MEMORY_DATA,
                            "a buffer for text or tokens"));
    *room = wish;
    return LS_OK;
}

ls_status lsi_bytes_reserve(lsi_bytes *bytes, size_t more)
{
    if (bytes->room - bytes->n >= more)
        return LS_OK;
    return grow(&bytes->at, bytes->n, &bytes->room, bytes->n + more, 1);
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
    if (ids->room - ids->n >= more)
        return LS_OK;
    return grow(&ids->at, ids->n, &ids->room, ids->n + more, sizeof *ids->at);
}
