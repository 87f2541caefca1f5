#include "comm/coll/window.h"

#include <assert.h>

#include "base/error.h"

bool lsi_window_free(const lsi_collective *op)
{
    ls_group *group = op->group;
    /* Acquires the windows from the ranks that have read them last. */
    return group->queue.first == op &&
           lsi_all_completed(group, group->queue.staged);
}

ls_status lsi_window_steps(lsi_collective *op, size_t steps,
                           void (*step)(lsi_collective *op, size_t k))
{
    ls_group *group = op->group;
    assert(op == group->queue.first && op->step <= steps);
    if (op->step == 0) {
        if (!op->ahead && !lsi_window_free(op))
            return LS_IN_PROGRESS;
        assert(group->queue.staged <= op->sequence);
        group->queue.staged = op->sequence;
        op->step = op->ahead;
    }
    while (op->step < steps) {
        LS_TRY(lsi_collective_arrived(op));
        step(op, op->step);
        if (++op->step < steps)
            lsi_collective_publish(op);
    }
    return LS_OK;
}
