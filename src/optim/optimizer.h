/*
 * What all optimizers share, and what makes one an optimizer.
 *
 * Parameters, gradients and state are flat arrays of equal length, and an
 * optimizer is made for a range of them: all of it, or the part that a rank
 * owns. An optimizer computes element by element, so that the result does not
 * depend on how ranges are cut.
 *
 * A new one is a file with an lsi_optimizer_kind and a row in optimizers.def.
 */
#ifndef LS_OPTIM_OPTIMIZER_H
#define LS_OPTIM_OPTIMIZER_H

#include "base/partition.h"
#include "lockstep/optim.h"

enum { LSI_OPTIMIZER_MAX_STATES = 2 };

/* Elements 0..n-1 of some part of the range. */
typedef struct lsi_optimizer_update {
    float *param;
    float *state[LSI_OPTIMIZER_MAX_STATES]; /* NULL beyond those it keeps */
    const float *grad;
    size_t n;
    const void *options;
    float lr;
    float grad_scale; /* to multiply each gradient with first */
    uint64_t step;    /* 0 for the first; state is zero then */
} lsi_optimizer_update;

typedef struct lsi_optimizer_kind {
    const char *name;
    size_t options_bytes;
    /* Options to try the optimizer with. */
    const void *usual_options;
    /* How many arrays of state these options need. */
    int (*n_states)(const void *options);
    /* Called by several threads at once for disjoint parts; cannot fail. */
    void (*update)(const lsi_optimizer_update *update);
} lsi_optimizer_kind;

#define X(name) extern const lsi_optimizer_kind lsi_optimizer_##name;
#include "optim/optimizers.def"
#undef X

/* All rows; *n is how many. */
const lsi_optimizer_kind *const *lsi_optimizer_kinds(size_t *n);

/*
 * An optimizer for elements range.begin..range.end-1 of the set's flat
 * buffers. The options have been checked and are copied.
 */
ls_status lsi_optimizer_new(ls_optimizer **out, const lsi_optimizer_kind *kind,
                            const void *options, double lr, ls_params *params,
                            lsi_range range);

/* The range that covers a whole set; LS_ERR_STATE if it is not allocated. */
ls_status lsi_optimizer_whole(const ls_params *params, lsi_range *range);

#endif
