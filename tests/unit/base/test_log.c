/*
 * Log lines, as a child process writes them, or a function in it gets them: the
 * level is read once a process.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
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

/* Captures the stderr of body() under LOCKSTEP_LOG=level (NULL: unset). */
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
    lsi_log(LS_LOG_ERROR, "e %d", 1);
    lsi_log(LS_LOG_WARN, "w");
    lsi_log(LS_LOG_INFO, "i");
    lsi_log(LS_LOG_DEBUG, "d");
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
         "lockstep warn: LOCKSTEP_LOG is 'loud'; it should be error, warn, "
         "info or debug. Using warn\nlockstep "
         "error: e 1\n"
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
    lsi_log(LS_LOG_WARN, "three");
    lsi_log_set_rank(-1);
    lsi_log(LS_LOG_WARN, "none");
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
    lsi_log(LS_LOG_WARN, "%s", text);
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
        lsi_log_enabled(LS_LOG_INFO) && !lsi_log_enabled(LS_LOG_DEBUG);
    _exit(right ? 0 : 1);
}

static void tells_what_is_enabled(void **state)
{
    (void)state;
    char got[OUTPUT_BYTES];
    capture("info", enabled_levels, got);
    assert_string_equal(got, "");
}

/* ---- a function of the program ------------------------------------------- */

typedef struct heard {
    int lines, level, rank;
    char text[OUTPUT_BYTES];
} heard;

static void hear(void *context, ls_log_level level, int rank, const char *text)
{
    heard *const to = context;
    errno = ENOSYS; /* which who logs must not notice */
    to->lines++;
    to->level = (int)level;
    to->rank = rank;
    snprintf(to->text, sizeof(to->text), "%s", text);
}

static bool has_heard(const heard *h, int lines, ls_log_level level, int rank,
                      const char *text)
{
    return h->lines == lines && h->level == (int)level && h->rank == rank &&
           strcmp(h->text, text) == 0;
}

static void log_to_functions(void)
{
    heard first = {0}, second = {0};
    errno = 0;
    ls_set_log(hear, &first);
    lsi_log_set_rank(3);
    lsi_log(LS_LOG_WARN, "w %d", 1);
    bool right = has_heard(&first, 1, LS_LOG_WARN, 3, "w 1") && errno == 0;
    lsi_log_set_rank(-1);
    lsi_log(LS_LOG_INFO, "not enabled");
    right = right && first.lines == 1;
    ls_set_log(hear, &second);
    lsi_log(LS_LOG_ERROR, "e");
    right = right && first.lines == 1 &&
            has_heard(&second, 1, LS_LOG_ERROR, -1, "e");
    long_line();
    right = right && second.lines == 2 && strlen(second.text) > 1000 &&
            strcmp(second.text + strlen(second.text) - 4, "x...") == 0;
    ls_set_log(NULL, &second);
    lsi_log(LS_LOG_WARN, right ? "right" : "wrong");
    if (second.lines != 2)
        lsi_log(LS_LOG_WARN, "a function that was taken back was called");
}

static void a_function_gets_the_lines(void **state)
{
    (void)state;
    char got[OUTPUT_BYTES];
    capture(NULL, log_to_functions, got);
    assert_string_equal(got, "lockstep warn: right\n");
}

static void fail_with_a_function(void)
{
    heard all = {0};
    ls_set_log(hear, &all);
    one_failure();
    ls_set_log(NULL, NULL);
    if (has_heard(&all, 1, LS_LOG_DEBUG, -1, "LS_ERR_SHAPE: bad shape"))
        lsi_log(LS_LOG_INFO, "right");
}

static void a_function_gets_failures(void **state)
{
    (void)state;
    char got[OUTPUT_BYTES];
    capture("debug", fail_with_a_function, got);
    assert_string_equal(got, "lockstep info: right\n");
}

/* The warning about the level itself is one of the lines. */
static void warn_of_the_level(void)
{
    heard all = {0};
    ls_set_log(hear, &all);
    lsi_log(LS_LOG_DEBUG, "not enabled");
    _exit(all.lines == 1 && strstr(all.text, "is 'loud'; it should be") ? 0
                                                                        : 1);
}

static void a_function_gets_what_is_wrong_with_the_level(void **state)
{
    (void)state;
    char got[OUTPUT_BYTES];
    capture("loud", warn_of_the_level, got);
    assert_string_equal(got, "");
}

enum { THREADS = 4, LINES = 2000 };

static void count(void *context, ls_log_level level, int rank, const char *text)
{
    (void)rank;
    if (level == LS_LOG_WARN && strcmp(text, "a line") == 0)
        atomic_fetch_add((atomic_int *)context, 1);
}

static void *log_lines(void *unused)
{
    for (int i = 0; i < LINES; i++)
        lsi_log(LS_LOG_WARN, "a line");
    return unused;
}

/* The function is exchanged meanwhile, and each line comes once. */
static void log_from_threads(void)
{
    atomic_int counted[2] = {0, 0};
    pthread_t threads[THREADS];
    ls_set_log(count, &counted[0]);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, log_lines, NULL) != 0)
            _exit(2);
    for (int i = 0; i < LINES; i++)
        ls_set_log(count, &counted[i % 2]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    _exit(counted[0] + counted[1] == THREADS * LINES ? 0 : 1);
}

static void threads_log_at_once(void **state)
{
    (void)state;
    char got[OUTPUT_BYTES];
    capture("warn", log_from_threads, got);
    assert_string_equal(got, "");
}

static void names_of_levels(void **state)
{
    (void)state;
    assert_string_equal(ls_log_level_name(LS_LOG_ERROR), "error");
    assert_string_equal(ls_log_level_name(LS_LOG_WARN), "warn");
    assert_string_equal(ls_log_level_name(LS_LOG_INFO), "info");
    assert_string_equal(ls_log_level_name(LS_LOG_DEBUG), "debug");
    assert_string_equal(ls_log_level_name((ls_log_level)4), "unknown");
    assert_string_equal(ls_log_level_name((ls_log_level)-1), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels),
        cmocka_unit_test(lines_show_the_rank),
        cmocka_unit_test(long_lines_are_cut),
        cmocka_unit_test(failures_are_logged_for_debugging),
        cmocka_unit_test(tells_what_is_enabled),
        cmocka_unit_test(a_function_gets_the_lines),
        cmocka_unit_test(a_function_gets_failures),
        cmocka_unit_test(a_function_gets_what_is_wrong_with_the_level),
        cmocka_unit_test(threads_log_at_once),
        cmocka_unit_test(names_of_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
