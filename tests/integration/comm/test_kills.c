/*
 * Kills a rank at a random moment, again and again: while the ranks meet, in
 * collectives of all sizes, in messages, idle, and when they leave. Whoever is
 * left must say within two seconds that the rank is dead. Only of a rank that
 * never came nobody can know that; that it is missing is said when time is up.
 *
 * The program's argument is the number of jobs; they run several at a time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../unit/comm/ranks.h"
#include "base/rng.h"

enum {
    AT_ONCE = 6,
    MOST_RANKS = 8,
    LONGEST = 100000 /* elements */
};

/* The moments in which the victim is likely to be hit, the most urgent first.
 */
enum { MEETING, LEAVING, AT_WORK, MOMENTS };

/* The outcome of one rank, which the parent reads. */
typedef struct outcome {
    double at;
    int status;
    int named; /* the rank that the message blames, or -1 */
} outcome;

static const lsi_rng_key key = {20, 26};
static uint64_t n_kills = 18;

/* Seconds to meet in. */
static const double timeout_s = 1.5;

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
        ls_isend(group, data, count, LS_F32, (rank + 1) % size, 0, &send);
    if (status == LS_OK)
        status = ls_irecv(group, data + LONGEST, count, LS_F32,
                          (rank + size - 1) % size, 0, &receive);
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
        return ls_all_reduce(group, data, data, count, LS_F32, LS_REDUCE_MAX);
    }
}

/* Which rank the message blames, or -1. */
static int named_rank(void)
{
    const char *text = ls_last_error();
    const char *waited = strstr(text, "for rank 0. Check that rank 0");
    const char *missing = strstr(text, "; missing ranks: ");
    int rank = -1;
    if (waited != NULL)
        return 0;
    const int found = missing != NULL
                          ? sscanf(missing, "; missing ranks: %d", &rank)
                          : sscanf(text, "rank %d", &rank);
    return found == 1 ? rank : -1;
}

static void set_int(const char *name, int value)
{
    char text[32];
    snprintf(text, sizeof(text), "%d", value);
    setenv(name, text, 1);
}

/* Then a rank leaves. */
static uint64_t calls_of(uint64_t job)
{
    return job % MOMENTS == LEAVING ? lsi_rng_below(key, job, 1 << 21, 200)
                                    : 4000;
}

static void be_rank(uint64_t job, int rank, int size, double timeout,
                    outcome *out)
{
    ls_group *group = NULL;
    float *data = calloc(2 * LONGEST, sizeof(float));
    char name[64], seconds_text[32];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(seconds_text, sizeof(seconds_text), "%g", timeout);
    snprintf(name, sizeof(name), "kills-%ld-%llu", (long)getppid(),
             (unsigned long long)job);
    setenv("LOCKSTEP_JOB", name, 1);
    setenv("LOCKSTEP_TIMEOUT", seconds_text, 1); /* for one that never came */
    set_int("RANK", rank);
    set_int("WORLD_SIZE", size);
    ls_status status = ls_group_from_env(&group);
    if (status == LS_OK)
        status = ls_group_set_timeout(group, 0);
    for (uint64_t i = 0; i < calls_of(job) && status == LS_OK; i++)
        status = random_call(group, job, i, data);
    *out = (outcome){seconds(), status, status == LS_OK ? -1 : named_rank()};
    ls_group_close(&group);
    if (status != LS_OK)
        fprintf(stderr, "%s: %s\n", ls_status_name(status), ls_last_error());
    _exit(0);
}

/* ---- the killer ---------------------------------------------------------- */

typedef struct job {
    uint64_t number;
    int size, victim;
    double timeout; /* seconds */
    pid_t pids[MOST_RANKS];
    double killed_at;
    outcome *outcomes; /* of its ranks, shared with them */
} job;

static job start(uint64_t number, double timeout, outcome *outcomes)
{
    static const int sizes[] = {2, 4, 8};
    job started = {.number = number,
                   .size = sizes[number / MOMENTS % 3],
                   .timeout = timeout,
                   .outcomes = outcomes};
    memset(outcomes, 0, MOST_RANKS * sizeof(*outcomes));
    started.victim =
        (int)lsi_rng_below(key, number, 1 << 20, (uint64_t)started.size);
    for (int r = 0; r < started.size; r++) {
        started.pids[r] = fork();
        CHECK(started.pids[r] >= 0);
        if (started.pids[r] == 0)
            be_rank(number, r, started.size, timeout, &outcomes[r]);
    }
    return started;
}

