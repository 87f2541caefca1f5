#include "trained.h"

#include "../comm/ranks.h"

static void fill(ls_tensor *tensor)
{
    int64_t *data;
    CHECK_OK(ls_tensor_map_i64(tensor, &data));
    for (int64_t i = 0; i < ls_tensor_count(tensor); i++)
        data[i] = i % 251;
}

void trained_open(trained *t, ls_group *group, const trained_setup *s)
{
    const int64_t shape[] = {s->batch, s->config.context};
    const int64_t flat = s->batch * s->config.context;
    CHECK_OK(lsi_lm_new_sliced(&t->lm, group, &s->config, 0,
                               s->slices > 0 ? s->slices : 1));
    ls_transformer_set_recompute(t->lm.transformer, s->recompute);
    CHECK_OK(ls_ddp_new(&t->ddp, group, t->lm.params, &s->how));
    CHECK_OK(ls_optimizer_new(&t->optimizer, t->lm.params, NULL));
    CHECK_OK(ls_tape_new(&t->tape));
    CHECK_OK(ls_tape_set_autocast(t->tape, s->dtype));
    CHECK_OK(ls_tensor_new(&t->tokens, LS_I64, 2, shape));
    CHECK_OK(ls_tensor_new(&t->targets, LS_I64, 1, &flat));
    fill(t->tokens);
    fill(t->targets);
}

void trained_step(trained *t)
{
    ls_params_zero_grad(t->lm.params);
    const lsi_forward out =
        lsi_lm_forward(&t->lm, t->tape, t->tokens, t->targets);
    CHECK_OK(ls_ddp_backward(t->ddp, t->tape, out.loss, out.weight));
    CHECK_OK(ls_optimizer_step(t->optimizer, 1.0));
    ls_tape_reset(t->tape);
}

void trained_close(trained *t)
{
    ls_tensor_free(&t->targets);
    ls_tensor_free(&t->tokens);
    ls_tape_free(&t->tape);
    ls_optimizer_free(&t->optimizer);
    ls_ddp_free(&t->ddp);
    lsi_lm_free(&t->lm);
}

lsi_plan_run trained_plan(const trained_setup *s, const ls_group *group,
                          const lsi_plan_model *model)
{
    lsi_plan_run run = {.model = model,
                        .batch = s->batch,
                        .context = s->config.context,
                        .half = s->dtype != LS_F32,
                        .recompute = s->recompute,
                        .slices = s->slices * ls_group_size(group),
                        .ranks = ls_group_size(group),
                        .nodes = 1};
    uint64_t limit;
    CHECK_OK(lsi_strategy_of(&s->how, run.nodes, &run.strategy, &limit));
    run.bucket_bytes = limit;
    return run;
}
