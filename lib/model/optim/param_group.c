/* Groups of parameters; see param_group.h. */
#include "model/optim/param_group.h"

#include <string.h>

#include "array/compute/array.h"
#include "base/error.h"
#include "base/memory.h"
#include "model/autograd/params.h"
#include "model/autograd/params/adopt.h"
#include "model/tensor/tensor.h"

/* ---- members ------------------------------------------------------------- */

static ls_status check_member(const ls_optimizer *optimizer,
                              const ls_tensor *tensor)
{
    const lsi_param *param = tensor != NULL ? tensor->param : NULL;
    if (param == NULL || param->set != optimizer->params)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "a parameter group may contain only parameters of the "
                        "optimizer's parameter set");
    if (!param->trainable)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "'%s' is frozen and cannot be in a parameter group",
                        param->name);
    return LS_OK;
}

static ls_status check_free(const ls_optimizer *optimizer, size_t index)
{
    for (size_t g = 0; g < optimizer->n_groups; g++) {
        if (optimizer->groups[g]->members[index])
            return lsi_fail(LS_ERR_ARGUMENT,
                            "'%s' is already in parameter group %zu",
                            ls_params_name(optimizer->params, index), g);
    }
    return LS_OK;
}

static ls_status enlist(const ls_optimizer *optimizer, bool *members,
                        const lsi_param_group_spec *spec)
{
    const ls_params *params = optimizer->params;
    for (size_t i = 0; spec->params == NULL && i < ls_params_count(params); i++)
        members[i] = ls_params_is_trainable(params, i);
    for (size_t i = 0; spec->params != NULL && i < spec->n; i++) {
        LS_TRY(check_member(optimizer, spec->params[i]));
        const lsi_param *param = spec->params[i]->param;
        if (members[param->index])
            return lsi_fail(LS_ERR_ARGUMENT,
                            "'%s' is listed twice in a parameter group",
                            param->name);
        members[param->index] = true;
    }
    for (size_t i = 0; i < ls_params_count(params); i++) {
        if (members[i])
            LS_TRY(check_free(optimizer, i));
    }
    return LS_OK;
}

/* ---- segments ------------------------------------------------------------ */

/* Ranges come in the order of the layout. */
static void append(lsi_param_group *group, lsi_range range)
{
    if (lsi_range_size(range) == 0)
        return;
    const size_t n = group->n_segments;
    if (n > 0 && group->segments[n - 1].range.end == range.begin)
        group->segments[n - 1].range.end = range.end;
    else
        group->segments[group->n_segments++] =
            (lsi_state_segment){range, group->count};
    group->count += lsi_range_size(range);
}

static ls_status find_segments(lsi_param_group *group, const ls_params *params)
{
    size_t n_owned;
    const lsi_range *owned = lsi_params_owned(params, &n_owned);
    const size_t n = ls_params_count(params);
    LS_TRY(lsi_alloc(&group->segments,
                     (n + n_owned) * sizeof(lsi_state_segment), LS_MEMORY_STATE,
                     "segments of an optimizer"));
    /* The last parameter is first in the layout. */
    for (size_t i = n; i-- > 0;) {
        for (size_t o = 0; group->members[i] && o < n_owned; o++)
            append(group,
                   lsi_range_common(lsi_params_range(params, i), owned[o]));
    }
    return LS_OK;
}

const lsi_state_segment *lsi_param_group_segment(const lsi_param_group *group,
                                                 size_t at)
{
    size_t low = 0, high = group->n_segments;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (group->segments[middle].at <= at)
            low = middle;
        else
            high = middle;
    }
    return &group->segments[low];
}

/* The number of state elements before a place in the layout. */
static size_t elements_before(const lsi_param_group *group, size_t place)
{
    size_t low = 0, high = group->n_segments;
    while (low < high) { /* the first segment that ends after it */
        const size_t middle = low + (high - low) / 2;
        if (group->segments[middle].range.end <= place)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == group->n_segments)
        return group->count;
    const lsi_state_segment *s = &group->segments[low];
    return s->at + (place > s->range.begin ? place - s->range.begin : 0);
}

lsi_range lsi_param_group_part(const lsi_param_group *group, lsi_range range)
{
    return (lsi_range){elements_before(group, range.begin),
                       elements_before(group, range.end)};
}

/* ---- life ---------------------------------------------------------------- */

