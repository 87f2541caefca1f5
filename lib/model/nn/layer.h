/* Shared by layers: adding parameters under "<name>.<part>". */
#ifndef LS_MODEL_NN_LAYER_H
#define LS_MODEL_NN_LAYER_H

#include "lockstep/nn.h"

/* The place of a layer's parameters. */
typedef struct lsi_layer_site {
    ls_params *params;
    const char *name;
} lsi_layer_site;

ls_status lsi_layer_param(lsi_layer_site site, const char *part, int ndim,
                          const int64_t *shape, ls_init init, ls_tensor **out);

#endif
