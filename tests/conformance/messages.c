#include "messages.h"

#include <stdlib.h>

#include "../unit/comm/ranks.h"
#include "cases.h"

enum { TAGS = 4, LONGEST = 40009, EACH = 23, MOST_RANKS = CASE_MOST_RANKS };

static int32_t value(int from, int to, int tag, size_t i)
{
    return (int32_t)(from * 7919 + to * 611953 + tag * 104729 +
                     (int)(i % 65521));
}

static void finish(ls_request *request)
{
    CHECK_OK(ls_wait(request));
    ls_request_free(&request);
}

/* ---- messages ------------------------------------------------------------ */

/* Nothing, one, some, and more than what is sent before it is asked for. */
static size_t length(int tag)
{
    static const size_t lengths[TAGS] = {1, LONGEST, 0, 300};
    return lengths[tag];
}

static void receive(ls_group *group, int32_t *data, int source, int tag)
{
    const int rank = ls_group_rank(group);
    ls_request *request = NULL;
    int found_source = -1, found_tag = -1;
    CHECK_OK(ls_irecv(group, data, length(tag), LS_I32, source, tag, &request));
    CHECK_OK(ls_wait(request));
    CHECK_OK(ls_request_source(request, &found_source));
    CHECK_OK(ls_request_tag(request, &found_tag));
    CHECK(found_tag == tag);
    CHECK(source == LS_ANY_RANK || found_source == source);
    for (size_t i = 0; i < length(tag); i++)
        CHECK(data[i] == value(found_source, rank, tag, i));
    ls_request_free(&request);
}

/* To the rank that is `away` behind this one, in the order of their tags. Taken
   in another order, the first of them from whom it comes. */
static void send_around(ls_group *group, int away)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    const int to = (rank + away) % size, from = (rank + size - away) % size;
    int32_t *data[TAGS], *room = malloc(LONGEST * sizeof(*room));
    ls_request *requests[TAGS];
    int source = -1;
    size_t bytes = 0;
    CHECK(room != NULL);
    for (int t = 0; t < TAGS; t++) {
        data[t] = malloc(length(t) * sizeof(*room) + 1);
        CHECK(data[t] != NULL);
        for (size_t i = 0; i < length(t); i++)
            data[t][i] = value(rank, to, t, i);
        CHECK_OK(
            ls_isend(group, data[t], length(t), LS_I32, to, t, &requests[t]));
    }
    CHECK_OK(ls_probe(group, LS_ANY_RANK, 3, &source, NULL, &bytes));
    CHECK(source == from && bytes == length(3) * sizeof(*room));
    receive(group, room, LS_ANY_RANK, 3);
    receive(group, room, from, 1);
    CHECK_OK(ls_probe(group, from, LS_ANY_TAG, NULL, &source, &bytes));
    CHECK(source == 0 && bytes == sizeof(*room));
    receive(group, room, from, 2);
    receive(group, room, LS_ANY_RANK, 0);
    for (int t = 0; t < TAGS; t++) {
        finish(requests[t]);
        free(data[t]);
    }
    free(room);
    CHECK_OK(ls_barrier(group)); /* what is sent next is from another rank */
    CHECK(ls_iprobe(group, LS_ANY_RANK, LS_ANY_TAG, NULL, NULL, NULL) ==
          LS_IN_PROGRESS);
    CHECK_OK(ls_barrier(group));
}

/* All to rank 0, which takes what comes, while a collective is under way. */
static void send_to_first(ls_group *group)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    int32_t sent[EACH], sum = 1;
    int next[MOST_RANKS] = {0};
    ls_request *requests[EACH], *all = NULL;
    CHECK_OK(ls_iall_reduce(group, &sum, &sum, 1, LS_I32, LS_REDUCE_SUM, &all));
    for (int i = 0; i < EACH && rank != 0; i++) {
        sent[i] = rank * EACH + i;
        CHECK_OK(ls_isend(group, &sent[i], 1, LS_I32, 0, 7, &requests[i]));
    }
    for (int i = 0; i < EACH * (size - 1) && rank == 0; i++) {
        int32_t got = -1;
        int source = -1;
        ls_request *request = NULL;
        CHECK_OK(ls_irecv(group, &got, 1, LS_I32, LS_ANY_RANK, 7, &request));
        CHECK_OK(ls_wait(request));
        CHECK_OK(ls_request_source(request, &source));
        ls_request_free(&request);
        CHECK(source > 0 && source < size);
        CHECK(got == source * EACH + next[source]++);
    }
    for (int i = 0; i < EACH && rank != 0; i++)
        finish(requests[i]);
    finish(all);
    CHECK(sum == size);
}

