/* Texts of a training run as tokens in memory. */
#include <stdio.h>

#include "base/error.h"
#include "base/memory.h"
#include "input/data/tokens.h"
#include "input/text/encode.h"

/* Bytes that are encoded at once; more would only need more memory. */
enum { WINDOW = 1 << 24 };

static ls_status encode_file(lsi_encoders *encoders, const lsi_token_file *file,
                             const char *name, lsi_ids *out)
{
    const lsi_text all = {file->first, (size_t)file->count};
    for (size_t at = 0; at < all.n;) {
        const lsi_text rest = {all.at + at, all.n - at};
        const size_t n = rest.n > WINDOW
                             ? lsi_text_cut(encoders->tokenizer, rest, WINDOW)
                             : rest.n;
        const lsi_text part = {rest.at, n};
        LS_TRY(lsi_text_check(part, at, name));
        LS_TRY(lsi_encode(encoders, part, at == 0, out));
        at += n;
    }
    return LS_OK;
}

static ls_status encode_all(const struct ls_tokenizer *t, const ls_tokens *text,
                            lsi_ids *out)
{
    lsi_encoders encoders;
    char name[512];
    ls_status status = lsi_encoders_new(&encoders, t, SIZE_MAX);
    for (int64_t i = 0; i < text->n_files && status == LS_OK; i++) {
        const lsi_token_file *const file = &text->files[i];
        snprintf(name, sizeof name, "'%s'",
                 file->path != NULL ? file->path : text->name);
        status = encode_file(&encoders, file, name, out);
    }
    lsi_encoders_free(&encoders);
    return status;
}

static ls_status keep(const lsi_ids *ids, size_t width, const char *name,
                      ls_tokens **out)
{
    LS_TRY(lsi_tokens_in_memory(out, name, (int64_t)ids->n, width));
    uint8_t *const data = (*out)->files[0].records.data;
    uint16_t *const narrow = (void *)data;
    if (width == 2)
        for (size_t i = 0; i < ids->n; i++)
            narrow[i] = (uint16_t)ids->at[i];
    else if (ids->n > 0)
        memcpy(data, ids->at, ids->n * width);
    return LS_OK;
}

ls_status lsi_text_to_tokens(ls_tokens **out,
                             const struct ls_tokenizer *tokenizer,
                             const ls_tokens *text)
{
    lsi_ids ids = {.n = 0};
    const size_t width = tokenizer->vocabulary.n > UINT16_MAX + 1 ? 4 : 2;
    ls_status status = encode_all(tokenizer, text, &ids);
    if (status == LS_OK)
        status = keep(&ids, width, text->name, out);
    lsi_free(ids.at);
    return status;
}
