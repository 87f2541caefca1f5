#include "plan/gathers.h"

#include <math.h>

/* Nodes that are looked at, evenly spaced if there are more. */
enum { MOST_NODES = 64 };

/* Nodes that hold one copy of the weights together. */
static int64_t over(const lsi_plan_run *run)
{
    return run->shard_over > 0 ? run->shard_over : run->nodes;
}

bool lsi_plan_divides_nodes(const lsi_plan_run *run)
{
    return run->strategy->share == LSI_SHARE_ALL && over(run) > 1;
}

int64_t lsi_plan_replicas(const lsi_plan_run *run)
{
    return run->nodes / over(run);
}

static double most_held(const lsi_plan_run *run, int64_t node)
{
    const double part = (double)run->model->parameters / (double)over(run);
    const double kept[][2] = {{part * (double)node, part * (double)(node + 1)}};
    return lsi_layer_window_bytes(
        &run->model->layer_sizes,
        &(lsi_layer_window){
            .ahead = run->ahead, .half = run->half, .kept = kept, .n_kept = 1});
}

lsi_plan_gathers lsi_plan_gathers_of(const lsi_plan_run *run)
{
    const lsi_layer_sizes *const layers = &run->model->layer_sizes;
    const double elsewhere = 1 - 1 / (double)over(run);
    const int64_t nodes = over(run) < MOST_NODES ? over(run) : MOST_NODES;
    lsi_plan_gathers out = {.held = 0};
    if (!lsi_plan_divides_nodes(run))
        return out;
    for (int64_t i = 0; i < nodes; i++)
        out.held = fmax(out.held, most_held(run, i * over(run) / nodes));
    for (size_t i = 0; i < layers->n; i++) {
        const lsi_layer_size *const layer = &layers->of[i];
        const double bytes = elsewhere * lsi_layer_bytes(layer, run->half);
        out.forward += bytes;
        if (i == 0)
            out.first = bytes;
        /* The layers of the last window are there at the turn. */
        if (!lsi_layer_is_tied(layer) && run->ahead < layers->n - 1 - i)
            out.backward += bytes - elsewhere * sizeof(float) * layer->lookups;
    }
    return out;
}
