/*
 * Transformers as safetensors. The configuration is one text of JSON in the
 * file's metadata. GPT2's files hold the matrices of products transposed, (in,
 * out): they are read and written through transposed views. Files of
 * checkpoints hold them as in memory, (out, in), and are read, too.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/structs.h"
#include "model/autograd/params.h"
#include "model/nn/model_json.h"
#include "model/nn/transformer_layout.h"
#include "model/tensor/safetensors.h"
#include "model/tensor/tensor.h"

#define LSI_MODEL_ONE   "model.safetensors"
#define LSI_MODEL_INDEX LSI_MODEL_ONE LSI_SAFETENSORS_INDEX

/* Before GPT2's names where the file is of a model with its head. */
static const char gpt2_prefix[] = "transformer.";

/* ---- the configuration --------------------------------------------------- */

/*
 * Adds keys that only some models have; the text of other models is unchanged.
 */
static bool describe_rest(const ls_transformer_config *c, json_t *json)
{
    const ls_rope_scaling *s = &c->rope_scaling;
    if (c->kv_heads == 0 && c->d_head == 0 && s->kind == LS_ROPE_SCALING_NONE)
        return true;
    json_t *rest = json_pack(
        "{s:I, s:I, s:s, s:f, s:f, s:f, s:I}", "kv_heads",
        (json_int_t)c->kv_heads, "d_head", (json_int_t)c->d_head,
        "rope_scaling", lsi_transformer_scaling_name(s->kind), "rope_factor",
        s->factor, "rope_low_freq_factor", s->low_freq_factor,
        "rope_high_freq_factor", s->high_freq_factor, "rope_original_context",
        (json_int_t)s->original_context);
    const bool good = rest != NULL && json_object_update(json, rest) == 0;
    json_decref(rest);
    return good;
}

ls_status lsi_transformer_describe(const ls_transformer_config *c, char **out)
{
    /* The angle in use, which 0 stands for in the configuration. */
    const double theta = c->kind == LS_TRANSFORMER_GPT2
                             ? c->rope_theta
                             : lsi_transformer_theta(c);
    json_t *json = json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:b, s:f, s:b}", "kind",
        lsi_transformer_kind_name(c->kind), "vocabulary",
        (json_int_t)c->vocabulary, "context", (json_int_t)c->context, "d_model",
        (json_int_t)c->d_model, "d_ff", (json_int_t)c->d_ff, "layers",
        (json_int_t)c->layers, "heads", (json_int_t)c->heads, "rope_theta",
        theta, "rope_halves", (int)c->rope_halves, "norm_eps", c->norm_eps,
        "untied_head", (int)c->untied_head);
    *out = json != NULL && describe_rest(c, json)
               ? lsi_json_dumps(json, JSON_COMPACT)
               : NULL;
    json_decref(json);
    return *out != NULL
               ? LS_OK
               : lsi_fail(LS_ERR_MEMORY,
                          "not enough memory to describe a transformer");
}

/* The caller's pairs and ours; *out is freed by lsi_free. */
static ls_status add_pairs(const char *const *metadata, const char *text,
                           bool published, const char ***out)
{
    size_t n = 0;
    while (metadata != NULL && metadata[n] != NULL)
        n++;
    const char **all;
    LS_TRY(lsi_alloc(&all, (n + 5) * sizeof(const char *), LS_MEMORY_OTHER,
                     "metadata"));
    for (size_t i = 0; i < n; i++)
        all[i] = metadata[i];
    all[n++] = LSI_TRANSFORMER_KEY;
    all[n++] = text;
    if (published) { /* transformers require it */
        all[n++] = "format";
        all[n++] = "pt";
    }
    all[n] = NULL;
    *out = all;
    return LS_OK;
}

static ls_status save_weights(const char *path, lsi_weights *weights,
                              const char *const *metadata)
{
    LS_TRY(lsi_weights_view(weights));
    return lsi_safetensors_save_matrices(path, weights->views, weights->n,
                                         metadata);
}

