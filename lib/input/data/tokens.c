/*
 * Sequences of tokens from files, one after the other.
 *
 * llm.c's files begin with 256 little-endian 32-bit numbers, of which the first
 * three are 20240520, 1, the number of tokens for u16, and 20240801, 7, their
 * number for u32.
 */
#include "input/data/tokens.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/structs.h"
#include "base/utf8.h"
#include "input/data/arrays.h"
#include "input/data/unpack.h"

enum { HEADER_BYTES = 1024 };

static const uint32_t magic_u16 = 20240520, version_u16 = 1;
static const uint32_t magic_u32 = 20240801, version_u32 = 7;

/* "batches" */
static const uint64_t batch_stream = 0x6261746368657300;

/* ---- text ---------------------------------------------------------------- */

/*
 * Checks that the first MOST bytes are UTF-8 without zeros; more would take
 * noticeable time. The last character may be cut off.
 */
static ls_status check_text(const lsi_token_file *f)
{
    enum { MOST = 1 << 26 };
    const uint8_t *const data = f->records.data;
    const size_t n = f->records.bytes < MOST ? f->records.bytes : MOST;
    const size_t valid = lsi_utf8_valid(data, n);
    const uint8_t *const zero = memchr(data, 0, valid);
    const size_t i = zero != NULL ? (size_t)(zero - data) : valid;
    if (i == n || (zero == NULL && lsi_utf8_next(data + i, n - i) == 0))
        return LS_OK;
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s' is not text: byte %zu is 0x%02x, which %s. To use "
                    "each byte as a token, give --format bytes. If the file "
                    "holds raw tokens, give --format u16 or u32",
                    f->path, i, data[i],
                    data[i] == 0 ? "text cannot contain"
                                 : "does not begin a UTF-8 character");
}

/* ---- formats ------------------------------------------------------------- */

static uint32_t word_at(const uint8_t *data, size_t index)
{
    uint32_t word;
    memcpy(&word, data + index * sizeof(word), sizeof(word));
    return word;
}

static ls_status open_llmc(lsi_token_file *f, size_t width)
{
    const uint8_t *data = f->records.data;
    const size_t bytes = f->records.bytes;
    (void)width;
    if (bytes < HEADER_BYTES)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' has no llm.c header: the file has %zu bytes, but "
                        "the header alone needs %d",
                        f->path, bytes, HEADER_BYTES);
    const uint32_t magic = word_at(data, 0), version = word_at(data, 1);
    if (magic == magic_u16 && version == version_u16)
        f->width = 2;
    else if (magic == magic_u32 && version == version_u32)
        f->width = 4;
    else
        return lsi_fail(
            LS_ERR_FORMAT,
            "'%s' has no llm.c header: the first two numbers are %" PRIu32
            " and %" PRIu32 "; expected %" PRIu32 " and %" PRIu32
            ", or %" PRIu32 " and %" PRIu32
            ". For raw tokens, give --format u16 or u32, or use a file name "
            "that ends in .u16 or .u32",
            f->path, magic, version, magic_u16, version_u16, magic_u32,
            version_u32);
    f->count = (int64_t)word_at(data, 2);
    f->first = data + HEADER_BYTES;
    if ((size_t)f->count * f->width == bytes - HEADER_BYTES)
        return LS_OK;
    return lsi_fail(
        LS_ERR_FORMAT,
        "'%s' is damaged or cut off: its header promises %" PRId64
        " tokens of %zu bytes each, but %zu bytes follow the header",
        f->path, f->count, f->width, bytes - HEADER_BYTES);
}

static ls_status open_raw(lsi_token_file *f, size_t width)
{
    if (f->records.bytes % width != 0)
        return lsi_fail(LS_ERR_FORMAT,
                        "the size of '%s' (%zu bytes) is not a multiple of the "
                        "token size (%zu bytes)",
                        f->path, f->records.bytes, width);
    f->width = width;
    f->first = f->records.data;
    f->count = (int64_t)(f->records.bytes / width);
    return LS_OK;
}

