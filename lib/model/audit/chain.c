/* Audit files; see chain.h. */
#include "model/audit/chain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"

static const char tail[] = ",\"digest\":\"";

enum {
    TAIL = sizeof(tail) - 1,
    DIGITS = LSI_SHA256_TEXT - 1,
    END = TAIL + DIGITS + 3 /* bytes of ,"digest":"..."} and a newline */
};

static const uint64_t most_bytes = UINT64_C(16) << 30;

static void digest_of(const char *before, const char *text, size_t bytes,
                      char out[LSI_SHA256_TEXT])
{
    unsigned char digest[LSI_SHA256_BYTES];
    const lsi_sha256_piece pieces[] = {{before, strlen(before)}, {text, bytes}};
    lsi_sha256(pieces, 2, digest);
    lsi_sha256_text(digest, LSI_SHA256_BYTES, out);
}

ls_status lsi_chain_seal(json_t *object, const char *before, char **line,
                         char digest[LSI_SHA256_TEXT])
{
    char *const text =
        object != NULL ? lsi_json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (text == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for an audit entry");
    const size_t bytes = strlen(text) - 1; /* without the brace */
    digest_of(before, text, bytes, digest);
    const int length =
        asprintf(line, "%.*s%s%s\"}\n", (int)bytes, text, tail, digest);
    free(text);
    return length >= 0 ? LS_OK
                       : lsi_fail(LS_ERR_MEMORY,
                                  "not enough memory for an audit entry");
}

/* ---- reading ------------------------------------------------------------- */

/* The state of a reader between two lines. */
typedef struct reader {
    const char *path;
    lsi_chain *chain;
    size_t capacity;
    char before[LSI_SHA256_TEXT]; /* digest of the chain's last line */
    int64_t step; /* of the last entry or checkpoint; -1: none */
} reader;

static ls_status fail_line(const reader *r, const char *what)
{
    return lsi_fail(LS_ERR_FORMAT, "'%s', line %zu: %s", r->path,
                    r->chain->n + 1, what);
}

/* Finds out what the line is. LS_ERR_FORMAT if it fits nowhere. */
static ls_status classify(const reader *r, const json_t *json,
                          lsi_chain_line *line)
{
    const json_t *const step = json_object_get(json, "step");
    const json_t *const saved = json_object_get(json, "saved");
    const size_t n = r->chain->n;
    const json_t *const format = json_object_get(json, "lockstep audit");
    if ((format != NULL) != (n == 0))
        return fail_line(r, n == 0 ? "not the header of an audit file"
                                   : "a second header");
    line->step = r->step + 1;
    if (format != NULL) {
        line->kind = LSI_CHAIN_HEADER;
        return json_integer_value(format) == 1
                   ? LS_OK
                   : fail_line(r, "the format is of another version; this "
                                  "version of Lockstep reads version 1");
    }
    line->kind = step != NULL ? LSI_CHAIN_ENTRY : LSI_CHAIN_SAVED;
    if (json_object_get(json, "run") != NULL) {
        line->kind = LSI_CHAIN_RUN;
        return LS_OK;
    }
    if (n == 1)
        return fail_line(r, "the line 'run' of the first run is missing");
    line->step = json_integer_value(step != NULL ? step : saved);
    if (!json_is_integer(step != NULL ? step : saved) || line->step <= r->step)
        return fail_line(r, "its step does not follow the step before; lines "
                            "were moved, or removed");
    return LS_OK;
}

static ls_status add_line(reader *r, lsi_chain_line line)
{
    lsi_chain *const c = r->chain;
    if (c->n == r->capacity) {
        const size_t more = 2 * r->capacity + 64;
        LS_TRY(lsi_alloc_larger(&c->lines, c->n * sizeof(line),
                                more * sizeof(line), LS_MEMORY_OTHER,
                                "the lines of an audit file"));
        r->capacity = more;
    }
    c->lines[c->n++] = line;
    if (line.kind == LSI_CHAIN_ENTRY || line.kind == LSI_CHAIN_SAVED)
        r->step = line.step;
    if (line.kind == LSI_CHAIN_ENTRY || line.kind == LSI_CHAIN_HEADER)
        memcpy(r->before, line.digest, sizeof(r->before));
    return LS_OK;
}

static ls_status read_line(reader *r, const char *text, size_t bytes)
{
    lsi_chain_line line = {.text = text, .bytes = bytes};
    char digest[LSI_SHA256_TEXT];
    json_error_t error;
    json_t *json;
    if (bytes < END || memcmp(text + bytes - END, tail, TAIL) != 0)
        return fail_line(r, "it does not end with a digest");
    digest_of(r->before, text, bytes - END, digest);
    memcpy(line.digest, text + bytes - END + TAIL, DIGITS);
    if (strcmp(digest, line.digest) != 0 ||
        memcmp(text + bytes - 3, "\"}\n", 3) != 0)
        return fail_line(r, "its digest does not fit this line and the entry "
                            "before; a line was changed, removed or moved");
    const ls_status parsed =
        lsi_json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &json, &error);
    if (parsed == LS_ERR_FORMAT)
        return fail_line(r, error.text);
    LS_TRY(parsed);
    const ls_status status = classify(r, json, &line);
    json_decref(json);
    return status == LS_OK ? add_line(r, line) : status;
}

static ls_status read_lines(reader *r, size_t bytes)
{
    const char *at = r->chain->text, *const end = at + bytes;
    for (const char *newline;
         (newline = memchr(at, '\n', (size_t)(end - at))) != NULL;
         at = newline + 1)
        LS_TRY(read_line(r, at, (size_t)(newline + 1 - at)));
    r->chain->unfinished = (size_t)(end - at);
    return r->chain->n > 0 ? LS_OK
                           : lsi_fail(LS_ERR_FORMAT,
                                      "'%s' is not an audit file: it has no "
                                      "whole line",
                                      r->path);
}

ls_status lsi_chain_read(const char *path, lsi_chain *out)
{
    size_t bytes;
    *out = (lsi_chain){0};
    reader r = {.path = path, .chain = out, .step = -1};
    if (!lsi_sha256_is_there())
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "this build of Lockstep has no SHA-256, which audit "
                        "files need. Install nettle (Debian: nettle-dev) and "
                        "build again with -DLOCKSTEP_NETTLE=ON");
    LS_TRY(lsi_read_regular(path, most_bytes, &out->text, &bytes));
    const ls_status status = read_lines(&r, bytes);
    if (status != LS_OK)
        lsi_chain_close(out);
    return status;
}

void lsi_chain_close(lsi_chain *chain)
{
    lsi_free(chain->lines);
    lsi_free(chain->text);
    *chain = (lsi_chain){0};
}

json_t *lsi_chain_json(const lsi_chain_line *line)
{
    json_error_t error;
    json_t *json = NULL;
    (void)lsi_json_loadb(line->text, line->bytes, 0, &json, &error);
    return json;
}

const lsi_chain_line *lsi_chain_find(const lsi_chain *chain, int64_t step)
{
    for (size_t i = chain->n; i-- > 0;) {
        const lsi_chain_line *const line = &chain->lines[i];
        if (line->step == step &&
            (line->kind == LSI_CHAIN_ENTRY || line->kind == LSI_CHAIN_SAVED))
            return line;
    }
    return NULL;
}

const char *lsi_chain_digest(const lsi_chain *chain, size_t upto)
{
    size_t i = upto - 1;
    while (i > 0 && chain->lines[i].kind != LSI_CHAIN_ENTRY)
        i--;
    return chain->lines[i].digest;
}
