/* The table of datasets, made from datasets.def. */
#include "data/registry.h"

#include <string.h>

#include "base/error.h"

static ls_status open_cifar100(ls_dataset **out,
                               const lsi_dataset_source *source, ls_split split)
{
    return ls_dataset_cifar100(out, source->path, split);
}

static ls_status open_synthetic(ls_dataset **out,
                                const lsi_dataset_source *source,
                                ls_split split)
{
    return ls_dataset_synthetic(out, source->count, source->seed, split);
}

static const lsi_dataset_kind kinds[] = {
#define X(name, text) {#name, text, open_##name},
#include "data/datasets.def"
#undef X
};

#define X(name, text) " " #name
static const char names[] =
#include "data/datasets.def"
    ;
#undef X

const lsi_dataset_kind *lsi_dataset_kinds(size_t *n)
{
    *n = sizeof kinds / sizeof kinds[0];
    return kinds;
}

ls_status lsi_dataset_open(ls_dataset **out, const char *name,
                           const lsi_dataset_source *source, ls_split split)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].name, name) == 0)
            return kinds[i].open(out, source, split);
    }
    return lsi_fail(LS_ERR_ARGUMENT, "no dataset '%s'; there are:%s", name,
                    names);
}
