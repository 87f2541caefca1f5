/*
 * Looking at what a process says of itself, also if it means no good.
 */
#include "testing.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "launch/live_pages.h"

static void a_step_is_seen(void **state)
{
    lsi_live_page *page = NULL;
    lsi_live_look look;
    (void)state;
    assert_error(lsi_live_open(&page, getpid()), LS_ERR_NOT_FOUND,
                 "has not taken a step");
    lsi_live_step();
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
                 "has not taken a step");
    (void)kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ready[0]);
    close(ready[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_that_can_shrink_is_none),
        cmocka_unit_test(a_step_is_seen),
        cmocka_unit_test(names_are_shown_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
