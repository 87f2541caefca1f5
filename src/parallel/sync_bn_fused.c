/*
 * fused: ranks send (count, mean, sum of squared differences from the mean).
 *
 * Two sets of rows combine by
 *     n = na + nb, d = mean_b - mean_a
 *     mean = mean_a + d * nb / n
 *     M2 = M2_a + M2_b + d^2 * na * nb / n
 * (Chan, Golub, LeVeque 1979), in which nothing cancels: a mean of any size
 * costs the variance no digits. The combination is done in double.
 */
#include <math.h>

#include "parallel/sync_bn.h"

typedef struct moments {
    double mean[LSI_BN_BLOCK], m2[LSI_BN_BLOCK];
} moments;

/* Adds a rank's rows to `count` rows. */
static void merge(moments *into, double count, const float *mean,
                  const float *m2, double more)
{
    const double share = more / (count + more);
    const double cross = count * share;
    for (int i = 0; i < LSI_BN_BLOCK; i++) {
        const double d = (double)mean[i] - into->mean[i];
        into->mean[i] += d * share;
        into->m2[i] += (double)m2[i] + d * d * cross;
    }
}

static double combine_block(const ls_sync_bn *bn, size_t begin, moments *out)
{
    double rows = 0;
    *out = (moments){0};
    for (int r = 0; r < ls_group_size(bn->group); r++) {
        const lsi_bn_slot slot = lsi_bn_slot_of(bn, r);
        const double more = (double)slot.count[0];
        if (more > 0)
            merge(out, rows, slot.mean + begin, slot.spread + begin, more);
        rows += more;
    }
    return rows;
}

static void combine(const ls_sync_bn *bn, lsi_bn_stats *out)
{
    for (size_t begin = 0; begin < bn->stride; begin += LSI_BN_BLOCK) {
        moments block;
        out->rows = combine_block(bn, begin, &block);
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
