/*
 * Groups that are opened by their name and span nodes: LOCKSTEP_HOSTID makes a
 * node of some processes of this machine, which UCX then joins. Skipped where
 * UCX is missing.
 */
#include "testing.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/module.h"
#include "comm/state/channels.h"
#include "ranks.h"
#include "resources.h"
#include "shared_store.h"

enum { MOST = 8, SKIPPED = 77 };

/* UCX does not free all memory of its endpoints when a process ends. */
/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c) */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libucs";
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c) */

static const ls_store *store;

/* ---- processes ----------------------------------------------------------- */

typedef void part(int rank, int size);

/* nodes[r]: on which node rank r is. */
static void start(const char *nodes, part *play, pid_t *pids)
{
    const int size = (int)strlen(nodes);
    store = new_shared_store();
    for (int r = 0; r < size; r++) {
        pids[r] = fork();
        assert_true(pids[r] >= 0);
        if (pids[r] != 0)
            continue;
        const char host[] = {nodes[r], '\0'};
        alarm(is_sanitized ? 200 : 100);
        setenv("LOCKSTEP_HOSTID", host, 1);
        play(r, size);
        exit(0); /* which leaves the wire */
    }
}

static void run(const char *nodes, part *play)
{
    pid_t pids[MOST];
    start(nodes, play, pids);
    for (size_t r = 0; r < strlen(nodes); r++)
        assert_int_equal(wait_process(pids[r]), 0);
}

static ls_group *open_named(const char *name, int rank, int size)
{
    ls_group *group = NULL;
    CHECK_OK(ls_group_open(&group, name, rank, size, store, 30));
    CHECK(ls_group_rank(group) == rank && ls_group_size(group) == size);
    return group;
}

static void check_sums(ls_group *group)
{
    enum { COUNT = 5003 };
    static _Thread_local int32_t x[COUNT], sum[COUNT];
    const int rank = ls_group_rank(group), size = ls_group_size(group);
    for (size_t n = 1; n <= COUNT; n += COUNT - 1) {
        for (size_t i = 0; i < n; i++)
            x[i] = (int32_t)i * (rank + 1);
        CHECK_OK(ls_all_reduce(group, x, sum, n, LS_I32, LS_REDUCE_SUM));
        for (size_t i = 0; i < n; i++)
            CHECK(sum[i] == (int32_t)i * size * (size + 1) / 2);
    }
}

/* ---- many groups --------------------------------------------------------- */

static void span(int rank, int size)
{
    ls_group *group = open_named("all", rank, size), *half = NULL;
    CHECK(lsi_spans_nodes(group));
    check_sums(group);
    CHECK_OK(ls_group_split(group, rank % 2, rank, &half));
    ls_group_close(&group);
    check_sums(half);
    ls_group_close(&half);
}

static void ranks_of_several_nodes(void **state)
{
    static const char *const places[] = {"ab", "aab", "abcab", "aabbbcca"};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(places); i++)
        run(places[i], span);
}

/*
 * All, each pair of neighbours, each opened by its members only; in use at the
 * same time, and closed in another order on each rank.
 */
static void many(int rank, int size)
{
    ls_group *groups[3] = {open_named("all", rank, size)};
    for (int i = 0; i < size; i++) {
        char name[32];
        const int next = (i + 1) % size;
        snprintf(name, sizeof(name), "pair %d", i);
        if (rank == i || rank == next)
            groups[rank == i ? 1 : 2] = open_named(name, rank != i, 2);
    }
    for (int times = 0; times < 3; times++) {
        for (int i = 0; i < size; i++)
            if (rank == i || rank == (i + 1) % size)
                check_sums(groups[rank == i ? 1 : 2]);
        check_sums(groups[0]);
    }
    for (int i = 0; i < 3; i++)
        ls_group_close(&groups[(rank + i) % 3]);
    groups[0] = open_named("all again", size - 1 - rank, size);
    check_sums(groups[0]);
    ls_group_close(&groups[0]);
}

static void many_groups(void **state)
{
    (void)state;
    run("abc", many);
    run("aabba", many);
}

/* ---- two threads --------------------------------------------------------- */

static void *use(void *argument)
{
    ls_group *group = argument;
    for (int i = 0; i < 50; i++)
        check_sums(group);
    ls_group_close(&group);
    return NULL;
}

static void *open_and_use(void *argument)
{
    const int *who = argument; /* the group, rank, size */
    char name[32];
    snprintf(name, sizeof(name), "of thread %d", who[0]);
    return use(open_named(name, who[1], who[2]));
}

static void two_threads(int rank, int size)
{
    pthread_t threads[2];
    int who[2][3] = {{0, rank, size}, {1, size - 1 - rank, size}};
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, open_and_use, who[i]) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

/* Ranks 0 and 1 are threads of the first process; the other is rank 2. */
static void threads_as_ranks(int rank, int size)
{
    pthread_t threads[2];
    int who[2][3] = {{0, 0, 3}, {0, 1, 3}};
    (void)size;
    if (rank == 1) {
        (void)open_and_use((int[]){0, 2, 3});
        return;
    }
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, open_and_use, who[i]) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

static void threads(void **state)
{
    (void)state;
    run("ab", two_threads);
    run("ab", threads_as_ranks);
}

/* ---- again and again ----------------------------------------------------- */

static long cycles = 200;

typedef struct use_of_system {
    long files, tasks, kb;
} use_of_system;

static use_of_system look(int rank, long i)
{
    const use_of_system seen = {.files = count_entries("/proc/self/fd"),
                                .tasks = count_entries("/proc/self/task"),
                                .kb = resident_kb()};
    if (cycles >= 1000)
        fprintf(stderr, "rank %d, %ld: %ld descriptors, %ld threads, %ld KB\n",
                rank, i, seen.files, seen.tasks, seen.kb);
    return seen;
}

