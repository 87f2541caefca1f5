/*
 * Inside a parameter set.
 *
 *     flat, flat_grad:  | last trained parameter | ... | first | extra |
 *
 * Each parameter starts at a multiple of 16 floats, padded with zeros. The
 * gradient buffer is followed by LSI_GRAD_EXTRA floats that belong to whoever
 * communicates gradients, so that a number that travels with them (the weight
 * of the samples) needs no message of its own.
 *
 * A batch may be cut into *slices*, and each gradient then has a buffer for
 * each of them: slice 0's is flat_grad. An operation that sums over the batch
 * adds each slice's sum to the slice's buffer; one that knows nothing of slices
 * adds everything to slice 0. Before gradients leave the set the slices are
 * folded into flat_grad, as ranks are by a reduction, so that m slices on each
 * of N ranks give the bits of one slice on each of m N ranks, for powers of 2.
 */
#ifndef LS_AUTOGRAD_PARAMS_H
#define LS_AUTOGRAD_PARAMS_H

#include "base/partition.h"
#include "lockstep/autograd.h"

enum {
    LSI_PARAM_ALIGN = 16, /* floats */
    LSI_GRAD_EXTRA = 16,  /* floats behind the gradients */
    LSI_MAX_SLICES = 64
};

/* A parameter or, with grad always NULL, a buffer. */
typedef struct lsi_param {
    ls_params *set;
    size_t index;
    char *name;
    ls_init init;
    ls_tensor *tensor;
    ls_tensor *grad; /* a view of flat_grad; NULL if not trained */
    size_t offset;   /* in both flat buffers; SIZE_MAX if not trained */
    bool trainable;
    ls_tensor *half;       /* rounded for products; NULL: not needed so far */
    bool half_shared;      /* by the ranks of the node (params_halves.c) */
    uint64_t half_version; /* of the set, when it was rounded */
    uint64_t written;  /* slices that hold something since zero_grad; bits */
    int pending;       /* uses that the running backward has yet to see */
    bool grad_counted; /* see lsi_params_count_grad */
} lsi_param;

/* A growing list; entries stay where they are. */
typedef struct lsi_param_list {
    lsi_param **items;
    size_t count, capacity;
} lsi_param_list;

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

/* Shared copies of the trained parameters in a half type (params_halves.c). */
typedef struct lsi_halves {
    void *home; /* this rank's part; NULL: there are none */
    uint16_t *first;
    void *header;
    size_t bytes, counted;
} lsi_halves;

struct ls_params {
    lsi_param_list params, buffers;
    bool allocated;
    uint64_t version; /* counts changes of the parameters, from 1 */
    ls_group *group;  /* shares flat_grad, or NULL */
    size_t count;     /* floats of either flat buffer, without the extra */
    float *flat, *flat_grad;
    int slices;
    float *slice_grads; /* of slices 1, 2, ..., `count` floats each */
    float *rest;        /* memory of frozen parameters and buffers */
    lsi_range whole;
    lsi_range *owned; /* NULL: the whole */
    size_t n_owned;
    unsigned divisions; /* times that set_owned has been called */
    ls_grad_ready_fn on_ready;
    void *on_ready_context;
    const lsi_params_owner *owner; /* or NULL */
    /* Where the trained parameters lie if ranks share memory for them. */
    ls_group *home_group;
    void *home; /* this rank's part of it; flat may be another rank's */
    size_t home_bytes, home_counted;
    bool one_copy;
    lsi_halves halves;      /* of one copy */
    bool drops_grads;       /* see lsi_params_set_dropping */
    size_t grads_uncounted; /* bytes of flat_grad that are seldom there */
};

/* The LSI_GRAD_EXTRA floats behind the gradients. */
float *lsi_params_grad_extra(const ls_params *params);

/* Where a trained parameter lies in the flat buffers, with its padding. */
lsi_range lsi_params_range(const ls_params *params, size_t index);

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

/*
 * Cuts batches into 1..LSI_MAX_SLICES slices. Before ls_params_allocate. While
 * there are several, ls_grad is that of slice 0 until a fold.
 */
ls_status lsi_params_set_slices(ls_params *params, int slices);

/*
 * Where slice j's sum goes, if there is such a slice, else slice 0's;
 * *accumulate says whether something is there already.
 */
float *lsi_param_slice(lsi_param *param, int slice, bool *accumulate);

/* Parameter `index`'s gradient becomes that of all slices, or zeros if there is
 * none. */
void lsi_params_fold(const ls_params *params, size_t index);

/*
 * Moves the trained parameters to memory that all ranks of the node map, with
 * room for `capacity` floats: a copy for each rank or, with one_copy, rank 0's
 * for all. Does nothing if they are there already. Collective.
 */
ls_status lsi_params_share(ls_params *params, ls_group *group, size_t capacity,
                           bool one_copy);

/*
 * Room for the halves of parameters of which there is one copy: made with it
 * and freed with it, both collective. It can be used when ranks have met.
 */
ls_status lsi_params_share_halves(ls_params *params, ls_group *group,
                                  size_t capacity);
void lsi_params_leave_halves(ls_params *params);

/* Where the parameter's halves go if ranks share them, else NULL. */
ls_status lsi_param_half_place(const lsi_param *param, ls_dtype dtype,
                               void **out);

/* Makes the parameter's shared halves those of its present value. */
void lsi_param_look_at_halves(const lsi_param *param);

/*
 * Between the two meetings of an optimizer's step: rounds what has moved; all
 * of it has been rounded. Nothing if there are no shared halves.
 */
void lsi_params_round(const ls_params *params, lsi_range range);
void lsi_params_rounded(const ls_params *params);

/*
 * LS_OK if the sets of all ranks have the same names, shapes and kinds in the
 * same order; else LS_ERR_MISMATCH names the first that differs. Collective.
 */
ls_status lsi_params_same(const ls_params *params, ls_group *group);

/*
 * Whether this rank drops gradients that it does not own. If so: parameter
 * `index`'s is there now; those of a range have been reduced, and what is not
 * this rank's part of them is dropped.
 */
void lsi_params_set_dropping(ls_params *params, bool drop);
ls_status lsi_params_count_grad(const ls_params *params, size_t index);
void lsi_params_drop_grads(const ls_params *params, lsi_range range);

/* An optimizer has moved the trained parameters. */
void lsi_params_stepped(ls_params *params);

/* Lays out and obtains the memory (params_layout.c); zeros. */
ls_status lsi_params_layout(ls_params *params, ls_group *group);
void lsi_params_release_memory(ls_params *params);
void lsi_params_leave_home(ls_params *params); /* params_share.c */

/* Fills one parameter or buffer (params_init.c). */
void lsi_param_fill(const lsi_param *param, uint64_t seed, bool is_buffer);

/* The inverse error function for |u| <= 0.998, to a few units of 1e-16. */
double lsi_erfinv(double u);

/*
 * The parameter rounded to a half type, by the first who asks after a change
 * (autocast.c). Belongs to the parameter.
 */
ls_status lsi_param_half(lsi_param *param, ls_dtype dtype, ls_tensor **out);

/* Tells that the gradient is final (hooks.c). */
ls_status lsi_param_ready(lsi_param *param);

#endif
