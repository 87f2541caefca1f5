/*
 * Averages of weights: one more array of state of each group, which checkpoints
 * save and strategies divide as they do the others, and one of each buffer.
 */
#ifndef LS_MODEL_OPTIM_EMA_H
#define LS_MODEL_OPTIM_EMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/optim.h"

/* What that array is called where state has names. */
#define LSI_EMA_STATE "ema"

typedef struct lsi_ema {
    double decay; /* 0: nothing is averaged */
    bool swapped;
    float *buffers; /* one behind the other, in the order of the set */
} lsi_ema;

/* What the step that comes after `steps` others leaves of the difference. */
float lsi_ema_rest(double decay, uint64_t steps);

/* After a step: moves the averages of buffers. Those of weights are moved. */
void lsi_ema_step_buffers(const ls_optimizer *optimizer);

void lsi_ema_free_buffers(lsi_ema *ema);

/* The average of a buffer; NULL if there is none. */
float *lsi_ema_buffer(const ls_optimizer *optimizer, size_t index);

/* LS_ERR_STATE if the weights and their averages have changed places. */
ls_status lsi_ema_check_place(const ls_optimizer *optimizer,
                              const char *function);

#endif