/* By the names that transformers write, or by those of `--save`. */
static ls_status save(const ls_transformer *model, const char *path,
                      const char *const *metadata, bool published)
{
    const ls_transformer_kind kind = model->config.kind;
    const bool gpt2 = kind == LS_TRANSFORMER_GPT2;
    const lsi_weights_layout layout = gpt2 ? LSI_WEIGHTS_TRANSPOSED
                                      : published && kind == LS_TRANSFORMER_ROPE
                                          ? LSI_WEIGHTS_AS_LLAMA
                                          : LSI_WEIGHTS_IN_MEMORY;
    lsi_weights weights = {0};
    const char **all = NULL;
    char *text = NULL;
    LS_TRY(lsi_transformer_describe(&model->config, &text));
    ls_status status = add_pairs(
        metadata, text, published || kind == LS_TRANSFORMER_LLAMA, &all);
    if (status == LS_OK)
        status = lsi_weights_list(model, layout, &weights);
    if (published && gpt2)
        lsi_weights_prefix(&weights, gpt2_prefix);
    if (status == LS_OK)
        status = save_weights(path, &weights, all);
    lsi_weights_free(&weights);
    lsi_free(all);
    free(text);
    return status;
}

ls_status ls_transformer_save(const ls_transformer *model, const char *path,
                              const char *const *metadata)
{
    LS_NEED(model, path);
    return save(model, path, metadata, false);
}

ls_status lsi_transformer_save_published(const ls_transformer *model,
                                         const char *path, int64_t end,
                                         const char *const *metadata)
{
    LS_TRY(lsi_model_json_write(path, LSI_MODEL_CONFIG,
                                lsi_transformer_to_json(&model->config, end)));
    return save(model, path, metadata, true);
}

static bool parse_kind(const char *name, ls_transformer_kind *out)
{
    for (int k = 0; k < LS_TRANSFORMER_KIND_COUNT; k++) {
        if (strcmp(lsi_transformer_kind_name((ls_transformer_kind)k), name) ==
            0) {
            *out = (ls_transformer_kind)k;
            return true;
        }
    }
    return false;
}

static bool parse_scaling(const char *name, ls_rope_scaling_kind *out)
{
    for (int k = 0; k < LS_ROPE_SCALING_COUNT; k++) {
        if (strcmp(lsi_transformer_scaling_name((ls_rope_scaling_kind)k),
                   name) == 0) {
            *out = (ls_rope_scaling_kind)k;
            return true;
        }
    }
    return false;
}

static bool parse_rest(json_t *json, ls_transformer_config *c)
{
    ls_rope_scaling *s = &c->rope_scaling;
    const char *scaling = "none";
    json_int_t n[3] = {0};
    if (json_unpack(json, "{s?I, s?I, s?s, s?F, s?F, s?F, s?I}", "kv_heads",
                    &n[0], "d_head", &n[1], "rope_scaling", &scaling,
                    "rope_factor", &s->factor, "rope_low_freq_factor",
                    &s->low_freq_factor, "rope_high_freq_factor",
                    &s->high_freq_factor, "rope_original_context", &n[2]) != 0)
        return false;
    c->kv_heads = n[0];
    c->d_head = n[1];
    s->original_context = n[2];
    return parse_scaling(scaling, &s->kind);
}

static bool parse_config(json_t *json, ls_transformer_config *c)
{
    const char *kind = NULL;
    json_int_t n[6];
    int halves = 0, untied = 0;
    if (json_unpack(json,
                    "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:F, s:b, s?F, s?b}",
                    "kind", &kind, "vocabulary", &n[0], "context", &n[1],
                    "d_model", &n[2], "d_ff", &n[3], "layers", &n[4], "heads",
                    &n[5], "rope_theta", &c->rope_theta, "rope_halves", &halves,
                    "norm_eps", &c->norm_eps, "untied_head", &untied) != 0)
        return false;
    c->vocabulary = n[0];
    c->context = n[1];
    c->d_model = n[2];
    c->d_ff = n[3];
    c->layers = n[4];
    c->heads = n[5];
    c->rope_halves = halves != 0;
    c->untied_head = untied != 0;
    return parse_kind(kind, &c->kind) && parse_rest(json, c);
}

