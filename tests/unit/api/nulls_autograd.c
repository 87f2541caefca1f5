/* Parameters, the tape and its operations. */
#include <stdlib.h>
#include <unistd.h>

#include "unit/api/nulls.h"

static const ls_init zeros = {LS_INIT_CONSTANT, 0, 0};
static const int64_t shape23[] = {2, 3}, two[] = {2}, three[] = {3};

/* ---- parameters ---------------------------------------------------------- */

static ls_status on_ready(void *context, size_t index)
{
    (void)context;
    (void)index;
    return LS_OK;
}

static void nulls_of_files(ls_params *params)
{
    char path[] = "/tmp/lockstep-nulls-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0 && close(fd) == 0);
    REFUSES(ls_params_save, "params path", P(params, params), P(path, path),
            NULL);
    TAKES(ls_params_save, "metadata", params, path, NULL);
    REFUSES(ls_params_load, "params path", P(params, params), P(path, path));
    assert_int_equal(unlink(path), 0);
}

void nulls_of_parameters(void **state)
{
    ls_params *params = NULL;
    ls_tensor *w = NULL;
    size_t count = 7;
    uint16_t halves[6] = {0};
    const ls_param_memory adopted = {.data = halves, .dtype = LS_BF16};
    (void)state;
    assert_ok(ls_params_new(&params));
    REFUSES(ls_params_add, "params name shape", P(params, params), P(name, "w"),
            2, P(shape, shape23), zeros, &w);
    TAKES(ls_params_add, "out", params, "v", 2, shape23, zeros, NULL);
    REFUSES(ls_params_adopt, "params name shape memory", P(params, params),
            P(name, "a"), 2, P(shape, shape23), P(memory, &adopted), &w);
    TAKES(ls_params_adopt, "out", params, "a", 2, shape23, &adopted, NULL);
    REFUSES(ls_params_add_buffer, "params name shape", P(params, params),
            P(name, "b"), 2, P(shape, shape23), zeros, &w);
    TAKES(ls_params_add_buffer, "out", params, "b", 2, shape23, zeros, NULL);
    assert_ok(ls_params_add(params, "w", 2, shape23, zeros, &w));
    REFUSES(ls_params_set_trainable, "params param", P(params, params),
            P(param, w), false);
    REFUSES(ls_params_allocate, "params", P(params, params), NULL, 1);
    TAKES(ls_params_allocate, "group", params, NULL, 1);
    nulls_of_files(params);
    GIVES(NULL, ls_params_flat, "params", P(params, params), &count);
    assert_int_equal(count, 0);
    GIVES(NULL, ls_params_flat_grad, "params", P(params, params), &count);
    GIVES(ls_params_flat(params, &count), ls_params_flat, "count", params,
          P(count, &count));
    GIVES(ls_params_flat_grad(params, &count), ls_params_flat_grad, "count",
          params, P(count, &count));
    BEARS(ls_params_on_grad_ready, "params context", P(params, params),
          on_ready, P(context, &count));
    assert_int_equal(ls_params_offset(NULL, 0), SIZE_MAX);

    ls_params *none = NULL;
    ls_params_free(&none);
    ls_params_free(&params);
}

/* ---- the tape ------------------------------------------------------------ */

static ls_tape *tape;
static ls_tensor *x;      /* (2, 3) */
static ls_tensor *vector; /* (3) */
static ls_tensor *labels; /* (2) i64 */

static void open_tape(void)
{
    assert_ok(ls_tape_new(&tape));
    assert_ok(ls_tensor_zeros(&x, LS_F32, 2, shape23));
    assert_ok(ls_tensor_zeros(&vector, LS_F32, 1, three));
    assert_ok(ls_tensor_zeros(&labels, LS_I64, 1, two));
}

static void close_tape(void)
{
    ls_tape_free(&tape);
    ls_tape_free(&tape);
    ls_tensor_free(&x);
    ls_tensor_free(&vector);
    ls_tensor_free(&labels);
}

static int backward_calls;

