/*
 * Promises of attention apart from its results: the same bits for any number of
 * threads, memory in proportion to the length, and an error when it does not
 * fit.
 */
#include <stdlib.h>

#include "array/compute/threads.h"
#include "lockstep/profile.h"
#include "problem.h"
#include "testing.h"

/*
 * Runs p on `threads` threads and appends all results to one array. They are
 * NaN before, so that a row that no thread writes is found.
 */
static unsigned char *results(problem *p, int threads, size_t *bytes)
{
    const size_t element = p->shape.dtype == LS_BF16 ? 2 : 4;
    size_t total = 0;
    for (problem_array a = ARRAY_O; a < ARRAY_COUNT; a++) {
        total += p->counts[a] * element;
        memset(p->data[a], 0xFF, p->counts[a] * element);
    }
    unsigned char *out = malloc(total);
    assert_non_null(out);
    lsi_threads_set(threads);
    problem_run(p, LS_ATTENTION_FLASH);
    size_t at = 0;
    for (problem_array a = ARRAY_O; a < ARRAY_COUNT; a++) {
        memcpy(out + at, p->data[a], p->counts[a] * element);
        at += p->counts[a] * element;
    }
    *bytes = total;
    return out;
}

static void same_bits(ls_attention_shape shape)
{
    problem p;
    size_t bytes;
    problem_new(&p, shape, 1.0, 21);
    unsigned char *one = results(&p, 1, &bytes);
    for (int threads = 2; threads <= 5; threads++) {
        unsigned char *more = results(&p, threads, &bytes);
        assert_memory_equal(one, more, bytes);
        free(more);
    }
    free(one);
    problem_free(&p);
}

static void any_threads_same_bits(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        ls_attention_shape s = {.batch = 1,
                                .heads = 1,
                                .queries = 600,
                                .keys = 500,
                                .d = 16,
                                .causal = (i & 1) != 0,
                                .dtype = i < 2 ? LS_F32 : LS_BF16};
        same_bits(s); /* one head: its blocks are divided */
        s.queries = 200;
        s.keys = 900;
        same_bits(s);
        s.heads = 3;
        same_bits(s); /* some heads whole, others divided */
        s.queries = 600;
        s.keys = 500;
        s.heads = 9;
        s.kv_heads = 3;
        s.queries = s.keys = 200;
        same_bits(s); /* heads that share keys */
        s.batch = 3;
        s.d = 20;
        same_bits(s);
    }
}

/* The most workspace at once in a forward and a backward. */
static size_t peak_of(int64_t length, ls_attention_method method)
{
    problem p;
    ls_memory_stats first, second;
    problem_new(&p,
                (ls_attention_shape){.batch = 1,
                                     .heads = 1,
                                     .queries = length,
                                     .keys = length,
                                     .d = 16,
                                     .causal = true},
                1.0, 2);
    ls_memory_reset_peak();
    problem_run(&p, method);
    ls_memory_of(LS_MEMORY_WORKSPACE, &first);
    problem_run(&p, method);
    ls_memory_of(LS_MEMORY_WORKSPACE, &second);
    if (method == LS_ATTENTION_FLASH) /* it keeps what it has */
        assert_int_equal(second.allocated, first.allocated);
    problem_free(&p);
    return second.peak_bytes;
}

/* The first test, and by rising length: what is kept is never more. */
static void memory_is_linear(void **state)
{
    (void)state;
    lsi_threads_set(2);
    const size_t short_peak = peak_of(512, LS_ATTENTION_FLASH);
    const size_t long_peak = peak_of(2048, LS_ATTENTION_FLASH);
    const size_t longer_peak = peak_of(3584, LS_ATTENTION_FLASH);
    /* Equal steps in length are equal steps in bytes, exactly. */
    assert_int_equal(long_peak - short_peak, longer_peak - long_peak);
    /* Two packed copies of the queries and three numbers a row, at most, and
       what says how far each block of 128 queries or keys is. */
    assert_true(long_peak - short_peak <=
                (2048 - 512) * (2 * 16 + 3) * 4 +
                    (2048 - 512) / 128 * 2 * sizeof(size_t));
    assert_true(peak_of(2048, LS_ATTENTION_NAIVE) >= 2048 * 2048 * 4);
}

static void saved_is_three_numbers_a_query(void **state)
{
    (void)state;
    const ls_attention_shape s = {
        .batch = 3, .heads = 2, .queries = 7, .keys = 11, .d = 5};
    size_t bytes;
    assert_ok(ls_attention_saved_bytes(&s, LS_ATTENTION_FLASH, &bytes));
    assert_int_equal(bytes, 3 * 2 * 7 * 4 * 3);
    assert_ok(ls_attention_saved_bytes(&s, LS_ATTENTION_NAIVE, &bytes));
    assert_int_equal(bytes, 3 * 2 * 7 * 4 * (1 + 11));
}

static void over_budget_is_an_error(void **state)
{
    (void)state;
    problem p;
    problem_new(
        &p,
        (ls_attention_shape){
            .batch = 1, .heads = 1, .queries = 512, .keys = 512, .d = 16},
        1.0, 2);
    problem_run(&p, LS_ATTENTION_NAIVE);
    ls_memory_stats now;
    ls_memory_total(&now);
    ls_memory_set_budget(now.live_bytes + 512 * 512);
    void **x = p.data;
    assert_error(ls_attention_backward(&p.shape, LS_ATTENTION_NAIVE,
                                       x[ARRAY_DQ], x[ARRAY_DK], x[ARRAY_DV],
                                       x[ARRAY_DOUT], x[ARRAY_Q], x[ARRAY_K],
                                       x[ARRAY_V], x[ARRAY_O], p.saved),
                 LS_ERR_BUDGET, "naive attention backward");
    ls_memory_set_budget(now.live_bytes + 1);
    lsi_threads_set(1000); /* so that what is kept is too little */
    assert_error(ls_attention_forward(&p.shape, LS_ATTENTION_FLASH, x[ARRAY_O],
                                      p.saved, x[ARRAY_Q], x[ARRAY_K],
                                      x[ARRAY_V]),
                 LS_ERR_BUDGET, "attention forward");
    lsi_threads_set(2);
    ls_memory_set_budget(0);
    problem_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_linear),
        cmocka_unit_test(any_threads_same_bits),
        cmocka_unit_test(saved_is_three_numbers_a_query),
        cmocka_unit_test(over_budget_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
