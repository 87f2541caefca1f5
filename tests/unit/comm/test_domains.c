/*
 * Trees of arrivals on simulated machines: who counts whom, and which lines
 * cross between domains, in any order of arrival. Then groups whose ranks are
 * told that they run in several packages: data, disagreements and deaths.
 */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/core/combine.h"
#include "comm/node/rank_cpus.h"
#include "comm/node/seat.h"
#include "lockstep/comm.h"
#include "ranks.h"

enum { MOST = 256, ORDERS = 50, PHASES = 6 };

/* ---- machines ------------------------------------------------------------ */

/* Ranks are placed in order, or around all caches. */
typedef struct machine {
    const char *name;
    int packages, nodes, caches, ranks; /* each in one of the ones before */
    bool around;
    int domains; /* expected; 0: no tree */
} machine;

static const machine machines[] = {
    {"7 ranks", 1, 1, 7, 1, false, 0},
    {"one cache, 8 ranks", 1, 1, 1, 8, false, 0},
    {"one cache, 24 ranks", 1, 1, 1, 24, false, 1},
    {"one cache, 65 ranks", 1, 1, 1, 65, false, 1},
    {"two caches of 4 cores", 1, 1, 2, 4, false, 2},
    {"four caches of 4 cores, around", 1, 1, 4, 4, true, 4},
    {"two packages of 8 cores", 2, 1, 1, 8, false, 2},
    {"two packages of 8 caches of 8 cores", 2, 1, 8, 8, false, 2},
    {"two packages of 4 memory nodes of 2 caches of 4 cores", 2, 4, 2, 4, true,
     2},
    {"one package of 4 memory nodes of 3 caches of 8 cores", 1, 4, 3, 8, false,
     4},
    {"four packages of 4 cores, around", 4, 1, 1, 4, true, 4},
    {"two packages of 2 memory nodes of 12 cores", 2, 2, 1, 12, false, 2},
    {"twelve caches of 2 cores", 1, 1, 12, 2, false, 12},
    {"sixteen caches of one core", 1, 1, 16, 1, false, 16},
    {"eight packages of 4 memory nodes of 8 cores", 8, 4, 1, 8, true, 8}};

enum { MACHINES = sizeof(machines) / sizeof(machines[0]) };

static int ranks_of(const machine *m)
{
    return m->packages * m->nodes * m->caches * m->ranks;
}

static lsi_seat seat_of(const machine *m, int rank)
{
    const int caches = m->packages * m->nodes * m->caches;
    const int cache = m->around ? rank % caches : rank / m->ranks;
    const int node = cache / m->caches;
    return (lsi_seat){{node / m->nodes * 1000, node * 100, cache * 10}};
}

static lsi_domains *arranged(const machine *m, lsi_seat seats[MOST])
{
    lsi_domains *domains = NULL;
    assert_true(ranks_of(m) <= MOST);
    CHECK_OK(lsi_domains_alloc(ranks_of(m), &domains));
    for (int r = 0; r < ranks_of(m); r++)
        seats[r] = seat_of(m, r);
    lsi_domains_arrange(domains, seats, LSI_JUNCTION_MOST);
    return domains;
}

/* Groups may behave as if each rank had a CPU. */
bool rank_cpus_suffice_really(const ls_group *group) __asm__(
    "__real_lsi_rank_cpus_suffice");
bool rank_cpus_suffice_of_test(const ls_group *group) __asm__(
    "__wrap_lsi_rank_cpus_suffice");
static bool pretends_cpus;

bool rank_cpus_suffice_of_test(const ls_group *group)
{
    return pretends_cpus || rank_cpus_suffice_really(group);
}

/* ---- shapes -------------------------------------------------------------- */

static bool is_below(const lsi_domains *d, int rank, int junction)
{
    int at = d->leaf[rank];
    while (at >= 0 && at != junction)
        at = d->junction[at].parent;
    return at == junction;
}

/* All ranks of a place are below a junction, or none, or only they are. */
static void check_nested(const lsi_domains *d, const lsi_seat *seats,
                         int junction, int level)
{
    bool others = false, cut = false;
    int first = 0;
    while (!is_below(d, first, junction))
        first++;
    for (int r = 0; r < d->ranks; r++)
        others = others || (is_below(d, r, junction) &&
                            seats[r].in[level] != seats[first].in[level]);
    for (int r = 0; r < d->ranks; r++)
        for (int q = 0; q < d->ranks; q++)
            cut =
                cut || (seats[r].in[level] == seats[q].in[level] &&
                        is_below(d, r, junction) && !is_below(d, q, junction));
    assert_false(others && cut);
}

