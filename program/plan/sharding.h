/*
 * Accounting of a sharded optimizer: a rank's weights, gradients and AdamW
 * state in f32, at three moments of the first step, and the numbers sent and
 * received in a step. The first backward makes the gradients, the first step
 * the state.
 */
#ifndef LS_PLAN_SHARDING_H
#define LS_PLAN_SHARDING_H

#include <stdint.h>

#include "lockstep/status.h"

typedef enum lsi_state_plan_way {
    LSI_STATE_PLAN_NONE,  /* every rank holds all of it */
    LSI_STATE_PLAN_STATE, /* state is divided; gradients are all-reduced */
    LSI_STATE_PLAN_ZERO1, /* state is divided; gradients are reduce-scattered */
    LSI_STATE_PLAN_WAYS
} lsi_state_plan_way;

typedef enum lsi_state_plan_moment {
    LSI_STATE_PLAN_INIT,
    LSI_STATE_PLAN_BEFORE_STEP,
    LSI_STATE_PLAN_AFTER_STEP,
    LSI_STATE_PLAN_MOMENTS
} lsi_state_plan_moment;

/* Bytes of the rank that has the most; parts are as even as possible. */
typedef struct lsi_state_plan_bytes {
    int64_t parameters, gradients, state, total;
} lsi_state_plan_bytes;

typedef struct lsi_state_plan {
    int64_t parameters; /* parameters of the model */
    int ranks;
    lsi_state_plan_bytes bytes[LSI_STATE_PLAN_WAYS][LSI_STATE_PLAN_MOMENTS];
    /*
     * Numbers that leave and reach a rank in a step, in multiples of the
     * model's parameters, for many ranks. An all-reduce counts 2;
     * reduce-scatter, all-gather and broadcast count 1.
     */
    int traffic[LSI_STATE_PLAN_WAYS];
} lsi_state_plan;

/* "none", "state", "zero1"; "init", "before_step", "after_step". */
extern const char *const lsi_state_plan_way_names[LSI_STATE_PLAN_WAYS];
extern const char *const lsi_state_plan_moment_names[LSI_STATE_PLAN_MOMENTS];

/* LS_ERR_ARGUMENT without parameters or without ranks. */
ls_status lsi_state_plan_fill(int64_t parameters, int ranks,
                              lsi_state_plan *out);

#endif
