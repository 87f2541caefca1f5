/*
 * Groups of ranks that have an all-gather: threads that gather in memory.
 */
#include "testing.h"

#include <pthread.h>
#include <string.h>

#include "ranks.h"

enum { MOST = 5, ROOM = 1 << 16 };

/* The all-gather of one test. */
static struct {
    pthread_barrier_t barrier;
    int size;
    unsigned char bytes[MOST][ROOM];
} all;

/* A rank that joins: the fault that it has and its outcome. */
typedef struct member {
    int rank, fails_at; /* number of the gather that fails, from 1; 0: none */
    ls_status gives;    /* status of the gather that fails */
    bool has_no_group;
    double seconds;
    int calls;
    ls_status status;
    char message[512];
} member;

static ls_status gather(void *context, const void *send, size_t bytes,
                        void *recv, double seconds, char why[LS_WHY_BYTES])
{
    member *m = context;
    CHECK(why[0] == '\0' && seconds > 0 && bytes <= ROOM);
    memcpy(all.bytes[m->rank], send, bytes);
    pthread_barrier_wait(&all.barrier);
    for (int r = 0; r < all.size; r++)
        memcpy((char *)recv + (size_t)r * bytes, all.bytes[r], bytes);
    pthread_barrier_wait(&all.barrier);
    if (++m->calls != m->fails_at)
        return LS_OK;
    if (m->gives == LS_ERR_IO)
        snprintf(why, LS_WHY_BYTES, "the wire broke");
    return m->gives;
}

static void *join(void *context)
{
    member *m = context;
    ls_group *group = NULL;
    m->status = ls_group_open_by(m->has_no_group ? NULL : &group, m->rank,
                                 all.size, gather, m, m->seconds);
    snprintf(m->message, sizeof(m->message), "%s", ls_last_error());
    CHECK((m->status == LS_OK) == (group != NULL));
    if (group != NULL) {
        int64_t sum = m->rank + 1;
        CHECK(ls_group_rank(group) == m->rank);
        CHECK_OK(ls_all_reduce(group, &sum, &sum, 1, LS_I64, LS_REDUCE_SUM));
        CHECK(sum == (int64_t)all.size * (all.size + 1) / 2);
    }
    ls_group_close(&group);
    return NULL;
}

static void join_all(member *members, int size)
{
    pthread_t threads[MOST];
    all.size = size;
    pthread_barrier_init(&all.barrier, NULL, (unsigned)size);
    for (int r = 0; r < size; r++) {
        members[r].rank = r;
        if (members[r].seconds == 0)
            members[r].seconds = 2;
        pthread_create(&threads[r], NULL, join, &members[r]);
    }
    for (int r = 0; r < size; r++)
        pthread_join(threads[r], NULL);
    pthread_barrier_destroy(&all.barrier);
}

static void opens(void **state)
{
    (void)state;
    for (int size = 1; size <= MOST; size++) {
        member members[MOST] = {0};
        join_all(members, size);
        for (int r = 0; r < size; r++)
            assert_int_equal(members[r].status, LS_OK);
        assert_int_equal(members[0].calls > 0, size > 1);
    }
}

/* Rank 1 has a fault that the others learn of. */
static void refuse(member bad, ls_status status, const char *own)
{
    member members[3] = {{0}, bad, {0}};
    join_all(members, 3);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(members[r].status, status);
        assert_non_null(strstr(members[r].message, own));
        if (r != 1)
            assert_non_null(
                strstr(members[r].message, "rank 1 could not join the group"));
    }
}

static void a_rank_that_cannot_join_is_named(void **state)
{
    (void)state;
    refuse((member){.has_no_group = true}, LS_ERR_ARGUMENT, "group is NULL");
    refuse((member){.seconds = -7}, LS_ERR_ARGUMENT, "the timeout -7 s");
}

/* The first gather fails on rank 1 alone: the others wait for their timeout. */
static void break_at(int number, ls_status gives, ls_status status,
                     const char *text)
{
    member members[2] = {{0}, {.fails_at = number, .gives = gives}};
    join_all(members, 2);
    assert_int_equal(members[1].status, status);
    assert_non_null(strstr(members[1].message, text));
}

static void a_gather_that_fails_gives_its_reason(void **state)
{
    (void)state;
    ls_group *group = NULL;
    member both[2] = {{.fails_at = 1, .gives = LS_ERR_IO},
                      {.fails_at = 1, .gives = LS_IN_PROGRESS}};
    join_all(both, 2);
    assert_int_equal(both[0].status, LS_ERR_IO);
    assert_string_equal(both[0].message,
                        "the ranks cannot connect: the wire broke");
    assert_int_equal(both[1].status, LS_ERR_SYSTEM);
    assert_non_null(strstr(both[1].message, "the gather function returned 1"));
    break_at(2, LS_ERR_MEMORY, LS_ERR_MEMORY, "the ranks cannot connect: ");
    assert_error(ls_group_open_by(&group, 0, 2, NULL, NULL, 1), LS_ERR_ARGUMENT,
                 "gather is NULL");
    assert_error(ls_group_open_by(&group, 0, 0, gather, NULL, 1),
                 LS_ERR_ARGUMENT, "size is 0");
    assert_null(group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens),
        cmocka_unit_test(a_rank_that_cannot_join_is_named),
        cmocka_unit_test(a_gather_that_fails_gives_its_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
