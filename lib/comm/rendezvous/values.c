#include "comm/rendezvous/values.h"

#include <search.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

/* Key and value in one block; the key comes first. */
typedef struct stored {
    lsi_store_value value;
    const char *key;
    unsigned char bytes[];
} stored;

static int compare(const void *a, const void *b)
{
    return strcmp(((const stored *)a)->key, ((const stored *)b)->key);
}

static size_t size_of(const char *key, size_t bytes)
{
    return sizeof(stored) + strlen(key) + 1 + bytes;
}

static ls_status stored_new(const char *key, const void *data, size_t bytes,
                            stored **out)
{
    stored *made;
    const size_t key_bytes = strlen(key) + 1;
    LS_TRY(lsi_alloc(&made, size_of(key, bytes), LS_MEMORY_COMM,
                     "a value of the store"));
    memcpy(made->bytes, key, key_bytes);
    if (bytes > 0)
        memcpy(made->bytes + key_bytes, data, bytes);
    made->key = (const char *)made->bytes;
    made->value = (lsi_store_value){made->bytes + key_bytes, bytes};
    *out = made;
    return LS_OK;
}

/* tsearch's nodes begin with a pointer to their content. */
static stored **find(const lsi_store_values *values, const char *key)
{
    const stored wanted = {.key = key};
    void *const *root = &values->root;
    return tfind(&wanted, root, compare);
}

ls_status lsi_store_values_set(lsi_store_values *values, const char *key,
                               const void *data, size_t bytes)
{
    stored *made;
    stored **const old = find(values, key);
    const size_t less = old == NULL ? 0 : size_of(key, (*old)->value.bytes);
    if (values->bytes - less + size_of(key, bytes) > LSI_STORE_MOST_BYTES)
        return lsi_fail(
            LS_ERR_BUDGET,
            "the store is full: all values together can have at most %zu MiB",
            LSI_STORE_MOST_BYTES >> 20);
    LS_TRY(stored_new(key, data, bytes, &made));
    if (old != NULL) {
        lsi_free(*old);
        *old = made;
    } else if (tsearch(made, &values->root, compare) == NULL) {
        lsi_free(made);
        return lsi_fail(LS_ERR_MEMORY,
                        "not enough memory for a value of the store");
    }
    values->bytes += size_of(key, bytes) - less;
    return LS_OK;
}

const lsi_store_value *lsi_store_values_get(const lsi_store_values *values,
                                            const char *key)
{
    stored **const found = find(values, key);
    return found == NULL ? NULL : &(*found)->value;
}

void lsi_store_values_clear(lsi_store_values *values)
{
    tdestroy(values->root, lsi_free);
    *values = (lsi_store_values){.root = NULL};
}
