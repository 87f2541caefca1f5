/* An optimizer in a manifest; see optimizer_json.h. */
#include "model/checkpoint/optimizer_json.h"

#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "model/autograd/params.h"
#include "model/optim/param_group.h"

/* ---- writing ------------------------------------------------------------- */

/* Takes over the item; false without memory. */
static bool append(json_t *array, json_t *item)
{
    return json_array_append_new(array, item) == 0;
}

static json_t *states_json(const lsi_param_group *group)
{
    json_t *states = json_array();
    bool good = states != NULL;
    for (int s = 0; good && s < group->n_states; s++)
        good = append(states, json_string(group->state_names[s]));
    if (good)
        return states;
    json_decref(states);
    return NULL;
}

static json_t *names_json(const ls_params *params, const lsi_param_group *group)
{
    json_t *names = json_array();
    bool good = names != NULL;
    for (size_t i = 0; good && i < ls_params_count(params); i++) {
        if (group->members[i])
            good = append(names, json_string(ls_params_name(params, i)));
    }
    if (good)
        return names;
    json_decref(names);
    return NULL;
}

static json_t *group_json(const ls_optimizer *optimizer,
                          const lsi_param_group *group)
{
    return json_pack("{s:I, s:o, s:o}", "steps", (json_int_t)group->steps,
                     "state", states_json(group), "parameters",
                     names_json(optimizer->params, group));
}

json_t *lsi_optimizer_json(const ls_optimizer *optimizer)
{
    if (optimizer == NULL)
        return json_null();
    json_t *groups = json_array();
    bool good = groups != NULL;
    for (size_t g = 0; good && g < optimizer->n_groups; g++)
        good = append(groups, group_json(optimizer, optimizer->groups[g]));
    if (!good) {
        json_decref(groups);
        return NULL;
    }
    return json_pack("{s:s, s:o}", "kind", optimizer->kind->name, "groups",
                     groups);
}

/* ---- reading ------------------------------------------------------------- */

static bool holds(const json_t *names, const char *name)
{
    size_t i;
    json_t *item;
    json_array_foreach(names, i, item)
    {
        const char *const text = json_string_value(item);
        if (text != NULL && strcmp(text, name) == 0)
            return true;
    }
    return false;
}

/* The group that was saved with this parameter; NULL if not found. */
static const json_t *find_group(const json_t *json, const char *parameter)
{
    size_t i;
    json_t *group;
    json_array_foreach(json_object_get(json, "groups"), i, group)
    {
        if (holds(json_object_get(group, "parameters"), parameter))
            return group;
    }
    return NULL;
}

static json_int_t steps_of(const json_t *group)
{
    return json_integer_value(json_object_get(group, "steps"));
}

static bool same_states(const json_t *saved, const lsi_param_group *group)
{
    const json_t *names = json_object_get(saved, "state");
    bool same = json_array_size(names) == (size_t)group->n_states;
    for (int s = 0; s < group->n_states; s++)
        same = same && holds(names, group->state_names[s]);
    return same;
}

static ls_status check_group(const json_t *json, const ls_optimizer *optimizer,
                             const lsi_param_group *group)
{
    const json_t *first = NULL;
    for (size_t i = 0; i < ls_params_count(optimizer->params); i++) {
        if (!group->members[i])
            continue;
        const char *name = ls_params_name(optimizer->params, i);
        const json_t *saved = find_group(json, name);
        if (saved == NULL)
            return lsi_fail(LS_ERR_FORMAT,
                            "the checkpoint has no optimizer state for '%s'",
                            name);
        if (!same_states(saved, group))
            return lsi_fail(LS_ERR_FORMAT,
                            "the optimizer state of '%s' in the checkpoint "
                            "does not match this optimizer",
                            name);
        if (steps_of(saved) < 0)
            return lsi_fail(LS_ERR_FORMAT,
                            "the step count of '%s' in the checkpoint is %lld; "
                            "it must be at least 0",
                            name, (long long)steps_of(saved));
        first = first != NULL ? first : saved;
        if (steps_of(saved) != steps_of(first))
            return lsi_fail(
                LS_ERR_FORMAT,
                "the step count of '%s' in the checkpoint is %lld, but other "
                "parameters of its group have step count %lld",
                name, (long long)steps_of(saved), (long long)steps_of(first));
    }
    return LS_OK;
}

ls_status lsi_optimizer_json_check(const json_t *json,
                                   const ls_optimizer *optimizer)
{
    const char *kind = json_string_value(json_object_get(json, "kind"));
    if (kind == NULL || strcmp(kind, optimizer->kind->name) != 0)
        return lsi_fail(
            LS_ERR_FORMAT,
            "the checkpoint was saved with %s, but this optimizer is %s",
            kind != NULL ? kind : "no optimizer", optimizer->kind->name);
    for (size_t g = 0; g < optimizer->n_groups; g++)
        LS_TRY(check_group(json, optimizer, optimizer->groups[g]));
    return LS_OK;
}

void lsi_optimizer_json_apply(const json_t *json, ls_optimizer *optimizer)
{
    for (size_t g = 0; g < optimizer->n_groups; g++) {
        lsi_param_group *group = optimizer->groups[g];
        for (size_t i = 0; i < ls_params_count(optimizer->params); i++) {
            if (group->members[i])
                group->steps = (uint64_t)steps_of(
                    find_group(json, ls_params_name(optimizer->params, i)));
        }
    }
}
