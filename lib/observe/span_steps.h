/*
 * Which steps of a program are traced: all of them, or those of --trace-steps
 * FIRST:COUNT or LOCKSTEP_TRACE_STEPS. What comes before the first step counts
 * as part of it.
 */
#ifndef LS_OBSERVE_SPAN_STEPS_H
#define LS_OBSERVE_SPAN_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "lockstep/status.h"

/*
 * Limits traces that begin later to the steps of "FIRST:COUNT", from 1 on;
 * nothing for NULL. LS_ERR_ARGUMENT names `what`, the flag or the variable.
 */
ls_status lsi_span_limit_steps(const char *what, const char *text);

/* Step `number` begins. Programs without such calls have the steps below. */
void lsi_span_begin_step(uint64_t number);

/* An optimizer has made a step, which ends one of the program's. */
void lsi_span_end_optimizer_step(void);

/* ---- for span_file.c ----------------------------------------------------- */

/* Whether step `number` is traced. */
bool lsi_span_step_is_traced(uint64_t number);

#endif
