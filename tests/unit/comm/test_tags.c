/*
 * Messages with tags, from anybody, and looked for before they are received: on
 * threads, processes and groups that span nodes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "nodes.h"

enum { LONG = 150001, MOST_RANKS = 8 };

static const int one_and_two[] = {1, 2};

static void everywhere(rank_fn *fn)
{
    static const int sizes[] = {1, 2, 3, 5, 8};
    for (int i = 0; i < 5; i++)
        run_threads(sizes[i], fn, NULL);
    run_processes(3, fn, NULL);
    run_nodes(one_and_two, 2, fn, NULL);
}

static int32_t value(int from, int tag, size_t i)
{
    return (int32_t)(from * 7919 + tag * 104729 + (int)(i % 65521));
}

static size_t length(int tag)
{
    static const size_t lengths[] = {1, LONG, 0, 300, 20000};
    return lengths[tag % 5];
}

static void fill(int32_t *data, int from, int tag)
{
    for (size_t i = 0; i < length(tag); i++)
        data[i] = value(from, tag, i);
}

static void check(const int32_t *data, int from, int tag)
{
    for (size_t i = 0; i < length(tag); i++)
        CHECK(data[i] == value(from, tag, i));
}

/* ---- tags ---------------------------------------------------------------- */

enum { TAGS = 10 };

typedef struct letters {
    int32_t *data[TAGS];
    ls_request *requests[TAGS];
} letters;

static void open_letters(letters *l)
{
    for (int t = 0; t < TAGS; t++)
        CHECK((l->data[t] = malloc(LONG * sizeof(int32_t))) != NULL);
}

static void close_letters(letters *l)
{
    for (int t = 0; t < TAGS; t++) {
        ls_request_free(&l->requests[t]);
        free(l->data[t]);
    }
}

/* Sent in the order of their tags, received in another. */
static void any_order(ls_group *group, void *argument)
{
    static const int order[TAGS] = {9, 3, 0, 7, 1, 8, 2, 6, 4, 5};
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    letters out = {.data = {NULL}}, in = {.data = {NULL}};
    (void)argument;
    open_letters(&out);
    open_letters(&in);
    for (int t = 0; t < TAGS; t++) {
        fill(out.data[t], rank, t);
        CHECK_OK(ls_isend(group, out.data[t], length(t), LS_I32, right, t,
                          &out.requests[t]));
    }
    for (int i = 0; i < TAGS; i++) {
        const int t = order[i];
        CHECK_OK(ls_irecv(group, in.data[t], length(t), LS_I32, left, t,
                          &in.requests[t]));
        if (i % 2 == 0) /* some one by one, some together */
            CHECK_OK(ls_wait(in.requests[t]));
    }
    for (int i = 1; i < TAGS; i += 2)
        CHECK_OK(ls_wait(in.requests[order[i]]));
    for (int t = 0; t < TAGS; t++) {
        int source = -1;
        CHECK_OK(ls_wait(out.requests[t]));
        CHECK_OK(ls_request_source(in.requests[t], &source));
        CHECK(source == left);
        check(in.data[t], left, t);
    }
    close_letters(&out);
    close_letters(&in);
}

static void tags_are_received_in_any_order(void **state)
{
    (void)state;
    everywhere(any_order);
}

