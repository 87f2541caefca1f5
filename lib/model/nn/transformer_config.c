/* Named sizes, and the consistency of configurations. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "base/structs.h"
#include "model/nn/transformer.h"
#include "model/nn/transformer_lists.h"

static const int64_t usual_context = 1024;

static const struct {
    const char *name;
    ls_transformer_kind kind;
    int64_t d_model, d_ff, layers, heads, vocabulary;
} sizes[] = {
#define X(name, KIND, d_model, d_ff, layers, heads, vocabulary)                \
    {name, LS_TRANSFORMER_##KIND, d_model, d_ff, layers, heads, vocabulary},
    LSI_TRANSFORMER_SIZE_LIST(X)
#undef X
};

static const char size_names[] =
#define X(name, KIND, d_model, d_ff, layers, heads, vocabulary) ", " name
    LSI_TRANSFORMER_SIZE_LIST(X)
#undef X
    ;

static ls_status write_config(const ls_transformer_config *from,
                              ls_transformer_config *out)
{
    return LSI_STRUCT_WRITE(out, from, ls_transformer_config, rope_scaling);
}

ls_status ls_transformer_size(const char *name, ls_transformer_config *out)
{
    LS_NEED(name, out);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (strcmp(sizes[i].name, name) != 0)
            continue;
        const ls_transformer_config found = {.kind = sizes[i].kind,
                                             .vocabulary = sizes[i].vocabulary,
                                             .context = usual_context,
                                             .d_model = sizes[i].d_model,
                                             .d_ff = sizes[i].d_ff,
                                             .layers = sizes[i].layers,
                                             .heads = sizes[i].heads};
        return write_config(&found, out);
    }
    return lsi_fail(LS_ERR_ARGUMENT,
                    "unknown model size '%s'; choose one of: %s", name,
                    &size_names[2]);
}

double lsi_transformer_eps(const ls_transformer_config *config)
{
    return config->norm_eps > 0.0 ? config->norm_eps : 1e-5;
}

int64_t lsi_transformer_kv_heads(const ls_transformer_config *config)
{
    return config->kv_heads > 0 ? config->kv_heads : config->heads;
}

int64_t lsi_transformer_d_head(const ls_transformer_config *config)
{
    return config->d_head > 0 ? config->d_head
                              : config->d_model / config->heads;
}

const char *lsi_transformer_kind_name(ls_transformer_kind kind)
{
    static const char *const names[] = {
#define X(NAME, value, text) [value] = (text),
        LSI_TRANSFORMER_KIND_LIST(X)
#undef X
    };
    return names[kind];
}

const char *lsi_transformer_scaling_name(ls_rope_scaling_kind kind)
{
    static const char *const names[] = {
#define X(NAME, value, text) [value] = (text),
        LSI_ROPE_SCALING_LIST(X)
#undef X
    };
    return names[kind];
}

double lsi_transformer_theta(const ls_transformer_config *config)
{
    return config->rope_theta > 0.0 ? config->rope_theta : 10000.0;
}

/* ---- rotary positions ---------------------------------------------------- */

/* One pair's rate; see ls_rope_scaling. */
static double scaled(const ls_rope_scaling *s, double rate)
{
    const double pi = 3.14159265358979323846;
    if (s->kind == LS_ROPE_SCALING_NONE)
        return rate;
    if (s->kind == LS_ROPE_SCALING_LINEAR)
        return rate / s->factor;
    const double turns = (double)s->original_context * rate / (2.0 * pi);
    if (turns < s->low_freq_factor)
        return rate / s->factor;
    if (turns > s->high_freq_factor)
        return rate;
    const double smooth = (turns - s->low_freq_factor) /
                          (s->high_freq_factor - s->low_freq_factor);
    return (1.0 - smooth) * rate / s->factor + smooth * rate;
}

void lsi_transformer_rates(const ls_transformer_config *config, double *rates)
{
    const int64_t pairs = lsi_transformer_d_head(config) / 2;
    const double theta = lsi_transformer_theta(config);
    for (int64_t k = 0; k < pairs; k++)
        rates[k] = scaled(&config->rope_scaling,
                          lsi_pow(theta, -(double)k / (double)pairs));
}

/* ---- consistency --------------------------------------------------------- */

