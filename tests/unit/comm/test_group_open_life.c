/*
 * Events in the life of groups that are opened by name: processes that fork
 * or die, stores that fail, names that clash, many at a time, and again and
 * again.
 */
#include "testing.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ranks.h"
#include "resources.h"
#include "shared_store.h"

enum { MOST = 4 };

static const ls_store *store; /* NULL: groups meet at their names */

typedef void part(int rank, int size);

static void start(int size, part *play, pid_t *pids)
{
    for (int r = 0; r < size; r++) {
        pids[r] = fork();
        assert_true(pids[r] >= 0);
        if (pids[r] != 0)
            continue;
        alarm(is_sanitized ? 200 : 100);
        play(r, size);
        exit(0);
    }
}

static void run(int size, part *play)
{
    pid_t pids[MOST];
    start(size, play, pids);
    for (int r = 0; r < size; r++)
        assert_int_equal(wait_process(pids[r]), 0);
}

static ls_group *open_named(const char *what, int rank, int size)
{
    char name[96];
    ls_group *group = NULL;
    snprintf(name, sizeof(name), "life %s %ld", what,
             (long)(store == NULL ? getppid() : 0));
    CHECK_OK(ls_group_open(&group, name, rank, size, store, 30));
    return group;
}

static void check_sum(ls_group *group)
{
    const int size = ls_group_size(group);
    int32_t x = ls_group_rank(group) + 1, sum = 0;
    CHECK_OK(ls_all_reduce(group, &x, &sum, 1, LS_I32, LS_REDUCE_SUM));
    CHECK(sum == size * (size + 1) / 2);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- children ------------------------------------------------------------ */

static bool is_refused(ls_status status)
{
    return status == LS_ERR_STATE &&
           strstr(ls_last_error(), "forked this process") != NULL;
}

/* Everything that a child may try, and must not disturb its parent by. */
static void be_child(ls_group *group, ls_request *request, float *shared)
{
    float x[2] = {1, 1}, y[4];
    void *data = NULL;
    size_t sizes[2];
    ls_group *made = NULL;
    ls_request *other = NULL;
    CHECK(is_refused(ls_barrier(group)));
    CHECK(is_refused(ls_all_reduce(group, x, x, 1, LS_F32, LS_REDUCE_SUM)));
    CHECK(is_refused(ls_all_gather(group, x, y, 1, LS_F32)));
    CHECK(is_refused(ls_all_gather_bytes(group, x, 4, sizes, &data)));
    CHECK(is_refused(
        ls_iall_reduce(group, x, x, 1, LS_F32, LS_REDUCE_SUM, &other)));
    CHECK(
        is_refused(ls_all_reduce(group, NULL, NULL, 1, LS_F32, LS_REDUCE_SUM)));
    CHECK(is_refused(ls_send(group, x, 1, LS_F32, 1, 0)));
    CHECK(is_refused(ls_irecv(group, x, 1, LS_F32, 1, 0, &other)));
    CHECK(is_refused(ls_group_split(group, 0, 0, &made)));
    CHECK(is_refused(ls_group_select(group, "")));
    CHECK(is_refused(ls_shared_alloc(group, 64, &data)));
    CHECK(is_refused(ls_test(request)));
    CHECK(is_refused(ls_wait_for(request, 1)));
    CHECK(is_refused(ls_wait(request)));
    ls_group_abort(group);
    CHECK(shared[0] == 7); /* is there to be read */
    data = shared;
    CHECK(is_refused(ls_shared_free(group, &data)));
    ls_request_free(&request);
    CHECK(request == NULL && other == NULL && made == NULL);
    ls_group_close(&group);
    CHECK_OK(ls_group_open_threads(&made, 1));
    CHECK_OK(ls_barrier(made));
    ls_group_close(&made);
}

static void fork_children(int rank, int size)
{
    ls_group *group = open_named("forks", rank, size);
    ls_request *request = NULL;
    float x = 1;
    void *data = NULL;
    CHECK_OK(ls_shared_alloc(group, sizeof(float), &data));
    float *shared = data;
    shared[0] = 7;
    if (rank == 0)
        CHECK_OK(
            ls_iall_reduce(group, &x, &x, 1, LS_F32, LS_REDUCE_SUM, &request));
    for (int i = 0; rank == 0 && i < 3; i++) {
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            if (i < 2)
                be_child(group, request, shared);
            if (i == 0)
                exit(0); /* with what atexit and on_exit do */
            raise(i == 1 ? SIGKILL : SIGTERM);
        }
        (void)wait_process(child);
    }
    if (rank == 0) /* which is what the other waits for */
        CHECK_OK(ls_send(group, &x, 1, LS_F32, 1, 0));
    else
        CHECK_OK(ls_recv(group, &x, 1, LS_F32, 0, 0));
    if (rank != 0)
        CHECK_OK(
            ls_iall_reduce(group, &x, &x, 1, LS_F32, LS_REDUCE_SUM, &request));
    CHECK_OK(ls_wait(request));
    CHECK(x == (float)size);
    ls_request_free(&request);
    CHECK_OK(ls_shared_free(group, &data));
    check_sum(group);
    ls_group_close(&group);
}

