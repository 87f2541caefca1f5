/*
 * Random selection tables: whatever a table chooses, among the algorithms that
 * fold in the common order, each operation has the same bits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../unit/comm/nodes.h"
#include "comm/coll/algorithm.h"

enum { TABLES = 200, COUNTS = 3, OPERATIONS = 8, LINE = 4096 };

/* Elements of a block: within a cell, and within and beyond a chunk. */
static const size_t counts[COUNTS] = {5, 1501, 20011};

/* Where random ranges may end, in bytes. */
static const size_t ends[] = {64, 4096, 20000, 70000, 300000};

static const lsi_operation operations[OPERATIONS] = {
    LSI_OP_ALL_REDUCE, LSI_OP_REDUCE, LSI_OP_REDUCE_SCATTER, LSI_OP_BROADCAST,
    LSI_OP_ALL_GATHER, LSI_OP_GATHER, LSI_OP_SCATTER,        LSI_OP_ALL_TO_ALL};

/* ---- a table ------------------------------------------------------------- */

static uint64_t next(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t mix = *state;
    mix = (mix ^ mix >> 30) * 0xbf58476d1ce4e5b9u;
    return (mix ^ mix >> 27) * 0x94d049bb133111ebu >> 32;
}

/* A random algorithm that folds and is not in cells. */
static const lsi_algorithm *draw(uint64_t *state, lsi_operation operation)
{
    const lsi_algorithm *drawn = NULL, *a;
    uint64_t seen = 0;
    for (int i = 0; (a = lsi_algorithm_at(i)) != NULL; i++)
        if (a->operation == operation && !a->own_order && !a->in_cells &&
            next(state) % ++seen == 0)
            drawn = a;
    return drawn;
}

/* One or two of them, and one that always works. */
static size_t add_names(uint64_t *state, lsi_operation operation, size_t end,
                        char *text)
{
    if (end <= LSI_FLAT_BYTES && next(state) % 3 == 0)
        return (size_t)sprintf(text, "flat");
    size_t used = 0;
    const uint64_t n = 1 + next(state) % 2;
    for (uint64_t i = 0; i < n; i++)
        used +=
            (size_t)sprintf(text + used, "%s|", draw(state, operation)->name);
    return used + (size_t)sprintf(text + used, "staged");
}

/*
 * A line with settings, and with ranges for each operation. Ranges that are
 * missing are default.
 */
static void make_line(uint64_t seed, char *text)
{
    uint64_t state = seed;
    const unsigned lines = (unsigned)(next(&state) % 4033); /* of 64 bytes */
    const unsigned spins = (unsigned)(next(&state) % 4991);
    size_t used =
        (size_t)sprintf(text, "window:%u,spins:%u",
                        LSI_LEAST_WINDOW + 64 * lines, LSI_LEAST_SPINS + spins);
    for (int o = 0; o < OPERATIONS; o++) {
        size_t begin = 0;
        used += (size_t)sprintf(text + used, ",%s",
                                lsi_operation_name(operations[o]));
        for (size_t e = 0; e < sizeof(ends) / sizeof(ends[0]); e++) {
            if (next(&state) % 2 == 0 && (begin > 0 || e < 4))
                continue;
            used += (size_t)sprintf(text + used,
                                    "%s%zu-%zu:", begin == 0 ? ":" : ";", begin,
                                    ends[e]);
            used += add_names(&state, operations[o], ends[e], text + used);
            begin = ends[e];
        }
    }
}

/* ---- an operation -------------------------------------------------------- */

typedef struct buffers {
    float *send, *recv, *input; /* input: initial contents of both */
    float *expected[OPERATIONS][COUNTS];
    size_t elements; /* of each */
} buffers;

/* Of sizes that differ, so that another order is another result. */
static void fill(float *input, size_t n, int rank)
{
    uint64_t state = (uint64_t)rank + 1;
    for (size_t i = 0; i < n; i++) {
        const float fraction = (float)next(&state) * 0x1p-32f - 0.5f;
        input[i] = fraction * (float)(1 << next(&state) % 12);
    }
}

