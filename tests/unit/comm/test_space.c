/*
 * The memory of a job: groups, shared buffers and data parallelism return all
 * the memory that they allocate. They do so however unevenly ranks close, and
 * never while a rank may still read it. The program's argument is how many
 * cycles of each kind.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/api/group.h"
#include "comm/health/dump.h"
#include "holding.h"
#include "lockstep/parallel.h"
#include "lockstep/profile.h"
#include "ranks.h"
#include "testing.h"

enum { WARM_UP = 10, LARGE = 1 << 19, SMALL = 10 };

static int n_cycles = 60;

/* ---- cycles -------------------------------------------------------------- */

static float data[LARGE];

static void reduce(ls_group *group, size_t count)
{
    CHECK_OK(ls_all_reduce(group, data, data, count, LS_F32, LS_REDUCE_MAX));
}

static void split_little(ls_group *group, int i)
{
    ls_group *part = NULL;
    CHECK_OK(ls_group_split(group, ls_group_rank(group) % 2, i, &part));
    reduce(part, SMALL);
    ls_group_close(&part);
}

static void split_much(ls_group *group, int i)
{
    ls_group *part = NULL;
    CHECK_OK(ls_group_split(group, 0, i, &part));
    if (i % 16 == 0)
        reduce(part, LARGE);
    ls_group_close(&part);
}

/* Both the whole and its part, in either order. */
static void split_twice(ls_group *group, int i)
{
    ls_group *part = NULL, *smaller = NULL;
    CHECK_OK(ls_group_split(group, 0, 0, &part));
    CHECK_OK(
        ls_group_split(part, ls_group_rank(group) == 0 ? -1 : 0, 0, &smaller));
    if (smaller != NULL)
        reduce(smaller, SMALL);
    ls_group_close((i + ls_group_rank(group)) % 2 == 0 ? &part : &smaller);
    ls_group_close(&part);
    ls_group_close(&smaller);
}

static void duplicate(ls_group *group, int i)
{
    ls_group *made = NULL;
    (void)i;
    CHECK_OK(lsi_group_dup(group, &made));
    reduce(made, SMALL);
    ls_group_close(&made);
}

static void share(ls_group *group, int i)
{
    void *buffer = NULL;
    const size_t bytes = i % 2 == 0 ? 100000 : 100;
    CHECK_OK(ls_shared_alloc(group, bytes, &buffer));
    for (size_t at = 0; at < bytes; at++)
        CHECK(((char *)buffer)[at] == 0);
    memset(buffer, 1, bytes);
    CHECK_OK(ls_shared_free(group, &buffer));
}

static void leave_behind(ls_group *group, int i)
{
    ls_group *part = NULL;
    void *buffer = NULL;
    (void)i;
    CHECK_OK(ls_group_split(group, 0, 0, &part));
    CHECK_OK(ls_shared_alloc(part, 50000, &buffer));
    memset(buffer, 1, 50000);
    ls_group_close(&part);
}

static void plan(ls_group *group, int i)
{
    ls_request *request = NULL;
    (void)i;
    CHECK_OK(ls_all_reduce_plan(group, data, data, SMALL, LS_F32, LS_REDUCE_MAX,
                                &request));
    CHECK_OK(ls_start(request));
    CHECK_OK(ls_wait(request));
    ls_request_free(&request);
}

static void parallel(ls_group *group, int i)
{
    const ls_ddp_options options = LS_DDP_OPTIONS_INIT;
    const ls_ddp_range range = {data, SMALL};
    ls_ddp *ddp = NULL;
    (void)i;
    CHECK_OK(ls_ddp_new_ranges(&ddp, group, &range, 1, &options));
    CHECK_OK(ls_ddp_begin(ddp, 1));
    CHECK_OK(ls_ddp_ready(ddp, 0));
    CHECK_OK(ls_ddp_finish(ddp));
    ls_ddp_free(&ddp);
}

/* A rank that has no memory left for its side of a group. */
static void fail_to_split(ls_group *group, int i)
{
    ls_group *part = NULL;
    ls_memory_stats now;
    (void)i;
    ls_memory_total(&now);
    if (ls_group_rank(group) == 1)
        ls_memory_set_budget(now.live_bytes + sizeof(ls_group) + 1);
    CHECK(ls_group_split(group, 0, 0, &part) == LS_ERR_BUDGET);
    ls_memory_set_budget(0);
}

static void fail_to_share(ls_group *group, int i)
{
    void *buffer = NULL;
    ls_memory_stats now;
    (void)i;
    ls_memory_total(&now);
    if (ls_group_rank(group) == 1)
        ls_memory_set_budget(now.live_bytes + 1);
    CHECK(ls_shared_alloc(group, 50000, &buffer) == LS_ERR_BUDGET);
    ls_memory_set_budget(0);
}

typedef struct cycle {
    const char *name;
    void (*run)(ls_group *group, int i);
} cycle;

