/*
 * The accounting allocator: alignment, exact counts, peaks, the budget, and
 * counts that stay right when threads allocate at the same time.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/meminfo.h"
#include "base/memory.h"
#include "testing.h"

static ls_memory_stats of(ls_memory_tag tag)
{
    ls_memory_stats stats;
    ls_memory_of(tag, &stats);
    return stats;
}

static ls_memory_stats total(void)
{
    ls_memory_stats stats;
    ls_memory_total(&stats);
    return stats;
}

static int reset(void **state)
{
    (void)state;
    ls_memory_set_budget(0);
    ls_memory_reset_peak();
    return 0;
}

static int nothing_left(void **state)
{
    reset(state);
    return total().live_bytes == 0 ? 0 : -1;
}

static void blocks_are_aligned_and_usable(void **state)
{
    (void)state;
    static const size_t sizes[] = {
        0, 1, 63, 64, 65, 4096, 4194303, 4194304, 1000, 4194305, 9000001};
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        void *block = NULL;
        assert_ok(lsi_alloc(&block, sizes[i], LS_MEMORY_OTHER, "test"));
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % 64, 0);
        memset(block, 0xa5, sizes[i]);
        assert_int_equal(of(LS_MEMORY_OTHER).live_bytes, sizes[i]);
        lsi_free(block);
        assert_int_equal(of(LS_MEMORY_OTHER).live_bytes, 0);
    }
    lsi_free(NULL);
}

/* Memory that was in use before must come back as zeros, too. */
static void zeroed_blocks_are_zero(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 100, 5000, 5000000};
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        for (int round = 0; round < 3; round++) {
            void *memory;
            assert_ok(lsi_alloc_zeroed(&memory, sizes[i], LS_MEMORY_DATA, "z"));
            unsigned char *bytes = memory;
            unsigned char any = 0;
            for (size_t k = 0; k < sizes[i]; k++)
                any |= bytes[k];
            assert_int_equal(any, 0);
            memset(bytes, 0xff, sizes[i]);
            lsi_free(memory);
        }
    }
}

static void counts_by_tag_and_in_total(void **state)
{
    (void)state;
    const uint64_t before = total().allocated;
    void *a, *b, *c;
    assert_ok(lsi_alloc(&a, 100, LS_MEMORY_PARAMETERS, "a"));
    assert_ok(lsi_alloc(&b, 50, LS_MEMORY_GRADIENTS, "b"));
    assert_ok(lsi_alloc(&c, 7, LS_MEMORY_PARAMETERS, "c"));
    assert_int_equal(of(LS_MEMORY_PARAMETERS).live_bytes, 107);
    assert_int_equal(of(LS_MEMORY_GRADIENTS).live_bytes, 50);
    assert_int_equal(total().live_bytes, 157);
    assert_int_equal(total().allocated - before, 3);
    lsi_free(a);
    assert_int_equal(of(LS_MEMORY_PARAMETERS).live_bytes, 7);
    assert_int_equal(of(LS_MEMORY_PARAMETERS).peak_bytes, 107);
    assert_int_equal(total().peak_bytes, 157);
    ls_memory_reset_peak();
    assert_int_equal(of(LS_MEMORY_PARAMETERS).peak_bytes, 7);
    assert_int_equal(total().peak_bytes, 57);
    lsi_free(b);
    lsi_free(c);
}

/* Two tags that peak at different times: the total's peak is not their sum. */
static void peak_of_the_total_is_no_sum_of_peaks(void **state)
{
    (void)state;
    void *block;
    assert_ok(lsi_alloc(&block, 1000, LS_MEMORY_WORKSPACE, "first"));
    lsi_free(block);
    assert_ok(lsi_alloc(&block, 600, LS_MEMORY_STATE, "second"));
    lsi_free(block);
    assert_int_equal(of(LS_MEMORY_WORKSPACE).peak_bytes, 1000);
    assert_int_equal(of(LS_MEMORY_STATE).peak_bytes, 600);
    assert_int_equal(total().peak_bytes, 1000);
}

