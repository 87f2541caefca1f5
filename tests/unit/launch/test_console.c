/*
 * The lines that a console shows of many ranks' error lines.
 */
#include <stdio.h>
#include <stdlib.h>

#include "launch/console.h"
#include "testing.h"

/* The text shown so far. */
typedef struct screen {
    char text[1 << 16];
    size_t used;
    bool full; /* takes nothing */
} screen;

static bool put(void *context, const char *text, size_t bytes)
{
    screen *const s = context;
    if (s->full || s->used + bytes >= sizeof(s->text))
        return false;
    memcpy(s->text + s->used, text, bytes);
    s->used += bytes;
    s->text[s->used] = '\0';
    return true;
}

typedef struct setup {
    screen shown;
    lsi_console *console;
} setup;

static setup *open_setup(void)
{
    setup *const s = calloc(1, sizeof(*s));
    assert_ok(lsi_console_new("node7", put, &s->shown, &s->console));
    return s;
}

static void close_setup(setup *s)
{
    lsi_console_free(s->console);
    free(s);
}

static void say(setup *s, double now, int rank, const char *line)
{
    lsi_console_line(s->console, now, rank, line, strlen(line));
}

static void assert_shown(setup *s, const char *expected)
{
    assert_string_equal(s->shown.text, expected);
    s->shown.used = 0;
    s->shown.text[0] = '\0';
}

/* They wait a tenth of a second for each other, and no longer. */
static void equal_lines_are_one(void **state)
{
    (void)state;
    setup *const s = open_setup();
    assert_true(lsi_console_next(s->console) == 0);
    for (int rank = 1; rank < 9; rank++)
        say(s, 5 + 0.01 * rank, rank, "bad luck");
    assert_shown(s, "");
    assert_true(lsi_console_next(s->console) == 5.01 + 0.1);
    lsi_console_pass(s->console, 5.1);
    assert_shown(s, "");
    lsi_console_pass(s->console, 5.12);
    assert_shown(s, "node7:1: bad luck (x8 ranks)\n");
    say(s, 5.2, 3, "bad luck");
    lsi_console_finish(s->console, 5.2);
    assert_shown(s, "node7:3: bad luck\n");
    assert_true(lsi_console_next(s->console) == 0);
    close_setup(s);
}

/* Its lines stay where they were, also one that it has twice. */
static void a_traceback_of_all_ranks(void **state)
{
    (void)state;
    static const char *const lines[] = {"Traceback:", "  call", "  return f()",
                                        "  call", "  return f()"};
    setup *const s = open_setup();
    char last[32];
    for (int rank = 1; rank <= 4; rank++) {
        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
            say(s, 1, rank, lines[i]);
        snprintf(last, sizeof(last), "Error: %s", rank == 2 ? "b" : "a");
        say(s, 1, rank, last);
        say(s, 1, rank, "");
    }
    lsi_console_finish(s->console, 1);
    assert_shown(s, "node7:1: Traceback: (x4 ranks)\n"
                    "node7:1:   call (x4 ranks)\n"
                    "node7:1:   return f() (x4 ranks)\n"
                    "node7:1:   call (x4 ranks)\n"
                    "node7:1:   return f() (x4 ranks)\n"
                    "node7:1: Error: a (x3 ranks)\n"
                    "node7:1:  (x4 ranks)\n"
                    "node7:2: Error: b\n");
    close_setup(s);
}

static void repeats_of_one_rank_are_not_folded(void **state)
{
    (void)state;
    setup *const s = open_setup();
    say(s, 1, 5, "again");
    say(s, 1, 5, "again");
    lsi_console_finish(s->console, 1);
    assert_shown(s, "node7:5: again\nnode7:5: again\n");
    close_setup(s);
}

/* Bytes are compared, whatever they are. */
static void zeros_in_lines(void **state)
{
    (void)state;
    setup *const s = open_setup();
    lsi_console_line(s->console, 1, 1, "a\0b", 3);
    lsi_console_line(s->console, 1, 2, "a\0c", 3);
    lsi_console_line(s->console, 1, 3, "a\0b", 3);
    lsi_console_finish(s->console, 1);
    static const char expected[] = "node7:1: a\0b (x2 ranks)\nnode7:2: a\0c\n";
    assert_int_equal(s->shown.used, sizeof(expected) - 1);
    assert_memory_equal(s->shown.text, expected, sizeof(expected) - 1);
    close_setup(s);
}

static size_t count_lines(const setup *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->shown.used; i++)
        n += s->shown.text[i] == '\n';
    return n;
}

/* The 201st line of a second is counted, and the count is a line of the next.
 */
static void too_many_lines(void **state)
{
    (void)state;
    setup *const s = open_setup();
    char line[32];
    lsi_console_set_logs(s->console, "logs/run/0");
    for (int i = 0; i < 1000; i++) {
        snprintf(line, sizeof(line), "line %d", i);
        say(s, 1, i % 7, line);
    }
    lsi_console_pass(s->console, 1.5);
    assert_int_equal(count_lines(s), LSI_CONSOLE_LINES_A_SECOND);
    s->shown.used = 0;
    lsi_console_pass(s->console, 1.9);
    assert_int_equal(s->shown.used, 0);
    assert_true(lsi_console_next(s->console) <= 2.5);
    lsi_console_pass(s->console, 2.6);
    assert_shown(s, "lockstep: 800 lines not shown (limit: 200 lines per "
                    "second); all lines are in logs/run/0\n");
    for (int i = 0; i < 300; i++) {
        snprintf(line, sizeof(line), "line %d", i);
        say(s, 2.7, i % 7, line);
    }
    lsi_console_finish(s->console, 2.7);
    assert_int_equal(count_lines(s), LSI_CONSOLE_LINES_A_SECOND);
    close_setup(s);
}

static void without_logs_it_says_how_to_get_them(void **state)
{
    (void)state;
    setup *const s = open_setup();
    for (int i = 0; i < LSI_CONSOLE_LINES_A_SECOND; i++)
        assert_true(lsi_console_admits(s->console, 1));
    assert_false(lsi_console_admits(s->console, 1.99));
    lsi_console_finish(s->console, 1.99);
    assert_shown(s, "lockstep: 1 line not shown (limit: 200 lines per second); "
                    "--log-dir DIR would keep all lines\n");
    assert_true(lsi_console_admits(s->console, 2));
    close_setup(s);
}

/* Nobody waits for room; a later line reports the missing text. */
static void a_reader_that_stands_still(void **state)
{
    (void)state;
    setup *const s = open_setup();
    s->shown.full = true;
    say(s, 1, 1, "one");
    say(s, 1, 2, "two");
    lsi_console_pass(s->console, 1.2);
    lsi_console_pass(s->console, 2.5);
    s->shown.full = false;
    lsi_console_pass(s->console, 3.6);
    assert_shown(s, "lockstep: 2 lines not shown (limit: 200 lines per "
                    "second); --log-dir DIR would keep all lines\n");
    close_setup(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_lines_are_one),
        cmocka_unit_test(a_traceback_of_all_ranks),
        cmocka_unit_test(repeats_of_one_rank_are_not_folded),
        cmocka_unit_test(zeros_in_lines),
        cmocka_unit_test(too_many_lines),
        cmocka_unit_test(without_logs_it_says_how_to_get_them),
        cmocka_unit_test(a_reader_that_stands_still),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