static void again(int rank, int size)
{
    char name[32];
    use_of_system before = {0};
    ls_group *kept = open_named("kept", rank, size);
    for (long i = 0; i < cycles; i++) {
        snprintf(name, sizeof(name), "cycle %ld", i);
        ls_group *group = open_named(name, (rank + (int)(i % 2)) % size, size);
        check_sums(group);
        ls_group_close(&group);
        if (i == cycles / 2)
            before = look(rank, i);
    }
    /* A thread that has been joined is in /proc for a moment more. */
    use_of_system after = look(rank, cycles);
    for (int i = 0; after.tasks != before.tasks && i < 20; i++)
        after = look(rank, cycles);
    CHECK(after.files == before.files);
    CHECK(after.tasks <= before.tasks);
    CHECK(cycles > 1000 || is_sanitized || after.kb - before.kb < 1024);
    check_sums(kept);
    ls_group_close(&kept);
}

static void leaves_nothing(void **state)
{
    (void)state;
    run("ab", again);
}

/* ---- children ------------------------------------------------------------ */

/* A child leaves the wire alone, whatever it does, and when it ends. */
static void fork_child(int rank, int size)
{
    ls_group *group = open_named("all", rank, size), *own = NULL;
    check_sums(group);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(ls_barrier(group) == LS_ERR_STATE);
        ls_group_close(&group);
        CHECK(ls_group_open(&own, "of children", rank, size, store, 20) ==
              LS_ERR_UNSUPPORTED);
        CHECK(strstr(ls_last_error(), "a forked child cannot use UCX"));
        exit(0);
    }
    CHECK(wait_process(child) == 0);
    check_sums(group);
    ls_group_close(&group);
}

static void children_leave_the_wire_alone(void **state)
{
    (void)state;
    run("ab", fork_child);
}

/* ---- what goes wrong ----------------------------------------------------- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

enum { DYING = 4 };

static double *seconds_to_die; /* by rank, which the ranks and the test share */

/* The last dies; the others are in a group with it, and 0 and 1 in another. */
static void die(int rank, int size)
{
    ls_group *group = open_named("all", rank, size), *other = NULL;
    if (rank < 2)
        other = open_named("two", rank, 2);
    check_sums(group);
    if (rank == size - 1)
        raise(SIGKILL);
    const double began = now();
    CHECK(ls_barrier(group) == LS_ERR_PEER_DEAD);
    seconds_to_die[rank] = now() - began;
    CHECK(strstr(ls_last_error(), rank < 2 ? "rank 3" : "") != NULL);
    ls_group_close(&group);
    if (rank < 2) {
        check_sums(other);
        ls_group_close(&other);
    }
}

static double time_to_name_the_dead(void)
{
    pid_t pids[DYING];
    double most = 0;
    start("abab", die, pids);
    for (int r = 0; r < DYING - 1; r++) {
        assert_int_equal(wait_process(pids[r]), 0);
        most = seconds_to_die[r] > most ? seconds_to_die[r] : most;
    }
    assert_int_equal(wait_process(pids[DYING - 1]), SIGKILL);
    return most;
}

static void a_dead_rank_is_named(void **state)
{
    const size_t bytes = DYING * sizeof(double);
    (void)state;
    seconds_to_die = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(seconds_to_die != MAP_FAILED);
    CHECK_QUICK(time_to_name_the_dead(), 2);
    munmap(seconds_to_die, bytes);
}

/* The refusal of a group says what to install. */
static void check_refused(int rank, int size, const char *advice)
{
    ls_group *group = NULL;
    CHECK(ls_group_open(&group, "refused", rank, size, store, 20) ==
          LS_ERR_UNSUPPORTED);
    CHECK(group == NULL);
    CHECK(strstr(ls_last_error(), advice) != NULL);
    CHECK(strstr(ls_last_error(), "group 'refused'") != NULL);
}

static void without_module(int rank, int size)
{
    char folder[] = "/tmp/lockstep-test-XXXXXX";
    CHECK(mkdtemp(folder) != NULL);
    setenv("LOCKSTEP_MODULES", folder, 1);
    check_refused(rank, size, "Install the package liblockstep");
    (void)rmdir(folder);
}

/* A module that does not load, as one without the system's UCX. */
static void with_a_broken_module(int rank, int size)
{
    char folder[] = "/tmp/lockstep-test-XXXXXX", path[64];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof(path), "%s/liblockstep-ucx.so", folder);
    FILE *file = fopen(path, "we");
    CHECK(file != NULL && fputs("no module\n", file) >= 0);
    (void)fclose(file);
    setenv("LOCKSTEP_MODULES", folder, 1);
    check_refused(rank, size, "it is the package libucx0");
    (void)unlink(path);
    (void)rmdir(folder);
}

static void a_missing_wire_is_refused(void **state)
{
    (void)state;
    run("aab", without_module);
    run("aab", with_a_broken_module);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_wire_is_refused),
        cmocka_unit_test(ranks_of_several_nodes),
        cmocka_unit_test(many_groups),
        cmocka_unit_test(threads),
        cmocka_unit_test(leaves_nothing),
        cmocka_unit_test(children_leave_the_wire_alone),
        cmocka_unit_test(a_dead_rank_is_named),
    };
    setenv("LOCKSTEP_MODULES", BUILT_MODULES, 1);
    if (!lsi_module_is_there("ucx")) {
        fprintf(stderr, "skipped: there is no UCX\n");
        return SKIPPED;
    }
    if (argc > 1) {
        cycles = strtol(argv[1], NULL, 10);
        leaves_nothing(NULL);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
