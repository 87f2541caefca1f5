#include "toy.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "testing.h"
#include "unit/comm/ranks.h"

static ls_tensor *weight(ls_params *params, const char *name, int64_t out,
                         int64_t in)
{
    const double a = 1 / sqrt((double)in);
    ls_tensor *tensor;
    CHECK_OK(ls_params_add(params, name, 2, (int64_t[]){out, in},
                           (ls_init){LS_INIT_UNIFORM, -a, a}, &tensor));
    return tensor;
}

static ls_tensor *frozen(ls_params *params, const char *name, int64_t size,
                         ls_init init)
{
    ls_tensor *tensor;
    CHECK_OK(ls_params_add(params, name, 1, &size, init, &tensor));
    CHECK_OK(ls_params_set_trainable(params, tensor, false));
    return tensor;
}

void toy_make(toy *t, bool tied, ls_group *group, uint64_t seed)
{
    *t = (toy){.tied = tied};
    CHECK_OK(ls_params_new(&t->params));
    t->fc1 = weight(t->params, "fc1", 10, TOY_IN);
    t->fc2 = weight(t->params, "fc2", 50, 10);
    if (tied) {
        t->fc3 = weight(t->params, "fc3", 10, 50);
    } else {
        t->fc2_bias = frozen(t->params, "fc2.bias", 50,
                             (ls_init){LS_INIT_UNIFORM, -0.3, 0.3});
        t->frozen =
            frozen(t->params, "frozen", 2, (ls_init){LS_INIT_CONSTANT, 2, 0});
    }
    t->out = weight(t->params, "out", TOY_OUT, 50);
    CHECK_OK(ls_params_allocate(t->params, group, seed));
    CHECK_OK(ls_tape_new(&t->tape));
}

void toy_destroy(toy *t)
{
    ls_tape_free(&t->tape);
    ls_params_free(&t->params);
}

/* Row `row` of those of a step: each step takes them in another order. */
static int shuffled(int step, int row)
{
    return (row * 7 + step * 3) % TOY_ROWS;
}

static ls_tensor *numbers(toy *t, uint64_t stream, int step, int begin, int end,
                          int columns)
{
    const lsi_rng_key key = {7, stream};
    const int64_t shape[2] = {end - begin, columns};
    ls_tensor *const tensor = ls_tape_output(t->tape, LS_F32, 2, shape);
    CHECK(tensor != NULL);
    float *const data = tensor_data(tensor);
    for (int r = begin; r < end; r++)
        for (int c = 0; c < columns; c++)
            data[(r - begin) * columns + c] = (float)lsi_rng_normal(
                key, (uint64_t)shuffled(step, r), (uint64_t)c);
    return tensor;
}

ls_tensor *toy_loss(toy *t, int step, int begin, int end)
{
    ls_tape *const tape = t->tape;
    ls_tensor *x = numbers(t, 1, step, begin, end, TOY_IN);
    ls_tensor *const y = numbers(t, 2, step, begin, end, TOY_OUT);
    x = ls_relu(tape, ls_linear(tape, x, t->fc1, NULL));
    x = ls_relu(tape, ls_linear(tape, x, t->fc2, t->fc2_bias));
    if (t->tied) {
        x = ls_relu(tape, ls_linear(tape, x, t->fc3, NULL));
        x = ls_relu(tape, ls_linear(tape, x, t->fc2, NULL));
    }
    return ls_mse_loss(tape, ls_linear(tape, x, t->out, NULL), y);
}

static bool compare(const toy *a, const toy *b, double relative,
                    double absolute)
{
    for (size_t i = 0; i < ls_params_count(a->params); i++) {
        const ls_tensor *const x = ls_params_get(a->params, i);
        const float *const p = tensor_data(x);
        const float *const q = tensor_data(ls_params_get(b->params, i));
        for (int64_t k = 0; k < ls_tensor_count(x); k++) {
            const double difference = fabs((double)p[k] - (double)q[k]);
            if (!(difference <= absolute + relative * fabs((double)q[k])))
                return false;
        }
    }
    return true;
}

bool toy_close(const toy *a, const toy *b, double absolute)
{
    return compare(a, b, 1e-5, absolute);
}

bool toy_same(const toy *a, const toy *b)
{
    return compare(a, b, 0, 0);
}