/* Reads the configuration in the metadata; false if none is found. */
static bool read_metadata(const lsi_safetensors_file *file,
                          ls_transformer_config *out)
{
    const char *text = lsi_safetensors_text(file, LSI_TRANSFORMER_KEY);
    json_error_t error;
    json_t *json = NULL;
    *out = (ls_transformer_config){0};
    if (text == NULL ||
        lsi_json_loadb(text, strlen(text), 0, &json, &error) != LS_OK)
        return false;
    const bool good = parse_config(json, out);
    json_decref(json);
    return good;
}

/* ---- which file ---------------------------------------------------------- */

static bool find_file(lsi_weights_path *out, const char *folder,
                      const char *name)
{
    struct stat info;
    const int n = snprintf(out->text, sizeof out->text, "%s/%s", folder, name);
    return n < (int)sizeof out->text && stat(out->text, &info) == 0;
}

/* The file of weights in a folder, or the path itself. */
static ls_status place_of(const char *path, lsi_weights_path *out)
{
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        if (find_file(out, path, LSI_MODEL_INDEX) ||
            find_file(out, path, LSI_MODEL_ONE))
            return LS_OK;
        return lsi_fail(LS_ERR_NOT_FOUND,
                        "the folder '%s' contains neither " LSI_MODEL_ONE
                        " nor " LSI_MODEL_INDEX,
                        path);
    }
    if (snprintf(out->text, sizeof out->text, "%s", path) <
        (int)sizeof out->text)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT, "the path '%s' is too long", path);
}

ls_status lsi_transformer_open_file(lsi_safetensors_file *file,
                                    const char *path, lsi_weights_path *place)
{
    LS_TRY(place_of(path, place));
    LS_TRY(lsi_safetensors_open(file, place->text));
    file->widens = true;
    file->matrices = true;
    file->outside = LSI_GPT2_HEAD;
    lsi_safetensors_try_prefix(file, gpt2_prefix, "wte.weight");
    return LS_OK;
}

static ls_status read_config(const lsi_safetensors_file *file, int64_t heads,
                             ls_transformer_config *out)
{
    const bool has_metadata =
        lsi_safetensors_text(file, LSI_TRANSFORMER_KEY) != NULL;
    if (!has_metadata && lsi_gpt2_is_published(file))
        LS_TRY(lsi_gpt2_infer(file, heads, out));
    else if (!has_metadata && lsi_llama_is_published(file))
        LS_TRY(lsi_llama_infer(file, out));
    else if (!read_metadata(file, out))
        return lsi_fail(
            LS_ERR_FORMAT,
            "'%s' is not a known language model: its metadata does not contain "
            "a valid \"%s\" (written by `lockstep train lm`), and its tensors "
            "are not those of GPT-2 or Llama",
            file->path, LSI_TRANSFORMER_KEY);
    LS_TRY(lsi_transformer_check(out));
    if (heads == 0 || heads == out->heads)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "'%s' has %" PRId64 " attention heads, but %" PRId64
                    " heads were requested",
                    file->path, out->heads, heads);
}

ls_status lsi_transformer_read_config(const char *path, int64_t heads,
                                      ls_transformer_config *out)
{
    ls_transformer_config config = {0};
    lsi_safetensors_file file;
    lsi_weights_path place;
    LS_TRY(lsi_transformer_open_file(&file, path, &place));
    const ls_status status = read_config(&file, heads, &config);
    lsi_safetensors_close(&file);
    if (status == LS_OK)
        *out = config;
    return status;
}

ls_status ls_transformer_read_config(const char *path,
                                     ls_transformer_config *out)
{
    ls_transformer_config config;
    LS_NEED(path, out);
    LS_TRY(lsi_transformer_read_config(path, 0, &config));
    return LSI_STRUCT_WRITE(out, &config, ls_transformer_config, rope_scaling);
}

/* ---- loading ------------------------------------------------------------- */

/* A value of a file, and the value that a model wants. */
typedef struct compared {
    const char *what;
    double has, wanted;
} compared;

