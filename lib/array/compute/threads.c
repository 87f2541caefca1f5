/*
 * The threads of a rank, and the parallel loops over ranges and tasks.
 */
#include "array/compute/threads.h"

#include <assert.h>
#include <limits.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/cpus.h"
#include "base/error.h"
#include "base/log.h"
#include "base/partition.h"
#include "lockstep/threads.h"

enum { BOUNDARY = 16 };

static atomic_int chosen;    /* by ls_set_threads; 0: not */
static atomic_int told;      /* 1 + lsi_threads_requested(); 0: not asked yet */
static atomic_int available; /* CPUs; 0: not counted yet */
static int omp_default;      /* OpenMP's number before the program set one */

__attribute__((constructor)) static void read_openmp_default(void)
{
    omp_default = omp_get_max_threads();
}

static int clamp(int threads)
{
    threads = threads < 1 ? 1 : threads;
    return threads > LSI_MAX_THREADS ? LSI_MAX_THREADS : threads;
}

void lsi_threads_set(int threads)
{
    atomic_store(&chosen, clamp(threads));
}

int lsi_threads_lend(int threads)
{
    const int before = omp_get_max_threads();
    if (threads != before)
        omp_set_num_threads(threads);
    return before;
}

/* Logs each limit once. */
static int limited(int cpus)
{
    static atomic_int logged = INT_MAX;
    const int limit = lsi_cpus_limited();
    if (limit >= cpus)
        return cpus;
    if (limit < atomic_load_explicit(&logged, memory_order_relaxed) &&
        limit < atomic_exchange(&logged, limit))
        lsi_log(LS_LOG_INFO,
                "computing with %d thread%s, because several ranks share %d "
                "CPUs. To use another number, set OMP_NUM_THREADS",
                limit, limit == 1 ? "" : "s", cpus);
    return limit;
}

/* OpenMP keeps the program's number for each thread separately. */
int lsi_threads(void)
{
    const int set = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (set != 0)
        return set;
    const int of_program = omp_get_max_threads();
    if (of_program != omp_default)
        return clamp(of_program);
    int variable = atomic_load_explicit(&told, memory_order_relaxed) - 1;
    if (variable < 0) {
        variable = lsi_threads_requested();
        atomic_store(&available, lsi_cpus_available());
        atomic_store(&told, variable + 1);
    }
    return variable > 0 ? variable : limited(atomic_load(&available));
}

ls_status ls_set_threads(int threads)
{
    if (threads < 0 || threads > LSI_MAX_THREADS)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_set_threads: threads is %d; expected 1 to %d, or 0 "
                        "for the default",
                        threads, LSI_MAX_THREADS);
    atomic_store(&chosen, threads);
    return LS_OK;
}

int ls_threads(void)
{
    return lsi_threads();
}

/* ---- whether there is room for them ------------------------------------- */

/* How many threads the calling thread may start, itself included. */
static _Thread_local int granted = 1;

enum { POOL_BYTES = 1 << 20 }; /* more than OpenMP keeps of a pool */

static void *pass_through(void *gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

/* Starts `n` threads, all of which are there at once, and ends them. */
static bool try_threads(int n, pthread_t *threads)
{
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    int started = 0;
    pthread_mutex_lock(&gate);
    while (started < n &&
           pthread_create(&threads[started], NULL, pass_through, &gate) == 0)
        started++;
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&gate);
    return started == n;
}

/*
 * OpenMP ends the process if it cannot start a thread. So for each size of a
 * pool that is new to the calling thread others try it first. Inside a region
 * there are no new ones.
 */
static bool can_start(int threads)
{
    if (threads <= granted || omp_in_parallel())
        return true;
    sigset_t all, before;
    pthread_t *const list = malloc((size_t)threads * sizeof(*list));
    void *const room = mmap(NULL, POOL_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool can = list != NULL && room != MAP_FAILED;
    if (can) {
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        can = try_threads(threads - 1, list);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (room != MAP_FAILED)
        munmap(room, POOL_BYTES);
    free(list);
    if (can)
        granted = threads;
    return can;
}

ls_status lsi_threads_ask(void)
{
    const int threads = lsi_threads();
    if (can_start(threads))
        return LS_OK;
    return lsi_fail(LS_ERR_MEMORY,
                    "cannot start %d threads: memory is exhausted, or the "
                    "limit on processes (ulimit -u) is reached. Use fewer "
                    "threads (OMP_NUM_THREADS, or ls_set_threads in C)",
                    threads);
}

/* ---- loops --------------------------------------------------------------- */

/* The range of one part of lsi_parallel_for. */
typedef struct cutting {
    size_t n;
    int parts;
    lsi_range_fn fn;
    void *context;
} cutting;

static void do_part(const cutting *c, int part)
{
    assert(part >= 0 && part < c->parts);
    const lsi_range range =
        lsi_partition_aligned(c->n, (size_t)c->parts, (size_t)part, BOUNDARY);
    c->fn(c->context, range.begin, range.end);
}

void lsi_parallel_for(size_t n, size_t grain, lsi_range_fn fn, void *context)
{
    if (n == 0)
        return;
    /* Counted in units of BOUNDARY, so that a part never is below the grain. */
    const size_t units = n / BOUNDARY + (n % BOUNDARY != 0);
    const size_t grain_units = grain / BOUNDARY + (grain % BOUNDARY != 0);
    const size_t most = grain_units == 0 ? units : units / grain_units;
    const size_t threads = (size_t)lsi_threads();
    const int parts = (int)(most < threads ? most : threads);
    if (parts <= 1) {
        fn(context, 0, n);
        return;
    }
    const cutting c = {n, parts, fn, context};
    if (!can_start(parts)) {
        for (int part = 0; part < parts; part++)
            do_part(&c, part);
        return;
    }
#pragma omp parallel for num_threads(parts) schedule(static, 1)
    for (int part = 0; part < parts; part++)
        do_part(&c, part);
}

void lsi_parallel_tasks(size_t n, lsi_task_fn fn, void *context)
{
    const size_t threads = (size_t)lsi_threads();
    const int team = (int)(n < threads ? n : threads);
    if (team <= 1 || !can_start(team)) {
        for (size_t task = 0; task < n; task++)
            fn(context, task, 0);
        return;
    }
#pragma omp parallel for num_threads(team) schedule(dynamic, 1)
    for (size_t task = 0; task < n; task++)
        fn(context, task, omp_get_thread_num());
}

void lsi_parallel_team(lsi_team_fn fn, void *context)
{
    const int team = lsi_threads();
    if (!can_start(team)) {
        fn(context, 0, 1);
        return;
    }
#pragma omp parallel num_threads(team)
    fn(context, omp_get_thread_num(), omp_get_num_threads());
}
