/*
 * Dividing cpus between ranks: every machine up to 24 cpus, every job; and
 * exact places on some machines that hwloc makes up.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/binding.h"
#include "testing.h"

#ifdef LOCKSTEP_HWLOC
enum { CAN_DESCRIBE = 1 };
#else
enum { CAN_DESCRIBE = 0 };
#endif

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

/* ---- exact places ----------------------------------------------------- */

enum { MOST_RANKS = 8 };

/* A machine as hwloc describes it; of its CPUs those in `allowed` (NULL: all).
 */
typedef struct machine_case {
    const char *synthetic, *allowed;
    lsi_binding_mode mode;
    int ranks;
    const char *places[MOST_RANKS];
} machine_case;

#define CORE  LSI_BINDING_CORE
#define NUMA  LSI_BINDING_NUMA
#define PLAIN LSI_BINDING_CPU

static const char one_by_two[] = "pack:1 core:2 pu:1";
static const char two_packages[] = "pack:2 core:8 pu:2";
static const char two_nodes[] = "pack:2 numa:1 core:8 pu:2";
static const char four_nodes[] = "numa:4 core:16 pu:1";
static const char small_nodes[] = "numa:2 core:4 pu:2";
static const char holes[] = "1-6,9,12-13";

static const machine_case machine_cases[] = {
    {one_by_two, NULL, PLAIN, 1, {"0-1"}},
    {one_by_two, NULL, PLAIN, 2, {"0", "1"}},
    {one_by_two, NULL, PLAIN, 3, {"none", "none", "none"}},
    {one_by_two, NULL, PLAIN, 4, {"0", "0", "1", "1"}},
    {one_by_two, NULL, PLAIN, 5, {"none", "none", "none", "none", "none"}},
    {one_by_two, "1", PLAIN, 3, {"1", "1", "1"}},
    {one_by_two, NULL, CORE, 1, {"0-1"}},
    {one_by_two, NULL, CORE, 2, {"0", "1"}},
    {one_by_two, NULL, CORE, 3, {"0", "0", "1"}},
    {one_by_two, NULL, CORE, 5, {"0", "0", "0", "1", "1"}},
    {one_by_two, NULL, CORE, 8, {"0", "0", "0", "0", "1", "1", "1", "1"}},
    {one_by_two, NULL, NUMA, 3, {"0-1", "0-1", "0-1"}},
    {two_packages, NULL, CORE, 1, {"0-31"}},
    {two_packages, NULL, CORE, 2, {"0-15", "16-31"}},
    {two_packages, NULL, CORE, 3, {"0-11", "12-21", "22-31"}},
    {two_packages, NULL, PLAIN, 3, {"0-11", "12-21", "22-31"}},
    {two_packages, NULL, CORE, 5, {"0-7", "8-13", "14-19", "20-25", "26-31"}},
    {two_packages,
     NULL,
     CORE,
     8,
     {"0-3", "4-7", "8-11", "12-15", "16-19", "20-23", "24-27", "28-31"}},
    {two_nodes, NULL, CORE, 2, {"0-15", "16-31"}},
    {two_nodes, NULL, CORE, 3, {"0-7", "8-15", "16-31"}},
    {two_nodes, NULL, NUMA, 1, {"0-31"}},
    {two_nodes, NULL, NUMA, 3, {"0-15", "0-15", "16-31"}},
    {four_nodes, NULL, NUMA, 1, {"0-63"}},
    {four_nodes, NULL, NUMA, 2, {"0-31", "32-63"}},
    {four_nodes, NULL, NUMA, 3, {"0-31", "32-47", "48-63"}},
    {four_nodes, NULL, NUMA, 5, {"0-15", "0-15", "16-31", "32-47", "48-63"}},
    {four_nodes,
     NULL,
     NUMA,
     8,
     {"0-15", "0-15", "16-31", "16-31", "32-47", "32-47", "48-63", "48-63"}},
    {four_nodes, NULL, CORE, 1, {"0-63"}},
    {four_nodes, NULL, CORE, 2, {"0-31", "32-63"}},
    {four_nodes, NULL, CORE, 3, {"0-21", "22-42", "43-63"}},
    {four_nodes, NULL, CORE, 5, {"0-7", "8-15", "16-31", "32-47", "48-63"}},
    {four_nodes, NULL, PLAIN, 5, {"0-12", "13-25", "26-38", "39-51", "52-63"}},
    {four_nodes,
     NULL,
     CORE,
     8,
     {"0-7", "8-15", "16-23", "24-31", "32-39", "40-47", "48-55", "56-63"}},
    {small_nodes, holes, CORE, 1, {"1-6,9,12-13"}},
    {small_nodes, holes, CORE, 2, {"1-6", "9,12-13"}},
    {small_nodes, holes, CORE, 3, {"1-3", "4-6", "9,12-13"}},
    {small_nodes, holes, CORE, 5, {"1-3", "4-5", "6", "9", "12-13"}},
    {small_nodes,
     holes,
     CORE,
     8,
     {"1", "1", "2-3", "4-5", "6", "9", "9", "12-13"}},
    {small_nodes, holes, NUMA, 2, {"1-6", "9,12-13"}},
    {small_nodes, holes, NUMA, 3, {"1-6", "1-6", "9,12-13"}},
    /* No CPU of a node is allowed: it is as if it were not there. */
    {small_nodes, "0-7", NUMA, 2, {"0-7", "0-7"}},
    {small_nodes, "8-15", CORE, 2, {"8-11", "12-15"}},
    {small_nodes, "5", CORE, 2, {"5", "5"}},
    {four_nodes, NULL, LSI_BINDING_NONE, 2, {"none", "none"}},
};

