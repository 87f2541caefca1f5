/*
 * Variables of launchers, and many jobs that start at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "comm/bootstrap/transports.h"
#include "ranks.h"

static const char *const names[] = {"RANK",
                                    "WORLD_SIZE",
                                    "LOCAL_RANK",
                                    "LOCAL_WORLD_SIZE",
                                    "MASTER_ADDR",
                                    "MASTER_PORT",
                                    "OMPI_COMM_WORLD_RANK",
                                    "OMPI_COMM_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_LOCAL_RANK",
                                    "OMPI_COMM_WORLD_LOCAL_SIZE",
                                    "PMI_RANK",
                                    "PMI_SIZE",
                                    "MPI_LOCALRANKID",
                                    "MPI_LOCALNRANKS",
                                    "SLURM_PROCID",
                                    "SLURM_STEP_NUM_TASKS",
                                    "SLURM_NTASKS",
                                    "SLURM_LOCALID",
                                    "SLURM_STEP_TASKS_PER_NODE",
                                    "SLURM_NODEID",
                                    "LOCKSTEP_TRANSPORT",
                                    "LOCKSTEP_RENDEZVOUS",
                                    "LOCKSTEP_JOB",
                                    "TORCHELASTIC_RUN_ID",
                                    "PMIX_NAMESPACE",
                                    "SLURM_JOB_ID",
                                    "SLURM_STEP_ID"};

static int clear(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
    return 0;
}

/* Sets NAME=VALUE pairs. */
static void set(const char *const *pairs)
{
    for (; *pairs != NULL; pairs += 2)
        setenv(pairs[0], pairs[1], 1);
}

#define SET(...) set((const char *const[]){__VA_ARGS__, NULL})

static void nothing_set_means_one_rank(void **state)
{
    lsi_world world;
    (void)state;
    assert_int_equal(lsi_world_from_env(&world), LS_OK);
    assert_int_equal(world.rank, 0);
    assert_int_equal(world.size, 1);
    ls_group *group = NULL;
    assert_int_equal(ls_group_from_env(&group), LS_OK);
    assert_int_equal(ls_group_size(group), 1);
    assert_int_equal(ls_barrier(group), LS_OK);
    ls_group_close(&group);
}

