/*
 * Matrix products against loops in double. The error of a sum of k products in
 * f32, in any order, is at most (k + 2) half ulps of the sum of their absolute
 * values; accumulating and the bias add one rounding each.
 * Where bits are portable (LOCKSTEP_BITS), f32 products have exactly the bits
 * of a loop.
 */
#include <float.h>
#include <math.h>

#include "array/compute/threads.h"
#include "array/kernels/kernels.h"
#include "array/kernels/portable.h"
#include "base/bits.h"
#include "dense.h"
#include "numbers.h"

typedef struct product {
    lsi_gemm_shape g;
    bool bias;
    void *a, *b, *c, *old;
    float *bias_values;
    size_t c_elements;
} product;

/* A matrix as it lies in memory, with other numbers between the rows. */
static void *matrix(int64_t rows, int64_t leading, ls_dtype dtype, bool whole,
                    size_t *elements)
{
    const size_t n = (size_t)(rows * leading);
    void *x = guarded(n * ls_dtype_size(dtype), ls_dtype_size(dtype));
    for (size_t i = 0; i < n; i++) {
        const double value = random_between(-2, 2);
        put_number(x, dtype, i, whole ? rint(value) : value);
    }
    if (elements)
        *elements = n;
    return x;
}

static product make_product(const lsi_gemm_shape *g, bool bias, bool whole)
{
    product p = {.g = *g, .bias = bias};
    p.a =
        matrix(g->a_transposed ? g->k : g->m, g->lda, g->ab_dtype, whole, NULL);
    p.b =
        matrix(g->b_transposed ? g->n : g->k, g->ldb, g->ab_dtype, whole, NULL);
    p.c = matrix(g->m, g->ldc, g->c_dtype, whole, &p.c_elements);
    p.old = guarded(p.c_elements * ls_dtype_size(g->c_dtype), 0);
    memcpy(p.old, p.c, p.c_elements * ls_dtype_size(g->c_dtype));
    p.bias_values = random_floats((size_t)g->n, -2, 2);
    for (int64_t j = 0; whole && j < g->n; j++)
        p.bias_values[j] = rintf(p.bias_values[j]);
    return p;
}

UNSANITIZED static double element(const void *x, ls_dtype dtype,
                                  int64_t leading, bool transposed, int64_t row,
                                  int64_t column)
{
    const int64_t at =
        transposed ? column * leading + row : row * leading + column;
    /* A long double is a slow thing where the processor has none. */
    return dtype == LS_F32 ? (double)((const float *)x)[at]
                           : (double)get_number(x, dtype, (size_t)at);
}

/* The product of a row and a column; *size is the sum of absolute values. */
UNSANITIZED static double dot(const product *p, int64_t i, int64_t j,
                              double *size)
{
    const lsi_gemm_shape *g = &p->g;
    double sum = 0;
    *size = 0;
    for (int64_t k = 0; k < g->k; k++) {
        const double term =
            element(p->a, g->ab_dtype, g->lda, g->a_transposed, i, k) *
            element(p->b, g->ab_dtype, g->ldb, g->b_transposed, k, j);
        sum += term;
        *size += fabs(term);
    }
    return sum;
}

/* The element that defines portable bits. */
UNSANITIZED static float defined_element(const product *p, int64_t i, int64_t j)
{
    const lsi_gemm_shape *g = &p->g;
    const float *a = p->a, *b = p->b;
    float total = 0;
    for (int64_t first = 0; first < g->k; first += LSI_PORTABLE_BLOCK) {
        float sum = 0;
        for (int64_t k = first; k < g->k && k < first + LSI_PORTABLE_BLOCK; k++)
            sum =
                fmaf(a[g->a_transposed ? k * g->lda + i : i * g->lda + k],
                     b[g->b_transposed ? j * g->ldb + k : k * g->ldb + j], sum);
        total = first > 0 ? total + sum : sum;
    }
    if (p->bias)
        total += p->bias_values[j];
    return g->accumulate ? total + ((const float *)p->old)[i * g->ldc + j]
                         : total;
}

