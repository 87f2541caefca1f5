/*
 * DLPack in and out. An imported tensor is wrapped memory, which its deleter
 * releases. An exported tensor is a view of the tensor, which the deleter
 * frees.
 *
 * The layout of the structs is that of DLPack's specification, version 1:
 * https://dmlc.github.io/dlpack/latest/c_api.html
 */
#include "lockstep/dlpack.h"

#include "base/error.h"
#include "base/memory.h"
#include "model/tensor/tensor.h"

_Static_assert(offsetof(ls_dlpack, deleter) == 16 &&
                   offsetof(ls_dlpack, flags) == 24 &&
                   offsetof(ls_dlpack, tensor) == 32 &&
                   offsetof(ls_dlpack_tensor, shape) == 24 &&
                   sizeof(ls_dlpack_tensor) == 48,
               "the structs of DLPack");

typedef struct dlpack_type {
    uint8_t code, bits;
    ls_dtype dtype;
} dlpack_type;

static const dlpack_type types[] = {
    {LS_DLPACK_FLOAT, 32, LS_F32},   {LS_DLPACK_FLOAT, 16, LS_F16},
    {LS_DLPACK_BFLOAT, 16, LS_BF16}, {LS_DLPACK_INT, 32, LS_I32},
    {LS_DLPACK_INT, 64, LS_I64},     {LS_DLPACK_UINT, 8, LS_U8},
};
enum { TYPES = sizeof types / sizeof types[0] };

/* ---- from another library ------------------------------------------------ */

static ls_status check_kind(const ls_dlpack *from)
{
    if (from->major != 1)
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "ls_tensor_from_dlpack: DLPack version %u.%u is not "
                        "supported; it must be 1.x",
                        from->major, from->minor);
    if (from->tensor.device_type != LS_DLPACK_CPU)
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "ls_tensor_from_dlpack: the tensor is on a device of "
                        "type %d, not on the CPU (1); copy it there first",
                        (int)from->tensor.device_type);
    if ((from->flags & LS_DLPACK_READ_ONLY) != 0)
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "ls_tensor_from_dlpack: the tensor is read-only; make "
                        "a writable copy of it first");
    return LS_OK;
}

static ls_status dtype_of(const ls_dlpack_tensor *from, ls_dtype *out)
{
    for (int i = 0; i < TYPES; i++) {
        if (types[i].code == from->type_code &&
            types[i].bits == from->type_bits && from->type_lanes == 1) {
            *out = types[i].dtype;
            return LS_OK;
        }
    }
    return lsi_fail(LS_ERR_DTYPE,
                    "ls_tensor_from_dlpack: an element type with code %u, %u "
                    "bits and %u lanes is not supported; it must be f32, bf16, "
                    "f16, i32, i64 or u8, with 1 lane",
                    from->type_code, from->type_bits, from->type_lanes);
}

static ls_status data_of(const ls_dlpack_tensor *from, ls_dtype dtype,
                         void **out)
{
    char *data = from->data;
    if (data != NULL)
        data += from->byte_offset;
    if ((uintptr_t)data % ls_dtype_size(dtype) != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_tensor_from_dlpack: the elements of dtype %s are "
                        "not aligned to %zu bytes",
                        ls_dtype_name(dtype), ls_dtype_size(dtype));
    *out = data;
    return LS_OK;
}

static void delete_managed(void *context)
{
    const ls_dlpack *from = context;
    if (from->deleter != NULL)
        from->deleter(context);
}

ls_status ls_tensor_from_dlpack(ls_tensor **out,
                                struct DLManagedTensorVersioned *managed)
{
    const ls_dlpack *from = (const ls_dlpack *)managed;
    ls_dtype dtype = LS_F32;
    void *data = NULL;
    LS_NEED(out);
    LS_NEED(managed);
    LS_TRY(check_kind(from));
    LS_TRY(dtype_of(&from->tensor, &dtype));
    LS_TRY(data_of(&from->tensor, dtype, &data));
    const ls_wrap_options options = {.struct_size = sizeof(options),
                                     .strides = from->tensor.strides,
                                     .release = delete_managed,
                                     .context = managed};
    return ls_tensor_wrap(out, data, dtype, from->tensor.ndim,
                          from->tensor.shape, &options);
}

/* ---- for another library ------------------------------------------------- */

typedef struct exported {
    ls_dlpack managed; /* first: the deleter gets its address */
    ls_tensor *view;
} exported;

static void delete_exported(struct DLManagedTensorVersioned *self)
{
    exported *e = (exported *)self;
    if (e == NULL)
        return;
    ls_tensor_free(&e->view);
    lsi_free(e);
}

static dlpack_type type_of(ls_dtype dtype)
{
    int i = 0;
    while (i + 1 < TYPES && types[i].dtype != dtype)
        i++;
    return types[i];
}

/* The shape and the strides are those of the view, which it owns. */
static ls_dlpack describe(ls_tensor *view)
{
    const dlpack_type type = type_of(view->dtype);
    return (ls_dlpack){
        .major = 1,
        .deleter = delete_exported,
        .tensor = {.data = view->count > 0 ? lsi_tensor_raw(view) : NULL,
                   .device_type = LS_DLPACK_CPU,
                   .ndim = view->ndim,
                   .type_code = type.code,
                   .type_bits = type.bits,
                   .type_lanes = 1,
                   .shape = view->shape,
                   .strides = view->strides},
    };
}

ls_status ls_tensor_to_dlpack(ls_tensor *tensor,
                              struct DLManagedTensorVersioned **out)
{
    exported *e = NULL;
    ls_tensor *view = NULL;
    LS_NEED_TENSOR(tensor);
    LS_NEED(out);
    LS_TRY(lsi_tensor_check_address(tensor, "ls_tensor_to_dlpack"));
    LS_TRY(lsi_tensor_alias(tensor, NULL, &view));
    const ls_status status =
        lsi_alloc(&e, sizeof *e, LS_MEMORY_OTHER, "a DLPack tensor");
    if (status != LS_OK) {
        ls_tensor_free(&view);
        return status;
    }
    *e = (exported){describe(view), view};
    e->managed.manager_ctx = e;
    *out = (struct DLManagedTensorVersioned *)e;
    return LS_OK;
}
