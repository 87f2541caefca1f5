#include "comm/api/check.h"

#include <string.h>

#include "base/error.h"
#include "comm/state/forks.h"

ls_status lsi_check_group(const ls_group *group, const char *what)
{
    if (group == NULL)
        return lsi_fail(LS_ERR_ARGUMENT, "%s: group is NULL", what);
    if (lsi_is_inherited(group))
        return lsi_refuse_inherited(group);
    return LS_OK;
}

static bool is_integer(ls_dtype dtype)
{
    return dtype == LS_I8 || dtype == LS_U8 || dtype == LS_I32 ||
           dtype == LS_I64;
}

static ls_status check_redop(const lsi_call *call, const char *what)
{
    if ((unsigned)call->redop >= LS_REDUCE_OP_COUNT)
        return lsi_fail(LS_ERR_ARGUMENT, "%s: %d is not an ls_reduce_op", what,
                        (int)call->redop);
    const bool floats = !is_integer(call->dtype) && call->dtype != LS_BOOL;
    if (call->redop == LS_REDUCE_AVG && !floats)
        return lsi_fail(
            LS_ERR_UNSUPPORTED,
            "%s: avg is not defined for %s; use sum, and divide the result",
            what, ls_dtype_name(call->dtype));
    if (call->redop >= LS_REDUCE_BAND && floats)
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "%s: %s is not defined for %s, only for integers and "
                        "bool",
                        what, ls_reduce_op_name(call->redop),
                        ls_dtype_name(call->dtype));
    return LS_OK;
}

/*
 * Bytes of all ranks together must be a ptrdiff_t. Two divisions take as long
 * as all other checks, and few counts are long enough to need them.
 */
static ls_status check_count(const ls_group *group, const lsi_call *call,
                             size_t item)
{
    if (call->count <= UINT32_MAX)
        return LS_OK;
    const size_t most = (size_t)PTRDIFF_MAX / item / (size_t)group->size;
    if (call->count > most)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%s: %zu elements are too many; each of %d ranks can "
                        "have at most %zu",
                        lsi_operation_name(call->operation), call->count,
                        group->size, most);
    return LS_OK;
}

ls_status lsi_check_arguments(const ls_group *group, const lsi_call *call)
{
    const char *what = lsi_operation_name(call->operation);
    LS_TRY(lsi_check_group(group, what));
    const size_t item = ls_dtype_size(call->dtype);
    if (item == 0)
        return lsi_fail(LS_ERR_DTYPE, "%s: %d is not an ls_dtype", what,
                        (int)call->dtype);
    if (lsi_operation_reduces(call->operation))
        LS_TRY(check_redop(call, what));
    if (call->root < 0 || call->root >= group->size)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "%s: rank %d is not in the group, which has ranks 0 to %d", what,
            call->root, group->size - 1);
    return check_count(group, call, item);
}

ls_status lsi_check_extent(const lsi_call *call, lsi_buffer_extent span)
{
    if (span.data == NULL && call->count * span.blocks != 0)
        return lsi_fail(LS_ERR_ARGUMENT, "%s: the %s buffer is NULL",
                        lsi_operation_name(call->operation), span.name);
    return LS_OK;
}

static ls_status check_overlap(const lsi_call *call, lsi_buffer_extent send,
                               lsi_buffer_extent recv, long blocks)
{
    const size_t block = call->count * ls_dtype_size(call->dtype);
    const uintptr_t s = (uintptr_t)send.data, r = (uintptr_t)recv.data;
    const uintptr_t in_place = s + (uintptr_t)blocks * block;
    if (block == 0 || r == in_place || s + send.blocks * block <= r ||
        r + recv.blocks * block <= s)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "%s: the send and recv buffers overlap. For an in-place "
                    "call, pass recv = send %+ld blocks of %zu elements",
                    lsi_operation_name(call->operation), blocks, call->count);
}

/* Blocks of `count` elements in an extent; 0 if it is not used. */
static size_t blocks_of(const ls_group *group, lsi_extent extent, bool used)
{
    if (!used || extent == LSI_EXTENT_NOTHING)
        return 0;
    return extent == LSI_EXTENT_BLOCKS ? (size_t)group->size : 1;
}

ls_status lsi_check_buffers(const ls_group *group, const lsi_call *call,
                            const void *send, const void *recv)
{
    const lsi_operation_row *const row = lsi_operation_of(call->operation);
    const bool is_root = group->rank == call->root;
    const size_t sent =
        blocks_of(group, row->sends, row->root != LSI_ROOT_SENDER || is_root);
    const size_t received = blocks_of(
        group, row->receives, row->root != LSI_ROOT_RECEIVER || is_root);
    const bool one = call->operation == LSI_OP_BROADCAST;
    const lsi_buffer_extent from = {one ? "data" : "send", send, sent};
    const lsi_buffer_extent to = {one ? "data" : "recv", recv, received};
    LS_TRY(lsi_check_arguments(group, call));
    LS_TRY(lsi_check_extent(call, from));
    LS_TRY(lsi_check_extent(call, to));
    if (sent == 0 || received == 0)
        return LS_OK;
    /* In place, the shorter buffer is this rank's block of the longer one. */
    const long own = group->rank;
    return check_overlap(call, from, to,
                         (row->sends == LSI_EXTENT_BLOCKS ? own : 0) -
                             (row->receives == LSI_EXTENT_BLOCKS ? own : 0));
}

