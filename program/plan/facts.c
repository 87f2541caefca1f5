#include "plan/facts.h"

#include <assert.h>
#include <string.h>

static void add(lsi_facts *facts, lsi_fact fact)
{
    assert(facts->n < LSI_FACTS_MOST);
    facts->all[facts->n++] = fact;
}

void lsi_facts_whole(lsi_facts *facts, const char *part, const char *name,
                     double value, const char *unit, const char *formula)
{
    add(facts, (lsi_fact){.part = part,
                          .name = name,
                          .value = value,
                          .whole = true,
                          .unit = unit,
                          .formula = formula});
}

void lsi_facts_real(lsi_facts *facts, const char *part, const char *name,
                    double value, const char *unit, const char *formula)
{
    add(facts, (lsi_fact){.part = part,
                          .name = name,
                          .value = value,
                          .unit = unit,
                          .formula = formula});
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
