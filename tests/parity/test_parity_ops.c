/*
 * General operations, and an MLP-Mixer written with them, against PyTorch's in
 * double precision (make_op_vectors.py).
 */
#include <math.h>
#include <stdio.h>

#include "parity.h"

#define SHAPE(...)                                                             \
    (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),           \
        (const int64_t[])                                                      \
    {                                                                          \
        __VA_ARGS__                                                            \
    }

static ls_tensor *plus(ls_tape *tape, ls_tensor *x, float offset)
{
    ls_tensor *shift = ls_tape_output(tape, LS_F32, 0, NULL);
    *(float *)tensor_data(shift) = offset;
    return ls_add(tape, x, shift);
}

static operation one(const char *name, int ndim, const int64_t *shape,
                     float scale)
{
    operation op = begin(name);
    add_input(&op, ndim, shape, scale);
    return op;
}

/* The lengths of sums: of y, and of the gradients. */
static void finish_one(operation *op, ls_tensor *y, double forward,
                       double backward)
{
    finish(op, y, (const double[]){forward, backward});
    end(op);
}

static void finish_two(operation *op, ls_tensor *y, double forward, double of_x,
                       double of_weight)
{
    finish(op, y, (const double[]){forward, of_x, of_weight});
    end(op);
}

/* ---- element-wise -------------------------------------------------------- */

static void broadcasting(void **state)
{
    (void)state;
    operation op = one("add", SHAPE(4, 5, 6), 1.0F);
    add_input(&op, SHAPE(5, 1), 1.0F);
    finish_two(&op, ls_add(op.tape, op.in[0], op.in[1]), 1, 1, 24);
    op = one("sub", SHAPE(4, 1, 6), 1.0F);
    add_input(&op, SHAPE(5, 1), 1.0F);
    finish_two(&op, ls_sub(op.tape, op.in[0], op.in[1]), 1, 5, 24);
    op = one("mul", SHAPE(3, 7, 5, 5), 1.0F);
    add_input(&op, SHAPE(7, 1, 1), 1.0F);
    finish_two(&op, ls_mul(op.tape, op.in[0], op.in[1]), 1, 2, 75);
    op = one("div", SHAPE(6, 70), 1.0F);
    add_input(&op, SHAPE(6, 1), 1.0F);
    finish_two(&op, ls_div(op.tape, op.in[0], plus(op.tape, op.in[1], 2.5F)), 1,
               2, 70);
    op = one("expand", SHAPE(3, 1, 4), 1.0F);
    finish_one(&op, ls_expand(op.tape, op.in[0], SHAPE(2, 3, 5, 4)), 1, 10);
}

static void functions(void **state)
{
    (void)state;
    operation op = one("exp", SHAPE(5, 33), 8.0F);
    finish_one(&op, ls_exp(op.tape, op.in[0]), 4, 4);
    op = one("log", SHAPE(5, 33), 1.0F);
    finish_one(&op, ls_log(op.tape, plus(op.tape, op.in[0], 1.5F)), 4, 4);
    op = one("sqrt", SHAPE(5, 33), 1.0F);
    finish_one(&op, ls_sqrt(op.tape, plus(op.tape, op.in[0], 1.5F)), 4, 4);
    op = one("tanh", SHAPE(5, 33), 4.0F);
    finish_one(&op, ls_tanh(op.tape, op.in[0]), 4, 4);
    op = one("sigmoid", SHAPE(5, 33), 8.0F);
    finish_one(&op, ls_sigmoid(op.tape, op.in[0]), 4, 4);
}

/* ---- axes ---------------------------------------------------------------- */

