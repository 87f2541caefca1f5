/*
 * The log of training a language model (report/run_log.h), and its summary on
 * stdout. Rank 0 prints, the other ranks do not.
 */
#ifndef LS_CLI_COMMANDS_LM_LOG_H
#define LS_CLI_COMMANDS_LM_LOG_H

#include "cli/commands/run_summary.h"
#include "report/run_log.h"
#include "train/jobs/lm.h"

typedef struct lsi_lm_log {
    bool is_first;    /* this is rank 0 */
    const char *size; /* of the model, for the summary */
    lsi_run_about about;
    lsi_run_summary summary; /* its data, recipe, seed and keep */
    lsi_run_log *run;
    char model[200], counts[160]; /* in words */
    lsi_lm_start start;
    lsi_lm_step last;
    double seconds; /* of all steps but the first, which also plans */
    double val_loss;
    bool validated;
} lsi_lm_log;

/*
 * Prints the training that begins. The caller fills in the log down to
 * `summary`, except for members that `start` has, and closes it.
 */
ls_status lsi_lm_log_open(lsi_lm_log *log, const lsi_lm_start *start,
                          const lsi_run_outputs *outputs);
void lsi_lm_log_close(lsi_lm_log *log);

ls_status lsi_lm_log_step(lsi_lm_log *log, const lsi_lm_step *step);
ls_status lsi_lm_log_validation(lsi_lm_log *log, int64_t step, double loss);
ls_status lsi_lm_log_summary(const lsi_lm_log *log);

#endif
