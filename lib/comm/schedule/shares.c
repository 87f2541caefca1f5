#include "comm/schedule/shares.h"

/* Bytes of a window: a quarter of all, so that some follow each other. */
enum {
    WINDOWS = 4,
    LEAST_WINDOW = 256 * 1024,
    MOST_WINDOW = 1 << 20,
    LINE = 64
};

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

/* Number `begin` of the node is the first of the run. */
static lsi_cut cut_of(const lsi_owners *all, const lsi_shares *s, int begin,
                      bool as_owned)
{
    const size_t shard = all->cut.shard;
    if (!as_owned)
        return lsi_even_cut(lsi_range_size(s->elements), s->carriers.ranks);
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

/* Elements of a window of n that are shared. */
static size_t window_of(size_t n, size_t item)
{
    const size_t bytes = n * item / WINDOWS;
    const size_t more = bytes < LEAST_WINDOW ? LEAST_WINDOW : bytes;
    return (more < MOST_WINDOW ? more : MOST_WINDOW) / item;
}

/* The part of one share; it ends at a cache line. */
static size_t width_of(size_t n, size_t item, int carriers)
{
    const size_t ranks = (size_t)carriers, line = LINE / item;
    return (window_of(n, item) / ranks + line - 1) / line * line;
}

size_t lsi_shares_most(const lsi_owners *all, int carriers)
{
    const size_t most =
        window_of(all->count, all->item) + (size_t)carriers * LINE / all->item;
    return most < all->count ? most : all->count;
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
        s.cut = cut_of(all, &s, begin, owners.rank == carriers.rank);
        const lsi_range offsets = offsets_of(&s);
        const size_t width =
            width_of(lsi_range_size(s.elements), all->item, carriers.ranks);
        const size_t windows = (lsi_range_size(offsets) + width - 1) / width;
        if (index < windows) {
            const size_t at = offsets.begin + index * width;
            s.cut.window =
                lsi_range_common(offsets, (lsi_range){at, at + width});
            *out = s;
            return true;
        }
        index -= windows;
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

size_t lsi_shares_upto(const lsi_shares *s, lsi_range owned)
{
    size_t upto = owned.end;
    lsi_shares rest = *s;
    rest.cut.window = (lsi_range){s->cut.window.end, s->cut.shard};
    if (s->carriers.ranks != 0 && s->elements.end <= owned.begin)
        return owned.begin; /* the window is of an earlier run */
    for (int i = 0; i < s->carriers.ranks; i++) {
        const lsi_range left =
            lsi_range_common(lsi_shares_part(&rest, i), owned);
        if (lsi_range_size(left) != 0 && left.begin < upto)
            upto = left.begin;
    }
    return upto;
}