static const cycle cycles[] = {{"split", split_little},
                               {"split, large messages", split_much},
                               {"split of a split", split_twice},
                               {"dup", duplicate},
                               {"shared buffer", share},
                               {"shared buffer, left behind", leave_behind},
                               {"plan", plan},
                               {"data parallelism", parallel},
                               {"split that fails", fail_to_split},
                               {"shared buffer that fails", fail_to_share}};

static void run_cycles(ls_group *group, void *argument)
{
    const cycle *c = argument;
    for (int i = 0; i < WARM_UP; i++)
        c->run(group, i);
    CHECK_OK(ls_barrier(group));
    const holding before = look(group);
    CHECK_OK(ls_barrier(group));
    for (int i = 0; i < n_cycles; i++)
        c->run(group, i);
    check_same(group, &before, c->name);
}

static void what_is_taken_is_given_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cycles); i++) {
        cycle c = cycles[i];
        run_processes(2, run_cycles, &c);
        run_processes(3, run_cycles, &c);
    }
}

/* ---- uneven -------------------------------------------------------------- */

enum { BUFFER = 100000, LATE = 1 };

/* Takes whatever memory of the job is free, and writes to it. */
static void take_and_write(ls_group *group)
{
    ls_group *part = NULL;
    void *buffers[4] = {0};
    CHECK_OK(ls_group_split(group, 0, 0, &part));
    reduce(part, LARGE);
    for (int i = 0; i < 4; i++) {
        CHECK_OK(ls_shared_alloc(part, BUFFER, &buffers[i]));
        memset(buffers[i], 0xff, BUFFER);
    }
    for (int i = 0; i < 4; i++)
        CHECK_OK(ls_shared_free(part, &buffers[i]));
    ls_group_close(&part);
}

static void check_filled(const ls_group *group, const void *own)
{
    for (int r = 0; r < ls_group_size(group); r++) {
        const unsigned char *theirs = ls_shared_peer(group, own, r);
        for (size_t i = 0; i < BUFFER; i++)
            CHECK(theirs[i] == r + 1);
    }
}

static void fill(ls_group *group, void **buffer)
{
    CHECK_OK(ls_shared_alloc(group, BUFFER, buffer));
    memset(*buffer, ls_group_rank(group) + 1, BUFFER);
    CHECK_OK(ls_barrier(group));
}

/* The late rank still has the group, which all others have left. */
static void close_late_once(ls_group *group, ls_group *rest)
{
    ls_group *part = NULL;
    void *buffer = NULL;
    CHECK_OK(ls_group_split(group, 0, 0, &part));
    fill(part, &buffer);
    reduce(part, LARGE);
    CHECK_OK(ls_barrier(group));
    if (rest != NULL) {
        ls_group_close(&part);
        CHECK_OK(ls_barrier(rest));
        take_and_write(rest);
    }
    CHECK_OK(ls_barrier(group));
    if (rest == NULL) {
        check_filled(part, buffer);
        for (int r = 0; r < ls_group_size(group); r++)
            CHECK(lsi_member_of(part, r)->presence ==
                  (r == LATE ? LSI_PRESENT : LSI_LEFT));
        ls_group_close(&part);
    }
    CHECK_OK(ls_barrier(group));
}

static void close_late(ls_group *group, void *unused)
{
    ls_group *rest = NULL;
    const int color = ls_group_rank(group) == LATE ? -1 : 0;
    (void)unused;
    CHECK_OK(ls_group_split(group, color, 0, &rest));
    for (int i = 0; i < WARM_UP; i++)
        close_late_once(group, rest);
    const holding before = look(group);
    CHECK_OK(ls_barrier(group));
    for (int i = 0; i < WARM_UP; i++)
        close_late_once(group, rest);
    check_same(group, &before, "late");
    ls_group_close(&rest);
}

static void a_late_rank_finds_everything(void **state)
{
    (void)state;
    run_processes(2, close_late, NULL);
    run_processes(3, close_late, NULL);
}

/* In a group that has failed nobody waits for others before he frees. */
static void free_after_failure(ls_group *group, void *unused)
{
    ls_group *part = NULL;
    void *buffer = NULL;
    const bool is_late = ls_group_rank(group) == LATE;
    (void)unused;
    CHECK_OK(ls_group_split(group, 0, 0, &part));
    fill(part, &buffer);
    CHECK(ls_all_reduce(part, data, data, is_late ? 1 : 2, LS_F32,
                        LS_REDUCE_SUM) == LS_ERR_MISMATCH);
    const void *const own = buffer;
    if (!is_late) {
        CHECK(ls_shared_free(part, &buffer) == LS_ERR_MISMATCH);
        CHECK(buffer == NULL);
    }
    CHECK_OK(ls_barrier(group));
    take_and_write(group);
    if (is_late) {
        check_filled(part, own);
        CHECK(ls_shared_free(part, &buffer) == LS_ERR_MISMATCH);
    }
    CHECK_OK(ls_barrier(group));
    take_and_write(group);
    ls_group_close(&part);
    CHECK_OK(ls_barrier(group));
}

