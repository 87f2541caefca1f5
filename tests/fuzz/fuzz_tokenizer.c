/*
 * Tokenizers: a byte for the form, then a tokenizer.json, or a vocab.json, a
 * zero byte and a merges.txt; behind the next zero byte a text, which is
 * encoded and decoded if it opens.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "lockstep/profile.h"
#include "lockstep/tokenizer.h"

/* The bytes up to the next zero byte, which is skipped. */
static fuzz_input until_zero(fuzz_input *in)
{
    const uint8_t *zero = memchr(in->data, 0, in->size);
    const fuzz_input out = {in->data, zero != NULL ? (size_t)(zero - in->data)
                                                   : in->size};
    const size_t used = out.size + (zero != NULL);
    in->data += used;
    in->size -= used;
    return out;
}

static const char *write_files(fuzz_input *in, bool two)
{
    static char path[4096];
    const fuzz_input first = until_zero(in);
    if (!two)
        return fuzz_file(first.data, first.size);
    const fuzz_input second = until_zero(in);
    fuzz_write("vocab.json", first.data, first.size);
    fuzz_write("merges.txt", second.data, second.size);
    snprintf(path, sizeof path, "%s/vocab.json", fuzz_folder());
    return path;
}

/* One by one they give the text that they give together, if it is whole. */
static void decode(const ls_tokenizer *t, const int64_t *ids, size_t n)
{
    char *text = NULL;
    const char *part;
    size_t bytes, at = 0, some;
    ls_decoder *decoder = NULL;
    if (!fuzz_ok(ls_tokenizer_decode(t, ids, n, LS_TOKENIZER_SPECIAL, &text,
                                     &bytes)))
        return;
    fuzz_demand(ls_decoder_new(&decoder, t, LS_TOKENIZER_SPECIAL) == LS_OK);
    const bool whole = strstr(text, "\xef\xbf\xbd") == NULL;
    for (size_t i = 0; i <= n; i++) {
        fuzz_demand((i < n
                         ? ls_decoder_push(decoder, ids[i], &part, &some)
                         : ls_decoder_finish(decoder, &part, &some)) == LS_OK);
        fuzz_demand(!whole ||
                    (at + some <= bytes && memcmp(part, text + at, some) == 0));
        at += some;
    }
    fuzz_demand(!whole || at == bytes);
    ls_decoder_free(&decoder);
    ls_free(text);
}

static void use(const ls_tokenizer *t, fuzz_input *in)
{
    int64_t *ids = NULL, drawn[16];
    size_t n = 0;
    const int64_t size = ls_tokenizer_vocabulary(t);
    if (fuzz_ok(ls_tokenizer_encode(t, (const char *)in->data, in->size,
                                    LS_TOKENIZER_SPECIAL, &ids, &n))) {
        for (size_t i = 0; i < n; i++)
            fuzz_demand(ids[i] >= 0 && ids[i] < size);
        decode(t, ids, n);
        ls_free(ids);
    }
    for (size_t i = 0; i < 16; i++)
        drawn[i] = size > 0 ? fuzz_byte(in) % size : 0;
    decode(t, drawn, 16);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    ls_tokenizer *t = NULL;
    const bool two = fuzz_byte(&in) % 2 == 1;
    if (!fuzz_ok(ls_tokenizer_open(&t, write_files(&in, two))))
        return 0;
    use(t, &in);
    ls_tokenizer_close(&t);
    return 0;
}
