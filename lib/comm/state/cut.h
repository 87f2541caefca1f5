/*
 * How a vector is cut among ranks into consecutive shards. Pure. In elements or
 * in bytes, at the caller's choice.
 */
#ifndef LS_COMM_STATE_CUT_H
#define LS_COMM_STATE_CUT_H

#include "base/partition.h"

/*
 * The vector begins at `first` of a longer one, which is cut into shards. Rank
 * r owns number r or, if there are `rails` of them (not 0), a part of those. A
 * window that is not empty limits the cut to that part of each shard.
 */
typedef struct lsi_cut {
    size_t first, shard, rails;
    lsi_range window;
} lsi_cut;

/* The part of a vector of n that `rank` of `ranks` owns. */
static inline lsi_range lsi_cut_part(const lsi_cut *cut, size_t n, int ranks,
                                     int rank)
{
    const size_t r = (size_t)rank;
    lsi_range owned = {r, r + 1};
    if (cut->rails != 0)
        owned = lsi_partition(cut->rails, (size_t)ranks, r);
    lsi_range part = {owned.begin * cut->shard, owned.end * cut->shard};
    if (cut->window.end != 0)
        part =
            lsi_range_common(part, (lsi_range){part.begin + cut->window.begin,
                                               part.begin + cut->window.end});
    part = lsi_range_common(part, (lsi_range){cut->first, cut->first + n});
    if (part.begin >= part.end)
        return (lsi_range){0, 0};
    return (lsi_range){part.begin - cut->first, part.end - cut->first};
}

#endif
