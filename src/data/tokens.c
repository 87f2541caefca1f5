/*
 * Sequences of tokens from files.
 *
 * llm.c's files begin with 256 little-endian 32-bit numbers, of which the first
 * three are 20240520, 1, the number of tokens for u16, and 20240801, 7, their
 * number for u32.
 */
#include "data/tokens.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/rng.h"

enum { HEADER_BYTES = 1024 };

static const uint32_t magic_u16 = 20240520, version_u16 = 1;
static const uint32_t magic_u32 = 20240801, version_u32 = 7;

/* "batches" */
static const uint64_t batch_stream = 0x6261746368657300;

/* ---- opening ------------------------------------------------------------- */

static bool ends_with(const char *path, const char *end)
{
    const size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

static ls_token_format by_name(const char *path)
{
    if (ends_with(path, ".bin"))
        return LS_TOKENS_LLMC;
    if (ends_with(path, ".u16"))
        return LS_TOKENS_U16;
    return ends_with(path, ".u32") ? LS_TOKENS_U32 : LS_TOKENS_TEXT;
}

static uint32_t word_at(const uint8_t *data, size_t index)
{
    uint32_t word;
    memcpy(&word, data + index * sizeof(word), sizeof(word));
    return word;
}

static ls_status read_header(ls_tokens *t, const char *path)
{
    const uint8_t *data = t->records.data;
    const size_t bytes = t->records.bytes;
    if (bytes < HEADER_BYTES)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' has no llm.c header: it has %zu bytes, fewer "
                        "than %d",
                        path, bytes, HEADER_BYTES);
    const uint32_t magic = word_at(data, 0), version = word_at(data, 1);
    if (magic == magic_u16 && version == version_u16)
        t->width = 2;
    else if (magic == magic_u32 && version == version_u32)
        t->width = 4;
    else
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' has no llm.c header: it begins with %" PRIu32
                        ", %" PRIu32 " and not %" PRIu32 ", %" PRIu32
                        " or %" PRIu32 ", %" PRIu32 "; for raw tokens name it "
                        ".u16 or .u32, or say so: --tokens u16",
                        path, magic, version, magic_u16, version_u16, magic_u32,
                        version_u32);
    t->count = (int64_t)word_at(data, 2);
    t->first = data + HEADER_BYTES;
    if ((size_t)t->count * t->width == bytes - HEADER_BYTES)
        return LS_OK;
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s' should hold %" PRId64 " tokens of %zu bytes behind "
                    "its header, but has %zu bytes there",
                    path, t->count, t->width, bytes - HEADER_BYTES);
}

static ls_status take_raw(ls_tokens *t, const char *path, size_t width)
{
    if (t->records.bytes % width != 0)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' has %zu bytes, which is not a multiple of the "
                        "token size, %zu",
                        path, t->records.bytes, width);
    t->width = width;
    t->first = t->records.data;
    t->count = (int64_t)(t->records.bytes / width);
    return LS_OK;
}

static ls_status interpret(ls_tokens *t, const char *path,
                           ls_token_format format)
{
    if (format == LS_TOKENS_BY_NAME)
        format = by_name(path);
    switch (format) {
    case LS_TOKENS_LLMC:
        return read_header(t, path);
    case LS_TOKENS_U16:
        return take_raw(t, path, 2);
    case LS_TOKENS_U32:
        return take_raw(t, path, 4);
    case LS_TOKENS_TEXT:
    case LS_TOKENS_BY_NAME:
        break;
    }
    return take_raw(t, path, 1);
}

ls_status ls_tokens_new(ls_tokens **out, const char *path,
                        ls_token_format format)
{
    LS_NEED(out);
    LS_NEED(path);
    void *block = NULL;
    LS_TRY(lsi_alloc_zeroed(&block, sizeof(ls_tokens), LS_MEMORY_DATA,
                            "a sequence of tokens"));
    ls_tokens *tokens = block;
    snprintf(tokens->name, sizeof(tokens->name), "%s", path);
    ls_status status = lsi_records_map(&tokens->records, path);
    if (status == LS_OK)
        status = interpret(tokens, path, format);
    if (status != LS_OK) {
        ls_tokens_free(&tokens);
        return status;
    }
    *out = tokens;
    return LS_OK;
}

