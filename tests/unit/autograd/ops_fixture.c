/* The fixture; see ops_fixture.h. */
#include "ops_fixture.h"

#include "array/compute/threads.h"
#include "testing.h"

ls_tape *tape;

int setup(void **state)
{
    (void)state;
    assert_ok(ls_tape_new(&tape));
    return 0;
}

int teardown(void **state)
{
    (void)state;
    ls_tape_free(&tape);
    lsi_threads_set(1);
    return 0;
}

/* Owned by the tape. Elements in [-1, 1), a function of seed and place. */
ls_tensor *random_tensor(int ndim, const int64_t *shape, uint32_t seed)
{
    ls_tensor *t = ls_tape_output(tape, LS_F32, ndim, shape);
    assert_non_null(t);
    float *data = tensor_data(t);
    for (int64_t i = 0; i < ls_tensor_count(t); i++) {
        seed = seed * 1664525U + 1013904223U;
        data[i] = (float)(seed >> 8) * 0x1p-23F - 1.0F;
    }
    return t;
}

ls_tensor *matrix(int64_t rows, int64_t columns)
{
    return random_tensor(2, (const int64_t[]){rows, columns}, 7);
}

ls_tensor *image(int64_t n, int64_t c, int64_t h, int64_t w)
{
    return random_tensor(4, (const int64_t[]){n, c, h, w}, 3);
}

ls_tensor *vector(int64_t n)
{
    return random_tensor(1, &n, 5);
}

ls_tensor *labels_of(const int64_t *values, int64_t n)
{
    ls_tensor *labels = ls_tape_output(tape, LS_I64, 1, &n);
    memcpy(tensor_data(labels), values, (size_t)n * sizeof *values);
    return labels;
}

statistics new_statistics(int64_t columns)
{
    statistics s = {ls_tape_output(tape, LS_F32, 1, &columns),
                    ls_tape_output(tape, LS_F32, 1, &columns)};
    assert_ok(ls_tensor_fill(s.mean, 2.0));
    assert_ok(ls_tensor_fill(s.var, 3.0));
    return s;
}

ls_tensor *batch_norm(ls_tensor *x, statistics s)
{
    const ls_batch_norm_args args = {.running_mean = s.mean,
                                     .running_var = s.var,
                                     .eps = 1e-5,
                                     .momentum = 0.25};
    return ls_batch_norm(tape, x, &args);
}
