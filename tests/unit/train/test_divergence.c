/*
 * Which losses, and how many in a row, are those of a run that has diverged.
 */
#include <math.h>

#include "testing.h"
#include "train/divergence.h"

static const double classes = 100;

/* After the first of these steps; whether the last one ends the run. */
static bool add(lsi_divergence *d, int steps, double loss)
{
    bool ended = false;
    for (int i = 0; i < steps; i++) {
        assert_false(ended);
        ended = lsi_divergence_add(d, loss);
    }
    return ended;
}

static void the_larger_one_counts(void **state)
{
    (void)state;
    lsi_divergence high = {.guess = log(classes)}, low = high;
    assert_false(add(&high, 1, 8));
    assert_true(lsi_divergence_limit(&high) == 12);
    assert_false(add(&low, 1, 2));
    assert_true(lsi_divergence_limit(&low) == 1.5 * log(classes));
    assert_false(add(&high, 1000, 12)); /* not above it */
    assert_false(add(&low, 1000, 1.5 * log(classes)));
    assert_false(add(&high, 49, 12.0001));
    assert_true(add(&high, 1, 12.0001));
    assert_false(add(&low, 49, 7));
    assert_true(add(&low, 1, 7));
}

static void steps_in_a_row_count(void **state)
{
    (void)state;
    lsi_divergence d = {.guess = log(classes)};
    assert_false(add(&d, 1, 5));
    for (int i = 0; i < 10; i++) {
        assert_false(add(&d, 49, 100));
        assert_int_equal(d.above, 49);
        assert_false(add(&d, 1, 1));
        assert_int_equal(d.above, 0);
    }
    assert_false(add(&d, 49, 1e30));
    assert_true(add(&d, 1, 8));
    assert_true(lsi_divergence_add(&d, 8)); /* and so it stays */
}

/* A checkpoint keeps the whole state. */
static void goes_on(void **state)
{
    (void)state;
    lsi_divergence whole = {.guess = log(classes)};
    assert_false(add(&whole, 1, 20));
    assert_false(add(&whole, 30, 31));
    lsi_divergence resumed = {.guess = log(classes),
                              .begun = true,
                              .first = whole.first,
                              .above = whole.above};
    assert_false(add(&resumed, 19, 31));
    assert_true(add(&resumed, 1, 31));
}

/* A first loss of 0 is a first loss. */
static void begins_with_nothing(void **state)
{
    (void)state;
    lsi_divergence d = {.guess = 0};
    assert_false(add(&d, 1, 0));
    assert_false(add(&d, 49, 1));
    assert_true(add(&d, 1, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_larger_one_counts),
        cmocka_unit_test(steps_in_a_row_count),
        cmocka_unit_test(goes_on),
        cmocka_unit_test(begins_with_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