static void the_budget_holds(void **state)
{
    (void)state;
    void *a, *b = &a;
    ls_memory_set_budget(1000);
    assert_ok(lsi_alloc(&a, 600, LS_MEMORY_OTHER, "first"));
    assert_error(lsi_alloc(&b, 401, LS_MEMORY_ACTIVATIONS, "conv2d output"),
                 LS_ERR_BUDGET, "conv2d output: 401 bytes (activations)");
    assert_ptr_equal(b, &a);
    /* Failed allocations are not counted. */
    assert_int_equal(total().live_bytes, 600);
    assert_int_equal(total().peak_bytes, 600);
    assert_int_equal(of(LS_MEMORY_ACTIVATIONS).peak_bytes, 0);
    assert_ok(lsi_alloc(&b, 400, LS_MEMORY_OTHER, "to the last byte"));
    lsi_free(b);
    ls_memory_set_budget(100); /* below what is live: only new ones fail */
    assert_error(lsi_alloc(&b, 1, LS_MEMORY_OTHER, "x"), LS_ERR_BUDGET, "600");
    ls_memory_set_budget(0);
    assert_ok(lsi_alloc(&b, 5000, LS_MEMORY_OTHER, "no limit"));
    lsi_free(b);
    lsi_free(a);
}

static void impossible_sizes_fail(void **state)
{
    (void)state;
    void *block = state;
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 64, SIZE_MAX / 2 + 1,
                                   SIZE_MAX / 4};
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        assert_error(lsi_alloc(&block, sizes[i], LS_MEMORY_OTHER, "huge"),
                     LS_ERR_MEMORY, "huge");
        assert_ptr_equal(block, state);
        assert_int_equal(total().peak_bytes, 0);
    }
    void *small;
    assert_ok(lsi_alloc(&small, 10, LS_MEMORY_OTHER, "small"));
    assert_error(lsi_alloc(&block, SIZE_MAX - 5, LS_MEMORY_OTHER, "huge"),
                 LS_ERR_MEMORY, "huge");
    lsi_free(small);
}

/* The kernel would promise it, and kill who believes that. */
static void more_than_the_machine_has_fails(void **state)
{
    (void)state;
    void *block = state;
    const size_t most = (size_t)lsi_memory_available() + ((size_t)128 << 20);
    assert_error(lsi_alloc(&block, most, LS_MEMORY_ACTIVATIONS, "scores"),
                 LS_ERR_MEMORY, "do not fit");
    assert_ptr_equal(block, state);
    assert_int_equal(total().peak_bytes, 0);
    /* Nobody touches it, and who sets a budget knows better. */
    ls_memory_set_budget(SIZE_MAX);
    if (lsi_alloc(&block, most, LS_MEMORY_ACTIVATIONS, "scores") == LS_OK)
        lsi_free(block);
    else
        assert_null(strstr(ls_last_error(), "do not fit"));
}

/* Earlier promises count, even if their memory was not touched. */
static void promises_add_up(void **state)
{
    void *first, *second = state;
#ifdef __SANITIZE_ADDRESS__
    skip(); /* the sanitizer would touch an eighth of it */
#endif
    const size_t most = (size_t)lsi_memory_available() / 10 * 6;
    if (lsi_alloc(&first, most, LS_MEMORY_OTHER, "first") != LS_OK) {
        assert_non_null(strstr(ls_last_error(), "the system cannot provide"));
        skip(); /* this one does not promise more than there is */
    }
    (void)lsi_memory_take_refused();
    assert_error(lsi_alloc(&second, most, LS_MEMORY_OTHER, "second"),
                 LS_ERR_MEMORY, "do not fit");
    assert_ptr_equal(second, state);
    assert_int_equal(lsi_memory_take_refused(), 2 * most);
    assert_int_equal(lsi_memory_take_refused(), 0);
    lsi_free(first);
}

