#include "comm/schedule/pull.h"

/* Shards stay where they are in the vector. */
static lsi_pull shards_of(const lsi_place *place, int peer)
{
    const lsi_range bytes =
        lsi_cut_part(&place->cut, place->block, place->size, peer);
    return (lsi_pull){bytes.begin, bytes.begin, lsi_range_size(bytes)};
}

lsi_pull lsi_pull_of(const lsi_place *place, int rank, int peer)
{
    const size_t mine = (size_t)rank * place->block;
    const size_t theirs = (size_t)peer * place->block;
    const lsi_pull nothing = {0, 0, 0};
    const lsi_operation_row *row = lsi_operation_of(place->operation);
    if (row->root == LSI_ROOT_SENDER && peer != place->root)
        return nothing;
    if (row->root == LSI_ROOT_RECEIVER && rank != place->root)
        return nothing;
    if (row->root == LSI_ROOT_ANYBODY && place->root != LSI_ROOT_ALL &&
        rank != place->root)
        return nothing;
    if (row->sends == LSI_EXTENT_SHARD)
        return shards_of(place, peer);
    return (lsi_pull){row->sends == LSI_EXTENT_BLOCKS ? mine : 0,
                      row->receives == LSI_EXTENT_BLOCKS ? theirs : 0,
                      place->block};
}

size_t lsi_pull_most(const lsi_place *place)
{
    size_t most = 0;
    if (lsi_operation_of(place->operation)->sends != LSI_EXTENT_SHARD)
        return place->block;
    for (int r = 0; r < place->size; r++)
        most =
            shards_of(place, r).bytes > most ? shards_of(place, r).bytes : most;
    return most;
}

size_t lsi_contribution(const lsi_place *place, int rank)
{
    const lsi_operation_row *row = lsi_operation_of(place->operation);
    if (row->sends == LSI_EXTENT_NOTHING ||
        (row->root == LSI_ROOT_SENDER && rank != place->root))
        return 0;
    return row->sends == LSI_EXTENT_BLOCKS ? (size_t)place->size * place->block
                                           : place->block;
}

size_t lsi_contribution_most(const lsi_place *place)
{
    const size_t first = lsi_contribution(place, 0);
    const size_t root = lsi_contribution(place, place->root);
    return first > root ? first : root;
}

int lsi_pull_readers(const lsi_place *place)
{
    return lsi_operation_of(place->operation)->sends == LSI_EXTENT_BLOCKS
               ? place->size
               : 1;
}
