/*
 * Schedules are pure functions: checked for every size up to 64, with no group.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "comm/schedule/halving.h"
#include "comm/schedule/pull.h"
#include "comm/schedule/ring.h"
#include "comm/schedule/tree.h"

enum { MOST = 64 };

/*
 * Follows the partial sums: holds[r] is the set of ranks whose data is in what
 * rank r has for a block. All messages of a step are sent before any arrives.
 */
static void follow_block(int size, int block)
{
    uint64_t holds[MOST];
    for (int r = 0; r < size; r++)
        holds[r] = (uint64_t)1 << r;
    for (int step = 1; step < size; step++) {
        int messages = 0;
        for (int r = 0; r < size; r++) {
            if (lsi_ring_reduce_sends(r, size, step) != block)
                continue;
            const int to = lsi_ring_right(r, size);
            assert_int_equal(lsi_ring_left(to, size), r);
            assert_int_equal(lsi_ring_reduce_receives(to, size, step), block);
            assert_int_equal(holds[r] & holds[to], 0);
            holds[to] |= holds[r];
            messages++;
        }
        assert_int_equal(messages, 1);
    }
    const uint64_t all = size == 64 ? UINT64_MAX : ((uint64_t)1 << size) - 1;
    assert_true(holds[block] == all); /* rank i ends with block i */
    bool has[MOST] = {false};
    has[block] = true;
    for (int step = 1; step < size; step++)
        for (int r = 0; r < size; r++)
            if (lsi_ring_gather_sends(r, size, step) == block) {
                const int to = lsi_ring_right(r, size);
                assert_true(has[r] && !has[to]);
                assert_int_equal(lsi_ring_gather_receives(to, size, step),
                                 block);
                has[to] = true;
                break;
            }
    for (int r = 0; r < size; r++)
        assert_true(has[r]);
}

static void rings_sum_everything_once(void **state)
{
    (void)state;
    for (int size = 1; size <= MOST; size++)
        for (int block = 0; block < size; block++)
            follow_block(size, block);
}

/* Bytes of a rank's receive buffer, by operation. */
static size_t expected(const lsi_place *place, int rank)
{
    switch (place->operation) {
    case LSI_OP_BROADCAST:
    case LSI_OP_SCATTER:
        return place->block;
    case LSI_OP_GATHER:
        return rank == place->root ? place->block * (size_t)place->size : 0;
    default:
        return place->block * (size_t)place->size;
    }
}

/* Arriving data cover the receive buffer once, and come from inside send
 * buffers. */
static void check_place(const lsi_place *place)
{
    size_t most = 0;
    for (int r = 0; r < place->size; r++) {
        size_t got = 0;
        const size_t own = lsi_contribution(place, r);
        most = own > most ? own : most;
        for (int p = 0; p < place->size; p++) {
            const lsi_pull pull = lsi_pull_of(place, r, p);
            assert_true(pull.from + pull.bytes <= lsi_contribution(place, p));
            if (pull.bytes == 0)
                continue;
            assert_int_equal(pull.to, got); /* peers in order, no gap */
            got += pull.bytes;
        }
        assert_int_equal(got, expected(place, r));
    }
    assert_int_equal(lsi_contribution_most(place), most);
}

static void pulls_cover_what_is_received(void **state)
{
    static const lsi_operation operations[] = {
        LSI_OP_BROADCAST, LSI_OP_ALL_GATHER, LSI_OP_GATHER, LSI_OP_SCATTER,
        LSI_OP_ALL_TO_ALL};
    (void)state;
    for (int size = 1; size <= MOST; size++)
        for (int root = 0; root < size; root += 1 + size / 5)
            for (int o = 0; o < 5; o++)
                check_place(&(lsi_place){.operation = operations[o],
                                         .block = 12,
                                         .size = size,
                                         .root = root});
}

/*
 * The contributions to each block on a rank, as a set of ranks, through folding
 * and all halving rounds: at the end each has one block, with everybody's data.
 */
