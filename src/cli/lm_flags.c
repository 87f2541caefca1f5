#include "cli/lm_flags.h"

#include <string.h>

#include "base/error.h"

const char lsi_lm_size_choices[] =
#define X(name, KIND, d_model, d_ff, layers, heads, vocabulary) "|" name
    LS_TRANSFORMER_SIZE_LIST(X)
#undef X
    ;

static void replace(int64_t *value, int64_t flag)
{
    if (flag > 0)
        *value = flag;
}

ls_status lsi_cli_lm_shape(const lsi_lm_shape_flags *flags,
                           ls_transformer_config *out)
{
    LS_TRY(ls_transformer_size(flags->size, out));
    replace(&out->layers, flags->layers);
    replace(&out->d_model, flags->d_model);
    replace(&out->heads, flags->heads);
    replace(&out->d_ff, flags->d_ff);
    replace(&out->vocabulary, flags->vocabulary);
    replace(&out->context, flags->context);
    out->norm_eps = flags->norm_eps;
    out->untied_head = flags->untied_head;
    out->rope_halves = strcmp(flags->rope, "halves") == 0;
    out->attention = strcmp(flags->attention, "naive") == 0
                         ? LS_ATTENTION_NAIVE
                         : LS_ATTENTION_FLASH;
    return LS_OK;
}
