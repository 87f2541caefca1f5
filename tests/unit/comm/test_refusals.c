/*
 * One rank cannot take part, as its arguments are wrong or it has no memory.
 * This ends the call on all ranks at once; the error names the rank, and the
 * group goes on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <time.h>

#include <cmocka.h>

#include "comm/coll/algorithm.h"
#include "lockstep/profile.h"
#include "ranks.h"

enum { COUNT = 6, MOST_RANKS = 5, NO_ROOT = -7 };

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The arguments of a call; one rank gets others than the rest. */
typedef struct arguments {
    void *send, *recv;
    size_t count;
    ls_dtype dtype;
    ls_reduce_op redop;
    int root;
} arguments;

typedef ls_status call_fn(ls_group *group, const arguments *a);

static ls_status broadcast(ls_group *group, const arguments *a)
{
    return ls_broadcast(group, a->send, a->count, a->dtype, a->root);
}

static ls_status all_reduce(ls_group *group, const arguments *a)
{
    return ls_all_reduce(group, a->send, a->recv, a->count, a->dtype, a->redop);
}

static ls_status reduce(ls_group *group, const arguments *a)
{
    return ls_reduce(group, a->send, a->recv, a->count, a->dtype, a->redop,
                     a->root);
}

static ls_status all_gather(ls_group *group, const arguments *a)
{
    return ls_all_gather(group, a->send, a->recv, a->count, a->dtype);
}

static ls_status reduce_scatter(ls_group *group, const arguments *a)
{
    return ls_reduce_scatter(group, a->send, a->recv, a->count, a->dtype,
                             a->redop);
}

static ls_status gather(ls_group *group, const arguments *a)
{
    return ls_gather(group, a->send, a->recv, a->count, a->dtype, a->root);
}

static ls_status scatter(ls_group *group, const arguments *a)
{
    return ls_scatter(group, a->send, a->recv, a->count, a->dtype, a->root);
}

static ls_status all_to_all(ls_group *group, const arguments *a)
{
    return ls_all_to_all(group, a->send, a->recv, a->count, a->dtype);
}

/* Planning, and if all ranks could plan, a round. */
static ls_status plan(ls_group *group, const arguments *a)
{
    ls_request *request = NULL;
    ls_status status = ls_all_reduce_plan(group, a->send, a->recv, a->count,
                                          a->dtype, a->redop, &request);
    if (status != LS_OK)
        return status;
    status = ls_start(request);
    if (status == LS_OK)
        status = ls_wait(request);
    ls_request_free(&request);
    return status;
}

typedef struct operation {
    const char *name;
    call_fn *call;
    bool reduces, has_root;
} operation;

static const operation operations[] = {
    {"broadcast", broadcast, false, true},
    {"all_reduce", all_reduce, true, false},
    {"reduce", reduce, true, true},
    {"all_gather", all_gather, false, false},
    {"reduce_scatter", reduce_scatter, true, false},
    {"gather", gather, false, true},
    {"scatter", scatter, false, true},
    {"all_to_all", all_to_all, false, false},
    {"plan", plan, true, false},
};

enum { OPERATIONS = sizeof(operations) / sizeof(operations[0]) };

/* A fault in the arguments of one rank. */
typedef struct fault {
    void (*spoil)(arguments *a);
    ls_status status;
    const char *text;
    bool of_reductions, of_roots;
} fault;

static void no_buffers(arguments *a)
{
    a->send = a->recv = NULL;
}

static void no_type(arguments *a)
{
    a->dtype = (ls_dtype)99;
}

static void no_reduction(arguments *a)
{
    a->redop = (ls_reduce_op)-1;
}

static void integer_average(arguments *a)
{
    a->dtype = LS_I32;
    a->redop = LS_REDUCE_AVG;
}

static void negative_root(arguments *a)
{
    a->root = NO_ROOT;
}

static void negative_count(arguments *a)
{
    a->count = (size_t)-1;
}

static const fault faults[] = {
    {no_buffers, LS_ERR_ARGUMENT, "buffer is NULL", false, false},
    {no_type, LS_ERR_DTYPE, "99 is not an ls_dtype", false, false},
    {negative_count, LS_ERR_ARGUMENT, "elements are too many; each of ", false,
     false},
    {no_reduction, LS_ERR_ARGUMENT, "is not an ls_reduce_op", true, false},
    {integer_average, LS_ERR_UNSUPPORTED, "avg is not defined", true, false},
    {negative_root, LS_ERR_ARGUMENT, "rank -7 is not in the group", false,
     true},
};

