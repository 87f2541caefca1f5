/* An optimizer's state by name; see state.h. */
#include "model/optim/state.h"

#include "base/error.h"
#include "model/autograd/params.h"
#include "model/optim/param_group.h"

static lsi_range without_padding(const ls_params *params, size_t index)
{
    const size_t begin = ls_params_offset(params, index);
    const ls_tensor *tensor = ls_params_get(params, index);
    return (lsi_range){begin, begin + (size_t)ls_tensor_count(tensor)};
}

/* What a segment has of a parameter. */
static ls_status visit(const lsi_param_group *group,
                       const lsi_state_segment *segment, lsi_range wanted,
                       lsi_state_piece *piece, lsi_state_fn fn, void *context)
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
            LS_TRY(visit(group, &group->segments[s],
                         lsi_range_common(whole, range), &piece, fn, context));
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
