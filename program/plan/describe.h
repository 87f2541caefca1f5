/*
 * A language model as numbers, from the very description by which it is made.
 */
#ifndef LS_PLAN_DESCRIBE_H
#define LS_PLAN_DESCRIBE_H

#include "lockstep/transformer.h"
#include "plan/model.h"

/* To be freed, after an error, too. No memory is taken for weights. */
ls_status lsi_plan_model_open(lsi_plan_model *model,
                              const ls_transformer_config *config);
void lsi_plan_model_close(lsi_plan_model *model);

#endif