static ls_status call(ls_group *group, lsi_operation operation,
                      const buffers *b, size_t n)
{
    const int root = ls_group_size(group) - 1;
    switch (operation) {
    case LSI_OP_ALL_REDUCE:
        return ls_all_reduce(group, b->send, b->recv, n, LS_F32, LS_REDUCE_SUM);
    case LSI_OP_REDUCE:
        return ls_reduce(group, b->send, b->recv, n, LS_F32, LS_REDUCE_SUM,
                         root);
    case LSI_OP_REDUCE_SCATTER:
        return ls_reduce_scatter(group, b->send, b->recv, n, LS_F32,
                                 LS_REDUCE_SUM);
    case LSI_OP_BROADCAST:
        return ls_broadcast(group, b->send, n, LS_F32, root);
    case LSI_OP_ALL_GATHER:
        return ls_all_gather(group, b->send, b->recv, n, LS_F32);
    case LSI_OP_GATHER:
        return ls_gather(group, b->send, b->recv, n, LS_F32, root);
    case LSI_OP_SCATTER:
        return ls_scatter(group, b->send, b->recv, n, LS_F32, root);
    default:
        return ls_all_to_all(group, b->send, b->recv, n, LS_F32);
    }
}

/* Runs one; its result is the contents of both buffers. */
static void run(ls_group *group, int o, int c, const buffers *b)
{
    memcpy(b->send, b->input, b->elements * sizeof(float));
    memcpy(b->recv, b->input, b->elements * sizeof(float));
    CHECK_OK(call(group, operations[o], b, counts[c]));
}

static void compare(const ls_group *group, int o, int c, const buffers *b,
                    const char *line)
{
    const float *const expected = b->expected[o][c];
    if (memcmp(b->send, expected, b->elements * sizeof(float)) == 0 &&
        memcmp(b->recv, expected + b->elements, b->elements * sizeof(float)) ==
            0)
        return;
    fprintf(stderr, "%s of %zu by %d ranks has other bits with: %s\n",
            lsi_operation_name(operations[o]), counts[c], group->size, line);
    abort();
}

/* ---- all of them --------------------------------------------------------- */

static void allocate(ls_group *group, bool shared, size_t bytes, float **out)
{
    void *block = NULL;
    if (shared)
        CHECK_OK(ls_shared_alloc(group, bytes, &block));
    else
        CHECK((block = malloc(bytes)) != NULL);
    *out = block;
}

static void release(ls_group *group, bool shared, void *block)
{
    if (shared)
        CHECK_OK(ls_shared_free(group, &block));
    else
        free(block);
}

static void run_all(ls_group *group, const char *line, bool first, buffers *b)
{
    for (int o = 0; o < OPERATIONS; o++)
        for (int c = 0; c < COUNTS; c++) {
            run(group, o, c, b);
            if (!first) {
                compare(group, o, c, b, line);
                continue;
            }
            float *const kept = malloc(2 * b->elements * sizeof(float));
            CHECK(kept != NULL);
            memcpy(kept, b->send, b->elements * sizeof(float));
            memcpy(kept + b->elements, b->recv, b->elements * sizeof(float));
            b->expected[o][c] = kept;
        }
}

static void run_tables(ls_group *group, void *shared_flag)
{
    const bool shared = shared_flag != NULL;
    char line[LINE] = "";
    buffers b = {.elements = counts[COUNTS - 1] * (size_t)ls_group_size(group)};
    allocate(group, shared, b.elements * sizeof(float), &b.send);
    allocate(group, shared, b.elements * sizeof(float), &b.recv);
    CHECK((b.input = malloc(b.elements * sizeof(float))) != NULL);
    fill(b.input, b.elements, ls_group_rank(group));
    run_all(group, line, true, &b);
    for (uint64_t t = 0; t < TABLES; t++) {
        make_line(t * 1000003, line);
        CHECK_OK(ls_group_select(group, line));
        run_all(group, line, false, &b);
    }
    for (int i = 0; i < OPERATIONS * COUNTS; i++)
        free(b.expected[i / COUNTS][i % COUNTS]);
    free(b.input);
    release(group, shared, b.recv);
    release(group, shared, b.send);
}

static void bits_of_threads_stay(void **state)
{
    (void)state;
    run_threads(3, run_tables, NULL);
}

static void bits_of_processes_stay(void **state)
{
    bool shared = true;
    (void)state;
    run_processes(2, run_tables, NULL);
    run_processes(2, run_tables, &shared);
    run_processes(5, run_tables, NULL);
}

/* Tables that are all alike would show little. */
static void tables_differ(void **state)
{
    char one[LINE], other[LINE];
    int different = 0;
    (void)state;
    make_line(0, one);
    for (uint64_t t = 1; t < TABLES; t++) {
        make_line(t * 1000003, other);
        different += strcmp(one, other) != 0;
    }
    assert_int_equal(different, TABLES - 1);
    assert_non_null(strstr(one, "all_reduce:0-"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_differ),
        cmocka_unit_test(bits_of_threads_stay),
        cmocka_unit_test(bits_of_processes_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
