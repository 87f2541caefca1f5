#include "comm/coll/points.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/half.h"
#include "fold/fold.h"

ls_dtype lsi_wide_dtype(const lsi_collective *op)
{
    return lsi_is_half(op->call.dtype) ? LS_F32 : op->call.dtype;
}

size_t lsi_wide_bytes(const lsi_collective *op, size_t elements)
{
    return elements * ls_dtype_size(lsi_wide_dtype(op));
}

void lsi_widen(const lsi_collective *op, void *to, const void *from,
               size_t elements)
{
    if (to == from || elements == 0)
        return;
    if (lsi_is_half(op->call.dtype))
        lsi_serial_convert(to, LS_F32, from, op->call.dtype, elements);
    else
        memcpy(to, from, elements * op->item);
}

void lsi_accumulate(const lsi_collective *op, void *acc, const void *more,
                    size_t elements, bool more_first)
{
    const void *srcs[2] = {more_first ? more : acc, more_first ? acc : more};
    lsi_serial_reduce(acc, srcs, 2, elements, lsi_wide_dtype(op),
                      lsi_call_step(&op->call), 1.0);
}

void lsi_narrow(const lsi_collective *op, void *to, void *from, size_t elements)
{
    const void *src = from;
    if (elements == 0)
        return;
    if (op->call.redop == LS_REDUCE_AVG)
        lsi_serial_reduce(from, &src, 1, elements, lsi_wide_dtype(op),
                          LS_REDUCE_SUM, 1.0 / op->group->size);
    if (lsi_is_half(op->call.dtype))
        lsi_serial_convert(to, op->call.dtype, from, LS_F32, elements);
    else if (to != from)
        memcpy(to, from, elements * op->item);
}

size_t lsi_largest_block(const lsi_collective *op)
{
    return lsi_range_size(lsi_block_of(op, 0));
}

size_t lsi_sums_scratch(const lsi_collective *op)
{
    return lsi_wide_dtype(op) == op->call.dtype
               ? 0
               : lsi_wide_bytes(op, op->call.count);
}

unsigned char *lsi_sums(const lsi_collective *op)
{
    return lsi_sums_scratch(op) == 0 ? op->recv : op->scratch;
}

unsigned char *lsi_incoming(const lsi_collective *op)
{
    return (unsigned char *)op->scratch + lsi_sums_scratch(op);
}

void lsi_post_send(lsi_collective *op, lsi_buffer buffer, int peer)
{
    lsi_message_send(op->group, &op->out, LSI_CHANNEL_COLLECTIVE, buffer, peer);
}

void lsi_post_receive(lsi_collective *op, lsi_buffer buffer, int peer)
{
    lsi_message_receive(op->group, &op->in, LSI_CHANNEL_COLLECTIVE, buffer,
                        peer);
}

static void begin_step(lsi_collective *op,
                       void (*post)(lsi_collective *op, int step))
{
    assert(op->step == 0 || (op->out.done && op->in.done));
    op->step++;
    op->out.done = op->in.done = true; /* unless the step posts them */
    post(op, (int)op->step);
}

ls_status lsi_points_steps(lsi_collective *op, int steps,
                           void (*post)(lsi_collective *op, int step),
                           void (*finish)(lsi_collective *op, int step))
{
    if (steps == 0)
        return LS_OK;
    if (op->step == 0)
        begin_step(op, post);
    for (;;) {
        LS_TRY(lsi_messages_progress(op->group));
        if (!op->out.done || !op->in.done)
            return LS_IN_PROGRESS;
        if (finish != NULL)
            finish(op, (int)op->step);
        if ((int)op->step == steps)
            return LS_OK;
        begin_step(op, post);
    }
}

ls_status lsi_points_run(lsi_collective *op, int steps,
                         void (*post)(lsi_collective *op, int step),
                         void (*finish)(lsi_collective *op, int step))
{
    if (op->step == 0)
        lsi_widen(op, lsi_sums(op), op->send, op->call.count);
    return lsi_points_steps(op, steps, post, finish);
}