static ls_status compare_all(const lsi_safetensors_file *file,
                             const compared *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (rows[i].has != rows[i].wanted)
            return lsi_fail(
                LS_ERR_FORMAT, "'%s' holds a model with %s %.9g, expected %.9g",
                file->path, rows[i].what, rows[i].has, rows[i].wanted);
    return LS_OK;
}

static ls_status compare_scaling(const lsi_safetensors_file *file,
                                 const ls_rope_scaling *has,
                                 const ls_rope_scaling *wanted)
{
    if (has->kind != wanted->kind)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' holds a model with rope_scaling %s, expected %s",
                        file->path, lsi_transformer_scaling_name(has->kind),
                        lsi_transformer_scaling_name(wanted->kind));
    if (has->kind == LS_ROPE_SCALING_NONE)
        return LS_OK;
    const compared rows[] = {
        {"rope factor", has->factor, wanted->factor},
        {"low_freq_factor", has->low_freq_factor, wanted->low_freq_factor},
        {"high_freq_factor", has->high_freq_factor, wanted->high_freq_factor},
        {"original_context", (double)has->original_context,
         (double)wanted->original_context}};
    return compare_all(file, rows, sizeof rows / sizeof rows[0]);
}

static ls_status compare_rotary(const lsi_safetensors_file *file,
                                const ls_transformer_config *has,
                                const ls_transformer_config *wanted)
{
    const compared rows[] = {
        {"kv_heads:", (double)lsi_transformer_kv_heads(has),
         (double)lsi_transformer_kv_heads(wanted)},
        {"d_head", (double)lsi_transformer_d_head(has),
         (double)lsi_transformer_d_head(wanted)},
        {"rope_theta", lsi_transformer_theta(has),
         lsi_transformer_theta(wanted)}};
    const compared halves = {"rope_halves", has->rope_halves,
                             wanted->rope_halves};
    LS_TRY(compare_all(file, rows, sizeof rows / sizeof rows[0]));
    LS_TRY(compare_scaling(file, &has->rope_scaling, &wanted->rope_scaling));
    return compare_all(file, &halves, 1);
}

/* Compares the values that shapes do not show. */
static ls_status compare(const lsi_safetensors_file *file,
                         const ls_transformer_config *has,
                         const ls_transformer_config *wanted)
{
    const compared rows[] = {
        {"heads:", (double)has->heads, (double)wanted->heads},
        {"norm_eps", lsi_transformer_eps(has), lsi_transformer_eps(wanted)}};
    if (has->d_model != wanted->d_model)
        return LS_OK; /* which shapes do show */
    LS_TRY(compare_all(file, rows, sizeof rows / sizeof rows[0]));
    return wanted->kind == LS_TRANSFORMER_GPT2
               ? LS_OK
               : compare_rotary(file, has, wanted);
}

/* A model whose head is the embedding cannot load a separate head. */
static ls_status check_head(const lsi_safetensors_file *file,
                            const ls_transformer_config *wanted)
{
    bool own;
    if (wanted->kind != LS_TRANSFORMER_GPT2 || wanted->untied_head)
        return LS_OK;
    LS_TRY(lsi_gpt2_has_own_head(file, &own));
    return own ? lsi_fail(LS_ERR_FORMAT,
                          "'%s' has a separate output head (" LSI_GPT2_HEAD
                          " differs from wte.weight), but this model uses the "
                          "embedding as its head; create the model with "
                          "untied_head = true",
                          file->path)
               : LS_OK;
}

/* A tied head may be stored, too; an untied head must not be dropped. */
static ls_status check_llama(const lsi_safetensors_file *file,
                             const ls_transformer_config *wanted)
{
    ls_transformer_config has;
    bool found;
    LS_TRY(lsi_llama_read_json(file->path, &has, &found));
    if (!found)
        return LS_OK;
    const compared untied = {"untied_head", has.untied_head,
                             wanted->untied_head};
    LS_TRY(compare(file, &has, wanted));
    return compare_all(file, &untied, 1);
}

