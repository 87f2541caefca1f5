/* The check; see gradcheck.h. */
#include "gradcheck.h"

#include <math.h>
#include <stdio.h>

#include "base/rng.h"

typedef enum mode {
    MODE_WATCHED,
    MODE_PARAMETERS_TWICE,
    MODE_TRANSPOSED,
    MODE_SECOND_READER,
    MODES
} mode;

static const char *const mode_names[] = {"watched", "parameters, used twice",
                                         "transposed", "second reader"};

/* Everything of one run of a case. */
typedef struct check {
    const gradcheck_case *c;
    mode mode;
    ls_tape *tape;
    ls_params *params;
    ls_tensor *leaf[GRADCHECK_MAX_INPUTS];
    ls_tensor *fed[GRADCHECK_MAX_INPUTS];
    double x[GRADCHECK_MAX_INPUTS][GRADCHECK_MAX_NUMEL];
    double y[GRADCHECK_MAX_NUMEL];
    int64_t n_y;
} check;

static double bound(const gradcheck_case *c)
{
    return (c->terms + 8.0) * c->terms * c->gain * 0x1p-24;
}

static int uses(mode m)
{
    return m == MODE_PARAMETERS_TWICE ? 2 : 1;
}

/* ---- values -------------------------------------------------------------- */

static const lsi_rng_key key = {.seed = 2024, .stream = 9};

static double fill_value(gradcheck_fill fill, uint64_t input, uint64_t i)
{
    const double u = 2.0 * lsi_rng_uniform(key, input, i) - 1.0;
    switch (fill) {
    case FILL_GRID:
        return nearbyint(8.0 * u) / 8.0;
    case FILL_OFF_GRID:
        return nearbyint(8.0 * u) / 8.0 + 1.0 / 128.0;
    case FILL_DISTINCT: /* 37 is a generator modulo 101: no two are equal */
        return ((double)((i + 1) * 37 % 101) - 50.5) * 0.02;
    case FILL_UNIFORM:
        break;
    }
    return (double)(float)u;
}

/* Multiples of 1/64, exact in every type, never 0. */
static double weight(int64_t i)
{
    const double u = 2.0 * lsi_rng_uniform(key, 99, (uint64_t)i) - 1.0;
    return (nearbyint(31.0 * u) * 2.0 + 1.0) / 64.0;
}

/* ---- tensors ------------------------------------------------------------- */

/* Copies between a dense double array and any f32 tensor. */
static ls_tensor *dense_copy(const ls_tensor *tensor)
{
    ls_tensor *dense = NULL;
    assert_ok(
        ls_tensor_new(&dense, LS_F32, tensor->ndim, ls_tensor_shape(tensor)));
    assert_ok(ls_tensor_copy(dense, tensor));
    return dense;
}

static void write_values(ls_tensor *tensor, const double *x)
{
    ls_tensor *dense = dense_copy(tensor);
    float *data = tensor_data(dense);
    for (int64_t i = 0; i < dense->count; i++)
        data[i] = (float)x[i];
    assert_ok(ls_tensor_copy(tensor, dense));
    ls_tensor_free(&dense);
}

static void swap_last_two(const gradcheck_input *in, int64_t *shape)
{
    memcpy(shape, in->shape, sizeof in->shape);
    if (in->ndim >= 2) {
        shape[in->ndim - 1] = in->shape[in->ndim - 2];
        shape[in->ndim - 2] = in->shape[in->ndim - 1];
    }
}

/* The tensor as the case knows it: a leaf may lie transposed. */
static ls_tensor *as_case_sees_it(const check *k, int i, ls_tensor *tensor)
{
    ls_tensor *view = NULL;
    const int ndim = k->c->in[i].ndim;
    if (k->mode != MODE_TRANSPOSED || ndim < 2)
        return ls_tensor_retain(tensor);
    assert_ok(ls_tensor_transpose(tensor, ndim - 1, ndim - 2, &view));
    return view;
}

static void make_leaf(check *k, int i)
{
    static const ls_init zero = {LS_INIT_CONSTANT, 0.0, 0.0};
    const gradcheck_input *in = &k->c->in[i];
    const char name[2] = {(char)('a' + i), '\0'};
    int64_t shape[4];
    memcpy(shape, in->shape, sizeof shape);
    if (k->mode == MODE_TRANSPOSED)
        swap_last_two(in, shape);
    if (k->mode == MODE_PARAMETERS_TWICE)
        assert_ok(
            ls_params_add(k->params, name, in->ndim, shape, zero, &k->leaf[i]));
    else
        assert_ok(ls_tensor_zeros(&k->leaf[i], LS_F32, in->ndim, shape));
}

static void fill_leaf(check *k, int i)
{
    ls_tensor *view = as_case_sees_it(k, i, k->leaf[i]);
    for (int64_t e = 0; e < view->count; e++)
        k->x[i][e] = fill_value(k->c->in[i].fill, (uint64_t)i, (uint64_t)e);
    write_values(view, k->x[i]);
    ls_tensor_free(&view);
}

static void feed(check *k, int i)
{
    const int ndim = k->c->in[i].ndim;
    if (k->mode != MODE_PARAMETERS_TWICE)
        assert_ok(ls_tape_watch(k->tape, k->leaf[i]));
    k->fed[i] = k->leaf[i];
    if (k->mode == MODE_TRANSPOSED && ndim >= 2)
        k->fed[i] = ls_transpose(k->tape, k->leaf[i], ndim - 1, ndim - 2);
    if (k->mode == MODE_SECOND_READER)
        k->fed[i] = ls_scale(k->tape, k->leaf[i], 1.0);
}

