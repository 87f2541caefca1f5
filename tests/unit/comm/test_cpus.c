/*
 * How many CPUs are a rank's own, by the masks of the ranks of its node.
 */
#include "testing.h"

#include "base/cpus.h"
#include "comm/net/internode.h"
#include "comm/node/rank_cpus.h"
#include "nodes.h"

enum { MOST_RANKS = 6, PLENTY = 64 };

typedef struct masks {
    int ranks;
    uint64_t of[MOST_RANKS];
    int share[MOST_RANKS];
} masks;

static const masks cases[] = {
    {1, {0xff}, {8}},                            /* alone */
    {4, {0xff, 0xff, 0xff, 0xff}, {2, 2, 2, 2}}, /* bound to nothing */
    {3, {0xff, 0xff, 0xff}, {2, 2, 2}},
    {6, {3, 3, 3, 3, 3, 3}, {1, 1, 1, 1, 1, 1}}, /* more ranks than CPUs */
    {2, {0x0f, 0xf0}, {4, 4}},                   /* each has its own */
    {2, {0x01, 0xfe}, {1, 7}},
    {4, {0x0f, 0x0f, 0xf0, 0xf0}, {2, 2, 2, 2}}, /* two a socket */
    {3, {0xff, 0x0f, 0xf0}, {4, 2, 2}},
    {2, {0, 0}, {PLENTY / 2, PLENTY / 2}}, /* of CPUs beyond the masks */
};

/* In the second word, so that the others count, too. */
static void set_mask(const ls_group *group, uint64_t mask)
{
    uint64_t *cpus = lsi_member_of(group, group->rank)->cpus;
    for (int w = 0; w < LSI_CPU_WORDS; w++)
        cpus[w] = w == 1 ? mask : 0;
}

static void open_ranks(const masks *m, ls_group **groups)
{
    assert_ok(ls_group_open_threads(groups, m->ranks));
    for (int r = 0; r < m->ranks; r++)
        set_mask(groups[r], m->of[r]);
}

static void close_ranks(int ranks, ls_group **groups)
{
    for (int r = 0; r < ranks; r++)
        ls_group_close(&groups[r]);
}

static void shares_follow_from_masks(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const masks *m = &cases[i];
        ls_group *groups[MOST_RANKS];
        open_ranks(m, groups);
        for (int r = 0; r < m->ranks; r++)
            assert_int_equal(lsi_rank_cpus_share(groups[r], PLENTY, 0),
                             m->share[r]);
        close_ranks(m->ranks, groups);
    }
}

/* Of eight CPUs in the masks, time of six for all. */
static void a_quota_is_divided(void **state)
{
    const masks m = {2, {0xff, 0xff}, {0}};
    ls_group *groups[MOST_RANKS];
    (void)state;
    open_ranks(&m, groups);
    assert_int_equal(lsi_rank_cpus_share(groups[0], 6, 6), 3);
    assert_int_equal(lsi_rank_cpus_share(groups[0], 1, 1), 1);
    close_ranks(m.ranks, groups);
}

/* Also where no rank is bound to more CPUs than the quota has. */
static void a_quota_of_ranks_that_are_bound_is_divided(void **state)
{
    const masks m = {2, {0xff, 0xff00}, {0}};
    ls_group *groups[MOST_RANKS];
    (void)state;
    open_ranks(&m, groups);
    assert_int_equal(lsi_rank_cpus_share(groups[0], 8, 8), 4);
    assert_int_equal(lsi_rank_cpus_share(groups[1], 3, 2.5), 1);
    close_ranks(m.ranks, groups);
}

/* Only among the ranks of its control group; the CPUs are not more for it. */
static void a_quota_is_that_of_a_control_group(void **state)
{
    const masks m = {3, {0xff, 0xff, 0xff}, {0}};
    ls_group *groups[MOST_RANKS];
    (void)state;
    open_ranks(&m, groups);
    for (int r = 0; r < m.ranks; r++)
        lsi_member_of(groups[0], r)->quota_of = r == 0 ? 7 : 8;
    assert_int_equal(lsi_rank_cpus_share(groups[0], 2, 2), 2);
    assert_int_equal(lsi_rank_cpus_share(groups[1], 4, 4), 2);
    assert_int_equal(lsi_rank_cpus_share(groups[0], 6, 6), 2); /* of 8 / 3 */
    close_ranks(m.ranks, groups);
}

/*
 * Ranks of other nodes have separate CPUs, unless they are on this machine,
 * as all are here.
 */
static void look_at_share(ls_group *group, void *unused)
{
    static const int share[] = {4, 4, 8, 2, 2, 2};
    (void)unused;
    const int cpus = lsi_cpus_available() / group->size;
    CHECK(group->cpus_share == (cpus < 1 ? 1 : cpus));
    set_mask(group->channels.local, 0xff);
    CHECK_OK(ls_barrier(group));
    group->cpus_share = 2;
    CHECK(lsi_rank_cpus_share(group, PLENTY, 0) == 2);
    group->cpus_share = 0;
    CHECK(lsi_rank_cpus_share(group, PLENTY, 0) == share[group->rank]);
    CHECK_OK(ls_barrier(group));
}

static void each_node_has_its_own(void **state)
{
    static const int uneven[] = {2, 1, 3};
    (void)state;
    run_nodes(uneven, 3, look_at_share, NULL);
}

/* A group that opens says so to whatever computes here; a later one, too. */
static void opening_limits_computing(void **state)
{
    ls_group *groups[MOST_RANKS], *parts[2];
    const int cpus = lsi_cpus_available();
    (void)state;
    lsi_cpus_limit(PLENTY);
    assert_ok(ls_group_open_threads(groups, 1));
    assert_int_equal(lsi_cpus_limited(), PLENTY);
    assert_ok(ls_group_split(groups[0], 0, 0, parts));
    assert_int_equal(lsi_cpus_limited(), PLENTY);
    ls_group_close(&parts[0]);
    close_ranks(1, groups);
    for (int ranks = 2; ranks <= MOST_RANKS; ranks++) {
        assert_ok(ls_group_open_threads(groups, ranks));
        close_ranks(ranks, groups);
        assert_int_equal(lsi_cpus_limited(), cpus < ranks ? 1 : cpus / ranks);
    }
    assert_ok(ls_group_open_threads(groups, 2)); /* it does not rise again */
    close_ranks(2, groups);
    assert_int_equal(lsi_cpus_limited(),
                     cpus < MOST_RANKS ? 1 : cpus / MOST_RANKS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_limits_computing), /* the first: it falls */
        cmocka_unit_test(shares_follow_from_masks),
        cmocka_unit_test(a_quota_is_divided),
        cmocka_unit_test(a_quota_of_ranks_that_are_bound_is_divided),
        cmocka_unit_test(a_quota_is_that_of_a_control_group),
        cmocka_unit_test(each_node_has_its_own),
    };
    return cmocka_run_group_tests_name("cpus", tests, NULL, NULL);
}
