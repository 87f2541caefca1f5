/*
 * What the algorithms that are made of point-to-point messages have in common.
 * Half types are carried as f32 until the last reduction is done, so that each
 * result is rounded once.
 */
#ifndef LS_COMM_ALGO_POINTS_H
#define LS_COMM_ALGO_POINTS_H

#include "comm/algo/algorithm.h"
#include "comm/paths.h"

/* The type in which partial sums travel. */
ls_dtype lsi_wide_dtype(const lsi_op *op);

/* Bytes of `elements` partial sums. */
size_t lsi_wide_bytes(const lsi_op *op, size_t elements);

/* to[i] = (wide) from[i]; a plain copy, or none, if it is the same type. */
void lsi_widen(const lsi_op *op, void *to, const void *from, size_t elements);

/* acc[i] = acc[i] op more[i], both wide; the average stays a sum. */
void lsi_accumulate(const lsi_op *op, void *acc, const void *more,
                    size_t elements);

/* to[i] = from[i] (wide), divided for an average and rounded. */
void lsi_narrow(const lsi_op *op, void *to, void *from, size_t elements);

/* Elements of the largest block. */
size_t lsi_largest_block(const lsi_op *op);

#endif