/* Of one pair and tag, messages keep their order, kept or not. */
static void order_of_a_tag(ls_group *group, void *argument)
{
    enum { EACH = 40 };
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    int32_t out[2 * EACH], got;
    ls_request *requests[2 * EACH], *receive = NULL;
    (void)argument;
    for (int i = 0; i < 2 * EACH; i++) {
        out[i] = i;
        CHECK_OK(
            ls_isend(group, &out[i], 1, LS_I32, right, i % 2, &requests[i]));
    }
    for (int i = 0; i < 2 * EACH; i++) {
        const int tag = i < EACH; /* all of the second tag first */
        CHECK_OK(ls_irecv(group, &got, 1, LS_I32, left,
                          i % 3 == 0 ? LS_ANY_TAG : tag, &receive));
        if (i % 3 == 0) { /* whatever is next, and then it is put aside */
            int found = -1;
            CHECK_OK(ls_wait(receive));
            CHECK_OK(ls_request_tag(receive, &found));
            CHECK(found == got % 2);
        } else {
            CHECK_OK(ls_wait(receive));
            CHECK(got % 2 == tag);
        }
        ls_request_free(&receive);
        if (i == EACH - 1)
            break;
    }
    /* The rest, of any tag, in the order of each. */
    int last[2] = {-1, -1};
    for (int i = EACH; i < 2 * EACH; i++) {
        CHECK_OK(ls_irecv(group, &got, 1, LS_I32, left, LS_ANY_TAG, &receive));
        CHECK_OK(ls_wait(receive));
        ls_request_free(&receive);
        CHECK(got > last[got % 2]);
        last[got % 2] = got;
    }
    for (int i = 0; i < 2 * EACH; i++) {
        CHECK_OK(ls_wait(requests[i]));
        ls_request_free(&requests[i]);
    }
}

static void messages_of_a_tag_keep_their_order(void **state)
{
    (void)state;
    everywhere(order_of_a_tag);
}

/* ---- from anybody -------------------------------------------------------- */

enum { FROM_EACH = 30 };

/* Rank 0 receives from all others, in the order of each, during a collective.
 */
static void from_anybody(ls_group *group, void *argument)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    int next[MOST_RANKS] = {0};
    int32_t sent[FROM_EACH], sum = 1;
    ls_request *requests[FROM_EACH] = {NULL}, *all = NULL;
    (void)argument;
    CHECK_OK(ls_iall_reduce(group, &sum, &sum, 1, LS_I32, LS_REDUCE_SUM, &all));
    for (int i = 0; i < FROM_EACH && rank != 0; i++) {
        sent[i] = rank * 1000 + i;
        CHECK_OK(ls_isend(group, &sent[i], 1, LS_I32, 0, 5, &requests[i]));
    }
    for (int i = 0; i < FROM_EACH * (size - 1) && rank == 0; i++) {
        ls_request *receive = NULL;
        int32_t got = -1;
        int source = -1;
        CHECK_OK(ls_irecv(group, &got, 1, LS_I32, LS_ANY_RANK, 5, &receive));
        CHECK_OK(ls_wait(receive));
        CHECK_OK(ls_request_source(receive, &source));
        ls_request_free(&receive);
        CHECK(source > 0 && source < size);
        CHECK(got == source * 1000 + next[source]++);
    }
    for (int i = 0; i < FROM_EACH && rank != 0; i++) {
        CHECK_OK(ls_wait(requests[i]));
        ls_request_free(&requests[i]);
    }
    CHECK_OK(ls_wait(all));
    CHECK(sum == size);
    ls_request_free(&all);
}

static void anybody_may_send(void **state)
{
    (void)state;
    everywhere(from_anybody);
}

/* When all have sent something, nobody comes twice before all have come. */
static void in_turn(ls_group *group, void *argument)
{
    enum { ROUNDS = 12 };
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    ls_request *requests[ROUNDS] = {NULL};
    int32_t x = rank;
    (void)argument;
    for (int i = 0; i < ROUNDS && rank != 0; i++)
        CHECK_OK(ls_isend(group, &x, 1, LS_I32, 0, 0, &requests[i]));
    CHECK_OK(ls_barrier(group)); /* all is in the streams */
    for (int i = 0; i < ROUNDS && rank == 0; i++) {
        bool came[MOST_RANKS] = {false};
        for (int r = 1; r < size; r++) {
            CHECK_OK(ls_recv(group, &x, 1, LS_I32, LS_ANY_RANK, 0));
            CHECK(!came[x]);
            came[x] = true;
        }
    }
    for (int i = 0; i < ROUNDS && rank != 0; i++) {
        CHECK_OK(ls_wait(requests[i]));
        ls_request_free(&requests[i]);
    }
}

static void ranks_take_turns(void **state)
{
    (void)state;
    run_threads(5, in_turn, NULL);
    run_processes(4, in_turn, NULL);
}

