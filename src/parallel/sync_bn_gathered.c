/*
 * gathered: ranks send (count, mean, 1 / sqrt(variance + eps)) and add up
 * sum dy and sum dy * (x - mean), all in single precision: what frameworks
 * usually do, kept as the yardstick. The variance of a rank has to be got back
 * from its inverse deviation, which costs digits where it is small against eps.
 */
#include <math.h>

#include "parallel/sync_bn.h"

static void pack(const ls_sync_bn *bn, lsi_bn_slot own)
{
    const float per_row = own.count[0] > 0 ? 1.0F / own.count[0] : 0.0F;
    const float eps = (float)bn->args.eps;
    for (size_t i = 0; i < bn->stride; i++)
        own.spread[i] = 1.0F / sqrtf(own.spread[i] * per_row + eps);
}

/* Adds a rank's rows to the `count` rows that out stands for. */
static void merge(const ls_sync_bn *bn, lsi_bn_stats *out, lsi_bn_slot slot,
                  float count)
{
    const float more = slot.count[0];
    const float share = more / (count + more);
    const float eps = (float)bn->args.eps;
    for (size_t i = 0; i < bn->stride; i++) {
        const float std = 1.0F / slot.spread[i];
        const float variance = fmaxf(std * std - eps, 0.0F);
        const float d = slot.mean[i] - out->mean[i];
        out->mean[i] += d * share;
        out->variance[i] += (variance - out->variance[i]) * share +
                            d * d * share * (1.0F - share);
    }
}

static void combine(const ls_sync_bn *bn, lsi_bn_stats *out)
{
    float rows = 0;
    for (size_t i = 0; i < bn->stride; i++)
        out->mean[i] = out->variance[i] = 0;
    for (int r = 0; r < ls_group_size(bn->group); r++) {
        const lsi_bn_slot slot = lsi_bn_slot_of(bn, r);
        if (slot.count[0] > 0)
            merge(bn, out, slot, rows);
        rows += slot.count[0];
    }
    const float eps = (float)bn->args.eps;
    for (size_t i = 0; i < bn->stride; i++)
        out->inv_std[i] = 1.0F / sqrtf(out->variance[i] + eps);
    out->rows = (double)rows;
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
