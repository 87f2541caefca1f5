/*
 * An optimizer in a manifest: its kind, and for each group the number of steps,
 * the names of its state arrays, and its parameters.
 */
#ifndef LS_MODEL_CHECKPOINT_OPTIMIZER_JSON_H
#define LS_MODEL_CHECKPOINT_OPTIMIZER_JSON_H

#include <jansson.h>

#include "lockstep/optim.h"

/* null for NULL. A new reference; NULL if memory ran out. */
json_t *lsi_optimizer_json(const ls_optimizer *optimizer);

/*
 * LS_OK if every parameter of the optimizer has the same state arrays in the
 * manifest, and the parameters of a group have taken the same number of steps.
 */
ls_status lsi_optimizer_json_check(const json_t *json,
                                   const ls_optimizer *optimizer);

/* Takes over the steps of groups that have been checked. */
void lsi_optimizer_json_apply(const json_t *json, ls_optimizer *optimizer);

#endif
