/*
 * Which processes SIGUSR1 is passed on to, when they change while they are
 * looked at.
 */
#include "testing.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/proc.h"
#include "launch/asking.h"

/* The names that the linker's --wrap=lsi_process_file asks for. */
size_t file_of_test(pid_t pid, const char *name, char *out,
                    size_t room) __asm__("__wrap_lsi_process_file");
size_t real_file(pid_t pid, const char *name, char *out,
                 size_t room) __asm__("__real_lsi_process_file");

static pid_t child;
static int go; /* a byte there lets the child go on */

/* The child becomes another program, which does not handle the signal. */
static void let_it_exec(void)
{
    char before[4096], now[4096];
    const size_t n = real_file(child, "cmdline", before, sizeof(before));
    assert_int_equal(write(go, "", 1), 1);
    while (real_file(child, "cmdline", now, sizeof(now)) == n &&
           memcmp(before, now, n) == 0)
        usleep(1000);
    close(go);
    go = -1;
}

/* The first read returns the state before its exec. */
size_t file_of_test(pid_t pid, const char *name, char *out, size_t room)
{
    const size_t n = real_file(pid, name, out, room);
    if (pid == child && strcmp(name, "status") == 0 && go >= 0)
        let_it_exec();
    return n;
}

static void on_question(int number)
{
    (void)number;
}

/* A copy of this process that handles the signal until it is let go. */
static void start_child(void)
{
    int ends[2], ready[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pipe(ready), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setpgid(0, 0);
        (void)signal(SIGUSR1, on_question);
        if (write(ready[1], "", 1) == 1 && read(ends[0], &byte, 1) == 1)
            execlp("sleep", "sleep", "600", (char *)NULL);
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    close(ends[0]);
    go = ends[1];
}

/* The signal that ends it: the one that it got first. */
static int end_child(void)
{
    int status = 0;
    assert_int_equal(kill(child, SIGTERM), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    return WTERMSIG(status);
}

/* Until it does not count as young. */
static void let_it_age(void)
{
    lsi_process_stat stat;
    do
        usleep(1000);
    while (!lsi_process_stat_read(child, &stat) ||
           lsi_process_seconds(&stat) < 0.1);
}

static void handlers_of_before_an_exec_do_not_count(void **state)
{
    lsi_output output;
    (void)state;
    assert_ok(lsi_output_open(&output));
    start_child();
    let_it_age();
    const lsi_processes ranks = {
        .n = 1, .pids = &child, .output = &output, .alive = 1};
    lsi_ask_ranks(&ranks);
    assert_int_equal(go, -1);
    assert_int_equal(end_child(), SIGTERM);
    lsi_output_close(&output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handlers_of_before_an_exec_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
