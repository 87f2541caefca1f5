/*
 * How ranks divide and share a set of parameters: whose gradients are those of
 * all ranks, which ranges a rank owns, and what lies in memory that the ranks
 * of a node map.
 */
#ifndef LS_MODEL_AUTOGRAD_PARAMS_SHARING_H
#define LS_MODEL_AUTOGRAD_PARAMS_SHARING_H

#include "model/autograd/params/halves.h"
#include "model/autograd/params/storage.h"

/*
 * Who makes the gradients of a set those of all ranks, and is told what happens
 * to them. One for a set; no call may be NULL unless that is said.
 */
typedef struct lsi_params_owner {
    void *context;
    /* As ls_grad_ready_fn, after that one. */
    ls_status (*ready)(void *context, size_t index);
    /* All gradients have been forgotten. */
    void (*forgotten)(void *context);
    /*
     * An optimizer wants to use them, and has moved what this rank owns of the
     * parameters. An error ends its step. Maybe collective.
     */
    ls_status (*before_step)(void *context);
    /*
     * A range of the flat layout has been moved; at most `piece` elements at a
     * time, so that they are still in a cache. May be NULL.
     */
    void (*moved)(void *context, lsi_range range);
    size_t piece;
    ls_status (*after_step)(void *context);
    /* Whose gradients are those of all ranks; those of the rest are not. */
    lsi_range reduced;
    /*
     * Sums over ranks of numbers to which every rank has contributed what
     * comes of its `reduced`. Collective unless that is everything.
     */
    ls_status (*add_up)(void *context, double *sums, size_t n);
} lsi_params_owner;

typedef struct lsi_params_sharing {
    ls_group *group;  /* shares flat_grad, or NULL */
    lsi_range *owned; /* NULL: the whole */
    size_t n_owned;
    unsigned divisions;            /* times that set_owned has been called */
    const lsi_params_owner *owner; /* or NULL */
    /* Where the trained parameters lie if ranks share memory for them. */
    ls_group *home_group;
    void *home; /* this rank's part of it; flat may be another rank's */
    size_t home_bytes, home_counted;
    bool one_copy;
    lsi_halves halves;      /* of one copy */
    bool drops_grads;       /* see lsi_params_set_dropping */
    size_t grads_uncounted; /* bytes of flat_grad that are seldom there */
} lsi_params_sharing;

/*
 * LS_OK if the sets of all ranks have the same names, shapes and kinds in the
 * same order; else LS_ERR_MISMATCH names the first that differs. Collective.
 */
ls_status lsi_params_same(const ls_params *params, ls_group *group);

/* ---- who has what -------------------------------------------------------- */

/*
 * Which ranges of the flat layout this rank steps and keeps state for: all of
 * it, or those that a strategy has given it. They are copied; they ascend and
 * do not overlap. To be set after ls_params_allocate and before optimizers are
 * made.
 */
ls_status lsi_params_set_owned(ls_params *params, const lsi_range *ranges,
                               size_t n);
void lsi_params_disown(ls_params *params); /* no owner; this rank has all */
const lsi_range *lsi_params_owned(const ls_params *params, size_t *n);

/* ---- shared memory ------------------------------------------------------- */

/* The gradients, in memory that the group's ranks map. Both collective. */
ls_status lsi_params_share_grads(ls_params *params, ls_group *group);
void lsi_params_leave_grads(ls_params *params);

/* None of them will be dropped: takes their memory now, in huge pages. */
void lsi_params_use_all_grads(ls_params *params);

/*
 * Moves the trained parameters to memory that all ranks of the node map, with
 * room for `capacity` floats: a copy for each rank or, with one_copy, rank 0's
 * for all, and then the parts of the others take no memory, since nobody writes
 * there. Does nothing if they are there already. Collective.
 */
ls_status lsi_params_share(ls_params *params, ls_group *group, size_t capacity,
                           bool one_copy);
void lsi_params_leave_home(ls_params *params);

#endif