void ls_tokens_free(ls_tokens **tokens)
{
    if (tokens == NULL || *tokens == NULL)
        return;
    const lsi_records *records = &(*tokens)->records;
    if (records->data != NULL)
        records->release(records->data, records->bytes);
    lsi_free(*tokens);
    *tokens = NULL;
}

/* ---- reading ------------------------------------------------------------- */

int64_t ls_tokens_count(const ls_tokens *tokens)
{
    return tokens != NULL ? tokens->count : 0;
}

bool ls_tokens_are_bytes(const ls_tokens *tokens)
{
    return tokens != NULL && tokens->width == 1;
}

static int64_t token_at(const ls_tokens *t, int64_t index)
{
    const uint8_t *place = t->first + (size_t)index * t->width;
    uint16_t half;
    if (t->width == 1)
        return *place;
    if (t->width == 4)
        return word_at(place, 0);
    memcpy(&half, place, sizeof(half));
    return half;
}

ls_status ls_tokens_check(const ls_tokens *tokens, int64_t vocabulary)
{
    LS_NEED(tokens);
    for (int64_t i = 0; i < tokens->count; i++) {
        if (token_at(tokens, i) < vocabulary)
            continue;
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s': token %" PRId64 " is %" PRId64 ", but the "
                        "vocabulary has %" PRId64,
                        tokens->name, i, token_at(tokens, i), vocabulary);
    }
    return LS_OK;
}

ls_status ls_tokens_read(const ls_tokens *tokens, int64_t begin, int64_t n,
                         int64_t *out)
{
    LS_NEED(tokens);
    if (n > 0)
        LS_NEED(out);
    if (begin < 0 || n < 0 || begin > tokens->count - n)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "'%s': %" PRId64 " tokens from %" PRId64 " on are not "
                        "all among its %" PRId64,
                        tokens->name, n, begin, tokens->count);
    for (int64_t i = 0; i < n; i++)
        out[i] = token_at(tokens, begin + i);
    return LS_OK;
}

static ls_status check_batch(const ls_tokens *tokens, const ls_token_batch *b)
{
    if (b->begin < 0 || b->end < b->begin || b->end > tokens->count)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "'%s': a batch cannot come from tokens %" PRId64
                        " to %" PRId64 "; there are %" PRId64,
                        tokens->name, b->begin, b->end, tokens->count);
    if (b->length < 1 || b->end - b->begin <= b->length)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "'%s': %" PRId64 " tokens are too few for pieces of "
                        "%" PRId64 " and the one after",
                        tokens->name, b->end - b->begin, b->length);
    return LS_OK;
}

ls_status ls_tokens_batch(const ls_tokens *tokens, const ls_token_batch *batch,
                          int64_t *inputs, int64_t *targets)
{
    LS_NEED(tokens);
    LS_NEED(batch);
    if (batch->rows > 0)
        LS_NEED(inputs);
    if (batch->rows > 0)
        LS_NEED(targets);
    const ls_token_batch *b = batch;
    const lsi_rng_key key = {.seed = b->seed, .stream = batch_stream};
    LS_TRY(check_batch(tokens, b));
    const uint64_t places = (uint64_t)(b->end - b->begin - b->length);
    for (int64_t r = 0; r < b->rows; r++) {
        const uint64_t row =
            (uint64_t)b->rank * (uint64_t)b->rows + (uint64_t)r;
        const int64_t first =
            b->begin + (int64_t)lsi_rng_below(key, b->step, row, places);
        LS_TRY(
            ls_tokens_read(tokens, first, b->length, inputs + r * b->length));
        LS_TRY(ls_tokens_read(tokens, first + 1, b->length,
                              targets + r * b->length));
    }
    return LS_OK;
}