static void axes(void **state)
{
    (void)state;
    operation op = one("sum_axes", SHAPE(3, 4, 5, 6), 1.0F);
    finish_one(
        &op,
        ls_sum_axes(op.tape, op.in[0], (const int[]){0, 2}, 2, LS_AXES_DROP),
        15, 1);
    op = one("mean_axes", SHAPE(3, 4, 5, 6), 1.0F);
    finish_one(
        &op,
        ls_mean_axes(op.tape, op.in[0], (const int[]){2, 3}, 2, LS_AXES_KEEP),
        30, 1);
    op = one("max_axes", SHAPE(3, 4, 5, 6), 1.0F);
    float *x = tensor_data(op.in[0]);
    for (int i = 0; i < 360; i++)
        x[i] = rintf(x[i] * 4.0F) / 4.0F;
    finish_one(
        &op,
        ls_max_axes(op.tape, op.in[0], (const int[]){1, 3}, 2, LS_AXES_DROP), 1,
        2);
    op = one("softmax", SHAPE(3, 4, 5, 6), 4.0F);
    finish_one(&op, ls_softmax(op.tape, op.in[0], 1), 10, 14);
    op = one("log_softmax", SHAPE(3, 4, 5, 6), 4.0F);
    finish_one(&op, ls_log_softmax(op.tape, op.in[0], 2), 10, 15);
}

static void cuts(void **state)
{
    (void)state;
    operation op = one("concat", SHAPE(2, 3, 5), 1.0F);
    add_input(&op, SHAPE(2, 4, 5), 1.0F);
    ls_tensor *const parts[] = {op.in[0], op.in[1], op.in[0]};
    finish_two(&op, ls_concat(op.tape, parts, 3, 1), 1, 2, 1);
    op = one("slice", SHAPE(4, 11, 3), 1.0F);
    ls_tensor *view = ls_slice(op.tape, op.in[0], 1, 1, 10, 3);
    finish_one(&op, ls_scale(op.tape, view, 1.0), 1, 1);
}

/* ---- products ------------------------------------------------------------ */

static void products(void **state)
{
    (void)state;
    operation op = one("matmul", SHAPE(2, 3, 17, 8), 1.0F);
    add_input(&op, SHAPE(2, 3, 8, 9), 0.25F);
    finish_two(&op, ls_matmul(op.tape, op.in[0], op.in[1]), 8, 9, 17);
    op = one("matmul_weight", SHAPE(4, 5, 8), 1.0F);
    add_input(&op, SHAPE(8, 9), 0.25F);
    finish_two(&op, ls_matmul(op.tape, op.in[0], op.in[1]), 8, 9, 20);
    op = one("matmul_left", SHAPE(6, 8), 1.0F);
    add_input(&op, SHAPE(5, 8, 7), 0.25F);
    finish_two(&op, ls_matmul(op.tape, op.in[0], op.in[1]), 8, 35, 6);
    op = one("matmul_broadcast", SHAPE(3, 1, 6, 8), 1.0F);
    add_input(&op, SHAPE(2, 8, 7), 0.25F);
    finish_two(&op, ls_matmul(op.tape, op.in[0], op.in[1]), 8, 14, 18);
    op = one("matmul_turned", SHAPE(2, 17, 3, 8), 1.0F);
    add_input(&op, SHAPE(2, 17, 3, 8), 0.25F);
    ls_tensor *q = ls_transpose(op.tape, op.in[0], 1, 2);
    ls_tensor *k = ls_transpose(op.tape, op.in[1], 1, 2);
    finish_two(&op, ls_matmul(op.tape, q, ls_transpose(op.tape, k, 2, 3)), 8,
               17, 17);
}

/* ---- losses -------------------------------------------------------------- */

