/*
 * A tensor as text, rows in brackets and columns below each other:
 *
 *     f32 (2, 3)
 *     [[0, 0.5,  1],
 *      [9, -10, 11]]
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "array/compute/array.h"
#include "base/error.h"
#include "model/tensor/tensor.h"

enum {
    MOST_ELEMENTS = 1000, /* a tensor of more elements is abridged */
    EDGE = 3              /* elements shown at each end of a long dimension */
};

typedef struct printer {
    const ls_tensor *tensor;
    bool skips;    /* omits the middle of long dimensions */
    bool measures; /* measures elements instead of printing them */
    int width;     /* width of the widest element */
    char *text;
    size_t size, length; /* room, and what all of it has */
} printer;

__attribute__((format(printf, 2, 3))) static void put(printer *p,
                                                      const char *format, ...)
{
    const size_t used = p->length < p->size ? p->length : p->size;
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(p->size > 0 ? p->text + used : NULL, p->size - used,
                            format, args);
    va_end(args);
    p->length += n > 0 ? (size_t)n : 0;
}

/* ---- elements ------------------------------------------------------------ */

static int format_element(const ls_tensor *tensor, int64_t offset, char *text,
                          size_t size)
{
    const size_t bytes = ls_dtype_size(tensor->dtype);
    const char *element =
        (const char *)lsi_tensor_raw(tensor) + (size_t)offset * bytes;
    if (!lsi_dtype_is_integer(tensor->dtype)) {
        double value = 0;
        lsi_array_convert(&value, LS_F64, element, tensor->dtype, 1);
        return snprintf(text, size, "%.6g", value);
    }
    int64_t value = 0;
    lsi_array_convert(&value, LS_I64, element, tensor->dtype, 1);
    return snprintf(text, size, "%lld", (long long)value);
}

static void put_element(printer *p, int64_t offset)
{
    char text[32];
    const int n = format_element(p->tensor, offset, text, sizeof text);
    if (!p->measures)
        put(p, "%*s", p->width, text);
    else if (n > p->width)
        p->width = n;
}

/* ---- dimensions ---------------------------------------------------------- */

/* Between two parts of a dimension: each row begins a line. */
static void put_comma(printer *p, int dim)
{
    if (p->measures)
        return;
    put(p, ",");
    for (int d = dim + 1; d < p->tensor->ndim; d++)
        put(p, "\n");
    put(p, "%*s", dim + 1 < p->tensor->ndim ? dim + 1 : 1, "");
}

static void put_part(printer *p, int dim, int64_t offset);

static void put_parts(printer *p, int dim, int64_t offset)
{
    const ls_tensor *t = p->tensor;
    const int64_t n = t->shape[dim];
    const bool skips = p->skips && n > 2 * EDGE + 1;
    for (int64_t i = 0; i < n; i++) {
        if (i > 0)
            put_comma(p, dim);
        if (skips && i == EDGE) {
            if (!p->measures)
                put(p, "...");
            i = n - EDGE - 1;
            continue;
        }
        put_part(p, dim + 1, offset + i * t->strides[dim]);
    }
}

static void put_part(printer *p, int dim, int64_t offset)
{
    if (dim == p->tensor->ndim) {
        put_element(p, offset);
        return;
    }
    if (!p->measures)
        put(p, "[");
    put_parts(p, dim, offset);
    if (!p->measures)
        put(p, "]");
}

/* Empty rows take room, too: an extent of 0 counts as 1. */
static bool is_large(const ls_tensor *tensor)
{
    int64_t count = 1;
    for (int d = 0; d < tensor->ndim; d++) {
        const int64_t n = tensor->shape[d];
        if (n > MOST_ELEMENTS / count)
            return true;
        count *= n > 0 ? n : 1;
    }
    return false;
}

ls_status ls_tensor_format(const ls_tensor *tensor, char *text, size_t size,
                           size_t *length)
{
    LS_NEED_TENSOR(tensor);
    if (size > 0)
        LS_NEED(text);
    LS_TRY(lsi_tensor_check_memory(tensor, "ls_tensor_format"));
    LS_TRY(lsi_tensor_plain(tensor));
    printer p = {.tensor = tensor,
                 .skips = is_large(tensor),
                 .measures = true,
                 .text = text,
                 .size = size};
    put_part(&p, 0, 0);
    p.measures = false;
    put(&p, "%s %s\n", ls_dtype_name(tensor->dtype), lsi_shape_of(tensor).text);
    put_part(&p, 0, 0);
    if (length != NULL)
        *length = p.length;
    return LS_OK;
}