static void charges_count_like_blocks(void **state)
{
    (void)state;
    ls_memory_set_budget(100);
    assert_ok(lsi_memory_charge(80, LS_MEMORY_COMM, "segment"));
    assert_int_equal(of(LS_MEMORY_COMM).live_bytes, 80);
    assert_int_equal(total().peak_bytes, 80);
    assert_error(lsi_memory_charge(21, LS_MEMORY_COMM, "segment"),
                 LS_ERR_BUDGET, "segment");
    lsi_memory_discharge(80, LS_MEMORY_COMM);
    assert_int_equal(total().live_bytes, 0);
}

static void charges_move_between_tags(void **state)
{
    (void)state;
    assert_ok(lsi_memory_charge(80, LS_MEMORY_COMM, "segment"));
    ls_memory_set_budget(80); /* moving needs no room */
    lsi_memory_move(50, LS_MEMORY_COMM, LS_MEMORY_GRADIENTS);
    assert_int_equal(of(LS_MEMORY_COMM).live_bytes, 30);
    assert_int_equal(of(LS_MEMORY_GRADIENTS).live_bytes, 50);
    assert_int_equal(of(LS_MEMORY_GRADIENTS).peak_bytes, 50);
    assert_int_equal(total().live_bytes, 80);
    lsi_memory_discharge(30, LS_MEMORY_COMM);
    lsi_memory_discharge(50, LS_MEMORY_GRADIENTS);
}

static void tags_have_names(void **state)
{
    (void)state;
    assert_string_equal(ls_memory_tag_name(LS_MEMORY_PARAMETERS), "parameters");
    assert_string_equal(ls_memory_tag_name(LS_MEMORY_OTHER), "other");
    assert_string_equal(ls_memory_tag_name((ls_memory_tag)99), "unknown");
    assert_int_equal(of((ls_memory_tag)99).live_bytes, 0);
    assert_int_equal(of((ls_memory_tag)-1).allocated, 0);
}

enum { THREADS = 4, ROUNDS = 3000, BUDGET = 4000 };

static void *allocate_and_free(void *failures)
{
    for (size_t i = 0; i < ROUNDS; i++) {
        void *block;
        const ls_memory_tag tag = (ls_memory_tag)(i % LS_MEMORY_TAG_COUNT);
        if (lsi_alloc(&block, 1 + i % 2000, tag, "thread") != LS_OK) {
            ++*(int *)failures;
            continue;
        }
        memset(block, (int)i, 1 + i % 2000);
        lsi_free(block);
    }
    return NULL;
}

static void threads_keep_the_counts_and_the_budget(void **state)
{
    (void)state;
    const uint64_t before = total().allocated;
    pthread_t threads[THREADS];
    int failures[THREADS] = {0};
    ls_memory_set_budget(BUDGET);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, allocate_and_free, &failures[i]),
            0);
    uint64_t failed = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        failed += (uint64_t)failures[i];
    }
    assert_int_equal(total().live_bytes, 0);
    for (int tag = 0; tag < LS_MEMORY_TAG_COUNT; tag++)
        assert_int_equal(of((ls_memory_tag)tag).live_bytes, 0);
    assert_int_equal(total().allocated - before, THREADS * ROUNDS - failed);
    assert_true(total().peak_bytes <= BUDGET);
    assert_true(total().peak_bytes >= 2000);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, reset, nothing_left)
    const struct CMUnitTest tests[] = {
        CASE(blocks_are_aligned_and_usable),
        CASE(zeroed_blocks_are_zero),
        CASE(counts_by_tag_and_in_total),
        CASE(peak_of_the_total_is_no_sum_of_peaks),
        CASE(the_budget_holds),
        CASE(impossible_sizes_fail),
        CASE(more_than_the_machine_has_fails),
        CASE(promises_add_up),
        CASE(charges_count_like_blocks),
        CASE(charges_move_between_tags),
        CASE(tags_have_names),
        CASE(threads_keep_the_counts_and_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
