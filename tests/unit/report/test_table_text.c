/*
 * Tables on terminals of several widths.
 */
#include "report/table.h"
#include "terminal.h"
#include "testing.h"

static const lsi_column columns[] = {
    {.name = "name", .title = "Strategy", .type = LSI_COLUMN_TEXT, .width = 8},
    {.name = "s",
     .title = "Mean step time",
     .unit = "s",
     .type = LSI_COLUMN_REAL,
     .decimals = 2},
    {.name = "n", .title = "Ranks", .type = LSI_COLUMN_INT},
    {.name = "why", .title = "Status", .type = LSI_COLUMN_TEXT, .width = 14},
    {.name = "more", .type = LSI_COLUMN_INT, .wide = true},
};

static lsi_table *filled(void)
{
    lsi_table *table;
    assert_ok(LSI_TABLE_NEW(&table, columns));
    lsi_table_row(table);
    lsi_table_text(table, "name", "flat");
    lsi_table_real(table, "s", 12.5);
    lsi_table_int(table, "n", 2);
    lsi_table_text(table, "why", "a | b");
    lsi_table_int(table, "more", 7);
    lsi_table_row(table);
    lsi_table_text(table, "name", "fsdp");
    lsi_table_int(table, "n", 16);
    lsi_table_text(table, "why", "there was no memory for it");
    return table;
}

/* Of a table that is printed to a terminal of that width, without bold. */
static void check(const lsi_table *table, int width, const char *want)
{
    char text[2048];
    terminal t = terminal_open(width);
    assert_ok(lsi_table_print(table, t.stream));
    terminal_close(&t, text, sizeof(text));
    assert_string_equal(text, want);
}

#define CAT "\xe7\x8c\xab"

/* Two columns for each Chinese character, none for a combining mark. */
static void wide_characters(void **state)
{
    (void)state;
    static const char cats[] =
        CAT CAT CAT CAT CAT CAT CAT CAT CAT CAT CAT CAT CAT CAT CAT CAT CAT;
    static const struct {
        const char *name, *why;
    } rows[] = {{"M\xc3\xa4use", "x"},
                {CAT CAT CAT, "e\xcc\x81t\xc3\xa9"},
                {"\x1b[2J\xff", cats}};
    lsi_table *table;
    unsetenv("TERM");
    assert_ok(LSI_TABLE_NEW(&table, columns));
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        lsi_table_row(table);
        lsi_table_text(table, "name", rows[i].name);
        lsi_table_int(table, "n", (int64_t)i);
        lsi_table_text(table, "why", rows[i].why);
    }
    check(table, 80,
          "Strategy  Mean step time (s)  Ranks  Status\n"
          "M\xc3\xa4use                             0  x\n" CAT CAT CAT
          "                            1  e\xcc\x81t\xc3\xa9\n"
          "\\x1b[2J\xef\xbf\xbd                          2  " CAT CAT CAT CAT
              CAT CAT CAT CAT CAT CAT CAT CAT CAT CAT CAT CAT CAT "\n");
    /* Between characters; each takes two columns. */
    check(table, 50,
          "Strategy Mean Ranks Status\n"
          "         step\n"
          "         time\n"
          "          (s)\n"
          "M\xc3\xa4use             0 x\n" CAT CAT CAT
          "            1 e\xcc\x81t\xc3\xa9\n"
          "\\x1b[2J\xef\xbf\xbd          2 " CAT CAT CAT CAT CAT CAT CAT CAT CAT
              CAT CAT CAT CAT CAT CAT "\n"
          "                    " CAT CAT "\n");
    lsi_table_free(&table);
}

static void fits(void **state)
{
    (void)state;
    lsi_table *table = filled();
    unsetenv("TERM");
    check(table, 80,
          "Strategy  Mean step time (s)  Ranks  Status\n"
          "flat                   12.50      2  a | b\n"
          "fsdp                             16  there was no memory for it\n");
    lsi_table_free(&table);
}

