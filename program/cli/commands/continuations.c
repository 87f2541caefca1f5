/* The input and output of `lockstep generate`; see continuations.h. */
#include "cli/commands/continuations.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "lockstep/profile.h"

enum { MOST_PROMPTS = 1 << 16, MOST_BYTES = 1 << 30 };

/* ---- prompts as tokens --------------------------------------------------- */

static ls_status parse_bytes(const char *text, int64_t vocabulary,
                             lsi_continuation *out)
{
    for (; text[out->n_tokens] != '\0'; out->n_tokens++) {
        const unsigned char byte = (unsigned char)text[out->n_tokens];
        if (byte >= vocabulary)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "--prompt contains the byte %d, but the model's "
                            "tokens are only the bytes below %" PRId64,
                            byte, vocabulary);
        out->tokens[out->n_tokens] = byte;
    }
    return LS_OK;
}

static ls_status parse_numbers(const char *text, int64_t vocabulary,
                               lsi_continuation *out)
{
    for (const char *next = text;; next++) {
        char *end;
        errno = 0;
        const long long token = strtoll(next, &end, 10);
        if (end == next || errno != 0 || token < 0 || token >= vocabulary ||
            (*end != ',' && *end != '\0'))
            return lsi_fail(LS_ERR_ARGUMENT,
                            "this model has no tokenizer: give --prompt as "
                            "token numbers below %" PRId64
                            ", such as 464,3290, or give its tokenizer with "
                            "--tokenizer FILE",
                            vocabulary);
        out->tokens[out->n_tokens++] = token;
        if (*end == '\0')
            return LS_OK;
        next = end;
    }
}

static ls_status encode_text(const lsi_lm_model *m, const char *text,
                             lsi_continuation *out)
{
    int64_t *ids = NULL;
    size_t n = 0;
    void *block = NULL;
    LS_TRY(ls_tokenizer_encode(m->tokenizer, text, strlen(text),
                               LS_TOKENIZER_SPECIAL, &ids, &n));
    ls_status status =
        lsi_alloc(&block, n * sizeof *ids, LS_MEMORY_DATA, "the prompt");
    if (status == LS_OK && n > 0)
        memcpy(block, ids, n * sizeof *ids);
    out->tokens = block;
    for (size_t i = 0; i < n && status == LS_OK; i++)
        if (ids[i] >= m->vocabulary)
            status =
                lsi_fail(LS_ERR_ARGUMENT,
                         "the tokenizer encodes the prompt to token %" PRId64
                         ", but the model's tokens are below %" PRId64
                         ". Give the tokenizer that the model was trained with",
                         ids[i], m->vocabulary);
    ls_free(ids);
    out->n_tokens = (int64_t)n;
    return status == LS_OK && n == 0
               ? lsi_fail(LS_ERR_ARGUMENT, "the tokenizer finds no tokens in "
                                           "the prompt; give a longer --prompt")
               : status;
}

static ls_status parse_prompt(const lsi_lm_model *m, const char *text,
                              lsi_continuation *out)
{
    if (text[0] == '\0')
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--prompt is empty; give at least one character");
    if (m->tokenizer != NULL)
        return encode_text(m, text, out);
    LS_TRY(lsi_alloc(&out->tokens, strlen(text) * sizeof(int64_t),
                     LS_MEMORY_DATA, "the prompt"));
    return m->bytes ? parse_bytes(text, m->vocabulary, out)
                    : parse_numbers(text, m->vocabulary, out);
}

/* Doubles the room, so that the time is linear in the number of prompts. */
static ls_status grow(lsi_continuations *texts)
{
    const int64_t room = texts->room > 0 ? 2 * texts->room : 16;
    const size_t used = (size_t)texts->n * sizeof(lsi_continuation);
    const size_t bytes = (size_t)room * sizeof(lsi_continuation);
    LS_TRY(lsi_alloc_larger(&texts->items, used, bytes, LS_MEMORY_DATA,
                            "the prompts"));
    memset(&texts->items[texts->n], 0, bytes - used);
    texts->room = room;
    return LS_OK;
}

ls_status lsi_continuations_add(lsi_continuations *texts, const char *prompt)
{
    if (texts->n == texts->room)
        LS_TRY(grow(texts));
    return parse_prompt(texts->model, prompt, &texts->items[texts->n++]);
}

static ls_status add_lines(lsi_continuations *texts, const char *path,
                           char *text)
{
    for (char *line = text; *line != '\0';) {
        char *end = strchr(line, '\n');
        const bool last = end == NULL;
        if (!last)
            *end = '\0';
        if (texts->n == MOST_PROMPTS)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "'%s' contains more than %d prompts; divide the "
                            "prompts among several files",
                            path, (int)MOST_PROMPTS);
        if (line[0] == '\0')
            return lsi_fail(LS_ERR_ARGUMENT,
                            "'%s': line %" PRId64 " is empty; each line must "
                            "be a prompt",
                            path, texts->n + 1);
        LS_TRY(lsi_continuations_add(texts, line));
        line = last ? line + strlen(line) : end + 1;
    }
    return texts->n > 0
               ? LS_OK
               : lsi_fail(LS_ERR_ARGUMENT,
                          "'%s' is empty; each line must be a prompt", path);
}

ls_status lsi_continuations_read(lsi_continuations *texts, const char *path)
{
    char *text = NULL;
    size_t bytes;
    LS_TRY(lsi_read_regular(path, MOST_BYTES, &text, &bytes));
    const size_t length = strlen(text);
    const ls_status status =
        length == bytes
            ? add_lines(texts, path, text)
            : lsi_fail(LS_ERR_FORMAT,
                       "'%s' is not text: byte %zu is zero; each line must be "
                       "a prompt",
                       path, length);
    lsi_free(text);
    return status;
}

