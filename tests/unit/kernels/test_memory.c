/*
 * oneDNN without memory: one request of its C++ fails while a product or a
 * convolution of a new shape is planned and run. All that comes of it is
 * an error, and the same shape works afterwards.
 */
#include <dlfcn.h>
#include <omp.h>
#include <stdlib.h>

#include "array/kernels/kernels.h"
#include "base/error.h"
#include "dense.h"

#include <oneapi/dnnl/dnnl.h>

/* ---- a malloc that fails ------------------------------------------------- */

/* NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl37-c): glibc's own */
extern void *__libc_malloc(size_t bytes);

static _Thread_local long fails_in; /* requests; 0: none does */
static _Thread_local bool failed;

static bool is_cxx(const void *caller)
{
    Dl_info place;
    return dladdr(caller, &place) != 0 && place.dli_fname != NULL &&
           strstr(place.dli_fname, "libstdc++") != NULL;
}

/*
 * Replaces libc's functions for the whole process. An allocation that fails in
 * a parallel region of oneDNN cannot be caught (array/compute/onednn/calls.h).
 * libc's declaration has reserved names for parameters.
 */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
void *malloc(size_t bytes)
{
    if (fails_in > 0 && is_cxx(__builtin_return_address(0)) &&
        !omp_in_parallel() && --fails_in == 0) {
        failed = true;
        return NULL;
    }
    return __libc_malloc(bytes);
}

/* ---- what is tried ------------------------------------------------------- */

enum { FIRST = 64, TRIALS = 60, EARLY = 4, MOST = FIRST + TRIALS };
enum { K = 64, WIDE = 1024, IMAGE = 6, CHANNELS = 16 };

static float a[MOST * K], b[K * WIDE], c[MOST * WIDE];

static void fill(float *data, size_t n, float value)
{
    for (size_t i = 0; i < n; i++)
        data[i] = value;
}

/* `wide`: of a B that is copied first. */
static ls_status multiply(int64_t m, bool wide)
{
    const int64_t n = wide ? WIDE : 48;
    const lsi_gemm_shape g = {.m = m,
                              .n = n,
                              .k = K,
                              .lda = K,
                              .ldb = n,
                              .ldc = n,
                              .ab_dtype = LS_F32,
                              .c_dtype = LS_F32};
    fill(c, (size_t)(m * n), -1);
    const ls_status status = lsi_gemm_run(&g, c, a, b, NULL);
    if (status == LS_OK)
        for (int64_t i = 0; i < m * n; i++)
            assert_true(c[i] == K);
    return status;
}

/* The three passes; what they compute is the business of test_conv2d.c. */
static ls_status convolve(int64_t n)
{
    static float x[MOST * CHANNELS * IMAGE * IMAGE];
    static float y[MOST * CHANNELS * IMAGE * IMAGE];
    static float weight[CHANNELS * CHANNELS * 9], dweight[CHANNELS * 144];
    lsi_conv2d_plan *plan;
    const lsi_conv2d_shape shape = {.n = n,
                                    .c = CHANNELS,
                                    .h = IMAGE,
                                    .w = IMAGE,
                                    .o = CHANNELS,
                                    .kh = 3,
                                    .kw = 3,
                                    .stride = 1,
                                    .padding = 1};
    LS_TRY(lsi_conv2d_plan_get(&shape, &plan));
    LS_TRY(lsi_conv2d_forward(plan, y, x, weight, NULL));
    LS_TRY(lsi_conv2d_backward_data(plan, x, y, weight));
    return lsi_conv2d_backward_weight(plan, dweight, NULL, x, y, false);
}

typedef ls_status (*work_fn)(int64_t size);

static ls_status multiply_narrow(int64_t m)
{
    return multiply(m, false);
}

static ls_status multiply_wide(int64_t m)
{
    return multiply(m, true);
}

/* Fails request `at` of work on a new size; false if there is none. */
static bool fail_one(work_fn work, int64_t size, long at)
{
    failed = false;
    fails_in = at;
    const ls_status status = work(size);
    fails_in = 0;
    if (!failed || status == LS_OK) /* oneDNN may do without */
        assert_ok(status);
    else
        assert_int_equal(status, LS_ERR_MEMORY);
    const bool there_was_one = failed;
    assert_ok(work(size));
    return there_was_one;
}

static void check(work_fn work)
{
    const long requests = 1 << 30;
    int failures = 0;
    if (lsi_kernels_get()->isa == LSI_ISA_REF)
        skip(); /* plain loops */
    /* Else all that is made here would stay. */
    assert_int_equal(dnnl_set_primitive_cache_capacity(4), dnnl_success);
    fails_in = requests;
    assert_ok(work(FIRST)); /* and what is made once */
    const long n = requests - fails_in;
    if (n == 0)
        skip(); /* a level whose own code does it all */
    for (int i = 1; i < TRIALS; i++)
        failures +=
            fail_one(work, FIRST + i,
                     i % 2 == 0 ? 1 + i * n / TRIALS : 1 + i / 2 % EARLY);
    /* At some levels much of the first is made once, and little later. */
    assert_true(failures >= EARLY);
}

static void products(void **state)
{
    (void)state;
    check(multiply_narrow);
}

static void products_with_a_copy(void **state)
{
    (void)state;
    check(multiply_wide);
}

static void convolutions(void **state)
{
    (void)state;
    check(convolve);
}

int main(void)
{
    fill(a, MOST * K, 1);
    fill(b, (size_t)K * WIDE, 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(products),
                                       cmocka_unit_test(products_with_a_copy),
                                       cmocka_unit_test(convolutions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
