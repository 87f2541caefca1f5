/* The sizes that have names, and what fits together. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "nn/transformer.h"

static const int64_t usual_context = 1024;

static const struct {
    const char *name;
    ls_transformer_kind kind;
    int64_t d_model, d_ff, layers, heads, vocabulary;
} sizes[] = {
#define X(name, KIND, d_model, d_ff, layers, heads, vocabulary)                \
    {name, LS_TRANSFORMER_##KIND, d_model, d_ff, layers, heads, vocabulary},
    LS_TRANSFORMER_SIZE_LIST(X)
#undef X
};

static const char size_names[] =
#define X(name, KIND, d_model, d_ff, layers, heads, vocabulary) ", " name
    LS_TRANSFORMER_SIZE_LIST(X)
#undef X
    ;

ls_status ls_transformer_size(const char *name, ls_transformer_config *out)
{
    LS_NEED(name);
    LS_NEED(out);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (strcmp(sizes[i].name, name) != 0)
            continue;
        *out = (ls_transformer_config){.kind = sizes[i].kind,
                                       .vocabulary = sizes[i].vocabulary,
                                       .context = usual_context,
                                       .d_model = sizes[i].d_model,
                                       .d_ff = sizes[i].d_ff,
                                       .layers = sizes[i].layers,
                                       .heads = sizes[i].heads};
        return LS_OK;
    }
    return lsi_fail(LS_ERR_ARGUMENT, "unknown model size '%s'; there are %s",
                    name, &size_names[2]);
}

double lsi_transformer_eps(const ls_transformer_config *config)
{
    return config->norm_eps > 0.0 ? config->norm_eps : 1e-5;
}

double lsi_transformer_theta(const ls_transformer_config *config)
{
    return config->rope_theta > 0.0 ? config->rope_theta : 10000.0;
}

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

static ls_status check_heads(const ls_transformer_config *c)
{
    const bool rope = c->kind == LS_TRANSFORMER_ROPE;
    if (c->d_model % c->heads != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "transformer: %" PRId64 " heads do not divide d_model "
                        "%" PRId64,
                        c->heads, c->d_model);
    if (rope && c->d_model / c->heads % 2 != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "transformer: heads of %" PRId64 " elements have no "
                        "pairs to rotate; d_model / heads must be even",
                        c->d_model / c->heads);
    return LS_OK;
}

ls_status ls_transformer_check(const ls_transformer_config *config)
{
    LS_NEED(config);
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
        return lsi_fail(LS_ERR_ARGUMENT,
                        "transformer: norm_eps is %g; it must be positive and "
                        "below 1",
                        config->norm_eps);
    if (!(config->rope_theta >= 0.0 && config->rope_theta < 1e30))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "transformer: rope_theta is %g; it must be positive",
                        config->rope_theta);
    return LS_OK;
}
