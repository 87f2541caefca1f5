/*
 * The list of strategies.
 */
#include "parallel/strategy.h"

#include <string.h>

#include "base/error.h"

static const lsi_strategy *const strategies[] = {
#define X(name, text) &lsi_strategy_##name,
#include "parallel/strategies.def"
#undef X
};

static const char names[] =
#define X(name, text) ", " #name
#include "parallel/strategies.def"
#undef X
    ;

const lsi_strategy *const *lsi_strategies(size_t *n)
{
    *n = sizeof(strategies) / sizeof(strategies[0]);
    return strategies;
}

ls_status lsi_strategy_find(const char *name, const lsi_strategy **out)
{
    for (size_t i = 0; i < sizeof(strategies) / sizeof(strategies[0]); i++) {
        if (name != NULL && strcmp(name, strategies[i]->name) == 0) {
            *out = strategies[i];
            return LS_OK;
        }
    }
    return lsi_fail(LS_ERR_ARGUMENT, "unknown strategy \"%s\"; there are: %s",
                    name != NULL ? name : "(null)", names + strlen(", "));
}
