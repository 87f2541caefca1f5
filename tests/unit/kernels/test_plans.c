/*
 * Plans belong to a thread: many threads use the same shapes at once, get their
 * own plans, and leave no memory behind when they end.
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "array/compute/plan_cache.h"
#include "array/compute/threads.h"
#include "dense.h"
#include "lockstep/profile.h"

enum { THREADS = 4, RUNS = 5, OUT = 2 * 32 * 8 * 8 };

typedef struct worker {
    pthread_t thread;
    ls_status status;
    const lsi_conv2d_plan *plan;
    float y[OUT], c[12 * 20];
} worker;

static float x[2 * 32 * 10 * 10], weight[32 * 32 * 9], a[12 * 30], b[30 * 20];

static const lsi_conv2d_shape conv = {
    .n = 2, .c = 32, .h = 10, .w = 10, .o = 32, .kh = 3, .kw = 3, .stride = 1};
static const lsi_gemm_shape gemm = {.m = 12,
                                    .n = 20,
                                    .k = 30,
                                    .lda = 30,
                                    .ldb = 20,
                                    .ldc = 20,
                                    .ab_dtype = LS_F32,
                                    .c_dtype = LS_F32};

static void *work(void *argument)
{
    worker *w = argument;
    for (int run = 0; run < RUNS && w->status == LS_OK; run++) {
        lsi_conv2d_plan *plan;
        w->status = lsi_conv2d_plan_get(&conv, &plan);
        if (w->status == LS_OK)
            w->status = lsi_conv2d_forward(plan, w->y, x, weight, NULL);
        if (w->status == LS_OK)
            w->status = lsi_gemm_run(&gemm, w->c, a, b, NULL);
        w->plan = plan;
    }
    return NULL;
}

static void threads_have_their_own_plans(void **state)
{
    (void)state;
    static worker workers[THREADS];
    random_seed(8);
    for (size_t i = 0; i < TEST_COUNT(x); i++)
        x[i] = (float)random_between(-1, 1);
    for (size_t i = 0; i < TEST_COUNT(weight); i++)
        weight[i] = (float)random_between(-1, 1);
    lsi_threads_set(1);
    ls_memory_stats before, after;
    ls_memory_total(&before);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(
            pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    ls_memory_total(&after);
    assert_int_equal(after.live_bytes, before.live_bytes);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(workers[i].status, LS_OK);
        expect_same(workers[i].y, workers[0].y, OUT, "another thread");
    }
}

/* After the first run of each pass nothing is allocated any more. */
static void running_allocates_nothing(void **state)
{
    (void)state;
    static worker w;
    work(&w);
    assert_int_equal(w.status, LS_OK);
    ls_memory_stats before, after;
    ls_memory_total(&before);
    work(&w);
    assert_int_equal(w.status, LS_OK);
    ls_memory_total(&after);
    assert_int_equal(after.allocated, before.allocated);
}

static bool there_is_onednn(void)
{
    return strcmp(lsi_dense_version(), "none") != 0;
}

/* A budget that scratch memory does not fit in is an error, and no more. */
static void budget_is_respected(void **state)
{
    (void)state;
    if (lsi_kernels_get()->isa == LSI_ISA_REF || !there_is_onednn())
        skip(); /* plain loops need no scratch memory */
    static float big[64 * 512 + 512 * 4096];
    const lsi_gemm_shape g = {.m = 64,
                              .n = 4096,
                              .k = 512,
                              .lda = 512,
                              .ldb = 512,
                              .ldc = 4096,
                              .b_transposed = true,
                              .ab_dtype = LS_F32,
                              .c_dtype = LS_F32};
    static float c[64 * 4096];
    ls_memory_stats now;
    ls_memory_total(&now);
    ls_memory_set_budget(now.live_bytes + 1);
    const ls_status status = lsi_gemm_run(&g, c, big, big + 64 * 512, NULL);
    ls_memory_set_budget(0);
    assert_int_equal(status, LS_ERR_BUDGET);
    assert_ok(lsi_gemm_run(&g, c, big, big + 64 * 512, NULL));
}

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#    define SANITIZED 1
#else
#    define SANITIZED 0
#endif

static size_t resident(void)
{
    unsigned long all = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &all, &pages), 2);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

enum { LENGTHS = 1000, WIDTH = 128 };

/* Products of lengths from..to-1; the bytes that are counted after them. */
static size_t multiply_lengths(int64_t from, int64_t to)
{
    static float in[LENGTHS * WIDTH], w[WIDTH * WIDTH], out[LENGTHS * WIDTH];
    ls_memory_stats now;
    for (int64_t m = from; m < to; m++) {
        const lsi_gemm_shape g = {.m = m,
                                  .n = WIDTH,
                                  .k = WIDTH,
                                  .lda = WIDTH,
                                  .ldb = WIDTH,
                                  .ldc = WIDTH,
                                  .ab_dtype = LS_F32,
                                  .c_dtype = LS_F32};
        memset(in, 0, sizeof in);
        memset(out, 0, sizeof out);
        assert_ok(lsi_gemm_run(&g, out, in, w, NULL));
    }
    ls_memory_of(LS_MEMORY_OTHER, &now);
    return now.live_bytes;
}

/* The estimate of plans is within a factor of 2, and it does not grow on. */
static void plans_are_counted_and_limited(void **state)
{
    (void)state;
    if (lsi_kernels_get()->isa == LSI_ISA_REF || !there_is_onednn())
        skip();
    lsi_threads_set(1);
    lsi_plan_cache_drop();
    const size_t none = multiply_lengths(1, 2), before = resident();
    const size_t full = multiply_lengths(2, LSI_PLAN_LIMIT + 1);
    const double counted = (double)(full - none);
    const double taken = (double)(resident() - before);
    if (!SANITIZED && (taken > 2 * counted || 2 * taken < counted))
        fail_msg("counted are %g bytes, and %g taken", counted, taken);
    const size_t later = multiply_lengths(LSI_PLAN_LIMIT + 1, LENGTHS);
    assert_true(later <= full + full / 8);
    if (!SANITIZED)
        assert_true((double)(resident() - before) <= 3 * counted);
}

static void versions_are_known(void **state)
{
    (void)state;
    lsi_dense_init();
    if (!there_is_onednn())
        skip();
    assert_ptr_equal(strstr(lsi_dense_version(), "oneDNN "),
                     lsi_dense_version());
    assert_true(strlen(lsi_dense_version()) > strlen("oneDNN "));
}

int main(void)
{
    if (level_is_missing())
        return TEST_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_have_their_own_plans),
        cmocka_unit_test(running_allocates_nothing),
        cmocka_unit_test(budget_is_respected),
        cmocka_unit_test(plans_are_counted_and_limited),
        cmocka_unit_test(versions_are_known)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
