#include "train/divergence.h"

#include <math.h>

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
