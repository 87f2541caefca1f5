/*
 * Group normalisation of x (N, C, ...). Each of `groups` equal ranges of an
 * image's channels is normalised over its channels and all pixels, m numbers.
 *
 *     xhat    = (x - mean) / sqrt(var + eps)      y = xhat weight + bias
 *     dbias   = sum dy     dweight = sum dy xhat      (over images, pixels)
 *     dx      = inv_std (g - mean(g) - xhat mean(g xhat)),    g = dy weight
 *
 * It uses image_norm.h, with separate vectors for each image.
 */
#include "array/compute/array.h"
#include "base/error.h"
#include "model/autograd/ops/image_norm.h"

typedef struct group_state {
    size_t groups;
} group_state;

static lsi_plane_groups groups_of(const lsi_planes *s, size_t groups,
                                  double eps)
{
    return (lsi_plane_groups){s->channels / groups, s->pixels, eps};
}

/* ---- backward ------------------------------------------------------------ */

static ls_status group_norm_backward(ls_tape *tape, ls_node *node)
{
    const group_state *state = ls_node_state(node);
    lsi_image_norm_grad g;
    LS_TRY(lsi_image_norm_sums(tape, node, false, &g));
    const size_t c = g.channels.channels, each = g.stats.count;
    float *p = ls_tape_scratch(tape, (2 * each + c) * sizeof(float));
    LS_TRY(ls_tape_status(tape));
    float *const q = p + each, *const total = q + each;
    lsi_plane_stats_group_dx(&g.stats, g.sum_dz, g.sum_dz_d,
                             groups_of(&g.channels, state->groups, 0), p, q);
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

static bool check_vector(ls_tape *tape, const ls_tensor *x, ls_tensor *vector,
                         const char *name)
{
    return vector == NULL ||
           (lsi_op_begin_f32(tape, &lsi_op_group_norm, &vector, 1) &&
            lsi_op_check_channels(tape, &lsi_op_group_norm, x, vector, name));
}

static bool check(ls_tape *tape, ls_tensor *const *in, int groups)
{
    const ls_tensor *x = in[LSI_NORM_X];
    if (!lsi_image_norm_check(tape, &lsi_op_group_norm, in[LSI_NORM_X], NULL))
        return false;
    if (groups < 1 || x->shape[1] < 1 || x->shape[1] % groups != 0)
        return ls_tape_fail(
                   tape, LS_ERR_ARGUMENT,
                   "group_norm: groups is %d; it must divide the number of "
                   "channels C of x, which has shape %s (N, C, ...)",
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
    float *m2 = ls_tape_scratch(tape, n.stats.count * sizeof(float));
    if (m2 == NULL)
        return NULL;
    lsi_planes_moments(&n.channels, lsi_op_mixed(n.x), n.stats.mean, m2);
    lsi_plane_stats_group(&n.stats, m2,
                          groups_of(&n.channels, state.groups, eps));
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
