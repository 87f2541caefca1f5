/*
 * A custom operation, written against the public header alone:
 * y = a b^2 and z = a + b, with two outputs. It has a state, a saved tensor,
 * scratch memory and an optional input.
 */
#include "lockstep/autograd.h"
#include "testing.h"

enum { N = 4 };

typedef struct state_data {
    float factor;
} state_data;

static int backward_calls;
static ls_status backward_answer;

/* da = dy b^2 factor + dz, db = 2 dy a b factor + dz */
static ls_status backward(ls_tape *tape, ls_node *node)
{
    const state_data *state = ls_node_state(node);
    const float *a = tensor_data(ls_node_input(node, 0));
    const float *b = tensor_data(ls_node_saved(node, 0));
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    const ls_tensor *dz = ls_node_grad_output(tape, node, 1);
    float *d = ls_tape_scratch(tape, sizeof(float) * 2 * N);
    backward_calls++;
    assert_non_null(d);
    assert_null(ls_node_input(node, 2));
    assert_null(ls_node_input(node, 3));
    assert_non_null(ls_node_output(node, 1));
    for (int i = 0; i < N; i++) {
        const float y = dy != NULL ? ((float *)tensor_data(dy))[i] : 0.0F;
        const float z = dz != NULL ? ((float *)tensor_data(dz))[i] : 0.0F;
        d[i] = y * b[i] * b[i] * state->factor + z;
        d[N + i] = 2.0F * y * a[i] * b[i] * state->factor + z;
    }
    for (int input = 0; input < 2; input++) {
        bool accumulate = false;
        ls_tensor *grad = ls_node_grad_input(tape, node, input, &accumulate);
        for (int i = 0; grad != NULL && i < N; i++) {
            float *out = (float *)tensor_data(grad) + i;
            *out = (accumulate ? *out : 0.0F) + d[input * N + i];
        }
    }
    return backward_answer;
}

static const ls_function function = {"a b squared", backward,
                                     sizeof(state_data)};

static ls_tensor *run(ls_tape *tape, ls_tensor *a, ls_tensor *b, ls_tensor **z)
{
    const int64_t n = N;
    const state_data state = {3.0F};
    ls_tensor *const outputs[] = {ls_tape_output(tape, LS_F32, 1, &n),
                                  ls_tape_output(tape, LS_F32, 1, &n)};
    if (outputs[0] == NULL || outputs[1] == NULL)
        return NULL;
    const float *va = tensor_data(a), *vb = tensor_data(b);
    float *y = tensor_data(outputs[0]), *sum = tensor_data(outputs[1]);
    for (int i = 0; i < N; i++) {
        y[i] = va[i] * vb[i] * vb[i] * state.factor;
        sum[i] = va[i] + vb[i];
    }
    if (z != NULL)
        *z = outputs[1];
    return ls_tape_record(tape, &function, &state,
                          (ls_tensor *const[]){a, b, NULL}, 3, outputs, 2, &b,
                          1);
}

typedef struct fixture {
    ls_tape *tape;
    ls_params *params;
    ls_tensor *a, *b; /* (1, 2, 3, 4) and (5, 6, 7, 8) */
} fixture;

static int setup(void **state)
{
    static fixture f;
    const int64_t n = N;
    const ls_init zero = {LS_INIT_CONSTANT, 0.0, 0.0};
    assert_ok(ls_tape_new(&f.tape));
    assert_ok(ls_params_new(&f.params));
    assert_ok(ls_params_add(f.params, "a", 1, &n, zero, &f.a));
    assert_ok(ls_params_add(f.params, "b", 1, &n, zero, &f.b));
    assert_ok(ls_params_allocate(f.params, NULL, 0));
    for (int i = 0; i < N; i++) {
        ((float *)tensor_data(f.a))[i] = (float)(1 + i);
        ((float *)tensor_data(f.b))[i] = (float)(5 + i);
    }
    backward_calls = 0;
    backward_answer = LS_OK;
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    ls_tape_free(&f->tape);
    ls_params_free(&f->params);
    return 0;
}

static void both_outputs(void **state)
{
    const fixture *f = *state;
    ls_tensor *z = NULL, *y = run(f->tape, f->a, f->b, &z);
    ls_tensor *loss = ls_sum(f->tape, ls_add(f->tape, y, z));
    assert_ok(ls_backward(f->tape, loss, 1.0));
    const float *da = tensor_data(ls_grad(f->a));
    const float *db = tensor_data(ls_grad(f->b));
    for (int i = 0; i < N; i++) {
        const float a = (float)(1 + i), b = (float)(5 + i);
        assert_true(da[i] == 3.0F * b * b + 1.0F);
        assert_true(db[i] == 6.0F * a * b + 1.0F);
    }
    assert_int_equal(backward_calls, 1);
}

/* One output has no gradient; one input is used elsewhere before. */
static void one_output(void **state)
{
    const fixture *f = *state;
    ls_tensor *z = NULL;
    assert_non_null(run(f->tape, f->a, f->b, &z));
    ls_tensor *loss = ls_sum(f->tape, ls_mul(f->tape, z, f->a));
    assert_ok(ls_backward(f->tape, loss, 1.0));
    const float *da = tensor_data(ls_grad(f->a));
    for (int i = 0; i < N; i++) /* z + a */
        assert_true(da[i] == (float)(6 + 2 * i) + (float)(1 + i));
    assert_int_equal(backward_calls, 1);
}

