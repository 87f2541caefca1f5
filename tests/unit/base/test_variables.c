/*
 * Variables that come and go while other threads read the environment.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/variables.h"
#include "testing.h"

enum { MANY = 200 };

static void what_is_set_stays(void **state)
{
    lsi_variable all[] = {{"LS_TEST_NEW", "1=2", false},
                          {"LS_TEST_SET", "ours", false},
                          {"LS_TEST_EMPTY", "", false}};
    (void)state;
    setenv("LS_TEST_SET", "theirs", 1);
    setenv("LS_TEST_NEWER", "longer", 1);
    lsi_variables_add(all, TEST_COUNT(all));
    assert_string_equal(getenv("LS_TEST_NEW"), "1=2");
    assert_string_equal(getenv("LS_TEST_SET"), "theirs");
    assert_string_equal(getenv("LS_TEST_EMPTY"), "");
    assert_true(all[0].added && !all[1].added && all[2].added);
    /* Variables set meanwhile stay set, and the C library can go on. */
    setenv("LS_TEST_LATER", "x", 1);
    unsetenv("LS_TEST_NEWER");
    lsi_variables_remove(all, TEST_COUNT(all));
    assert_null(getenv("LS_TEST_NEW"));
    assert_null(getenv("LS_TEST_EMPTY"));
    assert_null(getenv("LS_TEST_NEWER"));
    assert_string_equal(getenv("LS_TEST_SET"), "theirs");
    assert_string_equal(getenv("LS_TEST_LATER"), "x");
    unsetenv("LS_TEST_SET");
    unsetenv("LS_TEST_LATER");
}

static void nothing_to_add_changes_nothing(void **state)
{
    char **const before = environ;
    lsi_variable path = {"PATH", "nowhere", false};
    (void)state;
    lsi_variables_add(&path, 1);
    lsi_variables_remove(&path, 1);
    lsi_variables_add(NULL, 0);
    lsi_variables_remove(NULL, 0);
    assert_ptr_equal(environ, before);
}

static void an_empty_environment_is_one(void **state)
{
    char **const before = environ;
    char *none[] = {NULL};
    char **const empty[] = {none, NULL};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(empty); i++) {
        lsi_variable v = {"LS_TEST_NEW", "1", false};
        environ = empty[i];
        lsi_variables_add(&v, 1);
        const char *const text = getenv("LS_TEST_NEW");
        const bool right = text != NULL && strcmp(text, "1") == 0;
        lsi_variables_remove(&v, 1);
        const bool gone = environ != NULL && environ[0] == NULL;
        environ = before;
        assert_true(right && gone);
    }
}

/* ---- other threads ------------------------------------------------------- */

static atomic_bool over;

/* An array that was current once is the same for as long as it is read. */
static void *read_all(void *last)
{
    unsigned long reads = 0;
    while (!atomic_load(&over)) {
        char **const now = __atomic_load_n(&environ, __ATOMIC_ACQUIRE);
        size_t first = 0, second = 0;
        for (char **at = now; *at != NULL; at++)
            first += strlen(*at);
        for (char **at = now; *at != NULL; at++)
            second += strlen(*at);
        if (first != second || getenv("LS_TEST_HERE") == NULL ||
            getenv("LS_TEST_NEVER") != NULL)
            abort();
        reads++;
    }
    *(unsigned long *)last = reads;
    return NULL;
}

static void *change(void *name)
{
    for (int i = 0; i < MANY; i++) {
        lsi_variable v = {name, "a value that is somewhat longer", false};
        lsi_variables_add(&v, 1);
        if (!v.added || getenv(name) == NULL)
            abort();
        lsi_variables_remove(&v, 1);
        if (getenv(name) != NULL)
            abort();
    }
    return NULL;
}

static void readers_see_one_or_the_other(void **state)
{
    static char names[][12] = {"LS_TEST_A", "LS_TEST_B"};
    unsigned long reads[2];
    pthread_t readers[2], writers[2];
    (void)state;
    setenv("LS_TEST_HERE", "1", 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_all, &reads[i]),
                         0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&writers[i], NULL, change, names[i]),
                         0);
    for (int i = 0; i < 2; i++)
        pthread_join(writers[i], NULL);
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++)
        pthread_join(readers[i], NULL);
    assert_string_equal(getenv("LS_TEST_HERE"), "1");
    unsetenv("LS_TEST_HERE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_set_stays),
        cmocka_unit_test(nothing_to_add_changes_nothing),
        cmocka_unit_test(an_empty_environment_is_one),
        cmocka_unit_test(readers_see_one_or_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
