/*
 * A custom operation: swish(x) = x * sigmoid(beta * x).
 *
 * An operation has two functions. The first computes its output into a tensor
 * from ls_tape_output and records itself. The second turns the
 * gradient of the output into that of the input. It is used like any other.
 */
#include <math.h>
#include <stdio.h>

#include <lockstep/lockstep.h>

/* The state that backward needs in addition to tensors; ls_tape_record copies
 * it. */
typedef struct swish_state {
    float beta;
} swish_state;

static float sigmoid(float z)
{
    return 1.0F / (1.0F + expf(-z));
}

/* d/dx x s(bx) = s + b x s (1 - s), with s = sigmoid(b x). */
static ls_status swish_backward(ls_tape *tape, ls_node *node)
{
    const swish_state *state = ls_node_state(node);
    ls_tensor *x = ls_node_input(node, 0);
    ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    bool accumulate = false;
    ls_tensor *dx = ls_node_grad_input(tape, node, 0, &accumulate);
    if (dx == NULL)
        return ls_tape_status(tape); /* nobody asked for it, or an error */

    float *in, *grad, *out;
    ls_status status = ls_tensor_map_f32(x, &in);
    if (status == LS_OK)
        status = ls_tensor_map_f32(dy, &grad);
    if (status == LS_OK)
        status = ls_tensor_map_f32(dx, &out);
    if (status != LS_OK)
        return status;
    for (int64_t i = 0; i < ls_tensor_count(x); i++) {
        const float s = sigmoid(state->beta * in[i]);
        const float slope = s + state->beta * in[i] * s * (1 - s);
        out[i] = grad[i] * slope + (accumulate ? out[i] : 0);
    }
    return LS_OK;
}

static const ls_function swish_function = {
    .name = "swish",
    .backward = swish_backward,
    .state_bytes = sizeof(swish_state),
};

static ls_tensor *swish(ls_tape *tape, ls_tensor *x, float beta)
{
    if (x == NULL)
        return NULL; /* an earlier operation failed; the tape knows */
    if (ls_tensor_dtype(x) != LS_F32 || !ls_tensor_is_contiguous(x))
        return ls_tape_fail(tape, LS_ERR_UNSUPPORTED,
                            "swish: x must be a contiguous f32 tensor");
    ls_tensor *y =
        ls_tape_output(tape, LS_F32, ls_tensor_ndim(x), ls_tensor_shape(x));
    float *in, *out;
    if (y == NULL)
        return NULL;
    if (ls_tensor_map_f32(x, &in) != LS_OK ||
        ls_tensor_map_f32(y, &out) != LS_OK)
        return ls_tape_fail(tape, LS_ERR_MEMORY, "%s", ls_last_error());
    for (int64_t i = 0; i < ls_tensor_count(x); i++)
        out[i] = in[i] * sigmoid(beta * in[i]);
    const swish_state state = {beta};
    return ls_tape_record(tape, &swish_function, &state, &x, 1, &y, 1, NULL, 0);
}

/* Prints the gradient of sum(swish(x)^2) next to a difference quotient. */
static ls_status compare(ls_tape *tape, ls_tensor *x, double *worst)
{
    const float beta = 1.5F;
    ls_status status = ls_tape_watch(tape, x);
    ls_tensor *y = swish(tape, x, beta);
    ls_tensor *loss = ls_sum(tape, ls_mul(tape, y, y));
    float *at, *gradient;
    if (status == LS_OK)
        status = ls_backward(tape, loss, 1.0);
    if (status == LS_OK)
        status = ls_tensor_map_f32(x, &at);
    if (status == LS_OK)
        status = ls_tensor_map_f32(ls_tape_grad(tape, x), &gradient);
    if (status != LS_OK)
        return status;
    printf("%8s %10s %10s\n", "x", "gradient", "quotient");
    for (int64_t i = 0; i < ls_tensor_count(x); i++) {
        const double h = 1e-4, left = at[i] - h, right = at[i] + h;
        const double low = left / (1 + exp(-beta * left));
        const double high = right / (1 + exp(-beta * right));
        const double quotient = (high * high - low * low) / (2 * h);
        printf("%8.3f %10.6f %10.6f\n", at[i], gradient[i], quotient);
        *worst = fmax(*worst, fabs(gradient[i] - quotient));
    }
    return LS_OK;
}

int main(void)
{
    float values[] = {-3.0F, -1.0F, -0.25F, 0.0F, 0.5F, 2.0F};
    const int64_t count = sizeof values / sizeof values[0];
    ls_tensor *x = NULL;
    ls_tape *tape = NULL;
    double worst = 0;
    ls_status status = ls_tensor_wrap(&x, values, LS_F32, 1, &count, NULL);
    if (status == LS_OK)
        status = ls_tape_new(&tape);
    if (status == LS_OK)
        status = compare(tape, x, &worst);
    if (status != LS_OK)
        fprintf(stderr, "custom_op: %s\n", ls_last_error());
    ls_tape_free(&tape);
    ls_tensor_free(&x);
    return status != LS_OK || worst > 1e-5;
}