static void titles_are_broken_first(void **state)
{
    (void)state;
    lsi_table *table = filled();
    unsetenv("TERM");
    check(table, 54,
          "Strategy   Mean  Ranks  Status\n"
          "           step\n"
          "           time\n"
          "            (s)\n"
          "flat      12.50      2  a | b\n"
          "fsdp                16  there was no memory for it\n");
    lsi_table_free(&table);
}

static void then_texts(void **state)
{
    (void)state;
    lsi_table *table = filled();
    unsetenv("TERM");
    check(table, 40,
          "Strategy   Mean  Ranks  Status\n"
          "           step\n"
          "           time\n"
          "            (s)\n"
          "flat      12.50      2  a | b\n"
          "fsdp                16  there was no\n"
          "                        memory for it\n");
    lsi_table_free(&table);
}

static void then_rows(void **state)
{
    (void)state;
    lsi_table *table = filled();
    unsetenv("TERM");
    lsi_table_show_wide(table);
    check(table, 24,
          "Strategy   Mean  Ranks\n"
          "           step\n"
          "           time\n"
          "            (s)\n"
          "  Status\n"
          "  more\n"
          "flat      12.50      2\n"
          "  a | b\n"
          "     7\n"
          "fsdp                16\n"
          "  there was no memory\n"
          "  for it\n");
    lsi_table_free(&table);
}

/* Rows one by one stand under the titles; what is too wide moves the rest. */
static void by_pieces(void **state)
{
    (void)state;
    char text[2048];
    lsi_table *table = filled();
    unsetenv("TERM");
    terminal t = terminal_open(48);
    lsi_table_row(table);
    lsi_table_text(table, "name", "sharded");
    lsi_table_real(table, "s", 1234567.5);
    lsi_table_int(table, "n", 3);
    assert_ok(lsi_table_print_titles(table, t.stream));
    assert_ok(lsi_table_print_rows(table, 1, t.stream));
    terminal_close(&t, text, sizeof(text));
    assert_string_equal(text, "Strategy  Mean  Ranks  Status\n"
                              "          step\n"
                              "          time\n"
                              "           (s)\n"
                              "fsdp               16  there was no\n"
                              "                       memory for it\n"
                              "sharded 1234567.50  3\n");
    lsi_table_free(&table);
}

static void bold_where_it_is_welcome(void **state)
{
    (void)state;
    static const struct {
        const char *term, *no_color;
        bool bold;
    } all[] = {
        {"xterm", NULL, true}, {"xterm", "", true}, {"xterm", "1", false},
        {"dumb", NULL, false}, {"", NULL, false},
    };
    lsi_table *table = filled();
    for (size_t i = 0; i < TEST_COUNT(all); i++) {
        char text[2048];
        terminal t = terminal_open(80);
        setenv("TERM", all[i].term, 1);
        if (all[i].no_color != NULL)
            setenv("NO_COLOR", all[i].no_color, 1);
        else
            unsetenv("NO_COLOR");
        assert_ok(lsi_table_print(table, t.stream));
        terminal_close(&t, text, sizeof(text));
        assert_int_equal(strncmp(text, "\033[1mStrategy", 12) == 0,
                         all[i].bold);
        assert_int_equal(strstr(text, "\n\033[0mflat") != NULL, all[i].bold);
        assert_int_equal(strchr(text, '\033') != NULL, all[i].bold);
    }
    lsi_table_free(&table);
}

static void markdown_when_asked(void **state)
{
    (void)state;
    char text[2048];
    lsi_table *table = filled();
    terminal t = terminal_open(80);
    lsi_tables_use_markdown(true);
    assert_ok(lsi_table_print(table, t.stream));
    lsi_tables_use_markdown(false);
    terminal_close(&t, text, sizeof(text));
    assert_int_equal(strncmp(text, "| Strategy |", 12), 0);
    assert_non_null(strstr(text, "| a \\| b "));
    lsi_table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fits),
        cmocka_unit_test(wide_characters),
        cmocka_unit_test(titles_are_broken_first),
        cmocka_unit_test(then_texts),
        cmocka_unit_test(then_rows),
        cmocka_unit_test(by_pieces),
        cmocka_unit_test(bold_where_it_is_welcome),
        cmocka_unit_test(markdown_when_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
