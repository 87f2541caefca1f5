/*
 * fused: ranks send (count, mean, sum of squared differences from the mean).
 *
 * Two sets of rows combine by
 *     n = na + nb, d = mean_b - mean_a
 *     mean = mean_a + d * nb / n
 *     M2 = M2_a + M2_b + d^2 * na * nb / n
 * (Chan, Golub, LeVeque 1979), in which nothing cancels: a mean of any size
 * costs the variance no digits. The combination is done in double, in the order
 * in which reductions fold (fold.def).
 */
#include <math.h>

#include "model/parallel/sync_bn.h"

typedef struct moments {
    double rows, mean[LSI_BN_BLOCK], m2[LSI_BN_BLOCK];
} moments;

static void load(lsi_bn_slot slot, size_t begin, moments *out)
{
    out->rows = lsi_bn_rows(slot);
    for (int i = 0; i < LSI_BN_BLOCK; i++) {
        out->mean[i] = (double)slot.mean[begin + (size_t)i];
        out->m2[i] = (double)slot.spread[begin + (size_t)i];
    }
}

/* The moments of no rows are zeros. */
static void merge(moments *into, const moments *more)
{
    if (more->rows == 0)
        return;
    const double rows = into->rows + more->rows;
    const double share = more->rows / rows;
    const double cross = into->rows * share;
    for (int i = 0; i < LSI_BN_BLOCK; i++) {
        const double d = more->mean[i] - into->mean[i];
        into->mean[i] += d * share;
        into->m2[i] += more->m2[i] + d * d * cross;
    }
    into->rows = rows;
}

/* Merges the parts first, first + stride, ... */
static void fold(const ls_sync_bn *bn, size_t begin, int first, int stride,
                 moments *out)
{
    if (first + stride >= lsi_bn_parts(bn)) {
        load(lsi_bn_slot_of(bn, first), begin, out);
        return;
    }
    moments more;
    fold(bn, begin, first, 2 * stride, out);
    fold(bn, begin, first + stride, 2 * stride, &more);
    merge(out, &more);
}

static void combine(const ls_sync_bn *bn, lsi_bn_stats *out)
{
    for (size_t begin = 0; begin < bn->stride; begin += LSI_BN_BLOCK) {
        moments block;
        fold(bn, begin, 0, 1, &block);
        out->rows = block.rows;
        const double per_row = out->rows > 0 ? 1.0 / out->rows : 0.0;
        for (int i = 0; i < LSI_BN_BLOCK; i++) {
            const double variance = block.m2[i] * per_row;
            out->mean[begin + i] = (float)block.mean[i];
            out->variance[begin + i] = (float)variance;
            out->inv_std[begin + i] =
                (float)(1.0 / sqrt(variance + bn->args.eps));
        }
    }
}

const lsi_bn_exchange lsi_bn_fused = {.combine = combine};
