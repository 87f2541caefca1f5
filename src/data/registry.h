/* Datasets by name: one row of datasets.def each. */
#ifndef LS_DATA_REGISTRY_H
#define LS_DATA_REGISTRY_H

#include "lockstep/data.h"

/* What a dataset is made from; each takes what it needs. */
typedef struct lsi_dataset_source {
    const char *path; /* cifar100 */
    int64_t count;    /* synthetic */
    uint64_t seed;    /* synthetic */
} lsi_dataset_source;

typedef struct lsi_dataset_kind {
    const char *name, *text;
    ls_status (*open)(ls_dataset **out, const lsi_dataset_source *source,
                      ls_split split);
} lsi_dataset_kind;

/* All rows; *n is how many. */
const lsi_dataset_kind *lsi_dataset_kinds(size_t *n);

/* LS_ERR_ARGUMENT for an unknown name lists the names there are. */
ls_status lsi_dataset_open(ls_dataset **out, const char *name,
                           const lsi_dataset_source *source, ls_split split);

#endif