static bool is_portable(const lsi_gemm_shape *g)
{
    return lsi_bits_are_portable() && g->ab_dtype == LS_F32;
}

/* Roundings, one after another, of a sum. */
static double roundings(const lsi_gemm_shape *g)
{
    const int64_t block = LSI_PORTABLE_BLOCK;
    if (!is_portable(g) || g->k <= block)
        return (double)g->k + 2;
    return (double)(block + (g->k + block - 1) / block) + 2;
}

static void expect_element(const product *p, int64_t i, int64_t j, bool whole)
{
    const lsi_gemm_shape *g = &p->g;
    double size, want = dot(p, i, j, &size);
    double bound = roundings(g) * size * HALF_ULP;
    const double bias = p->bias ? p->bias_values[j] : 0.0;
    const double old =
        g->accumulate ? element(p->old, g->c_dtype, g->ldc, false, i, j) : 0.0;
    want += bias + old;
    bound += 2 * HALF_ULP * (size + fabs(bias) + fabs(old));
    /* bf16 accumulates in f32 or adds to what is rounded already: twice. */
    if (g->c_dtype != LS_F32)
        bound += 2 * (g->c_dtype == LS_BF16 ? 0x1p-8 : 0x1p-11) *
                 (size + fabs(bias) + fabs(old));
    else if (whole)
        bound = 0;
    expect_near(element(p->c, g->c_dtype, g->ldc, false, i, j), want, bound,
                "product", (size_t)(i * g->n + j));
    if (is_portable(g)) {
        const float bits = defined_element(p, i, j);
        expect_same((const float *)p->c + i * g->ldc + j, &bits, 1, "product");
    }
}

/* Memory between the rows of C must stay unchanged. */
static void expect_gaps(const product *p)
{
    const size_t each = ls_dtype_size(p->g.c_dtype);
    for (size_t at = 0; at < p->c_elements; at++)
        if ((int64_t)at % p->g.ldc >= p->g.n)
            assert_memory_equal((char *)p->c + at * each,
                                (char *)p->old + at * each, each);
}

/* Every `step`th element. */
static void check_some(const lsi_gemm_shape *g, bool bias, bool whole,
                       int64_t step)
{
    const product p = make_product(g, bias, whole);
    assert_ok(lsi_gemm_run(g, p.c, p.a, p.b, bias ? p.bias_values : NULL));
    for (int64_t at = 0; at < g->m * g->n; at += step)
        expect_element(&p, at / g->n, at % g->n, whole);
    expect_gaps(&p);
    release_all();
}

static void check_product(const lsi_gemm_shape *g, bool bias, bool whole)
{
    check_some(g, bias, whole, 1);
}

static const int64_t shapes[][3] = {
    {1, 1, 1},   {3, 5, 7},      {2, 1, 9},   {1, 17, 4},   {16, 16, 16},
    {31, 33, 8}, {32, 100, 128}, {65, 9, 40}, {5, 64, 200}, {0, 4, 4},
    {4, 0, 4},   {4, 4, 0},      {1, 4, 0}};

/* Transposes, accumulation and bias are the bits of `kind`. */
static lsi_gemm_shape make_shape(const int64_t extents[3], int kind,
                                 int64_t gap)
{
    lsi_gemm_shape g = {.m = extents[0],
                        .n = extents[1],
                        .k = extents[2],
                        .a_transposed = kind & 1,
                        .b_transposed = kind & 2,
                        .accumulate = kind & 4,
                        .ab_dtype = LS_F32,
                        .c_dtype = LS_F32};
    g.lda = (g.a_transposed ? g.m : g.k) + gap;
    g.ldb = (g.b_transposed ? g.k : g.n) + gap;
    g.ldc = g.n + gap;
    g.lda += g.lda == 0;
    g.ldb += g.ldb == 0;
    g.ldc += g.ldc == 0;
    return g;
}