static void losses(void **state)
{
    (void)state;
    operation op = one("smooth", SHAPE(12, 10), 4.0F);
    ls_tensor *classes = labels(2, 12, 10);
    ls_tensor *y =
        ls_cross_entropy(op.tape, op.in[0], classes,
                         &(ls_cross_entropy_options){.smoothing = 0.1});
    assert_ok(ls_backward(op.tape, y, 1.0));
    check("smooth.y", y, 22);
    check("smooth.dx", ls_tape_grad(op.tape, op.in[0]), 22);
    ls_tensor_free(&classes);
    end(&op);
    op = one("bce_with_logits", SHAPE(12, 10), 8.0F);
    add_input(&op, SHAPE(12, 10), 1.0F);
    y = ls_bce_with_logits(op.tape, op.in[0], op.in[1]);
    assert_ok(ls_backward(op.tape, y, 1.0));
    check("bce_with_logits.y", y, 120);
    check("bce_with_logits.dx", ls_tape_grad(op.tape, op.in[0]), 4);
    check("bce_with_logits.dweight", ls_tape_grad(op.tape, op.in[1]), 4);
    end(&op);
}

/* ---- an MLP-Mixer -------------------------------------------------------- */

enum {
    BATCH = 3,
    SIDE = 12,
    PATCH = 4,
    D = 20,
    BLOCKS = 2,
    CLASSES = 7,
    ACROSS = SIDE / PATCH,
    TOKENS = ACROSS * ACROSS,
    TOKENS_FF = 11,
    D_FF = 30
};

typedef struct dense {
    ls_tensor *weight, *bias;
} dense; /* a layer norm's as well */

typedef struct block {
    dense ln1, tokens1, tokens2, ln2, channels1, channels2;
} block;

typedef struct mixer {
    ls_params *params;
    dense patch, ln, head;
    block blocks[BLOCKS];
} mixer;

static ls_tensor *add_param(mixer *m, const char *name, const char *part,
                            int ndim, const int64_t *shape)
{
    char text[64];
    ls_tensor *out = NULL;
    snprintf(text, sizeof text, "%s.%s", name, part);
    assert_ok(ls_params_add(m->params, text, ndim, shape,
                            (ls_init){LS_INIT_CONSTANT, 0.0, 0.0}, &out));
    return out;
}

static dense add_dense(mixer *m, const char *name, int64_t out, int64_t in)
{
    return (dense){add_param(m, name, "weight", SHAPE(out, in)),
                   add_param(m, name, "bias", 1, &out)};
}

static dense add_norm(mixer *m, const char *name)
{
    return (dense){add_param(m, name, "weight", SHAPE(D)),
                   add_param(m, name, "bias", SHAPE(D))};
}

static void add_block(mixer *m, int i)
{
    static const char *const names[] = {"ln1", "tokens1",   "tokens2",
                                        "ln2", "channels1", "channels2"};
    char text[6][32];
    for (int k = 0; k < 6; k++)
        snprintf(text[k], sizeof text[k], "%d.%s", i, names[k]);
    block *b = &m->blocks[i];
    b->ln1 = add_norm(m, text[0]);
    b->tokens1 = add_dense(m, text[1], TOKENS_FF, TOKENS);
    b->tokens2 = add_dense(m, text[2], TOKENS, TOKENS_FF);
    b->ln2 = add_norm(m, text[3]);
    b->channels1 = add_dense(m, text[4], D_FF, D);
    b->channels2 = add_dense(m, text[5], D, D_FF);
}

/* The values of make_op_vectors.py, by the place of each parameter. */
static void open_mixer(mixer *m)
{
    assert_ok(ls_params_new(&m->params));
    m->patch = add_dense(m, "patch", D, (int64_t)3 * PATCH * PATCH);
    for (int i = 0; i < BLOCKS; i++)
        add_block(m, i);
    m->ln = add_norm(m, "ln");
    m->head = add_dense(m, "head", CLASSES, D);
    assert_ok(ls_params_allocate(m->params, NULL, 0));
    for (size_t i = 0; i < ls_params_count(m->params); i++) {
        const char *name = ls_params_name(m->params, i);
        const bool whole =
            strstr(name, "ln") != NULL && strstr(name, "weight") != NULL;
        fill(ls_params_get(m->params, i), 100 + i, whole ? 1.0F : 0.25F);
    }
}

