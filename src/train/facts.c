/* Facts about a run; see facts.h. */
#include "train/facts.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"

static lsi_fact *next(lsi_facts *facts, const char *name)
{
    assert(facts->n < LSI_MAX_FACTS);
    lsi_fact *const fact = &facts->all[facts->n++];
    fact->name = name;
    fact->before = NULL;
    return fact;
}

void lsi_facts_text(lsi_facts *facts, const char *name, const char *value)
{
    lsi_fact *const fact = next(facts, name);
    snprintf(fact->value, sizeof fact->value, "%s", value);
}

void lsi_facts_int(lsi_facts *facts, const char *name, int64_t value)
{
    lsi_fact *const fact = next(facts, name);
    snprintf(fact->value, sizeof fact->value, "%" PRId64, value);
}

void lsi_facts_real(lsi_facts *facts, const char *name, double value)
{
    lsi_fact *const fact = next(facts, name);
    /* The shortest text that is this number and no other. */
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(fact->value, sizeof fact->value, "%.*g", digits, value);
        if (strtod(fact->value, NULL) == value)
            break;
    }
}

void lsi_facts_digest(lsi_facts *facts, const char *name, const int64_t *values,
                      size_t n)
{
    lsi_fact *const fact = next(facts, name);
    snprintf(fact->value, sizeof fact->value, "%016" PRIx64,
             lsi_hash(LSI_HASH_START, values, n * sizeof *values));
}

void lsi_facts_before(lsi_facts *facts, const char *value)
{
    assert(facts->n > 0);
    facts->all[facts->n - 1].before = value;
}

ls_status lsi_facts_check(const lsi_facts *facts,
                          const ls_checkpoint *checkpoint)
{
    for (size_t i = 0; i < facts->n; i++) {
        const lsi_fact *const fact = &facts->all[i];
        const char *saved = ls_checkpoint_value(checkpoint, fact->name);
        if (saved == NULL)
            saved = fact->before;
        if (saved == NULL || strcmp(saved, fact->value) != 0)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "cannot go on from the checkpoint of step %" PRId64
                            ": it was made with %s %s, this run has %s",
                            ls_checkpoint_step(checkpoint), fact->name,
                            saved != NULL ? saved : "unknown", fact->value);
    }
    return LS_OK;
}
