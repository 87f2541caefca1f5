/*
 * Recording and forwarding errors.
 */
#include <errno.h>
#include <pthread.h>

#include "base/error.h"
#include "testing.h"

/* Runs first: nothing has failed yet in this program. */
static void empty_at_first(void **state)
{
    (void)state;
    assert_string_equal(ls_last_error(), "");
}

static void records_and_returns(void **state)
{
    (void)state;
    assert_int_equal(lsi_fail(LS_ERR_SHAPE, "%s is %d", "rank", 7),
                     LS_ERR_SHAPE);
    assert_string_equal(ls_last_error(), "rank is 7");
}

static void adds_the_text_of_errno(void **state)
{
    (void)state;
    errno = ENOENT;
    assert_int_equal(lsi_fail_errno(LS_ERR_IO, "cannot open %s", "x"),
                     LS_ERR_IO);
    assert_string_equal(ls_last_error(),
                        "cannot open x: No such file or directory");
}

static void adds_to_its_own_text(void **state)
{
    (void)state;
    lsi_fail(LS_ERR_IO, "inner");
    lsi_fail(LS_ERR_IO, "outer: %s", ls_last_error());
    assert_string_equal(ls_last_error(), "outer: inner");
}

/* A long message is cut, visibly, and stays a string. */
static void cuts_long_messages(void **state)
{
    (void)state;
    char text[3000];
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    errno = EIO;
    lsi_fail_errno(LS_ERR_IO, "%s", text);
    const size_t length = strlen(ls_last_error());
    const char end[] = "a...: Input/output error";
    assert_true(length > 500 && length < sizeof(text));
    assert_string_equal(ls_last_error() + length - strlen(end), end);
}

/* Four times as long as it was: the reason stays, and the cut is seen. */
static void cuts_what_printing_makes_long(void **state)
{
    (void)state;
    char name[400];
    memset(name, 0xff, sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    errno = ENOENT;
    lsi_fail_errno(LS_ERR_IO, "cannot open '%s'", name);
    const size_t length = strlen(ls_last_error());
    const char end[] = "\\xff...: No such file or directory";
    assert_string_equal(ls_last_error() + length - strlen(end), end);
}

/* Never within a character. */
static void cuts_between_characters(void **state)
{
    (void)state;
    for (size_t begin = 0; begin < 2; begin++) {
        char text[3001] = "a";
        for (size_t i = begin; i + 2 < sizeof(text); i += 2)
            memcpy(text + i, "\xc3\xa4", 2);
        lsi_fail(LS_ERR_IO, "%s", text);
        const size_t length = strlen(ls_last_error());
        assert_string_equal(ls_last_error() + length - 5, "\xc3\xa4...");
    }
}

static void numbers_of_peers_are_errors(void **state)
{
    (void)state;
    assert_int_equal(lsi_error_of_peer(LS_ERR_IO), LS_ERR_IO);
    assert_int_equal(lsi_error_of_peer(LS_ERR_MISMATCH), LS_ERR_MISMATCH);
    assert_int_equal(lsi_error_of_peer(LS_IN_PROGRESS), LS_ERR_SYSTEM);
    assert_int_equal(lsi_error_of_peer(-1000), LS_ERR_SYSTEM);
    assert_int_equal(lsi_error_of_peer(INT32_MIN), LS_ERR_SYSTEM);
}

static ls_status forwards(ls_status status, int *reached)
{
    LS_TRY(status);
    *reached = 1;
    return LS_OK;
}

static ls_status cleans_up(ls_status first, int *cleaned)
{
    ls_status status;
    LS_TRY_GOTO(status, first, done);
    status = LS_IN_PROGRESS;
done:
    *cleaned = 1;
    return status;
}

static void try_returns_early(void **state)
{
    (void)state;
    int reached = 0, cleaned = 0;
    assert_int_equal(forwards(LS_ERR_IO, &reached), LS_ERR_IO);
    assert_int_equal(reached, 0);
    assert_int_equal(forwards(LS_OK, &reached), LS_OK);
    assert_int_equal(reached, 1);
    assert_int_equal(cleans_up(LS_ERR_STATE, &cleaned), LS_ERR_STATE);
    assert_int_equal(cleaned, 1);
    assert_int_equal(cleans_up(LS_OK, &cleaned), LS_IN_PROGRESS);
}

static void *fail_elsewhere(void *unused)
{
    (void)unused;
    lsi_fail(LS_ERR_STATE, "of the other thread");
    return NULL;
}

static void each_thread_has_its_own(void **state)
{
    (void)state;
    lsi_fail(LS_ERR_IO, "of this thread");
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    pthread_join(thread, NULL);
    assert_string_equal(ls_last_error(), "of this thread");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_at_first),
        cmocka_unit_test(records_and_returns),
        cmocka_unit_test(adds_the_text_of_errno),
        cmocka_unit_test(adds_to_its_own_text),
        cmocka_unit_test(cuts_long_messages),
        cmocka_unit_test(cuts_what_printing_makes_long),
        cmocka_unit_test(cuts_between_characters),
        cmocka_unit_test(numbers_of_peers_are_errors),
        cmocka_unit_test(try_returns_early),
        cmocka_unit_test(each_thread_has_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
