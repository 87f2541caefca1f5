/*
 * The frame of benches, as rank 0 of a job of one that a launcher started.
 */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "bench/bench.h"
#include "testing.h"

const lsi_command lsi_command_root = {.name = ""};

static const lsi_column columns[] = {
    {.name = "x", .type = LSI_COLUMN_INT},
};

static ls_status check(const void *args)
{
    if (strcmp(args, "bad flags") == 0)
        return lsi_fail(LS_ERR_ARGUMENT, "these flags are bad");
    return LS_OK;
}

static ls_status measure(const void *args, ls_group *group, lsi_table *table,
                         bool *wrong)
{
    const char *what = args;
    if (ls_group_size(group) != 1)
        return lsi_fail(LS_ERR_STATE, "the group is not of one");
    if (strcmp(what, "fail") == 0)
        return lsi_fail(LS_ERR_STATE, "measuring failed");
    *wrong = strcmp(what, "wrong") == 0;
    lsi_table_row(table);
    lsi_table_int(table, "x", 42);
    return LS_OK;
}

static const lsi_bench bench = {columns, 1, "2", measure, check};

static char path[] = "/tmp/lockstep-bench-XXXXXX";

/* Runs it with standard output and standard error hidden. */
static int run(const char *what, lsi_bench_flags flags)
{
    static char name[] = "bench x";
    static char *argv[] = {name, NULL};
    const lsi_invocation call = {
        .argc = 1, .argv = argv, .line_argc = 1, .line_argv = argv};
    int saved[2];
    fflush(stdout);
    const int null = open("/dev/null", O_WRONLY);
    for (int fd = 1; fd <= 2; fd++) {
        saved[fd - 1] = dup(fd);
        dup2(null, fd);
    }
    const int status = lsi_bench_run(&call, &flags, &bench, what);
    fflush(stdout);
    for (int fd = 1; fd <= 2; fd++) {
        dup2(saved[fd - 1], fd);
        close(saved[fd - 1]);
    }
    close(null);
    return status;
}

static json_int_t written_value(void)
{
    json_t *document = json_load_file(path, 0, NULL);
    json_int_t x = -1;
    if (document != NULL)
        json_unpack(document, "{s:[{s:I}]}", "rows", "x", &x);
    json_decref(document);
    unlink(path);
    return x;
}

static void writes_rows(void **state)
{
    (void)state;
    assert_int_equal(run("right", (lsi_bench_flags){.json = path}), 0);
    assert_int_equal(written_value(), 42);
}

/* Wrong results are written, too, but are a failure. */
static void wrong_results(void **state)
{
    (void)state;
    assert_int_equal(run("wrong", (lsi_bench_flags){.json = path}), 1);
    assert_int_equal(written_value(), 42);
    assert_string_equal(ls_last_error(), "results are wrong; see the table");
}

static void bad_flags_are_mistakes_of_usage(void **state)
{
    (void)state;
    assert_int_equal(run("bad flags", (lsi_bench_flags){.json = path}), 2);
    assert_string_equal(ls_last_error(), "these flags are bad");
    assert_int_not_equal(access(path, F_OK), 0);
}

static void failures_write_nothing(void **state)
{
    (void)state;
    assert_int_equal(run("fail", (lsi_bench_flags){.json = path}), 1);
    assert_string_equal(ls_last_error(), "measuring failed");
    assert_int_equal(access(path, F_OK), -1);
}

static void outputs_are_checked_first(void **state)
{
    (void)state;
    const lsi_bench_flags flags = {.json = "/nonexistent/x"};
    assert_int_equal(run("fail", flags), 1);
    assert_non_null(strstr(ls_last_error(), "cannot write /nonexistent/x"));
    const lsi_bench_flags both = {.json = "-", .csv = "-"};
    assert_int_equal(run("right", both), 2);
}

static void ranks_that_disagree(void **state)
{
    (void)state;
    assert_int_equal(run("right", (lsi_bench_flags){.ranks = "2,4"}), 2);
    assert_int_equal(run("right", (lsi_bench_flags){.ranks = "2,x"}), 2);
    assert_int_equal(run("right", (lsi_bench_flags){.ranks = "4,1"}), 0);
}

static int launched_as_one_rank(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    close(fd);
    unlink(path);
    unsetenv("LOCKSTEP_ROWS_FD");
    setenv("RANK", "0", 1);
    setenv("LOCAL_RANK", "0", 1);
    setenv("LOCAL_WORLD_SIZE", "1", 1);
    return setenv("WORLD_SIZE", "1", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_rows),
        cmocka_unit_test(wrong_results),
        cmocka_unit_test(bad_flags_are_mistakes_of_usage),
        cmocka_unit_test(failures_write_nothing),
        cmocka_unit_test(outputs_are_checked_first),
        cmocka_unit_test(ranks_that_disagree),
    };
    return cmocka_run_group_tests(tests, launched_as_one_rank, NULL);
}
