/* LOCKSTEP_SELECT=@FILE: what a file may hold, and that ranks agree on it. */
#include <sys/stat.h>
#include <unistd.h>

#include "comm/api/select.h"
#include "comm/api/select_file.h"
#include "comm/coll/algorithm.h"
#include "ranks.h"
#include "testing.h"

static char path[] = "/tmp/lockstep-select-XXXXXX";

static int make_file(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    CHECK(fputs(text, file) >= 0);
    CHECK(fclose(file) == 0);
}

/* As the bench would write it. */
static void write_line(const char *line)
{
    char text[2048];
    write_file(lsi_select_file_text(line, 2, text, sizeof(text)));
}

static void is_written_and_read(void **state)
{
    static const char line[] =
        "all_reduce:0-1k:flat;1k-inf:ring,broadcast:0-inf:tree";
    char text[LSI_SELECT_FILE_BYTES];
    (void)state;
    write_line(line);
    assert_int_equal(lsi_select_read(path, text), LS_OK);
    assert_string_equal(text, line);
}

static void check_bad(const char *text, ls_status status, const char *where,
                      const char *why)
{
    char place[128], all[LSI_SELECT_FILE_BYTES];
    write_file(text);
    snprintf(place, sizeof(place), "%s%s", path, where);
    assert_int_equal(lsi_select_read(path, all), status);
    assert_non_null(strstr(ls_last_error(), place));
    assert_non_null(strstr(ls_last_error(), why));
}

static void what_is_wrong_is_named(void **state)
{
    char text[2048];
    (void)state;
    check_bad("", LS_ERR_FORMAT, ": ", "the selection table is empty");
    check_bad("# a\n\nall_reduce:0-1k:flat\n", LS_ERR_FORMAT,
              ":3:", "but expected a line that names the machine");
    check_bad("machine: abacus, 10 beads\nall_reduce:0-1k:flat\n",
              LS_ERR_FORMAT, ":1:", "another machine");
    (void)lsi_select_file_text("all_reduce:0-1k:flat,broadcast:0-1k:flut", 2,
                               text, sizeof(text));
    check_bad(text, LS_ERR_ARGUMENT, ":4:", "no algorithm 'flut'");
    text[strlen(text) - 10] = '\0'; /* cut off in the middle */
    check_bad(text, LS_ERR_ARGUMENT, ":4:", "");
    static char all[LSI_SELECT_FILE_BYTES];
    memset(all, '#', sizeof(all) - 1);
    check_bad(all, LS_ERR_FORMAT, ":1:", "the line is longer than");
    assert_int_equal(lsi_select_read("/nowhere/at/all", all), LS_ERR_IO);
    assert_non_null(strstr(ls_last_error(), "/nowhere/at/all"));
    /* Neither read without end nor waited for. */
    static const char *const others[] = {"/dev/zero", "/dev", ""};
    char fifo[sizeof(path) + 8];
    snprintf(fifo, sizeof(fifo), "%s.fifo", path);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    for (size_t i = 0; i < TEST_COUNT(others); i++) {
        const char *const other = others[i][0] != '\0' ? others[i] : fifo;
        assert_error(lsi_select_read(other, all), LS_ERR_IO, other);
        assert_non_null(strstr(ls_last_error(), "not a regular file"));
    }
    unlink(fifo);
}

/* With the defaults behind them; without those, large data had no algorithm. */
static void ranges_are_not_dropped(void **state)
{
    static lsi_select_table table;
    static char line[LSI_SELECT_ROWS * 16];
    (void)state;
    lsi_select_default(&table);
    const int rows = table.rows;
    for (int n = LSI_SELECT_ROWS - rows; n <= LSI_SELECT_ROWS; n++) {
        size_t used = (size_t)snprintf(line, sizeof(line), "barrier:0-1:flat");
        for (int i = 1; i < n; i++)
            used +=
                (size_t)snprintf(line + used, sizeof(line) - used, ";0-1:flat");
        if (n == LSI_SELECT_ROWS - rows)
            assert_ok(lsi_select_parse(line, &table));
        else
            assert_error(lsi_select_parse(line, &table), LS_ERR_ARGUMENT,
                         "more than 192 size ranges");
        assert_int_equal(table.rows, LSI_SELECT_ROWS);
    }
}

static void settings_are_numbers(void **state)
{
    static lsi_select_table table;
    static const char *const wrong[] = {
        "window:2k",      "window:257k", "window:100000", "window:-64k",
        "window:64k;64k", "spins:9",     "spins:5001",    "spins:many"};
    (void)state;
    assert_ok(
        lsi_select_parse("window:128k,all_reduce:0-1k:flat,spins:700", &table));
    assert_int_equal(table.window, 128 * 1024);
    assert_int_equal(table.spins, 700);
    for (size_t i = 0; i < TEST_COUNT(wrong); i++)
        assert_error(lsi_select_parse(wrong[i], &table), LS_ERR_ARGUMENT, "'");
    assert_error(lsi_select_parse("spins:9", &table), LS_ERR_ARGUMENT,
                 "spins is '9'; it should be a multiple of 1 from 10 to 5000");
    assert_int_equal(table.spins, 700);
    assert_ok(lsi_select_parse("", &table));
    assert_true(table.window == 0 && table.spins == 0);
}

