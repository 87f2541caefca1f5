/*
 * Which requests to end are one.
 */
#include "base/requests.h"
#include "testing.h"

static const siginfo_t sent = {.si_code = SI_USER};
static const siginfo_t key = {.si_code = SI_KERNEL};

static void repeats_within_a_second_are_one(void **state)
{
    (void)state;
    lsi_requests requests = {0};
    assert_true(lsi_request_counts(&requests, &sent, 100));
    assert_false(lsi_request_counts(&requests, &sent, 100));
    assert_false(lsi_request_counts(&requests, &sent, 100.9));
    /* Counted from the first, or who repeats quickly would never be heard. */
    assert_true(lsi_request_counts(&requests, &sent, 101.1));
    assert_int_equal(requests.n, 2);
}

static void each_key_counts(void **state)
{
    (void)state;
    lsi_requests requests = {0};
    assert_true(lsi_request_counts(&requests, &key, 5));
    assert_true(lsi_request_counts(&requests, &key, 5.1));
    assert_true(lsi_request_counts(&requests, &key, 5.1));
}

/* A key that somebody else passes on, too: `timeout --foreground`. */
static void a_key_and_its_echo_are_one(void **state)
{
    (void)state;
    lsi_requests requests = {0};
    assert_true(lsi_request_counts(&requests, &sent, 5));
    assert_false(lsi_request_counts(&requests, &key, 5));
    assert_true(lsi_request_counts(&requests, &key, 5.2)); /* the second key */
    assert_false(lsi_request_counts(&requests, &sent, 5.2));
    assert_true(lsi_request_counts(&requests, &key, 5.4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeats_within_a_second_are_one),
        cmocka_unit_test(each_key_counts),
        cmocka_unit_test(a_key_and_its_echo_are_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
