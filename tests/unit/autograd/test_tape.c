/*
 * The tape itself: who gets which gradient, when hooks fire, what sticks, what
 * is given back. Values are small integers, so that everything is exact.
 */
#include "base/memory.h"
#include "lockstep/autograd.h"
#include "model/tensor/tensor.h"
#include "testing.h"

static const ls_init zero = {LS_INIT_CONSTANT, 0.0, 0.0};

/* ---- helpers ------------------------------------------------------------- */

static ls_tape *new_tape(void)
{
    ls_tape *tape = NULL;
    assert_ok(ls_tape_new(&tape));
    return tape;
}

/* A vector with these values. */
static ls_tensor *vector(const float *values, int64_t n)
{
    ls_tensor *tensor = NULL;
    assert_ok(ls_tensor_new(&tensor, LS_F32, 1, &n));
    memcpy(tensor_data(tensor), values, (size_t)n * sizeof(float));
    return tensor;
}

static void assert_values(const ls_tensor *tensor, const float *want, int64_t n)
{
    assert_non_null(tensor);
    assert_int_equal(ls_tensor_count(tensor), n);
    const float *got = tensor_data(tensor);
    for (int64_t i = 0; i < n; i++)
        assert_true(got[i] == want[i]);
}

/* Three parameters a, b, c of two elements: (1, 2), (3, 4), (5, 6). */
typedef struct model {
    ls_params *params;
    ls_tensor *p[3];
    ls_tape *tape;
    size_t ready[32];
    size_t n_ready;
    ls_status answer; /* of the hook */
} model;

static ls_status on_ready(void *context, size_t index)
{
    model *m = context;
    m->ready[m->n_ready++] = index;
    return m->answer;
}

static void open_model(model *m, int frozen)
{
    static const char *const names[] = {"a", "b", "c"};
    *m = (model){.tape = new_tape()};
    assert_ok(ls_params_new(&m->params));
    for (int i = 0; i < 3; i++)
        assert_ok(ls_params_add(m->params, names[i], 1, (const int64_t[]){2},
                                zero, &m->p[i]));
    if (frozen >= 0)
        assert_ok(ls_params_set_trainable(m->params, m->p[frozen], false));
    assert_ok(ls_params_allocate(m->params, NULL, 0));
    for (int i = 0; i < 3; i++) {
        float *data = tensor_data(m->p[i]);
        data[0] = (float)(2 * i + 1);
        data[1] = (float)(2 * i + 2);
    }
    ls_params_on_grad_ready(m->params, on_ready, m);
}

static void close_model(model *m)
{
    ls_tape_free(&m->tape);
    ls_params_free(&m->params);
}

/* ---- gradients ----------------------------------------------------------- */

static void used_twice(void **state)
{
    (void)state;
    model m;
    open_model(&m, -1);
    /* loss = sum(a * b + a); da = b + 1, db = a; c is not reached */
    ls_tensor *ab = ls_mul(m.tape, m.p[0], m.p[1]);
    ls_tensor *loss = ls_sum(m.tape, ls_add(m.tape, ab, m.p[0]));
    assert_ok(ls_backward(m.tape, loss, 1.0));
    assert_values(ls_grad(m.p[0]), (const float[]){4, 5}, 2);
    assert_values(ls_grad(m.p[1]), (const float[]){1, 2}, 2);
    assert_int_equal(m.n_ready, 2);
    assert_int_equal(m.ready[0], 0); /* inputs of one node: in their order */
    assert_int_equal(m.ready[1], 1);
    close_model(&m);
}

static void same_tensor_on_both_sides(void **state)
{
    (void)state;
    model m;
    open_model(&m, -1);
    ls_tensor *h = ls_scale(m.tape, m.p[0], 2.0);
    ls_tensor *y = ls_add(m.tape, ls_mul(m.tape, h, h), ls_add(m.tape, h, h));
    /* y = 4 a^2 + 4 a; dy/da = 8 a + 4 */
    assert_ok(ls_backward(m.tape, ls_sum(m.tape, y), 1.0));
    assert_values(ls_grad(m.p[0]), (const float[]){12, 20}, 2);
    assert_int_equal(m.n_ready, 1);
    close_model(&m);
}

