/*
 * Collectives in which counts differ between ranks: in flight, refused, and
 * with counts that do not fit, on one node and on several. The tests in
 * tests/conformance check the data of every algorithm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "nodes.h"

enum { MOST_RANKS = 8, MOST = 40000 };

static const int two_and_three[] = {2, 3};

/* On threads, on processes and on two nodes. */
static void everywhere(rank_fn *fn)
{
    static const int sizes[] = {1, 2, 3, 5, 8};
    for (int i = 0; i < 5; i++)
        run_threads(sizes[i], fn, NULL);
    run_processes(3, fn, NULL);
    run_nodes(two_and_three, 2, fn, NULL);
}

static int32_t value(int from, int to, size_t i)
{
    return (int32_t)(from * 1000003 + to * 10007 + (int)i);
}

/* ---- in flight ----------------------------------------------------------- */

/* From nothing to more than a chunk of the windows. */
static size_t elements(int from, int to, size_t scale)
{
    return (size_t)((from * 3 + to * 5) % 7) * scale;
}

typedef struct exchange {
    ls_request *request;
    int32_t *send, *recv;
    size_t scale;
} exchange;

static void start(ls_group *group, exchange *x)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    size_t sends[MOST_RANKS], receives[MOST_RANKS], at = 0;
    x->send = malloc(7 * MOST_RANKS * x->scale * sizeof(int32_t) + 1);
    x->recv = malloc(7 * MOST_RANKS * x->scale * sizeof(int32_t) + 1);
    CHECK(x->send != NULL && x->recv != NULL);
    for (int r = 0; r < size; r++) {
        sends[r] = elements(rank, r, x->scale);
        receives[r] = elements(r, rank, x->scale);
        for (size_t i = 0; i < sends[r]; i++)
            x->send[at++] = value(rank, r, i);
    }
    CHECK_OK(ls_iall_to_allv(group, x->send, sends, x->recv, receives, LS_I32,
                             &x->request));
    memset(sends, 0xff, sizeof(sends)); /* they are not needed any more */
    memset(receives, 0xff, sizeof(receives));
}

static void finish(ls_group *group, exchange *x)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    size_t at = 0;
    CHECK_OK(ls_wait(x->request));
    for (int r = 0; r < size; r++)
        for (size_t i = 0; i < elements(r, rank, x->scale); i++)
            CHECK(x->recv[at++] == value(r, rank, i));
    ls_request_free(&x->request);
    free(x->send);
    free(x->recv);
}

/* The vector of a reduce-scatter in which rank r gets r elements. */
static void scatter_in_flight(ls_group *group, ls_request **request,
                              double send[64], double recv[MOST_RANKS])
{
    const int size = ls_group_size(group);
    size_t counts[MOST_RANKS];
    for (int r = 0; r < size; r++)
        counts[r] = (size_t)r;
    for (size_t i = 0; i < 64; i++)
        send[i] = (double)(i * (size_t)(ls_group_rank(group) + 1));
    CHECK_OK(ls_ireduce_scatterv(group, send, recv, counts, LS_F64,
                                 LS_REDUCE_SUM, request));
}

static void several(ls_group *group, void *argument)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    exchange x[3] = {{.scale = 1}, {.scale = 5003}, {.scale = 40}};
    double send[64], recv[MOST_RANKS];
    ls_request *request = NULL;
    size_t first = 0;
    (void)argument;
    for (int i = 0; i < 3; i++)
        start(group, &x[i]);
    scatter_in_flight(group, &request, send, recv);
    CHECK_OK(ls_barrier(group));
    for (int i = 2; i >= 0; i--)
        finish(group, &x[i]);
    CHECK_OK(ls_wait(request));
    for (int r = 0; r < rank; r++)
        first += (size_t)r;
    for (size_t i = 0; i < (size_t)rank; i++)
        CHECK(recv[i] ==
              (double)((first + i) * (size_t)(size * (size + 1)) / 2));
    ls_request_free(&request);
}

static void several_are_in_flight(void **state)
{
    (void)state;
    everywhere(several);
}

/* ---- counts that do not fit ---------------------------------------------- */

static int32_t sent[MOST], received[MOST_RANKS][MOST];

/*
 * From here on every rank has opened its group. A rank that is slow to leave
 * may see here the error that the others get next.
 */
static void all_are_there(ls_group *group)
{
    const ls_status status = ls_barrier(group);
    CHECK(status == LS_OK || status == LS_ERR_MISMATCH);
}