/* ---- counts of their own ------------------------------------------------- */

/* Elements from one rank to another; all of them together fit in LONGEST. */
static size_t counted(int from, int to)
{
    return (size_t)((from * 3 + to * 5) % 7) * 301;
}

/* Three kinds at once, waited for from the last to the first. */
static void run_counted_in_flight(ls_group *group)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    const size_t room = LONGEST * sizeof(int32_t);
    size_t sends[MOST_RANKS], receives[MOST_RANKS], all[MOST_RANKS], own = 0;
    int32_t *data[6];
    ls_request *gather = NULL, *scatter = NULL, *exchange = NULL;
    for (int b = 0; b < 6; b++)
        CHECK((data[b] = malloc(room)) != NULL);
    int32_t *at = data[0];
    for (int r = 0; r < size; r++) {
        sends[r] = counted(rank, r);
        receives[r] = counted(r, rank);
        all[r] = counted(r, 0);
        own += r < rank ? all[r] : 0;
        for (size_t i = 0; i < sends[r]; i++)
            *at++ = value(rank, r, 0, i);
    }
    for (size_t i = 0; i < LONGEST; i++) {
        data[2][i] = value(rank, 0, 1, i);
        data[4][i] = (int32_t)i * (rank + 1);
    }
    CHECK_OK(ls_iall_to_allv(group, data[0], sends, data[1], receives, LS_I32,
                             &exchange));
    CHECK_OK(ls_iall_gatherv(group, data[2], all[rank], data[3], all, LS_I32,
                             &gather));
    CHECK_OK(ls_ireduce_scatterv(group, data[4], data[5], all, LS_I32,
                                 LS_REDUCE_SUM, &scatter));
    finish(scatter);
    for (size_t i = 0; i < all[rank]; i++)
        CHECK(data[5][i] == (int32_t)(own + i) * size * (size + 1) / 2);
    finish(gather);
    at = data[3];
    for (int r = 0; r < size; r++)
        for (size_t i = 0; i < all[r]; i++)
            CHECK(*at++ == value(r, 0, 1, i));
    finish(exchange);
    at = data[1];
    for (int r = 0; r < size; r++)
        for (size_t i = 0; i < receives[r]; i++)
            CHECK(*at++ == value(r, rank, 0, i));
    for (int b = 0; b < 6; b++)
        free(data[b]);
}

/* ---- products ------------------------------------------------------------ */

/* Whole numbers, so that sums are exact. */
static void run_products(ls_group *group)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    const size_t n = EACH * (size_t)size;
    float send[EACH * MOST_RANKS], recv[EACH * MOST_RANKS];
    ls_request *request = NULL;
    int factors = 0;
    for (int r = 0; r < size; r++)
        factors += (r % 3 + 1) * (r + 1);
    for (size_t i = 0; i < n; i++)
        send[i] = (float)((int)(i % 31) * (rank + 1));
    CHECK_OK(ls_iall_reduce_premul(group, send, recv, n, LS_F32, rank % 3 + 1,
                                   &request));
    finish(request);
    for (size_t i = 0; i < n; i++)
        CHECK(recv[i] == (float)((int)(i % 31) * factors));
    CHECK_OK(ls_ireduce_scatter_premul(group, send, recv, EACH, LS_F32,
                                       rank % 3 + 1, &request));
    finish(request);
    for (size_t i = 0; i < EACH; i++)
        CHECK(recv[i] ==
              (float)((int)(((size_t)rank * EACH + i) % 31) * factors));
}

void run_messages(ls_group *group)
{
    const int size = ls_group_size(group);
    CHECK(size <= MOST_RANKS);
    for (int away = 0; away < size && away < 4; away++)
        send_around(group, away);
    send_to_first(group);
    run_counted_in_flight(group);
    run_products(group);
}
