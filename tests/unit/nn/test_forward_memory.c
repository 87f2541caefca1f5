/*
 * A model that is not trained keeps nothing of finished layers. The memory of a
 * forward pass, without the weights, does not depend on the number of layers,
 * to the byte.
 */
#include "array/compute/plan_cache.h"
#include "lockstep/profile.h"
#include "model/nn/transformer.h"
#include "model/tensor/tensor.h"
#include "testing.h"

enum { BATCH = 2, LENGTH = 256, VOCABULARY = 40, D = 32, FF = 96 };

/* One way to use a model. */
typedef struct use {
    ls_transformer_kind kind;
    ls_dtype products;
    bool training; /* with parameters that are not trained */
    bool cached;   /* keys and values, for the tokens that follow */
} use;

typedef struct setup {
    ls_params *params;
    ls_transformer *model;
    ls_tape *tape;
    ls_tensor *tokens;
    ls_transformer_cache *cache;
} setup;

static void freeze(ls_params *params)
{
    for (size_t i = 0; i < ls_params_count(params); i++)
        assert_ok(
            ls_params_set_trainable(params, ls_params_get(params, i), false));
}

static setup open_setup(const use *u, int64_t layers)
{
    setup s = {0};
    const int64_t shape[] = {u->cached ? 1 : BATCH, LENGTH};
    const ls_transformer_config config = {.kind = u->kind,
                                          .vocabulary = VOCABULARY,
                                          .context = LENGTH,
                                          .d_model = D,
                                          .d_ff = FF,
                                          .layers = layers,
                                          .heads = 2};
    lsi_plan_cache_drop(); /* of the model before */
    assert_ok(ls_params_new(&s.params));
    assert_ok(ls_transformer_new(&s.model, s.params, &config));
    if (u->training)
        freeze(s.params);
    assert_ok(ls_params_allocate(s.params, NULL, 1));
    assert_ok(ls_tape_new(&s.tape));
    ls_tape_set_training(s.tape, u->training);
    assert_ok(ls_tape_set_autocast(s.tape, u->products));
    assert_ok(ls_tensor_zeros(&s.tokens, LS_I64, 2, shape));
    if (u->cached)
        assert_ok(ls_transformer_cache_new(&s.cache, s.model, 1, 0));
    return s;
}

static void close_setup(setup *s)
{
    ls_transformer_cache_free(&s->cache);
    ls_tensor_free(&s->tokens);
    ls_tape_free(&s->tape);
    ls_transformer_free(&s->model);
    ls_params_free(&s->params);
}

static void forward(setup *s, const use *u, int64_t length)
{
    ls_tensor *tokens = ls_narrow(s->tape, s->tokens, 1, 0, length);
    ls_tensor *logits =
        u->cached
            ? ls_transformer_extend(s->model, s->tape, s->cache, 0, tokens)
            : ls_transformer_forward(s->model, s->tape, tokens);
    assert_ok(ls_tape_status(s->tape));
    assert_int_equal(logits->shape[1], u->cached ? VOCABULARY : length);
}

/*
 * The most that a pass has in use beyond the model, its halves, the cache, and
 * plans of products, which are of the process.
 */
static size_t taken(const use *u, int64_t layers)
{
    ls_memory_stats before, after, plans_before, plans;
    setup s = open_setup(u, layers);
    forward(&s, u, 1); /* rounds the weights, if products are half */
    ls_tape_reset(s.tape);
    ls_transformer_cache_clear(s.cache);
    ls_memory_reset_peak();
    ls_memory_total(&before);
    ls_memory_of(LS_MEMORY_OTHER, &plans_before);
    forward(&s, u, LENGTH);
    ls_memory_total(&after);
    ls_memory_of(LS_MEMORY_OTHER, &plans);
    close_setup(&s);
    return after.peak_bytes - before.live_bytes -
           (plans.live_bytes - plans_before.live_bytes);
}

static void layers_that_are_done_are_not_kept(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 16; i++) {
        const use u = {.kind =
                           i & 1 ? LS_TRANSFORMER_GPT2 : LS_TRANSFORMER_ROPE,
                       .products = i & 2 ? LS_BF16 : LS_F32,
                       .training = (i & 12) == 4,
                       .cached = i & 8};
        const size_t two = taken(&u, 2);
        assert_int_equal(taken(&u, 12), two);
        assert_int_equal(taken(&u, 2), two);
        assert_int_equal(taken(&u, 3), two);
    }
}

/*
 * docs/how-to/language-models.md. Sizes are rounded up by a sixteenth at most;
 * the rest are tables and the workspace of attention and of products.
 */
static void a_pass_takes_what_one_layer_does(void **state)
{
    (void)state;
    enum { WORKSPACE = 64 << 10 };
    for (int kind = 0; kind < LS_TRANSFORMER_KIND_COUNT; kind++) {
        const use u = {.kind = (ls_transformer_kind)kind, .products = LS_F32};
        const size_t bytes =
            (size_t)(4 * BATCH * LENGTH) * (8 * D + 3 * FF + VOCABULARY);
        const size_t most = taken(&u, 12);
        assert_true(most <= bytes + bytes / 16 + WORKSPACE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_that_are_done_are_not_kept),
        cmocka_unit_test(a_pass_takes_what_one_layer_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