static void last_use_decides(void **state)
{
    (void)state;
    model m;
    open_model(&m, -1);
    /* a is used first and last; c in between; so c is ready before a. */
    ls_tensor *h = ls_mul(m.tape, m.p[0], m.p[1]);
    h = ls_mul(m.tape, h, m.p[2]);
    h = ls_add(m.tape, h, m.p[0]);
    assert_ok(ls_backward(m.tape, ls_sum(m.tape, h), 1.0));
    assert_int_equal(m.n_ready, 3);
    assert_int_equal(m.ready[0], 2);
    assert_int_equal(m.ready[1], 0);
    assert_int_equal(m.ready[2], 1);
    assert_values(ls_grad(m.p[0]), (const float[]){16, 25}, 2);
    close_model(&m);
}

static void unused_branches_do_not_count(void **state)
{
    (void)state;
    model m;
    open_model(&m, -1);
    ls_tensor *loss = ls_sum(m.tape, m.p[0]);
    assert_non_null(ls_mul(m.tape, m.p[0], m.p[1])); /* leads nowhere */
    assert_ok(ls_backward(m.tape, loss, 3.0));
    assert_int_equal(m.n_ready, 1);
    assert_values(ls_grad(m.p[0]), (const float[]){3, 3}, 2);
    ls_params_finish_grad(m.params);
    assert_values(ls_grad(m.p[1]), (const float[]){0, 0}, 2);
    close_model(&m);
}

static void frozen_parameter(void **state)
{
    (void)state;
    model m;
    open_model(&m, 1);
    assert_null(ls_grad(m.p[1]));
    assert_false(ls_params_is_trainable(m.params, 1));
    ls_tensor *loss = ls_sum(m.tape, ls_mul(m.tape, m.p[0], m.p[1]));
    assert_ok(ls_backward(m.tape, loss, 1.0));
    assert_values(ls_grad(m.p[0]), (const float[]){3, 4}, 2);
    assert_int_equal(m.n_ready, 1);
    ls_tape_reset(m.tape);
    loss = ls_sum(m.tape, m.p[1]); /* nothing to train */
    assert_error(ls_backward(m.tape, loss, 1.0), LS_ERR_STATE, "trainable");
    close_model(&m);
}

static void accumulates_until_zero_grad(void **state)
{
    (void)state;
    model m;
    open_model(&m, -1);
    for (int step = 1; step <= 3; step++) {
        ls_tape_reset(m.tape);
        ls_tensor *loss = ls_sum(m.tape, ls_mul(m.tape, m.p[0], m.p[1]));
        assert_ok(ls_backward(m.tape, loss, 1.0));
        const float s = (float)step;
        assert_values(ls_grad(m.p[0]), (const float[]){3 * s, 4 * s}, 2);
    }
    ls_params_zero_grad(m.params);
    ls_tape_reset(m.tape);
    assert_ok(ls_backward(m.tape, ls_sum(m.tape, m.p[0]), 1.0));
    assert_values(ls_grad(m.p[0]), (const float[]){1, 1}, 2);
    assert_int_equal(m.n_ready, 7);
    close_model(&m);
}

static void watched_tensors(void **state)
{
    (void)state;
    model m;
    open_model(&m, -1);
    ls_tensor *x = vector((const float[]){7, 8}, 2);
    ls_tensor *idle = vector((const float[]){0, 0}, 2);
    assert_ok(ls_tape_watch(m.tape, x));
    assert_ok(ls_tape_watch(m.tape, idle));
    ls_tensor *h = ls_mul(m.tape, x, m.p[0]);
    assert_ok(ls_tape_watch(m.tape, h));
    ls_tensor *y = ls_relu(m.tape, h); /* must not overwrite dh */
    ls_tensor *loss = ls_sum(m.tape, ls_scale(m.tape, y, 2.0));
    assert_null(ls_tape_grad(m.tape, x));
    assert_ok(ls_backward(m.tape, loss, 1.0));
    assert_values(ls_tape_grad(m.tape, x), (const float[]){2, 4}, 2);
    assert_values(ls_tape_grad(m.tape, h), (const float[]){2, 2}, 2);
    assert_null(ls_tape_grad(m.tape, idle));
    assert_null(ls_tape_grad(m.tape, y)); /* not asked for */
    assert_error(ls_tape_watch(m.tape, m.p[0]), LS_ERR_ARGUMENT, "'a'");
    ls_tape_reset(m.tape);
    assert_null(ls_tape_grad(m.tape, x));
    ls_tensor_free(&x);
    ls_tensor_free(&idle);
    close_model(&m);
}