static void check_places(const lsi_topology *machine, const machine_case *c)
{
    lsi_cpuset sets[MOST_RANKS];
    assert_ok(lsi_binding_divide(machine, c->mode, c->ranks, sets));
    for (int rank = 0; rank < c->ranks; rank++) {
        char text[128];
        lsi_cpuset_text(&sets[rank], text, sizeof(text));
        if (strcmp(text, c->places[rank]) != 0)
            fail_msg("%s, %s, rank %d of %d: %s, not %s", c->synthetic,
                     lsi_binding_name(c->mode), rank, c->ranks, text,
                     c->places[rank]);
    }
}

static void described_machines(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(machine_cases) && CAN_DESCRIBE; i++) {
        const machine_case *const c = &machine_cases[i];
        lsi_topology machine;
        lsi_cpuset allowed;
        setenv("HWLOC_SYNTHETIC", c->synthetic, 1);
        assert_ok(lsi_topology_read(&machine));
        assert_true(machine.is_described);
        if (c->allowed != NULL) {
            assert_true(lsi_cpuset_parse(c->allowed, &allowed));
            assert_ok(lsi_topology_restrict(&machine, &allowed));
        }
        check_places(&machine, c);
        lsi_topology_free(&machine);
    }
    unsetenv("HWLOC_SYNTHETIC");
}

/* 8 fast cores of two threads each, then 16 slow ones. */
static void hybrid_cores_are_dealt_by_kind(void **state)
{
    (void)state;
    static const machine_case cases[] = {
        {"hybrid", NULL, CORE, 1, {"0-31"}},
        {"hybrid", NULL, CORE, 2, {"0-7,16-23", "8-15,24-31"}},
        {"hybrid", NULL, CORE, 3, {"0-5,16-20", "6-11,21-25", "12-15,26-31"}},
        {"hybrid",
         NULL,
         CORE,
         5,
         {"0-3,16-18", "4-7,19-21", "8-11,22-24", "12-13,25-28",
          "14-15,29-31"}},
        {"hybrid",
         NULL,
         CORE,
         8,
         {"0-1,16-17", "2-3,18-19", "4-5,20-21", "6-7,22-23", "8-9,24-25",
          "10-11,26-27", "12-13,28-29", "14-15,30-31"}},
        {"hybrid", NULL, PLAIN, 2, {"0-19", "20-31"}},
    };
    lsi_hardware_thread cpus[32];
    for (int i = 0; i < 32; i++)
        cpus[i] = (lsi_hardware_thread){.cpu = i,
                                        .core = i < 16 ? i / 2 : i - 8,
                                        .kind = i < 16,
                                        .allowed = true};
    const lsi_topology machine = {.cpus = cpus, .n = 32};
    for (size_t i = 0; i < TEST_COUNT(cases); i++)
        check_places(&machine, &cases[i]);
}

/* Any three kinds: every rank gets a core, and none two more than another. */
static void many_kinds(void **state)
{
    (void)state;
    for (int code = 0; code < 6 * 6 * 6; code++) {
        const int counts[] = {code % 6, code / 6 % 6, code / 36};
        lsi_hardware_thread cpus[15];
        lsi_topology machine = {.cpus = cpus};
        for (int kind = 2; kind >= 0; kind--) {
            for (int i = 0; i < counts[kind]; i++, machine.n++)
                cpus[machine.n] = (lsi_hardware_thread){.cpu = (int)machine.n,
                                                        .core = (int)machine.n,
                                                        .kind = kind,
                                                        .allowed = true};
        }
        for (int ranks = 1; ranks <= (int)machine.n; ranks++) {
            lsi_cpuset sets[15];
            int all = 0;
            assert_ok(lsi_binding_divide(&machine, CORE, ranks, sets));
            for (int rank = 0; rank < ranks; rank++) {
                const int own = lsi_cpuset_count(&sets[rank]);
                assert_in_range(own, (int)machine.n / ranks,
                                ((int)machine.n + ranks - 1) / ranks);
                all += own;
            }
            assert_int_equal(all, machine.n);
        }
    }
}