static void each_launcher_is_understood(void **state)
{
    static const char *const launchers[][4] = {
        {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
         "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
        {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
        {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
         "SLURM_NODEID"}};
    for (int l = 0; l < 4; l++) {
        lsi_world world;
        clear(state);
        SET(launchers[l][0], "2", launchers[l][1], "5", "SLURM_STEP_ID", "0");
        assert_int_equal(lsi_world_from_env(&world), LS_OK);
        assert_int_equal(world.rank, 2);
        assert_int_equal(world.local_rank, 2);
        SET(launchers[l][2], "2", launchers[l][3], "5");
        assert_int_equal(lsi_world_from_env(&world), LS_OK);
        assert_int_equal(world.size, 5);
        assert_int_equal(world.local_size, 5);
    }
}

static ls_status failure(const char *part)
{
    lsi_world world;
    const ls_status status = lsi_world_from_env(&world);
    assert_int_not_equal(status, LS_OK);
    if (strstr(ls_last_error(), part) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", part, ls_last_error());
    return status;
}

static void contradictions_name_both(void **state)
{
    (void)state;
    SET("RANK", "1", "WORLD_SIZE", "4", "OMPI_COMM_WORLD_RANK", "1",
        "OMPI_COMM_WORLD_SIZE", "3");
    assert_int_equal(failure("WORLD_SIZE is 4 but OMPI_COMM_WORLD_SIZE is 3"),
                     LS_ERR_ARGUMENT);
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    lsi_world world;
    assert_int_equal(lsi_world_from_env(&world), LS_OK);
    /* A batch script's own variables are no second opinion. */
    SET("SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "1");
    assert_int_equal(lsi_world_from_env(&world), LS_OK);
    assert_int_equal(world.size, 4);
}

/* Whether ranks are told to meet by MPI. */
static bool by_mpi(void)
{
    lsi_world world;
    assert_int_equal(lsi_world_from_env(&world), LS_OK);
    return world.transport != NULL && strcmp(world.transport->name, "mpi") == 0;
}

static void ranks_of_several_machines_meet_by_mpi(void **state)
{
    SET("OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "4",
        "OMPI_COMM_WORLD_LOCAL_SIZE", "4");
    assert_false(by_mpi());
    SET("LOCKSTEP_TRANSPORT", "mpi");
    assert_true(by_mpi());
    clear(state);
    SET("PMI_RANK", "1", "PMI_SIZE", "4", "MPI_LOCALNRANKS", "2");
    assert_true(by_mpi());
    clear(state);
    SET("SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "3", "SLURM_NODEID", "0",
        "SLURM_STEP_ID", "1");
    assert_false(by_mpi());
    SET("SLURM_STEP_TASKS_PER_NODE", "2,1");
    assert_true(by_mpi());
    SET("SLURM_STEP_TASKS_PER_NODE", "3");
    assert_false(by_mpi());
    clear(state);
    SET("PMI_RANK", "1", "PMI_SIZE", "4", "SLURM_PROCID", "1", "SLURM_NODEID",
        "0", "SLURM_STEP_TASKS_PER_NODE", "2(x2)");
    assert_true(by_mpi()); /* srun --mpi=pmi2 */
    SET("MPI_LOCALNRANKS", "4");
    assert_false(by_mpi()); /* mpirun, started by srun */
    clear(state);
    SET("LOCKSTEP_TRANSPORT", "mpi"); /* one rank meets nobody */
    assert_false(by_mpi());
}

static const char *transport_name(void)
{
    lsi_world world;
    assert_int_equal(lsi_world_from_env(&world), LS_OK);
    return world.transport == NULL ? "none" : world.transport->name;
}

static void ranks_with_a_store_meet_there(void **state)
{
    SET("RANK", "1", "WORLD_SIZE", "4", "LOCAL_WORLD_SIZE", "2");
    assert_string_equal(transport_name(), "mpi");
    SET("LOCKSTEP_RENDEZVOUS", "h0:29400");
    assert_string_equal(transport_name(), "ucx");
    SET("LOCKSTEP_TRANSPORT", "mpi");
    assert_string_equal(transport_name(), "mpi");
    clear(state);
    SET("RANK", "1", "WORLD_SIZE", "4", "LOCAL_WORLD_SIZE", "4",
        "LOCKSTEP_RENDEZVOUS", "h0:29400");
    assert_string_equal(transport_name(), "shm");
    SET("LOCKSTEP_TRANSPORT", "ucx");
    assert_string_equal(transport_name(), "ucx");
    clear(state);
    SET("RANK", "1", "WORLD_SIZE", "4", "LOCAL_WORLD_SIZE", "2",
        "LOCKSTEP_RENDEZVOUS", "");
    assert_string_equal(transport_name(), "mpi");
}

/* Of rank 5 of 7 on a node, by Slurm's list; 7 if that says nothing. */
static void slurm_says_how_many_share_a_node(void **state)
{
    static const struct {
        const char *list, *node;
        int want;
    } cases[] = {{"2(x3),1", "0", 2},
                 {"2(x3),1", "2", 2},
                 {"2(x3),1", "3", 1},
                 {"2(x3),1", "4", 7},
                 {"7", "0", 7},
                 {"1(x7)", "6", 1},
                 {"4,2,1", "1", 2},
                 {"1,3(x2)", "2", 3},
                 {"2(x3)", "0", 7},
                 {"1(x2)", "0", 7},
                 {"", "0", 7},
                 {"2(x3),", "0", 7},
                 {"2(x3", "0", 7},
                 {"2x3,1", "0", 7},
                 {"0,7", "1", 7},
                 {"-1,8", "1", 7},
                 {"7(x0)", "0", 7},
                 {"3 4", "0", 7},
                 {"99999999999999999999", "0", 7}};
    clear(state);
    SET("SLURM_PROCID", "5", "SLURM_STEP_NUM_TASKS", "7", "SLURM_STEP_ID", "0");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        lsi_world world;
        SET("SLURM_STEP_TASKS_PER_NODE", cases[i].list, "SLURM_NODEID",
            cases[i].node);
        assert_int_equal(lsi_world_from_env(&world), LS_OK);
        if (world.local_size != cases[i].want)
            fail_msg("%s: %d ranks on node %s, not %d", cases[i].list,
                     world.local_size, cases[i].node, cases[i].want);
    }
}

/* It is told to be task 0 of as many as the job may have. */
static void a_batch_script_is_no_rank(void **state)
{
    static const char *const steps[] = {"4294967291", "4294967290", ""};
    lsi_world world;
    (void)state;
    SET("SLURM_JOB_ID", "7", "SLURM_PROCID", "0", "SLURM_LOCALID", "0",
        "SLURM_NODEID", "0", "SLURM_NTASKS", "4");
    assert_int_equal(lsi_world_from_env(&world), LS_OK);
    assert_int_equal(world.size, 1);
    SET("SLURM_STEP_NUM_TASKS", "4");
    for (int i = 0; i < 3; i++) {
        SET("SLURM_STEP_ID", steps[i]);
        assert_int_equal(lsi_world_from_env(&world), LS_OK);
        assert_int_equal(world.size, 1);
    }
    SET("SLURM_STEP_ID", "3");
    assert_int_equal(lsi_world_from_env(&world), LS_OK);
    assert_int_equal(world.size, 4);
}

/* The variables of a step describe its tasks, not the processes that they
 * start. */
static void slurm_may_be_another_launchers_launcher(void **state)
{
    lsi_world world;
    (void)state;
    SET("SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "2", "SLURM_NODEID", "0",
        "SLURM_STEP_TASKS_PER_NODE", "1(x2)", "RANK", "1", "WORLD_SIZE", "2");
    assert_int_equal(lsi_world_from_env(&world), LS_OK);
    assert_int_equal(world.local_size, 2);
    SET("RANK", "0", "WORLD_SIZE", "4");
    assert_int_equal(lsi_world_from_env(&world), LS_OK);
    assert_int_equal(world.local_size, 4);
}

static void nonsense_is_an_error(void **state)
{
    SET("RANK", "1");
    failure("RANK is set, but the variable for");
    SET("WORLD_SIZE", "one");
    failure("WORLD_SIZE is 'one'");
    SET("WORLD_SIZE", "1");
    failure("RANK is 1, but WORLD_SIZE is 1");
    SET("WORLD_SIZE", "-1");
    failure("WORLD_SIZE is '-1'");
    SET("WORLD_SIZE", "4", "LOCAL_WORLD_SIZE", "2", "LOCKSTEP_TRANSPORT",
        "shm");
    assert_int_equal(failure("only 2 of 4 ranks are on this machine"),
                     LS_ERR_UNSUPPORTED);
    SET("LOCKSTEP_TRANSPORT", "tcp");
    failure("it should be shm, ucx or mpi");
    clear(state);
    SET("WORLD_SIZE", "100000", "RANK", "0");
    failure("at most");
}

static void jobs_meet_at_different_places(void **state)
{
    lsi_world a, b;
    (void)state;
    SET("RANK", "0", "WORLD_SIZE", "2", "MASTER_ADDR", "localhost",
        "MASTER_PORT", "29500");
    assert_int_equal(lsi_world_from_env(&a), LS_OK);
    setenv("MASTER_PORT", "29501", 1);
    assert_int_equal(lsi_world_from_env(&b), LS_OK);
    assert_string_not_equal(a.name, b.name);
    setenv("RANK", "1", 1);
    assert_int_equal(lsi_world_from_env(&a), LS_OK);
    assert_string_equal(a.name, b.name);
    setenv("LOCKSTEP_JOB", "x", 1);
    assert_int_equal(lsi_world_from_env(&a), LS_OK);
    setenv("MASTER_PORT", "29502", 1);
    assert_int_equal(lsi_world_from_env(&b), LS_OK);
    assert_string_equal(a.name, b.name); /* the job's name says it all */
}

static void add_ranks(ls_group *group, void *argument)
{
    int64_t sum = ls_group_rank(group) + 1;
    (void)argument;
    CHECK_OK(ls_all_reduce(group, &sum, &sum, 1, LS_I64, LS_REDUCE_SUM));
    CHECK(sum == 3);
}

static void fifty_jobs_start_at_once(void **state)
{
    enum { JOBS = 50 };
    pid_t pids[JOBS][2];
    (void)state;
    for (int j = 0; j < JOBS; j++)
        start_processes(2, add_ranks, NULL, pids[j]);
    for (int j = 0; j < JOBS; j++)
        for (int r = 0; r < 2; r++)
            assert_int_equal(wait_process(pids[j][r]), 0);
}

/* One process after another joins groups of the same name. */
static void meet_again(ls_group *group, void *argument)
{
    (void)argument;
    for (int i = 0; i < 20; i++) {
        ls_group *again = NULL;
        CHECK_OK(ls_group_from_env(&again));
        CHECK(ls_group_rank(again) == ls_group_rank(group));
        ls_group_close(&again);
    }
    CHECK_OK(ls_barrier(group));
}

static void a_job_can_meet_again(void **state)
{
    (void)state;
    run_processes(3, meet_again, NULL);
}

static void believe_in_another_size(ls_group *group, void *argument)
{
    ls_group *again = NULL;
    (void)argument;
    setenv("LOCKSTEP_TIMEOUT", "5", 1);
    setenv("WORLD_SIZE", ls_group_rank(group) == 0 ? "2" : "3", 1);
    unsetenv("LOCAL_WORLD_SIZE");
    CHECK(ls_group_from_env(&again) == LS_ERR_ARGUMENT);
    CHECK(strstr(ls_last_error(), "world size mismatch") != NULL);
}

static void ranks_must_agree_about_the_size(void **state)
{
    (void)state;
    run_processes(2, believe_in_another_size, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_set_means_one_rank, clear),
        cmocka_unit_test_setup(each_launcher_is_understood, clear),
        cmocka_unit_test_setup(contradictions_name_both, clear),
        cmocka_unit_test_setup(ranks_of_several_machines_meet_by_mpi, clear),
        cmocka_unit_test_setup(ranks_with_a_store_meet_there, clear),
        cmocka_unit_test_setup(slurm_says_how_many_share_a_node, clear),
        cmocka_unit_test_setup(a_batch_script_is_no_rank, clear),
        cmocka_unit_test_setup(slurm_may_be_another_launchers_launcher, clear),
        cmocka_unit_test_setup(nonsense_is_an_error, clear),
        cmocka_unit_test_setup(jobs_meet_at_different_places, clear),
        cmocka_unit_test_setup(fifty_jobs_start_at_once, clear),
        cmocka_unit_test_setup(a_job_can_meet_again, clear),
        cmocka_unit_test_setup(ranks_must_agree_about_the_size, clear),
    };
    return cmocka_run_group_tests_name("environment", tests, NULL, NULL);
}
