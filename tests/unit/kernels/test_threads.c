/*
 * Thread counts and the parallel loop: every element once, boundaries as
 * promised, and a quota that is an affinity mask.
 */
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "array/compute/threads.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "lockstep/threads.h"
#include "testing.h"

enum { MAX_N = 5000, MAX_CALLS = 64 };

typedef struct visits {
    atomic_int calls;
    size_t begins[MAX_CALLS], ends[MAX_CALLS];
    unsigned char seen[MAX_N];
} visits;

static void visit(void *context, size_t begin, size_t end)
{
    visits *v = context;
    const int call = atomic_fetch_add(&v->calls, 1);
    v->begins[call] = begin;
    v->ends[call] = end;
    for (size_t i = begin; i < end; i++)
        v->seen[i]++;
}

static void check_loop(size_t n, size_t grain, int threads)
{
    static visits v;
    memset(&v, 0, sizeof(v));
    lsi_threads_set(threads);
    lsi_parallel_for(n, grain, visit, &v);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(v.seen[i], 1);
    const int calls = atomic_load(&v.calls);
    assert_true(calls <= threads);
    assert_int_equal(calls == 0, n == 0);
    for (int i = 0; i < calls; i++) {
        const bool last = v.ends[i] == n;
        assert_int_equal(v.begins[i] % 16, 0);
        assert_true(last || v.ends[i] % 16 == 0);
        assert_true(last || v.ends[i] - v.begins[i] >= grain);
        assert_true(v.ends[i] > v.begins[i]);
    }
}

static void each_element_once(void **state)
{
    (void)state;
    static const size_t sizes[] = {0,  1,  15,  16,   17,   31,
                                   32, 33, 100, 1000, 1023, MAX_N};
    static const size_t grains[] = {0, 1, 16, 17, 33, 100, 2048, 100000};
    for (size_t i = 0; i < TEST_COUNT(sizes); i++)
        for (size_t k = 0; k < TEST_COUNT(grains); k++)
            for (int threads = 1; threads <= 8; threads++)
                check_loop(sizes[i], grains[k], threads);
}

static void count_calls(void *context, size_t begin, size_t end)
{
    (void)begin;
    (void)end;
    atomic_fetch_add((atomic_int *)context, 1);
}

static void uses_the_threads_there_are(void **state)
{
    (void)state;
    atomic_int calls = 0;
    lsi_threads_set(4);
    lsi_parallel_for(64, 16, count_calls, &calls);
    assert_int_equal(calls, 4);
    calls = 0;
    lsi_parallel_for(63, 16, count_calls, &calls);
    assert_int_equal(calls, 4);
    calls = 0;
    lsi_parallel_for(48, 16, count_calls, &calls);
    assert_int_equal(calls, 3);
}

static void inner_loop(void *context, size_t begin, size_t end)
{
    (void)begin;
    (void)end;
    lsi_parallel_for(160, 16, count_calls, context);
}

/* A loop inside a loop gets no more threads, but all its ranges. */
static void loops_nest(void **state)
{
    (void)state;
    atomic_int calls = 0;
    lsi_threads_set(3);
    lsi_parallel_for(48, 16, inner_loop, &calls);
    assert_int_equal(calls, 9);
}

typedef struct task_log {
    atomic_int seen[100];
    atomic_int busy[8]; /* by worker */
    atomic_int shared;  /* calls that met another one of their worker */
} task_log;

static void do_task(void *context, size_t task, int worker)
{
    task_log *log = context;
    if (atomic_fetch_add(&log->busy[worker], 1) != 0)
        atomic_fetch_add(&log->shared, 1);
    atomic_fetch_add(&log->seen[task], 1);
    atomic_fetch_sub(&log->busy[worker], 1);
}

static void each_task_once_and_workers_apart(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 2, 7, 100};
    for (size_t i = 0; i < TEST_COUNT(counts); i++)
        for (int threads = 1; threads <= 8; threads++) {
            static task_log log;
            memset(&log, 0, sizeof(log));
            lsi_threads_set(threads);
            lsi_parallel_tasks(counts[i], do_task, &log);
            for (size_t task = 0; task < 100; task++)
                assert_int_equal(log.seen[task], task < counts[i]);
            assert_int_equal(log.shared, 0);
        }
}

typedef struct meeting {
    atomic_int here;
    atomic_uint who;
    int workers;
} meeting;

static void meet(void *context, int worker, int workers)
{
    meeting *m = context;
    atomic_fetch_or(&m->who, 1U << worker);
    if (worker == 0)
        m->workers = workers;
    atomic_fetch_add(&m->here, 1);
    while (atomic_load(&m->here) < workers)
        sched_yield();
}

/* It would not end if one came after another. */
static void a_team_meets(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 5; threads++) {
        meeting m = {.workers = 0};
        lsi_threads_set(threads);
        lsi_parallel_team(meet, &m);
        assert_in_range(m.workers, 1, threads);
        assert_int_equal(atomic_load(&m.here), m.workers);
        assert_int_equal(atomic_load(&m.who), (1U << m.workers) - 1);
    }
}

static void set_is_clamped(void **state)
{
    (void)state;
    lsi_threads_set(5);
    assert_int_equal(lsi_threads(), 5);
    lsi_threads_set(0);
    assert_int_equal(lsi_threads(), 1);
    lsi_threads_set(-3);
    assert_int_equal(lsi_threads(), 1);
}

