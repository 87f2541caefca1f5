#include "comm/schedule/pull.h"

/* Shards stay where they are in the vector. */
static lsi_pull shards_of(lsi_place place, int peer)
{
    const lsi_range bytes =
        lsi_cut_part(&place.cut, place.block, place.size, peer);
    return (lsi_pull){bytes.begin, bytes.begin, lsi_range_size(bytes)};
}

lsi_pull lsi_pull_of(lsi_place place, int rank, int peer)
{
    const size_t mine = (size_t)rank * place.block;
    const size_t theirs = (size_t)peer * place.block;
    const lsi_pull nothing = {0, 0, 0};
    switch (place.operation) {
    case LSI_OP_BROADCAST:
        return peer == place.root ? (lsi_pull){0, 0, place.block} : nothing;
    case LSI_OP_GATHER:
        return rank == place.root ? (lsi_pull){0, theirs, place.block}
                                  : nothing;
    case LSI_OP_SCATTER:
        return peer == place.root ? (lsi_pull){mine, 0, place.block} : nothing;
    case LSI_OP_ALL_TO_ALL:
        return (lsi_pull){mine, theirs, place.block};
    case LSI_OP_GATHER_SHARDS:
        return place.root == LSI_ROOT_ALL || place.root == rank
                   ? shards_of(place, peer)
                   : nothing;
    default: /* all-gather, and what is built like it */
        return (lsi_pull){0, theirs, place.block};
    }
}

size_t lsi_pull_most(lsi_place place)
{
    size_t most = 0;
    if (place.operation != LSI_OP_GATHER_SHARDS)
        return place.block;
    for (int r = 0; r < place.size; r++)
        most =
            shards_of(place, r).bytes > most ? shards_of(place, r).bytes : most;
    return most;
}

size_t lsi_contribution(lsi_place place, int rank)
{
    switch (place.operation) {
    case LSI_OP_BROADCAST:
        return rank == place.root ? place.block : 0;
    case LSI_OP_SCATTER:
        return rank == place.root ? (size_t)place.size * place.block : 0;
    case LSI_OP_ALL_TO_ALL:
    case LSI_OP_REDUCE_SCATTER:
        return (size_t)place.size * place.block;
    case LSI_OP_BARRIER:
        return 0;
    default:
        return place.block;
    }
}

size_t lsi_contribution_most(lsi_place place)
{
    const size_t first = lsi_contribution(place, 0);
    const size_t root = lsi_contribution(place, place.root);
    return first > root ? first : root;
}

int lsi_lanes(lsi_place place)
{
    const bool separate = place.operation == LSI_OP_SCATTER ||
                          place.operation == LSI_OP_ALL_TO_ALL;
    return separate ? place.size : 1;
}
