#include "plan/sharding.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"

const char *const lsi_state_plan_way_names[LSI_STATE_PLAN_WAYS] = {
    "none", "state", "zero1"};
const char *const lsi_state_plan_moment_names[LSI_STATE_PLAN_MOMENTS] = {
    "init", "before_step", "after_step"};

enum { F32_BYTES = 4, MOMENTS_OF_ADAMW = 2 };

static lsi_state_plan_bytes at(int64_t parameters, int64_t stepped,
                               lsi_state_plan_moment moment)
{
    lsi_state_plan_bytes b = {.parameters = F32_BYTES * parameters};
    if (moment >= LSI_STATE_PLAN_BEFORE_STEP)
        b.gradients = F32_BYTES * parameters;
    if (moment >= LSI_STATE_PLAN_AFTER_STEP)
        b.state = MOMENTS_OF_ADAMW * F32_BYTES * stepped;
    b.total = b.parameters + b.gradients + b.state;
    return b;
}

ls_status lsi_state_plan_fill(int64_t parameters, int ranks,
                              lsi_state_plan *out)
{
    if (parameters < 1 || ranks < 1)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "cannot plan %" PRId64
                        " parameters on %d ranks: both numbers must be above 0",
                        parameters, ranks);
    static const int traffic[LSI_STATE_PLAN_WAYS] = {2, 3, 2};
    const int64_t part = (parameters + ranks - 1) / ranks;
    out->parameters = parameters;
    out->ranks = ranks;
    memcpy(out->traffic, traffic, sizeof(traffic));
    for (int way = 0; way < LSI_STATE_PLAN_WAYS; way++)
        for (int moment = 0; moment < LSI_STATE_PLAN_MOMENTS; moment++)
            out->bytes[way][moment] =
                at(parameters, way == LSI_STATE_PLAN_NONE ? parameters : part,
                   (lsi_state_plan_moment)moment);
    return LS_OK;
}
