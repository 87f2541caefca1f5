/*
 * What reading and writing safetensors files share.
 *
 *     u64, little endian   n, bytes of the header
 *     n bytes              JSON: {"name": {"dtype": "F32", "shape": [2, 3],
 *                          "data_offsets": [begin, end]}, ...} and optionally
 *                          "__metadata__": {"key": "value", ...}
 *     the rest             the elements; offsets count from here, cover all
 *                          of it, and do not overlap
 */
#ifndef LS_TENSOR_SAFETENSORS_H
#define LS_TENSOR_SAFETENSORS_H

#include <ctype.h>

#include "lockstep/types.h"

/*
 * The text that a file's metadata has for a key: *out is the caller's (free),
 * NULL if there is none.
 */
ls_status lsi_safetensors_metadata(const char *path, const char *key,
                                   char **out);

#define LSI_SAFETENSORS_METADATA "__metadata__"

enum {
    LSI_SAFETENSORS_PREFIX = 8,             /* bytes of n */
    LSI_SAFETENSORS_MAX_HEADER = 100000000, /* as other readers have it */
};

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#    error "elements are read and written as they lie in memory"
#endif

/* "BF16" for LS_BF16: our names in capitals. */
typedef struct lsi_safetensors_dtype {
    char text[8];
} lsi_safetensors_dtype;

static inline lsi_safetensors_dtype lsi_safetensors_dtype_of(ls_dtype dtype)
{
    const char *name = ls_dtype_name(dtype);
    lsi_safetensors_dtype out = {""};
    for (size_t i = 0; name[i] != '\0' && i + 1 < sizeof out.text; i++)
        out.text[i] = (char)toupper((unsigned char)name[i]);
    return out;
}

#endif