/* Backward works in place where it may; what is watched it may not touch. */
static void watched_results_keep_their_gradient(void **state)
{
    (void)state;
    model m;
    open_model(&m, -1);
    ls_tensor *y = ls_relu(m.tape, ls_sub(m.tape, m.p[0], m.p[1])); /* < 0 */
    ls_tensor *z = ls_reshape(m.tape, y, 2, (const int64_t[]){2, 1});
    assert_ok(ls_tape_watch(m.tape, y));
    assert_ok(ls_tape_watch(m.tape, z));
    ls_tensor *loss = ls_sum(m.tape, ls_scale(m.tape, z, 2.0));
    assert_ok(ls_backward(m.tape, loss, 1.0));
    assert_values(ls_tape_grad(m.tape, y), (const float[]){2, 2}, 2);
    assert_values(ls_tape_grad(m.tape, z), (const float[]){2, 2}, 2);
    assert_int_equal(ls_tensor_ndim(ls_tape_grad(m.tape, z)), 2);
    assert_values(ls_grad(m.p[0]), (const float[]){0, 0}, 2);
    close_model(&m);
}

/* A tensor that outlives a reset is a constant, on this tape and on others. */
static void retained_results_are_constants(void **state)
{
    (void)state;
    model m;
    open_model(&m, -1);
    ls_tensor *h = ls_tensor_retain(ls_scale(m.tape, m.p[0], 2.0));
    ls_tape_reset(m.tape);
    ls_tensor *loss = ls_sum(m.tape, ls_mul(m.tape, h, m.p[1]));
    assert_ok(ls_backward(m.tape, loss, 1.0));
    assert_values(ls_grad(m.p[1]), (const float[]){2, 4}, 2);
    assert_int_equal(m.n_ready, 1);
    assert_null(ls_tape_grad(m.tape, h));
    ls_tape *other = new_tape();
    assert_ok(ls_tape_watch(other, h));
    ls_tape_free(&other);
    ls_tensor_free(&h);
    close_model(&m);
}

static void two_tapes(void **state)
{
    (void)state;
    model m;
    open_model(&m, -1);
    ls_tape *other = new_tape();
    ls_tensor *h = ls_scale(m.tape, m.p[0], 2.0);
    assert_error(ls_tape_watch(other, h), LS_ERR_STATE, "another tape");
    /* The result of one tape is a constant for the other. */
    ls_tensor *loss = ls_sum(other, ls_mul(other, h, m.p[1]));
    assert_ok(ls_backward(other, loss, 1.0));
    assert_values(ls_grad(m.p[1]), (const float[]){2, 4}, 2);
    assert_int_equal(m.n_ready, 1);
    ls_tape_free(&other);
    close_model(&m);
}

static void evaluation_records_nothing(void **state)
{
    (void)state;
    model m;
    open_model(&m, -1);
    assert_true(ls_tape_is_training(m.tape));
    ls_tape_set_training(m.tape, false);
    ls_tensor *loss = ls_sum(m.tape, m.p[0]);
    assert_values(loss, (const float[]){3}, 1);
    assert_error(ls_backward(m.tape, loss, 1.0), LS_ERR_STATE, "not training");
    close_model(&m);
}

/* ---- errors -------------------------------------------------------------- */

