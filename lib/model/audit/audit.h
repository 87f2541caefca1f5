/*
 * Writing an audit file, for a run that says more about itself than
 * lockstep/audit.h has members for.
 */
#ifndef LS_MODEL_AUDIT_AUDIT_H
#define LS_MODEL_AUDIT_AUDIT_H

#include <jansson.h>

#include "lockstep/audit.h"

/* On rank 0 the objects, which are borrowed; elsewhere NULL. */
typedef struct lsi_audit_plan {
    const char *path;
    const json_t *settings; /* texts, on which the bits depend */
    const json_t *run;      /* all else that is needed to train again */
    bool resume;
    int64_t step; /* as in ls_audit_setup */
} lsi_audit_plan;

/* As ls_audit_open. */
ls_status lsi_audit_open(ls_audit **out, ls_group *group,
                         const ls_params *params, const ls_optimizer *optimizer,
                         const lsi_audit_plan *plan);

/*
 * As ls_audit_step, for a checkpoint: the line is a branch (chain.h). The file
 * is on the disk afterwards.
 */
ls_status lsi_audit_saved(ls_audit *audit, int64_t step,
                          const char *const *values);

#endif