static ls_status backward(ls_tape *t, ls_node *node)
{
    bool accumulate;
    backward_calls++;
    GIVES(NULL, ls_node_grad_output, "tape node", P(tape, t), P(node, node), 0);
    GIVES(NULL, ls_node_grad_input, "node", t, P(node, node), 0, &accumulate);
    GIVES(NULL, ls_node_grad_input, "tape", P(tape, t), node, 0, &accumulate);
    GIVES(NULL, ls_node_grad_input, "accumulate", t, node, 0,
          P(accumulate, &accumulate));
    return ls_tape_status(t);
}

static void nulls_of_recording(void)
{
    const ls_function function = {"twice", backward, sizeof(int)};
    const int factor = 2;
    ls_tensor *y;
    y = ls_tape_output(tape, LS_F32, 2, shape23);
    STOPS(tape, ls_tape_record, "tape function state inputs outputs saved",
          P(tape, tape), P(function, &function), P(state, &factor),
          P(inputs, &x), 1, P(outputs, &y), 1, P(saved, &x), 1);
    STOPS(tape, ls_tape_output, "tape shape", P(tape, tape), LS_F32, 2,
          P(shape, shape23));
    assert_null(ls_tape_record(tape, &(ls_function){"none", NULL, 0}, NULL, &x,
                               1, NULL, 0, NULL, 0));
    assert_error(ls_tape_status(tape), LS_ERR_ARGUMENT, "backward is NULL");
    ls_tape_reset(tape);
}

/* A tape that has failed in backward says why. */
static void nulls_of_nodes(void)
{
    const ls_function function = {"once", backward, 0};
    assert_ok(ls_tape_watch(tape, vector));
    ls_tensor *y = ls_tape_output(tape, LS_F32, 0, NULL);
    assert_non_null(y);
    assert_ptr_equal(
        ls_tape_record(tape, &function, NULL, &vector, 1, &y, 1, NULL, 0), y);
    assert_error(ls_backward(tape, y, 1), LS_ERR_ARGUMENT,
                 "accumulate is NULL");
    assert_int_equal(backward_calls, 1);
    ls_tape_reset(tape);
}

#if defined(__GNUC__)
#    pragma GCC diagnostic ignored "-Wformat-security"
#    pragma GCC diagnostic ignored "-Wformat-nonliteral"
#endif

static void nulls_of_failing(void)
{
    GIVES(NULL, ls_tape_fail, "tape", P(tape, tape), LS_ERR_IO, "x");
    assert_int_equal(ls_tape_status(tape), LS_OK);
    GIVES(NULL, ls_tape_fail, "format", tape, LS_ERR_IO, P(format, "x"));
    assert_error(ls_tape_status(tape), LS_ERR_IO, "ls_tape_fail");
    ls_tape_reset(tape);
}

static ls_tensor *pass_on(void *context, ls_tape *on, ls_tensor *const *inputs)
{
    (void)context;
    return ls_relu(on, inputs[0]);
}

static void nulls_of_recomputing(void)
{
    STOPS(tape, ls_recompute, "tape inputs", P(tape, tape), pass_on, tape,
          P(inputs, &x), 1);
    MAKES(ls_recompute, "context", tape, pass_on, P(context, tape), &x, 1);
    ls_tape_reset(tape);
}

void nulls_of_tapes(void **state)
{
    (void)state;
    open_tape();
    const ls_tape_samples samples = LS_TAPE_SAMPLES_INIT;
    ls_tensor *loss = ls_sum(tape, x);
    REFUSES(ls_tape_set_samples, "tape", P(tape, tape), &samples);
    TAKES(ls_tape_set_samples, "samples", tape, NULL);
    REFUSES(ls_tape_watch, "tape tensor", P(tape, tape), P(tensor, x));
    GIVES(NULL, ls_tape_grad, "tape tensor", P(tape, tape), P(tensor, x));
    REFUSES(ls_backward, "tape", P(tape, tape), loss, 1);
    REFUSES(ls_backward, "loss", tape, P(loss, loss), 1);
    ls_tape_reset(tape);
    nulls_of_failing();
    nulls_of_recording();
    nulls_of_nodes();
    nulls_of_recomputing();
    close_tape();
}

/* ---- operations ---------------------------------------------------------- */

