/*
 * Initial values. Element i of parameter p is a pure function of (seed, p, i):
 * it does not depend on ranks, threads or the other parameters.
 */
#ifndef LS_MODEL_AUTOGRAD_PARAMS_INIT_H
#define LS_MODEL_AUTOGRAD_PARAMS_INIT_H

#include "model/autograd/params/storage.h"

/* Fills one parameter or buffer. */
ls_status lsi_param_fill(lsi_param *param, uint64_t seed, bool is_buffer);

/* The inverse error function for |u| <= 0.998, to a few units of 1e-16. */
double lsi_erfinv(double u);

#endif
