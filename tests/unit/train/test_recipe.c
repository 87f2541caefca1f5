/*
 * Recipes: what they name is what is done.
 */
#include <math.h>
#include <stdlib.h>

#include "testing.h"
#include "train/recipe.h"

enum { N = 1000, STEPS = 6 };

static const lsi_recipe base = {.optimizer = "adamw",
                                .lr = 0.1,
                                .flags = {.beta1 = 0.8,
                                          .beta2 = 0.95,
                                          .eps = 1e-4,
                                          .weight_decay = 0.1,
                                          .decay_order = "first"},
                                .schedule = "cosine",
                                .warmup_steps = 2,
                                .min_lr = 0.01,
                                .clip_norm = 3};

static ls_params *make_set(void)
{
    ls_params *params = NULL;
    const int64_t n = N;
    assert_ok(ls_params_new(&params));
    assert_ok(ls_params_add(params, "p", 1, &n, (ls_init){LS_INIT_NORMAL, 0, 1},
                            NULL));
    assert_ok(ls_params_allocate(params, NULL, 1));
    return params;
}

static void set_gradients(ls_params *params, int step)
{
    size_t count;
    ls_params_finish_grad(params);
    float *grad = ls_params_flat_grad(params, &count);
    for (int i = 0; i < N; i++)
        grad[i] = (float)sin(i + 100.0 * step);
}

/* The same by hand: norm, rate, step. */
static void check_adamw(const char *name, ls_adamw_order order)
{
    size_t count;
    lsi_recipe recipe = base;
    recipe.flags.decay_order = name;
    ls_params *a = make_set(), *b = make_set();
    lsi_stepper stepper;
    ls_optimizer *optimizer = NULL;
    ls_adamw_options options = {.lr = base.lr,
                                .beta1 = base.flags.beta1,
                                .beta2 = base.flags.beta2,
                                .eps = base.flags.eps,
                                .weight_decay = base.flags.weight_decay,
                                .order = order};
    assert_ok(lsi_stepper_init(&stepper, a, &recipe, STEPS));
    assert_ok(ls_optimizer_new(&optimizer, b,
                               &(ls_optimizer_spec){.adamw = &options}));
    const ls_lr_schedule schedule = {.kind = LS_LR_COSINE,
                                     .max_lr = 0.1,
                                     .min_lr = 0.01,
                                     .warmup_steps = 2,
                                     .total_steps = STEPS};
    ls_clip *clip = NULL;
    assert_ok(ls_clip_new(&clip, b, 3));
    for (int step = 0; step < STEPS; step++) {
        double scale = 0.5;
        set_gradients(a, step);
        set_gradients(b, step);
        assert_ok(lsi_stepper_step(&stepper, scale));
        assert_ok(ls_clip_grad(clip, &scale, NULL, NULL));
        assert_true(scale < 0.5);
        assert_ok(ls_optimizer_set_lr(optimizer, ls_lr_at(&schedule, step)));
        assert_ok(ls_optimizer_step(optimizer, scale));
        assert_memory_equal(ls_params_flat(a, &count),
                            ls_params_flat(b, &count), N * sizeof(float));
    }
    assert_int_equal(stepper.steps, STEPS);
    ls_clip_free(&clip);
    ls_optimizer_free(&optimizer);
    lsi_stepper_release(&stepper);
    ls_params_free(&a);
    ls_params_free(&b);
}

static void adamw_with_everything(void **state)
{
    (void)state;
    check_adamw("first", LS_ADAMW_DECAY_FIRST);
    check_adamw("last", LS_ADAMW_DECAY_LAST);
}

static void usual_learning_rates(void **state)
{
    (void)state;
    ls_params *params = make_set();
    lsi_stepper stepper;
    lsi_recipe recipe = base;
    recipe.lr = 0;
    recipe.min_lr = 0;
    assert_ok(lsi_stepper_init(&stepper, params, &recipe, STEPS));
    assert_true(stepper.schedule.max_lr == 0.001);
    lsi_stepper_release(&stepper);
    recipe.optimizer = "sgd";
    recipe.schedule = "constant";
    recipe.min_lr = 0.5; /* of the cosine only */
    assert_ok(lsi_stepper_init(&stepper, params, &recipe, STEPS));
    assert_true(stepper.schedule.max_lr == 0.01);
    assert_int_equal(stepper.schedule.kind, LS_LR_CONSTANT);
    lsi_stepper_release(&stepper);
    recipe.optimizer = "lion";
    assert_ok(lsi_stepper_init(&stepper, params, &recipe, STEPS));
    assert_true(stepper.schedule.max_lr == 0.0001);
    lsi_stepper_release(&stepper);
    ls_params_free(&params);
}

