/*
 * Groups that are opened by their name: with and without a store, by members
 * only, many at a time, in any order; and what is said when it goes wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ranks.h"
#include "resources.h"
#include "shared_store.h"

static const int rank_counts[] = {1, 2, 3, 5, 8};

enum { RANK_COUNTS = sizeof(rank_counts) / sizeof(rank_counts[0]), MOST = 8 };

/* ---- members as threads -------------------------------------------------- */

typedef struct member {
    const char *name;
    int rank, size;
    const ls_store *store;
    double seconds;
    ls_status status;
    char message[512];
} member;

static void check_sum(ls_group *group, int rank, int size)
{
    int64_t x = rank + 1, all = 0;
    CHECK(ls_group_rank(group) == rank && ls_group_size(group) == size);
    CHECK_OK(ls_all_reduce(group, &x, &all, 1, LS_I64, LS_REDUCE_SUM));
    CHECK(all == (int64_t)size * (size + 1) / 2);
}

static void *join(void *context)
{
    member *const m = context;
    ls_group *group = NULL;
    m->status =
        ls_group_open(&group, m->name, m->rank, m->size, m->store, m->seconds);
    snprintf(m->message, sizeof(m->message), "%s", ls_last_error());
    CHECK((m->status == LS_OK) == (group != NULL));
    if (m->status == LS_OK)
        check_sum(group, m->rank, m->size);
    ls_group_close(&group);
    return NULL;
}

static void join_all(member *members, int n)
{
    pthread_t threads[MOST];
    for (int i = 0; i < n; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, join, &members[i]),
                         0);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

static void name_of(char *name, size_t bytes, const char *what, int i)
{
    snprintf(name, bytes, "test %s %d %ld", what, i, (long)getpid());
}

static void by_threads(void **state)
{
    char name[64];
    const ls_store *store = new_shared_store();
    (void)state;
    for (int s = 0; s < RANK_COUNTS; s++)
        for (int with = 0; with < 2; with++) {
            member members[MOST] = {0};
            const int size = rank_counts[s];
            name_of(name, sizeof(name), with ? "with" : "without", size);
            for (int r = 0; r < size; r++)
                members[r] = (member){.name = name,
                                      .rank = r,
                                      .size = size,
                                      .store = with ? store : NULL,
                                      .seconds = -1};
            join_all(members, size);
            for (int r = 0; r < size; r++)
                assert_int_equal(members[r].status, LS_OK);
        }
}

/* ---- members as processes ------------------------------------------------ */

static ls_group *open_as(const char *name, int rank, int size)
{
    ls_group *group = NULL;
    CHECK_OK(ls_group_open(&group, name, rank, size, NULL, 30));
    return group;
}

/*
 * All ranks, then the even and the odd ones, then neighbours in a ring, each
 * opened by its members only; used together and closed in another order.
 */
static void play(int rank, int size, const char *base)
{
    char name[128];
    snprintf(name, sizeof(name), "%s all", base);
    ls_group *all = open_as(name, rank, size);
    snprintf(name, sizeof(name), "%s half %d", base, rank % 2);
    const int halves = (size + 1 - rank % 2) / 2;
    ls_group *half = open_as(name, rank / 2, halves);
    check_sum(all, rank, size);
    check_sum(half, rank / 2, halves);
    ls_group *pair[2] = {NULL, NULL};
    for (int i = 0; i < size && size > 1; i++) { /* i and the next one */
        const int next = (i + 1) % size;
        if (rank != i && rank != next)
            continue;
        snprintf(name, sizeof(name), "%s pair %d", base, i);
        pair[rank == i] = open_as(name, rank != i, 2);
    }
    for (int i = 0; i < size && size > 1; i++)
        if (rank == i || rank == (i + 1) % size)
            check_sum(pair[rank == i], rank != i, 2);
    ls_group_close(&all);
    check_sum(half, rank / 2, halves);
    ls_group_close(&pair[1]);
    ls_group_close(&half);
    ls_group_close(&pair[0]);
}

static void by_processes(void **state)
{
    char base[64];
    (void)state;
    for (int s = 0; s < RANK_COUNTS; s++) {
        pid_t pids[MOST];
        const int size = rank_counts[s];
        name_of(base, sizeof(base), "processes", size);
        for (int r = 0; r < size; r++) {
            pids[r] = fork();
            assert_true(pids[r] >= 0);
            if (pids[r] == 0) {
                play(r, size, base);
                _exit(0);
            }
        }
        for (int r = 0; r < size; r++)
            assert_int_equal(wait_process(pids[r]), 0);
    }
}

/* ---- launchers ----------------------------------------------------------- */

/* Variables of mpirun, srun and torchrun may belong to another job: they are
 * ignored. */