static void children_are_no_members(void **state)
{
    (void)state;
    run(2, fork_children);
}

/* State that the ranks and the test share. */
typedef struct legacy {
    _Atomic pid_t child; /* of the rank that dies */
    double took;         /* seconds until the other one knows of that */
} legacy;

static legacy *left;

/* A child that lives on is not taken for the rank that has died. */
static void outlive(int rank, int size)
{
    ls_group *group = open_named("outlived", rank, size);
    check_sum(group);
    if (rank == 1) {
        const pid_t child = fork();
        if (child == 0)
            for (;;)
                pause();
        atomic_store(&left->child, child);
        raise(SIGKILL);
    }
    const double began = now();
    CHECK(ls_barrier(group) == LS_ERR_PEER_DEAD);
    left->took = now() - began;
    CHECK(strstr(ls_last_error(), "rank 1") != NULL);
    ls_group_close(&group);
}

static double time_to_outlive(void)
{
    pid_t pids[2];
    start(2, outlive, pids);
    assert_int_equal(wait_process(pids[0]), 0);
    assert_int_equal(wait_process(pids[1]), SIGKILL);
    assert_int_equal(kill(atomic_load(&left->child), SIGKILL), 0);
    return left->took;
}

static void a_child_does_not_hide_the_dead(void **state)
{
    (void)state;
    left = mmap(NULL, sizeof(*left), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(left != MAP_FAILED);
    CHECK_QUICK(time_to_outlive(), 2);
    munmap(left, sizeof(*left));
}

/* ---- those who die while others are awaited ------------------------------ */

/* Rank 3 never comes; the victim has come, and is killed. */
static int victim;

static void wait_in_vain(int rank, int size)
{
    ls_group *group = NULL;
    char text[64];
    snprintf(text, sizeof(text), "rank %d died", victim);
    const ls_status status =
        ls_group_open(&group, "in vain", rank, size + 1, store, 40);
    CHECK(status == LS_ERR_PEER_DEAD && group == NULL);
    CHECK(strstr(ls_last_error(), text) != NULL);
}

/* How many seconds the others need to name the victim, and to end. */
static double time_to_name_the_dead(void)
{
    pid_t pids[3];
    store = new_shared_store();
    start(3, wait_in_vain, pids);
    while (count_shared_store() < 3) /* each leaves a key when it comes */
        usleep(1000);
    const double began = now();
    kill(pids[victim], SIGKILL);
    for (int r = 0; r < 3; r++)
        assert_int_equal(wait_process(pids[r]), r == victim ? SIGKILL : 0);
    return now() - began;
}

static void the_dead_are_named_before_all_have_come(void **state)
{
    (void)state;
    for (victim = 0; victim < 2; victim++)
        CHECK_QUICK(time_to_name_the_dead(), 2);
    store = NULL;
}

/* Whether it is the key of the data that rank 0 collects, at which ranks die.
 */
static bool is_collected(const char *key)
{
    return strstr(key, "/gather/0/all0") != NULL;
}

static ls_status set_and_die(void *context, const char *key, const void *data,
                             size_t bytes)
{
    const ls_status status = store->set(context, key, data, bytes);
    if (is_collected(key))
        raise(SIGKILL);
    return status;
}

static ls_status get_and_die(void *context, const char *key, void *data,
                             size_t *bytes, double seconds)
{
    const ls_status status = store->get(context, key, data, bytes, seconds);
    if (status == LS_OK && is_collected(key))
        raise(SIGKILL);
    return status;
}

/* All have come, and it dies before it meets those of its machine. */
static void die_when_all_have_come(int rank, int size)
{
    const ls_store deadly = {
        .context = store->context, .set = set_and_die, .get = get_and_die};
    ls_group *group = NULL;
    CHECK(ls_group_open(&group, "half way", rank, size,
                        rank == victim ? &deadly : store,
                        40) == LS_ERR_PEER_DEAD);
    CHECK(strstr(ls_last_error(), "while the ranks were connecting") != NULL);
}

static void the_dead_are_named_half_way(void **state)
{
    (void)state;
    for (victim = 0; victim < 3; victim++) {
        pid_t pids[3];
        store = new_shared_store();
        start(3, die_when_all_have_come, pids);
        for (int r = 0; r < 3; r++)
            assert_int_equal(wait_process(pids[r]), r == victim ? SIGKILL : 0);
    }
    store = NULL;
}

/* ---- stores that fail, names that clash ---------------------------------- */

static void be_refused_by_store(int rank, int size)
{
    ls_group *group = NULL;
    CHECK(ls_group_open(&group, "broken", rank, size, store, 20) ==
          LS_ERR_SYSTEM);
    CHECK(strstr(ls_last_error(), "group 'broken': the store's get function") !=
          NULL);
    break_shared_store(LS_ERR_IO, LS_ERR_SYSTEM);
    CHECK(ls_group_open(&group, "broken too", rank, size, store, 20) ==
          LS_ERR_IO);
    CHECK(strstr(ls_last_error(), "the store's set function") != NULL);
    break_shared_store((ls_status)12345, LS_OK);
    CHECK(ls_group_open(&group, "nonsense", rank, size, store, 20) ==
          LS_ERR_SYSTEM);
    CHECK(strstr(ls_last_error(), "returned 12345; it must return LS_OK") !=
          NULL);
    CHECK(group == NULL);
}

static void a_store_that_fails_is_blamed(void **state)
{
    (void)state;
    for (int rank = 0; rank < 2; rank++) {
        store = new_shared_store();
        break_shared_store(LS_OK, LS_ERR_SYSTEM);
        be_refused_by_store(rank, 2);
    }
    store = NULL;
}

static void open_twice(int rank, int size)
{
    ls_group *group = open_named("twice", rank, size), *again = NULL;
    check_sum(group);
    const double began = now();
    if (rank == 1) {
        /* Rank 0 has not come again; what it left the first time is there. */
        CHECK(ls_group_open(&again, "life twice 0", rank, size, store, 40) ==
              LS_ERR_MISMATCH);
        CHECK(strstr(ls_last_error(), "another group has used the same name"));
        CHECK(now() - began < 30);
    }
    CHECK_OK(ls_barrier(group));
    ls_group_close(&group);
}

static void a_name_that_was_used_is_refused(void **state)
{
    (void)state;
    store = new_shared_store();
    let_shared_store_overwrite();
    run(2, open_twice);
    store = NULL;
}

/* ---- many ---------------------------------------------------------------- */

static void open_many(int rank, int size)
{
    enum { MANY = 200 };
    static ls_group *groups[MANY];
    char name[32];
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "many %d", i);
        groups[i] = open_named(name, rank, size);
    }
    for (int i = 0; i < MANY; i++)
        check_sum(groups[i]);
    for (int i = 0; i < MANY; i++)
        ls_group_close(&groups[rank == 0 ? i : MANY - 1 - i]);
}

