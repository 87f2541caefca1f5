/*
 * Reading an audit file and comparing its entries. The first byte says whether
 * the lines get the digests that a writer would give them: a fuzzer finds none.
 */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "fuzz.h"
#include "model/audit/chain.h"
#include "model/audit/entry.h"

enum { MOST = 1 << 16 };

static char text[MOST];
static size_t used;

static void add(const char *line, size_t bytes)
{
    if (bytes > MOST - used)
        return;
    memcpy(text + used, line, bytes);
    used += bytes;
}

/* Appends the line with a digest; a line that is not an object as it is. */
static void seal(const char *line, size_t bytes, char *before)
{
    json_t *json = NULL;
    json_error_t error;
    char digest[LSI_SHA256_TEXT], *sealed;
    if (lsi_json_loadb(line, bytes, 0, &json, &error) != LS_OK ||
        !json_is_object(json) || json_object_size(json) == 0) {
        json_decref(json);
        add(line, bytes);
        return;
    }
    const bool branch = json_object_get(json, "run") != NULL ||
                        (json_object_get(json, "step") == NULL &&
                         json_object_get(json, "saved") != NULL);
    fuzz_demand(lsi_chain_seal(json, before, &sealed, digest) == LS_OK);
    add(sealed, strlen(sealed));
    free(sealed);
    if (!branch)
        memcpy(before, digest, sizeof(digest));
}

static void seal_lines(const fuzz_input *in)
{
    char before[LSI_SHA256_TEXT] = "";
    const char *at = (const char *)in->data, *const end = at + in->size;
    while (at < end) {
        const char *const newline = memchr(at, '\n', (size_t)(end - at));
        const char *const next = newline != NULL ? newline + 1 : end;
        seal(at, (size_t)(next - at), before);
        at = next;
    }
}

static void compare(const lsi_chain *chain)
{
    lsi_difference difference;
    for (size_t i = 1; i < chain->n; i++) {
        json_t *const one = lsi_chain_json(&chain->lines[i - 1]);
        json_t *const other = lsi_chain_json(&chain->lines[i]);
        (void)lsi_entry_equal(one, other, &difference);
        fuzz_demand(lsi_entry_equal(one, one, &difference));
        fuzz_demand(lsi_chain_find(chain, chain->lines[i].step) != NULL ||
                    chain->lines[i].kind == LSI_CHAIN_RUN);
        json_decref(one);
        json_decref(other);
    }
    fuzz_demand(strlen(lsi_chain_digest(chain, chain->n)) ==
                LSI_SHA256_TEXT - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    lsi_chain chain;
    used = 0;
    if (fuzz_byte(&in) % 2 == 0)
        seal_lines(&in);
    else
        add((const char *)in.data, in.size);
    if (fuzz_ok(
            lsi_chain_read(fuzz_file((const uint8_t *)text, used), &chain))) {
        compare(&chain);
        lsi_chain_close(&chain);
    }
    return 0;
}
