/* Storages: reference-counted memory: owned, wrapped, pooled. */
#include <assert.h>

#include "base/error.h"
#include "base/memory.h"
#include "model/tensor/tensor.h"

static ls_status allocate_bytes(lsi_pool *pool, size_t bytes, ls_memory_tag tag,
                                void **out)
{
    if (pool != NULL)
        return lsi_pool_take(pool, bytes, "a tensor", out);
    return lsi_alloc(out, bytes, tag, "a tensor");
}

static void free_bytes(lsi_pool *pool, void *block, size_t bytes)
{
    if (pool != NULL)
        lsi_pool_give(pool, block, bytes);
    else
        lsi_free(block);
}

static ls_status new_header(lsi_storage **out, lsi_storage header)
{
    void *block;
    LS_TRY(
        lsi_pool_take_header(header.pool, sizeof header, "a tensor", &block));
    lsi_storage *storage = block;
    *storage = header;
    atomic_init(&storage->refs, 1);
    *out = storage;
    return LS_OK;
}

ls_status lsi_storage_new(lsi_storage **out, lsi_pool *pool, size_t bytes,
                          ls_memory_tag tag)
{
    lsi_storage header = {
        .kind = pool != NULL ? LSI_STORAGE_POOLED : LSI_STORAGE_OWNED,
        .tag = tag,
        .bytes = bytes,
        .pool = pool,
    };
    LS_TRY(allocate_bytes(pool, bytes, tag, &header.data));
    const ls_status status = new_header(out, header);
    if (status != LS_OK)
        free_bytes(pool, header.data, bytes);
    return status;
}

ls_status lsi_storage_wrap(lsi_storage **out, void *data, size_t bytes)
{
    return new_header(out, (lsi_storage){
                               .kind = LSI_STORAGE_WRAPPED,
                               .data = data,
                               .bytes = bytes,
                           });
}

lsi_storage *lsi_storage_retain(lsi_storage *storage)
{
    assert(atomic_load_explicit(&storage->refs, memory_order_relaxed) > 0);
    atomic_fetch_add_explicit(&storage->refs, 1, memory_order_relaxed);
    return storage;
}

void lsi_storage_release(lsi_storage *storage)
{
    if (storage == NULL ||
        atomic_fetch_sub_explicit(&storage->refs, 1, memory_order_acq_rel) > 1)
        return;
    lsi_storage_drop(storage, storage->data);
    if (storage->release != NULL)
        storage->release(storage->context);
    lsi_pool_give_header(storage->pool, storage, sizeof *storage);
}

ls_status lsi_storage_renew(lsi_storage *storage, void **old)
{
    void *fresh = NULL;
    assert(storage->kind == LSI_STORAGE_OWNED ||
           storage->kind == LSI_STORAGE_POOLED);
    LS_TRY(allocate_bytes(storage->pool, storage->bytes, storage->tag, &fresh));
    *old = storage->data;
    storage->data = fresh;
    return LS_OK;
}

void lsi_storage_drop(const lsi_storage *storage, void *data)
{
    if (storage->kind != LSI_STORAGE_WRAPPED)
        free_bytes(storage->pool, data, storage->bytes);
}