static void nulls_of_elements(void)
{
    STOPS(tape, ls_add, "tape a b", P(tape, tape), P(a, x), P(b, x));
    STOPS(tape, ls_sub, "tape a b", P(tape, tape), P(a, x), P(b, x));
    STOPS(tape, ls_mul, "tape a b", P(tape, tape), P(a, x), P(b, x));
    STOPS(tape, ls_div, "tape a b", P(tape, tape), P(a, x), P(b, x));
    STOPS(tape, ls_swiglu, "tape a b", P(tape, tape), P(a, x), P(b, x));
    STOPS(tape, ls_mse_loss, "tape a b", P(tape, tape), P(a, x), P(b, x));
    STOPS(tape, ls_matmul, "tape a b", P(tape, tape), P(a, x), P(b, x));
    STOPS(tape, ls_scale, "tape a", P(tape, tape), P(a, x), 2);
    STOPS(tape, ls_relu, "tape a", P(tape, tape), P(a, x));
    STOPS(tape, ls_gelu, "tape a", P(tape, tape), P(a, x));
    STOPS(tape, ls_pow, "tape a", P(tape, tape), P(a, x), 3);
    STOPS(tape, ls_clamp, "tape a", P(tape, tape), P(a, x), 0, 1);
    STOPS(tape, ls_neg, "tape a", P(tape, tape), P(a, x));
    STOPS(tape, ls_abs, "tape a", P(tape, tape), P(a, x));
    STOPS(tape, ls_silu, "tape a", P(tape, tape), P(a, x));
    STOPS(tape, ls_gelu_erf, "tape a", P(tape, tape), P(a, x));
    STOPS(tape, ls_exp, "tape a", P(tape, tape), P(a, x));
    STOPS(tape, ls_log, "tape a", P(tape, tape), P(a, x));
    STOPS(tape, ls_sqrt, "tape a", P(tape, tape), P(a, x));
    STOPS(tape, ls_tanh, "tape a", P(tape, tape), P(a, x));
    STOPS(tape, ls_sigmoid, "tape a", P(tape, tape), P(a, x));
    STOPS(tape, ls_dropout, "tape a", P(tape, tape), P(a, x), 0.5);
    STOPS(tape, ls_sum, "tape a", P(tape, tape), P(a, x));
    STOPS(tape, ls_mean, "tape a", P(tape, tape), P(a, x));
    STOPS(tape, ls_cast, "tape a", P(tape, tape), P(a, x), LS_BF16);
    STOPS(tape, ls_flatten, "tape a", P(tape, tape), P(a, x));
    STOPS(tape, ls_narrow, "tape a", P(tape, tape), P(a, x), 0, 0, 1);
    STOPS(tape, ls_transpose, "tape a", P(tape, tape), P(a, x), 0, 1);
    STOPS(tape, ls_reshape, "tape a shape", P(tape, tape), P(a, x), 2,
          P(shape, shape23));
}

static void nulls_of_choices(void)
{
    ls_tensor *mask = NULL, *columns = NULL;
    assert_ok(ls_tensor_zeros(&mask, LS_U8, 2, shape23));
    assert_ok(ls_tensor_zeros(&columns, LS_I64, 2, shape23));
    STOPS(tape, ls_where, "tape condition a b", P(tape, tape),
          P(condition, mask), P(a, x), P(b, x));
    STOPS(tape, ls_lt, "tape a b", P(tape, tape), P(a, x), P(b, x));
    STOPS(tape, ls_le, "tape a b", P(tape, tape), P(a, x), P(b, x));
    STOPS(tape, ls_gt, "tape a b", P(tape, tape), P(a, x), P(b, x));
    STOPS(tape, ls_ge, "tape a b", P(tape, tape), P(a, x), P(b, x));
    STOPS(tape, ls_eq, "tape a b", P(tape, tape), P(a, x), P(b, x));
    STOPS(tape, ls_take_along, "tape a indices", P(tape, tape), P(a, x),
          P(indices, columns), 1);
    STOPS(tape, ls_argmax, "tape a", P(tape, tape), P(a, x), 0, LS_AXES_DROP);
    ls_tensor_free(&columns);
    ls_tensor_free(&mask);
}

