/*
 * The strategy of a run that leaves it open (--strategy auto): the one with the
 * fastest steps of those that fit in memory (docs/concepts/parallel.md). The
 * loop measures; this has the candidates, and the choice.
 */
#ifndef LS_TRAIN_DDP_CHOICE_H
#define LS_TRAIN_DDP_CHOICE_H

#include <stdbool.h>

#include "lockstep/checkpoint.h"
#include "train/memory_demand.h"

typedef enum lsi_ddp_reason {
    LSI_DDP_NAMED,    /* it was asked for */
    LSI_DDP_ALONE,    /* one rank has nothing to send */
    LSI_DDP_ONLY,     /* there is memory for no other */
    LSI_DDP_MEASURED, /* it was the fastest */
    LSI_DDP_SAVED     /* the checkpoint's run had chosen it */
} lsi_ddp_reason;

typedef struct lsi_ddp_candidate {
    ls_ddp_options options;
    bool fits;      /* there is memory for it */
    double seconds; /* seconds of the shortest step; 0: not measured */
    double spread;  /* seconds: how much longer the median step took */
    int times;      /* number of measurements */
} lsi_ddp_candidate;

enum { LSI_DDP_CANDIDATES = 5, LSI_DDP_CHOICE_TEXT = 400 };

typedef struct lsi_ddp_choice {
    lsi_ddp_reason reason; /* LSI_DDP_MEASURED until the choice is made */
    ls_ddp_options options;
    size_t n;
    lsi_ddp_candidate all[LSI_DDP_CANDIDATES];
} lsi_ddp_choice;

/*
 * Without `automatic` the options are chosen already. With it their strategy
 * has no meaning. If they do not limit buckets, candidates with buckets get a
 * size that follows from the bytes of the gradients.
 */
lsi_ddp_choice lsi_ddp_choice_of(const ls_ddp_options *options, bool automatic,
                                 int64_t parameters, int ranks);

/*
 * Finds the candidates that fit in memory; LS_ERR_MEMORY, on all ranks, if none
 * does. If only one fits, it is chosen. plan.strategy is ignored; `budget` as
 * in lsi_memory_demand_ask. Collective.
 */
ls_status lsi_ddp_choice_ask(lsi_ddp_choice *choice, ls_group *group,
                             lsi_memory_plan plan, int64_t budget);

/*
 * Takes over the choice of a checkpoint's run, if that run had the same number
 * of ranks and the choice is possible here, too. Returns whether it did.
 */
bool lsi_ddp_choice_restore(lsi_ddp_choice *choice,
                            const ls_checkpoint *checkpoint, int ranks);

/* Adds a measurement of n steps to a candidate; sorts `seconds`. */
void lsi_ddp_choice_add(lsi_ddp_candidate *candidate, double *seconds,
                        size_t n);

/*
 * Whether the fastest two are no further apart than the steps of either are
 * spread: they may be equally fast. Their indices are out[0] and out[1], the
 * fastest first. False if fewer than two were measured.
 */
bool lsi_ddp_choice_is_close(const lsi_ddp_choice *choice, size_t out[2]);

/* Chooses the fastest of the measured candidates. */
void lsi_ddp_choice_settle(lsi_ddp_choice *choice);

/* Whether this run made the choice, and reports it. */
bool lsi_ddp_choice_is_new(const lsi_ddp_choice *choice);

/* Value for checkpoints, under this key. */
#define LSI_DDP_CHOICE_KEY "strategy_chosen"
typedef struct lsi_ddp_choice_value {
    char text[80];
} lsi_ddp_choice_value;
lsi_ddp_choice_value lsi_ddp_choice_value_of(const lsi_ddp_choice *choice,
                                             int ranks);

/* A line with the choice and its reason, without a line break. */
void lsi_ddp_choice_describe(const lsi_ddp_choice *choice,
                             char text[LSI_DDP_CHOICE_TEXT]);

#endif
