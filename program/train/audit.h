/*
 * The audit of a training run: entries of `train --audit`, and the comparison
 * with those of a file that `audit verify` makes.
 */
#ifndef LS_TRAIN_AUDIT_H
#define LS_TRAIN_AUDIT_H

#include <jansson.h>

#include "model/audit/audit.h"
#include "model/audit/chain.h"
#include "model/audit/entry.h"
#include "train/recipe.h"

/* Training of a segment again. */
typedef struct lsi_audit_check {
    const lsi_chain *chain; /* of the file, on every rank */
    int64_t from, to;       /* steps */
    /* Members below are set by the run; the same on all ranks. */
    int rank;         /* of this process */
    int64_t began;    /* step at which training began; before: -1 */
    int64_t compared; /* entries from `from` on, and the entry of `began` */
    bool differs;
    int64_t step;              /* of the entry that differs */
    lsi_difference difference; /* on rank 0 */
} lsi_audit_check;

typedef struct lsi_audit_run {
    const char *file;       /* NULL: no entries are written */
    int64_t every;          /* steps between entries */
    lsi_audit_check *check; /* of a verification; else NULL */
    json_t *run;            /* on rank 0: the line "run"; owned */
    bool has_data;          /* the digest of the data on rank 0 */
    unsigned char data[LSI_SHA256_BYTES];
    /* Members below are set by the loop. */
    bool resume;
    bool ended; /* a verification has compared all, or found a difference */
    ls_group *group;
    const lsi_run_config *settings;
    ls_audit *audit;             /* of entries that are written */
    lsi_state_digest *digest;    /* of entries that are compared */
    char final[LSI_SHA256_TEXT]; /* digest of the last entry; "": none */
} lsi_audit_run;

/* Whether the run has an audit. Accepts NULL. */
bool lsi_audit_is_wanted(const lsi_audit_run *audit);

/* Steps between entries; 0: none are written. Accepts NULL. */
int64_t lsi_audit_interval(const lsi_audit_run *audit);

/* Whether a verification needs no further step. Accepts NULL. */
bool lsi_audit_has_ended(const lsi_audit_run *audit);

/*
 * Adds to the digest of the data, which becomes the SHA-256 of itself and of
 * these bytes. To be called on rank 0, before the run begins.
 */
void lsi_audit_add_data(lsi_audit_run *audit, const void *data, size_t bytes);

/*
 * Opens the file and makes the entry of the stepper's step, or compares it with
 * the file's. `group`, `settings` and `resume` are set. Collective.
 */
ls_status lsi_audit_begin(lsi_audit_run *audit, const ls_params *params,
                          const lsi_stepper *stepper, int64_t samples);

/*
 * After a step, of which a checkpoint will be made (`saved`), or which is the
 * last one. `samples`: samples that all ranks have trained on. Collective.
 */
ls_status lsi_audit_step(lsi_audit_run *audit, const lsi_stepper *stepper,
                         int64_t samples, bool saved, bool last);

/* Accepts NULL. */
void lsi_audit_end(lsi_audit_run *audit);

#endif
