/*
 * Forks while guards are added: the child has no lock that a thread of its
 * parent holds.
 */
#include "testing.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fork.h"

static pthread_mutex_t known = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t late = PTHREAD_MUTEX_INITIALIZER;
static int calls_of_known, calls_of_late;

static void count_known(void)
{
    calls_of_known++;
}

static void count_late(void)
{
    calls_of_late++;
}

static lsi_fork_guard known_guard = {.lock = &known, .in_child = count_known};
static lsi_fork_guard late_guard = {.lock = &late, .in_child = count_late};

/* Each lock is free, and each function has been called once. */
static int child(void)
{
    if (pthread_mutex_trylock(&known) != 0)
        return 1;
    if (pthread_mutex_trylock(&late) != 0)
        return 2;
    return calls_of_known == 1 && calls_of_late == 1 ? 0 : 3;
}

static void *fork_one(void *status)
{
    const pid_t pid = fork();
    if (pid == 0)
        _exit(child());
    if (pid < 0 || waitpid(pid, status, 0) != pid)
        *(int *)status = -1;
    return NULL;
}

/* The fork waits for a known lock while this thread takes a new one. */
static void a_lock_taken_during_a_fork_is_free_in_the_child(void **state)
{
    pthread_t forking;
    int status = -1;
    (void)state;
    lsi_guard_forks(&known_guard);
    pthread_mutex_lock(&known);
    assert_int_equal(pthread_create(&forking, NULL, fork_one, &status), 0);
    usleep(200000); /* it waits by then; if not, it finds the new guard */
    lsi_guard_forks(&late_guard);
    pthread_mutex_lock(&late);
    pthread_mutex_unlock(&known);
    usleep(200000);
    pthread_mutex_unlock(&late);
    pthread_join(forking, NULL);
    assert_int_equal(status, 0);
    assert_int_equal(calls_of_known + calls_of_late, 0); /* in the parent */
}

static void a_later_fork_takes_both(void **state)
{
    int status = -1;
    (void)state;
    (void)fork_one(&status);
    assert_int_equal(status, 0);
    assert_int_equal(pthread_mutex_trylock(&known), 0);
    assert_int_equal(pthread_mutex_trylock(&late), 0);
    pthread_mutex_unlock(&late);
    pthread_mutex_unlock(&known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lock_taken_during_a_fork_is_free_in_the_child),
        cmocka_unit_test(a_later_fork_takes_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
