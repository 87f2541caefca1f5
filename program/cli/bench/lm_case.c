#include "cli/bench/lm_case.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/rng.h"
#include "observe/spans.h"

/* Random tokens: their values make no difference to the time. */
static ls_status fill_tokens(ls_tensor *tensor, int64_t vocabulary,
                             uint64_t stream)
{
    int64_t *data;
    LS_TRY(ls_tensor_map_i64(tensor, &data));
    const lsi_rng_key key = {0, stream};
    for (int64_t i = 0; i < ls_tensor_count(tensor); i++)
        data[i] =
            (int64_t)lsi_rng_below(key, 0, (uint64_t)i, (uint64_t)vocabulary);
    return LS_OK;
}

/* Weights, and as far as they are used gradients and both moments, are kept in
 * any case. */
static ls_status check_fits(const lsi_lm_case *c)
{
    int64_t parameters;
    const size_t numbers = c->optimize ? 4 : c->backward ? 2 : 1;
    LS_TRY(lsi_lm_count(&c->config, &parameters, NULL));
    const size_t bytes = (size_t)parameters * numbers * sizeof(float);
    LS_TRY(lsi_memory_try(bytes, LS_MEMORY_PARAMETERS,
                          c->optimize   ? "weights, gradients and moments"
                          : c->backward ? "weights and gradients"
                                        : "weights"));
    ls_memory_reset_peak();
    return LS_OK;
}

ls_status lsi_lm_case_new(lsi_lm_case *c)
{
    const int64_t shape[] = {c->batch, c->config.context};
    const int64_t flat = c->batch * c->config.context;
    LS_TRY(check_fits(c));
    LS_TRY(c->backward ? lsi_lm_new(&c->lm, NULL, &c->config, 0)
                       : lsi_lm_new_frozen(&c->lm, &c->config, 0));
    if (c->optimize)
        LS_TRY(ls_optimizer_new(&c->optimizer, c->lm.params, NULL));
    LS_TRY(ls_tape_new(&c->tape));
    ls_tape_set_training(c->tape, c->backward);
    LS_TRY(ls_tape_set_autocast(c->tape, c->dtype));
    LS_TRY(ls_tensor_new(&c->tokens, LS_I64, 2, shape));
    LS_TRY(ls_tensor_new(&c->targets, LS_I64, 1, &flat));
    LS_TRY(fill_tokens(c->tokens, c->config.vocabulary, 1));
    return fill_tokens(c->targets, c->config.vocabulary, 2);
}

void lsi_lm_case_free(lsi_lm_case *c)
{
    ls_tensor_free(&c->targets);
    ls_tensor_free(&c->tokens);
    ls_tape_free(&c->tape);
    ls_optimizer_free(&c->optimizer);
    lsi_lm_free(&c->lm);
}

static lsi_forward run_forward(lsi_lm_case *c)
{
    LSI_SPAN(PHASE, "forward", 0, 0);
    return lsi_lm_forward(&c->lm, c->tape, c->tokens, c->targets);
}

ls_status lsi_lm_case_step(lsi_lm_case *c, double seconds[LSI_LM_PHASES])
{
    const double begin = lsi_clock_seconds();
    ls_params_zero_grad(c->lm.params);
    const lsi_forward out = run_forward(c);
    LS_TRY(ls_tape_status(c->tape));
    const double forward = lsi_clock_seconds();
    if (c->backward)
        LS_TRY(ls_backward(c->tape, out.loss, 1.0));
    const double backward = lsi_clock_seconds();
    if (c->optimize)
        LS_TRY(ls_optimizer_step(c->optimizer, 1.0));
    const double optimizer = lsi_clock_seconds();
    ls_tape_reset(c->tape);
    seconds[LSI_LM_FORWARD] = forward - begin;
    seconds[LSI_LM_BACKWARD] = backward - forward;
    seconds[LSI_LM_OPTIMIZER] = optimizer - backward;
    seconds[LSI_LM_STEP] = lsi_clock_seconds() - begin;
    return LS_OK;
}