static void launchers_are_not_asked(void **state)
{
    static const char *const variables[][2] = {
        {"RANK", "7"},
        {"WORLD_SIZE", "two"},
        {"LOCAL_RANK", "-1"},
        {"LOCAL_WORLD_SIZE", "99"},
        {"MASTER_ADDR", "nowhere.invalid"},
        {"MASTER_PORT", "none"},
        {"OMPI_COMM_WORLD_RANK", "5"},
        {"OMPI_COMM_WORLD_SIZE", "6"},
        {"PMI_RANK", "3"},
        {"PMI_SIZE", "4"},
        {"SLURM_PROCID", "1"},
        {"SLURM_NTASKS", "12"},
        {"LOCKSTEP_TRANSPORT", "mpi"},
        {"LOCKSTEP_RENDEZVOUS", "nowhere.invalid:1"},
        {"LOCKSTEP_JOB", "another"}};
    const size_t n = sizeof(variables) / sizeof(variables[0]);
    for (size_t i = 0; i < n; i++)
        setenv(variables[i][0], variables[i][1], 1);
    by_threads(state);
    by_processes(state);
    for (size_t i = 0; i < n; i++)
        unsetenv(variables[i][0]);
}

/* ---- again and again ----------------------------------------------------- */

static void leaves_nothing(void **state)
{
    char name[64];
    int before = 0;
    (void)state;
    for (int i = 0; i < 60; i++) {
        name_of(name, sizeof(name), "again", 0); /* the same name each time */
        member members[2] = {{name, 0, 2, NULL, 30, LS_OK, ""},
                             {name, 1, 2, NULL, 30, LS_OK, ""}};
        join_all(members, 2);
        assert_int_equal(members[0].status, LS_OK);
        assert_int_equal(members[1].status, LS_OK);
        if (i == 9)
            before = count_entries("/proc/self/fd");
    }
    assert_int_equal(count_entries("/proc/self/fd"), before);
}

/* ---- what goes wrong ----------------------------------------------------- */

static void expect(const member *m, ls_status status, const char *text)
{
    if (m->status != status || strstr(m->message, text) == NULL)
        fail_msg("rank %d: %s, \"%s\", not %s with \"%s\"", m->rank,
                 ls_status_name(m->status), m->message, ls_status_name(status),
                 text);
}

static void disagreements(void **state)
{
    char name[64];
    (void)state;
    for (int with = 0; with < 2; with++) {
        const ls_store *const store = with ? new_shared_store() : NULL;
        name_of(name, sizeof(name), "sizes", with);
        member sizes[2] = {{name, 0, 2, store, 20, LS_OK, ""},
                           {name, 1, 3, store, 20, LS_OK, ""}};
        join_all(sizes, 2);
        for (int r = 0; r < 2; r++) {
            expect(&sizes[r], with ? LS_ERR_MISMATCH : LS_ERR_ARGUMENT,
                   "rank 1 was started with 3 ranks");
            expect(&sizes[r], sizes[r].status, name);
        }
        name_of(name, sizeof(name), "late", with);
        member late[1] = {{name, with, 2, store, 0.1, LS_OK, ""}};
        join_all(late, 1);
        expect(&late[0], LS_ERR_TIMEOUT,
               with ? "1 of 2 ranks did not join within 0.1 s: rank 0"
                    : "missing ranks: 1");
    }
    name_of(name, sizeof(name), "twice", 0);
    member twice[3] = {{name, 0, 3, NULL, 20, LS_OK, ""},
                       {name, 1, 3, NULL, 20, LS_OK, ""},
                       {name, 1, 3, NULL, 20, LS_OK, ""}};
    join_all(twice, 3);
    expect(&twice[0], LS_ERR_ARGUMENT, "two processes were started as rank 1");
    expect(&twice[0], LS_ERR_ARGUMENT, name);
}

static void bad_arguments(void **state)
{
    ls_group *group = NULL;
    const ls_store half = {.set = new_shared_store()->set};
    (void)state;
    assert_int_equal(ls_group_open(&group, "a", 2, 2, NULL, 1),
                     LS_ERR_ARGUMENT);
    assert_int_equal(ls_group_open(&group, "a", 0, 0, NULL, 1),
                     LS_ERR_ARGUMENT);
    assert_int_equal(ls_group_open(&group, "", 0, 1, NULL, 1), LS_ERR_ARGUMENT);
    assert_int_equal(ls_group_open(&group, "a", 0, 2, &half, 1),
                     LS_ERR_ARGUMENT);
    /* Before anybody is waited for. */
    assert_int_equal(ls_group_open(&group, "a", 0, 2, NULL, NAN),
                     LS_ERR_ARGUMENT);
    assert_int_equal(ls_group_open(&group, "a", 0, 2, NULL, 1e10),
                     LS_ERR_ARGUMENT);
    assert_null(group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_threads),
        cmocka_unit_test(by_processes),
        cmocka_unit_test(launchers_are_not_asked),
        cmocka_unit_test(leaves_nothing),
        cmocka_unit_test(disagreements),
        cmocka_unit_test(bad_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
