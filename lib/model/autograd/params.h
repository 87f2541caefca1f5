/*
 * Inside a parameter set: definitions, memory (params/storage.h), gradients
 * (params/grads.h), and sharing among ranks (params/sharing.h).
 */
#ifndef LS_MODEL_AUTOGRAD_PARAMS_H
#define LS_MODEL_AUTOGRAD_PARAMS_H

#include "model/autograd/params/grads.h"
#include "model/autograd/params/sharing.h"
#include "model/autograd/params/storage.h"
#include "model/tensor/tensor.h"

/* A parameter or, with grad always NULL, a buffer. */
struct lsi_param {
    lsi_supply supply; /* of its values */
    ls_params *set;
    size_t index;
    char *name;
    ls_init init;
    ls_tensor *tensor;
    ls_tensor *grad; /* a view of flat_grad; NULL if not trained */
    size_t offset;   /* in both flat buffers; of a frozen one in `frozen`, or in
                        the node's copy if it is divided */
    bool is_buffer;
    const ls_group *equal_on; /* of a buffer: ranks on which it is equal */
    bool trainable;
    bool is_adopted; /* its memory is the program's (params/adopt.h) */
    ls_param_memory adopted;
    ls_tensor *half;       /* rounded for products; NULL: not needed so far */
    bool half_shared;      /* `half` is shared by the node (params/halves.c) */
    uint64_t half_version; /* version of the set when `half` was rounded */
    uint64_t written;      /* bits: slices written since zero_grad */
    int pending;           /* uses that the running backward has not reached */
    int fetched;           /* ls_params_fetch less ls_params_release */
    bool grad_counted;     /* see lsi_params_count_grad */
};

/* A growing list; entries keep their addresses. */
typedef struct lsi_param_list {
    lsi_param **items;
    size_t count, capacity;
} lsi_param_list;

struct ls_params {
    lsi_param_list params, buffers;
    uint64_t version; /* counts changes of the parameters, from 1 */
    ls_grad_ready_fn on_ready;
    void *on_ready_context;
    lsi_params_storage storage;
    lsi_params_sharing sharing;
};

/* Whether its memory is in `frozen`: in f32, and not the program's. */
static inline bool lsi_param_is_in_frozen(const lsi_param *param)
{
    return !param->trainable && !param->is_buffer && !param->is_adopted &&
           param->tensor->dtype == LS_F32;
}

/* Whether this node has only some of the parameter's elements. */
static inline bool lsi_param_is_divided(const lsi_param *param)
{
    return param->set->sharing.divided &&
           (param->trainable || lsi_param_is_in_frozen(param));
}

/* Whether the node keeps it as halves, and nothing of it in f32. */
static inline bool lsi_param_is_kept_half(const lsi_param *param)
{
    return param->trainable && param->tensor->dtype != LS_F32;
}

/*
 * Makes the parameter's values be on this node. lsi_param_provide_again does so
 * for backward, in the ways in which they were needed before.
 */
ls_status lsi_param_provide(lsi_param *param, lsi_weights_need need);
ls_status lsi_param_provide_again(lsi_param *param);

/*
 * To be called by all ranks after each has written the weights that it owns, or
 * all of them: other nodes see them from then on. `status` says whether this
 * rank could write; it is returned if not. Collective if they are divided.
 */
ls_status lsi_params_settle(ls_params *params, ls_status status);

/* An optimizer has updated the trained parameters. */
void lsi_params_stepped(ls_params *params);

/* Undoes the last ls_params_add; before the set is allocated. */
void lsi_params_remove_last(ls_params *params);

/* Trains none of the parameters. */
ls_status lsi_params_freeze(ls_params *params);

/*
 * For weights that a file will have: random numbers for all of them take longer
 * than reading them. Call it before they are allocated.
 */
void lsi_params_start_at_zero(ls_params *params);

/*
 * The same, and no gradient of the set will be computed, though its parameters
 * are trainable: an ls_ddp of strategy fsdp is to divide them.
 */
void lsi_params_set_inference(ls_params *params);

/*
 * Changes the type of a parameter before it is allocated: one that is not
 * trained, or one of a set for inference. The type is a half, which only
 * operations that record nothing accept. The values are zeros until they are
 * read from a file.
 *
 * The halves of a set for inference are where others have rounded copies: in
 * lsi_halves of the node, and nowhere in f32. They have one type: a parameter
 * of another one stays in f32.
 */
void lsi_params_set_dtype(ls_params *params, size_t index, ls_dtype dtype);

/* ---- initial values (params/init.c) -------------------------------------- */

/*
 * Computes elements of a parameter or buffer, the first of them to out[0].
 * Element i of parameter p is a pure function of (seed, p, i): it does not
 * depend on ranks, threads or the other parameters.
 */
void lsi_param_fill(const lsi_param *param, lsi_range elements, float *out);

/* The inverse error function for |u| <= 0.998, to a few units of 1e-16. */
double lsi_erfinv(double u);

#endif
