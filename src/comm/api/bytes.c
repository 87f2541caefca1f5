/*
 * All-gather of byte strings of different lengths: the lengths first, then
 * blocks of the longest, which are packed in place afterwards.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/api/check.h"
#include "comm/core/agree.h"

/* Moves the blocks together; returns how many bytes that makes. */
static size_t pack(unsigned char *all, const size_t *sizes, int ranks,
                   size_t stride)
{
    size_t total = 0;
    for (int r = 0; r < ranks; r++) {
        memmove(all + total, all + (size_t)r * stride, sizes[r]);
        total += sizes[r];
    }
    return total;
}

static ls_status gather(ls_group *group, const void *send, const size_t *sizes,
                        size_t longest, unsigned char **all)
{
    const size_t n = (size_t)group->size;
    const lsi_call call = {.operation = LSI_OP_GATHER_BYTES, .count = longest};
    /* One byte more, so that nothing at all is still a block. */
    unsigned char *block = malloc(n * longest + 1);
    ls_status status = LS_OK;
    if (block == NULL)
        status =
            lsi_fail(LS_ERR_MEMORY,
                     "all_gather_bytes cannot allocate %zu bytes", n * longest);
    status = lsi_agree(group, &call, status);
    if (status == LS_OK && longest != 0) {
        assert(block != NULL); /* or this rank would have refused */
        unsigned char *own = block + (size_t)group->rank * longest;
        memset(own, 0, longest);
        if (send != NULL && sizes[group->rank] != 0)
            memcpy(own, send, sizes[group->rank]);
        status = ls_all_gather(group, own, block, longest, LS_U8);
    }
    if (status != LS_OK) {
        free(block);
        return status;
    }
    *all = block;
    return LS_OK;
}

ls_status ls_all_gather_bytes(ls_group *group, const void *send, size_t bytes,
                              size_t *sizes, void **all)
{
    LS_TRY(lsi_check_group(group, "all_gather_bytes"));
    const lsi_call call = {.operation = LSI_OP_GATHER_BYTES};
    ls_status status = LS_OK;
    const char *const missing = send == NULL && bytes != 0 ? "send"
                                : sizes == NULL            ? "sizes"
                                : all == NULL              ? "all"
                                                           : NULL;
    if (missing != NULL)
        status =
            lsi_fail(LS_ERR_ARGUMENT, "all_gather_bytes: %s is NULL", missing);
    else if (bytes > (size_t)PTRDIFF_MAX / (size_t)group->size)
        status = lsi_fail(LS_ERR_ARGUMENT,
                          "all_gather_bytes: %zu bytes are too many", bytes);
    if (status != LS_OK)
        return lsi_refuse(group, &call, status);
    size_t longest = 0, lengths[LSI_MAX_RANKS] = {0};
    LS_TRY(lsi_exchange(group, &call, &bytes, sizeof(bytes), lengths));
    for (int r = 0; r < group->size; r++)
        longest = lengths[r] > longest ? lengths[r] : longest;
    unsigned char *block = NULL;
    LS_TRY(gather(group, send, lengths, longest, &block));
    const size_t total = pack(block, lengths, group->size, longest);
    void *smaller = realloc(block, total + 1);
    *all = smaller == NULL ? block : smaller;
    memcpy(sizes, lengths, (size_t)group->size * sizeof(*sizes));
    return LS_OK;
}
