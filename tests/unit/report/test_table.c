/*
 * Tables in all their forms, byte for byte.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "lockstep/version.h"
#include "report/table.h"
#include "testing.h"

static const lsi_column columns[] = {
    {.name = "op", .type = LSI_COLUMN_TEXT},
    {.name = "ranks", .title = "ranks", .type = LSI_COLUMN_INT},
    {.name = "time_us.min",
     .title = "min",
     .unit = "us",
     .type = LSI_COLUMN_REAL,
     .decimals = 1},
    {.name = "time_us.max", .title = "", .type = LSI_COLUMN_REAL},
    {.name = "in_place", .type = LSI_COLUMN_BOOL},
};

static lsi_table *new_table(void)
{
    lsi_table *table;
    assert_ok(lsi_table_new(&table, columns, TEST_COUNT(columns)));
    return table;
}

static lsi_table *filled_table(void)
{
    lsi_table *table = new_table();
    const lsi_stats stats = {.n = 2, .min = 1.25e-5, .max = 2e-5, .mean = 9};
    lsi_table_row(table);
    lsi_table_text(table, "op", "a,\"b\" | c");
    lsi_table_int(table, "ranks", -4);
    lsi_table_stats(table, "time_us", &stats, 1e6);
    lsi_table_bool(table, "in_place", true);
    lsi_table_row(table);
    lsi_table_text(table, "op", "second");
    lsi_table_real(table, "time_us.min", NAN);
    return table;
}

/* The text that a writer writes. */
static char *text_of(ls_status (*writer)(const lsi_table *, FILE *),
                     const lsi_table *table)
{
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    assert_non_null(stream);
    assert_ok(writer(table, stream));
    fclose(stream);
    return text;
}

static void markdown(void **state)
{
    (void)state;
    lsi_table *table = filled_table();
    char *text = text_of(lsi_table_print, table);
    assert_string_equal(text,
                        "| op         | ranks | min (us) | in_place |\n"
                        "| ---------- | ----: | -------: | -------- |\n"
                        "| a,\"b\" \\| c |    -4 |     12.5 | yes      |\n"
                        "| second     |       |          |          |\n");
    free(text);
    lsi_table_free(&table);
    assert_null(table);
}

/* Rows one by one stand where the titles said. */
static void markdown_by_pieces(void **state)
{
    (void)state;
    static const lsi_column pieces[] = {
        {.name = "n", .type = LSI_COLUMN_INT, .width = 6},
        {.name = "t.p99", .title = "p99", .type = LSI_COLUMN_REAL},
        {.name = "more", .type = LSI_COLUMN_TEXT, .wide = true},
    };
    lsi_table *table;
    assert_ok(lsi_table_new(&table, pieces, TEST_COUNT(pieces)));
    lsi_table_set_runs(table, 99);
    char *text = text_of(lsi_table_print_titles, table);
    assert_string_equal(text, "|      n | max |\n| -----: | --: |\n");
    free(text);
    lsi_table_set_runs(table, 100);
    lsi_table_show_wide(table);
    text = text_of(lsi_table_print_titles, table);
    assert_string_equal(text, "|      n | p99 | more |\n"
                              "| -----: | --: | ---- |\n");
    free(text);
    for (int i = 0; i < 3; i++) {
        lsi_table_row(table);
        lsi_table_int(table, "n", i);
    }
    char last[64] = "";
    FILE *stream = fmemopen(last, sizeof(last), "w");
    assert_ok(lsi_table_print_rows(table, 2, stream));
    fclose(stream);
    assert_string_equal(last, "|      2 |     |      |\n");
    lsi_table_free(&table);
}

/* Only a number is one. */
static void numbers(void **state)
{
    (void)state;
    lsi_table *table = filled_table();
    double value = 0;
    assert_true(lsi_table_number(table, 0, "ranks", &value));
    assert_true(value == -4);
    assert_true(lsi_table_number(table, 0, "time_us.min", &value));
    assert_true(value == 12.5);
    assert_false(lsi_table_number(table, 0, "op", &value));
    assert_false(lsi_table_number(table, 1, "time_us.min", &value));
    assert_false(lsi_table_number(table, 2, "ranks", &value));
    lsi_table_free(&table);
}

