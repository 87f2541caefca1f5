/* The sizes of the layers that `fsdp` gathers between nodes (gather.h). */
#ifndef LS_MODEL_PARALLEL_LAYER_SIZES_H
#define LS_MODEL_PARALLEL_LAYER_SIZES_H

#include "lockstep/autograd.h"

/* Trained elements of each layer, in the order of definition. Zeros: none. */
typedef struct lsi_layer_sizes {
    int64_t *of;
    size_t n;
} lsi_layer_sizes;

/* The parameters need not be allocated. *out is freed by lsi_free(out->of). */
ls_status lsi_layer_sizes_of(ls_params *params, lsi_layer_sizes *out);

#endif