static void follow_halving(int size)
{
    static uint64_t holds[MOST][MOST], next[MOST][MOST]; /* [rank][block] */
    const lsi_halving h = lsi_halving_of(size);
    assert_true(h.active <= size && 2 * h.active > size);
    assert_int_equal(h.active, 1 << h.rounds);
    for (int r = 0; r < size; r++) {
        const int peer = lsi_halving_fold_peer(h, r);
        const bool folds = peer >= 0 && !lsi_halving_folded(h, r);
        if (peer >= 0)
            assert_int_equal(lsi_halving_fold_peer(h, peer), r);
        for (int b = 0; b < h.active; b++)
            holds[r][b] = (uint64_t)1 << r | (folds ? (uint64_t)1 << peer : 0);
    }
    for (int k = 0; k < h.rounds; k++) {
        const int distance = lsi_halving_distance(h, k);
        memcpy(next, holds, sizeof(next));
        for (int i = 0; i < h.active; i++) {
            const int p = i ^ distance;
            const int keeps = lsi_halving_keeps(i, distance);
            assert_false(lsi_halving_folded(h, i));
            for (int b = keeps; b < keeps + distance; b++) {
                assert_int_equal(holds[i][b] & holds[p][b], 0);
                next[i][b] = holds[i][b] | holds[p][b];
            }
        }
        memcpy(holds, next, sizeof(next));
    }
    const uint64_t all = size == 64 ? UINT64_MAX : ((uint64_t)1 << size) - 1;
    for (int i = 0; i < h.active; i++)
        assert_true(holds[i][i] == all);
}

static void halving_sums_everything_once(void **state)
{
    (void)state;
    for (int size = 1; size <= MOST; size++)
        follow_halving(size);
}

/* A sender has the data, a receiver has not, and both name each other. */
static void follow_tree(int size, int root)
{
    bool has[MOST] = {false};
    has[root] = true;
    for (int round = 0; round < lsi_doubling_rounds(size); round++) {
        bool next[MOST];
        memcpy(next, has, sizeof(next));
        for (int r = 0; r < size; r++) {
            const int to = lsi_tree_sends_to(r, size, root, round);
            const int from = lsi_tree_receives_from(r, size, root, round);
            if (to >= 0) {
                assert_true(to < size && has[r] && !has[to]);
                assert_int_equal(lsi_tree_receives_from(to, size, root, round),
                                 r);
                next[to] = true;
            }
            if (from >= 0) {
                assert_true(from < size);
                assert_int_equal(lsi_tree_sends_to(from, size, root, round), r);
            }
        }
        memcpy(has, next, sizeof(has));
    }
    for (int r = 0; r < size; r++)
        assert_true(has[r]);
}

static void trees_reach_everybody_once(void **state)
{
    (void)state;
    for (int size = 1; size <= MOST; size++) {
        const int rounds = lsi_doubling_rounds(size);
        assert_true(1 << rounds >= size &&
                    (size == 1 || 1 << rounds < 2 * size));
        for (int root = 0; root < size; root++)
            follow_tree(size, root);
    }
}

/* heard[r] is the set of ranks that r knows to have arrived. */
static void everybody_hears_from_all(void **state)
{
    (void)state;
    for (int size = 1; size <= MOST; size++) {
        uint64_t heard[MOST], next[MOST] = {0};
        for (int r = 0; r < size; r++)
            heard[r] = (uint64_t)1 << r;
        for (int k = 0; k < lsi_doubling_rounds(size); k++) {
            for (int r = 0; r < size; r++) {
                const int to = lsi_dissemination_sends_to(r, size, k);
                assert_int_not_equal(to, r);
                assert_int_equal(lsi_dissemination_receives_from(to, size, k),
                                 r);
                next[to] = heard[to] | heard[r];
            }
            memcpy(heard, next, sizeof(heard));
        }
        const uint64_t all =
            size == 64 ? UINT64_MAX : ((uint64_t)1 << size) - 1;
        for (int r = 0; r < size; r++)
            assert_true(heard[r] == all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_sum_everything_once),
        cmocka_unit_test(halving_sums_everything_once),
        cmocka_unit_test(pulls_cover_what_is_received),
        cmocka_unit_test(trees_reach_everybody_once),
        cmocka_unit_test(everybody_hears_from_all),
    };
    return cmocka_run_group_tests_name("schedules", tests, NULL, NULL);
}