enum { FAULTS = sizeof(faults) / sizeof(faults[0]) };

/* The group is as good as before. */
static void check_usable(ls_group *group)
{
    int32_t x = ls_group_rank(group);
    const int size = ls_group_size(group);
    CHECK_OK(ls_all_reduce(group, &x, &x, 1, LS_I32, LS_REDUCE_SUM));
    CHECK(x == size * (size - 1) / 2);
}

static void check_refused(const ls_group *group, int refuser, ls_status status,
                          ls_status wanted, const char *text)
{
    char name[64];
    snprintf(name, sizeof(name), "rank %d cannot take part in ", refuser);
    CHECK(status == wanted);
    CHECK(strstr(ls_last_error(), text) != NULL);
    const bool named = strstr(ls_last_error(), name) != NULL;
    CHECK(named == (ls_group_rank(group) != refuser));
}

static void every_fault(ls_group *group, const operation *op)
{
    static const int32_t zeros[COUNT * MOST_RANKS * 2];
    const int size = ls_group_size(group);
    unsigned char send[sizeof(zeros)], recv[sizeof(zeros)];
    for (int f = 0; f < FAULTS; f++) {
        if ((faults[f].of_reductions && !op->reduces) ||
            (faults[f].of_roots && !op->has_root))
            continue;
        /* The root last, so that it is the one who refuses once. */
        for (int refuser = 0; refuser < size; refuser++) {
            arguments a = {send, recv, COUNT, LS_F32, LS_REDUCE_SUM, size - 1};
            memcpy(send, zeros, sizeof(send));
            if (ls_group_rank(group) == refuser)
                faults[f].spoil(&a);
            check_refused(group, refuser, op->call(group, &a), faults[f].status,
                          faults[f].text);
        }
        check_usable(group);
    }
}

/* With every algorithm; the faults are those of the arguments alone. */
static void faults_of_arguments(ls_group *group, void *argument)
{
    (void)argument;
    const double then = seconds();
    const lsi_algorithm *row;
    for (int o = 0; o < OPERATIONS; o++)
        every_fault(group, &operations[o]);
    for (int i = 0; (row = lsi_algorithm_at(i)) != NULL; i++) {
        if (row->operation == LSI_OP_BARRIER ||
            row->operation > LSI_OP_ALL_TO_ALL)
            continue;
        const operation *op = operations;
        while (strcmp(op->name, lsi_operation_name(row->operation)) != 0)
            op++;
        char line[64];
        snprintf(line, sizeof(line), "%s:0-32k:%s%s", op->name, row->name,
                 row->in_cells ? "" : "|staged");
        CHECK_OK(ls_group_select(group, line));
        every_fault(group, op);
    }
    CHECK(seconds() - then < 30); /* of some thousand, none has waited */
}

static void wrong_arguments_of_one_rank_reach_all(void **state)
{
    (void)state;
    run_threads(2, faults_of_arguments, NULL);
    run_threads(3, faults_of_arguments, NULL);
    run_processes(5, faults_of_arguments, NULL);
}

/* ---- memory -------------------------------------------------------------- */

/* Rank 1 may not allocate what the algorithms want, each more than the last. */
static void without_memory(ls_group *group, void *argument)
{
    static const char *const hungry[] = {"copy", "butterfly", "ring",
                                         "doubling", "halving"};
    enum { HUNGRY = sizeof(hungry) / sizeof(hungry[0]), LEAST = 100000 };
    const operation *op = argument;
    uint16_t *data = calloc(LEAST << HUNGRY, sizeof(*data));
    for (size_t i = 0; i < HUNGRY; i++) {
        char line[64];
        ls_memory_stats live;
        const arguments a = {data, data, LEAST << i, LS_BF16, LS_REDUCE_SUM, 0};
        snprintf(line, sizeof(line), "all_reduce:0-inf:%s|staged", hungry[i]);
        CHECK_OK(ls_group_select(group, line));
        ls_memory_total(&live);
        if (ls_group_rank(group) == 1)
            ls_memory_set_budget(live.live_bytes + 1024);
        const double then = seconds();
        const ls_status status = op->call(group, &a);
        ls_memory_set_budget(0);
        CHECK(seconds() - then < 1);
        check_refused(group, 1, status, LS_ERR_BUDGET, "memory budget");
        check_usable(group);
        CHECK_OK(op->call(group, &a));
    }
    free(data);
}