/* ---- writing ------------------------------------------------------------- */

/* An error ends the generation of texts that cannot be written. */
static ls_status flush(void)
{
    return fflush(stdout) == 0
               ? LS_OK
               : lsi_fail_errno(LS_ERR_IO, "cannot write to standard output");
}

/* At once if there is one text, else at the end. */
static ls_status put(const lsi_continuations *texts, lsi_continuation *t,
                     const char *bytes, size_t n)
{
    if (texts->n == 1) {
        fwrite(bytes, 1, n, stdout);
        return LS_OK;
    }
    if (t->bytes + n > t->capacity) {
        const size_t capacity = 2 * (t->bytes + n) + 64;
        LS_TRY(lsi_alloc_larger(&t->written, t->bytes, capacity, LS_MEMORY_DATA,
                                "a text"));
        t->capacity = capacity;
    }
    memcpy(t->written + t->bytes, bytes, n);
    t->bytes += n;
    return LS_OK;
}

static ls_status put_token(const lsi_continuations *texts, lsi_continuation *t,
                           int64_t token)
{
    char text[32];
    const char *more = text;
    size_t n = 1;
    if (t->decoder != NULL) {
        LS_TRY(ls_decoder_push(t->decoder, token, &more, &n));
    } else if (texts->model->bytes) {
        text[0] = (char)token;
    } else {
        n = (size_t)snprintf(text, sizeof text, "%s%" PRId64,
                             t->begun ? "," : "", token);
        t->begun = true;
    }
    return put(texts, t, more, n);
}

static lsi_range part_of(const lsi_continuations *texts, int rank)
{
    return lsi_partition((size_t)texts->n, (size_t)ls_group_size(texts->group),
                         (size_t)rank);
}

/* A prompt of numbers is not printed: its author knows it. */
ls_status lsi_continuations_begin(lsi_continuations *texts)
{
    const lsi_lm_model *m = texts->model;
    texts->own = part_of(texts, ls_group_rank(texts->group));
    for (size_t i = texts->own.begin; i < texts->own.end; i++) {
        lsi_continuation *t = &texts->items[i];
        if (m->tokenizer != NULL)
            LS_TRY(
                ls_decoder_new(&t->decoder, m->tokenizer, LS_TOKENIZER_PLAIN));
        for (int64_t k = 0;
             k < t->n_tokens && (m->bytes || m->tokenizer != NULL); k++)
            LS_TRY(put_token(texts, t, t->tokens[k]));
    }
    return flush();
}

ls_status lsi_continuations_emit(void *context, int64_t index, int64_t token)
{
    lsi_continuations *texts = context;
    LS_TRY(put_token(texts, &texts->items[index], token));
    return flush();
}

/* A line break inside a text would make two of it. */
static void print(const lsi_continuation *t)
{
    for (size_t i = 0; i < t->bytes; i++) {
        if (t->written[i] == '\n')
            fputs("\\n", stdout);
        else if (t->written[i] == '\\')
            fputs("\\\\", stdout);
        else
            putchar(t->written[i]);
    }
}

ls_status lsi_continuations_end(lsi_continuations *texts)
{
    for (size_t i = texts->own.begin; i < texts->own.end; i++) {
        lsi_continuation *t = &texts->items[i];
        const char *more = "";
        size_t n = 0;
        if (t->decoder == NULL)
            continue;
        LS_TRY(ls_decoder_finish(t->decoder, &more, &n));
        LS_TRY(put(texts, t, more, n));
    }
    return LS_OK;
}

static ls_status send(const lsi_continuations *texts, const lsi_continuation *t)
{
    const uint64_t bytes = t->bytes;
    LS_TRY(ls_send(texts->group, &bytes, sizeof(bytes), LS_U8, 0, 0));
    return ls_send(texts->group, t->written, t->bytes, LS_U8, 0, 0);
}

static ls_status receive(const lsi_continuations *texts, lsi_continuation *t,
                         int rank)
{
    uint64_t bytes;
    LS_TRY(ls_recv(texts->group, &bytes, sizeof(bytes), LS_U8, rank, 0));
    LS_TRY(lsi_alloc(&t->written, bytes, LS_MEMORY_DATA, "a text"));
    t->bytes = bytes;
    return ls_recv(texts->group, t->written, t->bytes, LS_U8, rank, 0);
}

static ls_status print_rank(const lsi_continuations *texts, int rank)
{
    const lsi_range part = part_of(texts, rank);
    for (size_t i = part.begin; i < part.end; i++) {
        lsi_continuation *const t = &texts->items[i];
        if (rank > 0)
            LS_TRY(receive(texts, t, rank));
        print(t);
        putchar('\n');
        lsi_free(t->written);
        t->written = NULL;
    }
    return LS_OK;
}

ls_status lsi_continuations_print(lsi_continuations *texts)
{
    if (ls_group_rank(texts->group) == 0) {
        for (int r = 0; r < ls_group_size(texts->group); r++)
            LS_TRY(print_rank(texts, r));
        return flush();
    }
    for (size_t i = texts->own.begin; i < texts->own.end; i++)
        LS_TRY(send(texts, &texts->items[i]));
    return LS_OK;
}

void lsi_continuations_free(lsi_continuations *texts)
{
    for (int64_t i = 0; i < texts->n; i++) {
        lsi_free(texts->items[i].tokens);
        lsi_free(texts->items[i].written);
        ls_decoder_free(&texts->items[i].decoder);
    }
    lsi_free(texts->items);
}
