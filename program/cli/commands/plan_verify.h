/* lockstep plan --verify: predictions next to measurements. */
#ifndef LS_CLI_COMMANDS_PLAN_VERIFY_H
#define LS_CLI_COMMANDS_PLAN_VERIFY_H

#include "cli/commands/plan_training.h"

/* Prints rows as they are measured; writes all rows as JSON. */
ls_status lsi_plan_verify(const lsi_invocation *call,
                          const lsi_plan_flags *flags);

#endif
