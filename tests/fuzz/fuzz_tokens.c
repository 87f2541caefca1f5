/*
 * Files of tokens: a byte for the format, four that make a header of llm.c
 * instead if they are not zero, then the file.
 */
#include <string.h>

#include "fuzz.h"
#include "lockstep/data.h"

enum { HEADER = 1024, MOST = 4096 };

static const char *make_file(fuzz_input *in)
{
    static uint8_t file[HEADER + MOST];
    const uint32_t form = fuzz_word(in);
    if (form == 0)
        return fuzz_file(in->data, in->size);
    const uint32_t header[] = {form % 2 ? 20240520U : 20240801U,
                               form % 2 ? 1U : 7U, form / 2};
    const size_t bytes = in->size < MOST ? in->size : MOST;
    memset(file, 0, HEADER);
    memcpy(file, header, sizeof(header));
    memcpy(file + HEADER, in->data, bytes);
    return fuzz_file(file, HEADER + bytes);
}

static void use(const ls_tokens *tokens)
{
    int64_t inputs[8], targets[8];
    const int64_t n = ls_tokens_count(tokens);
    const ls_token_batch batch = {
        .end = n, .rows = 2, .length = 4, .seed = 1, .step = (uint64_t)n};
    fuzz_ok(ls_tokens_check(tokens, 256));
    fuzz_demand(ls_tokens_read(tokens, 0, inputs, n < 8 ? n : 8) == LS_OK);
    fuzz_demand(ls_tokens_read(tokens, n - 3, inputs, 8) != LS_OK);
    if (fuzz_ok(ls_tokens_batch(tokens, &batch, inputs, targets)))
        fuzz_demand(inputs[1] == targets[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    ls_tokens *tokens = NULL;
    const ls_token_format format =
        (ls_token_format)(fuzz_byte(&in) % (LS_TOKENS_NPY + 1));
    const char *path = make_file(&in);
    if (!fuzz_ok(ls_tokens_new(&tokens, path, format)))
        return 0;
    use(tokens);
    ls_tokens_free(&tokens);
    return 0;
}
