#include "comm/coll/nest.h"

#include "comm/coll/algorithm.h"

void lsi_collective_nest(lsi_collective *op, ls_group *group,
                         const lsi_call *call, const void *send, void *recv)
{
    const lsi_operation operation = call->operation;
    *op = (lsi_collective){
        .group = group, .call = *call, .send = send, .recv = recv};
    op->item = ls_dtype_size(call->dtype);
    op->block = call->count * op->item;
    op->candidates[0] = lsi_algorithm_find(operation, "direct", 6);
    op->candidates[1] = lsi_algorithm_find(operation, "staged", 6);
    op->offers = true;
}
