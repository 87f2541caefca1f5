/*
 * Inside data parallelism: the common part of its two forms, over a parameter
 * set and over ranges of memory.
 */
#ifndef LS_MODEL_PARALLEL_DDP_STATE_H
#define LS_MODEL_PARALLEL_DDP_STATE_H

#include <stdatomic.h>

#include "base/error.h"
#include "comm/api/internode_swap.h"
#include "model/autograd/params.h"
#include "model/parallel/ddp.h"
#include "model/parallel/gather.h"
#include "model/parallel/reducer.h"
#include "model/parallel/replicas.h"

/* Floats that travel after the gradients. */
enum {
    LSI_EXTRA_WEIGHT, /* weight of the rank's samples */
    LSI_EXTRA_UNUSED, /* number of spans that no loss has used */
    LSI_EXTRA_LOSS,   /* sum of losses over the samples, in LSI_DDP_LOSS_UNIT */
    LSI_EXTRA_FLAGS   /* LSI_DDP_FLAGS of them: ranks that set each flag */
};

/* So large that no sum of finite losses of less than 2^40 samples is infinite.
 */
#define LSI_DDP_LOSS_UNIT 0x1p40

struct ls_ddp {
    ls_group *group, *channel;
    ls_params *params; /* or NULL */
    lsi_params_owner owner;
    lsi_reducer *reducer;
    lsi_gather *gather; /* NULL: each node has all weights */
    size_t ahead;       /* layers that it gathers ahead */
    int replicas;       /* nodes in a row that keep the same weights */
    const lsi_strategy *strategy;
    size_t shard; /* floats of a rank's part, if it has one; see grad_range.h */
    double waited;
    bool unused_as_zero;
    lsi_grad_range *spans; /* in the order in which they should become final */
    size_t n;
    size_t *index_of; /* [n] the user's index of a span */
    size_t *span_of;  /* the inverse; SIZE_MAX: none */
    bool *unused;     /* [n] in this sync */
    lsi_grad_range extra;
    bool own_extra;        /* allocated here, in memory shared by `group` */
    bool syncing;          /* the running backward reduces its gradients */
    bool begun;            /* ls_ddp_begin was called, ls_ddp_finish not yet */
    lsi_error first_error; /* first mistake of this rank since ls_ddp_begin */
    bool spoiled;          /* gradients are incomplete until lsi_ddp_forget */
    bool has_loss;         /* a loss was given since the last sync */
    size_t unsynced;       /* micro-steps since the last sync */
    double weight;         /* weight of the samples since the last sync */
    double loss; /* sum of losses over the samples since the last sync */
    double mean; /* loss over all ranks in the last sync */
    double loss_scale;
    double scale;  /* makes the gradients means; 1 if they are */
    bool deferred; /* the scale is left to the optimizer */
    lsi_comparison comparison;
    const atomic_uint *local_flags; /* flags of this rank, or NULL */
    unsigned all_flags;             /* flags set on any rank in the last sync */
};

/* An empty ls_ddp with a channel, and with room for `spans` of `indices`. */
ls_status lsi_ddp_make(ls_ddp **out, ls_group *group, size_t spans,
                       size_t indices);

/* The options of a program, or the defaults without any; always writes. */
ls_status lsi_ddp_read_options(ls_ddp_options *out,
                               const ls_ddp_options *given);

/*
 * Checks that all ranks have equal options; then plans. `status` says whether
 * the rank is ready: if it is not, all ranks fail. Collective.
 */
ls_status lsi_ddp_plan(ls_ddp *ddp, const ls_ddp_options *options,
                       ls_status status);

/* Finite and not negative. */
ls_status lsi_ddp_check_weight(double weight);

/* Adds `index`, the next to become final. */
void lsi_ddp_add_span(ls_ddp *ddp, size_t index, lsi_grad_range span);

/* Begins a sync: what is ready from now on travels. Local. */
ls_status lsi_ddp_begin(ls_ddp *ddp);

/* Writes this rank's flags to the extra floats of the last bucket. */
void lsi_ddp_write_flags(ls_ddp *ddp);

/*
 * Marks a span that was not written in this sync: it becomes zero, and the
 * other ranks are informed. Local; between begin and finish.
 */
void lsi_ddp_set_unused(ls_ddp *ddp, size_t span);

/* The user's name of a span. */
void lsi_ddp_describe(const ls_ddp *ddp, size_t span, char *text, size_t bytes);

/*
 * Ends a sync: all other spans are final, too. Gradients are then sums over
 * samples, and ddp->scale makes them means. Collective.
 */
ls_status lsi_ddp_finish(ls_ddp *ddp);

/*
 * LS_ERR_STATE if gradients of micro-steps are not synchronised. The message
 * begins with `start`, "ls_function: " or "", and ends with `advice`.
 */
ls_status lsi_ddp_check_synced(const ls_ddp *ddp, const char *start,
                               const char *advice);

/* Forgets all micro-steps since the last sync. */
void lsi_ddp_forget(ls_ddp *ddp);

/* Multiplies all gradients with ddp->scale, which becomes 1. */
void lsi_ddp_scale(ls_ddp *ddp);

/* Informs ranks that wait in ls_ddp_finish that this one leaves. */
void lsi_ddp_abandon(ls_ddp *ddp);

/*
 * Gives this rank its part of everything that the strategy shares. To be called
 * after the weights are equal on all ranks. Collective.
 */
ls_status lsi_ddp_assign_part(ls_ddp *ddp);

/* The sums of these spans have arrived: this rank keeps only its part. */
void lsi_ddp_drop(void *context, lsi_range spans);

/* Waits until no rank reads weights that others will change. Collective. */
ls_status lsi_ddp_before_step(ls_ddp *ddp);

/* Replaces before_step for a rank that cannot step; returns `status`. */
ls_status lsi_ddp_refuse_step(const ls_ddp *ddp, ls_status status);

/* Functions of lsi_params_owner; their context is the ls_ddp. */
ls_status lsi_ddp_add_up(void *context, double *sums, size_t n);
void lsi_ddp_moved(void *context, lsi_range range);
ls_status lsi_ddp_after_step(void *context);
ls_status lsi_ddp_need(void *context, size_t index, lsi_weights_need need);
ls_status lsi_ddp_need_again(void *context, size_t index);

/* Whether all ranks can write each other's weights. */
static inline bool lsi_ddp_on_one_node(const ls_ddp *ddp)
{
    return ls_group_local_size(ddp->group) == ls_group_size(ddp->group);
}

/* Whether a node has only its ranks' parts of the weights. */
static inline bool lsi_ddp_divides_weights(const ls_ddp *ddp)
{
    return lsi_home_of(ddp->strategy, ddp->group, ddp->replicas) ==
           LSI_HOME_DIVIDED;
}

/*
 * As ls_ddp_new with strategy fsdp, for weights that are only read. Collective.
 */
ls_status lsi_ddp_new_inference(ls_ddp **out, ls_group *group,
                                ls_params *params, size_t prefetch_layers);

#endif
