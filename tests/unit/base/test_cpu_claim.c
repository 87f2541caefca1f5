/*
 * The CPUs that launchers and ranks leave to each other without knowing of each
 * other on one machine.
 */
#include "testing.h"

#include <unistd.h>

#include "base/cpu_claim.h"
#include "base/cpus.h"

enum { MOST = 3, HERE = 5, THERE = 6 };

typedef struct part {
    uint64_t machine;
    const char *cpus;
    int ranks;
    uint64_t quota_of;
    double quota;
    int share;
} part;

static const struct {
    const char *what;
    part parts[MOST];
} cases[] = {
    {"alone", {{HERE, "0-7", 2, 0, 0, 0}}},
    {"two machines", {{HERE, "0-7", 2, 0, 0, 0}, {THERE, "0-7", 2, 0, 0, 0}}},
    {"one that is not known", {{0, "0-7", 2, 0, 0, 0}, {0, "0-7", 2, 0, 0, 0}}},
    {"one machine", {{HERE, "0-1", 1, 0, 0, 1}, {HERE, "0-1", 1, 0, 0, 1}}},
    {"uneven", {{HERE, "0-7", 1, 0, 0, 2}, {HERE, "0-7", 3, 0, 0, 2}}},
    {"more ranks than CPUs",
     {{HERE, "0-1", 4, 0, 0, 1}, {HERE, "0-1", 4, 0, 0, 1}}},
    {"disjoint CPUs", {{HERE, "0-3", 2, 0, 0, 2}, {HERE, "4-7", 1, 0, 0, 4}}},
    {"some in common", {{HERE, "0-5", 1, 0, 0, 4}, {HERE, "2-5", 1, 0, 0, 2}}},
    {"a third elsewhere",
     {{HERE, "0-3", 1, 0, 0, 2},
      {THERE, "0-3", 1, 0, 0, 0},
      {HERE, "0-3", 1, 0, 0, 2}}},
    {"a quota of all", {{HERE, "0-7", 1, 9, 4, 2}, {HERE, "0-7", 1, 9, 4, 2}}},
    {"a quota of one", {{HERE, "0-7", 1, 9, 3, 3}, {HERE, "0-7", 1, 0, 0, 4}}},
    {"a quota each", {{HERE, "0-7", 1, 9, 3, 3}, {HERE, "0-7", 1, 8, 2.5, 3}}},
    {"a quota of two ranks",
     {{HERE, "0-7", 2, 9, 5, 2}, {HERE, "0-7", 1, 8, 1, 1}}},
};

static void shares(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        lsi_cpu_claim claims[MOST];
        size_t n = 0;
        for (; n < MOST && cases[i].parts[n].ranks > 0; n++) {
            const part *const p = &cases[i].parts[n];
            claims[n] = (lsi_cpu_claim){.machine = p->machine,
                                        .quota_of = p->quota_of,
                                        .quota = p->quota,
                                        .ranks = p->ranks};
            assert_true(lsi_cpuset_parse(p->cpus, &claims[n].cpus));
        }
        for (size_t k = 0; k < n; k++) {
            const int got = lsi_cpu_claim_share(claims, n, k);
            if (got != cases[i].parts[k].share)
                fail_msg("%s: %d has %d CPUs", cases[i].what, (int)k, got);
        }
    }
}

static void the_own_claim(void **state)
{
    lsi_cpu_claim claims[2];
    (void)state;
    lsi_cpu_claim_here(3, &claims[0]);
    lsi_cpu_claim_here(1, &claims[1]);
    assert_int_equal(claims[0].ranks, 3);
    assert_int_not_equal(claims[0].machine, 0);
    assert_int_equal(claims[0].machine, claims[1].machine);
    assert_int_equal(lsi_cpuset_count(&claims[0].cpus), lsi_affinity_count());
    const int share = lsi_cpus_available() / 4;
    assert_int_equal(lsi_cpu_claim_share(claims, 2, 0), share < 1 ? 1 : share);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares),
        cmocka_unit_test(the_own_claim),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
