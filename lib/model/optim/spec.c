/*
 * Optimizers and groups as a program specifies them: which row of optimizers.h
 * an ls_optimizer_spec means, with which options.
 */
#include "base/structs.h"
#include "model/optim/optimizer.h"
#include "model/optim/param_group.h"

typedef struct choice {
    const lsi_optimizer_row *kind;
    const void *options; /* NULL: the defaults */
} choice;

/* The kind of the spec, or `usual` for one that names none. */
static ls_status choose(const ls_optimizer_spec *spec,
                        const lsi_optimizer_row *usual, choice *out)
{
    const choice rows[] = {
        [LS_OPTIMIZER_DEFAULT] = {usual, NULL},
        [LS_OPTIMIZER_SGD] = {&lsi_optimizer_sgd, spec->sgd},
        [LS_OPTIMIZER_ADAMW] = {&lsi_optimizer_adamw, spec->adamw},
        [LS_OPTIMIZER_LION] = {&lsi_optimizer_lion, spec->lion}};
    const size_t n = sizeof(rows) / sizeof(rows[0]);
    size_t found = (size_t)spec->kind;
    if (found >= n)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_optimizer_spec.kind is %d, which is not an "
                        "ls_optimizer_kind",
                        (int)spec->kind);
    for (size_t i = 1; i < n; i++) {
        if (rows[i].options == NULL || i == found)
            continue;
        if (found != LS_OPTIMIZER_DEFAULT)
            return lsi_fail(
                LS_ERR_ARGUMENT,
                "ls_optimizer_spec: the optimizer is %s, but options of %s are "
                "set; set the options of one optimizer only",
                rows[found].kind->name, rows[i].kind->name);
        found = i;
    }
    *out = rows[found];
    return LS_OK;
}

/* *options is where the options of the group are kept. */
static ls_status read_spec(const ls_optimizer_spec *given,
                           const lsi_optimizer_row *usual,
                           lsi_any_options *options, lsi_param_group_spec *out)
{
    static const ls_optimizer_spec all = {.struct_size = sizeof(all)};
    ls_optimizer_spec spec;
    choice c;
    LS_TRY(LSI_STRUCT_READ(&spec, given != NULL ? given : &all,
                           ls_optimizer_spec, n));
    LS_TRY(choose(&spec, usual, &c));
    *out = (lsi_param_group_spec){c.kind, options, 0, spec.tensors, spec.n};
    if (c.kind->copy != NULL)
        return c.kind->copy(options, &out->lr, c.options);
    lsi_optimizer_usual_options(c.kind, options);
    out->lr = lsi_optimizer_usual_lr(c.kind);
    return LS_OK;
}

ls_status ls_optimizer_new(ls_optimizer **out, ls_params *params,
                           const ls_optimizer_spec *spec)
{
    lsi_any_options options;
    lsi_param_group_spec group;
    LS_NEED(out, params);
    LS_TRY(read_spec(spec, &lsi_optimizer_adamw, &options, &group));
    return lsi_optimizer_with(out, params, &group);
}

ls_status ls_optimizer_add_group(ls_optimizer *optimizer,
                                 const ls_optimizer_spec *spec)
{
    lsi_any_options options;
    lsi_param_group_spec group;
    LS_NEED(optimizer);
    LS_TRY(read_spec(spec, optimizer->kind, &options, &group));
    return lsi_optimizer_join(optimizer, &group);
}
