/*
 * naive: one all-reduce after another, one for each trained parameter, in order
 * of definition. What everybody writes first, and the yardstick for the others.
 *
 * Cost: as many collectives as parameters; no overlap with backward.
 */
#include "autograd/params.h"
#include "base/error.h"
#include "base/memory.h"
#include "parallel/strategy.h"

typedef struct state {
    size_t count;
    ls_request *requests[];
} state;

static void release(void *opaque)
{
    state *const s = opaque;
    for (size_t i = 0; i < s->count; i++)
        ls_request_free(&s->requests[i]);
    lsi_free(s);
}

/*
 * A parameter's range of the flat buffer with its padding; the last one in
 * memory takes the extra floats along.
 */
static ls_status plan_one(state *s, ls_group *group, ls_params *params,
                          size_t index)
{
    size_t total;
    float *const grads = ls_params_flat_grad(params, &total);
    const size_t begin = ls_params_offset(params, index);
    size_t count = (size_t)ls_tensor_count(ls_params_get(params, index));
    count = (count + LSI_PARAM_ALIGN - 1) / LSI_PARAM_ALIGN * LSI_PARAM_ALIGN;
    if (begin + count == total)
        count += LSI_GRAD_EXTRA;
    LS_TRY(ls_all_reduce_plan(group, grads + begin, grads + begin, count,
                              LS_F32, LS_SUM, &s->requests[s->count]));
    s->count++;
    return LS_OK;
}

static ls_status plan(void **out, ls_group *group, ls_params *params)
{
    const size_t n = ls_params_count(params);
    void *block;
    LS_TRY(lsi_alloc_zeroed(&block, sizeof(state) + n * sizeof(ls_request *),
                            LS_MEMORY_COMM, "the plan of naive gradients"));
    state *const s = block;
    for (size_t i = 0; i < n; i++) {
        if (!ls_params_is_trainable(params, i))
            continue;
        const ls_status status = plan_one(s, group, params, i);
        if (status != LS_OK) {
            release(s);
            return status;
        }
    }
    *out = s;
    return LS_OK;
}

static ls_status reduce(void *opaque)
{
    const state *const s = opaque;
    for (size_t i = 0; i < s->count; i++) {
        LS_TRY(ls_start(s->requests[i]));
        LS_TRY(ls_wait(s->requests[i]));
    }
    return LS_OK;
}

const lsi_strategy lsi_strategy_naive = {
    .name = "naive", .plan = plan, .reduce = reduce, .release = release};