static void check_tree(const lsi_domains *d, const lsi_seat *seats)
{
    int counted[MOST] = {0}, roots = 0;
    for (int j = 0; j < d->junctions; j++) {
        const lsi_junction_shape at = d->junction[j];
        assert_in_range(at.children, 2, LSI_JUNCTION_MOST);
        roots += at.parent < 0;
        assert_true(at.parent < 0 || at.parent > j);
        for (int i = 0; i < at.children; i++) {
            const int child = d->child[at.first + i];
            if (child >= 0)
                assert_int_equal(d->leaf[child], j);
            else
                assert_int_equal(d->junction[~child].parent, j);
            if (child >= 0)
                counted[child]++;
        }
        for (int level = 0; level < LSI_SEAT_LEVELS; level++)
            check_nested(d, seats, j, level);
    }
    assert_int_equal(roots, 1);
    for (int r = 0; r < d->ranks; r++)
        assert_int_equal(counted[r], 1);
}

static void trees_follow_the_machine(void **state)
{
    (void)state;
    for (int i = 0; i < MACHINES; i++) {
        lsi_seat seats[MOST];
        lsi_domains *d = arranged(&machines[i], seats);
        assert_int_equal(d->domains, machines[i].domains);
        assert_int_equal(d->junctions > 0, machines[i].domains > 0);
        if (d->junctions > 0)
            check_tree(d, seats);
        lsi_free(d);
    }
}

static void unknown_seats_have_no_tree(void **state)
{
    (void)state;
    lsi_seat seats[MOST];
    lsi_domains *d = arranged(&machines[7], seats);
    assert_true(d->junctions > 0);
    seats[5].in[0] = -1;
    lsi_domains_arrange(d, seats, LSI_JUNCTION_MOST);
    assert_int_equal(d->junctions, 0);
    assert_false(lsi_domains_relays(d));
    lsi_free(d);
}

/* Ranks with CPUs of several caches are together in their package. */
static void ranks_may_span_caches(void **state)
{
    (void)state;
    lsi_seat seats[MOST];
    lsi_domains *d = arranged(&machines[7], seats);
    for (int r = 0; r < d->ranks; r++)
        seats[r].in[1] = seats[r].in[2] = r < 20 ? -1 : seats[r].in[2];
    lsi_domains_arrange(d, seats, LSI_JUNCTION_MOST);
    assert_int_equal(d->domains, 2);
    check_tree(d, seats);
    for (int r = 0; r < d->ranks; r++)
        seats[r] = (lsi_seat){{0, -1, r % 2 == 0 ? -1 : r}};
    lsi_domains_arrange(d, seats, LSI_JUNCTION_MOST);
    assert_int_equal(d->domains, 1);
    check_tree(d, seats);
    lsi_free(d);
}

/* With more ranks than CPUs a junction counts as many as there are. */
static void crowded_caches_are_not_cut(void **state)
{
    (void)state;
    lsi_seat seats[MOST] = {{{0}}};
    lsi_domains *d = NULL;
    CHECK_OK(lsi_domains_alloc(40, &d));
    lsi_domains_arrange(d, seats, 40);
    assert_int_equal(d->junctions, 0);
    for (int r = 0; r < 40; r++)
        seats[r].in[0] = r / 20;
    lsi_domains_arrange(d, seats, 40);
    assert_int_equal(d->junctions, 3);
    lsi_free(d);
}

/* ---- transfers between domains ------------------------------------------- */

/*
 * A line, the domain whose core has written it last, and which domains have
 * fetched it since. A fetch from another domain is a transfer.
 */
typedef struct line {
    int writer;
    bool has[MOST];
} line;

static int fetch(line *l, int domain)
{
    const int moved = l->writer >= 0 && !l->has[domain];
    l->has[domain] = true;
    return moved;
}

/* A store needs no data of others; an addition fetches first. */
static void store(line *l, int domain)
{
    memset(l->has, 0, sizeof(l->has));
    l->writer = domain;
    l->has[domain] = true;
}

static line cells[MOST], counts[MOST], children[MOST], told[MOST];