const void *lsi_sent_from(const ls_group *group, const lsi_call *call,
                          const void *send)
{
    /* A broadcast sends from and receives into one buffer. */
    const bool used =
        lsi_operation_of(call->operation)->root != LSI_ROOT_SENDER ||
        call->operation == LSI_OP_BROADCAST;
    return used || group->rank == call->root ? send : NULL;
}

void *lsi_received_at(const ls_group *group, const lsi_call *call, void *recv)
{
    const bool used =
        lsi_operation_of(call->operation)->root != LSI_ROOT_RECEIVER;
    return used || group->rank == call->root ? recv : NULL;
}

/* ---- a count for each rank ----------------------------------------------- */

/* The sum of the counts, in bytes. */
static ls_status add_up(const ls_group *group, const lsi_call *call,
                        const size_t *counts, size_t *bytes)
{
    const size_t item = ls_dtype_size(call->dtype);
    const size_t most = (size_t)PTRDIFF_MAX / item / (size_t)group->size;
    *bytes = 0;
    for (int r = 0; r < group->size; r++) {
        if (counts[r] > most)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "%s: %zu elements for rank %d are too many; each "
                            "rank can have at most %zu",
                            lsi_operation_name(call->operation), counts[r], r,
                            most);
        *bytes += counts[r] * item;
    }
    return LS_OK;
}

/*
 * Bytes of this rank's block; *before gets the bytes of all blocks ahead of it.
 */
static size_t own_bytes(const ls_group *group, const lsi_call *call,
                        const size_t *counts, size_t *before)
{
    const size_t item = ls_dtype_size(call->dtype);
    *before = 0;
    for (int r = 0; r < group->rank; r++)
        *before += counts[r] * item;
    return counts[group->rank] * item;
}

static ls_status check_apart(const lsi_call *call, const lsi_counted_buffers *b,
                             size_t sent, size_t received)
{
    const uintptr_t s = (uintptr_t)b->send, r = (uintptr_t)b->recv;
    const char *const what = lsi_operation_name(call->operation);
    if (sent != 0 && b->send == NULL)
        return lsi_fail(LS_ERR_ARGUMENT, "%s: the send buffer is NULL", what);
    if (received != 0 && b->recv == NULL)
        return lsi_fail(LS_ERR_ARGUMENT, "%s: the recv buffer is NULL", what);
    if (sent == 0 || received == 0 || s + sent <= r || r + received <= s)
        return LS_OK;
    return lsi_fail(
        LS_ERR_ARGUMENT,
        "%s: the send and recv buffers overlap. In an in-place call, the "
        "shorter buffer must be this rank's block of the longer one. "
        "all_to_allv needs recv = send, and send_counts equal to recv_counts",
        what);
}

/* In place, each block is at its position in the longer buffer. */
static bool is_in_place(const ls_group *group, const lsi_call *call,
                        const lsi_counted_buffers *b)
{
    const lsi_counts *c = &b->counts;
    size_t before = 0;
    if (c->sends == NULL || c->receives == NULL) {
        (void)own_bytes(group, call, c->sends != NULL ? c->sends : c->receives,
                        &before);
        return c->sends != NULL
                   ? (uintptr_t)b->recv == (uintptr_t)b->send + before
                   : (uintptr_t)b->send == (uintptr_t)b->recv + before;
    }
    return b->send == b->recv &&
           memcmp(c->sends, c->receives,
                  (size_t)group->size * sizeof(size_t)) == 0;
}

ls_status lsi_check_counted(const ls_group *group, const lsi_call *call,
                            const lsi_counted_buffers *b)
{
    const char *const what = lsi_operation_name(call->operation);
    const lsi_counts *c = &b->counts;
    const bool exchanges = call->operation == LSI_OP_ALL_TO_ALLV;
    size_t before = 0, sent = 0, received = 0;
    LS_TRY(lsi_check_arguments(group, call));
    if (c->sends == NULL && (exchanges || c->receives == NULL))
        return lsi_fail(LS_ERR_ARGUMENT, "%s: %s is NULL", what,
                        exchanges ? "send_counts" : "counts");
    if (c->receives == NULL && exchanges)
        return lsi_fail(LS_ERR_ARGUMENT, "%s: recv_counts is NULL", what);
    if (c->sends != NULL)
        LS_TRY(add_up(group, call, c->sends, &sent));
    if (c->receives != NULL)
        LS_TRY(add_up(group, call, c->receives, &received));
    if (c->sends == NULL)
        sent = own_bytes(group, call, c->receives, &before);
    if (c->receives == NULL)
        received = own_bytes(group, call, c->sends, &before);
    if (b->own != NULL && c->receives != NULL &&
        *b->own != c->receives[group->rank])
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "%s: rank %d (this rank) sends %zu elements, but counts[%d] is %zu",
            what, group->rank, *b->own, group->rank, c->receives[group->rank]);
    return is_in_place(group, call, b) ? LS_OK
                                       : check_apart(call, b, sent, received);
}
