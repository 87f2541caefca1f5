/* The public interface does not tell: only a bench wants to know. */
#include "cli/bench/used_algorithm.h"

#include "comm/coll/algorithm.h"
#include "comm/state/state.h"

const char *lsi_used_algorithm(const ls_group *group)
{
    const lsi_algorithm *algorithm = group->call.algorithm;
    return algorithm == NULL ? "none" : algorithm->name;
}
