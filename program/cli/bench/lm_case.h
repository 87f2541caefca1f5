/*
 * One language model of the benches and of `lockstep memory`: making it, and a
 * step on random tokens.
 */
#ifndef LS_CLI_BENCH_LM_CASE_H
#define LS_CLI_BENCH_LM_CASE_H

#include "lockstep/optim.h"
#include "model/nets/lm.h"

enum {
    LSI_LM_FORWARD,
    LSI_LM_BACKWARD,
    LSI_LM_OPTIMIZER,
    LSI_LM_STEP,
    LSI_LM_PHASES
};

typedef struct lsi_lm_case {
    ls_transformer_config config;
    bool backward, optimize; /* what a step consists of behind forward */
    int64_t batch;
    ls_dtype dtype; /* of products */
    /* Made by _new: */
    lsi_lm lm;
    ls_optimizer *optimizer;
    ls_tape *tape;
    ls_tensor *tokens, *targets;
} lsi_lm_case;

/*
 * Resets the memory peak, and makes the data of a case with the first fields.
 * LS_ERR_BUDGET, ahead of filling anything, if it cannot fit in the budget. The
 * caller frees the case with _free, also after an error.
 */
ls_status lsi_lm_case_new(lsi_lm_case *c);
void lsi_lm_case_free(lsi_lm_case *c);

/* One step, and how long its parts took. */
ls_status lsi_lm_case_step(lsi_lm_case *c, double seconds[LSI_LM_PHASES]);

#endif
