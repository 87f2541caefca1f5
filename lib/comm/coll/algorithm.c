/*
 * The registry: algorithms.def as an array, and finding rows in it.
 */
#include "comm/coll/algorithm.h"

#include <stdio.h>
#include <string.h>

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define ALL SIZE_MAX

#define X(operation_, name_, needs_, run_, more)                               \
    {.name = #name_,                                                           \
     .operation = LSI_OP_##operation_,                                         \
     .needs = (needs_),                                                        \
     .run = run_,                                                              \
     more},
#define AHEAD(function)   .ahead = function,
#define SCRATCH(function) .scratch = function,
#define ON_A_NODE(from, to)                                                    \
    .serves = {.on_a_node = true, .begin = (from), .end = (to)},
#define BETWEEN_NODES(from, to)                                                \
    .serves = {.between_nodes = true, .begin = (from), .end = (to)},
#define EVERYWHERE(from, to) .serves = {true, true, (from), (to)},
#define IN_CELLS             .in_cells = true,
#define OWN_ORDER            .own_order = true,
#define BY_RANK              .by_rank = true,
#define NONE

static const lsi_algorithm algorithms[] = {
#include "comm/coll/algorithms.def"
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
