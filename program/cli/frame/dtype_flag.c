#include "cli/frame/dtype_flag.h"

#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "base/error.h"
#include "cli/frame/list.h"
#include "fold/fold.h"
#include "report/paragraph.h"

ls_dtype lsi_cli_dtype(const char *name)
{
    if (strcmp(name, "f16") == 0)
        return LS_F16;
    return strcmp(name, "bf16") == 0 ? LS_BF16 : LS_F32;
}

static ls_status read_dtype(void *context, const char *word)
{
    lsi_dtype_list *const list = context;
    ls_dtype dtype;
    LS_TRY(ls_dtype_parse(word, &dtype));
    if (dtype != LS_F32 && dtype != LS_BF16)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "this command does not support --dtype %s; give f32 or bf16", word);
    if (list->n == LS_DTYPE_COUNT)
        return lsi_fail(LS_ERR_ARGUMENT, "--dtype lists more than %d types",
                        LS_DTYPE_COUNT);
    list->values[list->n++] = dtype;
    return LS_OK;
}

ls_status lsi_cli_dtypes(const char *text, lsi_dtype_list *out)
{
    out->n = 0;
    return lsi_each_word("--dtype", text, read_dtype, out);
}

/* The instructions that multiply bf16 here; NULL: none that may be used. */
static const char *bf16_unit(void)
{
    if (lsi_fold_get()->isa < LSI_ISA_AVX512_BF16)
        return NULL;
    return lsi_cpu_has_amx_bf16() ? "AMX, much faster than f32"
                                  : "AVX-512 BF16, about twice as fast as f32";
}

static const char *note_of(ls_dtype dtype)
{
    if (dtype == LS_F16)
        return "matrix products round their inputs to f16 but compute in f32, "
               "so they are not faster than in f32. Losses are scaled, and "
               "steps that overflow are skipped";
    return "matrix products are not faster than in f32: this processor lacks "
           "AVX-512 BF16 and AMX, or they are disabled";
}

void lsi_cli_dtype_note(ls_dtype dtype)
{
    const char *const unit = bf16_unit();
    if (dtype == LS_BF16 && unit != NULL)
        lsi_paragraph(stderr, "bf16: matrix products use %s", unit);
    else if (dtype != LS_F32)
        lsi_paragraph(stderr, "%s: %s", ls_dtype_name(dtype), note_of(dtype));
}

void lsi_cli_dtype_advise(ls_dtype dtype)
{
    const char *const unit = bf16_unit();
    lsi_cli_dtype_note(dtype);
    if (dtype == LS_F32 && unit != NULL)
        lsi_paragraph(stderr,
                      "f32: with --dtype bf16, matrix products would use %s",
                      unit);
}
