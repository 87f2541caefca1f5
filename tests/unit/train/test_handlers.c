/*
 * Where signal handlers run: never on the stack of the thread that computes,
 * whose stack pointer may point anywhere while a library's kernel runs.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/signal_stack.h"
#include "lockstep/group.h"
#include "testing.h"
#include "train/stop.h"

static stack_t stack_of_thread(void)
{
    stack_t stack;
    assert_int_equal(sigaltstack(NULL, &stack), 0);
    return stack;
}

static volatile uintptr_t ran_at;

static void on_signal(int number)
{
    const int here = number;
    ran_at = (uintptr_t)&here;
}

static void test_handler_runs_there(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    lsi_use_signal_stack();
    const stack_t stack = stack_of_thread();
    assert_int_equal(stack.ss_flags & SS_DISABLE, 0);
    assert_int_equal(sigaction(SIGUSR2, &action, NULL), 0);
    assert_int_equal(raise(SIGUSR2), 0);
    assert_true(ran_at >= (uintptr_t)stack.ss_sp &&
                ran_at < (uintptr_t)stack.ss_sp + stack.ss_size);
    lsi_use_signal_stack(); /* once more changes nothing */
    assert_ptr_equal(stack_of_thread().ss_sp, stack.ss_sp);
}

/* Two threads never share one. */
static void *ask(void *sp)
{
    lsi_use_signal_stack();
    *(void **)sp = stack_of_thread().ss_sp;
    return NULL;
}

static void test_one_for_a_process(void **state)
{
    (void)state;
    pthread_t thread;
    void *sp = NULL;
    lsi_use_signal_stack();
    assert_int_equal(pthread_create(&thread, NULL, ask, &sp), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ptr_not_equal(sp, stack_of_thread().ss_sp);
}

static void test_ours_run_there(void **state)
{
    (void)state;
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
    ls_group *group = NULL;
    for (size_t i = 0; i < TEST_COUNT(numbers); i++)
        (void)signal(numbers[i], SIG_DFL);
    lsi_stop_listen();
    /* A folder that is there, and into which nobody asks to write: SIGUSR1. */
    assert_int_equal(setenv("LOCKSTEP_RECORD", ".", 1), 0);
    assert_ok(ls_group_open_threads(&group, 1));
    for (size_t i = 0; i < TEST_COUNT(numbers); i++) {
        struct sigaction action;
        assert_int_equal(sigaction(numbers[i], NULL, &action), 0);
        assert_true(action.sa_handler != SIG_DFL);
        assert_true((action.sa_flags & SA_ONSTACK) != 0);
    }
    ls_group_close(&group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handler_runs_there),
        cmocka_unit_test(test_one_for_a_process),
        cmocka_unit_test(test_ours_run_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