static void one_rank_without_memory_stops_all(void **state)
{
    (void)state;
    for (int size = 2; size <= 5; size += size == 2 ? 1 : 2) {
        operation once = {"all_reduce", all_reduce, true, false};
        operation planned = {"plan", plan, true, false};
        run_processes(size, without_memory, &once);
        run_processes(size, without_memory, &planned);
    }
}

/* ---- what is not one of the operations ----------------------------------- */

static void others(ls_group *group, void *argument)
{
    void *data = NULL;
    size_t sizes[MOST_RANKS];
    ls_group *part = NULL;
    const bool odd = ls_group_rank(group) == 1;
    (void)argument;
    check_refused(group, 1, ls_group_select(group, odd ? NULL : ""),
                  LS_ERR_ARGUMENT, "line is NULL");
    check_refused(group, 1, ls_group_split(group, 0, 0, odd ? NULL : &part),
                  LS_ERR_ARGUMENT, "part is NULL");
    check_refused(
        group, 1,
        ls_all_gather_bytes(group, odd ? NULL : "ab", 2, sizes, &data),
        LS_ERR_ARGUMENT, "send is NULL");
    check_refused(group, 1, ls_shared_alloc(group, 64, odd ? NULL : &data),
                  LS_ERR_ARGUMENT, "data is NULL");
    CHECK_OK(ls_shared_alloc(group, 64, &data));
    void *own = data, *stray = &data;
    check_refused(group, 1, ls_shared_free(group, odd ? &stray : &data),
                  LS_ERR_ARGUMENT,
                  "ls_shared_alloc did not allocate this memory");
    CHECK(data == own); /* nobody has freed it */
    CHECK_OK(ls_shared_free(group, &data));
    check_usable(group);
}

static void every_collective_function_tells(void **state)
{
    (void)state;
    run_threads(2, others, NULL);
    run_processes(3, others, NULL);
}

/* A second start is refused like any other call, in its place in the queue. */
static void start_twice(ls_group *group, void *argument)
{
    float x[2] = {1, 2}, y = 1;
    ls_request *first = NULL, *second = NULL;
    (void)argument;
    CHECK_OK(ls_all_reduce_plan(group, x, x, 2, LS_F32, LS_REDUCE_SUM, &first));
    CHECK_OK(
        ls_all_reduce_plan(group, &y, &y, 1, LS_F32, LS_REDUCE_SUM, &second));
    CHECK_OK(ls_start(first));
    const bool odd = ls_group_rank(group) == 1;
    ls_status status = ls_start(odd ? first : second);
    if (!odd) {
        CHECK_OK(status);
        status = ls_wait(second);
    }
    check_refused(group, 1, status, LS_ERR_STATE, "in flight");
    CHECK_OK(ls_wait(first));
    CHECK(x[1] == 2 * (float)ls_group_size(group));
    ls_request_free(&first);
    ls_request_free(&second);
    check_usable(group);
}

static void a_second_start_is_refused(void **state)
{
    (void)state;
    run_threads(2, start_twice, NULL);
    run_processes(3, start_twice, NULL);
}

/* Without a refusal a difference is a mismatch; so is another operation. */
static void disagree(ls_group *group, void *argument)
{
    float x[2] = {0};
    const bool odd = ls_group_rank(group) == 1;
    const ls_status status =
        *(const bool *)argument
            ? ls_all_reduce(group, x, x, odd ? 0 : 2, LS_F32, LS_REDUCE_SUM)
        : odd ? ls_broadcast(group, NULL, 2, LS_F32, 0)
              : ls_all_reduce(group, x, x, 2, LS_F32, LS_REDUCE_SUM);
    CHECK(status == LS_ERR_MISMATCH);
}

static void other_calls_are_still_mismatches(void **state)
{
    (void)state;
    for (int empty = 0; empty < 2; empty++) {
        bool argument = empty;
        run_threads(2, disagree, &argument);
        run_threads(3, disagree, &argument);
        run_processes(2, disagree, &argument);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_arguments_of_one_rank_reach_all),
        cmocka_unit_test(one_rank_without_memory_stops_all),
        cmocka_unit_test(every_collective_function_tells),
        cmocka_unit_test(a_second_start_is_refused),
        cmocka_unit_test(other_calls_are_still_mismatches),
    };
    return cmocka_run_group_tests_name("refusals", tests, NULL, NULL);
}