/* All kinds of every `step`th shape, now and then with gaps between rows. */
static void check_types(ls_dtype ab, ls_dtype c, size_t step)
{
    for (size_t s = 0; s < TEST_COUNT(shapes); s += step)
        for (int kind = 0; kind < 16; kind++) {
            lsi_gemm_shape g = make_shape(shapes[s], kind, (kind + (int)s) % 3);
            g.ab_dtype = ab;
            g.c_dtype = c;
            check_product(&g, kind & 8, s % 2 == 0);
        }
}

static void f32_products(void **state)
{
    (void)state;
    random_seed(1);
    check_types(LS_F32, LS_F32, 1);
}

static void bf16_products(void **state)
{
    (void)state;
    random_seed(2);
    check_types(LS_BF16, LS_F32, 3);
    check_types(LS_BF16, LS_BF16, 3);
}

static void f16_products(void **state)
{
    (void)state;
    random_seed(3);
    check_types(LS_F16, LS_F32, 3);
    check_types(LS_F16, LS_F16, 3);
}

/*
 * Sizes for which halves that are multiplied in f32 are converted block
 * by block: in both directions, and with rows and columns left over. Numbers
 * are whole and few, which makes every sum exact.
 */
static void halves_by_blocks(void **state)
{
    (void)state;
    static const int64_t large[][3] = {{66, 67, 33000}, {4200, 3, 1000}};
    random_seed(4);
    for (size_t s = 0; s < TEST_COUNT(large); s++)
        for (int turned = 0; turned < 2; turned++) {
            /* Both transposed and added to what is there, or neither. */
            lsi_gemm_shape g = make_shape(large[s], turned ? 7 : 0, 1);
            g.ab_dtype = turned ? LS_F16 : LS_BF16;
            g.c_dtype = turned ? LS_F32 : LS_BF16;
            check_some(&g, turned, true, 61);
        }
}

/* Rows of B that lie a multiple of 4 KiB apart, which are copied first. */
static void crowded_products(void **state)
{
    (void)state;
    random_seed(10);
    const int64_t extents[3] = {65, 1024, 67};
    for (int kind = 0; kind < 8; kind++) {
        const lsi_gemm_shape g = make_shape(extents, kind, 0);
        check_product(&g, kind & 1, false);
    }
    lsi_gemm_shape part = make_shape((const int64_t[]){64, 80, 64}, 0, 0);
    part.ldb = 2048;
    lsi_threads_set(2);
    check_product(&part, true, false);
    lsi_threads_set(1);
}

/* More than a block in each direction, and what fills none. */
static const int64_t large_shapes[][3] = {
    {64, 64, 64}, {515, 67, 70}, {65, 131, 523}, {96, 64, 1030}};

static void large_products(void **state)
{
    (void)state;
    random_seed(11);
    for (size_t s = 0; s < TEST_COUNT(large_shapes); s++)
        for (int kind = (int)s % 2; kind < 16; kind += 1 + (s > 0)) {
            const lsi_gemm_shape g =
                make_shape(large_shapes[s], kind, kind % 3);
            check_product(&g, kind & 8, kind % 3 == 1);
        }
}

/* One term a sum, of factors whose product has 24 bits: no rounding at all. */
static void exact_products(void **state)
{
    (void)state;
    enum { N = 64 };
    random_seed(15);
    const lsi_gemm_shape g = make_shape((const int64_t[]){N, N, N}, 0, 0);
    const int a_bits[] = {24, 1, 12, 16, 8}; /* b has the rest, or one */
    for (size_t s = 0; s < TEST_COUNT(a_bits); s++) {
        const product p = make_product(&g, false, false);
        const int b_bits = a_bits[s] < 24 ? 24 - a_bits[s] : 1;
        const double a_most = ldexp(1, a_bits[s]) - 1;
        const double b_most = ldexp(1, b_bits) - 1;
        float *a = p.a, *b = p.b, *c = p.c;
        for (int i = 0; i < N * N; i++) {
            a[i] = i % N == i / N ? (float)rint(random_between(1, a_most)) : 0;
            b[i] = (float)rint(random_between(-b_most, b_most));
        }
        assert_ok(lsi_gemm_run(&g, c, a, b, NULL));
        for (int i = 0; i < N * N; i++)
            assert_true(c[i] == a[i / N * (N + 1)] * b[i]);
        release_all();
    }
}

