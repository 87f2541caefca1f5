/*
 * One step of each optimizer: n parameters p with gradients g and the
 * optimizer's state. The formulas are above the kernels of their names.
 */
#ifndef LS_ARRAY_COMPUTE_OPTIMIZERS_H
#define LS_ARRAY_COMPUTE_OPTIMIZERS_H

#include <stdbool.h>
#include <stddef.h>

#include "array/kernels/arguments.h"

/* The numbers of one step of SGD. */
typedef struct lsi_sgd {
    float lr, momentum, weight_decay;
    float grad_scale;
    bool first; /* step: v is zero */
} lsi_sgd;

/* v is NULL without momentum. */
void lsi_step_sgd(float *p, float *v_or_null, const float *g, size_t n,
                  const lsi_sgd *numbers);
void lsi_step_adamw(float *p, float *m, float *v, const float *g, size_t n,
                    const lsi_adamw *numbers);
void lsi_step_lion(float *p, float *m, const float *g, size_t n,
                   const lsi_lion *numbers);

#endif
