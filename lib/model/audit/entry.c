/* Entries of an audit file; see entry.h. */
#include "model/audit/entry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

enum { TENSOR_DIGITS = 16, BLOCK_DIGITS = 8 };

json_t *lsi_entry_pairs(const char *const *pairs)
{
    json_t *const object = json_object();
    for (; object != NULL && pairs != NULL && pairs[0] != NULL; pairs += 2)
        if (json_object_set_new(object, pairs[0], json_string(pairs[1])) != 0) {
            json_decref(object);
            return NULL;
        }
    return object;
}

static json_t *tensor_json(const lsi_state_tensor *tensor)
{
    char own[TENSOR_DIGITS + 1];
    char blocks[LSI_STATE_BLOCKS * BLOCK_DIGITS + 1] = "";
    lsi_sha256_text(tensor->digest, TENSOR_DIGITS / 2, own);
    for (size_t b = 0; b < tensor->blocks; b++)
        lsi_sha256_text(tensor->block[b], BLOCK_DIGITS / 2,
                        blocks + b * BLOCK_DIGITS);
    return json_pack("[I, s, s]", (json_int_t)tensor->count, own, blocks);
}

static json_t *tensors_json(const lsi_state_digest *digest)
{
    size_t n;
    const lsi_state_tensor *const all = lsi_state_digest_tensors(digest, &n);
    json_t *const object = json_object();
    for (size_t i = 0; object != NULL && i < n; i++)
        if (json_object_set_new(object, all[i].name, tensor_json(&all[i])) !=
            0) {
            json_decref(object);
            return NULL;
        }
    return object;
}

ls_status lsi_entry_new(const lsi_state_digest *digest, const char *key,
                        int64_t step, const char *const *values, json_t **out)
{
    char root[LSI_SHA256_TEXT];
    lsi_sha256_text(lsi_state_digest_root(digest), LSI_SHA256_BYTES, root);
    *out = json_pack("{s:I, s:o, s:s, s:o}", key, (json_int_t)step, "values",
                     lsi_entry_pairs(values), "state", root, "tensors",
                     tensors_json(digest));
    return *out != NULL
               ? LS_OK
               : lsi_fail(LS_ERR_MEMORY, "not enough memory for an audit entry "
                                         "(or a name that is not UTF-8)");
}

/* ---- differences --------------------------------------------------------- */

static const char *text_of(const json_t *object, const char *key)
{
    const char *const text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "missing";
}

/* The first name that only one has, or whose value differs; NULL: none. */
static const char *first_different(const json_t *one, const json_t *other)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)one, name, value)
    {
        if (!json_equal(value, json_object_get(other, name)))
            return name;
    }
    json_object_foreach((json_t *)(uintptr_t)other, name, value)
    {
        if (json_object_get(one, name) == NULL)
            return name;
    }
    return NULL;
}

bool lsi_entry_same_pairs(const json_t *one, const json_t *other,
                          const char *what, lsi_difference *out)
{
    const char *const name = first_different(one, other);
    if (name == NULL)
        return true;
    snprintf(out->text, sizeof(out->text), "%s '%s': '%s' and '%s'", what, name,
             text_of(one, name), text_of(other, name));
    return false;
}

bool lsi_entry_same_settings(const lsi_chain *chain, const json_t *settings,
                             lsi_difference *out)
{
    json_t *const header = lsi_chain_json(&chain->lines[0]);
    const bool same = lsi_entry_same_pairs(json_object_get(header, "settings"),
                                           settings, "setting", out);
    json_decref(header);
    return same;
}

/* Elements of each block, as state_digest.h defines it. */
static json_int_t block_elements(json_int_t count)
{
    json_int_t elements = LSI_LEAF;
    while (count > elements * LSI_STATE_BLOCKS)
        elements *= 2;
    return elements;
}

static void describe_tensor(const json_t *one, const json_t *other,
                            const char *name, lsi_difference *out)
{
    const json_t *const a = json_object_get(one, name);
    const json_t *const b = json_object_get(other, name);
    const json_int_t count = json_integer_value(json_array_get(a, 0));
    const char *x = json_string_value(json_array_get(a, 2));
    const char *y = json_string_value(json_array_get(b, 2));
    const json_int_t each = block_elements(count);
    json_int_t block = 0;
    if (a == NULL || b == NULL || x == NULL || y == NULL ||
        strlen(x) != strlen(y) ||
        !json_equal(json_array_get(a, 0), json_array_get(b, 0))) {
        snprintf(out->text, sizeof(out->text),
                 "tensor '%s' is missing on one side, or its shape differs",
                 name);
        return;
    }
    const char *const end = x + strlen(x) / BLOCK_DIGITS * BLOCK_DIGITS;
    for (; x < end && memcmp(x, y, BLOCK_DIGITS) == 0; y += BLOCK_DIGITS) {
        x += BLOCK_DIGITS;
        block++;
    }
    const json_int_t last =
        (block + 1) * each < count ? (block + 1) * each : count;
    snprintf(out->text, sizeof(out->text),
             "tensor '%s', block %" JSON_INTEGER_FORMAT
             " (elements %" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT ")",
             name, block, block * each, last - 1);
}

bool lsi_entry_equal(const json_t *one, const json_t *other,
                     lsi_difference *out)
{
    const json_t *const a = json_object_get(one, "tensors");
    const json_t *const b = json_object_get(other, "tensors");
    const char *const name = first_different(a, b);
    if (name != NULL) {
        describe_tensor(a, b, name, out);
        return false;
    }
    if (!lsi_entry_same_pairs(json_object_get(one, "values"),
                              json_object_get(other, "values"), "value", out))
        return false;
    if (strcmp(text_of(one, "state"), text_of(other, "state")) == 0)
        return true;
    snprintf(out->text, sizeof(out->text),
             "the digest of the state, but no tensor's");
    return false;
}
