/*
 * A transformer as described by a safetensors file: its metadata, or the names
 * and shapes of a published GPT-2. A byte says whether its tensors are loaded,
 * too, four how many zeros follow the header, which is the rest.
 */
#include <stdlib.h>

#include "fuzz.h"
#include "lockstep/transformer.h"

static ls_params *params;
static ls_transformer *model;

static void free_model(void)
{
    ls_transformer_free(&model);
    ls_params_free(&params);
}

/* One block of the smallest GPT-2, which has one head of 64. */
static void make_model(void)
{
    const ls_transformer_config config = {.kind = LS_TRANSFORMER_GPT2,
                                          .vocabulary = 2,
                                          .context = 2,
                                          .d_model = 64,
                                          .d_ff = 1,
                                          .layers = 1,
                                          .heads = 1};
    fuzz_demand(ls_params_new(&params) == LS_OK);
    fuzz_demand(ls_transformer_new(&model, params, &config) == LS_OK);
    fuzz_demand(ls_params_allocate(params, NULL, 1) == LS_OK);
    atexit(free_model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ls_transformer_config config = LS_TRANSFORMER_CONFIG_INIT;
    fuzz_input in = {data, size};
    if (model == NULL)
        make_model();
    const uint8_t form = fuzz_byte(&in);
    const size_t zeros = fuzz_word(&in) % (1 << 20);
    const char *path = fuzz_safetensors(in.data, in.size, zeros);
    if (form % 2 == 1)
        fuzz_ok(ls_transformer_load(model, path));
    else if (fuzz_ok(ls_transformer_read_config(path, &config)))
        fuzz_demand(ls_transformer_check(&config) == LS_OK);
    return 0;
}
