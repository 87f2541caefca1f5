#include "comm/node/rank_cpus.h"

#include <math.h>

#include "base/cpus.h"

lsi_rank_cpus lsi_rank_cpus_of(const ls_group *group)
{
    lsi_rank_cpus found = {.disjoint = true};
    for (int w = 0; w < LSI_CPU_WORDS; w++) {
        uint64_t any = 0;
        for (int r = 0; r < group->size; r++) {
            const uint64_t word = lsi_member_of(group, r)->cpus[w];
            found.disjoint = found.disjoint && (any & word) == 0;
            any |= word;
        }
        found.together += __builtin_popcountll(any);
        found.own +=
            __builtin_popcountll(lsi_member_of(group, group->rank)->cpus[w]);
    }
    return found;
}

bool lsi_rank_cpus_suffice(const ls_group *group)
{
    return lsi_rank_cpus_of(group).together >= group->size;
}

static int ranks_that_may_use(const ls_group *group, int word, uint64_t bit)
{
    int found = 0;
    for (int r = 0; r < group->size; r++)
        found += (lsi_member_of(group, r)->cpus[word] & bit) != 0;
    return found;
}

/* Parts of CPUs add up, with a little more for what rounding takes. */
static int share_of_masks(const ls_group *group)
{
    double share = 1e-9;
    for (int w = 0; w < LSI_CPU_WORDS; w++) {
        uint64_t left = lsi_member_of(group, group->rank)->cpus[w];
        for (; left != 0; left &= left - 1)
            share += 1.0 / ranks_that_may_use(group, w, left & -left);
    }
    return (int)share;
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

static int ranks_of_quota(const ls_group *group)
{
    const uint64_t own = lsi_member_of(group, group->rank)->quota_of;
    int found = 1;
    for (int r = 0; r < group->size; r++)
        found += r != group->rank && lsi_member_of(group, r)->quota_of == own;
    return found;
}

int lsi_rank_cpus_share(const ls_group *group, int available, double quota)
{
    const ls_group *here = group->channels.local;
    const int own = lsi_rank_cpus_of(here).own;
    int share = own == 0 ? available / here->size : share_of_masks(here);
    if (quota > 0)
        share = smaller(share, (int)ceil(quota) / ranks_of_quota(here));
    if (group->cpus_share > 0)
        share = smaller(share, group->cpus_share);
    return share < 1 ? 1 : share;
}

void lsi_rank_cpus_limit(const ls_group *group)
{
    uint64_t group_of_quota;
    if (group->size > 1)
        lsi_cpus_limit(lsi_rank_cpus_share(group, lsi_cpus_available(),
                                           lsi_cpus_quota(&group_of_quota)));
}
