#include "points.h"

bool add_pairs(pair_set seen, const point *p)
{
    bool arrivals = false;
    for (int a = 0; a < DIMENSIONS; a++)
        for (int b = 0; b < a; b++) {
            bool *pair = &seen[a][p->at[a]][b][p->at[b]];
            arrivals = arrivals || !*pair;
            *pair = true;
        }
    return arrivals;
}
