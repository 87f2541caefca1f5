/*
 * Progress on a terminal, in a log, and silent; lines that are drawn again.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "report/progress.h"
#include "testing.h"

/* A terminal: its other end, and a stream that writes to it. */
static int open_terminal(FILE **stream)
{
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(master >= 0);
    assert_int_equal(grantpt(master), 0);
    assert_int_equal(unlockpt(master), 0);
    *stream = fopen(ptsname(master), "w");
    assert_non_null(*stream);
    setenv("TERM", "xterm", 1);
    return master;
}

static void set_width(int master, int columns)
{
    const struct winsize size = {.ws_row = 24,
                                 .ws_col = (unsigned short)columns};
    assert_int_equal(ioctl(master, TIOCSWINSZ, &size), 0);
}

static void read_terminal(int master, char *out, size_t bytes)
{
    const ssize_t got = read(master, out, bytes - 1);
    assert_true(got > 0);
    out[got] = '\0';
}

/* As if the last drawing were long ago. */
static void let_time_pass(lsi_progress_bar *progress)
{
    progress->last_told -= 60;
    progress->live.drawn_at -= 60;
}

static void bar_on_a_terminal(void **state)
{
    (void)state;
    FILE *stream;
    char text[512];
    const int master = open_terminal(&stream);
    lsi_progress_bar progress;
    lsi_progress_begin(&progress, stream, "epoch 1", 8);
    lsi_progress_update(&progress, 1, NULL); /* too early to draw */
    assert_false(progress.live.drawn);
    let_time_pass(&progress);
    lsi_progress_update(&progress, 2, "loss 3.5");
    read_terminal(master, text, sizeof(text));
    assert_non_null(strstr(text, "\repoch 1 [######..................] 2/8"));
    assert_non_null(strstr(text, "left, loss 3.5"));
    let_time_pass(&progress);
    lsi_progress_update(&progress, 99, NULL); /* more than all is all */
    read_terminal(master, text, sizeof(text));
    assert_non_null(strstr(text, "[########################] 8/8\033[K"));
    lsi_progress_end(&progress);
    read_terminal(master, text, sizeof(text));
    assert_string_equal(text, "\r\033[K");
    fclose(stream);
    close(master);
}

static void lines_in_a_log(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    lsi_progress_bar progress;
    lsi_progress_begin(&progress, stream, "reading", 200);
    for (int done = 0; done <= 200; done += 5) {
        if (done >= 100)
            let_time_pass(&progress);
        lsi_progress_update(&progress, done, done == 120 ? "note" : NULL);
    }
    lsi_progress_end(&progress);
    fclose(stream);
    assert_string_equal(text, "reading: 50% (100/200)\n"
                              "reading: 60% (120/200), note\n"
                              "reading: 70% (140/200)\n"
                              "reading: 80% (160/200)\n"
                              "reading: 90% (180/200)\n");
    free(text);
}

static void silent(void **state)
{
    (void)state;
    lsi_progress_bar progress;
    lsi_progress_begin(&progress, NULL, "quiet", 10);
    let_time_pass(&progress);
    lsi_progress_update(&progress, 5, NULL);
    lsi_progress_end(&progress);
    assert_false(progress.live.drawn);
    lsi_progress_begin(&progress, stderr, "nothing to do", 0);
    let_time_pass(&progress);
    lsi_progress_update(&progress, 0, NULL);
    assert_false(progress.live.drawn);
}

/* The width is asked each time; the least important parts go first. */
static void width_decides(void **state)
{
    (void)state;
    static const lsi_live_part parts[] = {
        {"epoch 1/3", 2}, {"step 10/300", 0}, {"", 1},
        {"loss 1.25", 1}, {"0:10 left", 3},
    };
    static const struct {
        int columns;
        const char *shown;
    } cases[] = {
        {200, "epoch 1/3, step 10/300, loss 1.25, 0:10 left"},
        {45, "epoch 1/3, step 10/300, loss 1.25, 0:10 left"},
        {44, "epoch 1/3, step 10/300, loss 1.25"},
        {34, "epoch 1/3, step 10/300, loss 1.25"},
        {33, "step 10/300, loss 1.25"},
        {22, "step 10/300"},
        {12, "step 10/300"},
        {5, "step"},
        {1, "s"},
    };
    FILE *stream;
    char text[512], wanted[512];
    size_t drawn = 0; /* columns, which a narrower window shows on rows */
    const int master = open_terminal(&stream);
    lsi_live_line line = lsi_live_line_on(stream);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        set_width(master, cases[i].columns);
        lsi_live_line_draw(&line, parts, 5);
        read_terminal(master, text, sizeof(text));
        const int rows =
            drawn > 0 ? (int)(drawn - 1) / (int)cases[i].columns : 0;
        if (rows > 0)
            snprintf(wanted, sizeof(wanted), "\033[%dA\r\033[J%s\033[K", rows,
                     cases[i].shown);
        else
            snprintf(wanted, sizeof(wanted), "\r%s\033[K", cases[i].shown);
        drawn = strlen(cases[i].shown);
        assert_string_equal(text, wanted);
    }
    assert_false(lsi_live_line_is_due(&line));
    line.drawn_at -= 0.2;
    assert_true(lsi_live_line_is_due(&line));
    fclose(stream);
    close(master);
}

/* A terminal that does not say how wide it is. */
static void unknown_width(void **state)
{
    (void)state;
    FILE *stream;
    const int master = open_terminal(&stream);
    set_width(master, 0);
    setenv("COLUMNS", "33", 1);
    assert_int_equal(lsi_terminal_width(stream), 33);
    setenv("COLUMNS", "wide", 1);
    assert_int_equal(lsi_terminal_width(stream), 80);
    unsetenv("COLUMNS");
    assert_int_equal(lsi_terminal_width(stream), 80);
    fclose(stream);
    close(master);
}

static void plain_elsewhere(void **state)
{
    (void)state;
    FILE *stream;
    const int master = open_terminal(&stream);
    assert_true(lsi_terminal_redraws(stream));
    setenv("TERM", "dumb", 1);
    assert_false(lsi_terminal_redraws(stream));
    setenv("TERM", "", 1);
    assert_false(lsi_terminal_redraws(stream));
    unsetenv("TERM");
    assert_false(lsi_terminal_redraws(stream));
    lsi_live_line line = lsi_live_line_on(stream);
    assert_false(lsi_live_line_is_due(&line));
    lsi_live_line_draw(&line, NULL, 0);
    assert_false(line.drawn);
    fclose(stream);
    close(master);
    setenv("TERM", "xterm", 1);
    assert_false(lsi_terminal_redraws(NULL));
    stream = tmpfile();
    assert_false(lsi_terminal_redraws(stream));
    fclose(stream);
}

static void times(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{0, "0:00"},          {65.9, "1:05"}, {3599, "59:59"},
                 {3600, "1:00:00"},    {-1, "-:--"},   {1e300, "-:--"},
                 {360061, "100:01:01"}};
    char text[LSI_TIME_TEXT];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        lsi_time_text(text, cases[i].seconds);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bar_on_a_terminal),
        cmocka_unit_test(lines_in_a_log),
        cmocka_unit_test(silent),
        cmocka_unit_test(width_decides),
        cmocka_unit_test(unknown_width),
        cmocka_unit_test(plain_elsewhere),
        cmocka_unit_test(times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
