/*
 * Sets of CPUs as text, and NUMA nodes as the kernel lists them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cpus.h"
#include "base/cpuset.h"
#include "base/numa.h"
#include "testing.h"

static lsi_cpuset set_of(const char *text)
{
    lsi_cpuset set;
    assert_true(lsi_cpuset_parse(text, &set));
    return set;
}

static void text_and_back(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
        int count;
    } cases[] = {
        {"", "none", 0},
        {"\n", "none", 0},
        {"0", "0", 1},
        {"0-3,8\n", "0-3,8", 5},
        {"8,0-3", "0-3,8", 5},
        {"5-5", "5", 1},
        {"62-65", "62-65", 4},
        {"8191", "8191", 1},
        {"0-8191", "0-8191", 8192},
        {"1,2,3", "1-3", 3},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char text[64];
        const lsi_cpuset set = set_of(cases[i].text);
        lsi_cpuset_text(&set, text, sizeof(text));
        assert_string_equal(text, cases[i].want);
        assert_int_equal(lsi_cpuset_count(&set), cases[i].count);
    }
}

static void what_is_no_list(void **state)
{
    (void)state;
    static const char *const bad[] = {"-1",
                                      "x",
                                      "1-",
                                      "3-1",
                                      ",",
                                      "1,",
                                      "1,,2",
                                      "8192",
                                      "0-8192",
                                      " 1",
                                      "1 2",
                                      "1-2-3",
                                      "99999999999999999999"};
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        lsi_cpuset set = {{7}};
        assert_false(lsi_cpuset_parse(bad[i], &set));
        assert_int_equal(set.words[0], 7);
    }
}

/* Whatever the room, it ends, and says so where something is left out. */
static void long_texts_are_cut(void **state)
{
    (void)state;
    const lsi_cpuset set = set_of("0,2,4,6,8,10-12");
    static const char whole[] = "0,2,4,6,8,10-12";
    for (size_t room = 4; room < 20; room++) {
        char text[32];
        memset(text, '#', sizeof(text));
        lsi_cpuset_text(&set, text, room);
        assert_true(strlen(text) < room);
        if (room >= sizeof(whole))
            assert_string_equal(text, whole);
        else
            assert_string_equal(text + strlen(text) - 3, "...");
        assert_true(text[room] == '#');
    }
}

static void inside(void **state)
{
    (void)state;
    const lsi_cpuset none = set_of(""), few = set_of("1,70"),
                     more = set_of("0-3,64-80");
    assert_true(lsi_cpuset_within(&none, &few));
    assert_true(lsi_cpuset_within(&few, &more));
    assert_true(lsi_cpuset_within(&few, &few));
    assert_false(lsi_cpuset_within(&more, &few));
    assert_false(lsi_cpuset_has(&few, -1));
    assert_false(lsi_cpuset_has(&few, LSI_CPUSET_MAX));
}

static void own_is_what_threads_count(void **state)
{
    (void)state;
    lsi_cpuset own;
    assert_true(lsi_cpuset_own(&own));
    assert_int_equal(lsi_cpuset_count(&own), lsi_affinity_count());
    assert_true(lsi_cpuset_bind(&own));
    const lsi_cpuset none = set_of("");
    assert_false(lsi_cpuset_bind(&none));
}

/* ---- NUMA nodes ------------------------------------------------------- */

static void put(const char *folder, const char *name, const char *text)
{
    char path[300];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* Three nodes: two with CPUs and memory, one of memory alone. */
static void where_a_set_is_at_home(void **state)
{
    (void)state;
    char folder[] = "/tmp/lockstep_numa_XXXXXX";
    static const char *const files[] = {"has_memory", "online", "node0/cpulist",
                                        "node1/cpulist", "node2/cpulist"};
    static const char *const texts[] = {"0-2\n", "0-2\n", "0-3,8-11\n",
                                        "4-7,12-15\n", "\n"};
    char path[300];
    assert_non_null(mkdtemp(folder));
    for (int node = 0; node < 3; node++) {
        snprintf(path, sizeof(path), "%s/node%d", folder, node);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    for (int i = 0; i < 5; i++)
        put(folder, files[i], texts[i]);
    static const struct {
        const char *cpus;
        int want;
    } cases[] = {{"0-3", 0},  {"2,9", 0},   {"12", 1},  {"4-7,12-15", 1},
                 {"3-4", -1}, {"0-15", -1}, {"16", -1}, {"", -1}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const lsi_cpuset set = set_of(cases[i].cpus);
        assert_int_equal(lsi_numa_home(folder, &set), cases[i].want);
    }
    const lsi_cpuset one = set_of("1");
    put(folder, "has_memory", "0\n"); /* one node: nothing to choose */
    assert_int_equal(lsi_numa_home(folder, &one), -1);
    put(folder, "has_memory", "1-2\n"); /* its own node has none */
    assert_int_equal(lsi_numa_home(folder, &one), -1);
    put(folder, "has_memory", "nonsense");
    assert_int_equal(lsi_numa_home(folder, &one), -1);
    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
        unlink(path);
    }
    for (int node = 0; node < 3; node++) {
        snprintf(path, sizeof(path), "%s/node%d", folder, node);
        rmdir(path);
    }
    assert_int_equal(lsi_numa_home(folder, &one), -1);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_and_back),
        cmocka_unit_test(what_is_no_list),
        cmocka_unit_test(long_texts_are_cut),
        cmocka_unit_test(inside),
        cmocka_unit_test(own_is_what_threads_count),
        cmocka_unit_test(where_a_set_is_at_home),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
