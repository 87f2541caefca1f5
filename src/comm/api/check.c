#include "comm/api/check.h"

#include "base/error.h"

ls_status lsi_check_group(const ls_group *group, const char *what)
{
    if (group == NULL)
        return lsi_fail(LS_ERR_ARGUMENT, "%s: group is NULL", what);
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
        return lsi_fail(LS_ERR_ARGUMENT, "%s: %d is no reduction", what,
                        (int)call->redop);
    if (call->redop == LS_AVG && is_integer(call->dtype))
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "%s: avg is not defined for %s; use sum and divide",
                        what, ls_dtype_name(call->dtype));
    if (call->redop >= LS_BAND && !is_integer(call->dtype))
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "%s: %s is not defined for %s, only for integers", what,
                        ls_reduce_op_name(call->redop),
                        ls_dtype_name(call->dtype));
    return LS_OK;
}

ls_status lsi_check_arguments(const ls_group *group, const lsi_call *call)
{
    const char *what = lsi_operation_name(call->operation);
    LS_TRY(lsi_check_group(group, what));
    const size_t item = ls_dtype_size(call->dtype);
    if (item == 0)
        return lsi_fail(LS_ERR_DTYPE, "%s: %d is no element type", what,
                        (int)call->dtype);
    if (lsi_operation_reduces(call->operation))
        LS_TRY(check_redop(call, what));
    if (call->root < 0 || call->root >= group->size)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%s: there is no rank %d in a group of %d", what,
                        call->root, group->size);
    if (call->count > (size_t)PTRDIFF_MAX / item / (size_t)group->size)
        return lsi_fail(LS_ERR_ARGUMENT, "%s: %zu elements are too many", what,
                        call->count);
    return LS_OK;
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
                    "%s: the send and receive buffers overlap (in place, recv "
                    "is send %+ld blocks)",
                    lsi_operation_name(call->operation), blocks);
}

/* How many blocks of count elements an extent has; 0 of what is not used. */
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
    /* In place, a rank's own block of the longer buffer is the other one. */
    const long own = group->rank;
    return check_overlap(call, from, to,
                         (row->sends == LSI_EXTENT_BLOCKS ? own : 0) -
                             (row->receives == LSI_EXTENT_BLOCKS ? own : 0));
}

const void *lsi_sent_from(const ls_group *group, const lsi_call *call,
                          const void *send)
{
    /* What is broadcast is sent and received in one place. */
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
