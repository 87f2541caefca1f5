#include "plan/facts.h"

#include <assert.h>
#include <string.h>

void lsi_facts_add(lsi_facts *facts, lsi_fact fact)
{
    assert(facts->n < LSI_FACTS_MOST);
    facts->all[facts->n++] = fact;
}

double lsi_facts_get(const lsi_facts *facts, const char *name)
{
    size_t i = 0;
    while (strcmp(facts->all[i].name, name) != 0) {
        i++;
        assert(i < facts->n);
    }
    return facts->all[i].value;
}
