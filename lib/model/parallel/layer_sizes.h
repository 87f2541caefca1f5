/*
 * The sizes of the layers that `fsdp` gathers between nodes (gather.h), and the
 * most that a node holds of them at a time.
 */
#ifndef LS_MODEL_PARALLEL_LAYER_SIZES_H
#define LS_MODEL_PARALLEL_LAYER_SIZES_H

#include "lockstep/autograd.h"

/* Trained elements of a layer. */
typedef struct lsi_layer_size {
    double begin, end; /* position in the node's copy: the last layer is at 0 */
    double products;   /* elements of factors of matrix products */
    double others;     /* elements that other operations read */
    double lookups;    /* elements that backward does not read */
} lsi_layer_size;

typedef struct lsi_layer_sizes {
    lsi_layer_size *of; /* in the order of definition, which is forward's */
    size_t n;
} lsi_layer_sizes;

/* The first parameters of a model, if they are tables of rows to look up. */
typedef struct lsi_layer_tables {
    size_t n;
    bool tied; /* the first one is also a factor of products */
} lsi_layer_tables;

/*
 * Parameters of two dimensions or more are factors of products. They need not
 * be allocated. *out is freed by lsi_free(out->of).
 */
ls_status lsi_layer_sizes_of(ls_params *params, lsi_layer_tables tables,
                             lsi_layer_sizes *out);

/* Bytes of a gathered layer. With `half`, products read halves. */
double lsi_layer_bytes(const lsi_layer_size *layer, bool half);

/* Whether a product and another operation read the layer: it stays. */
bool lsi_layer_is_tied(const lsi_layer_size *layer);

/* A window of ahead + 1 layers, on a node that keeps some parts of the copy. */
typedef struct lsi_layer_window {
    size_t ahead;
    bool half;
    const double (*kept)[2]; /* begin and end of each part */
    size_t n_kept;
} lsi_layer_window;

/* The most bytes that the node holds at a time: the window and tied tables. */
double lsi_layer_window_bytes(const lsi_layer_sizes *layers,
                              const lsi_layer_window *window);

#endif
