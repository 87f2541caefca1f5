/* What layers share: adding parameters and buffers under "<name>.<part>". */
#ifndef LS_MODEL_NN_LAYER_H
#define LS_MODEL_NN_LAYER_H

#include "lockstep/nn.h"

/* Where a layer's parameters go. */
typedef struct lsi_layer_site {
    ls_params *params;
    const char *name;
} lsi_layer_site;

ls_status lsi_layer_param(lsi_layer_site site, const char *part, int ndim,
                          const int64_t *shape, ls_init init, ls_tensor **out);
ls_status lsi_layer_buffer(lsi_layer_site site, const char *part, int ndim,
                           const int64_t *shape, ls_init init, ls_tensor **out);

/*
 * Uniform in +-1/sqrt(fan_in), which keeps the size of activations about the
 * same from layer to layer.
 */
ls_init lsi_layer_uniform(int64_t fan_in);

/* LS_ERR_ARGUMENT unless the layer has a name and the extent is at least 1. */
ls_status lsi_layer_check_extent(lsi_layer_site site, const char *what,
                                 int64_t extent);

#endif