/* Algorithms of an operation that serve a size by default, in some group. */
static int serving(const lsi_select_table *table, lsi_operation operation,
                   size_t bytes)
{
    const lsi_algorithm *a;
    int n = 0;
    for (int i = 0; (a = lsi_algorithm_at(i)) != NULL; i++)
        n += a->operation == operation && a->serves.begin <= bytes &&
             bytes < a->serves.end &&
             (table->spans ? a->serves.between_nodes : a->serves.on_a_node) &&
             !(table->deterministic && a->own_order) &&
             ((a->needs & LSI_PATH_COPY) == 0 ||
              table->copying == LSI_COPYING_PAYS ||
              (table->copying == LSI_COPYING_MOVES &&
               !lsi_operation_reduces(operation)));
    return n;
}

static int kept(const lsi_select_table *table, lsi_operation operation,
                size_t bytes)
{
    const lsi_algorithm *const *all = lsi_select_find(table, operation, bytes);
    int n = 0;
    while (n < LSI_CANDIDATES && all[n] != NULL)
        n++;
    return n;
}

/* A size where the candidates may change: a row begins or ends there. */
static void check_size(const lsi_select_table *table, lsi_operation operation,
                       size_t bytes)
{
    const int n = serving(table, operation, bytes);
    if (n > LSI_CANDIDATES)
        fail_msg("%d algorithms of %s serve %zu bytes by default; a table "
                 "keeps %d. Shorten the sizes of a row in algorithms.def, or "
                 "raise LSI_CANDIDATES",
                 n, lsi_operation_name(operation), bytes, LSI_CANDIDATES);
    if (table->rows > 0 && n > 0)
        assert_int_equal(kept(table, operation, bytes), n);
}

static void check_sizes(const lsi_select_table *table)
{
    const lsi_algorithm *a;
    for (int i = 0; (a = lsi_algorithm_at(i)) != NULL; i++) {
        check_size(table, a->operation, a->serves.begin);
        if (a->serves.end < SIZE_MAX)
            check_size(table, a->operation, a->serves.end);
    }
}

static void no_default_is_dropped(void **state)
{
    static lsi_select_table table;
    (void)state;
    for (int kind = 0; kind < 16; kind++) {
        table = (lsi_select_table){.spans = (kind & 1) != 0,
                                   .deterministic = (kind & 2) != 0,
                                   .copying = (lsi_copying)(kind / 4)};
        check_sizes(&table); /* before a table is filled, which asserts it */
        lsi_select_default(&table);
        check_sizes(&table);
    }
}

static void use(ls_group *group, void *argument)
{
    float x[100] = {1};
    char at[64];
    (void)argument;
    snprintf(at, sizeof(at), "@%s", path);
    CHECK_OK(ls_group_select(group, at));
    CHECK_OK(ls_all_reduce(group, x, x, 100, LS_F32, LS_REDUCE_SUM));
    CHECK(x[0] == (float)ls_group_size(group));
    CHECK(strcmp(group->call.algorithm->name, "butterfly") == 0);
    /* One rank cannot read it: all go on with what they had. */
    const bool odd = ls_group_rank(group) == 1;
    const ls_status status =
        ls_group_select(group, odd ? "@/nowhere/at/all" : at);
    CHECK(status == LS_ERR_IO);
    CHECK((strstr(ls_last_error(), "rank 1") != NULL) == !odd);
    CHECK_OK(ls_all_reduce(group, x, x, 100, LS_F32, LS_REDUCE_SUM));
    /* The file decides. */
    CHECK_OK(ls_group_select(group, odd ? at : "all_reduce:0-1k:butterfly"));
    CHECK(ls_group_select(group, odd ? at : "all_reduce:0-1k:ring") ==
          LS_ERR_MISMATCH);
}

static void ranks_agree_on_what_it_says(void **state)
{
    (void)state;
    write_line("all_reduce:0-1k:butterfly");
    run_threads(3, use, NULL);
    run_processes(2, use, NULL);
}

static void check_environment(ls_group *group, void *argument)
{
    float x = 0;
    (void)argument;
    CHECK_OK(ls_all_reduce(group, &x, &x, 1, LS_F32, LS_REDUCE_SUM));
    CHECK(strcmp(group->call.algorithm->name, "butterfly") == 0);
}

static void the_environment_can_name_it(void **state)
{
    char at[64];
    (void)state;
    write_line("all_reduce:0-1k:butterfly");
    snprintf(at, sizeof(at), "@%s", path);
    setenv("LOCKSTEP_SELECT", at, 1);
    run_processes(2, check_environment, NULL);
    unsetenv("LOCKSTEP_SELECT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_default_is_dropped), /* first: others assert it */
        cmocka_unit_test(is_written_and_read),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(ranges_are_not_dropped),
        cmocka_unit_test(settings_are_numbers),
        cmocka_unit_test(ranks_agree_on_what_it_says),
        cmocka_unit_test(the_environment_can_name_it),
    };
    return cmocka_run_group_tests_name("select_file", tests, make_file,
                                       remove_file);
}
