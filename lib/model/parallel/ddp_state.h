/*
 * Inside data parallelism: what its two forms, over a parameter set and over
 * ranges of memory, have in common.
 */
#ifndef LS_MODEL_PARALLEL_DDP_STATE_H
#define LS_MODEL_PARALLEL_DDP_STATE_H

#include <stdatomic.h>

#include "base/error.h"
#include "model/autograd/params.h"
#include "model/parallel/ddp.h"
#include "model/parallel/reducer.h"

/* Floats that travel behind the gradients. */
enum {
    LSI_EXTRA_WEIGHT, /* of the rank's samples */
    LSI_EXTRA_UNUSED, /* spans that no loss has used */
    LSI_EXTRA_LOSS,   /* sum over the samples, in LSI_DDP_LOSS_UNIT */
    LSI_EXTRA_NEWS    /* LSI_DDP_NEWS of them: ranks on which each is set */
};

/* So large that no sum of finite losses of less than 2^40 samples is infinite.
 */
#define LSI_DDP_LOSS_UNIT 0x1p40

struct ls_ddp {
    ls_group *group, *channel;
    ls_params *params; /* or NULL */
    lsi_params_owner owner;
    lsi_reducer *reducer;
    const lsi_strategy *strategy;
    size_t shard; /* floats of a rank's part, if it has one; see grad_range.h */
    double waited;
    bool unused_as_zero;
    lsi_grad_range *spans; /* in the order in which they should become final */
    size_t n;
    size_t *index_of; /* [n] what the user calls a span */
    size_t *span_of;  /* the other way round; SIZE_MAX: none */
    bool *unused;     /* [n] in this sync */
    lsi_grad_range extra;
    bool own_extra;  /* allocated here, in memory shared by `group` */
    bool syncing;    /* a backward whose gradients travel */
    bool begun;      /* by ls_ddp_begin */
    lsi_error wrong; /* the first mistake of this rank since then */
    bool spoiled;    /* gradients are partly there; until they are forgotten */
    bool has_loss;   /* there was one since the last sync */
    size_t unsynced; /* micro-steps since then */
    double weight;   /* of their samples */
    double loss;     /* sum over these */
    double mean;     /* of the losses of all ranks, in the last sync */
    double loss_scale;
    double scale;            /* that makes the gradients means; 1 if they are */
    bool deferred;           /* the scale is left to the optimizer */
    const atomic_uint *news; /* of this rank, or NULL */
    unsigned heard;          /* of all ranks, in the last sync */
};

/* An empty one, with room for `spans` of `indices`, and with a channel. */
ls_status lsi_ddp_make(ls_ddp **out, ls_group *group, size_t spans,
                       size_t indices);

/* The options of a program, or if it has none the usual ones; always writes. */
ls_status lsi_ddp_read_options(ls_ddp_options *out,
                               const ls_ddp_options *given);

/*
 * Makes sure that all ranks ask for the same; then plans. `status` says
 * whether the rank is ready to: if it is not, all fail. Collective.
 */
ls_status lsi_ddp_plan(ls_ddp *ddp, const ls_ddp_options *options,
                       ls_status status);

/* Finite and not negative. */
ls_status lsi_ddp_check_weight(double weight);

/* Adds `index`, the next to become final. */
void lsi_ddp_add_span(ls_ddp *ddp, size_t index, lsi_grad_range span);

/* Begins a sync: what is ready from now on travels. Local. */
ls_status lsi_ddp_begin(ls_ddp *ddp);

/* Writes what is new on this rank where it travels with the last bucket. */
void lsi_ddp_tell_news(ls_ddp *ddp);

/*
 * A span that nothing has been written to in this sync: it becomes zero, and
 * the others are told. Local; between begin and finish.
 */
void lsi_ddp_set_unused(ls_ddp *ddp, size_t span);

/* What the user calls a span. */
void lsi_ddp_describe(const ls_ddp *ddp, size_t span, char *text, size_t bytes);

/*
 * Ends it: everything else is final, too. Gradients are sums over samples
 * then, and ddp->scale makes them means. Collective.
 */
ls_status lsi_ddp_finish(ls_ddp *ddp);

/* As if there had been no micro-step since the last sync. */
void lsi_ddp_forget(ls_ddp *ddp);

/* Multiplies all gradients with ddp->scale, which becomes 1. */
void lsi_ddp_scale(ls_ddp *ddp);

/* Tells ranks that wait in ls_ddp_finish that this one leaves. */
void lsi_ddp_abandon(ls_ddp *ddp);

/*
 * Gives this rank its part of what the strategy shares; after the weights are
 * the same on all ranks. Collective.
 */
ls_status lsi_ddp_take_part(ls_ddp *ddp);

/* The sums of spans of the ls_ddp are there: this rank keeps its part. */
void lsi_ddp_drop(void *context, lsi_range spans);

/* Nobody may still read what others are about to change. Collective. */
ls_status lsi_ddp_before_step(ls_ddp *ddp);

/* Instead of before_step, for a rank that cannot step; returns `status`. */
ls_status lsi_ddp_refuse_step(const ls_ddp *ddp, ls_status status);

/* Functions of lsi_params_owner; their context is the ls_ddp. */
ls_status lsi_ddp_add_up(void *context, double *sums, size_t n);
void lsi_ddp_moved(void *context, lsi_range range);
ls_status lsi_ddp_after_step(void *context);

/* Whether all ranks can write each other's weights. */
static inline bool lsi_ddp_on_one_node(const ls_ddp *ddp)
{
    return ls_group_local_size(ddp->group) == ls_group_size(ddp->group);
}

#endif
