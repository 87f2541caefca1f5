#include "cli/bench/ddp_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"
#include "comm/core/agree.h"

/* ---- which one ----------------------------------------------------------- */

static ls_status parse_arch(const char *text, int64_t *width)
{
    char *end;
    if (strcmp(text, "mlp") == 0)
        return LS_OK;
    if (strncmp(text, "mlp:", 4) != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "unknown --arch '%s'; use mlp or mlp:WIDTH, or --size "
                        "NAME for a language model",
                        text);
    *width = strtoll(text + 4, &end, 10);
    if (end != text + 4 && *end == '\0' && *width >= 1 && *width <= 1 << 20)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "--arch %s: the width must be a number from 1 to %d", text,
                    1 << 20);
}

static ls_status parse_lm(lsi_lm_shape_flags flags, lsi_ddp_model_spec *out)
{
    if (flags.size == NULL)
        flags.size = "tiny";
    out->is_lm = true;
    LS_TRY(lsi_cli_lm_shape(&flags, &out->config));
    lsi_cli_lm_name(flags.size, &out->config, out->name);
    return LS_OK;
}

ls_status lsi_ddp_model_parse(const lsi_ddp_model_flags *flags,
                              lsi_ddp_model_spec *out)
{
    const lsi_lm_shape_flags *const shape = &flags->shape;
    const char *const changes = lsi_cli_lm_changes(shape);
    const char *const arch = flags->arch != NULL ? flags->arch : "mlp";
    *out = (lsi_ddp_model_spec){.width = LSI_MLP_WIDTH, .dtype = LS_F32};
    if (flags->arch != NULL && shape->size != NULL)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "--arch %s and --size %s each name a model; give one of them",
            flags->arch, shape->size);
    if (flags->arch != NULL && changes != NULL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--arch %s does not support --%s, a flag of language "
                        "models; use --size NAME instead of --arch",
                        flags->arch, changes);
    if (shape->size != NULL || changes != NULL)
        return parse_lm(*shape, out);
    snprintf(out->name, sizeof(out->name), "%s", arch);
    return parse_arch(arch, &out->width);
}

/* ---- making -------------------------------------------------------------- */

static ls_status add_layers(lsi_ddp_model *m)
{
    for (int i = 0; i < LSI_MLP_LAYERS; i++) {
        char name[32];
        snprintf(name, sizeof(name), "layer%d", i);
        LS_TRY(ls_linear_layer_init(&m->layers[i], m->params, name,
                                    m->spec.width, m->spec.width,
                                    LS_LAYER_DEFAULT));
    }
    return LS_OK;
}

static ls_status add_model(lsi_ddp_model *m)
{
    if (!m->spec.is_lm)
        return add_layers(m);
    m->spec.config.context = m->spec.context;
    return ls_transformer_new(&m->lm, m->params, &m->spec.config);
}

static ls_status fill_numbers(ls_tensor **out, const lsi_ddp_model_spec *spec,
                              lsi_rng_key key)
{
    const int64_t shape[2] = {spec->batch * spec->context, spec->width};
    LS_TRY(ls_tensor_new(out, LS_F32, 2, shape));
    float *data;
    LS_TRY(ls_tensor_map_f32(*out, &data));
    for (int64_t i = 0; i < ls_tensor_count(*out); i++)
        data[i] = (float)lsi_rng_normal(key, 0, (uint64_t)i);
    return LS_OK;
}

static ls_status fill_tokens(ls_tensor **out, const lsi_ddp_model_spec *spec,
                             lsi_rng_key key)
{
    const int64_t shape[2] = {spec->batch, spec->context};
    LS_TRY(ls_tensor_new(out, LS_I64, 2, shape));
    int64_t *data;
    LS_TRY(ls_tensor_map_i64(*out, &data));
    const double n = (double)spec->config.vocabulary;
    for (int64_t i = 0; i < ls_tensor_count(*out); i++)
        data[i] = (int64_t)(lsi_rng_uniform(key, 0, (uint64_t)i) * n);
    return LS_OK;
}

static ls_status fill_batch(lsi_ddp_model *m, uint64_t rank)
{
    const lsi_rng_key x = {42, 2 * rank}, y = {42, 2 * rank + 1};
    if (m->spec.is_lm) {
        LS_TRY(fill_tokens(&m->x, &m->spec, x));
        return fill_tokens(&m->y, &m->spec, y);
    }
    LS_TRY(fill_numbers(&m->x, &m->spec, x));
    return fill_numbers(&m->y, &m->spec, y);
}

static ls_status describe(lsi_ddp_model *model, const lsi_ddp_model_spec *spec)
{
    *model = (lsi_ddp_model){.spec = *spec};
    LS_TRY(ls_params_new(&model->params));
    return add_model(model);
}

ls_status lsi_ddp_model_parameters(const lsi_ddp_model_spec *spec, int64_t *out)
{
    lsi_ddp_model model;
    const ls_status status = describe(&model, spec);
    if (status == LS_OK)
        *out = ls_params_numel(model.params);
    lsi_ddp_model_release(&model);
    return status;
}

static ls_status prepare(lsi_ddp_model *model, uint64_t rank)
{
    LS_TRY(ls_tape_new(&model->tape));
    LS_TRY(ls_tape_set_autocast(model->tape, model->spec.dtype));
    return fill_batch(model, rank);
}

ls_status lsi_ddp_model_init(lsi_ddp_model *model, ls_group *group,
                             const lsi_ddp_model_spec *spec)
{
    LS_TRY(lsi_agree_to_plan(group, describe(model, spec)));
    LS_TRY(ls_params_allocate(model->params, group, 1));
    return lsi_agree_to_plan(group,
                             prepare(model, (uint64_t)ls_group_rank(group)));
}

void lsi_ddp_model_release(lsi_ddp_model *model)
{
    ls_tensor_free(&model->x);
    ls_tensor_free(&model->y);
    ls_tape_free(&model->tape);
    ls_transformer_free(&model->lm);
    ls_params_free(&model->params);
}

/* ---- using --------------------------------------------------------------- */

static ls_tensor *lm_loss(lsi_ddp_model *m)
{
    ls_tensor *const logits = ls_transformer_forward(m->lm, m->tape, m->x);
    const int64_t tokens = m->spec.batch * m->spec.context;
    const int64_t rows[2] = {tokens, m->spec.config.vocabulary};
    ls_tensor *const labels = ls_reshape(m->tape, m->y, 1, &tokens);
    return ls_cross_entropy(m->tape, ls_reshape(m->tape, logits, 2, rows),
                            labels, NULL);
}

ls_tensor *lsi_ddp_model_loss(lsi_ddp_model *model)
{
    ls_tape *const tape = model->tape;
    ls_tensor *x = model->x;
    if (model->spec.is_lm)
        return lm_loss(model);
    for (int i = 0; i < LSI_MLP_LAYERS; i++) {
        x = ls_linear_layer_forward(&model->layers[i], tape, x);
        if (i + 1 < LSI_MLP_LAYERS)
            x = ls_relu(tape, x);
    }
    return ls_mse_loss(tape, x, model->y);
}

double lsi_ddp_model_weight(const lsi_ddp_model *model)
{
    return (double)(model->spec.batch * model->spec.context);
}

uint64_t lsi_ddp_model_hash(const lsi_ddp_model *model)
{
    size_t count;
    const float *const flat = ls_params_flat(model->params, &count);
    return lsi_hash(LSI_HASH_START, flat, count * sizeof(*flat));
}
