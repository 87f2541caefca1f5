#include "model/tensor/floats.h"

#include "base/error.h"

ls_status lsi_floats_new(float **out, size_t count, ls_memory_tag tag,
                         const char *what)
{
    void *block = NULL;
    LS_TRY(lsi_alloc_zeroed(&block, count * sizeof(float), tag, what));
    *out = block;
    return LS_OK;
}
