/* One outcome for all ranks. */
#include "testing.h"

#include <stdio.h>

#include "base/error.h"
#include "comm/api/outcome.h"
#include "unit/comm/ranks.h"

enum { RANKS = 5 };

/* Which ranks fail, as bits, and what all of them should hear. */
typedef struct plan {
    unsigned failing;
    const char *message;
} plan;

static ls_status own_outcome(const plan *p, int rank)
{
    if (!(p->failing >> rank & 1))
        return LS_OK;
    return lsi_fail(LS_ERR_IO, "no file on rank %d", rank);
}

static void play(ls_group *group, void *opaque)
{
    const plan *const p = opaque;
    bool agreed = false;
    const ls_status own = own_outcome(p, ls_group_rank(group));
    const ls_status all = lsi_share_outcome(group, own, &agreed);
    CHECK(all == (p->failing != 0 ? LS_ERR_IO : LS_OK));
    CHECK(agreed == (p->failing != 0));
    if (p->failing != 0)
        CHECK(strcmp(ls_last_error(), p->message) == 0);
}

static void test_all_hear_of_the_lowest_failure(void **state)
{
    (void)state;
    plan plans[] = {
        {0, ""},
        {1U << 0, "no file on rank 0"},
        {1U << 3, "rank 3: no file on rank 3"},
        {1U << 2 | 1U << 4, "rank 2: no file on rank 2"},
        {(1U << RANKS) - 1, "no file on rank 0"},
    };
    for (size_t i = 0; i < TEST_COUNT(plans); i++)
        run_threads(RANKS, play, &plans[i]);
}

static void test_one_rank(void **state)
{
    (void)state;
    plan alone = {1, "no file on rank 0"};
    run_threads(1, play, &alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_hear_of_the_lowest_failure),
        cmocka_unit_test(test_one_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
