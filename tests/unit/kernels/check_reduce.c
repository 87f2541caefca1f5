/*
 * Reductions of all types and operations: exact for integers and for small
 * whole numbers, within n_srcs roundings otherwise, and always the bits of the
 * reference.
 */
#include <math.h>

#include "harness.h"
#include "numbers.h"
#include "testing.h"

enum { MAX_SRCS = 9 };

typedef struct reduce_case {
    ls_dtype dtype;
    ls_reduce_op op;
    int n_srcs;
    size_t n;
    double factor;
    int in_place; /* the source that is the output, or -1 */
} reduce_case;

/* The value of one element in long double, and the size of its terms. */
static long double expected(const reduce_case *c, void *const *srcs, size_t i,
                            long double *size)
{
    long double acc = get_number(srcs[0], c->dtype, i);
    *size = fabsl(acc);
    for (int s = 1; s < c->n_srcs; s++) {
        const long double x = get_number(srcs[s], c->dtype, i);
        if (c->op == LS_REDUCE_SUM) {
            acc += x;
            *size += fabsl(x);
        } else if (c->op == LS_REDUCE_PROD) {
            acc *= x;
            *size *= fabsl(x);
        } else if (isnan(x) || (c->op == LS_REDUCE_MIN ? x < acc : x > acc)) {
            acc = x;
        }
    }
    if (c->op != LS_REDUCE_SUM || !is_float(c->dtype))
        return acc;
    *size *= fabsl((long double)c->factor);
    return acc * c->factor;
}

/* Integers wrap: computed in 64 bits, the low ones are right. */
static int64_t expected_int(const reduce_case *c, void *const *srcs, size_t i)
{
    uint64_t acc = (uint64_t)(int64_t)get_number(srcs[0], c->dtype, i);
    for (int s = 1; s < c->n_srcs; s++) {
        const int64_t x = (int64_t)get_number(srcs[s], c->dtype, i);
        if (c->op == LS_REDUCE_SUM && c->dtype == LS_BOOL)
            acc |= (uint64_t)x;
        else if (c->op == LS_REDUCE_SUM)
            acc += (uint64_t)x;
        else if (c->op == LS_REDUCE_PROD)
            acc *= (uint64_t)x;
        else if (c->op == LS_REDUCE_BAND)
            acc &= (uint64_t)x;
        else if (c->op == LS_REDUCE_BOR)
            acc |= (uint64_t)x;
        else if (c->op == LS_REDUCE_BXOR)
            acc ^= (uint64_t)x;
        else if (c->op == LS_REDUCE_MIN ? x < (int64_t)acc : x > (int64_t)acc)
            acc = (uint64_t)x;
    }
    return (int64_t)acc;
}

static void expect_result(const reduce_case *c, const void *got,
                          void *const *srcs, size_t i)
{
    unsigned char want_int[8], *bytes = want_int;
    const size_t bytes_each = ls_dtype_size(c->dtype);
    if (!is_float(c->dtype)) {
        put_wrapped(bytes, c->dtype, 0, expected_int(c, srcs, i));
        assert_memory_equal((const char *)got + i * bytes_each, bytes,
                            bytes_each);
        return;
    }
    long double size;
    const long double want = expected(c, srcs, i, &size);
    const bool half = bytes_each == 2;
    const int digits = half ? 24 : significand_bits(c->dtype);
    const bool exact = c->op == LS_REDUCE_MIN || c->op == LS_REDUCE_MAX;
    long double bound = exact ? 0 : (c->n_srcs + 1) * size * ldexpl(1, -digits);
    if (half) /* rounded once more; 2^-24 is the smallest f16, 2^-133 of bf16 */
        bound += fabsl(want) * ldexpl(1, -significand_bits(c->dtype)) +
                 (c->dtype == LS_F16 ? 0x1p-25L : 0x1p-134L);
    expect_near((double)get_number(got, c->dtype, i), (double)want,
                (double)bound, ls_dtype_name(c->dtype), i);
}

