/*
 * The CIFAR-100 network.
 */
#include "train/models/cifar_net.h"

#include "autograd/params.h"
#include "base/error.h"
#include "base/memory.h"
#include "comm/core/agree.h"
#include "lockstep/nn.h"
#include "lockstep/parallel.h"

enum {
    CHANNELS = 32,
    KERNEL = 3,
    POOLED = CHANNELS * 14 * 14,
    HIDDEN = 128,
    CLASSES = 100
};

struct lsi_cifar_net {
    lsi_model model;
    bool dropout;
    ls_conv2d_layer conv1, conv2;
    ls_linear_layer fc1, fc2;
    ls_sync_bn *sync_bn; /* or NULL, then: */
    ls_batch_norm_layer local_bn;
};

static ls_tensor *normalise(const lsi_cifar_net *net, ls_tape *tape,
                            ls_tensor *x)
{
    return net->sync_bn != NULL
               ? ls_sync_bn_forward(net->sync_bn, tape, x)
               : ls_batch_norm_layer_forward(&net->local_bn, tape, x);
}

static ls_tensor *maybe_drop(const lsi_cifar_net *net, ls_tape *tape,
                             ls_tensor *x, double p)
{
    return net->dropout ? ls_dropout(tape, x, p) : x;
}

static lsi_forward forward(void *self, ls_tape *tape, const ls_batch *batch)
{
    const lsi_cifar_net *const net = self;
    ls_tensor *x = batch->images;
    x = ls_conv2d_layer_forward(&net->conv1, tape, x);
    x = ls_conv2d_layer_forward(&net->conv2, tape, x);
    x = maybe_drop(net, tape, ls_max_pool2d(tape, x, 2), 0.25);
    x = ls_linear_layer_forward(&net->fc1, tape, ls_flatten(tape, x));
    x = ls_relu(tape, normalise(net, tape, x));
    x = ls_linear_layer_forward(&net->fc2, tape, maybe_drop(net, tape, x, 0.5));
    return (lsi_forward){.loss = ls_cross_entropy(tape, x, batch->labels),
                         .logits = x,
                         .labels = batch->labels,
                         .weight = (double)batch->count};
}

static ls_status add_norm(lsi_cifar_net *net, ls_group *group,
                          lsi_net_norm norm)
{
    ls_params *const params = net->model.params;
    if (norm == LSI_NORM_LOCAL)
        return ls_batch_norm_layer_init(&net->local_bn, params, "bn1", HIDDEN,
                                        false);
    const ls_sync_bn_options options = {.kind = norm == LSI_NORM_FUSED
                                                    ? LS_SYNC_BN_FUSED
                                                    : LS_SYNC_BN_GATHERED};
    return ls_sync_bn_new(&net->sync_bn, group, params, "bn1", HIDDEN, options);
}

static ls_status add_first_layers(lsi_cifar_net *net,
                                  const lsi_cifar_net_options *options)
{
    const ls_conv2d_options conv = {.stride = 1, .relu = true};
    LS_TRY(ls_params_new(&net->model.params));
    ls_params *const params = net->model.params;
    LS_TRY(lsi_params_set_slices(params,
                                 options->slices > 0 ? options->slices : 1));
    LS_TRY(ls_conv2d_layer_init(&net->conv1, params, "conv1", 3, CHANNELS,
                                KERNEL, conv));
    LS_TRY(ls_conv2d_layer_init(&net->conv2, params, "conv2", CHANNELS,
                                CHANNELS, KERNEL, conv));
    return ls_linear_layer_init(&net->fc1, params, "fc1", POOLED, HIDDEN, true);
}

/* Takes part, or says why not, wherever the other ranks wait for this one. */
static ls_status build(lsi_cifar_net *net, ls_group *group,
                       const lsi_cifar_net_options *options)
{
    LS_TRY(lsi_agree_to_plan(group, add_first_layers(net, options)));
    LS_TRY(lsi_agree_to_plan(group, add_norm(net, group, options->norm)));
    ls_params *const params = net->model.params;
    LS_TRY(
        lsi_agree_to_plan(group, ls_linear_layer_init(&net->fc2, params, "fc2",
                                                      HIDDEN, CLASSES, true)));
    return ls_params_allocate(params, group, options->seed);
}

static ls_status new_net(ls_group *group, lsi_cifar_net **out)
{
    void *block = NULL;
    const ls_status status =
        lsi_alloc_zeroed(&block, sizeof(lsi_cifar_net), LS_MEMORY_OTHER,
                         "the CIFAR-100 network");
    *out = block;
    return lsi_agree_to_plan(group, status);
}

ls_status lsi_cifar_net_new(lsi_cifar_net **out, ls_group *group,
                            const lsi_cifar_net_options *options)
{
    lsi_cifar_net *net;
    ls_status status = new_net(group, &net);
    if (status == LS_OK) {
        net->model.self = net;
        net->model.forward = forward;
        net->dropout = options->dropout;
        status = build(net, group, options);
    }
    if (status != LS_OK) {
        lsi_cifar_net_free(&net);
        return status;
    }
    *out = net;
    return LS_OK;
}

void lsi_cifar_net_free(lsi_cifar_net **net)
{
    if (net == NULL || *net == NULL)
        return;
    ls_sync_bn_free(&(*net)->sync_bn);
    ls_params_free(&(*net)->model.params);
    lsi_free(*net);
    *net = NULL;
}

const lsi_model *lsi_cifar_net_model(const lsi_cifar_net *net)
{
    return &net->model;
}