static void csv(void **state)
{
    (void)state;
    lsi_table *table = filled_table();
    char *text = text_of(lsi_table_csv, table);
    assert_string_equal(text, "op,ranks,time_us.min,time_us.max,in_place\n"
                              "\"a,\"\"b\"\" | c\",-4,12.5,20,true\n"
                              "second,,,,\n");
    free(text);
    lsi_table_free(&table);
}

static void empty_table(void **state)
{
    (void)state;
    lsi_table *table = new_table();
    char *text = text_of(lsi_table_print, table);
    assert_string_equal(text, "| op  | ranks | min (us) | in_place |\n"
                              "| --- | ----: | -------: | -------- |\n");
    free(text);
    assert_int_equal(lsi_table_row_count(table), 0);
    lsi_table_free(&table);
}

static void json_document(void **state)
{
    (void)state;
    static const char *const argv[] = {"lockstep", "bench", "\xff"};
    lsi_table *table = filled_table();
    char *text;
    assert_ok(lsi_table_json(table, 3, argv, &text));
    json_t *document = json_loads(text, 0, NULL);
    const char *version, *op;
    json_t *machine, *ranks;
    double min, max;
    int in_place, n;
    assert_int_equal(
        json_unpack(document,
                    "{s:s, s:[s,s,s], s:o, s:[{s:s,s:i,s:{s:f,s:f},s:b},"
                    "{s:{s:n,s:n},s:o}]}",
                    "lockstep", &version, "command", &op, &op, &op, "machine",
                    &machine, "rows", "op", &op, "ranks", &n, "time_us", "min",
                    &min, "max", &max, "in_place", &in_place, "time_us", "min",
                    "max", "ranks", &ranks),
        0);
    assert_string_equal(version, LS_VERSION_STRING);
    assert_string_equal(op, "a,\"b\" | c");
    assert_int_equal(n, -4);
    assert_true(fabs(min - 12.5) < 1e-12 && fabs(max - 20) < 1e-12);
    assert_true(in_place && json_is_null(ranks));
    assert_true(json_is_string(json_object_get(machine, "cpu")));
    assert_true(json_integer_value(json_object_get(machine, "cpus")) >= 1);
    assert_true(json_integer_value(json_object_get(machine, "memory_bytes")) >
                1 << 20);
    json_decref(document);
    free(text);
    lsi_table_free(&table);
}

/* Rows that went through another process are the same rows. */
static void dump_and_load(void **state)
{
    (void)state;
    lsi_table *from = filled_table();
    lsi_table *to = new_table();
    char *rows;
    assert_ok(lsi_table_dump(from, &rows));
    lsi_table_load(to, rows, strlen(rows));
    assert_int_equal(lsi_table_row_count(to), 2);
    char *a = text_of(lsi_table_csv, from);
    char *b = text_of(lsi_table_csv, to);
    assert_string_equal(a, b);
    free(a);
    free(b);
    lsi_table_load(to, rows, strlen(rows) - 1);
    assert_error(lsi_table_status(to), LS_ERR_FORMAT,
                 "cannot read the results");
    free(rows);
    lsi_table_free(&from);
    lsi_table_free(&to);
}

static void mistakes_stick(void **state)
{
    (void)state;
    lsi_table *table = new_table();
    lsi_table_int(table, "ranks", 1); /* before any row */
    assert_error(lsi_table_status(table), LS_ERR_STATE, "'ranks'");
    assert_int_equal(lsi_table_print(table, stdout), LS_ERR_STATE);
    lsi_table_free(&table);
    table = new_table();
    lsi_table_row(table);
    lsi_table_real(table, "ranks", 1); /* of another type */
    lsi_table_int(table, "nothing", 1);
    assert_error(lsi_table_status(table), LS_ERR_STATE, "'ranks'");
    lsi_table_free(&table);
    lsi_table_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(markdown),      cmocka_unit_test(markdown_by_pieces),
        cmocka_unit_test(numbers),       cmocka_unit_test(csv),
        cmocka_unit_test(empty_table),   cmocka_unit_test(json_document),
        cmocka_unit_test(dump_and_load), cmocka_unit_test(mistakes_stick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
