#include "train/divergence.h"

#include <math.h>
#include <stdatomic.h>

static atomic_bool ended; /* the run of this process */

double lsi_divergence_limit(const lsi_divergence *divergence)
{
    return LSI_DIVERGENCE_FACTOR * fmax(divergence->first, divergence->guess);
}

bool lsi_divergence_add(lsi_divergence *divergence, double loss)
{
    if (!divergence->begun)
        divergence->first = loss;
    divergence->begun = true;
    const bool above = loss > lsi_divergence_limit(divergence);
    divergence->above = above ? divergence->above + 1 : 0;
    return divergence->above >= LSI_DIVERGENCE_STEPS;
}

void lsi_divergence_set_ended(void)
{
    atomic_store(&ended, true);
}

bool lsi_divergence_ended(void)
{
    return atomic_load(&ended);
}