static void threads_follow_from_places(void **state)
{
    (void)state;
    static const struct {
        const char *sets[3];
        int ranks, available, want;
    } cases[] = {
        {{"none", "none"}, 2, 8, 4}, /* not bound */
        {{"0-3", "4-7"}, 2, 8, 4},   /* as many each */
        {{"0-3", "4-7"}, 2, 3, 1},   /* a quota */
        {{"0-1", "2-7"}, 2, 8, 2},   /* who has least */
        {{"0-7", "0-7"}, 2, 8, 4},   /* shared by all */
        {{"0-3", "0-3", "4-7"}, 3, 8, 2}, {{"0", "0", "0"}, 3, 1, 1},
        {{"0-2", "0-2", "0-2"}, 3, 3, 1},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        lsi_cpuset sets[3] = {{{0}}};
        for (int rank = 0; rank < cases[i].ranks; rank++)
            (void)lsi_cpuset_parse(cases[i].sets[rank], &sets[rank]);
        assert_int_equal(
            lsi_binding_threads(CORE, sets, cases[i].ranks, cases[i].available),
            cases[i].want);
        assert_int_equal(lsi_binding_threads(PLAIN, sets, cases[i].ranks,
                                             cases[i].available),
                         cases[i].available / cases[i].ranks > 0
                             ? cases[i].available / cases[i].ranks
                             : 1);
    }
}

static void names(void **state)
{
    (void)state;
    char all[64] = "";
    for (int mode = 0; mode <= LSI_BINDING_NONE; mode++) {
        const char *const name = lsi_binding_name((lsi_binding_mode)mode);
        assert_int_equal(lsi_binding_parse(name), mode);
        strcat(strcat(all, mode > 0 ? "|" : ""), name);
    }
    assert_string_equal(all, LSI_BINDING_NAMES);
}

/* ---- this machine ----------------------------------------------------- */

/* Exactly the CPUs of this process's affinity are allowed, each once. */
static void finds_own_cpus(void **state)
{
    (void)state;
    lsi_cpuset own, found = {{0}};
    lsi_topology machine;
    int n = 0;
    assert_true(lsi_cpuset_own(&own));
    assert_ok(lsi_topology_read(&machine));
    assert_false(machine.is_described);
    for (size_t i = 0; i < machine.n; i++) {
        if (!machine.cpus[i].allowed)
            continue;
        lsi_cpuset_add(&found, machine.cpus[i].cpu);
        n++;
    }
    assert_int_equal(n, lsi_cpuset_count(&own));
    assert_memory_equal(&found, &own, sizeof(own));
    lsi_topology_free(&machine);
}

/* In a child: bound to one cpu, ranks go nowhere else. */
static void respects_the_outer_set(void **state)
{
    (void)state;
    lsi_cpuset own, one = {{0}};
    int cpu = 0;
    assert_true(lsi_cpuset_own(&own));
    while (!lsi_cpuset_has(&own, cpu))
        cpu++;
    lsi_cpuset_add(&one, cpu);
    const pid_t child = fork();
    if (child == 0) {
        lsi_cpuset sets[3];
        lsi_topology machine;
        bool good = lsi_cpuset_bind(&one) &&
                    lsi_topology_read(&machine) == LS_OK &&
                    lsi_binding_divide(&machine, CORE, 3, sets) == LS_OK;
        for (int rank = 0; rank < 3 && good; rank++)
            good = memcmp(&sets[rank], &one, sizeof(one)) == 0;
        _exit(good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void what_is_not_there_is_refused(void **state)
{
    (void)state;
    lsi_hardware_thread cpus[] = {{.cpu = 3, .allowed = true}, {.cpu = 4}};
    lsi_topology machine = {.cpus = cpus, .n = 2};
    lsi_cpuset four = {{0}};
    lsi_cpuset_add(&four, 4);
    assert_error(lsi_topology_restrict(&machine, &four), LS_ERR_ARGUMENT,
                 "is not allowed to run on any of the selected CPUs");
    assert_true(cpus[0].allowed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_machine_and_job),
        cmocka_unit_test(described_machines),
        cmocka_unit_test(hybrid_cores_are_dealt_by_kind),
        cmocka_unit_test(many_kinds),
        cmocka_unit_test(threads_follow_from_places),
        cmocka_unit_test(names),
        cmocka_unit_test(finds_own_cpus),
        cmocka_unit_test(respects_the_outer_set),
        cmocka_unit_test(what_is_not_there_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
