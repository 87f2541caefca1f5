/*
 * Statistics that normalisations of channels compute between their passes over
 * the pixels (planes.h). They are a few numbers for each channel. Where images
 * have separate statistics, they are for each channel of each image.
 */
#ifndef LS_ARRAY_COMPUTE_PLANE_STATS_H
#define LS_ARRAY_COMPUTE_PLANE_STATS_H

#include <stddef.h>

/* y = (x - mean) scale + bias; scale is inv_std times the weight. */
typedef struct lsi_plane_stats {
    float *mean, *inv_std, *scale, *bias;
    size_t count; /* of each */
} lsi_plane_stats;

/* scale and bias from inv_std and the parameters (channels), or NULL. */
void lsi_plane_stats_scale(const lsi_plane_stats *stats, size_t channels,
                           const float *weight_or_null,
                           const float *bias_or_null);

/*
 * p and q (count) of dx = scale dz + (x - mean) p + q, for statistics over n
 * numbers. Given are the sums (count) of dz and dz (x - mean).
 */
void lsi_plane_stats_batch_dx(const lsi_plane_stats *stats, const float *sum_dz,
                              const float *sum_dz_d, double n, float *p,
                              float *q);

/* Statistics that `size` channels of an image have in common. */
typedef struct lsi_plane_groups {
    size_t size;   /* divides the count */
    size_t pixels; /* of a channel */
    double eps;
} lsi_plane_groups;

/* mean and inv_std of each group, from those means and m2 of each channel. */
void lsi_plane_stats_group(const lsi_plane_stats *stats, const float *m2,
                           lsi_plane_groups groups);

/* p and q as above, of groups. */
void lsi_plane_stats_group_dx(const lsi_plane_stats *stats, const float *sum_dz,
                              const float *sum_dz_d, lsi_plane_groups groups,
                              float *p, float *q);

#endif
