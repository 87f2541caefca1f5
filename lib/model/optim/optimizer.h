/*
 * The common part of all optimizers, and the interface of each.
 *
 * Parameters, gradients and state are numbers in the flat layout of a set. An
 * optimizer computes element by element, so the result does not depend on how
 * the layout is cut among threads or ranks. A shard is just a range: a group
 * keeps state for the part of its parameters that this rank owns
 * (lsi_params_set_owned) and steps nothing else.
 *
 *     lsi_params_set_owned(params, ranges, n)      before the optimizer is made
 *     ls_optimizer_new(&optimizer, params, spec)   state of the ranges only
 *     ls_optimizer_step(optimizer, scale)          steps the ranges only
 *
 * A new optimizer is a file with an lsi_optimizer_row, and a row in
 * optimizers.h with its flags. Plain C (`update_part`) is sufficient; an
 * operation with a vector kernel (array/compute/optimizers.h) can replace it
 * later.
 */
#ifndef LS_MODEL_OPTIM_OPTIMIZER_H
#define LS_MODEL_OPTIM_OPTIMIZER_H

#include <stddef.h>

#include "base/error.h"
#include "base/partition.h"
#include "lockstep/optim.h"
#include "model/optim/optimizers.h"

enum {
    LSI_OPTIMIZER_MAX_STATES = 2,
    LSI_OPTIMIZER_OPTIONS = 128 /* bytes; options of any kind fit */
};

/* n contiguous elements. */
typedef struct lsi_optimizer_update {
    float *param;
    float *state[LSI_OPTIMIZER_MAX_STATES]; /* NULL beyond those it keeps */
    const float *grad;
    size_t n;
    const void *options;
    double lr;
    double grad_scale; /* factor of each gradient, applied first */
    uint64_t step;     /* 0 for the first; state is zero then */
} lsi_optimizer_update;

/*
 * Values of a program's flags. A weight_decay below 0 means the usual value of
 * the optimizer.
 */
typedef struct lsi_optimizer_flags {
#define LSI_FLAG_REAL                      double
#define LSI_FLAG_CHOICE                    const char *
#define LSI_FIELD(kind, owner, field, ...) LSI_FLAG_##kind field;
    LSI_OPTIMIZERS(LSI_OPTIMIZER_NOT, LSI_FIELD)
#undef LSI_FIELD
    double weight_decay;
} lsi_optimizer_flags;

typedef struct lsi_optimizer_row {
    const char *name;
    size_t options_bytes;
    /* names of the state arrays in other programs */
    const char *state_names[LSI_OPTIMIZER_MAX_STATES];
    /* LS_ERR_ARGUMENT names an invalid option; lr is already checked. */
    ls_status (*check)(const void *options);
    /* Number of state arrays for these options; NULL: all that have names. */
    int (*n_states)(const void *options);
    /*
     * One of the two is set; neither can fail. `update` calls an operation,
     * which owns the threads. `update_part` is plain C: several threads call
     * it, each with a part of the elements.
     */
    void (*update)(const lsi_optimizer_update *update);
    void (*update_part)(const lsi_optimizer_update *update);
    /* Reads its options from the flags that it knows. */
    void (*read)(void *options, double lr, const lsi_optimizer_flags *flags);
    /*
     * Copies a caller's options (NULL: the defaults) with the default of each
     * member of 0 that has one. NULL: lockstep/optim.h has no such options.
     */
    ls_status (*copy)(void *options, double *lr, const void *given);
} lsi_optimizer_row;

#define LSI_DECLARE(name, ...)                                                 \
    extern const lsi_optimizer_row lsi_optimizer_##name;
LSI_OPTIMIZERS(LSI_DECLARE, LSI_OPTIMIZER_NOT)
#undef LSI_DECLARE

/* All rows; *n is their number. */
const lsi_optimizer_row *const *lsi_optimizer_kinds(size_t *n);

/* The row of that name, or NULL; its usual values. */
const lsi_optimizer_row *lsi_optimizer_find(const char *name);
double lsi_optimizer_usual_lr(const lsi_optimizer_row *kind);
double lsi_optimizer_usual_decay(const lsi_optimizer_row *kind);
void lsi_optimizer_usual_options(const lsi_optimizer_row *kind, void *options);

/* The number of state arrays that an optimizer keeps with these options. */
int lsi_optimizer_states(const lsi_optimizer_row *kind, const void *options);

/* An optimizer from a program's flags; the number of its state arrays. */
ls_status lsi_optimizer_from_flags(ls_optimizer **out, ls_params *params,
                                   const lsi_optimizer_row *kind, double lr,
                                   const lsi_optimizer_flags *flags);
int lsi_optimizer_flags_states(const lsi_optimizer_row *kind, double lr,
                               const lsi_optimizer_flags *flags);

/* ---- groups -------------------------------------------------------------- */

/* Room for the options of any kind. */
typedef union lsi_any_options {
    max_align_t aligned;
    unsigned char bytes[LSI_OPTIMIZER_OPTIONS];
} lsi_any_options;

/* The specification of a group. The options are checked and copied. */
typedef struct lsi_param_group_spec {
    const lsi_optimizer_row *kind;
    const void *options;
    double lr;
    ls_tensor *const *params; /* NULL: every trained one */
    size_t n;
} lsi_param_group_spec;

/* An optimizer with one group. */
ls_status lsi_optimizer_with(ls_optimizer **out, ls_params *params,
                             const lsi_param_group_spec *spec);
ls_status lsi_optimizer_join(ls_optimizer *optimizer,
                             const lsi_param_group_spec *spec);

/*
 * Checks of options, with the same errors for all kinds; NaN is an error, too.
 */
ls_status lsi_check_lr(const char *kind, double lr);
ls_status lsi_check_beta(const char *kind, const char *name, double beta);
ls_status lsi_check_weight_decay(const char *kind, double weight_decay);

#endif
