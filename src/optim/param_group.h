/*
 * Inside an optimizer: groups of parameters and where their state lies.
 *
 * The state of a group is dense: that of its segments, in the order of the flat
 * layout, one behind the other.
 */
#ifndef LS_OPTIM_PARAM_GROUP_H
#define LS_OPTIM_PARAM_GROUP_H

#include "optim/optimizer.h"

/* A range of the flat layout; its state begins at element `at`. */
typedef struct lsi_state_segment {
    lsi_range range;
    size_t at;
} lsi_state_segment;

typedef struct lsi_param_group {
    const lsi_optimizer_kind *kind;
    void *options;
    double lr;
    uint64_t steps;
    bool *members; /* by index of the parameter */
    lsi_state_segment *segments;
    size_t n_segments;
    size_t count; /* elements of all segments */
    float *state[LSI_OPTIMIZER_MAX_STATES];
    int n_states;
} lsi_param_group;

struct ls_optimizer {
    const lsi_optimizer_kind *kind;
    ls_params *params;
    unsigned division; /* params->divisions when it was made */
    lsi_param_group **groups;
    size_t n_groups;
};

/* *out is the caller's. */
ls_status lsi_param_group_new(lsi_param_group **out,
                              const ls_optimizer *optimizer,
                              const lsi_param_group_spec *spec);
void lsi_param_group_free(lsi_param_group **group);

/* The segment that holds element `at` of the state; any if there is none. */
const lsi_state_segment *lsi_param_group_segment(const lsi_param_group *group,
                                                 size_t at);

/* Which elements of the state belong to a range of the flat layout. */
lsi_range lsi_param_group_part(const lsi_param_group *group, lsi_range range);

#endif