static void errors_stick(void **state)
{
    (void)state;
    model m;
    open_model(&m, -1);
    ls_tensor *x = vector((const float[]){1, 2, 3}, 3);
    ls_tensor *bad = ls_add(m.tape, m.p[0], x);
    assert_null(bad);
    assert_int_equal(ls_tape_status(m.tape), LS_ERR_SHAPE);
    assert_null(ls_relu(m.tape, m.p[0])); /* would be fine */
    assert_null(ls_tape_output(m.tape, LS_F32, 0, NULL));
    double ignored = 0.0;
    assert_error(ls_tensor_item(x, &ignored), LS_ERR_SHAPE, "(3)");
    /* backward repeats the first error, not the latest */
    assert_error(ls_backward(m.tape, NULL, 1.0), LS_ERR_SHAPE, "add");
    assert_error(ls_backward(m.tape, NULL, 1.0), LS_ERR_SHAPE, "(2) and (3)");
    ls_tape_reset(m.tape);
    assert_int_equal(ls_tape_status(m.tape), LS_OK);
    assert_ok(ls_backward(m.tape, ls_sum(m.tape, m.p[0]), 1.0));
    ls_tensor_free(&x);
    close_model(&m);
}

static void null_inputs_are_errors(void **state)
{
    (void)state;
    ls_tape *tape = new_tape();
    assert_null(ls_relu(tape, NULL));
    assert_error(ls_backward(tape, NULL, 1.0), LS_ERR_ARGUMENT, "relu");
    ls_tape_reset(tape);
    assert_error(ls_backward(tape, NULL, 1.0), LS_ERR_ARGUMENT, "NULL");
    ls_tape_free(&tape);
    assert_null(ls_relu(NULL, NULL));
}

static void a_tape_is_walked_once(void **state)
{
    (void)state;
    model m;
    open_model(&m, -1);
    ls_tensor *loss = ls_sum(m.tape, m.p[0]);
    assert_ok(ls_backward(m.tape, loss, 1.0));
    assert_error(ls_backward(m.tape, loss, 1.0), LS_ERR_STATE, "already ran");
    ls_tape_reset(m.tape);
    assert_ok(ls_backward(m.tape, ls_sum(m.tape, m.p[0]), 1.0));
    assert_null(ls_relu(m.tape, m.p[0]));
    assert_int_equal(ls_tape_status(m.tape), LS_ERR_STATE);
    close_model(&m);
}

static void loss_must_be_one_element(void **state)
{
    (void)state;
    model m;
    open_model(&m, -1);
    ls_tensor *y = ls_relu(m.tape, m.p[0]);
    assert_error(ls_backward(m.tape, y, 1.0), LS_ERR_SHAPE, "(2)");
    close_model(&m);
}

static void hook_ends_backward(void **state)
{
    (void)state;
    model m;
    open_model(&m, -1);
    m.answer = LS_ERR_PEER_DEAD;
    ls_tensor *h = ls_mul(m.tape, ls_mul(m.tape, m.p[0], m.p[1]), m.p[2]);
    const ls_status got = ls_backward(m.tape, ls_sum(m.tape, h), 1.0);
    assert_int_equal(got, LS_ERR_PEER_DEAD);
    assert_int_equal(m.n_ready, 1);
    assert_int_equal(ls_tape_status(m.tape), LS_ERR_PEER_DEAD);
    /* The next step counts uses afresh. */
    m.answer = LS_OK;
    m.n_ready = 0;
    ls_tape_reset(m.tape);
    ls_params_zero_grad(m.params);
    h = ls_mul(m.tape, ls_mul(m.tape, m.p[0], m.p[1]), m.p[2]);
    assert_ok(ls_backward(m.tape, ls_sum(m.tape, h), 1.0));
    assert_int_equal(m.n_ready, 3);
    close_model(&m);
}

static void parameters_without_memory(void **state)
{
    (void)state;
    ls_params *params = NULL;
    ls_tensor *p = NULL;
    ls_tape *tape = new_tape();
    assert_ok(ls_params_new(&params));
    assert_ok(ls_params_add(params, "w", 1, (const int64_t[]){2}, zero, &p));
    assert_null(ls_relu(tape, p));
    assert_error(ls_backward(tape, NULL, 1.0), LS_ERR_STATE,
                 "ls_params_allocate");
    ls_tape_free(&tape);
    ls_params_free(&params);
}