/* Rank 1 sends 5 to rank 0, which expects 6; others may learn of it later. */
static void exchange_wrong(ls_group *group, void *argument)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    size_t sends[MOST_RANKS], receives[MOST_RANKS];
    (void)argument;
    for (int r = 0; r < size; r++)
        sends[r] = receives[r] = 4;
    sends[0] = rank == 1 ? 5 : 4;
    receives[1] = rank == 0 ? 6 : 4;
    all_are_there(group);
    ls_status status =
        ls_all_to_allv(group, sent, sends, received[rank], receives, LS_I32);
    CHECK(status == LS_ERR_MISMATCH || (status == LS_OK && rank != 0));
    CHECK(ls_barrier(group) == LS_ERR_MISMATCH);
    CHECK(strstr(ls_last_error(), "rank 1 sends 5 elements to rank 0, which "
                                  "expects 6") != NULL);
}

/* Rank 2 expects another count of rank 1; the sum is the same. */
static void gather_wrong(ls_group *group, void *argument)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    size_t counts[MOST_RANKS];
    (void)argument;
    for (int r = 0; r < size; r++)
        counts[r] = 4;
    counts[1] += rank == 2;
    counts[0] -= rank == 2;
    all_are_there(group);
    CHECK(ls_all_gatherv(group, sent, 4, received[rank], counts, LS_I32) ==
          LS_ERR_MISMATCH);
    CHECK(strstr(ls_last_error(), "the count for rank 0 is ") != NULL);
    CHECK(strstr(ls_last_error(), "3 ") != NULL &&
          strstr(ls_last_error(), "on rank 2") != NULL);
}

static void scatter_wrong(ls_group *group, void *argument)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    size_t counts[MOST_RANKS];
    (void)argument;
    for (int r = 0; r < size; r++)
        counts[r] = 1000;
    counts[1] -= rank == 2;
    all_are_there(group);
    CHECK(ls_reduce_scatterv(group, sent, received[rank], counts, LS_I32,
                             LS_REDUCE_SUM) == LS_ERR_MISMATCH);
    CHECK(strstr(ls_last_error(), "the count for rank 1 is ") != NULL);
    CHECK(strstr(ls_last_error(), "999") != NULL);
}

static void counts_must_fit(void **state)
{
    static rank_fn *const wrong[] = {exchange_wrong, gather_wrong,
                                     scatter_wrong};
    (void)state;
    for (int i = 0; i < 3; i++) {
        run_threads(3, wrong[i], NULL);
        run_processes(3, wrong[i], NULL);
        run_nodes(two_and_three, 2, wrong[i], NULL);
    }
}

/* ---- refusals ------------------------------------------------------------ */

/* One rank cannot take part; the group goes on. */
static void refuse(ls_group *group, void *argument)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    size_t counts[MOST_RANKS], wrong[MOST_RANKS];
    (void)argument;
    for (int r = 0; r < size; r++)
        counts[r] = wrong[r] = 2;
    wrong[0] = SIZE_MAX;
    const bool bad = rank == size - 1;
    CHECK(ls_all_to_allv(group, sent, bad ? wrong : counts, received[rank],
                         counts, LS_I32) == LS_ERR_ARGUMENT);
    CHECK(strstr(ls_last_error(), "are too many; each rank can have ") != NULL);
    CHECK(ls_all_gatherv(group, sent, bad ? 3 : 2, received[rank], counts,
                         LS_I32) == LS_ERR_ARGUMENT);
    CHECK(strstr(ls_last_error(),
                 "(this rank) sends 3 elements, but counts[") != NULL);
    CHECK(ls_reduce_scatterv(group, sent, bad ? NULL : received[rank], counts,
                             LS_I32, LS_REDUCE_SUM) == LS_ERR_ARGUMENT);
    CHECK(strstr(ls_last_error(), "recv buffer is NULL") != NULL);
    /* In place, an exchange of other counts would overwrite what is to go. */
    wrong[0] = 1;
    CHECK(ls_all_to_allv(group, received[rank], wrong, received[rank], counts,
                         LS_I32) == LS_ERR_ARGUMENT);
    CHECK(strstr(ls_last_error(), "overlap") != NULL);
    CHECK_OK(ls_all_gatherv(group, sent, 2, received[rank], counts, LS_I32));
}

static void refusals_end_it_for_all(void **state)
{
    (void)state;
    everywhere(refuse);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_are_in_flight),
        cmocka_unit_test(counts_must_fit),
        cmocka_unit_test(refusals_end_it_for_all),
    };
    return cmocka_run_group_tests_name("counted", tests, NULL, NULL);
}
