#include "plan/step.h"

#include <math.h>

#include "plan/gathers.h"

enum {
    F32 = sizeof(float),
    PAGE = 4096,
    ADAMW_BYTES = 28 /* of a parameter: four numbers read, three written */
};

/* Each activation is written once; about two operations read it. */
static const double touches_forward = 3, touches_backward = 6;

/* ---- computation --------------------------------------------------------- */

static double tokens_of(const lsi_plan_run *run)
{
    return (double)run->batch * (double)run->context;
}

/* Operations of the scores and the result of attention, half of them masked. */
static double attention_flops(const lsi_plan_run *run)
{
    const lsi_plan_model *const m = run->model;
    return 2.0 * (double)m->layers * (double)m->d_model * (double)run->context *
           tokens_of(run);
}

double lsi_plan_forward_flops(const lsi_plan_run *run)
{
    return 2 * (double)run->model->products * tokens_of(run) +
           attention_flops(run);
}

lsi_plan_compute lsi_plan_compute_of(const lsi_plan_run *run,
                                     lsi_plan_device device, double activations)
{
    const double forward = lsi_plan_forward_flops(run);
    const double attention = attention_flops(run);
    /* Backward has two products for each, and computes scores again. */
    const double backward = 2 * forward + attention / 2;
    const double parameters = (double)run->model->parameters;
    lsi_plan_compute c = {
        .forward = forward / device.flops +
                   touches_forward * activations / device.memory,
        .backward = backward / device.flops +
                    touches_backward * activations / device.memory,
        .optimizer = ADAMW_BYTES * parameters / device.memory,
    };
    if (run->recompute)
        c.backward += c.forward;
    return c;
}

/* ---- a step -------------------------------------------------------------- */

typedef struct timeline {
    const lsi_plan_run *run;
    lsi_plan_place place;
    double now;    /* time of the ranks */
    double arrive; /* time from which the link is free */
    lsi_plan_gathers gathers;
    lsi_plan_step out;
} timeline;

/* The collective for gradients. */
static lsi_plan_move gradients_move(const lsi_plan_run *run)
{
    return run->strategy->share >= LSI_SHARE_STATE ? LSI_PLAN_REDUCE_SCATTER
                                                   : LSI_PLAN_ALL_REDUCE;
}

static double leaves(lsi_plan_move move, double ranks)
{
    const double once = (ranks - 1) / ranks;
    return move == LSI_PLAN_ALL_REDUCE ? 2 * once : once;
}

/*
 * The collective starts once the ranks have arrived and the previous one is
 * over. The ranks do their share of the work at once. They wait for the link
 * only if `waits`.
 */
static void cross(timeline *t, lsi_plan_move move, double bytes, bool waits)
{
    const lsi_plan_cost c = lsi_plan_move_cost(&t->place, move, bytes);
    t->arrive = fmax(t->now, t->arrive) + c.seconds;
    t->now = waits ? t->arrive : t->now + c.busy;
    t->out.communication += c.seconds;
    t->out.link_bytes += c.sent;
    t->out.collectives++;
}

static void collective(timeline *t, lsi_plan_move move, double bytes,
                       bool waits)
{
    cross(t, move, bytes, waits);
    t->out.rank_bytes += bytes * leaves(move, (double)t->run->ranks);
}

/*
 * `bytes` of weights come to the node, and as many leave it, while the ranks
 * compute for `seconds`.
 */
static void gather(timeline *t, double bytes, double seconds)
{
    const double link = bytes / t->place.link.bytes;
    t->arrive = fmax(t->now, t->arrive) + link;
    t->now += seconds;
    t->out.communication += link;
    t->out.link_bytes += bytes;
    t->out.gathered += bytes;
    t->out.rank_bytes += bytes / (double)t->place.here;
}

/* Waits for the first layer, whose weights nothing hides. */
static void forward(timeline *t, double seconds)
{
    const lsi_plan_gathers *const g = &t->gathers;
    if (g->forward == 0) {
        t->now += seconds;
        return;
    }
    gather(t, g->first, 0);
    t->now = t->arrive + 2 * t->place.link.latency; /* a request, an answer */
    gather(t, g->forward - g->first, seconds);
    t->now = fmax(t->now, t->arrive);
}

/* With one rank, the sum still passes over the gradients. */
static void alone(timeline *t, double bytes)
{
    const double seconds = 2 * bytes / t->place.memory;
    t->now += seconds;
    t->out.communication += seconds;
}

