/*
 * A small model for tests of checkpoints, trained by gradients that depend on
 * the step only.
 */
#ifndef TESTS_CHECKPOINT_MODEL_H
#define TESTS_CHECKPOINT_MODEL_H

#include "lockstep/checkpoint.h"
#include "unit/comm/ranks.h"

enum { MAX_RANKS = 4 };

typedef struct model {
    ls_params *params;
    ls_optimizer *optimizer;
} model;

/* What a test asks of the ranks, and what came of it. */
typedef struct plan {
    char folder[64];
    int64_t step;
    int steps; /* of the optimizer before saving */
    int keep;
    int64_t hidden;
    bool sharded, sgd, more;
    ls_status status[MAX_RANKS];
    char message[MAX_RANKS][512];
    int64_t opened;
} plan;

model make_model(const plan *p, const ls_group *group, uint64_t seed);
void free_model(model *m);

/* Steps from..from+steps-1. */
void train(const model *m, int from, int steps);

/* What a sharded strategy does after its step. */
void exchange(const plan *p, ls_group *group, const model *m);

/* Notes what came of a rank's work, with its message. */
void note(plan *p, const ls_group *group, ls_status status);

/*
 * Opens the newest checkpoint and trains on from it for two steps. The result
 * must be that of training without a break, p->steps being done when it was
 * saved; -1: as many as its step says. `opaque` is a plan p, of which opened,
 * status and messages are set.
 */
void load(ls_group *group, void *opaque);

plan new_plan(void);
void discard(const plan *p);

#endif
