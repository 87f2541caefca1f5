/*
 * All-gather of byte strings of different lengths: the lengths first, then
 * blocks of the longest, which are packed afterwards.
 */
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/api/check.h"
#include "comm/core/agree.h"

/* Memory of a call: the result, and blocks of equal length. */
typedef struct memory {
    void *all, *blocks;
} memory;

static ls_status allocate(const ls_group *group, const size_t *sizes,
                          size_t longest, memory *out)
{
    size_t total = 0;
    for (int r = 0; r < group->size; r++)
        total += sizes[r];
    LS_TRY(lsi_alloc(&out->all, total, LS_MEMORY_COMM, "all_gather_bytes"));
    return lsi_alloc(&out->blocks, (size_t)group->size * longest,
                     LS_MEMORY_COMM, "all_gather_bytes");
}

/* The most bytes of one rank, so that the sum over all ranks fits a size_t. */
static size_t limit(const ls_group *group)
{
    return (size_t)PTRDIFF_MAX / (size_t)group->size;
}

static ls_status check_lengths(const ls_group *group, const size_t *lengths)
{
    for (int r = 0; r < group->size; r++)
        if (lengths[r] > limit(group))
            return lsi_fail(LS_ERR_SYSTEM,
                            "all_gather_bytes: rank %d sends %zu bytes; each "
                            "rank can send at most %zu",
                            r, lengths[r], limit(group));
    return LS_OK;
}

static ls_status gather(ls_group *group, const void *send, const size_t *sizes,
                        size_t longest, const memory *to)
{
    unsigned char *const blocks = to->blocks, *all = to->all;
    unsigned char *const own = blocks + (size_t)group->rank * longest;
    if (longest == 0)
        return LS_OK;
    memset(own, 0, longest);
    if (send != NULL && sizes[group->rank] != 0)
        memcpy(own, send, sizes[group->rank]);
    LS_TRY(ls_all_gather(group, own, blocks, longest, LS_U8));
    for (int r = 0; r < group->size; r++) {
        memcpy(all, blocks + (size_t)r * longest, sizes[r]);
        all += sizes[r];
    }
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
    else if (bytes > limit(group))
        status = lsi_fail(LS_ERR_ARGUMENT,
                          "all_gather_bytes: %zu bytes are too many; each of "
                          "%d ranks can send at most %zu",
                          bytes, group->size, limit(group));
    if (status != LS_OK)
        return lsi_refuse(group, &call, status);
    size_t longest = 0, lengths[LSI_MAX_RANKS] = {0};
    LS_TRY(lsi_exchange(group, &call, &bytes, sizeof(bytes), lengths));
    LS_TRY(check_lengths(group, lengths)); /* they come from other hosts */
    for (int r = 0; r < group->size; r++)
        longest = lengths[r] > longest ? lengths[r] : longest;
    const lsi_call blocks = {.operation = LSI_OP_GATHER_BYTES,
                             .count = longest};
    memory to = {NULL, NULL};
    status = lsi_agree(group, &blocks, allocate(group, lengths, longest, &to));
    if (status == LS_OK)
        status = gather(group, send, lengths, longest, &to);
    lsi_free(to.blocks);
    if (status != LS_OK) {
        lsi_free(to.all);
        return status;
    }
    *all = to.all;
    memcpy(sizes, lengths, (size_t)group->size * sizeof(*sizes));
    return LS_OK;
}
