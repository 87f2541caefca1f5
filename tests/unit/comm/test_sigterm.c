/*
 * Signals that a rank handles keep their defaults in the processes that it
 * starts: nothing has changed for them.
 */
#include "testing.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/health/sigterm.h"
#include "ranks.h"

static int status_of(pid_t pid)
{
    int status = 0;
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void assert_killed_by(int status, int number)
{
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), number);
}

static void programs_get_signals_as_usual(void **state)
{
    static const char *const lines[] = {"kill -PIPE $$", "kill -USR1 $$"};
    static const int numbers[] = {SIGPIPE, SIGUSR1};
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(raise(numbers[i]), 0); /* no end of this process */
        const pid_t pid = fork();
        if (pid == 0) {
            execl("/bin/sh", "sh", "-c", lines[i], (char *)NULL);
            _exit(127);
        }
        assert_killed_by(status_of(pid), numbers[i]);
    }
}

/* It has nobody who would say last words, and need not wait for them. */
static void a_child_ends_at_once(void **state)
{
    (void)state;
    const pid_t pid = fork();
    if (pid == 0) {
        (void)raise(SIGTERM);
        pause();
        _exit(0);
    }
    assert_killed_by(status_of(pid), SIGTERM);
}

static bool handles_sigterm(void)
{
    struct sigaction action;
    assert_int_equal(sigaction(SIGTERM, NULL, &action), 0);
    return action.sa_handler != SIG_DFL;
}

/* First of all: what is handled once stays so. */
static void sigterm_is_left_alone_unless_asked(void **state)
{
    unsetenv("LOCKSTEP_SIGTERM");
    assert_ok(lsi_sigterm_listen(*state));
    assert_false(handles_sigterm());
    setenv("LOCKSTEP_SIGTERM", "0", 1);
    assert_ok(lsi_sigterm_listen(*state));
    assert_false(handles_sigterm());
    setenv("LOCKSTEP_SIGTERM", "yes", 1);
    assert_error(lsi_sigterm_listen(*state), LS_ERR_ARGUMENT,
                 "LOCKSTEP_SIGTERM is 'yes'; it should be 0 or 1");
    setenv("LOCKSTEP_SIGTERM", "1", 1);
    assert_ok(lsi_sigterm_listen(*state));
    assert_true(handles_sigterm());
}

static int set_up(void **state)
{
    ls_group *group = NULL;
    if (ls_group_open_threads(&group, 1) != LS_OK)
        return -1;
    *state = group;
    return 0;
}

static int tear_down(void **state)
{
    ls_group *group = *state;
    lsi_sigterm_forget(group);
    ls_group_close(&group);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sigterm_is_left_alone_unless_asked),
        cmocka_unit_test(programs_get_signals_as_usual),
        cmocka_unit_test(a_child_ends_at_once),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
