#include "plan/memory.h"

#include <inttypes.h>
#include <math.h>

#include "base/error.h"
#include "plan/gathers.h"

enum { MOMENTS_OF_ADAMW = 2, F32 = sizeof(float), HALF = 2 };

/*
 * Bytes of product buffers, control blocks and records: about the same for any
 * model. With a second-level cache of 2 MiB they are two to three times this.
 */
static const double other_bytes = 8e5;

/*
 * Floats for each token, with flash attention. `block` is kept of a block until
 * its backward. `besides` exists in addition at the peak: logits and their
 * gradient, and the gradients of a block.
 *
 * h is one number for each head. The constants cover the statistics of norms
 * and the rounding of sizes.
 */
typedef struct kept {
    double block, besides;
} kept;

static kept kept_of(const lsi_plan_model *m, bool half)
{
    const double d = (double)m->d_model, f = (double)m->d_ff;
    const double v = (double)m->vocabulary, h = (double)m->heads;
    if (m->gpt2 && half)
        return (kept){7 * d + f + h + 16, 3 * v + 4 * f + 3 * d};
    if (m->gpt2)
        return (kept){8 * d + 2 * f + h + 14, 2 * v + 2 * f + 12 * d};
    if (half)
        return (kept){11 * d + 1.5 * f + h + 15, 3 * v + 3 * f + 3 * d};
    return (kept){8 * d + 3 * f + h + 2, 2 * v + 3 * f + 7 * d};
}

static double activations_of(const lsi_plan_run *run)
{
    const lsi_plan_model *const m = run->model;
    const kept k = kept_of(m, run->half);
    const double layers = (double)m->layers;
    const double blocks = run->recompute ? layers * (double)m->d_model + k.block
                                         : layers * k.block;
    return F32 * (double)run->batch * (double)run->context *
           (blocks + k.besides);
}

/*
 * Bytes of a bucket that is filled while half of the previous one is in flight.
 */
static double buckets_held(const lsi_plan_run *run)
{
    double most = 0, before = 0;
    for (size_t i = 0; i < run->model->n_tensors;) {
        double bytes;
        i = lsi_plan_bucket(run, i, &bytes);
        most = fmax(most, bytes + before / 2);
        before = bytes;
    }
    return most;
}

/*
 * Weights of a rank, with copies for products in a half type. Ranks that share
 * a copy round all of it, others what they multiply.
 */
static double parameters_of(const lsi_plan_run *run)
{
    const lsi_plan_model *const m = run->model;
    const double here = (double)run->ranks / (double)run->nodes;
    const double halves = run->half ? HALF : 0;
    const double all = (F32 + halves) * (double)m->parameters;
    if (lsi_plan_divides_nodes(run))
        return all * (double)lsi_plan_replicas(run) / (double)run->ranks;
    return run->strategy->share >= LSI_SHARE_WEIGHTS
               ? all / here
               : F32 * (double)m->parameters + halves * (double)m->products;
}

lsi_plan_memory lsi_plan_memory_of(const lsi_plan_run *run)
{
    const lsi_sharding share = run->strategy->share;
    const double ranks = (double)run->ranks;
    const double f32 = F32 * (double)run->model->parameters;
    lsi_plan_memory m = {
        .parameters = parameters_of(run),
        .gathered =
            lsi_plan_gathers_of(run).held / (ranks / (double)run->nodes),
        .gradients = f32,
        .state = MOMENTS_OF_ADAMW * f32,
        .activations = activations_of(run),
        .other = other_bytes,
    };
    if (share == LSI_SHARE_ALL && run->ranks > 1)
        m.gradients = fmin(f32, f32 / ranks + buckets_held(run));
    if (run->slices > run->ranks)
        m.gradients += ((double)run->slices / ranks - 1) * f32;
    if (share != LSI_SHARE_NOTHING)
        m.state /= ranks;
    m.total = m.parameters + m.gathered + m.gradients + m.state +
              m.activations + m.other;
    return m;
}

ls_status lsi_plan_check(const lsi_plan_run *run)
{
    if (run->batch < 1 || run->context < 1)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "cannot plan a batch of %" PRId64
                        " sequences of %" PRId64
                        " tokens: both numbers must be above 0",
                        run->batch, run->context);
    if (run->ranks < 1 || run->nodes < 1)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "cannot plan %" PRId64 " ranks on %" PRId64
                        " nodes: both numbers must be above 0",
                        run->ranks, run->nodes);
    if (run->ranks % run->nodes != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "cannot plan %" PRId64 " ranks on %" PRId64
                        " nodes: the number of ranks must be a multiple of the "
                        "number of nodes",
                        run->ranks, run->nodes);
    if (run->slices % run->ranks != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "cannot plan %" PRId64 " slices on %" PRId64
                        " ranks: the number of slices must be a multiple of "
                        "the number of ranks",
                        run->slices, run->ranks);
    size_t groups;
    return lsi_shard_groups((size_t)run->nodes, (size_t)run->shard_over,
                            &groups);
}
