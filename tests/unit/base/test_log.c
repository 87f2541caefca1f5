/*
 * Log lines, as a child process writes them: the level is read once a process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "testing.h"

enum { OUTPUT_BYTES = 8192 };

static void read_to_end(int from, char out[OUTPUT_BYTES])
{
    size_t used = 0;
    ssize_t bytes;
    while ((bytes = read(from, out + used, OUTPUT_BYTES - 1 - used)) > 0)
        used += (size_t)bytes;
    out[used] = '\0';
}

/* What body() writes to stderr under LOCKSTEP_LOG=level (NULL: unset). */
static void capture(const char *level, void (*body)(void),
                    char out[OUTPUT_BYTES])
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        if (level == NULL)
            unsetenv("LOCKSTEP_LOG");
        else
            setenv("LOCKSTEP_LOG", level, 1);
        body();
        _exit(0);
    }
    close(ends[1]);
    read_to_end(ends[0], out);
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void one_line_a_level(void)
{
    lsi_log(LSI_LOG_ERROR, "e %d", 1);
    lsi_log(LSI_LOG_WARN, "w");
    lsi_log(LSI_LOG_INFO, "i");
    lsi_log(LSI_LOG_DEBUG, "d");
}

static void levels(void **state)
{
    (void)state;
    static const struct {
        const char *level, *want;
    } cases[] = {
        {"error", "lockstep error: e 1\n"},
        {"warn", "lockstep error: e 1\nlockstep warn: w\n"},
        {NULL, "lockstep error: e 1\nlockstep warn: w\n"},
        {"", "lockstep error: e 1\nlockstep warn: w\n"},
        {"info", "lockstep error: e 1\nlockstep warn: w\nlockstep info: i\n"},
        {"debug", "lockstep error: e 1\nlockstep warn: w\nlockstep info: i\n"
                  "lockstep debug: d\n"},
        {"loud",
         "lockstep warn: LOCKSTEP_LOG=loud is not a level; using warn of "
         "error, warn, info, debug\nlockstep error: e 1\n"
         "lockstep warn: w\n"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char got[OUTPUT_BYTES];
        capture(cases[i].level, one_line_a_level, got);
        assert_string_equal(got, cases[i].want);
    }
}

static void with_ranks(void)
{
    lsi_log_set_rank(3);
    lsi_log(LSI_LOG_WARN, "three");
    lsi_log_set_rank(-1);
    lsi_log(LSI_LOG_WARN, "none");
}

static void lines_show_the_rank(void **state)
{
    (void)state;
    char got[OUTPUT_BYTES];
    capture("warn", with_ranks, got);
    assert_string_equal(got, "lockstep[3] warn: three\nlockstep warn: none\n");
}

static void long_line(void)
{
    char text[4000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    lsi_log(LSI_LOG_WARN, "%s", text);
}

static void long_lines_are_cut(void **state)
{
    (void)state;
    char got[OUTPUT_BYTES];
    capture("warn", long_line, got);
    const size_t length = strlen(got);
    assert_true(length > 1000 && length < 2000);
    assert_string_equal(got + length - 5, "x...\n");
}

static void one_failure(void)
{
    lsi_fail(LS_ERR_SHAPE, "bad shape");
}

static void failures_are_logged_for_debugging(void **state)
{
    (void)state;
    char got[OUTPUT_BYTES];
    capture("debug", one_failure, got);
    assert_string_equal(got, "lockstep debug: LS_ERR_SHAPE: bad shape\n");
    capture(NULL, one_failure, got);
    assert_string_equal(got, "");
}

static void enabled_levels(void)
{
    const bool right =
        lsi_log_enabled(LSI_LOG_INFO) && !lsi_log_enabled(LSI_LOG_DEBUG);
    _exit(right ? 0 : 1);
}

static void tells_what_is_enabled(void **state)
{
    (void)state;
    char got[OUTPUT_BYTES];
    capture("info", enabled_levels, got);
    assert_string_equal(got, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels),
        cmocka_unit_test(lines_show_the_rank),
        cmocka_unit_test(long_lines_are_cut),
        cmocka_unit_test(failures_are_logged_for_debugging),
        cmocka_unit_test(tells_what_is_enabled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