/* ---- memory -------------------------------------------------------------- */

static uint64_t blocks_allocated(void)
{
    ls_memory_stats stats;
    ls_memory_total(&stats);
    return stats.allocated;
}

static void step(model *m, ls_tensor *x)
{
    ls_tape_reset(m->tape);
    ls_params_zero_grad(m->params);
    ls_tensor *h = ls_relu(m->tape, ls_mul(m->tape, x, m->p[0]));
    h = ls_dropout(m->tape, ls_add(m->tape, h, m->p[1]), 0.5);
    h = ls_reshape(m->tape, h, 2, (const int64_t[]){1, 2});
    h = ls_linear(m->tape, h,
                  ls_reshape(m->tape, m->p[2], 2, (const int64_t[]){1, 2}),
                  NULL);
    assert_ok(ls_backward(m->tape, ls_mean(m->tape, h), 1.0));
}

static void repeated_steps_allocate_nothing(void **state)
{
    (void)state;
    model m;
    open_model(&m, -1);
    ls_tensor *x = vector((const float[]){1, 2}, 2);
    step(&m, x);
    const uint64_t after_first = blocks_allocated();
    for (int i = 0; i < 5; i++)
        step(&m, x);
    assert_int_equal(blocks_allocated(), after_first);
    ls_tensor_free(&x);
    close_model(&m);
}

static void retained_tensors_outlive_the_tape(void **state)
{
    (void)state;
    ls_memory_stats before, after;
    ls_memory_total(&before);
    model m;
    open_model(&m, -1);
    ls_tensor *kept = ls_tensor_retain(ls_scale(m.tape, m.p[0], 3.0));
    ls_tape_reset(m.tape);
    assert_non_null(ls_scale(m.tape, m.p[0], 5.0)); /* reuses other memory */
    assert_values(kept, (const float[]){3, 6}, 2);
    close_model(&m);
    assert_values(kept, (const float[]){3, 6}, 2);
    ls_tensor_free(&kept);
    ls_memory_total(&after);
    assert_int_equal(after.live_bytes, before.live_bytes);
}

static void budget_is_a_sticky_error(void **state)
{
    (void)state;
    model m;
    open_model(&m, -1);
    ls_tensor *x = NULL;
    assert_ok(ls_tensor_zeros(&x, LS_F32, 1, (const int64_t[]){1 << 20}));
    ls_memory_stats now;
    ls_memory_total(&now);
    ls_memory_set_budget(now.live_bytes + (1 << 20));
    assert_null(ls_relu(m.tape, x));
    assert_int_equal(ls_tape_status(m.tape), LS_ERR_BUDGET);
    ls_memory_set_budget(0);
    ls_tape_reset(m.tape);
    assert_non_null(ls_relu(m.tape, x));
    ls_tensor_free(&x);
    close_model(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(used_twice),
        cmocka_unit_test(same_tensor_on_both_sides),
        cmocka_unit_test(last_use_decides),
        cmocka_unit_test(unused_branches_do_not_count),
        cmocka_unit_test(frozen_parameter),
        cmocka_unit_test(accumulates_until_zero_grad),
        cmocka_unit_test(watched_tensors),
        cmocka_unit_test(watched_results_keep_their_gradient),
        cmocka_unit_test(retained_results_are_constants),
        cmocka_unit_test(two_tapes),
        cmocka_unit_test(evaluation_records_nothing),
        cmocka_unit_test(errors_stick),
        cmocka_unit_test(null_inputs_are_errors),
        cmocka_unit_test(a_tape_is_walked_once),
        cmocka_unit_test(loss_must_be_one_element),
        cmocka_unit_test(hook_ends_backward),
        cmocka_unit_test(parameters_without_memory),
        cmocka_unit_test(repeated_steps_allocate_nothing),
        cmocka_unit_test(retained_tensors_outlive_the_tape),
        cmocka_unit_test(budget_is_a_sticky_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