static ls_status open_array(lsi_token_file *f, size_t width)
{
    lsi_file_array a;
    (void)width;
    LS_TRY(lsi_npy_parse(&a, f->records.data, f->records.bytes, f->path));
    if (a.ndim != 1 || !lsi_file_array_is_int(&a) || a.kind == 'b' ||
        (a.kind == 'i' && a.size < 4))
        return lsi_fail(
            LS_ERR_FORMAT,
            "'%s' is an array of type %c%zu with %d dimensions; tokens must be "
            "a one-dimensional array of type u1, u2, u4, i4 or i8",
            f->path, a.kind, a.size, a.ndim);
    f->width = a.size;
    f->first = a.data;
    f->count = a.shape[0];
    return LS_OK;
}

static ls_status open_text(lsi_token_file *f, size_t width)
{
    LS_TRY(check_text(f));
    return open_raw(f, width);
}

/*
 * The first row that fits opens a file. Raw numbers may begin with any bytes,
 * so the raw rows are tried before the contents are examined.
 */
typedef struct source {
    ls_token_format format;
    bool raw; /* else it is unpacked */
    lsi_magic magic;
    const char *extension; /* "": any; NULL: only if the format is asked for */
    ls_status (*open)(lsi_token_file *f, size_t width);
    size_t width; /* bytes of a token; 0: given by the file */
} source;

static const source sources[] = {
    {LS_TOKENS_U16, true, LSI_MAGIC_NONE, ".u16", open_raw, 2},
    {LS_TOKENS_U32, true, LSI_MAGIC_NONE, ".u32", open_raw, 4},
    {LS_TOKENS_BYTES, true, LSI_MAGIC_NONE, NULL, open_raw, 1},
    {LS_TOKENS_LLMC, false, LSI_MAGIC_LLMC, "", open_llmc, 0},
    {LS_TOKENS_NPY, false, LSI_MAGIC_NPY, "", open_array, 0},
    {LS_TOKENS_LLMC, false, LSI_MAGIC_NONE, ".bin", open_llmc, 0},
    {LS_TOKENS_TEXT, false, LSI_MAGIC_NONE, "", open_text, 1},
};

enum { SOURCES = sizeof sources / sizeof sources[0] };

/* Of that format, or LS_TOKENS_BY_NAME; NULL if not found. */
static const source *find_source(const char *path, ls_token_format format,
                                 bool raw, lsi_magic magic)
{
    for (int i = 0; i < SOURCES; i++) {
        const source *const s = &sources[i];
        if (format == s->format ||
            (format == LS_TOKENS_BY_NAME && s->raw == raw &&
             s->magic == magic && s->extension != NULL &&
             lsi_has_extension(path, s->extension)))
            return s;
    }
    return NULL;
}

static ls_status interpret(lsi_token_file *f, const source *s)
{
    const lsi_magic magic = lsi_magic_of(f->records.data, f->records.bytes);
    if (s == NULL)
        s = find_source(f->path, LS_TOKENS_BY_NAME, false, magic);
    if (s != NULL)
        return s->open(f, s->width);
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s' is %s; tokens are read from text, .npy arrays, llm.c "
                    "files, and raw .u16 and .u32 files. To use each byte as a "
                    "token, give --format bytes",
                    f->path, lsi_magic_name(magic));
}

ls_status lsi_token_file_open(lsi_token_file *f, ls_token_format format)
{
    const source *const s = find_source(f->path, format, true, LSI_MAGIC_NONE);
    LS_TRY(s != NULL && s->raw ? lsi_records_map(&f->records, f->path)
                               : lsi_records_load(&f->records, f->path));
    const ls_status status = interpret(f, s);
    if (status != LS_OK)
        lsi_records_release(&f->records);
    return status;
}

/* ---- what they are ------------------------------------------------------- */

void ls_tokens_free(ls_tokens **tokens)
{
    if (tokens == NULL || *tokens == NULL)
        return;
    ls_tokens *const t = *tokens;
    for (int64_t i = 0; i < t->n_files; i++) {
        lsi_records_release(&t->files[i].records);
        lsi_free(t->files[i].path);
    }
    lsi_free(t->files);
    lsi_free(t);
    *tokens = NULL;
}

int64_t ls_tokens_count(const ls_tokens *tokens)
{
    return tokens != NULL ? tokens->count : 0;
}

bool ls_tokens_are_bytes(const ls_tokens *tokens)
{
    return tokens != NULL && tokens->files[0].width == 1;
}

/* ---- reading ------------------------------------------------------------- */

