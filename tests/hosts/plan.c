/*
 * Weights divided over nodes: the bytes that a rank has, and the bytes that all
 * ranks send in a step, are those that plan says.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../unit/comm/ranks.h"
#include "../unit/plan/trained.h"
#include "lockstep/profile.h"
#include "plan/memory.h"
#include "plan/step.h"

enum { WARM_STEPS = 2 };

static void near(const char *what, double planned, double had, double tolerance)
{
    printf("%s: planned %.0f bytes, there were %.0f (%+.2f%%)\n", what, planned,
           had, 100 * (planned / had - 1));
    fflush(stdout);
    CHECK(fabs(planned - had) <= tolerance * had);
}

static double over_ranks(ls_group *group, double mine, ls_reduce_op how)
{
    CHECK_OK(ls_all_reduce(group, &mine, &mine, 1, LS_F64, how));
    return mine;
}

static double peak_over_ranks(ls_group *group, ls_memory_tag tag)
{
    ls_memory_stats stats;
    ls_memory_of(tag, &stats);
    return over_ranks(group, (double)stats.peak_bytes, LS_REDUCE_MAX);
}

static double largest_bucket(const lsi_plan_run *run)
{
    double most = 0, bytes;
    for (size_t i = 0; i < run->model->n_tensors;) {
        i = lsi_plan_bucket(run, i, &bytes);
        most = fmax(most, bytes);
    }
    return most;
}

/*
 * A rank's part, and one to three buckets, as its link is fast or slow: two may
 * be in flight while the next is computed.
 */
static void check_gradients(const lsi_plan_run *run, double had)
{
    const double bucket = largest_bucket(run);
    const double own =
        sizeof(float) * (double)run->model->parameters / (double)run->ranks;
    const double planned = lsi_plan_memory_of(run).gradients;
    printf("gradients: planned %.0f bytes, there were %.0f\n", planned, had);
    fflush(stdout);
    CHECK(had >= own && had <= 1.01 * (own + 3 * bucket));
    CHECK(planned >= own + bucket && planned <= own + 2 * bucket);
}

static double planned_bytes(const lsi_plan_run *run)
{
    const lsi_plan_place place = {.nodes = run->nodes,
                                  .here = run->ranks / run->nodes,
                                  .link = {1e9, 1e-5},
                                  .memory = 1e10,
                                  .rails = lsi_plan_steps_of((int)run->nodes)};
    return lsi_plan_step_of(run, &place, (lsi_plan_compute){1, 2, 1})
        .rank_bytes;
}

/* Bytes that a rank has sent since `before`, once all have ended the step. */
static double sent_since(ls_group *group, const ls_group_counters *before)
{
    ls_group_counters after;
    ls_group_get_counters(group, &after);
    return (double)(after.bytes_sent - before->bytes_sent);
}

static void compare(ls_group *group, int64_t nodes, const trained_setup *s)
{
    trained t = {0};
    lsi_plan_model model;
    ls_group_counters before;
    CHECK_OK(lsi_plan_model_open(&model, &s->config));
    lsi_plan_run run = trained_plan(s, group, &model);
    run.nodes = nodes;
    run.ahead = s->how.prefetch_layers;
    run.shard_over = (int64_t)s->how.shard_over;
    trained_open(&t, group, s);
    for (int i = 0; i < WARM_STEPS; i++)
        trained_step(&t);
    CHECK_OK(ls_barrier(group));
    ls_memory_reset_peak();
    ls_group_get_counters(group, &before);
    CHECK_OK(ls_barrier(group)); /* nobody asks for weights before */
    trained_step(&t);
    CHECK_OK(ls_barrier(group));
    const double sent = sent_since(group, &before);
    const lsi_plan_memory planned = lsi_plan_memory_of(&run);
    near("weights", planned.parameters,
         peak_over_ranks(group, LS_MEMORY_PARAMETERS), 0.05);
    near("gathered weights", planned.gathered,
         peak_over_ranks(group, LS_MEMORY_GATHERED), 0.05);
    near("state", planned.state, peak_over_ranks(group, LS_MEMORY_STATE), 0.05);
    check_gradients(&run, peak_over_ranks(group, LS_MEMORY_GRADIENTS));
    ls_memory_stats left;
    ls_memory_of(LS_MEMORY_GATHERED, &left);
    CHECK(left.live_bytes == 0); /* the step lets all go */
    /* Ranks of a node that drift apart gather more or less. */
    if (run.nodes == run.ranks)
        near("sent", planned_bytes(&run) * (double)run.ranks,
             over_ranks(group, sent, LS_REDUCE_SUM), 0.02);
    trained_close(&t);
    lsi_plan_model_close(&model);
}

/* The argument: shard_over of ls_ddp_options. */
int main(int argc, char **argv)
{
    static const ls_transformer_kind kinds[] = {LS_TRANSFORMER_ROPE,
                                                LS_TRANSFORMER_GPT2};
    ls_group *group = NULL;
    CHECK(argc == 2);
    CHECK_OK(ls_group_from_env(&group));
    const int64_t nodes = (int64_t)over_ranks(
        group, ls_group_local_rank(group) == 0, LS_REDUCE_SUM);
    for (int i = nodes < ls_group_size(group) ? 2 : 0; i < 4; i++) {
        trained_setup s = {.batch = 1,
                           .dtype = i & 1 ? LS_BF16 : LS_F32,
                           .how = LS_DDP_OPTIONS_INIT};
        CHECK_OK(ls_transformer_size("tiny", &s.config));
        s.config.kind = kinds[i / 2];
        s.config.context = 32;
        s.config.vocabulary = 2000;
        s.how.strategy = LS_DDP_FSDP;
        s.how.bucket_bytes = 1000000;
        s.how.prefetch_layers = i == 2 ? 1 : 2;
        s.how.shard_over = (size_t)atoi(argv[1]);
        compare(group, nodes, &s);
    }
    ls_group_close(&group);
    puts("as planned");
    return 0;
}
