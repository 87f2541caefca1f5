/* Slices of a batch; see params/grads.h. */
#ifndef LS_MODEL_AUTOGRAD_SLICES_H
#define LS_MODEL_AUTOGRAD_SLICES_H

enum { LSI_MAX_SLICES = 64 };

/* The sum of the slices' numbers, in the order of sums over ranks. */
double lsi_slices_fold(const double *numbers, int slices);

#endif
