/*
 * Lists of numbers and sizes in flags.
 */
#include "cli/frame/list.h"
#include "testing.h"

static void numbers(void **state)
{
    (void)state;
    lsi_list list;
    assert_ok(lsi_list_of_numbers("--ranks", "2,4,16", 1, 16, &list));
    assert_int_equal(list.n, 3);
    assert_int_equal(list.values[0], 2);
    assert_int_equal(list.values[1], 4);
    assert_int_equal(list.values[2], 16);
    assert_ok(lsi_list_of_numbers("--ranks", "7", 1, 16, &list));
    assert_int_equal(list.n, 1);
}

static void sizes(void **state)
{
    (void)state;
    lsi_list list;
    assert_ok(lsi_list_of_sizes("--sizes", "8,4k,10M", 0, 1 << 30, &list));
    assert_int_equal(list.n, 3);
    assert_int_equal(list.values[1], 4096);
    assert_int_equal(list.values[2], 10 << 20);
}

static void mistakes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "--n: '' is not a whole number"},
        {"2,", "--n: '' is not a whole number"},
        {",2", "--n: '' is not a whole number"},
        {"2,x", "--n: 'x' is not a whole number"},
        {"2;4", "--n: '2;4' is not a whole number"},
        {"0", "--n: 0 is out of range: 1 to 8"},
        {"1,9", "--n: 9 is out of range: 1 to 8"},
        {"-1", "--n: -1 is out of range"},
        {"99999999999999999999", "is not a whole number"},
        {"111111111111111111111111111111111111111", "is not a list"},
    };
    lsi_list list = {.n = 77};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        assert_error(lsi_list_of_numbers("--n", cases[i].text, 1, 8, &list),
                     LS_ERR_ARGUMENT, cases[i].message);
        assert_int_equal(list.n, 77);
    }
    assert_error(lsi_list_of_sizes("--sizes", "4k,4q", 0, 1 << 20, &list),
                 LS_ERR_ARGUMENT, "--sizes: '4q' is not a size");
}

static void too_many(void **state)
{
    (void)state;
    char text[2 * LSI_LIST_MAX + 2];
    lsi_list list;
    for (size_t i = 0; i < LSI_LIST_MAX; i++)
        memcpy(text + 2 * i, "1,", 2);
    text[2 * LSI_LIST_MAX - 1] = '\0';
    assert_ok(lsi_list_of_numbers("--n", text, 1, 8, &list));
    assert_int_equal(list.n, LSI_LIST_MAX);
    memcpy(text + 2 * LSI_LIST_MAX - 1, ",1", 3);
    assert_error(lsi_list_of_numbers("--n", text, 1, 8, &list), LS_ERR_ARGUMENT,
                 "more than 256");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(sizes),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
