/*
 * Sums of each rank's data times the factor of that rank. The products are
 * computed before the reduction starts: in the receive buffer, or in memory of
 * the request if the buffer is too short or too narrow. Products and sums of
 * half types are in f32, and travel as f32; the sum is rounded once.
 */
#include "base/error.h"
#include "base/half.h"
#include "base/memory.h"
#include "comm/api/check.h"
#include "comm/api/request.h"
#include "comm/core/agree.h"
#include "fold/fold.h"

static ls_status check(const ls_group *group, const lsi_call *call,
                       const void *send, const void *recv)
{
    LS_TRY(lsi_check_buffers(group, call, send, recv));
    if (call->dtype == LS_F32 || call->dtype == LS_F64 ||
        lsi_is_half(call->dtype))
        return LS_OK;
    return lsi_fail(
        LS_ERR_UNSUPPORTED,
        "%s: premul_sum is not defined for %s, only for floating-point types",
        lsi_operation_name(call->operation), ls_dtype_name(call->dtype));
}

/* to[i] = factor * from[i], in the wide type; `to` may be `from`. */
static void multiply(const lsi_call *call, void *to, const void *from, size_t n,
                     double factor)
{
    const ls_dtype wide = lsi_is_half(call->dtype) ? LS_F32 : call->dtype;
    const void *src = from;
    if (n == 0)
        return;
    if (wide != call->dtype) {
        lsi_serial_convert(to, wide, from, call->dtype, n);
        src = to;
    }
    lsi_serial_reduce(to, &src, 1, n, wide, LS_REDUCE_SUM, factor);
}

/* Computes the products, and sets the place of their reduction. */
static ls_status prepare(const ls_group *group, const lsi_call *call,
                         const void *send, double factor, lsi_ready *ready)
{
    const bool scatters = call->operation == LSI_OP_REDUCE_SCATTER;
    const size_t blocks = scatters ? (size_t)group->size : 1;
    const size_t n = call->count * blocks;
    const size_t item =
        lsi_is_half(call->dtype) ? sizeof(float) : ls_dtype_size(call->dtype);
    void *products = ready->recv, *block = NULL;
    if (scatters || lsi_is_half(call->dtype)) {
        LS_TRY(lsi_alloc(&block, n * item, LS_MEMORY_COMM,
                         "products of a reduction"));
        products = block;
    }
    multiply(call, products, send, n, factor);
    ready->send = products;
    ready->widened.block = block;
    if (!lsi_is_half(call->dtype))
        return LS_OK;
    unsigned char *sums = products;
    if (scatters) /* in place */
        sums += (size_t)group->rank * call->count * item;
    ready->widened.sums = sums;
    ready->widened.to = ready->recv;
    ready->widened.count = call->count;
    ready->widened.dtype = call->dtype;
    ready->recv = sums;
    return LS_OK;
}

static ls_status start(ls_group *group, lsi_call call, lsi_ready ready,
                       double factor, ls_request **request)
{
    const void *send = ready.send;
    ready.status = check(group, &call, send, ready.recv);
    if (ready.status == LS_OK)
        ready.status = prepare(group, &call, send, factor, &ready);
    call.redop = (ls_reduce_op)(LSI_PREMUL + (int)call.dtype);
    if (lsi_is_half(call.dtype))
        call.dtype = LS_F32;
    return lsi_request_start_widened(group, call, ready, request);
}

ls_status ls_iall_reduce_premul(ls_group *group, const void *send, void *recv,
                                size_t count, ls_dtype dtype, double factor,
                                ls_request **request)
{
    LS_NEED(group);
    return start(
        group,
        (lsi_call){LSI_OP_ALL_REDUCE, dtype, LS_REDUCE_SUM, 0, count, LS_OK},
        (lsi_ready){.send = send, .recv = recv}, factor, request);
}

ls_status ls_ireduce_scatter_premul(ls_group *group, const void *send,
                                    void *recv, size_t count, ls_dtype dtype,
                                    double factor, ls_request **request)
{
    LS_NEED(group);
    return start(group,
                 (lsi_call){LSI_OP_REDUCE_SCATTER, dtype, LS_REDUCE_SUM, 0,
                            count, LS_OK},
                 (lsi_ready){.send = send, .recv = recv}, factor, request);
}
