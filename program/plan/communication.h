/*
 * Communication accounting of a large model: blocks of two linear layers, d ->
 * d_ff -> d, without attention or embeddings.
 *
 * It answers how many devices hold the training state. It also gives the batch
 * size from which computation, not the links between devices, bounds a step.
 * Such a step divides weights (FSDP) and layers (tensor parallelism). Products
 * and transfers use a type of two bytes, state f32.
 */
#ifndef LS_PLAN_COMMUNICATION_H
#define LS_PLAN_COMMUNICATION_H

#include "lockstep/status.h"
#include "plan/facts.h"

typedef struct lsi_communication_plan {
    double d_model, d_ff, blocks;
    double tokens; /* tokens whose activations are kept; 0: none counted */
    double device_bytes;  /* memory of a device that holds the complete state */
    double sharded_bytes; /* memory of each of many devices that divide the
                             state */
    double flops;         /* operations a second of a device */
    double link_bytes;    /* bytes a second of one link in both directions */
    double data_ranks;    /* X: ranks that divide the batch and the weights */
    double tensor_ranks;  /* Y: ranks that divide each layer */
    double data_links;    /* M_X: axes of links that FSDP uses */
    double tensor_links;  /* M_Y: axes of links that tensor parallelism uses */
} lsi_communication_plan;

/*
 * d 16384, d_ff 53248, 126 blocks; 80 GB; 95 GB; 460 TFLOP/s, 180 GB/s; 16 x 4
 * ranks, of which FSDP has two axes of links.
 */
lsi_communication_plan lsi_communication_defaults(void);

/* LS_ERR_ARGUMENT if a number is not above 0. */
ls_status lsi_communication_account(const lsi_communication_plan *plan,
                                    lsi_facts *out);

#endif