static void a_program_sets_the_number(void **state)
{
    (void)state;
    assert_ok(ls_set_threads(5));
    assert_int_equal(ls_threads(), 5);
    assert_int_equal(lsi_threads(), 5);
    assert_ok(ls_set_threads(LSI_MAX_THREADS));
    assert_int_equal(ls_threads(), LSI_MAX_THREADS);
    assert_error(ls_set_threads(-1), LS_ERR_ARGUMENT,
                 "threads is -1; expected 1 to");
    assert_error(ls_set_threads(LSI_MAX_THREADS + 1), LS_ERR_ARGUMENT,
                 "ls_set_threads: threads is 4097");
    assert_int_equal(ls_threads(), LSI_MAX_THREADS);
    assert_ok(ls_set_threads(0));
    omp_set_num_threads(omp_get_max_threads() + 1);
    assert_int_equal(ls_threads(), omp_get_max_threads());
    omp_set_num_threads(omp_get_max_threads() - 1);
}

/* The loops use that many, and no more. */
static void a_number_is_that_of_the_loops(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        meeting m = {.workers = 0};
        assert_ok(ls_set_threads(threads));
        lsi_parallel_team(meet, &m);
        assert_int_equal(m.workers, threads);
    }
    assert_ok(ls_set_threads(0));
}

/* In a child, in which nothing has asked for a number yet. */
static int under_limits(void)
{
    const int cpus = lsi_cpus_available();
    const int omp = omp_get_max_threads();
    unsetenv("OMP_NUM_THREADS");
    if (lsi_threads() != cpus)
        return 2;
    lsi_cpus_limit(cpus + 1);
    if (lsi_threads() != cpus)
        return 3;
    lsi_cpus_limit(0); /* at least 1 */
    lsi_cpus_limit(cpus);
    if (lsi_cpus_limited() != 1 || lsi_threads() != 1)
        return 4;
    if (omp_get_max_threads() != omp)
        return 5;
    omp_set_num_threads(omp + 1); /* the program wants it so */
    if (lsi_threads() != omp + 1)
        return 6;
    lsi_threads_set(3);
    if (lsi_threads() != 3 || omp_get_max_threads() != omp + 1)
        return 7;
    if (lsi_threads_lend(4) != omp + 1 || omp_get_max_threads() != 4)
        return 8;
    return lsi_threads_lend(omp + 1) == 4 ? 0 : 9;
}

static void a_limit_holds_where_no_number_is_set(void **state)
{
    int status;
    (void)state;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(under_limits());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void default_follows_the_environment(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int want; /* 0: as if unset */
    } cases[] = {{"3", 3}, {"1", 1},        {"4,2", 4},  {"", 0},
                 {"0", 0}, {"-2", 0},       {"x", 0},    {"2x", 0},
                 {",", 0}, {"99999999", 0}, {"7,3,1", 7}};
    unsetenv("OMP_NUM_THREADS");
    const int unset = lsi_threads_default(5);
    assert_int_equal(unset, 5);
    assert_int_equal(lsi_threads_default(0), 1);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        setenv("OMP_NUM_THREADS", cases[i].text, 1);
        const int want = cases[i].want ? cases[i].want : unset;
        assert_int_equal(lsi_threads_default(5), want);
        if (cases[i].want)
            assert_int_equal(lsi_threads_default(8), want);
    }
    unsetenv("OMP_NUM_THREADS");
}

/* In a child, so that the mask of the test itself stays. */
static void the_affinity_mask_counts(void **state)
{
    (void)state;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        cpu_set_t set;
        int cpu = 0;
        if (sched_getaffinity(0, sizeof(set), &set) != 0)
            _exit(2);
        while (!CPU_ISSET(cpu, &set))
            cpu++;
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        if (sched_setaffinity(0, sizeof(set), &set) != 0)
            _exit(3);
        _exit(lsi_cpus_available() == 1 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* Without the room for stacks that nobody has. */
static int with_huge_stacks(void)
{
    pthread_attr_t attr;
    visits v = {.calls = 0};
    const size_t n = 1000;
    const int threads = 11; /* a pool that there has not been yet */
    lsi_threads_set(threads);
    if (pthread_attr_init(&attr) != 0 ||
        pthread_attr_setstacksize(&attr, (size_t)1 << 46) != 0 ||
        pthread_setattr_default_np(&attr) != 0)
        return 2;
    if (lsi_threads_ask() != LS_ERR_MEMORY)
        return 3;
    lsi_parallel_for(n, 16, visit, &v);
    for (size_t i = 0; i < n; i++)
        if (v.seen[i] != 1)
            return 4;
    return v.calls == threads ? 0 : 5; /* the same ranges, one by one */
}

static void without_room_for_threads_one_does_it_all(void **state)
{
    (void)state;
    int status;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(with_huge_stacks());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void the_clock_goes_forward(void **state)
{
    (void)state;
    uint64_t last = lsi_clock_ns();
    for (int i = 0; i < 1000; i++) {
        const uint64_t now = lsi_clock_ns();
        assert_true(now >= last);
        last = now;
    }
    const double seconds = lsi_clock_seconds();
    assert_true(seconds >= (double)last * 1e-9);
    assert_true(seconds < (double)last * 1e-9 + 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_holds_where_no_number_is_set),
        cmocka_unit_test(without_room_for_threads_one_does_it_all),
        cmocka_unit_test(the_affinity_mask_counts),
        cmocka_unit_test(default_follows_the_environment),
        cmocka_unit_test(set_is_clamped),
        cmocka_unit_test(a_program_sets_the_number),
        cmocka_unit_test(a_number_is_that_of_the_loops),
        cmocka_unit_test(each_element_once),
        cmocka_unit_test(uses_the_threads_there_are),
        cmocka_unit_test(loops_nest),
        cmocka_unit_test(each_task_once_and_workers_apart),
        cmocka_unit_test(a_team_meets),
        cmocka_unit_test(the_clock_goes_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
