#include "comm/schedule/shares.h"

/* A window is a quarter of the run, so that some follow each other. */
enum { WINDOWS = 4, LEAST_WINDOW = 256 * 1024, LINE = 64 };

/* The number of consecutive ranks, from number `begin` of the node on. */
static int run_length(lsi_node_ranks node, int begin)
{
    int length = 1;
    while (begin + length < node.ranks &&
           node.rank[begin + length] == node.rank[begin] + length)
        length++;
    return length;
}

/* The range that consecutive ranks own; some of them may own nothing. */
static lsi_range owned_by(const lsi_owners *all, int rank, int ranks)
{
    lsi_range run = {0, 0};
    for (int r = rank; r < rank + ranks; r++) {
        const lsi_range own =
            lsi_cut_part(&all->cut, all->count, all->ranks, r);
        if (lsi_range_size(own) == 0)
            continue;
        if (run.end == 0)
            run.begin = own.begin;
        run.end = own.end;
    }
    return run;
}

static size_t whole_lines(size_t elements, size_t item)
{
    const size_t line = LINE / item;
    return (elements + line - 1) / line * line;
}

/* Elements of a window of a run of n. */
static size_t width_of(const lsi_owners *all, size_t n)
{
    const size_t part = n / WINDOWS, least = LEAST_WINDOW / all->item;
    const size_t wish = part < least ? least : part;
    return whole_lines(wish < all->most ? wish : all->most, all->item);
}

size_t lsi_shares_most(const lsi_owners *all, int carriers)
{
    const size_t most = all->most + (size_t)(carriers + 1) * LINE / all->item;
    return most < all->count ? most : all->count;
}

/* Whether each rank of a run carries about what its counterpart owns. */
static bool has_counterparts(const lsi_owners *all, const lsi_shares *run)
{
    const size_t shard = all->cut.shard, n = lsi_range_size(run->elements);
    return all->alike && run->owners > 1 &&
           run->owners == run->carriers.ranks &&
           lsi_range_size(owned_by(all, run->first, 1)) == shard &&
           n >= shard * (size_t)run->owners - shard / 4;
}

/* Number `begin` of the node is the first of the run. */
static lsi_cut owned_cut(const lsi_owners *all, const lsi_shares *s, int begin)
{
    const size_t shard = all->cut.shard;
    return (lsi_cut){.shard = shard,
                     .first = s->elements.begin + all->cut.first -
                              (size_t)(s->first - begin) * shard};
}

/* The part of each share that is in use. */
static lsi_range offsets_of(const lsi_shares *s)
{
    const size_t n = lsi_range_size(s->elements), shard = s->cut.shard;
    const size_t first = n == 0 ? 0 : s->cut.first % shard;
    return n == 0 || first + n <= shard ? (lsi_range){first, first + n}
                                        : (lsi_range){0, shard};
}

static size_t pieces(size_t n, size_t width)
{
    return (n + width - 1) / width;
}

/* The most elements that a rank of the run owns. */
static size_t largest_part(const lsi_owners *all, const lsi_shares *run)
{
    size_t most = 0;
    for (int r = run->first; r < run->first + run->owners; r++) {
        const size_t own = lsi_range_size(owned_by(all, r, 1));
        most = own > most ? own : most;
    }
    return most;
}

/* Piece number `index` of one of the parts of a run, in turns. */
static lsi_range piece_of(const lsi_owners *all, const lsi_shares *run,
                          size_t width, size_t index)
{
    const size_t owners = (size_t)run->owners;
    const lsi_range part = owned_by(all, run->first + (int)(index % owners), 1);
    const size_t at = part.begin + index / owners * width;
    return lsi_range_common(part, (lsi_range){at, at + width});
}

/*
 * Makes a run, the first of which is number `begin` of its node, one of its
 * windows. If the index is past the last, subtracts their number and returns
 * false.
 */
static bool find_window(const lsi_owners *all, lsi_shares *s, int begin,
                        bool as_owned, size_t *index)
{
    const size_t n = lsi_range_size(s->elements), width = width_of(all, n);
    const size_t ranks = (size_t)s->carriers.ranks;
    const bool whole = n <= width;
    const bool striped = !whole && has_counterparts(all, s);
    const size_t stripe = whole_lines((width + ranks - 1) / ranks, all->item);
    const size_t windows =
        whole     ? n > 0
        : striped ? pieces(all->cut.shard, stripe)
                  : (size_t)s->owners * pieces(largest_part(all, s), width);
    if (*index >= windows) {
        *index -= windows;
        return false;
    }
    if (!whole && !striped)
        s->elements = piece_of(all, s, width, *index);
    s->cut = as_owned || striped
                 ? owned_cut(all, s, begin)
                 : lsi_even_cut(lsi_range_size(s->elements), s->carriers.ranks);
    s->cut.window = offsets_of(s);
    if (striped) {
        const size_t at = *index * stripe;
        s->cut.window =
            lsi_range_common(s->cut.window, (lsi_range){at, at + stripe});
    }
    return true;
}

bool lsi_shares_window(const lsi_owners *all, lsi_node_ranks owners,
                       lsi_node_ranks carriers, size_t index, lsi_shares *out)
{
    int length;
    for (int begin = 0; begin < owners.ranks; begin += length) {
        length = run_length(owners, begin);
        lsi_shares s = {.first = owners.rank[begin],
                        .owners = length,
                        .carriers = carriers};
        s.elements = owned_by(all, s.first, length);
        if (!find_window(all, &s, begin, owners.rank == carriers.rank, &index))
            continue;
        *out = lsi_range_size(s.elements) > 0 ? s : (lsi_shares){0};
        return true;
    }
    *out = (lsi_shares){0};
    return false;
}

lsi_range lsi_shares_part(const lsi_shares *s, int index)
{
    const lsi_range part = lsi_cut_part(&s->cut, lsi_range_size(s->elements),
                                        s->carriers.ranks, index);
    return (lsi_range){s->elements.begin + part.begin,
                       s->elements.begin + part.end};
}
