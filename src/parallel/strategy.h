/*
 * How gradients travel: what a strategy of data parallelism provides.
 *
 * A strategy makes the flat gradient buffer of a parameter set, together with
 * the LSI_GRAD_EXTRA floats behind it, equal to its sum over all ranks, in
 * place. It does not scale and knows nothing of samples: the weight of the
 * samples is one of the extra floats and is summed like everything else.
 */
#ifndef LS_PARALLEL_STRATEGY_H
#define LS_PARALLEL_STRATEGY_H

#include <stddef.h>

#include "lockstep/autograd.h"
#include "lockstep/group.h"

typedef struct lsi_strategy {
    const char *name;
    /*
     * Plans all communication for an allocated set. Collective. On success
     * *state belongs to the caller, who gives it to release; on failure
     * nothing is left behind.
     */
    ls_status (*plan)(void **state, ls_group *group, ls_params *params);
    /*
     * Called when all gradients of this rank are final. Collective; returns
     * when the sums are there. Allocates nothing.
     */
    ls_status (*reduce)(void *state);
    /* Local. */
    void (*release)(void *state);
} lsi_strategy;

#define X(name, text) extern const lsi_strategy lsi_strategy_##name;
#include "parallel/strategies.def"
#undef X

/* All strategies; *n is how many. */
const lsi_strategy *const *lsi_strategies(size_t *n);

/* The one with that name. LS_ERR_ARGUMENT lists the names there are. */
ls_status lsi_strategy_find(const char *name, const lsi_strategy **out);

#endif
