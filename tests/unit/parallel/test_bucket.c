/*
 * Which gradients travel together, against what a reader would draw up.
 */
#include "testing.h"

#include "model/parallel/grad_range.h"

enum { MOST = 16 };

static float memory[4096];

/* Spans of these sizes, one behind the other. */
static void lay_out(lsi_grad_range *spans, const size_t *counts, size_t n)
{
    float *at = memory;
    for (size_t i = 0; i < n; i++) {
        const size_t extent = (counts[i] + 15) / 16 * 16;
        spans[i] = (lsi_grad_range){at, counts[i], extent};
        at += extent;
    }
}

static void expect(const lsi_grad_range *spans, size_t n, uint64_t limit,
                   const size_t *ends, size_t buckets)
{
    lsi_range out[MOST];
    assert_int_equal(lsi_bucket_layout(spans, n, limit, out), buckets);
    for (size_t b = 0; b < buckets; b++) {
        assert_int_equal(out[b].begin, b == 0 ? 0 : ends[b - 1]);
        assert_int_equal(out[b].end, ends[b]);
    }
}

#define EXPECT(spans, n, limit, ...)                                           \
    do {                                                                       \
        const size_t ends_[] = {__VA_ARGS__};                                  \
        expect(spans, n, limit, ends_, TEST_COUNT(ends_));                     \
    } while (0)

static void test_limits(void **state)
{
    (void)state;
    lsi_grad_range s[4];
    lay_out(s, (size_t[]){100, 250, 30, 70}, 4); /* 400 1000 120 280 bytes */
    EXPECT(s, 4, UINT64_MAX, 4);
    EXPECT(s, 4, 1800, 4);
    EXPECT(s, 4, 1799, 3, 4);
    EXPECT(s, 4, 1400, 2, 4);
    EXPECT(s, 4, 1000, 1, 2, 4);
    EXPECT(s, 4, 999, 1, 2, 4); /* too large, so alone */
    EXPECT(s, 4, 0, 1, 2, 3, 4);
}

static void test_toy_models(void **state)
{
    (void)state;
    lsi_grad_range s[3];
    lay_out(s, (size_t[]){250, 500, 100}, 3);
    EXPECT(s, 3, 1600, 1, 2, 3);
    EXPECT(s, 3, 100, 1, 2, 3);
    EXPECT(s, 3, 10000, 3);
}

static void test_gaps_part_buckets(void **state)
{
    (void)state;
    lsi_grad_range s[3] = {
        {memory, 10, 16}, {memory + 32, 8, 8}, {memory + 40, 8, 8}};
    EXPECT(s, 3, UINT64_MAX, 1, 3);
    s[2].data = memory; /* not in order, either */
    EXPECT(s, 3, UINT64_MAX, 1, 2, 3);
}

static void test_empty(void **state)
{
    (void)state;
    lsi_grad_range s[2] = {{memory, 0, 0}, {memory, 0, 0}};
    lsi_range out[2];
    assert_int_equal(lsi_bucket_layout(NULL, 0, 100, out), 0);
    EXPECT(s, 2, 0, 2);
}

/* Every span once, in order; no bucket above the limit but a single span. */
static void test_properties(void **state)
{
    (void)state;
    lsi_grad_range s[MOST];
    lsi_range out[MOST];
    size_t counts[MOST];
    unsigned seed = 1;
    for (int round = 0; round < 500; round++) {
        for (size_t i = 0; i < MOST; i++) {
            seed = seed * 1664525U + 1013904223U;
            counts[i] = seed >> 16 & 127;
        }
        const uint64_t limit = (seed >> 8) % 1024;
        lay_out(s, counts, MOST);
        const size_t n = lsi_bucket_layout(s, MOST, limit, out);
        for (size_t b = 0; b < n; b++) {
            size_t bytes = 0;
            assert_int_equal(out[b].begin, b == 0 ? 0 : out[b - 1].end);
            for (size_t i = out[b].begin; i < out[b].end; i++)
                bytes += counts[i] * sizeof(float);
            if (lsi_range_size(out[b]) > 1)
                assert_in_range(bytes, 0, limit);
            /* The next span would not have fitted. */
            if (b + 1 < n)
                assert_true(bytes + counts[out[b].end] * sizeof(float) > limit);
        }
        assert_int_equal(out[n - 1].end, MOST);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_toy_models),
        cmocka_unit_test(test_gaps_part_buckets),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_properties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
