/*
 * A little transformer with its parameters, for the tests of this folder.
 */
#ifndef LS_TEST_NN_LITTLE_H
#define LS_TEST_NN_LITTLE_H

#include "lockstep/transformer.h"
#include "testing.h"

static const ls_transformer_config little = {.vocabulary = 11,
                                             .context = 6,
                                             .d_model = 8,
                                             .d_ff = 12,
                                             .layers = 2,
                                             .heads = 2};

typedef struct network {
    ls_params *params;
    ls_transformer *model;
} network;

static inline network open_network(const ls_transformer_config *config,
                                   uint64_t seed)
{
    network net = {0};
    assert_ok(ls_params_new(&net.params));
    assert_ok(ls_transformer_new(&net.model, net.params, config));
    assert_ok(ls_params_allocate(net.params, NULL, seed));
    return net;
}

static inline void close_network(network *net)
{
    ls_transformer_free(&net->model);
    ls_params_free(&net->params);
}

#endif
