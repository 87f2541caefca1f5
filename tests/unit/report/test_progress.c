/*
 * Progress on a terminal, in a log, and silent.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
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
    return master;
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
    progress->last_drawn -= 60;
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
    assert_false(progress.drawn);
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
    assert_false(progress.drawn);
    lsi_progress_begin(&progress, stderr, "nothing to do", 0);
    let_time_pass(&progress);
    lsi_progress_update(&progress, 0, NULL);
    assert_false(progress.drawn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bar_on_a_terminal),
        cmocka_unit_test(lines_in_a_log),
        cmocka_unit_test(silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
