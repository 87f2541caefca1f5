/*
 * Communication accounting: a large model of blocks of two linear layers, d ->
 * d_ff -> d, without attention or embeddings. How many devices hold its
 * training state; and from which batch on computation, not the links between
 * devices, bounds a step that divides weights (FSDP) and layers (tensor
 * parallelism). Products and what travels are in a type of two bytes, state in
 * f32.
 */
#ifndef LS_PLAN_COMMUNICATION_H
#define LS_PLAN_COMMUNICATION_H

#include "lockstep/status.h"
#include "plan/facts.h"

typedef struct lsi_communication_plan {
    double d_model, d_ff, blocks;
    double tokens;        /* of which activations are kept; 0: none counted */
    double device_bytes;  /* of a device that holds everything by itself */
    double sharded_bytes; /* of one of many that divide it */
    double flops;         /* of a device, a second */
    double link_bytes;    /* a second, of one link in both directions */
    double data_ranks;    /* X, which divide the batch and the weights */
    double tensor_ranks;  /* Y, which divide each layer */
    double data_links;    /* M_X: axes of links that FSDP uses */
    double tensor_links;  /* M_Y */
} lsi_communication_plan;

/* d 16384, d_ff 53248, 126 blocks; 80 GB; 95 GB; 460 TFLOP/s, 180 GB/s; 16 x 4,
 * of which FSDP has two axes of links. */
lsi_communication_plan lsi_communication_defaults(void);

/* LS_ERR_ARGUMENT if a number is not above 0. */
ls_status lsi_communication_account(const lsi_communication_plan *plan,
                                    lsi_facts *out);

#endif
