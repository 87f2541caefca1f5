/*
 * Ranks that do not come to the meeting: what the others say, and when.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/ended.h"
#include "ranks.h"
#include "testing.h"

enum { SIZE = 4, TEXT_BYTES = 4096 };

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A job of whose ranks some come; all write to one file. */
typedef struct job {
    char name[64];
    FILE *said;
    pid_t pids[SIZE];
} job;

static void set_int(const char *name, int value)
{
    char text[32];
    snprintf(text, sizeof(text), "%d", value);
    setenv(name, text, 1);
}

/* Exits with 1 once the meeting has failed, having said why. */
static void come(const job *j, int rank)
{
    ls_group *group = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(fileno(j->said), STDERR_FILENO);
    setenv("LOCKSTEP_JOB", j->name, 1);
    set_int("RANK", rank);
    set_int("WORLD_SIZE", SIZE);
    const ls_status status = ls_group_from_env(&group);
    fprintf(stderr, "rank %d: %s: %s\n", rank, ls_status_name(status),
            ls_last_error());
    _exit(status == LS_OK ? 0 : 1);
}

/* Those of which `comes` has a bit. */
static job start(const char *what, unsigned comes)
{
    job j = {.said = tmpfile()};
    assert_non_null(j.said);
    snprintf(j.name, sizeof(j.name), "%s-%ld", what, (long)getpid());
    for (int r = 0; r < SIZE; r++) {
        if ((comes >> r & 1) == 0)
            continue;
        j.pids[r] = fork();
        assert_true(j.pids[r] >= 0);
        if (j.pids[r] == 0)
            come(&j, r);
    }
    return j;
}

/* Waits for all, who fail; what they have said. */
static void end(job *j, char text[TEXT_BYTES])
{
    for (int r = 0; r < SIZE; r++)
        if (j->pids[r] != 0)
            assert_int_equal(wait_process(j->pids[r]), 1 << 8);
    rewind(j->said);
    const size_t bytes = fread(text, 1, TEXT_BYTES - 1, j->said);
    text[bytes] = '\0';
    fclose(j->said);
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        n++;
    return n;
}

/* Whether all say it. */
static bool wait_in_vain(void)
{
    char two[TEXT_BYTES], first[TEXT_BYTES];
    job without_two = start("two", 1 << 0 | 1 << 2);
    job without_first = start("first", 1 << 1 | 1 << 2 | 1 << 3);
    end(&without_two, two);
    end(&without_first, first);
    return count(
               two,
               "lockstep[0] warn: 2 of 4 ranks have joined; missing ranks: 1, "
               "3") == 1 &&
           count(two, "LS_ERR_TIMEOUT: timed out: 2 of 4 ranks have "
                      "joined; missing ranks: 1, 3. Check") == 2 &&
           count(first, "warn: still waiting for rank 0 of 4") == 1 &&
           count(first, "gave up waiting for rank 0") == 3;
}

/*
 * Three tries: where the machine is busy one may come so late that another does
 * not hear any more what it says.
 */
static void they_say_whom_they_wait_for(void **state)
{
    bool good = false;
    (void)state;
    setenv("LOCKSTEP_TIMEOUT", "5.5", 1);
    for (int try = 0; try < 3 && !good; try++)
        good = wait_in_vain();
    assert_true(good);
    unsetenv("LOCKSTEP_TIMEOUT");
}

/* As a launcher does, and lives on. */
static pid_t say_that_it_ended(const char *name, int rank)
{
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    const pid_t launcher = fork();
    assert_true(launcher >= 0);
    if (launcher == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        CHECK(lsi_ended_publish(name, rank) >= 0);
        (void)!write(ready[1], &byte, 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return launcher;
}

static void check_that_all_notice(const char *name, int ended)
{
    char text[TEXT_BYTES], said[64];
    const double then = seconds();
    job j = start(name, 0xfu & ~(1u << ended));
    const pid_t launcher = say_that_it_ended(j.name, ended);
    assert_true(lsi_has_ended(j.name, ended));
    end(&j, text);
    assert_true(seconds() - then < 10);
    snprintf(said, sizeof(said),
             "LS_ERR_PEER_DEAD: rank %d exited with status 0 before it joined",
             ended);
    assert_int_equal(count(text, said), SIZE - 1);
    kill(launcher, SIGKILL);
    (void)wait_process(launcher);
    assert_false(lsi_has_ended(j.name, ended));
}

static void one_that_has_ended_is_not_waited_for(void **state)
{
    (void)state;
    check_that_all_notice("early", 0);
    check_that_all_notice("early", 2);
}

/* Neither other jobs nor other ranks are meant. */
static void only_that_one_has_ended(void **state)
{
    (void)state;
    const pid_t launcher = say_that_it_ended("this-job", 2);
    assert_true(lsi_has_ended("this-job", 2));
    assert_true(lsi_has_ended("this-job", 2));
    assert_false(lsi_has_ended("this-job", 1));
    assert_false(lsi_has_ended("that-job", 2));
    kill(launcher, SIGKILL);
    (void)wait_process(launcher);
}

/* A stranger has the name; the uid in it proves nothing. */
static void strangers_are_not_believed(void **state)
{
    (void)state;
    if (getuid() != 0) {
        print_message("only root can be somebody else\n");
        skip();
    }
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    const pid_t stranger = fork();
    assert_true(stranger >= 0);
    if (stranger == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        CHECK(setresuid(0, 65534, 0) == 0); /* the name says 0 */
        CHECK(lsi_ended_publish("strange-job", 1) >= 0);
        (void)!write(ready[1], &byte, 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_false(lsi_has_ended("strange-job", 1));
    close(ready[0]);
    close(ready[1]);
    kill(stranger, SIGKILL);
    (void)wait_process(stranger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_say_whom_they_wait_for),
        cmocka_unit_test(one_that_has_ended_is_not_waited_for),
        cmocka_unit_test(only_that_one_has_ended),
        cmocka_unit_test(strangers_are_not_believed),
    };
    return cmocka_run_group_tests_name("meeting", tests, NULL, NULL);
}