/* Numbers of all sizes: none but the smallest lose anything. */
static void uneven_products(void **state)
{
    (void)state;
    random_seed(12);
    const lsi_gemm_shape g = make_shape((const int64_t[]){64, 64, 100}, 0, 0);
    const product p = make_product(&g, false, false);
    float *a = p.a, *b = p.b;
    for (int i = 0; i < 6400; i++) {
        a[i] = ldexpf(a[i], (int)random_between(-60, 60));
        b[i] = ldexpf(b[i], (int)random_between(-30, 30));
    }
    assert_ok(lsi_gemm_run(&g, p.c, a, b, NULL));
    for (int64_t i = 0; i < 64; i++)
        for (int64_t j = 0; j < 64; j++)
            expect_element(&p, i, j, false);
    release_all();
}

/* Row 3 of C, and the other rows, if an element of A is special. */
static void extreme_products(void **state)
{
    (void)state;
    random_seed(13);
    const float specials[] = {FLT_MAX, -FLT_MAX, INFINITY, NAN};
    const lsi_gemm_shape g = make_shape((const int64_t[]){64, 64, 64}, 0, 0);
    for (size_t s = 0; s < TEST_COUNT(specials); s++) {
        const product p = make_product(&g, false, false);
        float *a = p.a, *b = p.b, *c = p.c;
        a[3 * 64 + 5] = specials[s];
        for (int j = 0; j < 64; j++)
            b[5 * 64 + j] = 0x1p-20F;
        assert_ok(lsi_gemm_run(&g, p.c, a, b, NULL));
        for (int at = 0; at < 64 * 64; at++)
            if (isfinite(specials[s]) || at / 64 != 3)
                expect_element(&p, at / 64, at % 64, false);
            else
                assert_false(isfinite(c[at]));
        release_all();
    }
}

/* Products by tiles have the same bits on any number of threads. */
static void products_by_tiles_ignore_threads(void **state)
{
    (void)state;
    if (lsi_kernels_get()->isa < LSI_ISA_AMX)
        skip();
    random_seed(14);
    for (int kind = 0; kind < 4; kind++) {
        const lsi_gemm_shape g =
            make_shape((const int64_t[]){133, 201, 600}, kind, 0);
        const product p = make_product(&g, false, false);
        float *again = floats(p.c_elements);
        assert_ok(lsi_gemm_run(&g, p.c, p.a, p.b, NULL));
        for (int threads = 2; threads <= 6; threads++) {
            lsi_threads_set(threads);
            assert_ok(lsi_gemm_run(&g, again, p.a, p.b, NULL));
            expect_same(again, p.c, p.c_elements, "other threads");
        }
        lsi_threads_set(1);
        release_all();
    }
}

/* Several threads share the work of one product. */
static void products_use_threads(void **state)
{
    (void)state;
    random_seed(9);
    const int64_t extents[3] = {130, 70, 60};
    for (int threads = 2; threads <= 3; threads++)
        for (int kind = 0; kind < 8; kind++) {
            const lsi_gemm_shape g = make_shape(extents, kind, 0);
            lsi_threads_set(threads);
            check_product(&g, false, false);
        }
    lsi_threads_set(1);
}

/* The same product has the same bits every time. */
static void products_repeat(void **state)
{
    (void)state;
    random_seed(3);
    const lsi_gemm_shape g = {.m = 33,
                              .n = 65,
                              .k = 300,
                              .lda = 300,
                              .ldb = 65,
                              .ldc = 65,
                              .ab_dtype = LS_F32,
                              .c_dtype = LS_F32};
    const product p = make_product(&g, false, false);
    float *again = floats(p.c_elements);
    assert_ok(lsi_gemm_run(&g, p.c, p.a, p.b, NULL));
    assert_ok(lsi_gemm_run(&g, again, p.a, p.b, NULL));
    expect_same(again, p.c, p.c_elements, "the same product again");
    release_all();
}

