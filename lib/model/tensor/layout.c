/* Changing the order in which a storage holds an image; see tensor.h. */
#include <string.h>

#include "base/error.h"
#include "model/tensor/tensor.h"

static ls_status reorder(const ls_tensor *tensor, void *dst,
                         lsi_layout dst_layout, const void *src,
                         lsi_layout src_layout)
{
    if (tensor->count == 0)
        return LS_OK;
    return lsi_reorder(dst, dst_layout, src, src_layout, tensor->dtype,
                       tensor->shape);
}

ls_status lsi_tensor_plain(const ls_tensor *tensor)
{
    lsi_storage *storage = tensor->storage;
    if (storage->layout == LSI_LAYOUT_PLAIN)
        return LS_OK;
    void *old = NULL;
    LS_TRY(lsi_storage_renew(storage, &old));
    const ls_status status =
        reorder(tensor, storage->data, LSI_LAYOUT_PLAIN, old, storage->layout);
    if (status != LS_OK) { /* leave it as it was */
        void *fresh = storage->data;
        storage->data = old;
        lsi_storage_drop(storage, fresh);
        return status;
    }
    storage->layout = LSI_LAYOUT_PLAIN;
    lsi_storage_drop(storage, old);
    return LS_OK;
}

static _Thread_local uint64_t uses;

uint64_t lsi_tensor_uses(void)
{
    return uses;
}

void lsi_tensor_used(void)
{
    uses++;
}

static ls_status check(const ls_tensor *tensor, const char *function,
                       bool in_pass)
{
    LS_TRY(lsi_tensor_check_allocated(tensor, function));
    lsi_supply *const supply = tensor->storage->supply;
    return supply == NULL ? LS_OK : supply->provide(supply, in_pass);
}

ls_status lsi_tensor_check_memory(const ls_tensor *tensor, const char *function)
{
    return check(tensor, function, false);
}

ls_status lsi_tensor_check_input(const ls_tensor *tensor, const char *function)
{
    return check(tensor, function, true);
}

ls_status lsi_tensor_check_address(const ls_tensor *tensor,
                                   const char *function)
{
    LS_TRY(lsi_tensor_check_allocated(tensor, function));
    const lsi_supply *const supply = tensor->storage->supply;
    if (supply != NULL)
        LS_TRY(supply->check_stay(supply, function));
    return lsi_tensor_check_memory(tensor, function);
}

lsi_range lsi_tensor_kept(const ls_tensor *tensor)
{
    const lsi_supply *const supply = tensor->storage->supply;
    const lsi_range all = {0, (size_t)tensor->count};
    return supply != NULL ? lsi_range_common(all, supply->kept(supply)) : all;
}

ls_status lsi_tensor_check_allocated(const ls_tensor *tensor,
                                     const char *function)
{
    if (tensor->storage != NULL)
        return LS_OK;
    return lsi_fail(LS_ERR_STATE,
                    "%s: the parameter of shape %s has no memory yet; call "
                    "ls_params_allocate first",
                    function, lsi_shape_of(tensor).text);
}

/*
 * The tensor gets a separate storage, since views of the plain one may exist.
 */
ls_status lsi_tensor_set_layout(ls_tensor *tensor, lsi_layout layout)
{
    lsi_storage *old = tensor->storage;
    if (old->layout == layout)
        return LS_OK;
    if (layout == LSI_LAYOUT_PLAIN)
        return lsi_tensor_plain(tensor);
    lsi_storage *fresh = NULL;
    LS_TRY(lsi_storage_new(&fresh, tensor->pool,
                           (size_t)tensor->count * ls_dtype_size(tensor->dtype),
                           old->tag));
    const ls_status status = reorder(tensor, fresh->data, layout,
                                     lsi_tensor_raw(tensor), old->layout);
    if (status != LS_OK) {
        lsi_storage_release(fresh);
        return status;
    }
    fresh->layout = layout;
    tensor->storage = fresh;
    tensor->offset = 0;
    lsi_storage_release(old);
    return LS_OK;
}
