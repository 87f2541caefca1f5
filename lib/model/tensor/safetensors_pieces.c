/*
 * Reading a tensor of a file in pieces of bounded size. If the file has the
 * elements in another order than memory, the whole tensor is read first.
 */
#include <string.h>

#include "array/compute/array.h"
#include "array/compute/copy.h"
#include "base/error.h"
#include "base/memory.h"
#include "model/tensor/safetensors.h"
#include "model/tensor/tensor.h"

enum { PIECE_BYTES = 1 << 22 };

/* A tensor as rows: slices of its outermost dimension in memory. */
typedef struct reading {
    const lsi_safetensors_file *file;
    const lsi_safetensors_entry *entry;
    ls_dtype stored, wanted;
    int ndim;
    int64_t shape[LS_MAX_DIMS];
    size_t row;         /* elements of a row */
    size_t most;        /* rows of a piece */
    ls_tensor *whole;   /* NULL: the file has the order of memory */
    lsi_strided from;   /* of `whole`, its dimensions in memory's order */
    void *raw, *values; /* room for a piece, as stored and as wanted */
} reading;

/* ---- the order ----------------------------------------------------------- */

/* The dimensions of a view from the outermost in memory to the innermost. */
static void sort_dims(const ls_tensor *view, int dims[LS_MAX_DIMS])
{
    for (int d = 0; d < view->ndim; d++) {
        int at = d;
        for (; at > 0 && view->strides[dims[at - 1]] < view->strides[d]; at--)
            dims[at] = dims[at - 1];
        dims[at] = d;
    }
}

static ls_status read_whole(reading *r, const ls_tensor *view)
{
    int dims[LS_MAX_DIMS];
    const lsi_safetensors_entry *const e = r->entry;
    LS_TRY(ls_tensor_new(&r->whole, r->stored, view->ndim, view->shape));
    LS_TRY(lsi_safetensors_read(r->file, e, 0, lsi_tensor_raw(r->whole),
                                (size_t)(e->end - e->begin)));
    sort_dims(view, dims);
    r->ndim = view->ndim;
    r->from =
        (lsi_strided){.data = lsi_tensor_raw(r->whole), .dtype = r->stored};
    for (int d = 0; d < view->ndim; d++) {
        r->shape[d] = view->shape[dims[d]];
        r->from.strides[d] = r->whole->strides[dims[d]];
    }
    return LS_OK;
}

static ls_status begin(reading *r, const ls_tensor *view)
{
    if (ls_tensor_is_contiguous(view)) {
        r->ndim = 1;
        r->shape[0] = view->count;
    } else {
        LS_TRY(read_whole(r, view));
    }
    r->row = (size_t)(view->count / r->shape[0]);
    r->most = PIECE_BYTES / ls_dtype_size(r->wanted) / r->row;
    r->most = r->most > 0 ? r->most : 1;
    if (r->most > (size_t)r->shape[0])
        r->most = (size_t)r->shape[0];
    const size_t elements = r->most * r->row;
    const char *const what = "a piece of a tensor";
    if (r->whole == NULL && r->stored != r->wanted)
        LS_TRY(lsi_alloc(&r->raw, elements * ls_dtype_size(r->stored),
                         LS_MEMORY_OTHER, what));
    return lsi_alloc(&r->values, elements * ls_dtype_size(r->wanted),
                     LS_MEMORY_OTHER, what);
}

/* ---- pieces -------------------------------------------------------------- */

static ls_status read_rows(const reading *r, size_t first, size_t n)
{
    const size_t size = ls_dtype_size(r->stored), count = n * r->row;
    void *const to = r->raw != NULL ? r->raw : r->values;
    LS_TRY(lsi_safetensors_read(r->file, r->entry, first * r->row * size, to,
                                count * size));
    if (r->raw != NULL)
        lsi_array_convert(r->values, r->wanted, r->raw, r->stored, count);
    return LS_OK;
}

static void copy_rows(const reading *r, size_t first, size_t n)
{
    int64_t shape[LS_MAX_DIMS], strides[LS_MAX_DIMS];
    memcpy(shape, r->shape, sizeof shape);
    shape[0] = (int64_t)n;
    lsi_shape_strides(r->ndim, shape, strides);
    const lsi_strided to =
        lsi_strided_of(r->values, r->wanted, r->ndim, strides);
    lsi_strided from = r->from;
    from.data = (unsigned char *)from.data +
                first * (size_t)from.strides[0] * ls_dtype_size(r->stored);
    lsi_copy_strided(&to, &from, r->ndim, shape);
}

static ls_status pass_rows(const reading *r, lsi_range needed,
                           lsi_safetensors_piece_fn *fn, void *context)
{
    const size_t end = (needed.end + r->row - 1) / r->row;
    for (size_t at = needed.begin / r->row; at < end; at += r->most) {
        const size_t n = end - at < r->most ? end - at : r->most;
        if (r->whole != NULL)
            copy_rows(r, at, n);
        else
            LS_TRY(read_rows(r, at, n));
        LS_TRY(fn(context, (lsi_range){at * r->row, (at + n) * r->row},
                  r->values));
    }
    return LS_OK;
}

ls_status lsi_safetensors_pieces(const lsi_safetensors_file *file,
                                 const ls_named_tensor *wanted,
                                 lsi_range needed, lsi_safetensors_piece_fn *fn,
                                 void *context)
{
    const ls_tensor *const view = wanted->tensor;
    reading r = {.file = file,
                 .entry = lsi_safetensors_find(file, wanted->name),
                 .wanted = view->dtype};
    if (needed.begin >= needed.end)
        return LS_OK;
    r.stored = lsi_safetensors_stored(r.entry, view->dtype);
    ls_status status = begin(&r, view);
    if (status == LS_OK)
        status = pass_rows(&r, needed, fn, context);
    ls_tensor_free(&r.whole);
    lsi_free(r.raw);
    lsi_free(r.values);
    return status;
}
