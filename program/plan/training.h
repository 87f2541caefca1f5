/*
 * Requirements of training a language model: memory of a rank, bytes of a step
 * and its time, as numbers with their formulas.
 */
#ifndef LS_PLAN_TRAINING_H
#define LS_PLAN_TRAINING_H

#include "plan/facts.h"
#include "plan/memory.h"
#include "plan/step.h"

typedef struct lsi_trained_plan {
    lsi_plan_run run;
    double device_bytes; /* bytes of memory of a node; below 0: not known */
    bool timed; /* whether `place` and the members below are filled in */
    lsi_plan_place place;
    lsi_plan_compute compute;
} lsi_trained_plan;

/* LS_ERR_ARGUMENT as from lsi_plan_check. */
ls_status lsi_trained_plan_account(const lsi_trained_plan *plan,
                                   lsi_facts *out);

#endif