/* A model of another kind has other tensors; the error names the first. */
static ls_status check_same(const lsi_safetensors_file *file,
                            const ls_transformer_config *wanted)
{
    ls_transformer_config has;
    lsi_gpt2_json json = {0};
    LS_TRY(check_head(file, wanted));
    const bool has_metadata = read_metadata(file, &has);
    if (has_metadata && has.kind == wanted->kind)
        return compare(file, &has, wanted);
    if (wanted->kind == LS_TRANSFORMER_LLAMA)
        return check_llama(file, wanted);
    if (has_metadata || wanted->kind != LS_TRANSFORMER_GPT2)
        return LS_OK;
    LS_TRY(lsi_gpt2_read_json(file->path, &json));
    has = *wanted;
    has.heads = json.heads;
    has.norm_eps = json.norm_eps;
    return json.found ? compare(file, &has, wanted) : LS_OK;
}

/* Tensors by Llama's names are those of a ROPE model if the file says so. */
static lsi_weights_layout layout_of(const lsi_safetensors_file *file,
                                    ls_transformer_kind kind)
{
    ls_transformer_config has;
    if (kind == LS_TRANSFORMER_GPT2 && lsi_gpt2_is_published(file))
        return LSI_WEIGHTS_TRANSPOSED;
    return kind == LS_TRANSFORMER_ROPE && lsi_llama_is_published(file) &&
                   read_metadata(file, &has) && has.kind == kind
               ? LSI_WEIGHTS_AS_LLAMA
               : LSI_WEIGHTS_IN_MEMORY;
}

static ls_status list(const ls_transformer *model, lsi_weights_file *out)
{
    LS_TRY(check_same(&out->file, &model->config));
    LS_TRY(lsi_weights_list(model, layout_of(&out->file, model->config.kind),
                            &out->weights));
    return lsi_weights_view(&out->weights);
}

ls_status lsi_weights_open(const ls_transformer *model, const char *path,
                           lsi_weights_file *out)
{
    *out = (lsi_weights_file){.file = {.fd = -1}};
    LS_TRY(lsi_transformer_open_file(&out->file, path, &out->place));
    const ls_status status = list(model, out);
    if (status != LS_OK)
        lsi_weights_close(out);
    return status;
}

void lsi_weights_close(lsi_weights_file *file)
{
    lsi_weights_free(&file->weights);
    lsi_safetensors_close(&file->file);
    *file = (lsi_weights_file){.file = {.fd = -1}};
}

ls_status ls_transformer_load(ls_transformer *model, const char *path)
{
    LS_NEED(model, path);
    lsi_weights_file file;
    ls_status status = lsi_weights_open(model, path, &file);
    if (status == LS_OK) {
        status = lsi_safetensors_fill(&file.file, file.weights.views,
                                      file.weights.n);
        lsi_weights_close(&file);
    }
    return lsi_params_settle(model->params, status);
}

/* ---- types --------------------------------------------------------------- */

static ls_dtype type_of(const lsi_safetensors_entry *e)
{
    static const ls_dtype halves[] = {LS_BF16, LS_F16};
    for (size_t i = 0; i < 2; i++)
        if (strcmp(e->dtype, lsi_safetensors_dtype_of(halves[i]).text) == 0)
            return halves[i];
    return LS_F32;
}

ls_status lsi_transformer_keep_types(const ls_transformer *model,
                                     const char *path)
{
    lsi_safetensors_file file;
    lsi_weights_path place;
    LS_TRY(lsi_transformer_open_file(&file, path, &place));
    lsi_weights weights = {0};
    const ls_status status =
        lsi_weights_list(model, layout_of(&file, model->config.kind), &weights);
    for (size_t i = 0; status == LS_OK && i < weights.n; i++) {
        const lsi_weight *const w = &weights.items[i];
        const lsi_safetensors_entry *e = lsi_safetensors_find(&file, w->name);
        if (e != NULL && ls_tensor_ndim(w->tensor) == 2)
            lsi_params_set_dtype(model->params, w->tensor->param->index,
                                 type_of(e));
    }
    lsi_weights_free(&weights);
    lsi_safetensors_close(&file);
    return status;
}