/* The first receive gets the first message, with or without a source. */
static void first_asked(ls_group *group, void *argument)
{
    const int rank = ls_group_rank(group);
    int32_t out[3] = {10, 11, 12}, in[3] = {0};
    ls_request *requests[3];
    (void)argument;
    for (int i = 0; i < 3 && rank == 0; i++)
        CHECK_OK(ls_irecv(group, &in[i], 1, LS_I32, i == 1 ? 1 : LS_ANY_RANK, 0,
                          &requests[i]));
    CHECK_OK(ls_barrier(group));
    for (int i = 0; i < 3 && rank == 1; i++)
        CHECK_OK(ls_send(group, &out[i], 1, LS_I32, 0, 0));
    for (int i = 2; i >= 0 && rank == 0; i--) {
        CHECK_OK(ls_wait(requests[i]));
        CHECK(in[i] == 10 + i);
        ls_request_free(&requests[i]);
    }
}

static void the_first_receive_gets_the_first(void **state)
{
    (void)state;
    run_threads(2, first_asked, NULL);
    run_processes(3, first_asked, NULL);
    run_nodes(one_and_two, 2, first_asked, NULL);
}

/* ---- probes -------------------------------------------------------------- */

/* Lengths that nobody has told, behind a message that is not asked for. */
static void probing(ls_group *group, void *argument)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    int32_t *data = malloc(LONG * sizeof(*data));
    ls_request *first = NULL, *second = NULL;
    int32_t before = -rank;
    int source, tag;
    size_t bytes;
    (void)argument;
    CHECK(data != NULL);
    CHECK(ls_iprobe(group, LS_ANY_RANK, 77, NULL, NULL, NULL) ==
          LS_IN_PROGRESS);
    fill(data, rank, 4);
    CHECK_OK(ls_isend(group, &before, 1, LS_I32, (rank + 1) % size, 1, &first));
    CHECK_OK(ls_isend(group, data, length(4), LS_I32, (rank + 1) % size, 4,
                      &second));
    CHECK_OK(ls_probe(group, LS_ANY_RANK, 4, &source, &tag, &bytes));
    CHECK(source == (rank + size - 1) % size && tag == 4);
    CHECK(bytes == length(4) * sizeof(int32_t));
    CHECK_OK(ls_iprobe(group, source, LS_ANY_TAG, NULL, &tag, NULL));
    CHECK(tag == 1); /* the one before is still to be had, and first */
    int32_t *got = malloc(bytes);
    ls_request *receive = NULL;
    CHECK(got != NULL);
    CHECK_OK(ls_irecv(group, got, length(4), LS_I32, source, 4, &receive));
    CHECK_OK(ls_wait(receive));
    ls_request_free(&receive);
    check(got, source, 4);
    CHECK_OK(ls_irecv(group, got, 1, LS_I32, source, 1, &receive));
    CHECK_OK(ls_wait(receive));
    ls_request_free(&receive);
    CHECK(got[0] == -source);
    CHECK_OK(ls_wait(first));
    CHECK_OK(ls_wait(second));
    CHECK(ls_iprobe(group, LS_ANY_RANK, LS_ANY_TAG, NULL, NULL, NULL) ==
          LS_IN_PROGRESS);
    ls_request_free(&first);
    ls_request_free(&second);
    free(got);
    free(data);
    CHECK_OK(ls_barrier(group));
}

static void probes_tell_lengths(void **state)
{
    (void)state;
    everywhere(probing);
}

/* ---- what goes wrong ----------------------------------------------------- */

static void wrong_count(ls_group *group, void *argument)
{
    const int rank = ls_group_rank(group);
    int32_t x[4] = {0};
    ls_request *request = NULL;
    (void)argument;
    if (rank == 1)
        CHECK_OK(ls_isend(group, x, 3, LS_I32, 0, 9, &request));
    if (rank == 0) {
        ls_status status =
            ls_irecv(group, x, 4, LS_I32, LS_ANY_RANK, 9, &request);
        if (status == LS_OK) /* it has not come yet */
            status = ls_wait(request);
        CHECK(status == LS_ERR_MISMATCH);
    } else {
        CHECK(ls_barrier(group) == LS_ERR_MISMATCH);
    }
    CHECK(strstr(ls_last_error(), "count differs") != NULL);
    CHECK(strstr(ls_last_error(), "3 i32") != NULL);
    ls_request_free(&request);
}

