#include "plan/training.h"

#include "base/error.h"
#include "plan/gathers.h"

static const char *divided_formula(const lsi_plan_run *run)
{
    if (lsi_plan_replicas(run) == 1)
        return run->half ? "6 P / N" : "4 P / N";
    return run->half ? "6 P / (K x ranks of a node)"
                     : "4 P / (K x ranks of a node)";
}

static const char *parameters_formula(const lsi_plan_run *run)
{
    if (lsi_plan_divides_nodes(run))
        return divided_formula(run);
    if (run->strategy->share >= LSI_SHARE_WEIGHTS)
        return run->half ? "6 P / ranks of a node" : "4 P / ranks of a node";
    return run->half ? "4 P + 2 x parameters of matrix products" : "4 P";
}

static void given(const lsi_plan_run *run, lsi_facts *out)
{
    const double tokens = (double)run->batch * (double)run->context;
    lsi_facts_whole(out, "", "parameters", (double)run->model->parameters, "",
                    "P");
    lsi_facts_whole(out, "", "ranks", (double)run->ranks, "", "given: N");
    lsi_facts_whole(out, "", "nodes", (double)run->nodes, "", "given");
    if (run->shard_over > 0)
        lsi_facts_whole(out, "", "shard_over", (double)run->shard_over, "",
                        "given: K, nodes that hold a copy of the weights");
    lsi_facts_whole(out, "", "batch", (double)run->batch, "",
                    "given: sequences per rank");
    lsi_facts_whole(out, "", "context", (double)run->context, "",
                    "given: tokens per sequence");
    lsi_facts_whole(out, "", "tokens_per_step", tokens * (double)run->ranks, "",
                    "N x batch x context");
}

static void memory(const lsi_trained_plan *plan, const lsi_plan_memory *m,
                   lsi_facts *out)
{
    const lsi_sharding share = plan->run.strategy->share;
    const int64_t on_a_node = plan->run.ranks / plan->run.nodes;
    const bool sliced = plan->run.slices > plan->run.ranks;
    const double node = m->total * (double)on_a_node;
    lsi_facts_whole(out, "memory", "parameter_bytes", m->parameters, "B",
                    parameters_formula(&plan->run));
    if (m->gathered > 0)
        lsi_facts_whole(out, "memory", "window_bytes", m->gathered, "B",
                        "gathered layers / ranks of a node");
    lsi_facts_whole(out, "memory", "gradient_bytes", m->gradients, "B",
                    share != LSI_SHARE_ALL ? sliced ? "4 P slices / N" : "4 P"
                    : sliced ? "4 P / N + the bytes of one to two buckets + "
                               "4 P (slices / N - 1)"
                             : "4 P / N + the bytes of one to two buckets");
    lsi_facts_whole(out, "memory", "state_bytes", m->state, "B",
                    share == LSI_SHARE_NOTHING ? "8 P" : "8 P / N");
    lsi_facts_whole(out, "memory", "activation_bytes", m->activations, "B",
                    "4 x batch x context x (floats kept per token + more "
                    "floats at the peak)");
    lsi_facts_whole(out, "memory", "other_bytes", m->other, "B", "as measured");
    lsi_facts_whole(out, "memory", "total_bytes", m->total, "B",
                    "peak bytes of a rank: sum of the bytes above");
    lsi_facts_whole(out, "memory", "node_bytes", node, "B",
                    "peak bytes of all ranks of a node");
    if (plan->device_bytes < 0)
        return;
    lsi_facts_whole(out, "memory", "available_bytes", plan->device_bytes, "B",
                    "given: memory of a node");
    lsi_facts_whole(out, "memory", "fits", node <= plan->device_bytes, "",
                    "1 if node_bytes <= available_bytes");
}

