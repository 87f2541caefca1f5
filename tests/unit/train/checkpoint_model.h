/*
 * A small model for tests of checkpoints, trained by gradients that depend on
 * the step only.
 */
#ifndef TESTS_CHECKPOINT_MODEL_H
#define TESTS_CHECKPOINT_MODEL_H

#include <stdbool.h>

#include "lockstep/checkpoint.h"
#include "model/checkpoint/folder.h"
#include "unit/comm/ranks.h"

enum { MAX_RANKS = 4 };

typedef struct model {
    ls_params *params;
    ls_optimizer *optimizer;
} model;

/* The request of a test to the ranks, and the outcome. */
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

/* The exchange of a sharded strategy after its step. */
void exchange(const plan *p, ls_group *group, const model *m);

/* Notes what came of a rank's work, with its message. */
void note(plan *p, const ls_group *group, ls_status status);

/* Trains for p->steps and saves step p->step; notes what came of it. */
void save(ls_group *group, void *opaque);

/*
 * Opens the newest checkpoint and trains on from it for two steps. The result
 * must be that of training without a break, p->steps being done when it was
 * saved; -1: as many as its step says. `opaque` is a plan p, of which opened,
 * status and messages are set.
 */
void load(ls_group *group, void *opaque);

plan new_plan(void);
void discard(const plan *p);

/* Runs it on that number of threads: well on all, or with the same error on
 * all. */
void expect_ok(plan *p, int ranks, rank_fn fn);
void expect_error(plan *p, int ranks, rank_fn fn, const char *what);

/* Saves by another process, so that this one does not know that it is whole. */
void save_elsewhere(plan *p, int64_t step);

/* Saves by two threads of this one. */
void save_step(plan *p, int64_t step);

/* The steps that have a folder, newest first: "12 9". */
const char *steps_of(const plan *p);

/* Another folder with the same steps, whose files are others. */
plan copy_plan(const plan *from);

/*
 * From the first call on, what goes to stderr is kept; the second ends that and
 * returns how many lines of it have `what` in them.
 */
void collect_warnings(void);
int count_warnings(const char *what);

bool exists(lsi_path path);
lsi_path file_of(const plan *p, int64_t step, const char *name);
void flip_byte(lsi_path path, off_t offset);

#endif
