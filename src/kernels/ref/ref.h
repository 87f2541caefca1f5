/*
 * The reference: every row of kernels.def as a plain loop. It defines what the
 * other levels must compute; they may also call it for the cases that are not
 * worth vectors.
 */
#ifndef LS_KERNELS_REF_REF_H
#define LS_KERNELS_REF_REF_H

#include "kernels/kernels.h"

#define X(name, args) void lsi_ref_##name args;
#include "kernels/kernels.def"
#undef X

#endif