static ls_tensor *apply(ls_tape *tape, dense layer, ls_tensor *x)
{
    return ls_linear(tape, x, layer.weight, layer.bias);
}

static ls_tensor *norm(ls_tape *tape, dense layer, ls_tensor *x)
{
    return ls_layer_norm(tape, x, layer.weight, layer.bias, 1e-5);
}

static ls_tensor *mlp(ls_tape *tape, dense first, dense second, ls_tensor *x)
{
    return apply(tape, second, ls_gelu(tape, apply(tape, first, x)));
}

/* (N, 3, H, W) to (N, tokens, 3 * PATCH * PATCH) */
static ls_tensor *patches(ls_tape *tape, ls_tensor *x)
{
    x = ls_reshape(tape, x, SHAPE(BATCH, 3, ACROSS, PATCH, ACROSS, PATCH));
    x = ls_transpose(tape, x, 1, 2); /* N, y, 3, row, x, column */
    x = ls_transpose(tape, x, 2, 4); /* N, y, x, row, 3, column */
    x = ls_transpose(tape, x, 3, 4);
    return ls_reshape(tape, x, SHAPE(BATCH, TOKENS, -1));
}

static ls_tensor *run_mixer(ls_tape *tape, const mixer *m, ls_tensor *x)
{
    const int tokens = 1;
    x = apply(tape, m->patch, patches(tape, x));
    for (int i = 0; i < BLOCKS; i++) {
        const block *b = &m->blocks[i];
        ls_tensor *h = ls_transpose(tape, norm(tape, b->ln1, x), 1, 2);
        h = mlp(tape, b->tokens1, b->tokens2, h);
        x = ls_add(tape, x, ls_transpose(tape, h, 1, 2));
        h = norm(tape, b->ln2, x);
        x = ls_add(tape, x, mlp(tape, b->channels1, b->channels2, h));
    }
    x = ls_mean_axes(tape, norm(tape, m->ln, x), &tokens, 1, LS_AXES_DROP);
    return apply(tape, m->head, x);
}

/* Sums that follow each other, forward and back. */
static void mlp_mixer(void **state)
{
    (void)state;
    mixer m = {0};
    ls_tape *tape = NULL;
    open_mixer(&m);
    assert_ok(ls_tape_new(&tape));
    ls_tensor *x = values(50, SHAPE(BATCH, 3, SIDE, SIDE), 1.0F);
    ls_tensor *classes = labels(51, BATCH, CLASSES);
    ls_tensor *logits = run_mixer(tape, &m, x);
    ls_tensor *loss = ls_cross_entropy(
        tape, logits, classes, &(ls_cross_entropy_options){.smoothing = 0.1});
    assert_ok(ls_backward(tape, loss, 1.0));
    const double forward = 3 * PATCH * PATCH + 3.0 * D + TOKENS +
                           BLOCKS * (TOKENS + TOKENS_FF + D_FF + 5.0 * D);
    check("mixer.logits", logits, forward);
    check("mixer.loss", loss, forward);
    for (size_t i = 0; i < ls_params_count(m.params); i++) {
        char name[64];
        snprintf(name, sizeof name, "mixer.d%s", ls_params_name(m.params, i));
        /* Norms remove an addend that all channels of a token share. */
        const bool cancels = strstr(name, "tokens2.bias") != NULL;
        check_cancelling(name, ls_grad(ls_params_get(m.params, i)),
                         2 * forward + BATCH * TOKENS, cancels ? 0.02 : 0.0);
    }
    ls_tensor_free(&x);
    ls_tensor_free(&classes);
    ls_tape_free(&tape);
    ls_params_free(&m.params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broadcasting), cmocka_unit_test(functions),
        cmocka_unit_test(axes),         cmocka_unit_test(cuts),
        cmocka_unit_test(products),     cmocka_unit_test(losses),
        cmocka_unit_test(mlp_mixer),    cmocka_unit_test(every_line_was_read),
    };
    return run_with_vectors(tests);
}