/* ---- portable bits ------------------------------------------------------- */

static void blocks_of_terms(void **state)
{
    (void)state;
    random_seed(16);
    static const int64_t terms[] = {255, 256, 257, 512, 1000};
    for (size_t s = 0; s < TEST_COUNT(terms); s++)
        for (int kind = 0; kind < 16; kind++) {
            const lsi_gemm_shape g = make_shape(
                (const int64_t[]){kind < 8 ? 19 : 33, 37, terms[s]}, kind, 1);
            check_product(&g, kind & 8, false);
        }
}

/* More rows, columns and blocks than are packed at a time. */
static void blocks_of_rows(void **state)
{
    (void)state;
    random_seed(17);
    for (int kind = 0; kind < 8; kind += 3) {
        const lsi_gemm_shape g =
            make_shape((const int64_t[]){520, 530, 300}, kind, 1);
        check_some(&g, true, false, 311);
    }
}

/* Every row and column alone, and on other threads: the same bits. */
static void parts_have_the_same_bits(void **state)
{
    (void)state;
    random_seed(18);
    for (int kind = 0; kind < 4; kind++) {
        lsi_gemm_shape g = make_shape((const int64_t[]){45, 67, 600}, kind, 0);
        const product p = make_product(&g, false, false);
        const float *a = p.a, *b = p.b;
        float *again = floats(p.c_elements);
        assert_ok(lsi_gemm_run(&g, p.c, a, b, NULL));
        for (int threads = 1; threads <= 3; threads++) {
            lsi_threads_set(threads);
            assert_ok(lsi_gemm_run(&g, again, a, b, NULL));
            expect_same(again, p.c, p.c_elements, "other threads");
        }
        lsi_threads_set(1);
        g.m = 1;
        for (int64_t i = 0; i < 45; i++)
            assert_ok(lsi_gemm_run(&g, again + i * g.ldc,
                                   a + i * (g.a_transposed ? 1 : g.lda), b,
                                   NULL));
        expect_same(again, p.c, p.c_elements, "single rows");
        g.m = 45;
        g.n = 1;
        for (int64_t j = 0; j < 67; j++)
            assert_ok(lsi_gemm_run(&g, again + j, a,
                                   b + j * (g.b_transposed ? g.ldb : 1), NULL));
        expect_same(again, p.c, p.c_elements, "single columns");
        release_all();
    }
}

/* Zeros of both signs, subnormal and huge numbers, infinities and NaN. */
static void extreme_sums(void **state)
{
    (void)state;
    random_seed(19);
    for (int kind = 0; kind < 8; kind++) {
        const lsi_gemm_shape g =
            make_shape((const int64_t[]){17, 33, 300}, kind, 0);
        product p = make_product(&g, true, false);
        float *a = extreme_floats((size_t)(g.m * g.k));
        for (int64_t i = 0; i < g.m * g.k; i++) /* most sums are numbers */
            if (i % 7 != 0 || (i / g.lda % 3 > 0 && !isfinite(a[i])))
                a[i] = (float)random_between(-1, 1);
        p.a = a;
        assert_ok(lsi_gemm_run(&g, p.c, p.a, p.b, p.bias_values));
        for (int64_t at = 0; at < g.m * g.n; at++) {
            const float want = defined_element(&p, at / g.n, at % g.n);
            expect_same((const float *)p.c + at, &want, 1, "extreme sum");
        }
        release_all();
    }
}

