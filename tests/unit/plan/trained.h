/*
 * A language model that is trained for some steps, and the plan of this run.
 */
#ifndef LS_TEST_PLAN_TRAINED_H
#define LS_TEST_PLAN_TRAINED_H

#include "lockstep/lockstep.h"
#include "model/nets/lm.h"
#include "plan/model.h"

typedef struct trained_setup {
    ls_transformer_config config;
    int64_t batch;
    ls_dtype dtype;
    bool recompute;
    int slices; /* of a rank's batch; 0: 1 */
    ls_ddp_options how;
} trained_setup;

typedef struct trained {
    lsi_lm lm;
    ls_ddp *ddp;
    ls_optimizer *optimizer;
    ls_tape *tape;
    ls_tensor *tokens, *targets;
} trained;

void trained_open(trained *t, ls_group *group, const trained_setup *s);
void trained_step(trained *t);
void trained_close(trained *t);

/* On one node. */
lsi_plan_run trained_plan(const trained_setup *s, const ls_group *group,
                          const lsi_plan_model *model);

#endif