static void nulls_of_axes(void)
{
    const int axes[] = {0, 1};
    ls_tensor *const parts[] = {x, x};
    STOPS(tape, ls_sum_axes, "tape a axes", P(tape, tape), P(a, x),
          P(axes, axes), 2, LS_AXES_DROP);
    STOPS(tape, ls_mean_axes, "tape a axes", P(tape, tape), P(a, x),
          P(axes, axes), 2, LS_AXES_DROP);
    STOPS(tape, ls_max_axes, "tape a axes", P(tape, tape), P(a, x),
          P(axes, axes), 2, LS_AXES_DROP);
    STOPS(tape, ls_expand, "tape a shape", P(tape, tape), P(a, x), 2,
          P(shape, shape23));
    STOPS(tape, ls_slice, "tape a", P(tape, tape), P(a, x), 0, 0, 1, 1);
    STOPS(tape, ls_concat, "tape parts", P(tape, tape), P(parts, parts), 2, 0);
    nulls_of_choices();
}

void nulls_of_operations(void **state)
{
    const int64_t image[] = {1, 1, 2, 3};
    ls_tensor *picture = NULL;
    (void)state;
    open_tape();
    assert_ok(ls_tensor_zeros(&picture, LS_F32, 4, image));
    ls_batch_norm_args args = {.running_mean = vector,
                               .running_var = vector,
                               .eps = 1e-5,
                               .momentum = 0.1};
    nulls_of_elements();
    nulls_of_axes();
    STOPS(tape, ls_linear, "tape x weight", P(tape, tape), P(x, x),
          P(weight, x), NULL);
    MAKES(ls_linear, "bias", tape, x, x, NULL);
    STOPS(tape, ls_conv2d, "tape x weight", P(tape, tape), P(x, picture),
          P(weight, picture), NULL, NULL);
    MAKES(ls_conv2d, "bias options", tape, picture, picture, NULL, NULL);
    STOPS(tape, ls_max_pool2d, "tape x", P(tape, tape), P(x, picture), 1, NULL);
    MAKES(ls_max_pool2d, "options", tape, picture, 1, NULL);
    STOPS(tape, ls_avg_pool2d, "tape x", P(tape, tape), P(x, picture), 2, NULL);
    MAKES(ls_avg_pool2d, "options", tape, picture, 2, NULL);
    STOPS(tape, ls_group_norm, "tape x", P(tape, tape), P(x, x), 3, NULL, NULL,
          1e-5);
    MAKES(ls_group_norm, "weight bias", tape, x, 3, P(weight, vector),
          P(bias, vector), 1e-5);
    STOPS(tape, ls_global_avg_pool2d, "tape x", P(tape, tape), P(x, picture));
    STOPS(tape, ls_batch_norm, "tape x args", P(tape, tape), P(x, x),
          P(args, &args));
    args.running_var = NULL;
    assert_null(ls_batch_norm(tape, x, &args));
    assert_int_equal(ls_tape_status(tape), LS_ERR_ARGUMENT);
    ls_tape_reset(tape);
    STOPS(tape, ls_embedding, "tape weight indices", P(tape, tape),
          P(weight, x), P(indices, labels));
    STOPS(tape, ls_rms_norm, "tape x weight", P(tape, tape), P(x, x),
          P(weight, vector), 1e-5);
    STOPS(tape, ls_layer_norm, "tape x weight bias", P(tape, tape), P(x, x),
          P(weight, vector), P(bias, vector), 1e-5);
    STOPS(tape, ls_softmax, "tape x", P(tape, tape), P(x, x), 0);
    STOPS(tape, ls_log_softmax, "tape x", P(tape, tape), P(x, x), 0);
    STOPS(tape, ls_bce_with_logits, "tape logits targets", P(tape, tape),
          P(logits, x), P(targets, x));
    STOPS(tape, ls_rope, "tape x cosine sine", P(tape, tape), P(x, picture),
          P(cosine, x), P(sine, x), LS_ROPE_PAIRS);
    STOPS(tape, ls_cross_entropy, "tape logits labels", P(tape, tape),
          P(logits, x), P(labels, labels), NULL);
    MAKES(ls_cross_entropy, "options", tape, x, labels, NULL);
    STOPS(tape, ls_attention, "tape q k v", P(tape, tape), P(q, picture),
          P(k, picture), P(v, picture), NULL);
    MAKES(ls_attention, "options", tape, picture, picture, picture, NULL);
    assert_int_equal(ls_tape_status(tape), LS_OK);
    ls_tensor_free(&picture);
    close_tape();
}