static void traffic(const lsi_plan_step *s, lsi_facts *out)
{
    lsi_facts_whole(out, "traffic", "buckets", (double)s->buckets, "",
                    "gradient buckets in a step");
    lsi_facts_whole(out, "traffic", "collectives", (double)s->collectives, "",
                    "collectives in a step");
    lsi_facts_whole(
        out, "traffic", "rank_sent_bytes", s->rank_bytes, "B",
        "2 (N-1)/N x all-reduced bytes + (N-1)/N x bytes of other collectives "
        "+ gathered weights / ranks of a node + 4 P / N x other nodes with the "
        "same weights");
    lsi_facts_whole(out, "traffic", "node_sent_bytes", s->link_bytes, "B",
                    "bytes that leave the busiest node");
    if (s->gathered > 0)
        lsi_facts_whole(out, "traffic", "gathered_bytes", s->gathered, "B",
                        "weights that a node receives from other nodes, and "
                        "sends them; mean of all nodes");
}

static void paging(const lsi_plan_place *place, const lsi_plan_step *s,
                   lsi_facts *out)
{
    lsi_facts_whole(out, "time", "pages", s->pages, "",
                    "freed pages of gradients: 4 P (N-1)/N / 4096");
    lsi_facts_real(out, "time", "page_us", 1e6 * place->page, "us",
                   "time to free a page and write to it again");
    lsi_facts_real(out, "time", "page_seconds", s->paging, "s",
                   "pages x page_us / 10^6");
}

static const char compute_formula[] =
    "measured, or FLOPs / (FLOP/s) + activation bytes moved / (bytes/s)";

static const char *bound_formula(const lsi_plan_step *s)
{
    return s->gathered > 0
               ? "1 if communication takes longer than forward and backward"
               : "1 if communication takes longer than backward";
}

static void times(const lsi_trained_plan *plan, const lsi_plan_step *s,
                  lsi_facts *out)
{
    const double tokens = (double)plan->run.batch * (double)plan->run.context *
                          (double)plan->run.ranks;
    lsi_facts_real(out, "time", "forward_seconds", s->forward, "s",
                   compute_formula);
    lsi_facts_real(out, "time", "backward_seconds", s->backward, "s",
                   compute_formula);
    lsi_facts_real(out, "time", "optimizer_seconds", s->optimizer, "s",
                   "time to update the parameters that a rank owns");
    lsi_facts_real(out, "time", "communication_seconds", s->communication, "s",
                   "sum of the times of all collectives and gathers");
    lsi_facts_real(out, "time", "exposed_seconds", s->exposed, "s",
                   "communication that does not overlap with computation");
    if (s->pages > 0)
        paging(&plan->place, s, out);
    lsi_facts_real(out, "time", "step_seconds", s->step, "s",
                   "time of the strategy's simulated schedule");
    lsi_facts_real(out, "time", "tokens_per_second", tokens / s->step, "",
                   "tokens_per_step / step_seconds");
    lsi_facts_real(out, "time", "efficiency", 1 - s->exposed / s->step, "",
                   "1 - exposed_seconds / step_seconds");
    lsi_facts_whole(out, "time", "communication_bound",
                    s->communication > s->hides, "", bound_formula(s));
    lsi_facts_real(out, "time", "tokens_to_hide", s->tokens_to_hide, "",
                   "tokens per rank and step above which communication_bound "
                   "is 0");
    lsi_facts_real(out, "time", "best_bucket_mb", s->best_bucket / 1e6, "MB",
                   "sqrt(s w o): s bytes of all gradients, w bandwidth of "
                   "their collective in bytes/s, o fixed time of a collective");
}

ls_status lsi_trained_plan_account(const lsi_trained_plan *plan, lsi_facts *out)
{
    out->n = 0;
    LS_TRY(lsi_plan_check(&plan->run));
    const lsi_plan_memory m = lsi_plan_memory_of(&plan->run);
    given(&plan->run, out);
    memory(plan, &m, out);
    if (!plan->timed)
        return LS_OK;
    const lsi_plan_step s =
        lsi_plan_step_of(&plan->run, &plan->place, plan->compute);
    traffic(&s, out);
    times(plan, &s, out);
    return LS_OK;
}