static ls_status init_group(lsi_param_group *group,
                            const ls_optimizer *optimizer,
                            const lsi_param_group_spec *spec)
{
    const lsi_optimizer_row *kind = spec->kind;
    LS_TRY(lsi_check_lr(kind->name, spec->lr));
    LS_TRY(kind->check(spec->options));
    LS_TRY(lsi_alloc(&group->options, kind->options_bytes, LS_MEMORY_STATE,
                     "options of an optimizer"));
    memcpy(group->options, spec->options, kind->options_bytes);
    group->lr = spec->lr;
    group->kind = kind;
    LS_TRY(lsi_alloc_zeroed(&group->members,
                            ls_params_count(optimizer->params) * sizeof(bool),
                            LS_MEMORY_STATE, "members of a parameter group"));
    LS_TRY(enlist(optimizer, group->members, spec));
    LS_TRY(find_segments(group, optimizer->params));
    const int n_states = lsi_optimizer_states(kind, spec->options);
    for (int i = 0; i < n_states; i++) {
        LS_TRY(lsi_alloc_zeroed(&group->state[i], group->count * sizeof(float),
                                LS_MEMORY_STATE, kind->state_names[i]));
        group->state_names[i] = kind->state_names[i];
        group->n_states++;
    }
    return LS_OK;
}

static void copy_segment(const ls_params *params,
                         const lsi_state_segment *segment, float *out)
{
    const lsi_range range = segment->range;
    for (size_t at = range.begin, n; at < range.end; at += n) {
        n = range.end - at;
        const float *const weights = lsi_params_weights(params, at, &n);
        if (weights != NULL)
            lsi_array_copy(out + at - range.begin, weights, LS_F32, n);
        else
            lsi_array_zero(out + at - range.begin, LS_F32, n);
    }
}

ls_status lsi_param_group_add_average(lsi_param_group *group,
                                      const ls_params *params, double decay)
{
    LS_TRY(lsi_alloc_zeroed(&group->average, group->count * sizeof(float),
                            LS_MEMORY_STATE, "EMA weights"));
    group->decay = decay;
    for (size_t i = 0; i < group->n_segments; i++) {
        const lsi_state_segment *const s = &group->segments[i];
        copy_segment(params, s, group->average + s->at);
    }
    group->state[group->n_states] = group->average;
    group->state_names[group->n_states++] = LSI_EMA_STATE;
    return LS_OK;
}

void lsi_param_group_drop_average(lsi_param_group *group)
{
    if (group->average == NULL)
        return;
    lsi_free(group->average);
    group->average = NULL;
    group->n_states--;
}

ls_status lsi_param_group_new(lsi_param_group **out,
                              const ls_optimizer *optimizer,
                              const lsi_param_group_spec *spec)
{
    lsi_param_group *group;
    LS_TRY(lsi_alloc_zeroed(&group, sizeof(lsi_param_group), LS_MEMORY_STATE,
                            "a parameter group"));
    const ls_status status = init_group(group, optimizer, spec);
    if (status != LS_OK) {
        lsi_param_group_free(&group);
        return status;
    }
    *out = group;
    return LS_OK;
}

void lsi_param_group_free(lsi_param_group **group)
{
    for (int i = 0; i < (*group)->n_states; i++)
        lsi_free((*group)->state[i]);
    lsi_free((*group)->segments);
    lsi_free((*group)->members);
    lsi_free((*group)->options);
    lsi_free(*group);
    *group = NULL;
}

/* ---- state by name ------------------------------------------------------- */

static lsi_range without_padding(const ls_params *params, size_t index)
{
    const size_t begin = ls_params_offset(params, index);
    const ls_tensor *tensor = params->params.items[index]->tensor;
    return (lsi_range){begin, begin + (size_t)ls_tensor_count(tensor)};
}

/* Visits a segment's part of a parameter. */
static ls_status visit_part(const lsi_param_group *group,
                            const lsi_state_segment *segment, lsi_range wanted,
                            lsi_state_piece *piece, lsi_state_fn fn,
                            void *context)
{
    const lsi_range part = lsi_range_common(wanted, segment->range);
    const char *const *names = group->state_names;
    const size_t first = piece->begin;
    if (lsi_range_size(part) == 0)
        return LS_OK;
    piece->n = lsi_range_size(part);
    piece->begin = part.begin - first;
    for (int s = 0; s < group->n_states; s++) {
        piece->state = names[s];
        piece->data =
            group->state[s] + segment->at + (part.begin - segment->range.begin);
        LS_TRY(fn(context, piece));
    }
    return LS_OK;
}

static ls_status visit_group(const ls_optimizer *optimizer,
                             const lsi_param_group *group, lsi_range range,
                             lsi_state_fn fn, void *context)
{
    const ls_params *params = optimizer->params;
    for (size_t i = 0; i < ls_params_count(params); i++) {
        if (!group->members[i])
            continue;
        const lsi_range whole = without_padding(params, i);
        for (size_t s = 0; s < group->n_segments; s++) {
            lsi_state_piece piece = {.param = i, .begin = whole.begin};
            LS_TRY(visit_part(group, &group->segments[s],
                              lsi_range_common(whole, range), &piece, fn,
                              context));
        }
    }
    return LS_OK;
}

ls_status lsi_optimizer_pieces(const ls_optimizer *optimizer, lsi_range range,
                               lsi_state_fn fn, void *context)
{
    for (size_t g = 0; g < optimizer->n_groups; g++)
        LS_TRY(
            visit_group(optimizer, optimizer->groups[g], range, fn, context));
    return LS_OK;
}
