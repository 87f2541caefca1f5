/*
 * Code that tests of operations share: a tape for each test, and tensors that
 * it owns.
 */
#ifndef LS_TEST_OPS_FIXTURE_H
#define LS_TEST_OPS_FIXTURE_H

/* Before the tape below, which its parameters have the name of. */
#include "model/autograd/ops/ops.h"

extern ls_tape *tape; /* of the running test */

int setup(void **state);
int teardown(void **state);

/* A test that runs with them. */
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* Elements in [-1, 1), a function of seed and place. */
ls_tensor *random_tensor(int ndim, const int64_t *shape, uint32_t seed);
ls_tensor *vector(int64_t n);
ls_tensor *matrix(int64_t rows, int64_t columns);
ls_tensor *image(int64_t n, int64_t c, int64_t h, int64_t w);
ls_tensor *labels_of(const int64_t *values, int64_t n);

/* Running statistics: means of 2, variances of 3. */
typedef struct statistics {
    ls_tensor *mean, *var;
} statistics;
statistics new_statistics(int64_t columns);

/* Without weight and bias, momentum 1/4. */
ls_tensor *batch_norm(ls_tensor *x, statistics s);

#endif
