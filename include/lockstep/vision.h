/*
 * Networks that tell classes of images apart, ready made.
 *
 *     "resnet18"    ResNet-18 (He et al., CVPR 2016)
 *     "vit"         a small vision transformer (Dosovitskiy et al., ICLR 2021)
 *     "cifar-net"   two convolutions and two linear layers
 *
 * docs/how-to/images.md says what each is made of. Parameters of the first two
 * have torchvision's names, shapes and initial distributions.
 *
 *     ls_image_net_options options = {.name = "resnet18", .classes = 10,
 *         .channels = 3, .height = 32, .width = 32};
 *     check(ls_image_net_new(&net, group, &options));
 *     logits = ls_image_net_forward(net, tape, images);
 */
#ifndef LOCKSTEP_VISION_H
#define LOCKSTEP_VISION_H

#include "lockstep/autograd.h"
#include "lockstep/group.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_image_net ls_image_net;

typedef struct ls_image_net_options {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    const char *name;   /* required, as the next four */
    int64_t classes;
    int64_t channels, height, width; /* of an image */
    bool sync_bn;  /* batch normalisation over the batches of all ranks */
    uint64_t seed; /* of the initial weights */
} ls_image_net_options;

/* Normalisations of each rank, seed 0. The required members must be set. */
#define LS_IMAGE_NET_OPTIONS_INIT                                              \
    {                                                                          \
        sizeof(ls_image_net_options), NULL, 0, 0, 0, 0, false, 0               \
    }

/*
 * Makes a network and allocates its parameters, as ls_params_allocate does with
 * the group. LS_ERR_ARGUMENT lists the names, or says which images the network
 * takes. Collective. On success *out is the caller's; it must be freed before
 * the group.
 */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status ls_image_net_new(
    ls_image_net **out, ls_group *group, const ls_image_net_options *options);

/* Frees it with its parameters and sets *net to NULL. Accepts NULLs. */
LS_API LS_EXPERIMENTAL void ls_image_net_free(ls_image_net **net);

/* Its parameters, which belong to it. */
LS_API LS_EXPERIMENTAL ls_params *ls_image_net_params(ls_image_net *net);

/*
 * images (N, channels, height, width) -> (N, classes). Collective while the
 * tape is training, and so is backward, if the network has synchronised
 * normalisations (see ls_sync_bn_forward).
 */
LS_API LS_EXPERIMENTAL ls_tensor *
ls_image_net_forward(const ls_image_net *net, ls_tape *tape, ls_tensor *images);

#ifdef __cplusplus
}
#endif

#endif