static void forget_lines(void)
{
    line *const all[] = {cells, counts, children, told};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < MOST; k++)
            all[i][k] = (line){.writer = -1};
}

/*
 * One phase, written from the description of lsi_combine: which lines it
 * touches, in which order. `arrivals` counts as it does.
 */
static int play_tree(const lsi_domains *d, const int *order, bool first,
                     uint64_t *arrivals)
{
    int moved = 0, ends = 0;
    for (int i = 0; i < d->ranks; i++) {
        const int own = d->domain[order[i]];
        store(&cells[order[i]], own);
        for (int at = d->leaf[order[i]]; at >= 0;) {
            const lsi_junction_shape shape = d->junction[at];
            moved += fetch(&counts[at], own);
            store(&counts[at], own);
            if (++arrivals[at] % (uint64_t)shape.children != 0)
                break;
            for (int c = 0; first && c < shape.children; c++) {
                const int child = d->child[shape.first + c];
                moved +=
                    fetch(child >= 0 ? &cells[child] : &children[~child], own);
            }
            if (first)
                store(&children[at], own);
            for (int k = 0; shape.parent < 0 && k < d->domains; k++)
                store(&told[k], own);
            ends += shape.parent < 0;
            if (shape.parent < 0)
                assert_int_equal(i, d->ranks - 1);
            at = shape.parent;
        }
    }
    assert_int_equal(ends, 1);
    for (int r = 0; r < d->ranks; r++)
        moved += fetch(&told[d->domain[r]], d->domain[r]);
    return moved;
}

/* The same phase if every rank reads the cells of all. */
static int play_cells(const lsi_domains *d, const int *order)
{
    int moved = 0;
    for (int i = 0; i < d->ranks; i++)
        store(&cells[order[i]], d->domain[order[i]]);
    for (int r = 0; r < d->ranks; r++)
        for (int q = 0; q < d->ranks; q++)
            moved += fetch(&cells[q], d->domain[r]);
    return moved;
}

static void shuffle(int *order, int n, unsigned *seed)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        *seed = *seed * 1103515245u + 12345u;
        const int k = (int)((*seed >> 16) % (unsigned)(i + 1));
        const int kept = order[i];
        order[i] = order[k];
        order[k] = kept;
    }
}

/* Junctions above more than one domain. */
static int upper_junctions(const lsi_domains *d)
{
    int found = 0;
    for (int j = 0; j < d->junctions; j++) {
        int domain = -1;
        bool mixed = false;
        for (int r = 0; r < d->ranks; r++) {
            if (!is_below(d, r, j))
                continue;
            mixed = mixed || (domain >= 0 && domain != d->domain[r]);
            domain = d->domain[r];
        }
        found += mixed;
    }
    return found;
}

/*
 * At least one line leaves each domain but one, and one comes back: 2 (S - 1).
 * The counters of the junctions above may begin in another domain. In the first
 * phase, the summaries of all domains but one cross, too.
 */
static void few_lines_cross(void **state)
{
    unsigned seed = 1;
    (void)state;
    for (int i = 0; i < MACHINES; i++) {
        lsi_seat seats[MOST];
        uint64_t arrivals[MOST] = {0};
        lsi_domains *d = arranged(&machines[i], seats);
        const int least = 2 * (d->domains - 1), upper = upper_junctions(d);
        int order[MOST], most = 0, most_first = 0, flat = 0;
        forget_lines();
        for (int k = 0; k < ORDERS * PHASES && d->junctions > 0; k++) {
            const bool first = k % PHASES == 0;
            shuffle(order, d->ranks, &seed);
            const int moved = play_tree(d, order, first, arrivals);
            int *const record = first ? &most_first : &most;
            *record = moved > *record ? moved : *record;
        }
        forget_lines();
        for (int k = 0; k < PHASES && d->junctions > 0; k++) {
            shuffle(order, d->ranks, &seed);
            flat = play_cells(d, order);
            assert_int_equal(flat, d->ranks * (d->domains - 1));
        }
        if (d->junctions > 0) {
            assert_true(most <= least + upper);
            assert_true(most_first <= least + upper + d->domains - 1);
            printf("%-54s %3d ranks: lines that cross: %d, first phase %d; "
                   "minimum %d; without a tree %d\n",
                   machines[i].name, d->ranks, most, most_first, least, flat);
        }
        lsi_free(d);
    }
}