/* Extents beyond this are mistakes, and products of three of them fit. */
static const int64_t largest = 1 << 20;

static ls_status check_extent(const char *what, int64_t value)
{
    if (value >= 1 && value <= largest)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "transformer: %s is %" PRId64 "; it must be from 1 to "
                    "%" PRId64,
                    what, value, largest);
}

static ls_status check_kv_heads(const ls_transformer_config *c)
{
    if (c->kind == LS_TRANSFORMER_GPT2 &&
        (c->kv_heads != 0 || c->d_head != 0 ||
         c->rope_scaling.kind != LS_ROPE_SCALING_NONE))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "transformer: gpt2 does not support kv_heads, d_head "
                        "or rope_scaling; they must be 0");
    if (c->kv_heads < 0 || c->heads % lsi_transformer_kv_heads(c) != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "transformer: kv_heads is %" PRId64 "; it must divide "
                        "heads, %" PRId64,
                        c->kv_heads, c->heads);
    return c->d_head == 0 ? LS_OK : check_extent("d_head", c->d_head);
}

static ls_status check_heads(const ls_transformer_config *c)
{
    if (c->d_head == 0 && c->d_model % c->heads != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "transformer: heads is %" PRId64
                        "; it must divide d_model, %" PRId64,
                        c->heads, c->d_model);
    LS_TRY(check_kv_heads(c));
    if (c->kind != LS_TRANSFORMER_GPT2 && lsi_transformer_d_head(c) % 2 != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "transformer: a head has %" PRId64
                        " elements; rotary positions need an even number, so "
                        "d_model / heads must be even",
                        lsi_transformer_d_head(c));
    return LS_OK;
}

static ls_status check_scaling(const ls_rope_scaling *s)
{
    if ((unsigned)s->kind >= LS_ROPE_SCALING_COUNT)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "transformer: unknown kind of rope_scaling %d",
                        (int)s->kind);
    if (s->kind != LS_ROPE_SCALING_NONE && !(s->factor >= 1.0))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "transformer: the factor of rope_scaling is %g; it "
                        "must be at least 1",
                        s->factor);
    if (s->kind == LS_ROPE_SCALING_LLAMA3 &&
        !(s->low_freq_factor > 0.0 &&
          s->high_freq_factor > s->low_freq_factor && s->original_context > 0))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "transformer: rope_scaling llama3 has low_freq_factor "
                        "%g, high_freq_factor %g and original_context %" PRId64
                        "; all must be positive, and high_freq_factor must be "
                        "above low_freq_factor",
                        s->low_freq_factor, s->high_freq_factor,
                        s->original_context);
    return LS_OK;
}

ls_status lsi_transformer_check(const ls_transformer_config *config)
{
    if ((unsigned)config->kind >= LS_TRANSFORMER_KIND_COUNT)
        return lsi_fail(LS_ERR_ARGUMENT, "transformer: unknown kind %d",
                        (int)config->kind);
    LS_TRY(check_extent("vocabulary", config->vocabulary));
    LS_TRY(check_extent("context", config->context));
    LS_TRY(check_extent("d_model", config->d_model));
    LS_TRY(check_extent("d_ff", config->d_ff));
    LS_TRY(check_extent("layers", config->layers));
    LS_TRY(check_extent("heads", config->heads));
    LS_TRY(check_heads(config));
    if (!(config->norm_eps >= 0.0 && config->norm_eps < 1.0))
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "transformer: norm_eps is %g; it must be at least 0 and below 1",
            config->norm_eps);
    if (!(config->rope_theta >= 0.0 && config->rope_theta < 1e30))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "transformer: rope_theta is %g; it must be at least 0 "
                        "and below 1e30",
                        config->rope_theta);
    return check_scaling(&config->rope_scaling);
}

ls_status lsi_transformer_copy_config(const ls_transformer_config *given,
                                      ls_transformer_config *out)
{
    LS_TRY(LSI_STRUCT_READ(out, given, ls_transformer_config, rope_scaling));
    return lsi_transformer_check(out);
}

ls_status ls_transformer_check(const ls_transformer_config *config)
{
    ls_transformer_config own;
    LS_NEED(config);
    return lsi_transformer_copy_config(config, &own);
}
