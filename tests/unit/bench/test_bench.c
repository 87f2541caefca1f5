/*
 * The frame of benches, as rank 0 of a job of one that a launcher started.
 */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/bench/bench.h"
#include "testing.h"

const lsi_command lsi_command_root = {.name = ""};

static const lsi_column columns[] = {
    {.name = "x", .type = LSI_COLUMN_INT},
};

typedef struct bench_state {
    lsi_bench_common common;
    const char *what;
} bench_state;

#define ROW(...) LSI_OPTION(bench_state, __VA_ARGS__)
static const lsi_option options[] = {
    LSI_BENCH_ROWS("2", "0", "1"),
    ROW(what, STRING, "what", 0, "WHAT", "right", "what to do"),
};

static int opened, closed;

static ls_status parse(void *opaque)
{
    bench_state *const b = opaque;
    b->common.cases = 1; /* unless open says something else */
    assert_string_equal(b->common.name, "x");
    if (strcmp(b->what, "bad flags") == 0)
        return lsi_fail(LS_ERR_ARGUMENT, "these flags are bad");
    return LS_OK;
}

static ls_status open_it(void *opaque)
{
    bench_state *const b = opaque;
    opened++;
    b->common.cases = 2;
    if (ls_group_size(b->common.group) != 1)
        return lsi_fail(LS_ERR_STATE, "the group is not of one");
    if (strcmp(b->what, "not open") == 0)
        return lsi_fail(LS_ERR_STATE, "opening failed");
    return LS_OK;
}

static void close_it(void *opaque)
{
    (void)opaque;
    closed++;
}

static ls_status measure(void *opaque, size_t i)
{
    bench_state *const b = opaque;
    if (strcmp(b->what, "fail") == 0)
        return lsi_fail(LS_ERR_STATE, "measuring failed");
    if (strcmp(b->what, "break off") == 0 && i > 0)
        return lsi_fail(LS_ERR_STATE, "a peer is gone");
    b->common.wrong = strcmp(b->what, "wrong") == 0;
    lsi_table_row(b->common.table);
    lsi_table_int(b->common.table, "x", 42 + (int64_t)i);
    return LS_OK;
}

static const lsi_bench bench = {.command = {.name = "x",
                                            LSI_COMMAND_OPTIONS(options),
                                            .run = lsi_bench_run},
                                LSI_BENCH_TABLES(bench_state, columns),
                                .ranks = "2",
                                .parse = parse,
                                .open = open_it,
                                .close = close_it,
                                .measure = measure};

/* The benchmark that `run` calls. */
static const lsi_bench *called = &bench;

static char path[] = "/tmp/lockstep-bench-XXXXXX";
static char json[sizeof("--json=") + sizeof(path)];

/* Runs it with standard output and standard error hidden. */
static int run(char *what, char *flag, char *value, char *flag2, char *value2)
{
    static char name[] = "bench x", what_flag[] = "--what";
    char *argv[] = {name, what_flag, what, flag, value, flag2, value2, NULL};
    int argc = 3;
    while (argv[argc] != NULL)
        argc++;
    const lsi_invocation call = {.command = &called->command,
                                 .argc = argc,
                                 .argv = argv,
                                 .line_argc = argc,
                                 .line_argv = argv};
    int saved[2];
    fflush(stdout);
    const int null = open("/dev/null", O_WRONLY);
    for (int fd = 1; fd <= 2; fd++) {
        saved[fd - 1] = dup(fd);
        dup2(null, fd);
    }
    opened = closed = 0;
    const int status = lsi_bench_run(&call);
    fflush(stdout);
    for (int fd = 1; fd <= 2; fd++) {
        dup2(saved[fd - 1], fd);
        close(saved[fd - 1]);
    }
    close(null);
    assert_int_equal(opened, closed);
    return status;
}

#define RUN(what, flag, value)                                                 \
    run((char[]){what}, (char[]){flag}, (char[]){value}, NULL, NULL)
#define RUN_JSON(what) run((char[]){what}, json, NULL, NULL, NULL)

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
    assert_int_equal(RUN_JSON("right"), 0);
    assert_int_equal(written_value(), 42);
}

/* Wrong results are written, too, but are a failure. */
static void wrong_results(void **state)
{
    (void)state;
    assert_int_equal(RUN_JSON("wrong"), 1);
    assert_int_equal(written_value(), 42);
    assert_non_null(strstr(ls_last_error(), "results are wrong: "));
}

static void bad_flags_are_mistakes_of_usage(void **state)
{
    (void)state;
    assert_int_equal(RUN_JSON("bad flags"), 2);
    assert_string_equal(ls_last_error(), "these flags are bad");
    assert_int_not_equal(access(path, F_OK), 0);
}

static void flags_of_its_own_are_optional(void **state)
{
    (void)state;
    lsi_bench bare = bench;
    bare.parse = NULL;
    called = &bare;
    assert_int_equal(RUN_JSON("right"), 0);
    called = &bench;
    assert_int_equal(written_value(), 42);
}

static void opening_is_optional(void **state)
{
    (void)state;
    lsi_bench bare = bench;
    bare.open = NULL;
    bare.close = NULL;
    called = &bare;
    assert_int_equal(RUN_JSON("right"), 0);
    called = &bench;
    assert_int_equal(written_value(), 42);
}

static void failures_write_nothing(void **state)
{
    (void)state;
    assert_int_equal(RUN_JSON("fail"), 1);
    assert_string_equal(ls_last_error(), "measuring failed");
    assert_int_equal(access(path, F_OK), -1);
}

/* Objects made before are freed. */
static void opening_may_fail(void **state)
{
    (void)state;
    assert_int_equal(RUN_JSON("not open"), 1);
    assert_string_equal(ls_last_error(), "opening failed");
    assert_int_equal(closed, 1);
    assert_int_equal(access(path, F_OK), -1);
}

static void rows_so_far_are_written(void **state)
{
    (void)state;
    assert_int_equal(RUN_JSON("break off"), 1);
    assert_string_equal(ls_last_error(), "a peer is gone");
    assert_int_equal(written_value(), 42);
}

static void outputs_are_checked_first(void **state)
{
    (void)state;
    static char nowhere[] = "--json=/proc/nonexistent/x";
    assert_int_equal(run((char[]){"fail"}, nowhere, NULL, NULL, NULL), 1);
    assert_non_null(
        strstr(ls_last_error(), "cannot write '/proc/nonexistent/x'"));
    assert_int_equal(opened, 0);
    assert_int_equal(RUN("right", "--json", "--csv"), 2);
}

static void ranks_that_disagree(void **state)
{
    (void)state;
    assert_int_equal(RUN("right", "-n", "2,4"), 2);
    assert_int_equal(RUN("right", "-n", "2,x"), 2);
    assert_int_equal(RUN("right", "-n", "4,1"), 0);
}

static int launched_as_one_rank(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    close(fd);
    unlink(path);
    snprintf(json, sizeof(json), "--json=%s", path);
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
        cmocka_unit_test(flags_of_its_own_are_optional),
        cmocka_unit_test(opening_is_optional),
        cmocka_unit_test(failures_write_nothing),
        cmocka_unit_test(opening_may_fail),
        cmocka_unit_test(rows_so_far_are_written),
        cmocka_unit_test(outputs_are_checked_first),
        cmocka_unit_test(ranks_that_disagree),
    };
    return cmocka_run_group_tests(tests, launched_as_one_rank, NULL);
}
