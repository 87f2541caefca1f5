#include "plan/gathers.h"

#include <math.h>

enum { F32 = sizeof(float), HALF = 2 };

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

static double bytes_of(const lsi_plan_run *run, const lsi_plan_layer *layer)
{
    return run->half ? HALF * layer->products + F32 * layer->others
                     : F32 * (layer->end - layer->begin);
}

/* A tied table is read by a product and by another operation. */
static bool is_tied(const lsi_plan_layer *layer)
{
    return layer->products + layer->others > layer->end - layer->begin;
}

static size_t width(const lsi_plan_run *run)
{
    const size_t n = run->model->n_layers;
    return run->ahead < n ? run->ahead + 1 : n;
}

/* Bytes of a layer that a node of a shard group lacks. */
static double foreign(const lsi_plan_run *run, const lsi_plan_layer *layer,
                      int64_t node)
{
    const double part = (double)run->model->parameters / (double)over(run);
    const double begin = fmax(layer->begin, part * (double)node);
    const double end = fmin(layer->end, part * (double)(node + 1));
    const double own = fmax(0, end - begin) / (layer->end - layer->begin);
    return (1 - own) * bytes_of(run, layer);
}

static double most_held(const lsi_plan_run *run, int64_t node)
{
    const lsi_plan_layer *const all = run->model->layer_list;
    const size_t wide = width(run);
    double tied = 0, window = 0, most = 0;
    for (size_t i = 0; i < run->model->n_layers; i++) {
        if (is_tied(&all[i]))
            tied += foreign(run, &all[i], node);
        else
            window += foreign(run, &all[i], node);
        if (i >= wide && !is_tied(&all[i - wide]))
            window -= foreign(run, &all[i - wide], node);
        most = fmax(most, window);
    }
    return tied + most;
}

lsi_plan_gathers lsi_plan_gathers_of(const lsi_plan_run *run)
{
    const lsi_plan_model *const m = run->model;
    const double elsewhere = 1 - 1 / (double)over(run);
    const int64_t nodes = over(run) < MOST_NODES ? over(run) : MOST_NODES;
    lsi_plan_gathers out = {.held = 0};
    if (!lsi_plan_divides_nodes(run))
        return out;
    for (int64_t i = 0; i < nodes; i++)
        out.held = fmax(out.held, most_held(run, i * over(run) / nodes));
    for (size_t i = 0; i < m->n_layers; i++) {
        const lsi_plan_layer *const layer = &m->layer_list[i];
        const double bytes = elsewhere * bytes_of(run, layer);
        out.forward += bytes;
        if (i == 0)
            out.first = bytes;
        if (!is_tied(layer) && i + width(run) < m->n_layers)
            out.backward += bytes - elsewhere * F32 * layer->lookups;
    }
    return out;
}
