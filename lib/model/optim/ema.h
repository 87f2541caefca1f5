/*
 * Averages of weights (EMA): one more state array of each group, which
 * checkpoints save and strategies divide like the others, and one array of each
 * buffer.
 */
#ifndef LS_MODEL_OPTIM_EMA_H
#define LS_MODEL_OPTIM_EMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/optim.h"

/* Name of this state array. */
#define LSI_EMA_STATE "ema"

typedef struct lsi_ema {
    double decay; /* 0: nothing is averaged */
    bool swapped;
    float *buffers; /* one after another, in the order of the set */
} lsi_ema;

/* Weight of the new values in the average, in the step after `steps` steps. */
float lsi_ema_rest(double decay, uint64_t steps);

/* After a step: updates the averages of buffers. Those of weights are done. */
void lsi_ema_step_buffers(const ls_optimizer *optimizer);

void lsi_ema_free_buffers(lsi_ema *ema);

/* The average of a buffer; NULL without one. */
float *lsi_ema_buffer(const ls_optimizer *optimizer, size_t index);

/* LS_ERR_STATE while the weights and their averages are swapped. */
ls_status lsi_ema_check_place(const ls_optimizer *optimizer,
                              const char *function);

#endif
