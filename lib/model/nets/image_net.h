/* Networks that classify images. */
#ifndef LS_MODEL_NETS_IMAGE_NET_H
#define LS_MODEL_NETS_IMAGE_NET_H

#include "lockstep/vision.h"
#include "model/nets/builder.h"
#include "model/nets/model.h"
#include "model/parallel/layer_sizes.h"

/* The identity of a network, which is saved with it. */
typedef struct lsi_image_config {
    const char *name; /* a row of image_nets.def */
    int64_t classes;
    int64_t channels, height, width; /* of an image */
} lsi_image_config;

/* The configuration of `train cifar100`. */
#define LSI_IMAGE_CIFAR100                                                     \
    {                                                                          \
        .name = "cifar-net", .classes = 100, .channels = 3, .height = 32,      \
        .width = 32                                                            \
    }

typedef struct lsi_image_net_setup {
    lsi_image_config config;
    lsi_net_norm norm;
    bool dropout;
    bool frozen;  /* nothing is trained, and zeros until a file is read */
    bool divided; /* the same, for lsi_ddp_new_inference */
    double label_smoothing; /* label smoothing of the training loss */
    int slices;    /* of a rank's batch (model/autograd/params.h); 0: 1 */
    uint64_t seed; /* random seed of the parameters' initial values */
} lsi_image_net_setup;

/*
 * Makes the network with its parameters. LS_ERR_ARGUMENT if the name is
 * unknown, or if the network does not accept such images. Collective. *out is
 * the caller's and must be freed before the group.
 */
ls_status lsi_image_net_new(ls_image_net **out, ls_group *group,
                            const lsi_image_net_setup *options);

/*
 * The number of elements of its parameters, and the sizes of its layers, which
 * are freed by lsi_free(layers->of). Collective.
 */
ls_status lsi_image_net_count(ls_group *group,
                              const lsi_image_net_setup *options,
                              int64_t *parameters, lsi_layer_sizes *layers);

/* The model that the training loop sees. Owned by the net. */
const lsi_model *lsi_image_net_model(const ls_image_net *net);

/*
 * The usual number of slices of all ranks' batches together, which the ranks
 * divide; 0: one per rank.
 */
int lsi_image_net_slices(const char *name);

/* ---- kinds of networks --------------------------------------------------- */

typedef struct lsi_image_kind {
    const char *name;
    int slices;   /* see lsi_image_net_slices */
    size_t bytes; /* size of its layers, which begin as zeros */
    /*
     * LS_ERR_ARGUMENT if it does not accept such images; NULL: it accepts all.
     */
    ls_status (*check)(const lsi_image_config *config);
    /* Adds its layers. Collective. */
    void (*build)(void *parts, lsi_net_builder *builder,
                  const lsi_image_net_setup *options);
    ls_tensor *(*logits)(const void *parts, ls_tape *tape, ls_tensor *images);
    /* Releases the layers built so far; NULL: the layers hold nothing. */
    void (*release)(void *parts);
} lsi_image_kind;

#endif
