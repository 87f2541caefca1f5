#include "comm/schedule/domains.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/partition.h"

/* Ranks relay only to domains of at least this part of all ranks. */
enum { RELAY_SHARE = 8 };

ls_status lsi_domains_alloc(int ranks, lsi_domains **out)
{
    const size_t n = (size_t)ranks;
    lsi_domains *made = NULL;
    /* Each junction but the root is a child, and has two children or more. */
    const size_t words = 2 * n + 3 * n + (n + 1);
    LS_TRY(lsi_alloc_zeroed(&made,
                            sizeof(*made) + n * sizeof(lsi_junction_shape) +
                                words * sizeof(int),
                            LS_MEMORY_COMM, "a process group"));
    made->ranks = ranks;
    made->junction = (lsi_junction_shape *)(void *)(made + 1);
    made->child = (int *)(void *)(made->junction + n);
    made->leaf = made->child + 2 * n;
    made->domain = made->leaf + n;
    made->member = made->domain + n;
    made->first = made->member + n;
    *out = made;
    return LS_OK;
}

/* ---- the tree ------------------------------------------------------------ */

typedef struct builder {
    lsi_domains *to;
    const lsi_seat *seats;
    int most;
    int used; /* children so far */
} builder;

/* Makes a junction of two children or more; returns it as a child. */
static int make_junction(builder *b, const int *children, int count)
{
    lsi_domains *d = b->to;
    const int made = d->junctions++;
    assert(count >= 2 && made < d->ranks && b->used + count <= 2 * d->ranks);
    d->junction[made] = (lsi_junction_shape){-1, b->used, count};
    for (int i = 0; i < count; i++) {
        d->child[b->used++] = children[i];
        if (children[i] >= 0)
            d->leaf[children[i]] = made;
        else
            d->junction[~children[i]].parent = made;
    }
    return ~made;
}

/* Joins children by junctions, until one is left. */
static int join(builder *b, int *children, int count)
{
    while (count > b->most) {
        const int groups = (count + b->most - 1) / b->most;
        for (int g = 0; g < groups; g++) {
            const lsi_range part = lsi_partition((size_t)count, groups, g);
            const int size = (int)lsi_range_size(part);
            const int *from = children + part.begin;
            children[g] = size == 1 ? from[0] : make_junction(b, from, size);
        }
        count = groups;
    }
    return count == 1 ? children[0] : make_junction(b, children, count);
}

/* Moves the ranks that sit where the first one does to the front. */
static int gather_equal(const builder *b, int *ranks, int count, int level)
{
    int others[LSI_MAX_RANKS], equal = 0, rest = 0;
    const int where = b->seats[ranks[0]].in[level];
    for (int i = 0; i < count; i++) {
        if (b->seats[ranks[i]].in[level] == where)
            ranks[equal++] = ranks[i];
        else
            others[rest++] = ranks[i];
    }
    memcpy(ranks + equal, others, (size_t)rest * sizeof(int));
    return equal;
}

/* The tree of some ranks, as a child. At most LSI_SEAT_LEVELS deep. */
static int build(builder *b, int *ranks, int count, int level)
{
    int children[LSI_MAX_RANKS], found = 0;
    if (level == LSI_SEAT_LEVELS)
        return join(b, ranks, count);
    for (int at = 0; at < count;) {
        const int equal = gather_equal(b, ranks + at, count - at, level);
        children[found++] = build(b, ranks + at, equal, level + 1);
        at += equal;
    }
    return join(b, children, found);
}

/* ---- domains ------------------------------------------------------------- */

/* Whether the ranks are known to be in several places of a level. */
static bool divides(const lsi_seat *seats, int n, int level)
{
    bool differ = false;
    for (int r = 0; r < n; r++) {
        if (seats[r].in[level] < 0)
            return false;
        differ = differ || seats[r].in[level] != seats[0].in[level];
    }
    return differ;
}

/* Adds the ranks that sit where `rank` does, or all. */
static void add_domain(lsi_domains *d, const lsi_seat *seats, int rank,
                       int level)
{
    int used = d->first[d->domains];
    for (int r = rank; r < d->ranks; r++) {
        if (level < LSI_SEAT_LEVELS &&
            seats[r].in[level] != seats[rank].in[level])
            continue;
        d->domain[r] = d->domains;
        d->member[used++] = r;
    }
    const int size = used - d->first[d->domains];
    if (size >= 2 && size * RELAY_SHARE >= d->ranks &&
        (d->least == 0 || size < d->least))
        d->least = size;
    d->first[++d->domains] = used;
}

static void find_domains(lsi_domains *d, const lsi_seat *seats)
{
    int level = 0;
    while (level < LSI_SEAT_LEVELS && !divides(seats, d->ranks, level))
        level++;
    d->domains = d->first[0] = d->least = 0;
    for (int r = 0; r < d->ranks; r++)
        d->domain[r] = -1;
    for (int r = 0; r < d->ranks; r++)
        if (d->domain[r] < 0)
            add_domain(d, seats, r, level);
}

static bool all_known(const lsi_seat *seats, int n)
{
    for (int r = 0; r < n; r++)
        if (seats[r].in[0] < 0)
            return false;
    return true;
}

void lsi_domains_arrange(lsi_domains *domains, const lsi_seat *seats, int most)
{
    int ranks[LSI_MAX_RANKS];
    builder b = {.to = domains, .seats = seats, .most = most};
    assert(most >= 2 && domains->ranks <= LSI_MAX_RANKS);
    domains->junctions = domains->domains = domains->least = 0;
    if (domains->ranks < LSI_DOMAINS_FROM || !all_known(seats, domains->ranks))
        return;
    for (int r = 0; r < domains->ranks; r++)
        ranks[r] = r;
    (void)build(&b, ranks, domains->ranks, 0);
    find_domains(domains, seats);
    if (domains->junctions < 2)
        domains->junctions = domains->domains = domains->least = 0;
}

/* ---- relays -------------------------------------------------------------- */

static int members_of(const lsi_domains *d, int domain)
{
    return d->first[domain + 1] - d->first[domain];
}

int lsi_domains_relay(const lsi_domains *domains, int reader, int owner)
{
    const int own = domains->domain[reader];
    const int members = members_of(domains, own);
    if (domains->domain[owner] == own || members < domains->least)
        return owner;
    return domains->member[domains->first[own] + owner % members];
}

int lsi_domains_relay_slot(const lsi_domains *domains, int relay, int owner)
{
    return owner / members_of(domains, domains->domain[relay]);
}

int lsi_domains_relay_slots(const lsi_domains *domains)
{
    return (domains->ranks - 1) / domains->least + 1;
}