static void a_failed_group_takes_nothing_away(void **state)
{
    (void)state;
    run_processes(2, free_after_failure, NULL);
    run_processes(3, free_after_failure, NULL);
}

/* The region of a group in which a rank has died is nobody else's. */
static void close_without_the_dead(ls_group *group, void *unused)
{
    ls_group *part = NULL, *rest = NULL;
    const bool dies = ls_group_rank(group) == LATE;
    (void)unused;
    CHECK_OK(ls_group_split(group, dies ? -1 : 0, 0, &rest));
    CHECK_OK(ls_group_split(group, 0, 0, &part));
    CHECK_OK(ls_barrier(group));
    if (dies)
        raise(SIGKILL);
    CHECK(ls_barrier(part) == LS_ERR_PEER_DEAD);
    CHECK_OK(ls_barrier(rest));
    const holding before = look(rest);
    const uint64_t at = part->memory.region_offset;
    CHECK_OK(ls_barrier(rest));
    ls_group_close(&part);
    CHECK_OK(ls_barrier(rest));
    CHECK(look(rest).rows == before.rows);
    for (int i = 0; i < 10; i++) {
        CHECK_OK(ls_group_split(rest, 0, 0, &part));
        CHECK(part->memory.region_offset != at);
        ls_group_close(&part);
        take_and_write(rest);
    }
    ls_group_close(&rest);
}

static void the_dead_keep_what_they_had(void **state)
{
    pid_t pids[3];
    (void)state;
    start_processes(3, close_without_the_dead, NULL, pids);
    for (int r = 0; r < 3; r++)
        assert_int_equal(wait_process(pids[r]), r == LATE ? SIGKILL : 0);
}

/* A child has all groups of its parent, but is not a member of any. */
static void close_in_a_child(ls_group *group, void *unused)
{
    ls_group *part = NULL;
    void *buffer = NULL;
    (void)unused;
    CHECK_OK(ls_group_split(group, 0, 0, &part));
    fill(part, &buffer);
    const pid_t child = fork();
    if (child == 0) {
        ls_group_close(&part);
        ls_group_close(&group);
        _exit(0);
    }
    CHECK(wait_process(child) == 0);
    CHECK_OK(ls_barrier(group));
    for (int r = 0; r < ls_group_size(group); r++) {
        CHECK(lsi_member_of(group, r)->presence == LSI_PRESENT);
        CHECK(lsi_member_of(part, r)->presence == LSI_PRESENT);
    }
    CHECK_OK(ls_barrier(group));
    take_and_write(group);
    check_filled(part, buffer);
    CHECK_OK(ls_shared_free(part, &buffer));
    ls_group_close(&part);
    take_and_write(group);
}

static void a_child_leaves_no_group(void **state)
{
    (void)state;
    run_processes(2, close_in_a_child, NULL);
}

/* Records of groups are told apart by it. */
static void follow(ls_group *group, void *unused)
{
    ls_group *part = NULL;
    (void)unused;
    CHECK_OK(ls_group_split(group, 0, 0, &part));
    const uint64_t at = part->memory.region_offset,
                   number = part->identity.number;
    ls_group_close(&part);
    CHECK_OK(ls_barrier(group));
    CHECK_OK(ls_group_split(group, 0, 0, &part));
    CHECK(part->memory.region_offset == at && part->identity.number != number);
    CHECK(group->identity.number == 0 && number != 0);
    ls_group_close(&part);
}

static void a_group_in_an_old_place_has_a_new_number(void **state)
{
    (void)state;
    run_processes(2, follow, NULL);
}

/* Memory that the library hands out counts until it is freed. */
static void gathered_strings_count(void **state)
{
    (void)state;
    ls_group *group = NULL;
    ls_memory_stats before, held, after;
    size_t size;
    void *all = NULL;
    assert_ok(ls_group_open_threads(&group, 1));
    ls_memory_of(LS_MEMORY_COMM, &before);
    assert_ok(ls_all_gather_bytes(group, data, LARGE, &size, &all));
    ls_memory_of(LS_MEMORY_COMM, &held);
    ls_free(all);
    ls_free(NULL);
    ls_memory_of(LS_MEMORY_COMM, &after);
    assert_int_equal(held.live_bytes - before.live_bytes, LARGE);
    assert_int_equal(after.live_bytes, before.live_bytes);
    ls_group_close(&group);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_taken_is_given_back),
        cmocka_unit_test(a_late_rank_finds_everything),
        cmocka_unit_test(a_failed_group_takes_nothing_away),
        cmocka_unit_test(the_dead_keep_what_they_had),
        cmocka_unit_test(a_child_leaves_no_group),
        cmocka_unit_test(a_group_in_an_old_place_has_a_new_number),
        cmocka_unit_test(gathered_strings_count),
    };
    if (argc > 1)
        n_cycles = atoi(argv[1]);
    return cmocka_run_group_tests_name("space", tests, NULL, NULL);
}