/* Once a bucket is summed, a rank keeps only the pages of its part. */
static void give_back(timeline *t, double bytes)
{
    const double ranks = (double)t->run->ranks;
    if (t->run->strategy->share == LSI_SHARE_ALL)
        t->out.pages += (ranks - 1) / ranks * bytes / PAGE;
}

static void backward(timeline *t, double seconds)
{
    const lsi_plan_run *const run = t->run;
    const lsi_start start = run->strategy->start;
    const double all = F32 * (double)run->model->parameters;
    if (start != LSI_START_READY)
        t->now += seconds;
    for (size_t i = 0; i < run->model->n_tensors;) {
        double bytes;
        i = lsi_plan_bucket(run, i, &bytes);
        if (start == LSI_START_READY)
            gather(t, t->gathers.backward * bytes / all, seconds * bytes / all);
        t->out.buckets++;
        if (run->ranks > 1)
            collective(t, gradients_move(run), bytes, start != LSI_START_READY);
        else
            alone(t, bytes);
        give_back(t, bytes);
    }
    t->out.paging = t->out.pages * t->place.page;
    t->now = fmax(t->now, t->arrive) + t->out.paging;
}

/*
 * Nodes that keep the same weights bring each other what their ranks have
 * updated: all nodes, unless the weights are divided over nodes.
 */
static void replicas(timeline *t)
{
    const lsi_plan_run *const run = t->run;
    const int64_t n =
        lsi_plan_divides_nodes(run) ? lsi_plan_replicas(run) : run->nodes;
    const double all = F32 * (double)run->model->parameters;
    if (n == 1)
        return;
    t->place.nodes = n;
    t->place.here = 1;
    cross(t, LSI_PLAN_ALL_GATHER, all * (double)n / (double)run->nodes, true);
    t->out.rank_bytes += all / (double)run->ranks * (double)(n - 1);
}

/* Collects weights that other ranks have updated. */
static void weights(timeline *t)
{
    const lsi_plan_run *const run = t->run;
    const double all = F32 * (double)run->model->parameters;
    switch (run->strategy->share) {
    case LSI_SHARE_NOTHING:
        return;
    case LSI_SHARE_TENSORS:
        for (size_t i = 0; i < run->model->n_tensors; i++)
            collective(t, LSI_PLAN_BROADCAST,
                       F32 * (double)run->model->tensors[i], true);
        return;
    case LSI_SHARE_STATE:
        collective(t, LSI_PLAN_ALL_GATHER, all, true);
        break;
    default:
        replicas(t);
        break;
    }
    t->out.collectives += 2; /* barriers around it */
    t->now += 2 * t->place.meeting;
}

static double best_bucket(const lsi_plan_run *run, const lsi_plan_place *p)
{
    const double s = F32 * (double)run->model->parameters;
    const lsi_plan_move move = gradients_move(run);
    if (run->ranks < 2)
        return 0;
    const double none = lsi_plan_move_cost(p, move, 0).seconds;
    const double whole = lsi_plan_move_cost(p, move, s).seconds;
    const double overhead = p->nodes > 1 ? none + p->link.latency : none;
    return sqrt(s * (s / (whole - none)) * overhead);
}

lsi_plan_step lsi_plan_step_of(const lsi_plan_run *run,
                               const lsi_plan_place *place, lsi_plan_compute c)
{
    timeline t = {
        .run = run, .place = *place, .gathers = lsi_plan_gathers_of(run)};
    if (run->strategy->share != LSI_SHARE_NOTHING)
        c.optimizer /= (double)run->ranks;
    forward(&t, c.forward);
    backward(&t, c.backward);
    t.now += c.optimizer;
    if (run->ranks > 1)
        weights(&t);
    t.out.forward = c.forward;
    t.out.backward = c.backward;
    t.out.optimizer = c.optimizer;
    t.out.step = t.now;
    const double computed = c.forward + c.backward + c.optimizer;
    t.out.exposed = fmax(0, t.now - computed - t.out.paging);
    t.out.hides = c.backward + (t.gathers.forward > 0 ? c.forward : 0);
    t.out.tokens_to_hide = tokens_of(run) * t.out.communication / t.out.hides;
    t.out.best_bucket = best_bucket(run, place);
    return t.out;
}
