/*
 * Kills a rank at a random moment, again and again: while the ranks meet, in
 * collectives of all sizes, in messages, idle, and when they leave. Whoever is
 * left must name the dead rank within two seconds.
 *
 * LOCKSTEP_TEST_KILLS sets how many jobs; they run several at a time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../unit/comm/ranks.h"
#include "base/rng.h"

enum {
    DEFAULT_KILLS = 30,
    AT_ONCE = 6,
    MOST_RANKS = 8,
    CALLS = 4000,     /* then a rank leaves */
    LONGEST = 100000, /* elements */
    NAMED = 100       /* exit status of a rank that has named rank 0 */
};

static const lsi_rng_key key = {20, 26};

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void sleep_us(uint64_t us)
{
    const struct timespec pause = {(time_t)(us / 1000000),
                                   (long)(us % 1000000) * 1000};
    nanosleep(&pause, NULL);
}

/* ---- a rank -------------------------------------------------------------- */

static ls_status neighbours(ls_group *group, float *data, size_t count)
{
    const int rank = ls_group_rank(group), size = ls_group_size(group);
    ls_request *send = NULL, *receive = NULL;
    ls_status status =
        ls_isend(group, data, count, LS_F32, (rank + 1) % size, &send);
    if (status == LS_OK)
        status = ls_irecv(group, data + LONGEST, count, LS_F32,
                          (rank + size - 1) % size, &receive);
    if (status == LS_OK)
        status = ls_wait(receive);
    if (status == LS_OK)
        status = ls_wait(send);
    ls_request_free(&send);
    ls_request_free(&receive);
    return status;
}

/* The i-th call of a job, the same on all ranks. */
static ls_status random_call(ls_group *group, uint64_t job, uint64_t i,
                             float *data)
{
    const uint64_t pick = lsi_rng_below(key, job, 2 * i, 6);
    const uint64_t most = i % 7 == 0 ? LONGEST : 300;
    const size_t count = lsi_rng_below(key, job, 2 * i + 1, most);
    switch (pick) {
    case 0:
        return ls_barrier(group);
    case 1:
        return ls_broadcast(group, data, count, LS_F32, 0);
    case 2:
        return neighbours(group, data, count);
    case 3:
        sleep_us(count % 2000);
        return LS_OK;
    default:
        return ls_all_reduce(group, data, data, count, LS_F32, LS_MAX);
    }
}

/* Which rank the message blames, or -1. */
static int named_rank(void)
{
    const char *text = ls_last_error();
    const char *vain = strstr(text, "in vain for rank 0");
    const char *missing = strstr(text, "in time: rank ");
    int rank = -1;
    if (vain != NULL)
        return 0;
    if (missing != NULL)
        text = missing + strlen("in time: ");
    return sscanf(text, "rank %d", &rank) == 1 ? rank : -1;
}

static void fail_or_finish(ls_status status)
{
    if (status == LS_OK)
        _exit(0);
    const int rank = named_rank();
    fprintf(stderr, "%s: %s\n", ls_status_name(status), ls_last_error());
    if ((status == LS_ERR_PEER_DEAD || status == LS_ERR_TIMEOUT) && rank >= 0)
        _exit(NAMED + rank);
    _exit(1);
}

static void set_int(const char *name, int value)
{
    char text[32];
    snprintf(text, sizeof(text), "%d", value);
    setenv(name, text, 1);
}

static void be_rank(uint64_t job, int rank, int size)
{
    ls_group *group = NULL;
    float *data = calloc(2 * LONGEST, sizeof(float));
    char name[64];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(name, sizeof(name), "kills-%ld-%llu", (long)getppid(),
             (unsigned long long)job);
    setenv("LOCKSTEP_JOB", name, 1);
    setenv("LOCKSTEP_TIMEOUT", "1.5", 1); /* for one that never came */
    set_int("RANK", rank);
    set_int("WORLD_SIZE", size);
    ls_status status = ls_group_from_env(&group);
    if (status == LS_OK)
        status = ls_group_set_timeout(group, 0);
    for (uint64_t i = 0; i < CALLS && status == LS_OK; i++)
        status = random_call(group, job, i, data);
    ls_group_close(&group);
    fail_or_finish(status);
}

/* ---- the killer ---------------------------------------------------------- */

typedef struct job {
    uint64_t number;
    int size, victim;
    pid_t pids[MOST_RANKS];
    double killed_at;
} job;

static job start(uint64_t number)
{
    static const int sizes[] = {2, 4, 8};
    job started = {.number = number, .size = sizes[number % 3]};
    started.victim =
        (int)lsi_rng_below(key, number, 1 << 20, (uint64_t)started.size);
    for (int r = 0; r < started.size; r++) {
        started.pids[r] = fork();
        CHECK(started.pids[r] >= 0);
        if (started.pids[r] == 0)
            be_rank(number, r, started.size);
    }
    return started;
}

/* Every third job is hit while its ranks meet. */
static void strike(job *target)
{
    const uint64_t latest = target->number % 3 == 1 ? 3000 : 60000;
    sleep_us(lsi_rng_below(key, target->number, (1 << 20) + 1, latest));
    kill(target->pids[target->victim], SIGKILL);
    target->killed_at = seconds();
}

static void check(const job *target)
{
    const int died = wait_process(target->pids[target->victim]);
    for (int r = 0; r < target->size; r++) {
        if (r == target->victim)
            continue;
        const int status = wait_process(target->pids[r]);
        assert_true(WIFEXITED(status));
        /* A victim that had finished harms nobody. */
        if (WEXITSTATUS(status) != 0)
            assert_int_equal(WEXITSTATUS(status), NAMED + target->victim);
        else
            assert_true(WIFEXITED(died) || target->number % 3 != 1);
    }
}

static void survivors_name_the_dead(void **state)
{
    const char *text = getenv("LOCKSTEP_TEST_KILLS");
    const uint64_t kills = text == NULL ? DEFAULT_KILLS : strtoull(text, 0, 10);
    (void)state;
    for (uint64_t first = 0; first < kills; first += AT_ONCE) {
        job jobs[AT_ONCE];
        for (uint64_t i = 0; i < AT_ONCE; i++)
            jobs[i] = start(first + i);
        for (int i = 0; i < AT_ONCE; i++)
            strike(&jobs[i]);
        const double struck = seconds();
        for (int i = 0; i < AT_ONCE; i++)
            check(&jobs[i]);
        /* The last strike was the latest; the meeting has a second more. */
        assert_true(seconds() - struck < 3.0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survivors_name_the_dead),
    };
    return cmocka_run_group_tests_name("kills", tests, NULL, NULL);
}
