/*
 * The network of the CIFAR-100 pipeline: 825,988 parameters.
 *
 *     conv 3->32 3x3, relu          (N, 32, 30, 30)
 *     conv 32->32 3x3, relu         (N, 32, 28, 28)
 *     max pool 2x2, dropout .25     (N, 6272)
 *     linear 6272->128              (N, 128)
 *     batch norm without weights, relu, dropout .5
 *     linear 128->100               (N, 100)
 */
#ifndef LS_TRAIN_MODELS_CIFAR_NET_H
#define LS_TRAIN_MODELS_CIFAR_NET_H

#include <stdbool.h>

#include "train/model.h"

typedef struct lsi_cifar_net lsi_cifar_net;

/* Over what the batch normalisation takes its statistics, and how. */
typedef enum lsi_net_norm {
    LSI_NORM_FUSED,    /* all ranks */
    LSI_NORM_GATHERED, /* all ranks */
    LSI_NORM_LOCAL     /* this rank */
} lsi_net_norm;

typedef struct lsi_cifar_net_options {
    lsi_net_norm norm;
    bool dropout;
    int slices;    /* of a rank's batch (autograd/params.h); 0: 1 */
    uint64_t seed; /* of the parameters */
} lsi_cifar_net_options;

/* Collective. *out is the caller's and must be freed before the group. */
ls_status lsi_cifar_net_new(lsi_cifar_net **out, ls_group *group,
                            const lsi_cifar_net_options *options);
void lsi_cifar_net_free(lsi_cifar_net **net);

/* The model that the training loop sees. Owned by the net. */
const lsi_model *lsi_cifar_net_model(const lsi_cifar_net *net);

#endif