static void skipped_when_nobody_asks(void **state)
{
    const fixture *f = *state;
    ls_tensor *loss = ls_sum(f->tape, f->a);
    assert_non_null(run(f->tape, f->a, f->b, NULL));
    assert_ok(ls_backward(f->tape, loss, 1.0));
    assert_int_equal(backward_calls, 0);
}

static void not_recorded_in_evaluation(void **state)
{
    const fixture *f = *state;
    ls_tape_set_training(f->tape, false);
    ls_tensor *y = run(f->tape, f->a, f->b, NULL);
    assert_true(((const float *)tensor_data(y))[0] == 75.0F);
    assert_int_equal(ls_tape_status(f->tape), LS_OK);
}

static void failing_backward(void **state)
{
    const fixture *f = *state;
    ls_tensor *loss = ls_sum(f->tape, run(f->tape, f->a, f->b, NULL));
    backward_answer = LS_ERR_UNSUPPORTED;
    assert_int_equal(ls_backward(f->tape, loss, 1.0), LS_ERR_UNSUPPORTED);
    assert_int_equal(ls_tape_status(f->tape), LS_ERR_UNSUPPORTED);
    ls_tape_reset(f->tape);
    backward_answer = LS_OK;
    loss = ls_sum(f->tape, run(f->tape, f->a, f->b, NULL));
    assert_ok(ls_backward(f->tape, loss, 1.0));
}

static void failing_forward(void **state)
{
    const fixture *f = *state;
    assert_null(ls_tape_fail(f->tape, LS_ERR_ARGUMENT, "bad %d", 7));
    assert_null(run(f->tape, f->a, f->b, NULL));
    assert_error(ls_backward(f->tape, f->a, 1.0), LS_ERR_ARGUMENT, "bad 7");
}

/* A backward that asks for nothing: the gradient is zero, not what was left. */
static ls_status backward_of_nothing(ls_tape *tape, ls_node *node)
{
    (void)tape;
    (void)node;
    backward_calls++;
    return LS_OK;
}

static ls_status count_ready(void *context, size_t index)
{
    (void)index;
    ++*(int *)context;
    return LS_OK;
}

static void gradients_that_nobody_writes(void **state)
{
    const fixture *f = *state;
    static const ls_function nothing = {"nothing", backward_of_nothing, 0};
    int ready = 0;
    ls_params_on_grad_ready(f->params, count_ready, &ready);
    assert_ok(ls_tensor_fill(ls_grad(f->a), 7.0)); /* from another step */
    ls_tensor *y = ls_tape_output(f->tape, LS_F32, 0, NULL);
    assert_non_null(
        ls_tape_record(f->tape, &nothing, NULL, &f->a, 1, &y, 1, NULL, 0));
    assert_ok(ls_backward(f->tape, y, 1.0));
    assert_int_equal(backward_calls, 1);
    assert_int_equal(ready, 1);
    for (int i = 0; i < N; i++)
        assert_true(((float *)tensor_data(ls_grad(f->a)))[i] == 0.0F);
}

static void misuse(void **state)
{
    const fixture *f = *state;
    const state_data data = {1.0F};
    ls_tensor *y = run(f->tape, f->a, f->b, NULL);
    assert_null(
        ls_tape_record(f->tape, &function, &data, &f->a, 1, &y, 1, NULL, 0));
    assert_error(ls_backward(f->tape, y, 1.0), LS_ERR_ARGUMENT,
                 "already recorded");
    ls_tape_reset(f->tape);
    ls_tensor *none = NULL;
    assert_null(
        ls_tape_record(f->tape, &function, &data, &f->a, 1, &none, 1, NULL, 0));
    assert_error(ls_backward(f->tape, f->a, 1.0), LS_ERR_ARGUMENT,
                 "output 0 is NULL");
    ls_tape_reset(f->tape);
    assert_ok(ls_backward(f->tape, ls_sum(f->tape, f->a), 1.0));
    assert_null(run(f->tape, f->a, f->b, NULL));
    assert_int_equal(ls_tape_status(f->tape), LS_ERR_STATE);
}

/* Such as an int of -1, whose list would be read far past its end. */
static void counts_that_no_list_has(void **state)
{
    const fixture *f = *state;
    const state_data data = {1.0F};
    for (int i = 0; i < 3; i++) {
        size_t n[] = {1, 1, 1};
        n[i] = (size_t)-1;
        ls_tensor *y = ls_tape_output(f->tape, LS_F32, 0, NULL);
        assert_null(ls_tape_record(f->tape, &function, &data, &f->a, n[0], &y,
                                   n[1], &f->b, n[2]));
        assert_error(ls_backward(f->tape, y, 1.0), LS_ERR_ARGUMENT,
                     "the maximum is 2147483647");
        ls_tape_reset(f->tape);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(both_outputs),
        CASE(one_output),
        CASE(skipped_when_nobody_asks),
        CASE(not_recorded_in_evaluation),
        CASE(failing_backward),
        CASE(failing_forward),
        CASE(gradients_that_nobody_writes),
        CASE(misuse),
        CASE(counts_that_no_list_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