/* The decay of LS_ADAMW_OPTIONS_INIT and its like. */
static void usual_decays(void **state)
{
    (void)state;
    static const struct {
        const char *optimizer, *text;
    } rows[] = {{"sgd", "0"}, {"adamw", "0.01"}, {"lion", "0.1"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        lsi_recipe recipe = base;
        lsi_run_config config = {.n = 0};
        recipe.optimizer = rows[i].optimizer;
        recipe.flags.weight_decay = -1;
        lsi_recipe_describe(&recipe, STEPS, &config);
        assert_string_equal(lsi_run_config_value(&config, "--weight-decay"),
                            rows[i].text);
        assert_ok(lsi_recipe_settle(&recipe, &config));
        assert_true(recipe.flags.weight_decay == strtod(rows[i].text, NULL));
    }
    assert_true(((ls_adamw_options)LS_ADAMW_OPTIONS_INIT).weight_decay == 0.01);
    assert_true(((ls_lion_options)LS_LION_OPTIONS_INIT).weight_decay == 0.1);
}

static void decays_of_checkpoints(void **state)
{
    (void)state;
    lsi_recipe recipe = base;
    lsi_run_config config = {.n = 0};
    lsi_run_config_text(&config, "--weight-decay", "0.5");
    assert_ok(lsi_recipe_settle(&recipe, &config));
    assert_true(recipe.flags.weight_decay == base.flags.weight_decay);
    recipe.flags.weight_decay = -1;
    assert_ok(lsi_recipe_settle(&recipe, &config));
    assert_true(recipe.flags.weight_decay == 0.5);
    static const char *const bad[] = {"", "a", "-1", "nan", "inf", "0.1x"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        config = (lsi_run_config){.n = 0};
        lsi_run_config_text(&config, "--weight-decay", bad[i]);
        recipe.flags.weight_decay = -1;
        assert_error(lsi_recipe_settle(&recipe, &config), LS_ERR_FORMAT,
                     "but must be a number of at least 0");
    }
}

/* A share of the steps of a schedule that ends with them; or the checkpoint's.
 */
static void usual_warmups(void **state)
{
    (void)state;
    static const struct {
        const char *schedule, *text;
        int64_t steps;
    } rows[] = {{"cosine", "0", 19},       {"cosine", "1", 20},
                {"linear", "10", 200},     {"wsd", "2000", 1000000},
                {"constant", "0", 200},    {"one-cycle", "0", 200},
                {"inverse-sqrt", "0", 200}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        lsi_recipe recipe = base;
        lsi_run_config config = {.n = 0};
        recipe.schedule = rows[i].schedule;
        recipe.warmup_steps = -1;
        lsi_recipe_describe(&recipe, rows[i].steps, &config);
        assert_string_equal(lsi_run_config_value(&config, "--warmup-steps"),
                            rows[i].text);
        assert_ok(lsi_recipe_settle(&recipe, &config));
        assert_true(recipe.warmup_steps == strtol(rows[i].text, NULL, 10));
    }
    lsi_recipe recipe = base;
    lsi_run_config config = {.n = 0};
    recipe.warmup_steps = -1;
    lsi_run_config_int(&config, "--warmup-steps", 7);
    assert_ok(lsi_recipe_settle(&recipe, &config));
    assert_int_equal(recipe.warmup_steps, 7);
}

/* Gradients that nothing clips have a norm, and the recipe says 0. */
static void measured_norms(void **state)
{
    (void)state;
    ls_params *params = make_set();
    lsi_stepper stepper;
    lsi_recipe recipe = base;
    lsi_run_config config = {.n = 0};
    recipe.clip_norm = 0;
    assert_ok(lsi_stepper_init(&stepper, params, &recipe, STEPS));
    assert_ok(lsi_stepper_measure(&stepper, params));
    set_gradients(params, 0);
    assert_ok(lsi_stepper_step(&stepper, 1));
    assert_true(stepper.norm > 1 && isfinite(stepper.norm));
    lsi_recipe_describe(&recipe, STEPS, &config);
    assert_string_equal(lsi_run_config_value(&config, "--clip-norm"), "0");
    lsi_stepper_release(&stepper);
    ls_params_free(&params);
}

static void what_is_refused(void **state)
{
    (void)state;
    ls_params *params = make_set();
    lsi_stepper stepper;
    lsi_recipe recipe = base;
    recipe.optimizer = "lamb";
    assert_error(lsi_stepper_init(&stepper, params, &recipe, 1),
                 LS_ERR_ARGUMENT, "unknown optimizer 'lamb'");
    recipe = base;
    recipe.min_lr = 0.2;
    assert_error(lsi_stepper_init(&stepper, params, &recipe, 1),
                 LS_ERR_ARGUMENT, "--min-lr 0.2 is above --lr 0.1");
    assert_null(stepper.optimizer);
    ls_params_free(&params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adamw_with_everything),
        cmocka_unit_test(usual_learning_rates),
        cmocka_unit_test(usual_decays),
        cmocka_unit_test(usual_warmups),
        cmocka_unit_test(measured_norms),
        cmocka_unit_test(decays_of_checkpoints),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
