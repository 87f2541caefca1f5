/* Numbers for each channel; see plane_stats.h. They are few: one thread. */
#include "array/compute/plane_stats.h"

#include <math.h>

void lsi_plane_stats_scale(const lsi_plane_stats *stats, size_t channels,
                           const float *weight_or_null,
                           const float *bias_or_null)
{
    for (size_t i = 0; i < stats->count; i++) {
        const size_t c = i % channels;
        const float weight = weight_or_null ? weight_or_null[c] : 1.0F;
        stats->scale[i] = stats->inv_std[i] * weight;
        stats->bias[i] = bias_or_null ? bias_or_null[c] : 0.0F;
    }
}

void lsi_plane_stats_batch_dx(const lsi_plane_stats *stats, const float *sum_dz,
                              const float *sum_dz_d, double n, float *p,
                              float *q)
{
    const double per_number = n > 0 ? 1 / n : 0;
    for (size_t c = 0; c < stats->count; c++) {
        const double scale = (double)stats->scale[c] * per_number;
        const double inv_std = (double)stats->inv_std[c];
        p[c] = (float)(-scale * inv_std * inv_std * (double)sum_dz_d[c]);
        q[c] = (float)(-scale * (double)sum_dz[c]);
    }
}

/* ---- groups -------------------------------------------------------------- */

/* Of channels at.., the moments of each of which are in mean and m2. */
static void group_statistics(const lsi_plane_stats *s, const float *m2,
                             size_t at, lsi_plane_groups g)
{
    double mean = 0, total = 0;
    const double pixels = (double)g.pixels;
    for (size_t c = at; c < at + g.size; c++)
        mean += (double)s->mean[c] / (double)g.size;
    for (size_t c = at; c < at + g.size; c++) {
        const double d = (double)s->mean[c] - mean;
        total += (double)m2[c] + pixels * d * d;
    }
    const double m = pixels * (double)g.size;
    const double inv_std = 1 / sqrt((m > 0 ? total / m : 0) + g.eps);
    for (size_t c = at; c < at + g.size; c++) {
        s->mean[c] = (float)mean;
        s->inv_std[c] = (float)inv_std;
    }
}

void lsi_plane_stats_group(const lsi_plane_stats *stats, const float *m2,
                           lsi_plane_groups groups)
{
    for (size_t at = 0; at < stats->count; at += groups.size)
        group_statistics(stats, m2, at, groups);
}

void lsi_plane_stats_group_dx(const lsi_plane_stats *stats, const float *sum_dz,
                              const float *sum_dz_d, lsi_plane_groups groups,
                              float *p, float *q)
{
    const double m = (double)(groups.size * groups.pixels);
    for (size_t at = 0; at < stats->count; at += groups.size) {
        const double inv_std = (double)stats->inv_std[at];
        double sum = 0, dot = 0; /* of scale dy, of scale dy (x - mean) */
        for (size_t c = at; c < at + groups.size; c++) {
            sum += (double)stats->scale[c] * (double)sum_dz[c];
            dot += (double)stats->scale[c] * (double)sum_dz_d[c];
        }
        for (size_t c = at; c < at + groups.size; c++) {
            p[c] = m > 0 ? (float)(-dot * inv_std * inv_std / m) : 0;
            q[c] = m > 0 ? (float)(-sum / m) : 0;
        }
    }
}
