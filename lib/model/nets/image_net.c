#include "model/nets/image_net.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/structs.h"
#include "comm/core/agree.h"
#include "model/autograd/params.h"
#include "model/autograd/tape.h"
#include "model/tensor/tensor.h"

#define X(id, text) extern const lsi_image_kind lsi_image_kind_##id;
#include "model/nets/image_nets.def"
#undef X

static const lsi_image_kind *const kinds[] = {
#define X(id, text) &lsi_image_kind_##id,
#include "model/nets/image_nets.def"
#undef X
};

struct ls_image_net {
    lsi_model model;
    const lsi_image_kind *kind;
    double label_smoothing;
    void *parts;
};

static const char names[] =
#define X(id, text) " " text
#include "model/nets/image_nets.def"
#undef X
    ;

static const lsi_image_kind *find_kind(const char *name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    return NULL;
}

int lsi_image_net_slices(const char *name)
{
    const lsi_image_kind *kind = find_kind(name);
    return kind != NULL ? kind->slices : 0;
}

ls_tensor *ls_image_net_forward(const ls_image_net *net, ls_tape *tape,
                                ls_tensor *images)
{
    if (!lsi_tape_has(tape, net, __func__, "net"))
        return NULL;
    return net->kind->logits(net->parts, tape, images);
}

ls_params *ls_image_net_params(ls_image_net *net)
{
    return net != NULL ? net->model.params : NULL;
}

static ls_tensor *loss_of(const ls_image_net *net, ls_tape *tape,
                          ls_tensor *logits, ls_tensor *labels)
{
    const ls_cross_entropy_options smoothed = {.smoothing =
                                                   net->label_smoothing};
    return ls_cross_entropy(tape, logits, labels,
                            ls_tape_is_training(tape) ? &smoothed : NULL);
}

static lsi_forward forward(void *self, ls_tape *tape, const ls_batch *batch)
{
    ls_tensor *const labels = batch->fields[LS_FIELD_LABELS];
    ls_tensor *x =
        ls_image_net_forward(self, tape, batch->fields[LS_FIELD_IMAGES]);
    return (lsi_forward){.loss = loss_of(self, tape, x, labels),
                         .logits = x,
                         .labels = labels,
                         .weight = (double)batch->count};
}

static ls_status check_extents(const lsi_image_config *c)
{
    const struct {
        const char *name;
        int64_t value;
    } members[] = {{"classes", c->classes},
                   {"channels", c->channels},
                   {"height", c->height},
                   {"width", c->width}};
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        if (members[i].value < 1)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "network '%s': %s is %" PRId64
                            "; it must be at least 1",
                            c->name, members[i].name, members[i].value);
    }
    return LS_OK;
}

static ls_status begin(ls_image_net *net, const lsi_image_net_setup *options)
{
    net->kind = find_kind(options->config.name);
    if (net->kind == NULL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "unknown image network '%s'; choose one of:%s",
                        options->config.name, names);
    LS_TRY(check_extents(&options->config));
    if (net->kind->check != NULL)
        LS_TRY(net->kind->check(&options->config));
    LS_TRY(lsi_alloc_zeroed(&net->parts, net->kind->bytes, LS_MEMORY_OTHER,
                            "the layers of a network"));
    LS_TRY(ls_params_new(&net->model.params));
    return ls_params_set_slices(net->model.params,
                                options->slices > 0 ? options->slices : 1);
}

/* Allocates no gradients. */
static ls_status allocate_frozen(ls_params *params)
{
    lsi_params_start_at_zero(params);
    LS_TRY(lsi_params_freeze(params));
    return ls_params_allocate(params, NULL, 0);
}

/*
 * Takes part, or reports why not, wherever the other ranks wait for this one.
 */
static ls_status add_layers(ls_image_net *net, ls_group *group,
                            const lsi_image_net_setup *options)
{
    LS_TRY(lsi_agree_to_plan(group, begin(net, options)));
    lsi_net_builder builder = {
        .group = group, .params = net->model.params, .norm = options->norm};
    net->kind->build(net->parts, &builder, options);
    return lsi_build_end(&builder);
}

static ls_status build(ls_image_net *net, ls_group *group,
                       const lsi_image_net_setup *options)
{
    LS_TRY(add_layers(net, group, options));
    if (options->divided)
        lsi_params_set_inference(net->model.params);
    return options->frozen
               ? lsi_agree_to_plan(group, allocate_frozen(net->model.params))
               : ls_params_allocate(net->model.params, group, options->seed);
}

static ls_status new_net(ls_group *group, ls_image_net **out)
{
    *out = NULL;
    const ls_status status = lsi_alloc_zeroed(out, sizeof(ls_image_net),
                                              LS_MEMORY_OTHER, "a network");
    return lsi_agree_to_plan(group, status);
}

ls_status lsi_image_net_new(ls_image_net **out, ls_group *group,
                            const lsi_image_net_setup *options)
{
    ls_image_net *net;
    ls_status status = new_net(group, &net);
    if (status == LS_OK) {
        net->model.self = net;
        net->model.forward = forward;
        net->label_smoothing = options->label_smoothing;
        status = build(net, group, options);
    }
    if (status != LS_OK) {
        ls_image_net_free(&net);
        return status;
    }
    *out = net;
    return LS_OK;
}

ls_status lsi_image_net_count(ls_group *group,
                              const lsi_image_net_setup *options,
                              int64_t *parameters, lsi_layer_sizes *layers)
{
    ls_image_net *net;
    ls_status status = new_net(group, &net);
    if (status == LS_OK)
        status = add_layers(net, group, options);
    if (status == LS_OK) {
        *parameters = ls_params_numel(net->model.params);
        status = lsi_layer_sizes_of(net->model.params, (lsi_layer_tables){0},
                                    layers);
    }
    ls_image_net_free(&net);
    return status;
}

ls_status ls_image_net_new(ls_image_net **out, ls_group *group,
                           const ls_image_net_options *options)
{
    LS_NEED(out, group, options);
    ls_image_net_options o;
    LS_TRY(LSI_STRUCT_READ(&o, options, ls_image_net_options, seed));
    options = &o;
    LS_NEED(options->name);
    const lsi_image_net_setup all = {
        .config = {options->name, options->classes, options->channels,
                   options->height, options->width},
        .norm = options->sync_bn ? LSI_NORM_FUSED : LSI_NORM_LOCAL,
        .dropout = true,
        .seed = options->seed};
    return lsi_image_net_new(out, group, &all);
}

void ls_image_net_free(ls_image_net **net)
{
    if (net == NULL || *net == NULL)
        return;
    if ((*net)->parts != NULL && (*net)->kind->release != NULL)
        (*net)->kind->release((*net)->parts);
    ls_params_free(&(*net)->model.params);
    lsi_free((*net)->parts);
    lsi_free(*net);
    *net = NULL;
}

const lsi_model *lsi_image_net_model(const ls_image_net *net)
{
    return &net->model;
}
