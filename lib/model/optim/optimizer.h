/*
 * What all optimizers share, and what makes one an optimizer.
 *
 * Parameters, gradients and state are numbers in the flat layout of a set. An
 * optimizer computes element by element, so the result does not depend on how
 * the layout is cut among threads or ranks. A shard is just a range: a group
 * keeps state for the part of its parameters that this rank owns
 * (lsi_params_set_owned) and steps nothing else.
 *
 *     lsi_params_set_owned(params, ranges, n)      before the optimizer is made
 *     ls_adamw_new(&optimizer, params, options)    state of the ranges only
 *     ls_optimizer_step(optimizer, scale)          steps the ranges only
 *
 * A new one is a file with an lsi_optimizer_kind and a row in optimizers.def;
 * its step over an array is an operation (array/compute/optimizers.h);
 * if programs can tell it something that no other knows, a row in flags.def.
 */
#ifndef LS_MODEL_OPTIM_OPTIMIZER_H
#define LS_MODEL_OPTIM_OPTIMIZER_H

#include "base/partition.h"
#include "lockstep/optim.h"

enum { LSI_OPTIMIZER_MAX_STATES = 2 };

/* n elements that follow each other. */
typedef struct lsi_optimizer_update {
    float *param;
    float *state[LSI_OPTIMIZER_MAX_STATES]; /* NULL beyond those it keeps */
    const float *grad;
    size_t n;
    const void *options;
    double lr;
    double grad_scale; /* to multiply each gradient with first */
    uint64_t step;     /* 0 for the first; state is zero then */
} lsi_optimizer_update;

/*
 * What a program was told, by flag. A weight_decay below 0 means what is usual
 * for the optimizer.
 */
typedef struct lsi_optimizer_flags {
#define LSI_FLAG_REAL              double
#define LSI_FLAG_CHOICE            const char *
#define X(kind, owner, field, ...) LSI_FLAG_##kind field;
#include "model/optim/flags.def"
#undef X
} lsi_optimizer_flags;

typedef struct lsi_optimizer_kind {
    const char *name;
    size_t options_bytes;
    /* Options to try the optimizer with. */
    const void *usual_options;
    /* Of each array of state, as other programs call it. */
    const char *state_names[LSI_OPTIMIZER_MAX_STATES];
    /* LS_ERR_ARGUMENT says which of the options cannot be. */
    ls_status (*check)(const void *options);
    /* How many arrays of state these options need. */
    int (*n_states)(const void *options);
    /* By an operation, which owns the threads; cannot fail. */
    void (*update)(const lsi_optimizer_update *update);
    /* Its options as a program was told them, in the flags that it knows. */
    void (*read)(void *options, double lr, const lsi_optimizer_flags *flags);
} lsi_optimizer_kind;

#define X(name, ...) extern const lsi_optimizer_kind lsi_optimizer_##name;
#include "model/optim/optimizers.def"
#undef X

/* All rows; *n is how many. */
const lsi_optimizer_kind *const *lsi_optimizer_kinds(size_t *n);

/* The row of that name, or NULL; what is usual for it. */
const lsi_optimizer_kind *lsi_optimizer_find(const char *name);
double lsi_optimizer_usual_lr(const lsi_optimizer_kind *kind);
double lsi_optimizer_usual_decay(const lsi_optimizer_kind *kind);

/* One as a program was told; how many arrays of state it keeps. */
ls_status lsi_optimizer_from_flags(ls_optimizer **out, ls_params *params,
                                   const lsi_optimizer_kind *kind, double lr,
                                   const lsi_optimizer_flags *flags);
int lsi_optimizer_flags_states(const lsi_optimizer_kind *kind, double lr,
                               const lsi_optimizer_flags *flags);

/* ---- groups -------------------------------------------------------------- */

/* What a group is made of. The options are checked and copied. */
typedef struct lsi_param_group_spec {
    const lsi_optimizer_kind *kind;
    const void *options;
    double lr;
    ls_tensor *const *params; /* NULL: every trained one */
    size_t n;
} lsi_param_group_spec;

/* An optimizer with one group. */
ls_status lsi_optimizer_new(ls_optimizer **out, ls_params *params,
                            const lsi_param_group_spec *spec);
ls_status lsi_optimizer_add_group(ls_optimizer *optimizer,
                                  const lsi_param_group_spec *spec);

/* Options of any kind are refused in the same words; NaN is, too. */
ls_status lsi_check_lr(const char *kind, double lr);
ls_status lsi_check_beta(const char *kind, const char *name, double beta);
ls_status lsi_check_weight_decay(const char *kind, double weight_decay);

#endif
