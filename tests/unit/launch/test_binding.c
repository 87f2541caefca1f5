/*
 * Dividing cpus between ranks: every machine up to 24 cpus, every job.
 */
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/binding.h"
#include "testing.h"

enum { MOST = 24 };

/* `n` cpus, `threads` to a core, numbered as Linux often does. */
static void make_machine(lsi_hardware_thread *cpus, int n, int threads)
{
    for (int i = 0; i < n; i++)
        cpus[i] =
            (lsi_hardware_thread){.cpu = 100 + (i % threads) * n + i / threads,
                                  .core = 7 + i / threads};
}

static void check_job(const lsi_hardware_thread *cpus, int n, int cores,
                      int ranks)
{
    size_t end = 0;
    for (int rank = 0; rank < ranks; rank++) {
        const lsi_range share = lsi_binding_share(cpus, (size_t)n, ranks, rank);
        if (n < ranks) {
            assert_int_equal(lsi_range_size(share), 0);
            continue;
        }
        assert_int_equal(share.begin, end); /* disjoint, nothing left out */
        assert_true(lsi_range_size(share) >= 1);
        end = share.end;
        if (cores >= ranks && end < (size_t)n) /* no core is shared */
            assert_true(cpus[end - 1].core != cpus[end].core);
    }
    if (n >= ranks)
        assert_int_equal(end, n);
}

static void every_machine_and_job(void **state)
{
    (void)state;
    lsi_hardware_thread cpus[MOST];
    for (int threads = 1; threads <= 4; threads++) {
        for (int n = 1; n <= MOST; n++) {
            make_machine(cpus, n, threads);
            const int cores = (n + threads - 1) / threads;
            for (int ranks = 1; ranks <= MOST + 2; ranks++)
                check_job(cpus, n, cores, ranks);
        }
    }
}

static size_t cpus_allowed(cpu_set_t *set)
{
    assert_int_equal(sched_getaffinity(0, sizeof(*set), set), 0);
    return (size_t)CPU_COUNT(set);
}

/* Exactly the cpus of our own affinity are found, each once. */
static void finds_own_cpus(void **state)
{
    (void)state;
    cpu_set_t allowed;
    lsi_hardware_thread *cpus;
    const size_t n = lsi_binding_cpus(&cpus);
    assert_int_equal(n, cpus_allowed(&allowed));
    for (size_t i = 0; i < n; i++) {
        assert_true(CPU_ISSET(cpus[i].cpu, &allowed));
        CPU_CLR(cpus[i].cpu, &allowed);
    }
    free(cpus);
}

/* In a child: bound to one cpu, only that one is found. */
static void respects_the_outer_set(void **state)
{
    (void)state;
    cpu_set_t allowed;
    cpus_allowed(&allowed);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &allowed))
        cpu++;
    const pid_t child = fork();
    if (child == 0) {
        lsi_hardware_thread *cpus;
        lsi_binding_apply(&(lsi_hardware_thread){.cpu = cpu}, 1);
        const size_t n = lsi_binding_cpus(&cpus);
        _exit(n == 1 && cpus[0].cpu == cpu ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_machine_and_job),
        cmocka_unit_test(finds_own_cpus),
        cmocka_unit_test(respects_the_outer_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
