/*
 * The text about the places of ranks.
 */
#include <stdlib.h>

#include "launch/placement.h"
#include "testing.h"

static lsi_topology machine_of(lsi_hardware_thread *cpus, int n)
{
    for (int i = 0; i < n; i++)
        cpus[i] =
            (lsi_hardware_thread){.cpu = i, .core = i / 2, .allowed = true};
    return (lsi_topology){.cpus = cpus, .n = (size_t)n};
}

typedef struct placement_case {
    int cpus;
    double quota;
    lsi_binding_mode mode;
    int ranks, threads;
    const char *line;
    const char *crowded; /* of 8 CPUs that are online; NULL: it is not */
} placement_case;

static const placement_case cases[] = {
    {8, 0, LSI_BINDING_CPU, 2, 0,
     "2 ranks x 4 threads on 8 CPUs (0-7), bound by cpu", NULL},
    {8, 0, LSI_BINDING_CPU, 1, 0,
     "1 rank x 8 threads on 8 CPUs (0-7), not bound", NULL},
    {8, 0, LSI_BINDING_CORE, 3, 0,
     "3 ranks x 2 threads on 8 CPUs (0-7), bound by core", NULL},
    {8, 0, LSI_BINDING_NONE, 3, 0,
     "3 ranks x 2 threads on 8 CPUs (0-7), not bound", NULL},
    {8, 2.5, LSI_BINDING_NUMA, 2, 0,
     "2 ranks x 1 thread on 8 CPUs (0-7), a cgroup quota of 2.5 CPUs, bound by "
     "numa",
     NULL},
    {8, 2.5, LSI_BINDING_CPU, 4, 2,
     "4 ranks x 2 threads on 8 CPUs (0-7), a cgroup quota of 2.5 CPUs, bound "
     "by cpu",
     "warning: 4 ranks x 2 threads share 3 CPUs (limited by the cgroup quota "
     "cpu.max to 2.5) and will slow each other down; use -n 3 --threads 1"},
    {8, 16, LSI_BINDING_CPU, 2, 4,
     "2 ranks x 4 threads on 8 CPUs (0-7), a cgroup quota of 16 CPUs, bound by "
     "cpu",
     NULL},
    {8, 0, LSI_BINDING_CPU, 2, 5,
     "2 ranks x 5 threads on 8 CPUs (0-7), bound by cpu",
     "warning: 2 ranks x 5 threads share 8 CPUs and will slow each other down; "
     "use --threads 4"},
    {2, 0, LSI_BINDING_CPU, 3, 0,
     "3 ranks x 1 thread on 2 CPUs (0-1), not bound",
     "warning: 3 ranks x 1 thread share 2 CPUs (this machine has 8; taskset, a "
     "cpuset or the batch system, for example Slurm's --cpus-per-task, "
     "excludes the other CPUs) and "
     "will slow each other down; use -n 2"},
    {4, 0, LSI_BINDING_CPU, 8, 0,
     "8 ranks x 1 thread on 4 CPUs (0-3), bound by cpu",
     "warning: 8 ranks x 1 thread share 4 CPUs (this machine has 8; taskset, a "
     "cpuset or the batch system, for example Slurm's --cpus-per-task, "
     "excludes the other CPUs) and "
     "will slow each other down; use -n 4"},
    {2, 0, LSI_BINDING_CPU, 4, 2,
     "4 ranks x 2 threads on 2 CPUs (0-1), not bound",
     "warning: 4 ranks x 2 threads share 2 CPUs (this machine has 8; taskset, "
     "a cpuset or the batch system, for example Slurm's --cpus-per-task, "
     "excludes the other CPUs) and "
     "will slow each other down; use -n 2 --threads 1"},
    {1, 0, LSI_BINDING_CORE, 1, 2,
     "1 rank x 2 threads on 1 CPU (0), bound by core",
     "warning: 1 rank x 2 threads share 1 CPU (this machine has 8; taskset, a "
     "cpuset or the batch system, for example Slurm's --cpus-per-task, "
     "excludes the other CPUs) and "
     "will slow each other down; use --threads 1"},
};

static void lines(void **state)
{
    (void)state;
    unsetenv("OMP_NUM_THREADS");
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const placement_case *const c = &cases[i];
        lsi_hardware_thread cpus[8];
        lsi_placement p;
        char text[512];
        const lsi_topology machine = machine_of(cpus, c->cpus);
        assert_ok(lsi_placement_new(&machine, c->quota, c->mode, c->ranks,
                                    c->threads, &p));
        lsi_placement_line(&p, text, sizeof(text));
        assert_string_equal(text, c->line);
        const bool is_crowded =
            lsi_placement_is_crowded(&p, 8, text, sizeof(text));
        assert_int_equal(is_crowded, c->crowded != NULL);
        if (is_crowded)
            assert_string_equal(text, c->crowded);
        lsi_placement_free(&p);
    }
}

static void this_machine(void **state)
{
    (void)state;
    for (int mode = 0; mode <= LSI_BINDING_NONE; mode++) {
        lsi_placement p;
        lsi_cpuset own;
        assert_true(lsi_cpuset_own(&own));
        lsi_placement_here((lsi_binding_mode)mode, 3, 0, &p);
        assert_memory_equal(&p.allowed, &own, sizeof(own));
        assert_true(p.threads >= 1);
        for (int rank = 0; rank < 3; rank++) {
            const lsi_cpuset *const place = lsi_placement_place(&p, rank);
            assert_true(place == NULL || lsi_cpuset_within(place, &own));
        }
        lsi_placement_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines),
        cmocka_unit_test(this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