static void a_wrong_count_is_said(void **state)
{
    (void)state;
    run_threads(3, wrong_count, NULL);
    run_processes(2, wrong_count, NULL);
    run_nodes(one_and_two, 2, wrong_count, NULL);
}

static void wrong_arguments(ls_group *group, void *argument)
{
    int32_t x = 0;
    int rank = 0;
    ls_request *request = NULL;
    (void)argument;
    CHECK(ls_isend(group, &x, 1, LS_I32, 0, -1, &request) == LS_ERR_ARGUMENT);
    CHECK(strstr(ls_last_error(), "the tag is -1") != NULL);
    CHECK(ls_isend(group, &x, 1, LS_I32, LS_ANY_RANK, 0, &request) ==
          LS_ERR_ARGUMENT);
    CHECK(ls_irecv(group, &x, 1, LS_I32, 0, -2, &request) == LS_ERR_ARGUMENT);
    CHECK(ls_probe(group, 5, 0, NULL, NULL, NULL) == LS_ERR_ARGUMENT);
    CHECK_OK(ls_irecv(group, &x, 1, LS_I32, 0, 1, &request));
    CHECK(ls_request_source(request, &rank) == LS_ERR_STATE);
    ls_request *send = NULL;
    CHECK_OK(ls_isend(group, &x, 1, LS_I32, 0, 1, &send));
    CHECK_OK(ls_wait(request));
    CHECK_OK(ls_wait(send));
    CHECK(ls_request_source(send, &rank) == LS_ERR_STATE);
    ls_request_free(&request);
    ls_request_free(&send);
}

static void arguments_are_looked_at(void **state)
{
    (void)state;
    run_threads(1, wrong_arguments, NULL);
}

/* One dies: whoever waits for anybody is told, although others live. */
static void one_dies(ls_group *group, void *argument)
{
    int32_t x = 0;
    (void)argument;
    if (ls_group_rank(group) == 1)
        _exit(0);
    CHECK(ls_recv(group, &x, 1, LS_I32, LS_ANY_RANK, 0) == LS_ERR_PEER_DEAD);
    CHECK(strstr(ls_last_error(), "rank 1") != NULL);
}

static void a_death_ends_it(void **state)
{
    (void)state;
    run_processes(3, one_dies, NULL);
}

/* Rank 0 goes on when some ranks leave, and gives up when the last one does. */
static void all_leave(ls_group *group, void *argument)
{
    int32_t x = ls_group_rank(group);
    (void)argument;
    if (x == 1)
        return; /* the group is closed */
    if (x == 2) {
        usleep(300 * 1000); /* rank 0 has looked around by now */
        CHECK_OK(ls_send(group, &x, 1, LS_I32, 0, 0));
        return;
    }
    CHECK_OK(ls_recv(group, &x, 1, LS_I32, LS_ANY_RANK, 0));
    CHECK(x == 2);
    CHECK(ls_recv(group, &x, 1, LS_I32, LS_ANY_RANK, 0) == LS_ERR_PEER_DEAD);
    CHECK(strstr(ls_last_error(), "has closed the group") != NULL);
}

static void nobody_is_left(void **state)
{
    (void)state;
    run_processes(3, all_leave, NULL);
    run_threads(3, all_leave, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tags_are_received_in_any_order),
        cmocka_unit_test(messages_of_a_tag_keep_their_order),
        cmocka_unit_test(anybody_may_send),
        cmocka_unit_test(ranks_take_turns),
        cmocka_unit_test(the_first_receive_gets_the_first),
        cmocka_unit_test(probes_tell_lengths),
        cmocka_unit_test(a_wrong_count_is_said),
        cmocka_unit_test(arguments_are_looked_at),
        cmocka_unit_test(a_death_ends_it),
        cmocka_unit_test(nobody_is_left),
    };
    return cmocka_run_group_tests_name("tags", tests, NULL, NULL);
}
