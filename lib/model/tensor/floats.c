#include "model/tensor/floats.h"

#include <string.h>

#include "base/error.h"

ls_status lsi_floats_new(float **out, lsi_device *device, size_t count,
                         ls_memory_tag tag, const char *what)
{
    void *block = NULL;
    const size_t bytes = count * sizeof(float);
    if (device == NULL) {
        LS_TRY(lsi_alloc_zeroed(&block, bytes, tag, what));
    } else {
        LS_TRY(lsi_device_take(device, bytes, what, &block));
        const ls_status status = lsi_device_fill(device, block, 0, bytes);
        if (status != LS_OK) {
            lsi_device_give(device, block, bytes);
            return status;
        }
    }
    *out = block;
    return LS_OK;
}

void lsi_floats_free(float *floats, lsi_device *device, size_t count)
{
    if (device == NULL)
        lsi_free(floats);
    else if (floats != NULL)
        lsi_device_give(device, floats, count * sizeof(float));
}