/* A batch has the bits of its products, also if A or B repeats. */
static void batches_have_the_bits_of_products(void **state)
{
    (void)state;
    enum { N = 3, M = 5, COLS = 7, TERMS = 270 };
    random_seed(20);
    const lsi_gemm_shape g =
        make_shape((const int64_t[]){M, COLS, TERMS}, 0, 0);
    const int64_t of_a = (int64_t)M * TERMS, of_b = (int64_t)TERMS * COLS;
    const int64_t of_c = (int64_t)M * COLS;
    for (int repeated = 0; repeated < 3; repeated++) {
        const lsi_gemm_batch batch = {.ndim = 2,
                                      .extent = {N, 2},
                                      .a = {repeated == 1 ? 0 : 2 * of_a, of_a},
                                      .b = {repeated == 2 ? 0 : of_b, N * of_b},
                                      .c = {2 * of_c, of_c}};
        const float *a = random_floats(2 * N * (size_t)of_a, -1, 1);
        const float *b = random_floats(2 * N * (size_t)of_b, -1, 1);
        float *c = floats(2 * N * (size_t)of_c);
        float *one = floats(2 * N * (size_t)of_c);
        lsi_threads_set(1 + repeated);
        assert_ok(lsi_gemm_run_batch(&g, &batch, c, a, b));
        lsi_threads_set(1);
        for (int64_t i = 0; i < N; i++)
            for (int64_t j = 0; j < 2; j++)
                assert_ok(
                    lsi_gemm_run(&g, one + i * batch.c[0] + j * batch.c[1],
                                 a + i * batch.a[0] + j * batch.a[1],
                                 b + i * batch.b[0] + j * batch.b[1], NULL));
        expect_same(c, one, 2 * N * (size_t)of_c, "batch");
        release_all();
    }
}

static void bad_products_are_refused(void **state)
{
    (void)state;
    float x[16] = {0};
    const lsi_gemm_shape good = {.m = 2,
                                 .n = 3,
                                 .k = 4,
                                 .lda = 4,
                                 .ldb = 3,
                                 .ldc = 3,
                                 .ab_dtype = LS_F32,
                                 .c_dtype = LS_F32};
    lsi_gemm_shape bad = good;
    bad.m = -1;
    assert_error(lsi_gemm_run(&bad, x, x, x, NULL), LS_ERR_SHAPE, "m is -1");
    bad = good;
    bad.lda = 3;
    assert_error(lsi_gemm_run(&bad, x, x, x, NULL), LS_ERR_ARGUMENT, "A");
    bad = good;
    bad.ldc = 2;
    assert_error(lsi_gemm_run(&bad, x, x, x, NULL), LS_ERR_ARGUMENT, "C");
    bad = good;
    bad.ab_dtype = LS_F64;
    assert_error(lsi_gemm_run(&bad, x, x, x, NULL), LS_ERR_DTYPE, "f64");
    bad = good;
    bad.c_dtype = LS_BF16;
    assert_error(lsi_gemm_run(&bad, x, x, x, NULL), LS_ERR_DTYPE, "bf16");
}

int main(void)
{
    if (level_is_missing())
        return TEST_SKIPPED;
    lsi_threads_set(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_products),
        cmocka_unit_test(bf16_products),
        cmocka_unit_test(f16_products),
        cmocka_unit_test(halves_by_blocks),
        cmocka_unit_test(crowded_products),
        cmocka_unit_test(large_products),
        cmocka_unit_test(exact_products),
        cmocka_unit_test(uneven_products),
        cmocka_unit_test(extreme_products),
        cmocka_unit_test(products_by_tiles_ignore_threads),
        cmocka_unit_test(products_use_threads),
        cmocka_unit_test(products_repeat),
        cmocka_unit_test(bad_products_are_refused)};
    const struct CMUnitTest portable[] = {
        cmocka_unit_test(f32_products),
        cmocka_unit_test(crowded_products),
        cmocka_unit_test(large_products),
        cmocka_unit_test(exact_products),
        cmocka_unit_test(uneven_products),
        cmocka_unit_test(extreme_products),
        cmocka_unit_test(products_use_threads),
        cmocka_unit_test(blocks_of_terms),
        cmocka_unit_test(blocks_of_rows),
        cmocka_unit_test(parts_have_the_same_bits),
        cmocka_unit_test(extreme_sums),
        cmocka_unit_test(batches_have_the_bits_of_products)};
    if (lsi_bits_are_portable())
        return cmocka_run_group_tests(portable, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