/* ---- relays -------------------------------------------------------------- */

static int size_of(const lsi_domains *d, int domain)
{
    return d->first[domain + 1] - d->first[domain];
}

/*
 * Each owner's data cross once into every domain with relays, and once for each
 * rank into those without.
 */
static void check_relays(const lsi_domains *d)
{
    for (int owner = 0; owner < d->ranks; owner++) {
        int crossings[MOST] = {0};
        for (int r = 0; r < d->ranks; r++) {
            const int relay = lsi_domains_relay(d, r, owner);
            crossings[d->domain[r]] += r != owner &&
                                       (relay == owner || relay == r) &&
                                       d->domain[r] != d->domain[owner];
            assert_true(relay == owner || d->domain[relay] == d->domain[r]);
            if (relay == owner)
                continue;
            assert_int_equal(lsi_domains_relay(d, relay, owner), relay);
            assert_in_range(lsi_domains_relay_slot(d, relay, owner), 0,
                            lsi_domains_relay_slots(d) - 1);
        }
        for (int k = 0; k < d->domains; k++) {
            const int size = size_of(d, k);
            const bool relayed = size >= 2 && 8 * size >= d->ranks;
            assert_int_equal(crossings[k], k == d->domain[owner] ? 0
                                           : relayed             ? 1
                                                                 : size);
        }
    }
    assert_in_range(lsi_domains_relay_slots(d), 1, 8);
}

static void check_slots(const lsi_domains *d)
{
    for (int relay = 0; relay < d->ranks; relay++) {
        bool taken[MOST] = {false};
        for (int owner = 0; owner < d->ranks; owner++) {
            if (lsi_domains_relay(d, relay, owner) != relay || owner == relay)
                continue;
            const int slot = lsi_domains_relay_slot(d, relay, owner);
            assert_false(taken[slot]);
            taken[slot] = true;
        }
    }
}

static void data_cross_once(void **state)
{
    (void)state;
    for (int i = 0; i < MACHINES; i++) {
        const machine *const m = &machines[i];
        lsi_seat seats[MOST];
        lsi_domains *d = arranged(m, seats);
        assert_int_equal(lsi_domains_relays(d),
                         m->domains > 1 && m->ranks > 1 && m->domains <= 8);
        if (lsi_domains_relays(d)) {
            check_relays(d);
            check_slots(d);
        }
        lsi_free(d);
    }
}

