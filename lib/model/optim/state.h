/*
 * An optimizer's state by name, so that it can be saved by one division among
 * ranks and loaded by another.
 */
#ifndef LS_MODEL_OPTIM_STATE_H
#define LS_MODEL_OPTIM_STATE_H

#include "base/partition.h"
#include "lockstep/optim.h"

/* n elements of one array of state, from element `begin` of a parameter. */
typedef struct lsi_state_piece {
    const char *state; /* "exp_avg" */
    size_t param;      /* index in the set */
    size_t begin;
    float *data;
    size_t n;
} lsi_state_piece;

typedef ls_status (*lsi_state_fn)(void *context, const lsi_state_piece *piece);

/*
 * Calls fn for everything that this rank keeps of a range of the flat layout,
 * without padding, until it fails.
 */
ls_status lsi_optimizer_pieces(const ls_optimizer *optimizer, lsi_range range,
                               lsi_state_fn fn, void *context);

#endif