static void open_check(check *k)
{
    assert_ok(ls_tape_new(&k->tape));
    assert_ok(ls_params_new(&k->params));
    ls_tape_set_random(k->tape, 1, 2, 3);
    for (int i = 0; i < k->c->n_inputs; i++)
        make_leaf(k, i);
    assert_ok(ls_params_allocate(k->params, NULL, 0));
    for (int i = 0; i < k->c->n_inputs; i++)
        fill_leaf(k, i);
    for (int i = 0; i < k->c->n_inputs; i++)
        feed(k, i);
}

static void close_check(check *k)
{
    ls_tape_free(&k->tape);
    for (int i = 0; k->mode != MODE_PARAMETERS_TWICE && i < k->c->n_inputs; i++)
        ls_tensor_free(&k->leaf[i]);
    ls_params_free(&k->params);
}

/* ---- forward ------------------------------------------------------------- */

static void compare(const check *k, const char *what, int64_t i, double got,
                    double want)
{
    const double scale = what[0] == 'y' ? 1.0 : uses(k->mode);
    if (fabs(got - want) <= scale * bound(k->c))
        return;
    fail_msg("%s (%s; %s): %s[%lld] is %.9g, should be %.9g, bound %.3g",
             k->c->op, k->c->label, mode_names[k->mode], what, (long long)i,
             got, want, bound(k->c));
}

static void reference(check *k, gradcheck_reference fn, int use)
{
    const double *in[GRADCHECK_MAX_INPUTS];
    for (int i = 0; i < GRADCHECK_MAX_INPUTS; i++)
        in[i] = k->x[i];
    fn(k->y, in, use);
}

static void check_values(check *k, const ls_tensor *y, int use)
{
    k->n_y = y->count;
    assert_in_range(k->n_y, 1, GRADCHECK_MAX_NUMEL);
    reference(k, k->c->forward != NULL ? k->c->forward : k->c->reference, use);
    ls_tensor *dense = dense_copy(y);
    const float *got = tensor_data(dense);
    for (int64_t i = 0; i < k->n_y; i++)
        compare(k, "y", i, (double)got[i], k->y[i]);
    ls_tensor_free(&dense);
}

/* sum of w y; the values are checked after backward, which must not change
 * them. */
static ls_tensor *weigh(check *k, ls_tensor *y)
{
    ls_tensor *w = ls_tape_output(k->tape, LS_F32, y->ndim, y->shape);
    assert_non_null(w);
    float *data = tensor_data(w);
    for (int64_t i = 0; i < w->count; i++)
        data[i] = (float)weight(i);
    return ls_sum(k->tape, ls_mul(k->tape, w, y));
}

/* ---- backward ------------------------------------------------------------ */

static double loss_at(check *k)
{
    double loss = 0.0;
    for (int use = 0; use < uses(k->mode); use++) {
        reference(k, k->c->reference, use);
        for (int64_t i = 0; i < k->n_y; i++)
            loss += weight(i) * k->y[i];
    }
    return loss;
}

static double difference_quotient(check *k, int input, int64_t i)
{
    const double h = 1e-5, x = k->x[input][i];
    k->x[input][i] = x + h;
    const double above = loss_at(k);
    k->x[input][i] = x - h;
    const double below = loss_at(k);
    k->x[input][i] = x;
    return (above - below) / (2.0 * h);
}

static void check_gradient(check *k, int input)
{
    ls_tensor *grad = k->mode == MODE_PARAMETERS_TWICE
                          ? ls_grad(k->leaf[input])
                          : ls_tape_grad(k->tape, k->leaf[input]);
    assert_non_null(grad);
    ls_tensor *view = as_case_sees_it(k, input, grad);
    ls_tensor *dense = dense_copy(view);
    const float *got = tensor_data(dense);
    char what[16];
    snprintf(what, sizeof what, "d%c", 'a' + input);
    const int64_t step = dense->count > 300 ? 7 : 1; /* a sample of many */
    for (int64_t i = 0; i < dense->count; i += step) {
        double want = difference_quotient(k, input, i);
        if (k->mode == MODE_SECOND_READER)
            want += weight(i);
        compare(k, what, i, (double)got[i], want);
    }
    ls_tensor_free(&view);
    ls_tensor_free(&dense);
}

/* ---- one way ------------------------------------------------------------- */

/* Another term of the loss reads the same inputs: its gradient is weight. */
static ls_tensor *add_second_readers(check *k, ls_tensor *loss)
{
    for (int i = 0; i < k->c->n_inputs; i++)
        loss = ls_add(k->tape, loss, weigh(k, k->fed[i]));
    return loss;
}

static void run_mode(check *k)
{
    ls_tensor *y[2] = {NULL, NULL};
    ls_tensor *loss = NULL;
    open_check(k);
    for (int use = 0; use < uses(k->mode); use++) {
        y[use] = k->c->run(k->tape, k->fed, use);
        assert_ok(ls_tape_status(k->tape));
        ls_tensor *term = weigh(k, y[use]);
        loss = loss != NULL ? ls_add(k->tape, loss, term) : term;
    }
    if (k->mode == MODE_SECOND_READER)
        loss = add_second_readers(k, loss);
    assert_ok(ls_backward(k->tape, loss, 1.0));
    for (int use = 0; use < uses(k->mode); use++)
        check_values(k, y[use], use);
    for (int i = 0; i < k->c->n_inputs; i++)
        check_gradient(k, i);
    close_check(k);
}

void gradcheck_run(const gradcheck_case *c)
{
    static check k; /* large */
    for (mode m = 0; m < MODES; m++) {
        k = (check){.c = c, .mode = m};
        run_mode(&k);
    }
}