static void two_hundred_at_once(void **state)
{
    (void)state;
    run(2, open_many);
}

/* Another group is aborted, and closed, while one is being opened. */
static void *abort_other(void *group)
{
    usleep(20000);
    ls_group_abort(group);
    return NULL;
}

static void open_while_aborted(int rank, int size)
{
    pthread_t thread;
    ls_group *other = open_named("aborted", rank, size);
    if (rank == 0)
        CHECK(pthread_create(&thread, NULL, abort_other, other) == 0);
    else
        usleep(60000);
    ls_group *group = open_named("meanwhile", rank, size);
    if (rank == 0)
        pthread_join(thread, NULL);
    check_sum(group);
    CHECK(ls_barrier(other) == LS_ERR_ABORTED);
    ls_group_close(&other);
    check_sum(group);
    ls_group_close(&group);
}

static void an_abort_is_of_one_group(void **state)
{
    (void)state;
    run(2, open_while_aborted);
}

/* ---- again and again ----------------------------------------------------- */

static long cycles = 400;

static void again(int rank, int size)
{
    long files = 0, kb = 0;
    for (long i = 0; i <= cycles; i++) {
        char name[32];
        if (i == cycles / 2 || i == cycles) {
            files = count_entries("/proc/self/fd") - (i == cycles ? files : 0);
            kb = resident_kb() - (i == cycles ? kb : 0);
        }
        snprintf(name, sizeof(name), "again %ld", store == NULL ? 0 : i);
        ls_group *group = open_named(name, rank, size);
        check_sum(group);
        ls_group_close(&group);
    }
    if (cycles >= 1000)
        fprintf(stderr,
                "rank %d, the second half of %ld: %ld descriptors, %ld KB, "
                "%d threads, %d files in /dev/shm\n",
                rank, cycles, files, kb, count_entries("/proc/self/task"),
                count_entries("/dev/shm"));
    /* A leak of each cycle shows; the heap's steps of 1 MB do not count. */
    const bool grew = cycles < 1000 && !is_sanitized && kb >= 2048;
    if (files != 0 || grew)
        fprintf(stderr, "left: %ld descriptors, %ld KB\n", files, kb);
    CHECK(files == 0 && !grew);
}

static void nothing_is_left(void **state)
{
    (void)state;
    run(2, again);
    store = new_shared_store();
    run(2, again);
    store = NULL;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_are_no_members),
        cmocka_unit_test(a_child_does_not_hide_the_dead),
        cmocka_unit_test(the_dead_are_named_before_all_have_come),
        cmocka_unit_test(the_dead_are_named_half_way),
        cmocka_unit_test(a_store_that_fails_is_blamed),
        cmocka_unit_test(a_name_that_was_used_is_refused),
        cmocka_unit_test(two_hundred_at_once),
        cmocka_unit_test(an_abort_is_of_one_group),
        cmocka_unit_test(nothing_is_left),
    };
    if (argc > 1) {
        cycles = strtol(argv[1], NULL, 10);
        nothing_is_left(NULL);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
