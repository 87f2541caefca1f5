/*
 * What training a language model says: lines on stderr, the summary on stdout,
 * metrics in a file. Rank 0 speaks, the others keep quiet.
 */
#ifndef LS_CLI_LM_LOG_H
#define LS_CLI_LM_LOG_H

#include "report/jsonl.h"
#include "train/jobs/lm.h"

typedef struct lsi_lm_log {
    bool quiet;
    const char *size; /* of the model, for the summary */
    int ranks;
    int64_t steps; /* to come in all */
    int64_t every; /* steps between lines */
    lsi_jsonl *metrics;
    lsi_lm_start start;
    lsi_lm_step last;
    double seconds; /* of all steps but the first, which also plans */
    double val_loss;
    bool validated;
} lsi_lm_log;

/*
 * Says what begins; opens the metrics file (NULL: none). The log is filled in
 * otherwise by the caller, who closes it.
 */
ls_status lsi_lm_log_open(lsi_lm_log *log, const lsi_lm_start *start,
                          const char *metrics);
void lsi_lm_log_close(lsi_lm_log *log);

ls_status lsi_lm_log_step(lsi_lm_log *log, const lsi_lm_step *step);
ls_status lsi_lm_log_validation(lsi_lm_log *log, int64_t step, double loss);
ls_status lsi_lm_log_summary(const lsi_lm_log *log);

#endif