static int64_t token_at(const lsi_token_file *f, int64_t index)
{
    const uint8_t *place = f->first + (size_t)index * f->width;
    uint16_t half;
    int64_t wide;
    switch (f->width) {
    case 1:
        return *place;
    case 2:
        memcpy(&half, place, sizeof(half));
        return half;
    case 4:
        return word_at(place, 0);
    default:
        memcpy(&wide, place, sizeof(wide));
        return wide;
    }
}

/* `name` is for a file without a path: tokens in memory. */
static ls_status check_file(const lsi_token_file *f, const char *name,
                            int64_t vocabulary)
{
    if (f->width <= 2 && vocabulary >= INT64_C(1) << (8 * f->width))
        return LS_OK;
    for (int64_t i = 0; i < f->count; i++) {
        const int64_t token = token_at(f, i);
        if (token >= 0 && token < vocabulary)
            continue;
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s': token %" PRId64 " is %" PRId64
                        ", but the vocabulary has %" PRId64
                        " tokens; expected 0 to %" PRId64,
                        f->path != NULL ? f->path : name, i, token, vocabulary,
                        vocabulary - 1);
    }
    return LS_OK;
}

ls_status ls_tokens_check(const ls_tokens *tokens, int64_t vocabulary)
{
    LS_NEED(tokens);
    for (int64_t i = 0; i < tokens->n_files; i++)
        LS_TRY(check_file(&tokens->files[i], tokens->name, vocabulary));
    return LS_OK;
}

/* The file of a token. */
static const lsi_token_file *file_of(const ls_tokens *t, int64_t index)
{
    int64_t low = 0, high = t->n_files;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (t->files[middle].begin <= index)
            low = middle;
        else
            high = middle;
    }
    return &t->files[low];
}

ls_status ls_tokens_read(const ls_tokens *tokens, int64_t begin, int64_t *out,
                         size_t n)
{
    LS_NEED(tokens);
    if (n > 0)
        LS_NEED(out);
    if (begin < 0 || begin > tokens->count ||
        n > (uint64_t)(tokens->count - begin))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "'%s': cannot read %zu tokens from token %" PRId64
                        " on; the data has %" PRId64 " tokens",
                        tokens->name, n, begin, tokens->count);
    if (n == 0)
        return LS_OK;
    const lsi_token_file *f = file_of(tokens, begin);
    int64_t at = begin - f->begin;
    for (size_t i = 0; i < n; i++, at++) {
        while (at == f->count) {
            f++;
            at = 0;
        }
        out[i] = token_at(f, at);
    }
    return LS_OK;
}

static ls_status check_batch(const ls_tokens *tokens, const ls_token_batch *b)
{
    if (b->begin < 0 || b->end < b->begin || b->end > tokens->count)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "'%s': cannot draw a batch from tokens %" PRId64
                        " to %" PRId64 "; the data has %" PRId64 " tokens",
                        tokens->name, b->begin, b->end, tokens->count);
    if (b->length < 1 || b->end - b->begin <= b->length)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "'%s': %" PRId64
                        " tokens are too few for sequences of %" PRId64
                        " tokens; at least one more token than the sequence "
                        "length is needed",
                        tokens->name, b->end - b->begin, b->length);
    return LS_OK;
}

ls_status ls_tokens_batch(const ls_tokens *tokens, const ls_token_batch *batch,
                          int64_t *inputs, int64_t *targets)
{
    ls_token_batch own;
    const ls_token_batch *const b = &own;
    LS_NEED(tokens, batch);
    LS_TRY(LSI_STRUCT_READ(&own, batch, ls_token_batch, rank));
    if (b->rows > 0) {
        LS_NEED(inputs, targets);
    }
    const lsi_rng_key key = {.seed = b->seed, .stream = batch_stream};
    LS_TRY(check_batch(tokens, b));
    const uint64_t places = (uint64_t)(b->end - b->begin - b->length);
    for (int64_t r = 0; r < b->rows; r++) {
        const uint64_t row =
            (uint64_t)b->rank * (uint64_t)b->rows + (uint64_t)r;
        const int64_t first =
            b->begin + (int64_t)lsi_rng_below(key, b->step, row, places);
        LS_TRY(ls_tokens_read(tokens, first, inputs + r * b->length,
                              (size_t)b->length));
        LS_TRY(ls_tokens_read(tokens, first + 1, targets + r * b->length,
                              (size_t)b->length));
    }
    return LS_OK;
}
