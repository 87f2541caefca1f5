/*
 * Inside clipping: the squares of gradients are summed block by block, and the
 * blocks in their order, so that the norm is the same bits whoever sums which
 * blocks. Ranks that have a part of the gradients each measure it and exchange
 * the sums of their blocks before they ask for the scale.
 */
#ifndef LS_MODEL_OPTIM_CLIP_H
#define LS_MODEL_OPTIM_CLIP_H

#include "base/partition.h"
#include "lockstep/optim.h"

/*
 * Measures elements of a range of the flat layout, which lie at `grad`; it
 * begins at a multiple of LSI_SQUARES_BLOCK, and ends at one or at the end.
 */
void lsi_clip_measure(ls_clip *clip, lsi_range range, const float *grad);

/* The sums of all blocks in the order of the layout; *n is how many. */
double *lsi_clip_sums(ls_clip *clip, size_t *n);

/* What ls_clip_grad_scaled does when the sums are there. */
void lsi_clip_scale(const ls_clip *clip, double *grad_scale, double *norm);

#endif
