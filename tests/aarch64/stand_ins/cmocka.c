/*
 * The part of cmocka that the tests use, with cmocka's header, for machines
 * that lack a cmocka for this processor.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#undef malloc
#undef free

enum { FAILED = 1, SKIPPED = 2 };

static jmp_buf in_test;

void print_message(const char *const format, ...)
{
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
}

void print_error(const char *const format, ...)
{
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
}

void _fail(const char *const file, const int line)
{
    printf("%s:%d: failed\n", file, line);
    longjmp(in_test, FAILED);
}

void _skip(const char *const file, const int line)
{
    (void)file, (void)line;
    longjmp(in_test, SKIPPED);
}

static void check(int good, const char *file, int line)
{
    if (!good)
        _fail(file, line);
}

void _assert_true(const LargestIntegralType result,
                  const char *const expression, const char *const file,
                  const int line)
{
    if (!result)
        printf("%s\n", expression);
    check(result != 0, file, line);
}

void _assert_int_equal(const LargestIntegralType a, const LargestIntegralType b,
                       const char *const file, const int line)
{
    if (a != b)
        printf("%#llx is not %#llx\n", (unsigned long long)a,
               (unsigned long long)b);
    check(a == b, file, line);
}

void _assert_int_not_equal(const LargestIntegralType a,
                           const LargestIntegralType b, const char *const file,
                           const int line)
{
    check(a != b, file, line);
}

void _assert_in_range(const LargestIntegralType value,
                      const LargestIntegralType minimum,
                      const LargestIntegralType maximum, const char *const file,
                      const int line)
{
    check(value >= minimum && value <= maximum, file, line);
}

void _assert_string_equal(const char *const a, const char *const b,
                          const char *const file, const int line)
{
    if (strcmp(a, b) != 0)
        printf("\"%s\" is not \"%s\"\n", a, b);
    check(strcmp(a, b) == 0, file, line);
}

void _assert_memory_equal(const void *const a, const void *const b,
                          const size_t size, const char *const file,
                          const int line)
{
    check(memcmp(a, b, size) == 0, file, line);
}

void _assert_memory_not_equal(const void *const a, const void *const b,
                              const size_t size, const char *const file,
                              const int line)
{
    check(memcmp(a, b, size) != 0, file, line);
}

void *_test_malloc(const size_t size, const char *file, const int line)
{
    (void)file, (void)line;
    return malloc(size);
}

void _test_free(void *const ptr, const char *file, const int line)
{
    (void)file, (void)line;
    free(ptr);
}

/* 0, FAILED or SKIPPED. */
static int run(const struct CMUnitTest *test)
{
    void *state = test->initial_state;
    const int result = setjmp(in_test);
    if (result != 0)
        return result;
    if (test->setup_func != NULL && test->setup_func(&state) != 0)
        return FAILED;
    test->test_func(&state);
    if (test->teardown_func != NULL && test->teardown_func(&state) != 0)
        return FAILED;
    return 0;
}

int _cmocka_run_group_tests(const char *group_name,
                            const struct CMUnitTest *const tests,
                            const size_t num_tests,
                            CMFixtureFunction group_setup,
                            CMFixtureFunction group_teardown)
{
    static const char *const words[] = {"passed", "FAILED", "skipped"};
    void *state = NULL;
    int failed = 0;
    if (group_setup != NULL && group_setup(&state) != 0)
        return 1;
    for (size_t i = 0; i < num_tests; i++) {
        const int result = run(&tests[i]);
        printf("%s: %s %s\n", group_name, tests[i].name, words[result]);
        failed += result == FAILED;
    }
    if (group_teardown != NULL && group_teardown(&state) != 0)
        return 1;
    return failed;
}
