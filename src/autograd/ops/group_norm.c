/*
 * Group normalisation of x (N, C, ...): each image by itself, each of `groups`
 * equal ranges of its channels over these and all pixels, m numbers.
 *
 *     xhat    = (x - mean) / sqrt(var + eps)      y = xhat weight + bias
 *     dbias   = sum dy        dweight = sum dy xhat        (over images,
 * pixels) dx      = inv_std (g - mean(g) - xhat mean(g xhat))  with g = dy
 * weight
 *
 * By image_norm.h, every image having vectors of its own.
 */
#include <math.h>

#include "autograd/ops/image_norm.h"
#include "base/error.h"
#include "compute/array.h"

typedef struct group_state {
    size_t groups;
} group_state;

/* ---- backward ------------------------------------------------------------ */

/* p and q of a group of an image, whose first channel is `at`. */
static void group_dx(const lsi_image_norm_grad *g, size_t at, size_t size,
                     float *p, float *q)
{
    const lsi_plane_stats *s = &g->stats;
    const double m = (double)(size * g->channels.pixels);
    const double inv_std = (double)s->inv_std[at];
    double sum = 0, dot = 0; /* of scale dy, of scale dy (x - mean) */
    for (size_t c = at; c < at + size; c++) {
        sum += (double)s->scale[c] * (double)g->sum_dz[c];
        dot += (double)s->scale[c] * (double)g->sum_dz_d[c];
    }
    for (size_t c = at; c < at + size; c++) {
        p[c] = m > 0 ? (float)(-dot * inv_std * inv_std / m) : 0;
        q[c] = m > 0 ? (float)(-sum / m) : 0;
    }
}

static ls_status group_norm_backward(ls_tape *tape, ls_node *node)
{
    const group_state *state = ls_node_state(node);
    lsi_image_norm_grad g;
    LS_TRY(lsi_image_norm_sums(tape, node, false, &g));
    const size_t c = g.channels.channels, each = g.stats.count;
    float *p = ls_tape_scratch(tape, (2 * each + c) * sizeof(float));
    LS_TRY(ls_tape_status(tape));
    float *const q = p + each, *const total = q + each;
    const size_t size = c / state->groups;
    for (size_t at = 0; at < each; at += size)
        group_dx(&g, at, size, p, q);
    lsi_planes_fold(&g.channels, g.sum_dz, total);
    LS_TRY(lsi_image_norm_give(tape, node, LSI_NORM_BIAS, total, c));
    LS_TRY(lsi_image_norm_finish(tape, node, &g, p, q));
    lsi_array_mul(g.sum_dz_d, g.sum_dz_d, g.stats.inv_std, each);
    lsi_planes_fold(&g.channels, g.sum_dz_d, total);
    return lsi_image_norm_give(tape, node, LSI_NORM_WEIGHT, total, c);
}

const ls_function lsi_op_group_norm = {"group_norm", group_norm_backward,
                                       sizeof(group_state)};

/* ---- forward ------------------------------------------------------------- */

/* Of channels at.., the moments of each of which are in mean and m2. */
static void group_statistics(const lsi_plane_stats *s, const float *m2,
                             size_t at, size_t size, double pixels, double eps)
{
    double mean = 0, total = 0;
    for (size_t c = at; c < at + size; c++)
        mean += (double)s->mean[c] / (double)size;
    for (size_t c = at; c < at + size; c++) {
        const double d = (double)s->mean[c] - mean;
        total += (double)m2[c] + pixels * d * d;
    }
    const double m = pixels * (double)size;
    const double inv_std = 1 / sqrt((m > 0 ? total / m : 0) + eps);
    for (size_t c = at; c < at + size; c++) {
        s->mean[c] = (float)mean;
        s->inv_std[c] = (float)inv_std;
    }
}

static bool check_vector(ls_tape *tape, const ls_tensor *x, ls_tensor *vector,
                         const char *name)
{
    if (vector == NULL)
        return true;
    if (!lsi_op_begin_f32(tape, &lsi_op_group_norm, &vector, 1))
        return false;
    if (vector->ndim == 1 && vector->shape[0] == x->shape[1] &&
        ls_tensor_is_contiguous(vector))
        return true;
    return ls_tape_fail(tape, LS_ERR_SHAPE,
                        "group_norm: %s %s should be contiguous (C), x being "
                        "%s (N, C, ...)",
                        name, lsi_shape_of(vector).text,
                        lsi_shape_of(x).text) != NULL;
}

static bool check(ls_tape *tape, ls_tensor *const *in, int groups)
{
    const ls_tensor *x = in[LSI_NORM_X];
    if (!lsi_image_norm_check(tape, &lsi_op_group_norm, in[LSI_NORM_X], NULL))
        return false;
    if (groups < 1 || x->shape[1] < 1 || x->shape[1] % groups != 0)
        return ls_tape_fail(tape, LS_ERR_ARGUMENT,
                            "group_norm: %d groups should divide the channels "
                            "of x %s (N, C, ...)",
                            groups, lsi_shape_of(x).text) != NULL;
    return check_vector(tape, x, in[LSI_NORM_WEIGHT], "weight") &&
           check_vector(tape, x, in[LSI_NORM_BIAS], "bias");
}

static ls_tensor *normalise(ls_tape *tape, ls_tensor *const *in, int groups,
                            double eps)
{
    const group_state state = {(size_t)groups};
    const ls_tensor *weight = in[LSI_NORM_WEIGHT], *bias = in[LSI_NORM_BIAS];
    lsi_image_norm n;
    if (!lsi_image_norm_open(tape, in[LSI_NORM_X], NULL, false,
                             in[LSI_NORM_X]->shape[0], &n))
        return NULL;
    const size_t size = n.channels.channels / state.groups;
    float *m2 = ls_tape_scratch(tape, n.stats.count * sizeof(float));
    if (m2 == NULL)
        return NULL;
    lsi_planes_moments(&n.channels, lsi_op_mixed(n.x), n.stats.mean, m2);
    for (size_t at = 0; at < n.stats.count; at += size)
        group_statistics(&n.stats, m2, at, size, (double)n.channels.pixels,
                         eps);
    lsi_plane_stats_scale(&n.stats, n.channels.channels,
                          weight != NULL ? lsi_op_floats(weight) : NULL,
                          bias != NULL ? lsi_op_floats(bias) : NULL);
    lsi_image_norm_apply(&n);
    return ls_tape_record(tape, &lsi_op_group_norm, &state, in, LSI_NORM_INPUTS,
                          &n.y, 1, (ls_tensor *const[]){n.x, n.saved},
                          LSI_NORM_SAVED);
}

ls_tensor *ls_group_norm(ls_tape *tape, ls_tensor *x, int groups,
                         ls_tensor *weight, ls_tensor *bias, double eps)
{
    ls_tensor *const in[LSI_NORM_INPUTS] = {x, weight, bias, NULL};
    if (!lsi_op_begin(tape, &lsi_op_group_norm, &x, 1) ||
        !check(tape, in, groups))
        return NULL;
    if (x->ndim > 2)
        return normalise(tape, in, groups, eps);
    const int64_t pixels[] = {x->shape[0], x->shape[1], 1};
    ls_tensor *images = ls_reshape(tape, x, 3, pixels);
    if (images == NULL)
        return NULL;
    ls_tensor *const of[LSI_NORM_INPUTS] = {images, weight, bias, NULL};
    ls_tensor *y = normalise(tape, of, groups, eps);
    return y != NULL ? ls_reshape(tape, y, 2, pixels) : NULL;
}