static void strike(job *target)
{
    static const uint64_t us[MOMENTS] = {3000, 10000, 60000};
    const uint64_t latest = us[target->number % MOMENTS];
    sleep_us(lsi_rng_below(key, target->number, (1 << 20) + 1, latest));
    kill(target->pids[target->victim], SIGKILL);
    target->killed_at = seconds();
}

/* How the survivors have taken it. */
typedef struct tally {
    int dead, missing, finished; /* jobs */
    double slowest;              /* to say so */
} tally;

/* Whether it has named the victim, and in time. */
static bool is_right(const job *target, const outcome *found, tally *sum)
{
    const double took = found->at - target->killed_at;
    if (found->named != target->victim)
        return false;
    if (found->status == LS_ERR_TIMEOUT) /* a second more for the meeting */
        return target->outcomes[target->victim].status == 0 &&
               took < target->timeout + 1.5;
    sum->slowest = took > sum->slowest ? took : sum->slowest;
    return found->status == LS_ERR_PEER_DEAD && took < 2.0;
}

static bool check(const job *target, tally *sum)
{
    int dead = 0, missing = 0, wrong = 0;
    wait_process(target->pids[target->victim]);
    for (int r = 0; r < target->size; r++) {
        const outcome *found = &target->outcomes[r];
        if (r == target->victim)
            continue;
        assert_int_equal(wait_process(target->pids[r]), 0);
        if (found->status == LS_OK)
            continue; /* all its calls were done before */
        wrong += !is_right(target, found, sum);
        dead += found->status == LS_ERR_PEER_DEAD;
        missing += found->status == LS_ERR_TIMEOUT;
    }
    sum->dead += dead != 0;
    sum->missing += dead == 0 && missing != 0;
    sum->finished += dead + missing == 0;
    return wrong == 0;
}

/*
 * On a busy machine a survivor can be late, and others can miss one that gets
 * no CPU before time is up. So what goes wrong counts only if it does so again,
 * alone and with more time.
 */
static void check_or_repeat(job *target, tally *sum)
{
    bool right = check(target, sum);
    for (int try = 0; try < 2 && !right; try++) {
        fprintf(stderr, "job %llu is wrong, with %g s\n",
                (unsigned long long)target->number, target->timeout);
        *target = start(target->number, 4 * target->timeout, target->outcomes);
        strike(target);
        right = check(target, sum);
    }
    assert_true(right);
}

static void kill_some(uint64_t first, outcome (*outcomes)[MOST_RANKS],
                      tally *sum)
{
    job jobs[AT_ONCE];
    for (uint64_t i = 0; i < AT_ONCE; i++)
        jobs[i] = start(first + i, timeout_s, outcomes[i]);
    for (uint64_t moment = 0; moment < MOMENTS; moment++)
        for (int i = 0; i < AT_ONCE; i++)
            if (jobs[i].number % MOMENTS == moment)
                strike(&jobs[i]);
    for (int i = 0; i < AT_ONCE; i++)
        check_or_repeat(&jobs[i], sum);
}

static void survivors_name_the_dead(void **state)
{
    outcome(*outcomes)[MOST_RANKS] =
        mmap(NULL, AT_ONCE * sizeof(outcomes[0]), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    tally sum = {0};
    (void)state;
    assert_true(outcomes != MAP_FAILED);
    for (uint64_t first = 0; first < n_kills; first += AT_ONCE)
        kill_some(first, outcomes, &sum);
    munmap(outcomes, AT_ONCE * sizeof(outcomes[0]));
    print_message("%d died, named within %.2f s; %d never came; %d too late "
                  "to matter\n",
                  sum.dead, sum.slowest, sum.missing, sum.finished);
    assert_true(sum.dead > 0);
}

/*
 * Memory without a name and sockets without a file: nothing can stay. Other
 * tests may have files there meanwhile.
 */
static void nothing_is_left_behind(void **state)
{
    glob_t found = {0};
    char names[64];
    (void)state;
    snprintf(names, sizeof(names), "/dev/shm/*kills-%ld-*", (long)getpid());
    assert_int_equal(glob(names, 0, NULL, &found), GLOB_NOMATCH);
    globfree(&found);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survivors_name_the_dead),
        cmocka_unit_test(nothing_is_left_behind),
    };
    if (argc > 1)
        n_kills = strtoull(argv[1], NULL, 10);
    return cmocka_run_group_tests_name("kills", tests, NULL, NULL);
}
