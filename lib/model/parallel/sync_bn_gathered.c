/*
 * gathered: ranks send (count, mean, 1 / sqrt(variance + eps)) and add up sum
 * dy and sum dy * (x - mean), all in single precision. Frameworks usually do
 * this; it is kept as the baseline. A rank's variance is recovered from its
 * inverse deviation, which costs digits where the variance is small against
 * eps.
 */
#include <math.h>

#include "model/parallel/sync_bn.h"

static void pack(const ls_sync_bn *bn, lsi_bn_slot own)
{
    const float per_row = own.count[0] > 0 ? 1.0F / own.count[0] : 0.0F;
    const float eps = (float)bn->args.eps;
    for (size_t i = 0; i < bn->stride; i++)
        own.spread[i] = 1.0F / sqrtf(own.spread[i] * per_row + eps);
}

typedef struct part {
    float rows, mean[LSI_BN_BLOCK], variance[LSI_BN_BLOCK];
} part;

static void load(lsi_bn_slot slot, size_t begin, float eps, part *out)
{
    out->rows = slot.count[0];
    for (int i = 0; i < LSI_BN_BLOCK; i++) {
        const float std = 1.0F / slot.spread[begin + (size_t)i];
        out->mean[i] = slot.mean[begin + (size_t)i];
        out->variance[i] = fmaxf(std * std - eps, 0.0F);
    }
}

static void merge(part *into, const part *more)
{
    if (more->rows == 0)
        return;
    if (into->rows == 0) {
        *into = *more;
        return;
    }
    const float rows = into->rows + more->rows;
    const float share = more->rows / rows;
    for (int i = 0; i < LSI_BN_BLOCK; i++) {
        const float d = more->mean[i] - into->mean[i];
        into->mean[i] += d * share;
        into->variance[i] += (more->variance[i] - into->variance[i]) * share +
                             d * d * share * (1.0F - share);
    }
    into->rows = rows;
}

/* Folds the parts first, first + stride, ... in the order of reductions. */
static void fold(const ls_sync_bn *bn, size_t begin, int first, int stride,
                 part *out)
{
    if (first + stride >= lsi_bn_parts(bn)) {
        load(lsi_bn_slot_of(bn, first), begin, (float)bn->args.eps, out);
        return;
    }
    part more;
    fold(bn, begin, first, 2 * stride, out);
    fold(bn, begin, first + stride, 2 * stride, &more);
    merge(out, &more);
}

static void combine(const ls_sync_bn *bn, lsi_bn_stats *out)
{
    const float eps = (float)bn->args.eps;
    for (size_t begin = 0; begin < bn->stride; begin += LSI_BN_BLOCK) {
        part block;
        fold(bn, begin, 0, 1, &block);
        out->rows = (double)block.rows;
        for (size_t i = 0; i < LSI_BN_BLOCK; i++) {
            out->mean[begin + i] = block.mean[i];
            out->variance[begin + i] = block.variance[i];
            out->inv_std[begin + i] = 1.0F / sqrtf(block.variance[i] + eps);
        }
    }
}

static void pack_sums(const ls_sync_bn *bn, float *sums, const float *inv_std)
{
    for (size_t i = 0; i < bn->stride; i++)
        sums[i] /= inv_std[i];
}

static void unpack_sums(const ls_sync_bn *bn, float *sums, const float *inv_std)
{
    for (size_t i = 0; i < bn->stride; i++)
        sums[i] *= inv_std[i];
}

const lsi_bn_exchange lsi_bn_gathered = {.pack = pack,
                                         .combine = combine,
                                         .pack_sums = pack_sums,
                                         .unpack_sums = unpack_sums};
