/* The selection table of a machine: its file, and what groups make of it. */
#include "testing.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "comm/api/machine_table.h"
#include "comm/api/select_file.h"
#include "comm/node/transport.h"
#include "comm/state/algorithm.h"
#include "comm/state/state.h"
#include "lockstep/version.h"
#include "ranks.h"

#define TWO  "all_reduce:0-1k:staged,broadcast:0-inf:tree"
#define FIVE "all_reduce:0-2k:flat"
#define MANY "all_reduce:0-4k:flat;4k-inf:copy|staged"

static char folder[] = "/tmp/lockstep-table-XXXXXX";
static lsi_machine_key key;
static lsi_cpuset own;

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL || !lsi_cpuset_own(&own))
        return -1;
    setenv("XDG_CACHE_HOME", folder, 1);
    setenv("LOCKSTEP_TUNE", "", 1); /* the tests' environment has "off" */
    return lsi_machine_key_of(&own, &key) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char path[sizeof(folder) + 16];
    (void)state;
    unlink(key.path);
    snprintf(path, sizeof(path), "%s/lockstep", folder);
    return rmdir(path) | rmdir(folder);
}

static void write_text(const char *text, mode_t mode)
{
    char path[sizeof(folder) + 16];
    snprintf(path, sizeof(path), "%s/lockstep", folder);
    (void)mkdir(path, 0700);
    unlink(key.path);
    FILE *const file = fopen(key.path, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
    CHECK(chmod(key.path, mode) == 0);
}

/* As `lockstep tune` does it. */
static void write_lines(const char *lines)
{
    char text[LSI_MACHINE_TABLE_BYTES], copy[1024];
    snprintf(copy, sizeof(copy), "%s", lines);
    const lsi_machine_table table = {copy, 0.5, 2};
    assert_ok(lsi_machine_table_text(&key, &table, text, sizeof(text)));
    write_text(text, 0600);
}

static void is_read_as_written(void **state)
{
    static const char lines[] = "2 ranks: " TWO "\ncrowded: " MANY "\n";
    lsi_machine_table table;
    (void)state;
    write_lines(lines);
    assert_ok(lsi_machine_table_read(&key, &table));
    assert_string_equal(table.lines, lines);
    assert_true(table.others == 0.5 && table.available == 2);
    lsi_free(table.lines);
}

static void key_depends_on_the_cpus(void **state)
{
    lsi_machine_key other, again;
    lsi_cpuset cpus = own;
    (void)state;
    assert_true(lsi_machine_key_of(&own, &again));
    assert_string_equal(key.path, again.path);
    assert_string_equal(key.machine, again.machine);
    lsi_cpuset_add(&cpus, 4095);
    assert_true(lsi_machine_key_of(&cpus, &other));
    assert_string_not_equal(key.path, other.path);
    assert_string_not_equal(key.machine, other.machine);
}

static void one_line_serves_each_number(void **state)
{
    static const char lines[] =
        "2 ranks: two\n3 ranks: three\n12 ranks: twelve\ncrowded: many\n";
    static const struct {
        int ranks;
        bool crowded;
        const char *line;
    } cases[] = {
        {1, false, ""},      {2, false, "two"},     {3, false, "three"},
        {4, false, "three"}, {6, false, "three"},   {7, false, ""},
        {11, false, ""},     {12, false, "twelve"}, {24, false, "twelve"},
        {25, false, ""},     {2, true, "many"},     {12, true, "many"}};
    char line[64];
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        lsi_machine_table_line(lines, cases[i].ranks, cases[i].crowded, line,
                               sizeof(line));
        assert_string_equal(line, cases[i].line);
    }
    lsi_machine_table_line("2 ranks: two\n", 2, true, line, sizeof(line));
    assert_string_equal(line, "");
}

static void check_bad(const char *lines, const char *why)
{
    char text[4096];
    lsi_machine_table table;
    snprintf(text, sizeof(text),
             "lockstep: %s\nmachine: %s\nothers: 0%% of 2 CPUs\n%s",
             ls_version_string(), key.machine, lines);
    write_text(text, 0600);
    assert_error(lsi_machine_table_read(&key, &table), LS_ERR_FORMAT, why);
}

static void what_is_wrong_is_named(void **state)
{
    char text[1024];
    lsi_machine_table table;
    (void)state;
    check_bad("", "no line for any ranks");
    check_bad("2 ranks: \n", ":4: found '2 ranks: ', but expected");
    check_bad("1 ranks: " TWO "\n", "but expected 'N ranks: LINE'");
    check_bad("two ranks: " TWO "\n", "but expected 'N ranks: LINE'");
    check_bad("2 ranks: " TWO "\n3 ranks: all_reduce:0-1k:flut\n",
              ":5: all_reduce has no algorithm 'flut'");
    check_bad("2 ranks: all_reduce:0-inf:ring\n",
              "changes the order of additions");
    check_bad("2 ranks: all_reduce:4k-inf:ring|staged\n",
              "changes the order of additions");
    write_text("lockstep: 0.0.9\n", 0600);
    assert_error(lsi_machine_table_read(&key, &table), LS_ERR_FORMAT,
                 ":1: found 'lockstep: 0.0.9', but expected 'lockstep: ");
    snprintf(text, sizeof(text), "lockstep: %s\nmachine: abacus\n",
             ls_version_string());
    write_text(text, 0600);
    assert_error(lsi_machine_table_read(&key, &table), LS_ERR_FORMAT,
                 ":2: found 'machine: abacus'");
    snprintf(text, sizeof(text), "lockstep: %s\nmachine: %s\nothers: no\n",
             ls_version_string(), key.machine);
    write_text(text, 0600);
    assert_error(lsi_machine_table_read(&key, &table), LS_ERR_FORMAT,
                 "expected 'others: N% of N CPUs'");
    unlink(key.path);
    assert_error(lsi_machine_table_read(&key, &table), LS_ERR_IO, key.path);
}

