/*
 * Looking at what a process says of itself, also if it means no good.
 */
#include "testing.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "launch/live_pages.h"

static void nothing_is_there_at_first(void **state)
{
    lsi_live_page *page = NULL;
    (void)state;
    assert_error(lsi_live_open(&page, getpid()), LS_ERR_NOT_FOUND,
                 "has not taken an optimizer step");
}

static void a_step_is_seen(void **state)
{
    lsi_live_page *page = NULL;
    lsi_live_look look;
    (void)state;
    lsi_live_step();
    assert_ok(lsi_live_open(&page, getpid()));
    lsi_live_read(page, &look);
    assert_int_equal(look.pid, getpid());
    assert_int_equal(look.steps, 2);
    assert_string_equal(look.phase, "outside of phases");
    lsi_live_close(&page);
    assert_null(page);
}

static void names_are_shown_as_text(void **state)
{
    lsi_live_page *page = NULL;
    lsi_live_look look;
    (void)state;
    lsi_live_step();
    assert_ok(lsi_live_open(&page, getpid()));
    memset(page->name[0], '\a', sizeof(page->name[0]));
    lsi_live_read(page, &look);
    assert_string_equal(look.phase, "???????????????????????????????");
    lsi_live_close(&page);
}

/* As long as a page, and perhaps no longer when it is read. */
static void a_page_that_can_shrink_is_none(void **state)
{
    lsi_live_page made = {.version = LSI_LIVE_VERSION}, *page = NULL;
    int ready[2];
    char byte = 0;
    (void)state;
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        const int fd = memfd_create(LSI_LIVE_NAME, MFD_CLOEXEC);
        if (write(fd, &made, sizeof(made)) == sizeof(made) &&
            write(ready[1], &byte, 1) == 1)
            (void)pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_error(lsi_live_open(&page, child), LS_ERR_NOT_FOUND,
                 "has not taken an optimizer step");
    (void)kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ready[0]);
    close(ready[1]);
}

static lsi_live_waiting waiting_in(const char *call, uint64_t since_ns)
{
    return (lsi_live_waiting){.since_ns = since_ns, .awaits = -1, .call = call};
}

/* Of several threads that which has waited longest; further ones are silent. */
static void the_longest_wait_is_shown(void **state)
{
    unsigned place[LSI_LIVE_WAITS + 1] = {0};
    lsi_live_page *page = NULL;
    lsi_live_look look;
    char text[LSI_LIVE_TEXT];
    (void)state;
    const uint64_t now = lsi_clock_ns();
    lsi_live_waiting wait = waiting_in("#9 barrier", now - 1000);
    for (int i = 0; i <= LSI_LIVE_WAITS; i++)
        lsi_live_waits(&wait, &place[i]);
    assert_int_not_equal(place[LSI_LIVE_WAITS - 1], 0);
    assert_int_equal(place[LSI_LIVE_WAITS], 0);
    wait = (lsi_live_waiting){now - 2000, 3, false, "#2 bar\arier"};
    lsi_live_waits(&wait, &place[1]);
    assert_ok(lsi_live_open(&page, getpid()));
    lsi_live_read(page, &look);
    assert_int_equal(look.waiting_ns, now - 2000);
    (void)lsi_live_text(&look, text);
    assert_string_equal(text, "in #2 bar?rier, waiting for rank 3");
    lsi_live_waited(&place[1]);
    lsi_live_read(page, &look);
    (void)lsi_live_text(&look, text);
    assert_string_equal(text, "in #9 barrier, waiting");
    for (int i = 0; i <= LSI_LIVE_WAITS; i++)
        lsi_live_waited(&place[i]);
    lsi_live_read(page, &look);
    assert_int_equal(look.waiting_ns, 0);
    lsi_live_close(&page);
}

/* A program that tests may have given it up: it is shown while it tests. */
static void tests_of_long_ago_are_not_shown(void **state)
{
    const lsi_live_waiting wait = {lsi_clock_ns(), 1, true, "recv of 4 f32"};
    const uint64_t second = UINT64_C(1000000000);
    unsigned place = 0;
    lsi_live_page *page = NULL;
    lsi_live_look look;
    (void)state;
    lsi_live_waits(&wait, &place);
    assert_ok(lsi_live_open(&page, getpid()));
    lsi_live_read(page, &look);
    assert_string_equal(look.call, "recv of 4 f32");
    atomic_fetch_sub(&page->wait[place - 1].seen_ns, 3 * second);
    lsi_live_read(page, &look);
    assert_int_equal(look.waiting_ns, 0);
    page->wait[place - 1].tests = 0; /* who only waits may be stopped */
    lsi_live_read(page, &look);
    assert_int_equal(look.waiting_ns, wait.since_ns);
    lsi_live_waited(&place);
    lsi_live_close(&page);
}

static void *wait_a_little(void *unused)
{
    const lsi_live_waiting wait = waiting_in("#1 barrier", 1);
    unsigned place = 0;
    (void)unused;
    lsi_live_waits(&wait, &place);
    lsi_live_waited(&place);
    return NULL;
}

/* Steps are those of the first thread that takes one. */
static void who_waits_first_need_not_step(void **state)
{
    pthread_t thread;
    lsi_live_page *page = NULL;
    lsi_live_look look;
    char text[LSI_LIVE_TEXT];
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, wait_a_little, NULL), 0);
    pthread_join(thread, NULL);
    assert_ok(lsi_live_open(&page, getpid()));
    lsi_live_read(page, &look);
    assert_true(lsi_live_text(&look, text) < 0);
    assert_string_equal(text, "no step reported yet");
    lsi_live_step();
    lsi_live_read(page, &look);
    assert_int_equal(look.steps, 1);
    lsi_live_close(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_that_can_shrink_is_none),
        cmocka_unit_test(nothing_is_there_at_first),
        cmocka_unit_test(who_waits_first_need_not_step),
        cmocka_unit_test(the_longest_wait_is_shown),
        cmocka_unit_test(tests_of_long_ago_are_not_shown),
        cmocka_unit_test(a_step_is_seen),
        cmocka_unit_test(names_are_shown_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
