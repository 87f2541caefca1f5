/*
 * Waiting for a call of MPI: a pause of the whole job does not count.
 */
#include "testing.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

#include "base/suspending_clock.h"
#include "clocks.h"
#include "comm/net/mpi/mpi_thread.h"
#include "comm/state/wire.h"

#define HOUR_NS ((uint64_t)3600 * 1000 * 1000 * 1000)

static sem_t released;

static int wait_for_release(void)
{
    while (sem_wait(&released) != 0)
        continue;
    return 7;
}

static void *pause_and_release(void *unused)
{
    const int before = atomic_load(&clock_looks);
    (void)unused;
    while (atomic_load(&clock_looks) < before + 2)
        sched_yield();
    atomic_fetch_add(&clock_ahead_ns, HOUR_NS);
    while (atomic_load(&clock_looks) < before + 5)
        sched_yield();
    (void)sem_post(&released);
    return NULL;
}

static void a_call_of_mpi_survives_a_pause(void **state)
{
    pthread_t thread;
    (void)state;
    clock_reset();
    assert_int_equal(sem_init(&released, 0, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, pause_and_release, NULL), 0);
    assert_int_equal(lsi_mpi_call(wait_for_release, 20), 7);
    pthread_join(thread, NULL);
    /* The last: from then on it is stuck. */
    atomic_store(&clock_step_ns, 2 * LSI_SLICE_NS);
    assert_int_equal(lsi_mpi_call(wait_for_release, 1), LSI_WIRE_LATE);
    assert_int_equal(lsi_mpi_call(wait_for_release, 1), LSI_WIRE_LATE);
    clock_reset();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_of_mpi_survives_a_pause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
