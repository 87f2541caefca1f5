/*
 * Sentences on a terminal, whose lines are broken, and elsewhere.
 */
#include "report/paragraph.h"
#include "terminal.h"
#include "testing.h"

static void lines_on_a_terminal(void **state)
{
    (void)state;
    char text[256];
    terminal t = terminal_open(20);
    lsi_paragraph(t.stream, "\nRates of %d threads, of this machine: %s", 2,
                  "longer-than-the-line-can-be now");
    terminal_close(&t, text, sizeof(text));
    assert_string_equal(text, "\nRates of 2 threads,\nof this machine:\n"
                              "longer-than-the-line-can-be\nnow\n");
}

static void one_line_elsewhere(void **state)
{
    (void)state;
    char text[256] = "";
    FILE *const stream = fmemopen(text, sizeof(text), "w");
    lsi_paragraph(stream, "%s",
                  "words  and words that are longer than a line "
                  "of a terminal, and more than that");
    fclose(stream);
    assert_string_equal(text, "words  and words that are longer than a line of "
                              "a terminal, and more than that\n");
}

/* A shell that reads the lines reads one command line. */
static void flags_on_a_terminal(void **state)
{
    (void)state;
    char text[256];
    terminal t = terminal_open(24);
    lsi_paragraph_of_flags(t.stream,
                           "again: -n 2 --lr 0.001 --decay-order first"
                           " --beta -1");
    terminal_close(&t, text, sizeof(text));
    assert_string_equal(text, "again: -n 2 --lr 0.001 \\\n"
                              "--decay-order first \\\n"
                              "--beta -1\n");
}

static void flags_elsewhere(void **state)
{
    (void)state;
    char text[256] = "";
    FILE *const stream = fmemopen(text, sizeof(text), "w");
    lsi_paragraph_of_flags(stream,
                           "again: -n 2 --lr 0.001 --decay-order first");
    fclose(stream);
    assert_string_equal(text, "again: -n 2 --lr 0.001 --decay-order first\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_on_a_terminal),
        cmocka_unit_test(one_line_elsewhere),
        cmocka_unit_test(flags_on_a_terminal),
        cmocka_unit_test(flags_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
