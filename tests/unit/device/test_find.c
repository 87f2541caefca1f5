/* Devices by their names, and what is said of names that are none. */
#include "testing.h"

#include <stdlib.h>

#include "array/device/find.h"

/* The modules and how many devices they have. */
static void given(const char *folder, const char *devices)
{
    setenv("LOCKSTEP_MODULES", folder, 1);
    setenv("TEST_DEVICES", devices, 1);
}

static void test_names(void **state)
{
    static const struct {
        const char *name;
        int index;
    } names[] = {{"cuda", 0}, {"cuda:0", 0}, {"cuda:3", 3}, {"cuda:11", 11}};
    (void)state;
    given(FEW_DEVICES, "12");
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        const lsi_device_table *table = NULL;
        int index = -1;
        assert_ok(lsi_device_find(names[i].name, &table, &index));
        assert_string_equal(table->kind, "cuda");
        assert_int_equal(index, names[i].index);
    }
}

static void test_no_names(void **state)
{
    static const char *const none[][2] = {
        {"", "device \"\": there is no such kind of device; names are cuda"},
        {"tpu", "device \"tpu\": there is no such kind"},
        {"tpu:0", "device \"tpu:0\": there is no such kind"},
        {"CUDA:0", "there is no such kind"},
        {"cuda0", "there is no such kind"},
        {" cuda", "there is no such kind"},
        {"cud", "there is no such kind"},
        {"cuda:", "no number follows the colon; it should be as in cuda:0"},
        {"cuda:-1", "\"-1\" is no number of a device"},
        {"cuda:+1", "\"+1\" is no number of a device"},
        {"cuda:x", "\"x\" is no number of a device; these are 0, 1, 2"},
        {"cuda:1x", "\"1x\" is no number of a device"},
        {"cuda: 1", "\" 1\" is no number of a device"},
        {"cuda:1:2", "\"1:2\" is no number of a device"},
        {"cuda:01", "\"01\" is no number of a device"},
        {"cuda:99999999999", "no machine has so many devices"},
    };
    const lsi_device_table *table = NULL;
    int index = -1;
    (void)state;
    given(FEW_DEVICES, "2");
    for (size_t i = 0; i < TEST_COUNT(none); i++)
        assert_error(lsi_device_find(none[i][0], &table, &index),
                     LS_ERR_ARGUMENT, none[i][1]);
    assert_null(table);
    assert_int_equal(index, -1);
}

static void test_beyond(void **state)
{
    const lsi_device_table *table = NULL;
    int index = -1;
    (void)state;
    given(FEW_DEVICES, "2");
    assert_error(
        lsi_device_find("cuda:2", &table, &index), LS_ERR_UNSUPPORTED,
        "there is no cuda:2 here (devices there: 2, the last is cuda:1)");
    given(FEW_DEVICES, "1");
    assert_error(
        lsi_device_find("cuda:1", &table, &index), LS_ERR_UNSUPPORTED,
        "there is no cuda:1 here (devices there: 1, the last is cuda:0)");
    given(FEW_DEVICES, "0");
    assert_error(lsi_device_find("cuda", &table, &index), LS_ERR_UNSUPPORTED,
                 "cuda:0 cannot be used: the driver finds no device");
    given(FEW_DEVICES, "-1");
    assert_error(lsi_device_find("cuda:4", &table, &index), LS_ERR_UNSUPPORTED,
                 "cuda:4 cannot be used: it is not there today");
    assert_null(table);
}

static void test_modules(void **state)
{
    const lsi_device_table *table = NULL;
    int index = -1;
    (void)state;
    given("/nonexistent", "2");
    assert_error(lsi_device_find("cuda", &table, &index), LS_ERR_UNSUPPORTED,
                 "cuda:0 cannot be used: there is no liblockstep-cuda.so in "
                 "lockstep-");
    given(OLD_DEVICES, "2");
    assert_error(lsi_device_find("cuda", &table, &index), LS_ERR_UNSUPPORTED,
                 "liblockstep-cuda.so belongs to another version");
    assert_null(table);
}

static void test_list(void **state)
{
    lsi_device_entry entries[3];
    int n = -1;
    (void)state;
    given(FEW_DEVICES, "0");
    assert_error(lsi_device_list(entries, 3, &n), LS_ERR_UNSUPPORTED,
                 "the driver finds no device");
    assert_int_equal(n, -1);
    given(FEW_DEVICES, "3");
    assert_ok(lsi_device_list(entries, 3, &n));
    assert_int_equal(n, 3);
    assert_string_equal(entries[0].name, "cuda:0");
    assert_string_equal(entries[0].facts.name, "Model 0");
    assert_string_equal(entries[0].facts.detail, "of paper");
    assert_true(entries[0].facts.memory == 3UL << 30);
    assert_string_equal(entries[1].name, "cuda:1");
    assert_string_equal(entries[1].facts.name, "");
    assert_string_equal(entries[1].facts.detail, "it is not there today");
    assert_true(entries[1].facts.memory == 0);
    assert_string_equal(entries[2].name, "cuda:2");
    given(FEW_DEVICES, "9");
    assert_ok(lsi_device_list(entries, 3, &n));
    assert_int_equal(n, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),  cmocka_unit_test(test_no_names),
        cmocka_unit_test(test_beyond), cmocka_unit_test(test_modules),
        cmocka_unit_test(test_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