static void others_must_not_be_able_to_write(void **state)
{
    static const mode_t refused[] = {0620, 0602, 0666, 0664};
    static const mode_t accepted[] = {0600, 0644, 0400};
    lsi_machine_table table;
    (void)state;
    write_lines("2 ranks: " TWO "\n");
    for (size_t i = 0; i < TEST_COUNT(refused); i++) {
        assert_int_equal(chmod(key.path, refused[i]), 0);
        assert_error(lsi_machine_table_read(&key, &table), LS_ERR_FORMAT,
                     "other users may write it");
    }
    for (size_t i = 0; i < TEST_COUNT(accepted); i++) {
        assert_int_equal(chmod(key.path, accepted[i]), 0);
        assert_ok(lsi_machine_table_read(&key, &table));
        lsi_free(table.lines);
    }
    if (geteuid() != 0 || chown(key.path, 12345, (gid_t)-1) != 0)
        return; /* only root can give a file away */
    assert_error(lsi_machine_table_read(&key, &table), LS_ERR_FORMAT,
                 "it belongs to user 12345");
}

/* ---- in groups ----------------------------------------------------------- */

/* The algorithm that comes first for a size. */
static const char *first(const ls_group *group, lsi_operation operation,
                         size_t bytes)
{
    return lsi_select_find(group->select, operation, bytes)[0]->name;
}

static void sum(ls_group *group)
{
    double data[300];
    for (int i = 0; i < 300; i++)
        data[i] = ls_group_rank(group) + i;
    CHECK_OK(ls_all_reduce(group, data, data, 300, LS_F64, LS_REDUCE_SUM));
    const int n = ls_group_size(group);
    for (int i = 0; i < 300; i++)
        CHECK(data[i] == n * i + n * (n - 1) / 2);
}

static void follow_it(ls_group *group, void *unused)
{
    const bool crowded = group->memory.few_cpus;
    ls_group *half = NULL;
    (void)unused;
    CHECK(strcmp(first(group, LSI_OP_ALL_REDUCE, 100),
                 crowded || group->size > 4 ? "flat" : "staged") == 0);
    CHECK(strcmp(first(group, LSI_OP_ALL_REDUCE, 5000),
                 crowded ? "copy" : "direct") == 0);
    sum(group);
    CHECK_OK(ls_group_split(group, group->rank % 2, 0, &half));
    if (half->size > 1 && !half->memory.few_cpus)
        CHECK(strcmp(first(half, LSI_OP_BROADCAST, 1), "tree") == 0);
    sum(half);
    ls_group_close(&half);
    CHECK_OK(ls_group_select(group, ""));
    CHECK(strcmp(first(group, LSI_OP_ALL_REDUCE, 100), "flat") == 0);
    sum(group);
}

static void groups_follow_it(void **state)
{
    (void)state;
    write_lines("2 ranks: " TWO "\n5 ranks: " FIVE "\ncrowded: " MANY "\n");
    for (int n = 2; n <= 5; n++)
        run_processes(n, follow_it, NULL);
}

static void ignore_it(ls_group *group, void *unused)
{
    (void)unused;
    CHECK(strcmp(first(group, LSI_OP_ALL_REDUCE, 100), "flat") == 0);
    CHECK(strcmp(first(group, LSI_OP_BROADCAST, 1), "flat") == 0);
    CHECK(group->memory.node->lines == NULL);
    sum(group);
}

static void ignored_ones_change_nothing(void **state)
{
    (void)state;
    write_lines("2 ranks: " TWO "\ncrowded: " TWO "\n");
    setenv("LOCKSTEP_TUNE", "off", 1);
    run_processes(2, ignore_it, NULL);
    setenv("LOCKSTEP_TUNE", "on", 1);
    chmod(key.path, 0666);
    run_processes(2, ignore_it, NULL);
    write_text("damaged\n", 0600);
    run_processes(3, ignore_it, NULL);
}

static void follow_the_line(ls_group *group, void *unused)
{
    (void)unused;
    CHECK(strcmp(first(group, LSI_OP_ALL_REDUCE, 100), "doubling") == 0);
    CHECK(strcmp(first(group, LSI_OP_BROADCAST, 1), "flat") == 0);
    sum(group);
}

static void a_line_of_the_user_replaces_it(void **state)
{
    (void)state;
    write_lines("2 ranks: " TWO "\ncrowded: " TWO "\n");
    setenv("LOCKSTEP_SELECT", "all_reduce:0-1k:doubling", 1);
    run_processes(2, follow_the_line, NULL);
    unsetenv("LOCKSTEP_SELECT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_read_as_written),
        cmocka_unit_test(key_depends_on_the_cpus),
        cmocka_unit_test(one_line_serves_each_number),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(others_must_not_be_able_to_write),
        cmocka_unit_test(groups_follow_it),
        cmocka_unit_test(ignored_ones_change_nothing),
        cmocka_unit_test(a_line_of_the_user_replaces_it),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
