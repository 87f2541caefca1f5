/*
 * Numbers of ranges and calls: one for each, up to the limit of a file.
 */
#include "observe/trails.h"

#include "testing.h"

static void no_more_than_readers_take(void **state)
{
    lsi_trails trails = {.n = 0};
    bool is_new;
    (void)state;
    for (uint32_t i = 0; i < LSI_MOST_TRAILS; i++) {
        const lsi_trail trail = {.value = i * UINT64_C(4096), .parent = i};
        assert_int_equal(lsi_trail_number(&trails, trail, &is_new), i + 1);
        assert_true(is_new);
    }
    const lsi_trail known = {.value = 4096, .parent = 1};
    const lsi_trail other = {.value = 4096, .parent = 1, .call = true};
    assert_int_equal(lsi_trail_number(&trails, other, &is_new), 0);
    assert_false(is_new);
    assert_int_equal(lsi_trail_number(&trails, known, &is_new), 2);
    assert_false(is_new);
    lsi_trails_free(&trails);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_more_than_readers_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
