/*
 * Structs of programs that are older or newer than the library: three versions
 * of one struct, read by a library that has the second.
 */
#include "base/structs.h"
#include "testing.h"

#include <stdlib.h>
#include <string.h>

typedef struct first {
    size_t struct_size;
    int a;
    char b; /* and 3 bytes that nobody may use */
} first;

typedef struct second {
    size_t struct_size;
    int a;
    char b;
    double c;
} second;

typedef struct third {
    size_t struct_size;
    int a;
    char b;
    double c;
    void *d;
} third;

static const lsi_struct_layout layout = {
    "ls_thing", offsetof(first, b) + sizeof(char), sizeof(second)};

static second read_ok(const void *from)
{
    second out;
    memset(&out, 0x5a, sizeof(out));
    assert_ok(lsi_struct_read(&out, from, &layout));
    assert_int_equal(out.struct_size, sizeof(second));
    return out;
}

/* A copy that ends where the memory ends, so that asan sees what is read. */
static void *alone(const void *from, size_t bytes)
{
    void *const copy = malloc(bytes);
    assert_non_null(copy);
    memcpy(copy, from, bytes);
    return copy;
}

static void test_an_older_program(void **state)
{
    (void)state;
    const size_t ends[] = {layout.first, sizeof(first)};
    for (size_t i = 0; i < TEST_COUNT(ends); i++) {
        const first given = {ends[i], 7, 'x'};
        void *const copy = alone(&given, ends[i]);
        const second out = read_ok(copy);
        assert_int_equal(out.a, 7);
        assert_int_equal(out.b, 'x');
        assert_true(out.c == 0);
        free(copy);
    }
}

static void test_zero_is_the_first_version(void **state)
{
    (void)state;
    const second given = {0, 7, 'x', 2.5};
    const second out = read_ok(&given);
    assert_int_equal(out.a, 7);
    assert_int_equal(out.b, 'x');
    assert_true(out.c == 0); /* the program cannot know of it */
}

static void test_the_same_version(void **state)
{
    (void)state;
    const second given = {sizeof(second), 7, 'x', 2.5};
    assert_true(read_ok(&given).c == 2.5);
}

static void test_a_newer_program(void **state)
{
    (void)state;
    third given = {sizeof(third), 7, 'x', 2.5, NULL};
    assert_true(read_ok(&given).c == 2.5);
    second out;
    given.d = &given;
    assert_error(lsi_struct_read(&out, &given, &layout), LS_ERR_ARGUMENT,
                 "the size of the program's ls_thing is 32 bytes, but this");
}

static void test_sizes_of_no_version(void **state)
{
    (void)state;
    const size_t sizes[] = {1, 8, layout.first - 1, (size_t)-1, 1 << 20};
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        const third given = {sizes[i], 0, 0, 0, NULL};
        second out = {0, 1, 2, 3};
        assert_error(lsi_struct_read(&out, &given, &layout), LS_ERR_ARGUMENT,
                     "Set struct_size to sizeof(ls_thing)");
        assert_int_equal(out.a, 1);
    }
}

/* ---- what the library fills ---------------------------------------------- */

static const second filled = {sizeof(second), 7, 'x', 2.5};

static void test_filling_an_older_one(void **state)
{
    (void)state;
    const size_t ends[] = {layout.first, sizeof(first)};
    for (size_t i = 0; i < TEST_COUNT(ends); i++) {
        const first before = {ends[i], 1, 'a'};
        first *const copy = alone(&before, ends[i]);
        assert_ok(lsi_struct_write(copy, &filled, &layout));
        assert_int_equal(copy->struct_size, ends[i]);
        assert_int_equal(copy->a, 7);
        assert_int_equal(copy->b, 'x');
        free(copy);
    }
}

static void test_filling_one_of_no_size(void **state)
{
    (void)state;
    second out = {0, 1, 'a', 1.5};
    assert_ok(lsi_struct_write(&out, &filled, &layout));
    assert_int_equal(out.struct_size, 0);
    assert_int_equal(out.a, 7);
    assert_true(out.c == 1.5); /* the program may have no such member */
}

static void test_filling_a_newer_one(void **state)
{
    (void)state;
    third out = {sizeof(third), 1, 'a', 1.5, &out};
    assert_ok(lsi_struct_write(&out, &filled, &layout));
    assert_int_equal(out.struct_size, sizeof(third));
    assert_true(out.c == 2.5);
    assert_null(out.d);
}

static void test_filling_one_of_a_wrong_size(void **state)
{
    (void)state;
    second out = {1 << 20, 1, 'a', 1.5};
    assert_error(lsi_struct_write(&out, &filled, &layout), LS_ERR_ARGUMENT,
                 "Set struct_size to sizeof(ls_thing)");
    assert_int_equal(out.a, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_older_program),
        cmocka_unit_test(test_zero_is_the_first_version),
        cmocka_unit_test(test_the_same_version),
        cmocka_unit_test(test_a_newer_program),
        cmocka_unit_test(test_sizes_of_no_version),
        cmocka_unit_test(test_filling_an_older_one),
        cmocka_unit_test(test_filling_one_of_no_size),
        cmocka_unit_test(test_filling_a_newer_one),
        cmocka_unit_test(test_filling_one_of_a_wrong_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
