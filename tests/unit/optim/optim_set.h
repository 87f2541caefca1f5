/*
 * Parameter sets and gradients to try optimizers with.
 */
#ifndef TESTS_OPTIM_SET_H
#define TESTS_OPTIM_SET_H

#include "base/rng.h"
#include "lockstep/autograd.h"
#include "testing.h"

/* Parameters "a", "b", ... of these lengths, N(0, 1). */
static inline ls_params *make_set(const int64_t *lengths, size_t n)
{
    ls_params *params = NULL;
    const ls_init init = {LS_INIT_NORMAL, 0, 1};
    assert_ok(ls_params_new(&params));
    for (size_t i = 0; i < n; i++) {
        const char name[2] = {(char)('a' + i), '\0'};
        assert_ok(ls_params_add(params, name, 1, &lengths[i], init, NULL));
    }
    assert_ok(ls_params_allocate(params, NULL, 1));
    return params;
}

/* Writes gradients as a backward would leave them: none to the padding. */
static inline void set_gradients(ls_params *params, uint64_t step)
{
    const lsi_rng_key key = {11, 22};
    ls_params_finish_grad(params);
    for (size_t p = 0; p < ls_params_count(params); p++) {
        ls_tensor *grad = ls_grad(ls_params_get(params, p));
        float *g = tensor_data(grad);
        for (int64_t i = 0; i < ls_tensor_count(grad); i++)
            g[i] = (float)lsi_rng_normal(key, 100 * step + p, (uint64_t)i);
    }
}

#endif