/* Values whose sums and products do not overflow, now and then a NaN. */
static void *source(const reduce_case *c)
{
    const size_t bytes_each = ls_dtype_size(c->dtype);
    void *x = guarded(c->n * bytes_each, bytes_each);
    for (size_t i = 0; i < c->n; i++) {
        if (c->dtype == LS_BOOL) /* true in many ways */
            ((uint8_t *)x)[i] =
                random_u64() % 2 ? (uint8_t)random_u64() : (uint8_t)0;
        else if (!is_float(c->dtype))
            put_wrapped(x, c->dtype, i, (int64_t)random_u64());
        else if (c->op != LS_REDUCE_SUM && random_u64() % 50 == 0)
            put_number(x, c->dtype, i, NAN);
        else
            put_number(x, c->dtype, i, random_between(-3, 3));
    }
    return x;
}

static void check_case(const lsi_kernels *k, const reduce_case *c)
{
    const size_t bytes = c->n * ls_dtype_size(c->dtype);
    void *srcs[MAX_SRCS], *used[MAX_SRCS];
    for (int s = 0; s < c->n_srcs; s++)
        srcs[s] = used[s] = source(c);
    void *dst = guarded(bytes, 0), *want = guarded(bytes, 0);
    if (c->in_place >= 0) {
        memcpy(dst, srcs[c->in_place], bytes);
        used[c->in_place] = dst;
    }
    reference()->reduce(want, (const void *const *)srcs, c->n_srcs, c->n,
                        c->dtype, c->op, c->factor);
    k->reduce(dst, (const void *const *)used, c->n_srcs, c->n, c->dtype, c->op,
              c->factor);
    for (size_t i = 0; i < c->n; i++) {
        expect_result(c, dst, srcs, i);
        const long double a = get_number(dst, c->dtype, i);
        const long double b = get_number(want, c->dtype, i);
        if (a != b && !(isnan(a) && isnan(b)))
            fail_msg("%s %s: not the reference's bits at %zu",
                     ls_dtype_name(c->dtype), ls_reduce_op_name(c->op), i);
    }
    release_all();
}

static void check_lengths(const lsi_kernels *k, ls_dtype dtype, ls_reduce_op op)
{
    for (size_t l = 0; l < test_length_count; l++) {
        reduce_case c = {.dtype = dtype,
                         .op = op,
                         .n_srcs = 1 + (int)(random_u64() % MAX_SRCS),
                         .n = test_lengths[l],
                         .factor = random_u64() % 2 ? 1.0 : 0.2};
        c.in_place = (int)(random_u64() % (unsigned)(c.n_srcs + 1)) - 1;
        check_case(k, &c);
    }
}

/* All numbers of sources and both kinds of output, at lengths with a tail. */
static void check_sources(const lsi_kernels *k, ls_dtype dtype, ls_reduce_op op)
{
    for (int n_srcs = 1; n_srcs <= MAX_SRCS; n_srcs++)
        for (int in_place = -1; in_place < n_srcs; in_place++) {
            const reduce_case c = {.dtype = dtype,
                                   .op = op,
                                   .n_srcs = n_srcs,
                                   .n = 83,
                                   .factor = 1.0 / n_srcs,
                                   .in_place = in_place};
            check_case(k, &c);
        }
}

/* So large that it may be written past the caches. */
static void check_large(const lsi_kernels *k)
{
    const size_t n = ((size_t)32 << 20) / 3 / sizeof(float) + 37;
    const float *a = random_floats(n, -2, 2), *b = random_floats(n, -2, 2);
    float *dst = floats(n), *want = floats(n);
    const void *const srcs[] = {a, b};
    for (size_t i = 0; i < n; i++)
        want[i] = (a[i] + b[i]) * 0.5F;
    k->reduce(dst, srcs, 2, n, LS_F32, LS_REDUCE_SUM, 0.5);
    expect_same(dst, want, n, "a large sum");
    release_all();
}

void check_reduce(const lsi_kernels *k)
{
    check_large(k);
    static const ls_reduce_op ops[] = {
        LS_REDUCE_SUM,  LS_REDUCE_MIN, LS_REDUCE_MAX, LS_REDUCE_PROD,
        LS_REDUCE_BAND, LS_REDUCE_BOR, LS_REDUCE_BXOR};
    for (int dtype = 0; dtype < LS_DTYPE_COUNT; dtype++)
        for (size_t o = 0; o < TEST_COUNT(ops); o++) {
            if (ops[o] >= LS_REDUCE_BAND && is_float((ls_dtype)dtype))
                continue;
            check_lengths(k, (ls_dtype)dtype, ops[o]);
            check_sources(k, (ls_dtype)dtype, ops[o]);
        }
}
