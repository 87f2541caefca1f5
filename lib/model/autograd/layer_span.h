/*
 * Layers in a trace: which layer a product belongs to, and which of the layer's
 * three products it is (observe/spans.h).
 */
#ifndef LS_MODEL_AUTOGRAD_LAYER_SPAN_H
#define LS_MODEL_AUTOGRAD_LAYER_SPAN_H

#include "model/tensor/tensor.h"
#include "observe/spans.h"

/*
 * The layer is named after its weight: the shape, and the name of the parameter
 * without ".weight", or the operation if the weight is not a parameter. NULL:
 * none.
 */
void lsi_layer_enter(const ls_tensor *weight_or_null, const char *operation,
                     lsi_layer_pass pass);

static inline void lsi_layer_leave(const bool *entered)
{
    if (*entered)
        lsi_span_leave_layer();
}

/* From here to the end of the block, kernels belong to a layer. */
#define LSI_LAYER(weight, operation, pass)                                     \
    __attribute__((cleanup(lsi_layer_leave), unused))                          \
    const bool lsi_layer_here = lsi_span_is_written();                         \
    if (lsi_layer_here)                                                        \
    lsi_layer_enter(weight, operation, pass)

#endif