/* Packages with very different numbers of ranks. */
static void uneven_packages_have_relays(void **state)
{
    static const int sizes[][3] = {{254, 2, 0}, {64, 2, 0}, {20, 4, 0},
                                   {9, 2, 1},   {6, 5, 4},  {8, 1, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        lsi_seat seats[MOST];
        lsi_domains *d = NULL;
        const int *s = sizes[i], total = s[0] + s[1] + s[2];
        CHECK_OK(lsi_domains_alloc(total, &d));
        for (int r = 0; r < total; r++) {
            const int package = r < s[0] ? 0 : r < s[0] + s[1] ? 1 : 2;
            seats[r] = (lsi_seat){{package, package, package}};
        }
        lsi_domains_arrange(d, seats, LSI_JUNCTION_MOST);
        assert_true(lsi_domains_relays(d));
        check_tree(d, seats);
        check_relays(d);
        check_slots(d);
        lsi_free(d);
    }
}

/* ---- the variable -------------------------------------------------------- */

static void placements_are_read(void **state)
{
    static const char *const wrong[] = {
        "",        "0",      "0/0",    "0/0/", "a/0/0",
        "0/0/0;1", "-1/0/0", "0/0/0 ", "0//0", "0/0/9999999999"};
    lsi_seat seat;
    (void)state;
    assert_int_equal(lsi_seat_parse("0/1/2,3/4/5", 1, &seat), LS_OK);
    assert_int_equal(seat.in[0], 3);
    assert_int_equal(seat.in[1], 4);
    assert_int_equal(seat.in[2], 5);
    assert_int_equal(lsi_seat_parse("0/1/2,3/4/5", 2, &seat), LS_ERR_ARGUMENT);
    assert_non_null(
        strstr(ls_last_error(), "has 2 entries, but this is rank 2 of"));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(lsi_seat_parse(wrong[i], 0, &seat), LS_ERR_ARGUMENT);
}

/* ---- groups -------------------------------------------------------------- */

enum { RANKS = 12, TIMES = 300, LONGEST = 70001 };

/* Three packages of 6, 4 and 2 ranks, mixed; the first has two caches. */
#define PLACEMENT                                                              \
    "0/0/0,1/1/1,0/0/4,2/2/2,0/0/0,1/1/1,0/0/4,0/0/0,1/1/1,2/2/2,1/1/1,0/0/4"

static void check_combines(const ls_group *group)
{
    CHECK(lsi_combines(group) && group->domains->domains == 3);
}

/* Sums and gathers of many sizes, with ranks that come late in turn. */
static void adds_and_gathers(ls_group *group, void *argument)
{
    static const size_t lengths[] = {1, 9, 1000, 5000, LONGEST};
    double *send = malloc(LONGEST * sizeof(*send));
    double *recv = malloc(RANKS * LONGEST * sizeof(*recv));
    const int rank = ls_group_rank(group);
    (void)argument;
    CHECK(send != NULL && recv != NULL);
    check_combines(group);
    for (int k = 0; k < TIMES; k++) {
        const size_t n = lengths[k % 50 == 49 ? 4 : k % 4];
        if (k % RANKS == rank)
            usleep(100);
        for (size_t i = 0; i < n; i++)
            send[i] = (double)((size_t)k + i * (size_t)(rank + 1));
        CHECK_OK(ls_all_reduce(group, send, recv, n, LS_F64, LS_REDUCE_SUM));
        for (size_t i = 0; i < n; i++)
            CHECK(recv[i] ==
                  (double)(RANKS * (size_t)k + i * RANKS * (RANKS + 1) / 2));
        CHECK_OK(ls_all_gather(group, send, recv, n, LS_F64));
        for (size_t r = 0; r < RANKS; r++)
            for (size_t i = 0; i < n; i++)
                CHECK(recv[r * n + i] == (double)((size_t)k + i * (r + 1)));
        CHECK_OK(ls_broadcast(group, send, n, LS_F64, k % RANKS));
        for (size_t i = 0; i < n; i++)
            CHECK(send[i] == (double)((size_t)k + i * (size_t)(k % RANKS + 1)));
        CHECK_OK(ls_barrier(group));
    }
    free(send);
    free(recv);
}

static void groups_get_the_right_data(void **state)
{
    (void)state;
    setenv("LOCKSTEP_PLACEMENT", PLACEMENT, 1);
    run_threads(RANKS, adds_and_gathers, NULL);
    run_processes(RANKS, adds_and_gathers, NULL);
    /* As if each rank had a CPU: with relays, and many chunks. */
    pretends_cpus = true;
    setenv("LOCKSTEP_SELECT",
           "window:4k,broadcast:0-inf:staged,all_gather:0-inf:staged", 1);
    run_threads(RANKS, adds_and_gathers, NULL);
    run_processes(RANKS, adds_and_gathers, NULL);
    unsetenv("LOCKSTEP_SELECT");
    pretends_cpus = false;
    unsetenv("LOCKSTEP_PLACEMENT");
}

/* A timeout is time without progress: each rank that comes ends it. */
static void comes_late(ls_group *group, void *argument)
{
    (void)argument;
    check_combines(group);
    CHECK_OK(ls_group_set_timeout(group, 1.5));
    usleep((useconds_t)ls_group_rank(group) * 300000);
    CHECK_OK(ls_barrier(group));
}

static void late_ranks_are_progress(void **state)
{
    (void)state;
    setenv("LOCKSTEP_PLACEMENT", PLACEMENT, 1);
    run_processes(RANKS, comes_late, NULL);
    unsetenv("LOCKSTEP_PLACEMENT");
}

/* More requests than cells, which complete in any order of arrival. */
static void many_requests(ls_group *group, void *argument)
{
    enum { REQUESTS = 20, COUNT = 600 };
    static float data[RANKS][REQUESTS][COUNT];
    const int rank = ls_group_rank(group);
    ls_request *requests[REQUESTS];
    (void)argument;
    check_combines(group);
    for (int k = 0; k < REQUESTS; k++) {
        for (int i = 0; i < COUNT; i++)
            data[rank][k][i] = (float)(rank * k + i);
        CHECK_OK(ls_iall_reduce(group, data[rank][k], data[rank][k], COUNT,
                                LS_F32, LS_REDUCE_SUM, &requests[k]));
    }
    for (int k = 0; k < REQUESTS; k++) {
        CHECK_OK(ls_wait(requests[k]));
        ls_request_free(&requests[k]);
        for (int i = 0; i < COUNT; i++)
            CHECK(data[rank][k][i] ==
                  (float)(RANKS * (RANKS - 1) / 2 * k + RANKS * i));
    }
}

/* One rank refuses: all get its status, and the group goes on. */
static void refuses(ls_group *group, void *argument)
{
    float x = 1;
    (void)argument;
    for (int k = 0; k < 2 * RANKS; k++) {
        const bool wrong = ls_group_rank(group) == k % RANKS;
        CHECK(ls_all_reduce(group, wrong ? NULL : &x, wrong ? NULL : &x, 1,
                            LS_F32, LS_REDUCE_MAX) == LS_ERR_ARGUMENT);
        CHECK_OK(ls_all_reduce(group, &x, &x, 1, LS_F32, LS_REDUCE_MAX));
        CHECK(x == 1);
    }
}

/* One rank calls something else: all learn it, and no result is used. */
static void disagrees(ls_group *group, void *argument)
{
    const int other = *(const int *)argument;
    float x[2] = {1, 1};
    CHECK_OK(ls_barrier(group));
    const size_t n = ls_group_rank(group) == other ? 2 : 1;
    CHECK(ls_all_reduce(group, x, x, n, LS_F32, LS_REDUCE_SUM) ==
          LS_ERR_MISMATCH);
}

/* A disagreement ends the wait although one rank never comes. */
static void disagrees_early(ls_group *group, void *argument)
{
    float x[2] = {1, 1};
    const int rank = ls_group_rank(group);
    (void)argument;
    CHECK_OK(ls_barrier(group));
    if (rank == RANKS - 1)
        while (!lsi_has_failed(group))
            usleep(1000);
    else
        CHECK(ls_all_reduce(group, x, x, rank == 1 ? 2 : 1, LS_F32,
                            LS_REDUCE_SUM) == LS_ERR_MISMATCH);
}

static void differences_are_seen(void **state)
{
    (void)state;
    setenv("LOCKSTEP_PLACEMENT", PLACEMENT, 1);
    run_threads(RANKS, many_requests, NULL);
    run_processes(RANKS, many_requests, NULL);
    run_threads(RANKS, refuses, NULL);
    run_processes(RANKS, refuses, NULL);
    for (int other = 0; other < RANKS; other += 5)
        run_threads(RANKS, disagrees, &other);
    run_threads(RANKS, disagrees_early, NULL);
    unsetenv("LOCKSTEP_PLACEMENT");
}

/* The rank that is told to die does so in the middle of many barriers. */
static void meets_for_long(ls_group *group, void *argument)
{
    const int victim = *(const int *)argument;
    ls_status status = LS_OK;
    check_combines(group);
    for (int k = 0; status == LS_OK; k++) {
        if (k == 500 && ls_group_rank(group) == victim)
            _exit(7);
        status = ls_barrier(group);
    }
    CHECK(status == LS_ERR_PEER_DEAD);
}

static void deaths_end_the_wait(void **state)
{
    pid_t pids[RANKS];
    (void)state;
    setenv("LOCKSTEP_PLACEMENT", PLACEMENT, 1);
    for (int victim = 0; victim < RANKS; victim += 3) {
        start_processes(RANKS, meets_for_long, &victim, pids);
        for (int r = 0; r < RANKS; r++) {
            const int status = wait_process(pids[r]);
            assert_true(WIFEXITED(status));
            assert_int_equal(WEXITSTATUS(status), r == victim ? 7 : 0);
        }
    }
    unsetenv("LOCKSTEP_PLACEMENT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees_follow_the_machine),
        cmocka_unit_test(unknown_seats_have_no_tree),
        cmocka_unit_test(ranks_may_span_caches),
        cmocka_unit_test(crowded_caches_are_not_cut),
        cmocka_unit_test(few_lines_cross),
        cmocka_unit_test(data_cross_once),
        cmocka_unit_test(uneven_packages_have_relays),
        cmocka_unit_test(placements_are_read),
        cmocka_unit_test(groups_get_the_right_data),
        cmocka_unit_test(late_ranks_are_progress),
        cmocka_unit_test(differences_are_seen),
        cmocka_unit_test(deaths_end_the_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
