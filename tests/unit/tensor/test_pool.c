/* The pool: classes, reuse, trimming, and blocks that outlive their pool. */
#include <string.h>

#include "base/memory.h"
#include "model/tensor/pool.h"
#include "testing.h"

static size_t live_bytes(void)
{
    ls_memory_stats stats;
    ls_memory_total(&stats);
    return stats.live_bytes;
}

enum { RECORD = 3 * sizeof(void *) }; /* bytes in addition to each block */

/* A block of any size is aligned, large enough, at most 1/16 too large, and
 * comes back for the next request of that size. */
static void classes(void **state)
{
    (void)state;
    lsi_pool *pool = NULL;
    assert_ok(lsi_pool_new(&pool));
    for (size_t bytes = 1; bytes < (1U << 22); bytes += 1 + bytes / 7) {
        const size_t before = live_bytes();
        void *block = NULL, *again = NULL;
        assert_ok(lsi_pool_take(pool, bytes, "a test", &block));
        assert_int_equal((uintptr_t)block % 64, 0);
        memset(block, 1, bytes);
        const size_t taken = live_bytes() - before;
        assert_true(taken >= bytes);
        assert_true(taken <= bytes + bytes / 16 + 64 + RECORD);
        lsi_pool_give(pool, block, bytes);
        assert_ok(lsi_pool_take(pool, bytes, "a test", &again));
        assert_ptr_equal(block, again);
        lsi_pool_give(pool, again, bytes);
        lsi_pool_trim(pool);
        assert_int_equal(live_bytes(), before);
    }
    lsi_pool_close(&pool);
    assert_null(pool);
}

static void kept_blocks_count_as_live(void **state)
{
    (void)state;
    const size_t before = live_bytes();
    lsi_pool *pool = NULL;
    void *block = NULL;
    assert_ok(lsi_pool_new(&pool));
    assert_ok(lsi_pool_take(pool, 4096, "a test", &block));
    lsi_pool_give(pool, block, 4096);
    assert_true(live_bytes() >= before + 4096);
    lsi_pool_close(&pool);
    assert_int_equal(live_bytes(), before);
}

/* Blocks need not lie where this process can read. */
static void a_kept_block_is_not_touched(void **state)
{
    (void)state;
    lsi_pool *pool = NULL;
    void *block[2] = {NULL, NULL}, *header = NULL;
    assert_ok(lsi_pool_new(&pool));
    for (int i = 0; i < 2; i++) {
        assert_ok(lsi_pool_take(pool, 4096, "a test", &block[i]));
        memset(block[i], 0x5a + i, 4096);
    }
    assert_ok(lsi_pool_take_header(pool, 200, "a test", &header));
    lsi_pool_give(pool, block[0], 4096);
    lsi_pool_give(pool, block[1], 4096);
    lsi_pool_give_header(pool, header, 200);
    for (int i = 0; i < 2; i++)
        for (size_t at = 0; at < 4096; at++)
            assert_int_equal(((unsigned char *)block[i])[at], 0x5a + i);
    void *again = NULL;
    assert_ok(lsi_pool_take_header(pool, 200, "a test", &again));
    assert_ptr_equal(again, header);
    lsi_pool_give_header(pool, again, 200);
    lsi_pool_close(&pool);
}

static void blocks_outlive_the_pool(void **state)
{
    (void)state;
    const size_t before = live_bytes();
    lsi_pool *pool = NULL;
    void *a = NULL, *b = NULL;
    assert_ok(lsi_pool_new(&pool));
    assert_ok(lsi_pool_take(pool, 100, "a test", &a));
    assert_ok(lsi_pool_take(pool, 100, "a test", &b));
    lsi_pool *used = pool; /* as the blocks' owners know it */
    lsi_pool_close(&pool);
    memset(a, 1, 100);
    lsi_pool_give(used, a, 100);
    memset(b, 1, 100);
    lsi_pool_give(used, b, 100);
    assert_int_equal(live_bytes(), before);
    lsi_pool_close(&pool);
    lsi_pool_close(NULL);
}

/* A request that the budget forbids is met from what the pool keeps. */
static void budget_frees_what_is_kept(void **state)
{
    (void)state;
    lsi_pool *pool = NULL;
    void *block = NULL, *more = NULL;
    assert_ok(lsi_pool_new(&pool));
    assert_ok(lsi_pool_take(pool, 1 << 20, "a test", &block));
    lsi_pool_give(pool, block, 1 << 20);
    ls_memory_set_budget(live_bytes() + 4096);
    assert_ok(lsi_pool_take(pool, 1 << 19, "a test", &block));
    assert_error(lsi_pool_take(pool, 1 << 20, "a test", &more), LS_ERR_BUDGET,
                 "a test");
    assert_null(more);
    ls_memory_set_budget(0);
    lsi_pool_give(pool, block, 1 << 19);
    lsi_pool_close(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes),
        cmocka_unit_test(kept_blocks_count_as_live),
        cmocka_unit_test(a_kept_block_is_not_touched),
        cmocka_unit_test(blocks_outlive_the_pool),
        cmocka_unit_test(budget_frees_what_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
