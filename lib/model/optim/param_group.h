/*
 * Inside an optimizer: groups of parameters and the layout of their state.
 *
 * The state of a group is dense: the states of its segments, one after another,
 * in the order of the flat layout.
 */
#ifndef LS_MODEL_OPTIM_PARAM_GROUP_H
#define LS_MODEL_OPTIM_PARAM_GROUP_H

#include "model/optim/ema.h"
#include "model/optim/optimizer.h"

/* A range of the flat layout; its state begins at element `at`. */
typedef struct lsi_state_segment {
    lsi_range range;
    size_t at;
} lsi_state_segment;

typedef struct lsi_param_group {
    const lsi_optimizer_row *kind;
    void *options;
    double lr;
    uint64_t steps;
    bool *members; /* by index of the parameter */
    lsi_state_segment *segments;
    size_t n_segments;
    size_t count; /* elements of all segments */
    /* state arrays and their names; those of the kind first */
    float *state[LSI_OPTIMIZER_MAX_STATES + 1];
    const char *state_names[LSI_OPTIMIZER_MAX_STATES + 1];
    int n_states;
    float *average; /* EMA of the weights, the last state array; or NULL */
    double decay;   /* decay of the EMA */
} lsi_param_group;

struct ls_optimizer {
    const lsi_optimizer_row *kind;
    ls_params *params;
    unsigned division; /* params->divisions when it was made */
    lsi_param_group **groups;
    size_t n_groups;
    lsi_ema ema;
};

/* n elements of a group, contiguous in all arrays. */
typedef struct lsi_state_run {
    size_t flat; /* first element in the flat layout */
    size_t at;   /* first element in the state arrays */
    size_t n;
    float *weights;
} lsi_state_run;

typedef void (*lsi_state_run_fn)(const ls_params *params,
                                 const lsi_param_group *group,
                                 lsi_state_run run, double argument);

/*
 * Calls fn for all elements that this rank owns, and reports their update to
 * the owner of the set.
 */
void lsi_optimizer_walk(const ls_optimizer *optimizer, lsi_state_run_fn fn,
                        double argument);

/*
 * LS_ERR_STATE if the ranks have divided the set since the optimizer was made.
 */
ls_status lsi_optimizer_check_division(const ls_optimizer *optimizer,
                                       const char *function);

/* *out is the caller's. */
ls_status lsi_param_group_new(lsi_param_group **out,
                              const ls_optimizer *optimizer,
                              const lsi_param_group_spec *spec);
void lsi_param_group_free(lsi_param_group **group);

/* Adds an average, which begins with the current weights. */
ls_status lsi_param_group_add_average(lsi_param_group *group,
                                      const ls_params *params, double decay);
void lsi_param_group_drop_average(lsi_param_group *group);

/*
 * The segment that holds element `at` of the state; any segment if none does.
 */
const lsi_state_segment *lsi_param_group_segment(const lsi_param_group *group,
                                                 size_t at);

/* The state elements of a range of the flat layout. */
lsi_range lsi_param_group_part(const lsi_param_group *group, lsi_range range);

/* ---- state by name ------------------------------------------------------- */

/*
 * n elements of one state array, from element `begin` of a parameter. State is
 * saved by name, so another division among ranks can load it.
 */
typedef struct lsi_state_piece {
    const char *state; /* "exp_avg" */
    size_t param;      /* index in the set */
    size_t begin;
    float *data;
    size_t n;
} lsi_state_piece;

typedef ls_status (*lsi_state_fn)(void *context, const lsi_state_piece *piece);

/*
 * Calls fn for all state that this rank keeps of a range of the flat layout,
 * without padding, until fn fails.
 */
ls_status lsi_optimizer_pieces(const ls_optimizer *optimizer, lsi_range range,
                               lsi_state_fn fn, void *context);

#endif
