/*
 * Point to point: order, sizes from nothing to many times the stream, oneself,
 * and messages that move while a rank waits for something else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ranks.h"

static const size_t counts[] = {0, 1, 31, 4096, 70001, 300007};

enum { COUNTS = sizeof(counts) / sizeof(counts[0]), LONGEST = 300007 };

static uint8_t byte_of(int from, size_t i)
{
    return (uint8_t)(i * 31 + (size_t)from * 17 + 1);
}

static uint8_t *bytes_from(int from, size_t count)
{
    uint8_t *data = malloc(count + 1);
    CHECK(data != NULL);
    for (size_t i = 0; i < count; i++)
        data[i] = byte_of(from, i);
    return data;
}

static void check_bytes(const uint8_t *data, int from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        CHECK(data[i] == byte_of(from, i));
}

/* Everybody sends to the right and receives from the left. */
static void shift(ls_group *group, void *argument)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    uint8_t *out = bytes_from(rank, LONGEST), *in = malloc(LONGEST);
    (void)argument;
    for (int c = 0; c < COUNTS; c++) {
        ls_request *requests[2] = {NULL, NULL};
        memset(in, 0, LONGEST);
        CHECK_OK(
            ls_isend(group, out, counts[c], LS_U8, right, 0, &requests[0]));
        CHECK_OK(ls_irecv(group, in, counts[c], LS_U8, left, 0, &requests[1]));
        CHECK_OK(ls_wait(requests[1]));
        CHECK_OK(ls_wait(requests[0]));
        check_bytes(in, left, counts[c]);
        ls_request_free(&requests[0]);
        ls_request_free(&requests[1]);
        CHECK(requests[0] == NULL);
    }
    free(out);
    free(in);
}

static void shifting_works_on_any_ring(void **state)
{
    (void)state;
    for (int size = 1; size <= 5; size++)
        run_threads(size, shift, NULL);
    run_processes(3, shift, NULL);
}

/* Many messages to one rank, waited for in another order. */
static void many(ls_group *group, void *argument)
{
    enum { MESSAGES = 100 };
    ls_request *requests[MESSAGES];
    int values[MESSAGES];
    const int rank = ls_group_rank(group);
    (void)argument;
    for (int i = 0; i < MESSAGES; i++) {
        values[i] = rank == 0 ? i * i : -1;
        if (rank == 0)
            CHECK_OK(
                ls_isend(group, &values[i], 1, LS_I32, 1, 0, &requests[i]));
        else
            CHECK_OK(
                ls_irecv(group, &values[i], 1, LS_I32, 0, 0, &requests[i]));
    }
    for (int i = MESSAGES - 1; i >= 0; i--) {
        ls_status status = LS_IN_PROGRESS;
        while (status == LS_IN_PROGRESS)
            status = ls_test(requests[i]);
        CHECK_OK(status);
        CHECK(values[i] == i * i);
        CHECK(ls_test(requests[i]) == LS_ERR_STATE);
        ls_request_free(&requests[i]);
    }
}

static void messages_keep_their_order(void **state)
{
    (void)state;
    run_threads(2, many, NULL);
    run_processes(2, many, NULL);
}

/* A long message is under way while both ranks meet in collectives. */
static void behind_collectives(ls_group *group, void *argument)
{
    const int rank = ls_group_rank(group);
    uint8_t *out = bytes_from(rank, LONGEST), *in = malloc(LONGEST);
    ls_request *request = NULL;
    float x = 1;
    (void)argument;
    CHECK_OK(ls_group_select(group, "all_reduce:0-inf:ring"));
    if (rank == 0)
        CHECK_OK(ls_isend(group, out, LONGEST, LS_U8, 1, 0, &request));
    CHECK_OK(ls_all_reduce(group, &x, &x, 1, LS_F32, LS_REDUCE_SUM));
    CHECK(x == 2);
    /* Rank 1 sleeps in receive while rank 0 sleeps in the barrier. */
    if (rank == 1)
        CHECK_OK(ls_recv(group, in, LONGEST, LS_U8, 0, 0));
    CHECK_OK(ls_barrier(group));
    if (rank == 0)
        CHECK_OK(ls_wait(request));
    else
        check_bytes(in, 0, LONGEST);
    ls_request_free(&request);
    free(out);
    free(in);
}

static void messages_move_during_collectives(void **state)
{
    (void)state;
    run_threads(2, behind_collectives, NULL);
    run_processes(2, behind_collectives, NULL);
}

static void arguments_are_checked(void **state)
{
    ls_group *group = NULL;
    float x = 0;
    (void)state;
    assert_int_equal(ls_group_open_threads(&group, 1), LS_OK);
    assert_int_equal(ls_send(group, &x, 1, LS_F32, 0, 0), LS_ERR_ARGUMENT);
    assert_int_equal(ls_send(group, &x, 1, LS_F32, 1, 0), LS_ERR_ARGUMENT);
    assert_int_equal(ls_recv(group, &x, 1, LS_F32, -2, 0), LS_ERR_ARGUMENT);
    assert_int_equal(ls_recv(group, NULL, 1, LS_F32, 0, 0), LS_ERR_ARGUMENT);
    assert_int_equal(ls_recv(group, &x, 1, (ls_dtype)99, 0, 0), LS_ERR_DTYPE);
    assert_int_equal(ls_isend(group, &x, 1, LS_F32, 0, 0, NULL),
                     LS_ERR_ARGUMENT);
    assert_int_equal(ls_send(NULL, &x, 1, LS_F32, 0, 0), LS_ERR_ARGUMENT);
    assert_int_equal(ls_wait(NULL), LS_ERR_ARGUMENT);
    ls_group_close(&group);
    assert_null(group);
}

static void count_messages(ls_group *group, void *argument)
{
    ls_group_counters counters;
    uint8_t data[1000] = {0};
    (void)argument;
    if (ls_group_rank(group) == 0)
        CHECK_OK(ls_send(group, data, 1000, LS_U8, 1, 0));
    else
        CHECK_OK(ls_recv(group, data, 1000, LS_U8, 0, 0));
    ls_group_get_counters(group, &counters);
    CHECK(counters.messages == (ls_group_rank(group) == 0 ? 1u : 0u));
    CHECK(counters.bytes_sent == (ls_group_rank(group) == 0 ? 1000u : 0u));
    CHECK(counters.collectives == 0);
}

static void messages_are_counted(void **state)
{
    (void)state;
    run_threads(2, count_messages, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shifting_works_on_any_ring),
        cmocka_unit_test(messages_keep_their_order),
        cmocka_unit_test(messages_move_during_collectives),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(messages_are_counted),
    };
    return cmocka_run_group_tests_name("messages", tests, NULL, NULL);
}
