/*
 * Memory layout of a set's parameters and gradients.
 *
 *     flat, flat_grad:  | last trained parameter | ... | first | extra |
 *
 * Each parameter starts at a multiple of 16 floats, padded with zeros.
 * LSI_GRAD_EXTRA floats follow the gradients, for the code that communicates
 * gradients. So a number that travels with the gradients (the weight of the
 * samples) needs no separate message. Frozen parameters in f32 are in
 * `frozen`, aligned like the others; buffers and frozen halves in `rest`.
 */
#ifndef LS_MODEL_AUTOGRAD_PARAMS_STORAGE_H
#define LS_MODEL_AUTOGRAD_PARAMS_STORAGE_H

#include <stdatomic.h>

#include "base/memory.h"
#include "base/partition.h"
#include "lockstep/autograd.h"

enum {
    LSI_PARAM_ALIGN = 16, /* floats */
    LSI_GRAD_EXTRA = 16   /* floats after the gradients */
};

typedef struct lsi_param lsi_param;

typedef struct lsi_params_storage {
    bool allocated;
    atomic_bool unfilled; /* nobody has needed the initial values yet */
    uint64_t seed;        /* of the initial values */
    size_t count;         /* floats of either flat buffer, without the extra */
    lsi_range whole;
    float *flat, *flat_grad;
    int slices;
    float *slice_grads;  /* of slices 1, 2, ..., `count` floats each */
    size_t frozen_count; /* floats of `frozen` */
    float *frozen;       /* NULL: not needed yet, or divided */
    float *rest;         /* memory of buffers, and of frozen halves */
    bool adopts;         /* some of it is the program's (params/adopt.h) */
    bool inference;      /* no gradient is computed: see lsi_params_set_dtype */
    ls_dtype half;  /* type of weights that are kept as halves; LS_F32: none */
    bool scattered; /* trained weights are at the `places`, not in `flat` */
    lsi_param **places; /* the trained parameters as they are laid out */
    size_t n_places;
} lsi_params_storage;

/*
 * Lays out and allocates the memory, zeroed, except that of the trained
 * weights. Collective with a group.
 */
ls_status lsi_params_layout(ls_params *params, ls_group *group);

/*
 * Initial values are computed when somebody first needs them. By then an ls_ddp
 * may have divided the weights, and a rank computes only those that it owns.
 *
 * lsi_params_fill allocates the trained weights and computes all values, unless
 * they are there already. lsi_params_fill_rest computes everything but those
 * weights, and but frozen parameters that have no memory.
 */
ls_status lsi_params_fill(ls_params *params);
void lsi_params_fill_rest(ls_params *params);

/* Allocates `frozen`, zeroed, unless it is there. */
ls_status lsi_params_alloc_frozen(ls_params *params);

void lsi_params_release_memory(ls_params *params);

/* Undoes lsi_params_layout, so that it can be tried again. */
void lsi_params_undo_layout(ls_params *params);

/* The LSI_GRAD_EXTRA floats after the gradients. */
float *lsi_params_grad_extra(const ls_params *params);

/* The range of a trained parameter in the flat buffers, with its padding. */
lsi_range lsi_params_range(const ls_params *params, size_t index);

#endif
