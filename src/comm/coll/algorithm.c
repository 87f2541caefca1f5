/*
 * The registry: algorithms.def as an array, and finding rows in it.
 */
#include "comm/coll/algorithm.h"

#include <stdio.h>
#include <string.h>

static const lsi_algorithm algorithms[] = {
#define X(operation, name, in_cells, own_order, needs, ahead, run, scratch)    \
    {#name,  LSI_OP_##operation, in_cells, own_order, needs, ahead, run,       \
     scratch},
#include "comm/coll/algorithms.def"
#undef X
};

enum { ALGORITHMS = sizeof(algorithms) / sizeof(algorithms[0]) };

const lsi_algorithm *lsi_algorithm_at(int index)
{
    return index < ALGORITHMS ? &algorithms[index] : NULL;
}

const lsi_algorithm *lsi_algorithm_find(lsi_operation operation,
                                        const char *name, size_t length)
{
    for (int i = 0; i < ALGORITHMS; i++)
        if (algorithms[i].operation == operation &&
            strlen(algorithms[i].name) == length &&
            memcmp(algorithms[i].name, name, length) == 0)
            return &algorithms[i];
    return NULL;
}

const char *lsi_algorithm_names(lsi_operation operation, char *text,
                                size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < ALGORITHMS && used < bytes; i++)
        if (algorithms[i].operation == operation)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s",
                                     used == 0 ? "" : ", ", algorithms[i].name);
    return text;
}
