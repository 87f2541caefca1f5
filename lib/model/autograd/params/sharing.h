/*
 * Division and sharing of a parameter set among ranks: reduced gradients, owned
 * ranges, and memory that the ranks of a node map.
 */
#ifndef LS_MODEL_AUTOGRAD_PARAMS_SHARING_H
#define LS_MODEL_AUTOGRAD_PARAMS_SHARING_H

#include "model/autograd/params/halves.h"
#include "model/autograd/params/storage.h"
#include "observe/crash.h"

/* A need of a parameter whose weights may be divided. */
typedef struct lsi_weights_need {
    bool half;    /* rounded to the half type that ranks share */
    bool in_pass; /* by an operation of a tape: those after it will follow */
} lsi_weights_need;

/*
 * The owner of a set, at most one: it reduces the set's gradients over all
 * ranks, and is called at events. No call may be NULL unless stated.
 */
typedef struct lsi_params_owner {
    void *context;
    /* As ls_grad_ready_fn; called after the program's hook. */
    ls_status (*ready)(void *context, size_t index);
    /* All gradients have been forgotten. */
    void (*forgotten)(void *context);
    /*
     * before_step: an optimizer is about to use the gradients. after_step: it
     * has updated this rank's part of the parameters. An error ends its step.
     * Both may be collective.
     */
    ls_status (*before_step)(void *context);
    /*
     * A range of the flat layout has been updated: at most `piece` elements at
     * a time, which are still in a cache. May be NULL.
     */
    void (*moved)(void *context, lsi_range range);
    size_t piece;
    ls_status (*after_step)(void *context);
    /* range of the flat layout whose gradients are reduced over all ranks */
    lsi_range reduced;
    /*
     * Sums numbers over ranks; each rank contributes those of its `reduced`
     * range. Collective unless this range is everything.
     */
    ls_status (*add_up)(void *context, double *sums, size_t n);
    /*
     * For divided weights; see lsi_param_provide and lsi_param_provide_again.
     * The parameter by its index. NULL without divided weights.
     */
    ls_status (*need)(void *context, size_t index, lsi_weights_need need);
    ls_status (*need_again)(void *context, size_t index);
} lsi_params_owner;

typedef struct lsi_params_sharing {
    ls_group *group;  /* shares flat_grad, or NULL */
    lsi_range *owned; /* NULL: the whole */
    size_t n_owned;
    unsigned divisions;            /* times that set_owned has been called */
    const lsi_params_owner *owner; /* or NULL */
    /* group with shared memory for the trained parameters, if any */
    ls_group *home_group;
    void *home; /* this rank's part; flat may be another rank's */
    size_t home_bytes, home_counted;
    bool one_copy;
    bool divided; /* a node's copy has some parts, and what is gathered */
    int replicas; /* nodes in a row with the same parts, if divided */
    size_t frozen_begin; /* element of the copy where frozen ones begin */
    size_t frozen_shard; /* elements of them for each rank; 0: none is there */
    bool frozen_changed; /* since replicas exchanged them */
    lsi_range *here;     /* [n_here] those parts, two for each rank of these */
    size_t n_here;
    lsi_page_guard guard;    /* of weights that other nodes own */
    lsi_crash_place guarded; /* names them in the report of a crash */
    lsi_halves halves;       /* of one copy */
    bool drops_grads;        /* see lsi_params_set_dropping */
    size_t grads_uncounted;  /* bytes of flat_grad that are seldom resident */
} lsi_params_sharing;

/*
 * LS_OK if the sets of all ranks have the same names, shapes and kinds in the
 * same order; else LS_ERR_MISMATCH names the first that differs. Collective.
 */
ls_status lsi_params_same(const ls_params *params, ls_group *group);

/* ---- owned ranges -------------------------------------------------------- */

/*
 * Sets the ranges of the flat layout that this rank steps and keeps state for
 * (default: all of it). The ranges are copied; they ascend and do not overlap.
 * To be called after ls_params_allocate and before optimizers are made.
 */
ls_status lsi_params_set_owned(ls_params *params, const lsi_range *ranges,
                               size_t n);
void lsi_params_disown(ls_params *params); /* no owner; this rank has all */
const lsi_range *lsi_params_owned(const ls_params *params, size_t *n);

/*
 * The elements of frozen parameters that a rank keeps, if they are divided.
 * They follow the trained ones in the node's copy.
 */
lsi_range lsi_params_frozen_part(const ls_params *params, int rank);

/* ---- shared memory ------------------------------------------------------- */

/*
 * Puts the gradients in memory that the group's ranks map. Both are collective.
 */
ls_status lsi_params_share_grads(ls_params *params, ls_group *group);
void lsi_params_leave_grads(ls_params *params);

/* Allocates all gradients now, in huge pages, since none will be dropped. */
void lsi_params_use_all_grads(ls_params *params);

/* Where trained parameters are, in memory that all ranks of a node map. */
typedef enum lsi_weights_home {
    LSI_HOME_COPIES,  /* each rank has a copy */
    LSI_HOME_ONE,     /* the ranks of a node use one, its first rank's */
    LSI_HOME_DIVIDED, /* of which a node has only the parts of the ranks of its
                         replicas (lsi_node_is_replica); frozen ones, too */
} lsi_weights_home;

/*
 * Moves the trained parameters there, with room for `shard` floats for each
 * rank of the group: with LSI_HOME_DIVIDED, rank r's part begins at r * shard.
 * `replicas` nodes in a row keep the same parts. Each rank fills its own; those
 * of other nodes' ranks are to come.
 * Parts that are not used take no memory. Does nothing if the parameters are
 * already there. Collective.
 */
ls_status lsi_params_share(ls_params *params, ls_group *group, size_t shard,
                           lsi_weights_home kind, int replicas);
void lsi_params_leave_home(ls_params *params);

#endif
