/*
 * Facts of a plan as a table and as JSON.
 */
#ifndef LS_CLI_COMMANDS_PLAN_FACTS_H
#define LS_CLI_COMMANDS_PLAN_FACTS_H

#include <jansson.h>

#include "cli/frame/command.h"
#include "plan/facts.h"

/* Prints a table with formulas. */
ls_status lsi_plan_print_facts(const lsi_facts *facts);

/* {"name": value, ...}; a new reference, or NULL without memory. */
json_t *lsi_plan_facts_json(const lsi_facts *facts);

/*
 * Writes where the numbers are from, and `values`, as a file. `preset` is the
 * first of these, unless it is NULL. Takes over the reference.
 */
ls_status lsi_plan_write(const lsi_invocation *call, const char *path,
                         const char *preset, json_t *values);

#endif
