/* Guarded memory, random and extreme inputs, comparisons. */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "testing.h"

const size_t test_lengths[] = {0,   1,   2,   3,   4,   5,   7,   8,    9,
                               15,  16,  17,  31,  32,  33,  63,  64,   65,
                               100, 127, 129, 255, 257, 511, 513, 1000, 1025};
const size_t test_length_count = TEST_COUNT(test_lengths);

const lsi_kernels *reference(void)
{
    static lsi_kernels table;
    assert_ok(lsi_kernels_at(LSI_ISA_REF, &table));
    return &table;
}

/* ---- random numbers (splitmix64) --------------------------------------------
 */

static uint64_t random_state;

void random_seed(uint64_t seed)
{
    random_state = seed;
}

uint64_t random_u64(void)
{
    uint64_t z = (random_state += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

double random_between(double low, double high)
{
    return low + (high - low) * (double)(random_u64() >> 11) * 0x1p-53;
}

/* ---- guarded memory ----------------------------------------------------- */

enum { GUARD = 192, PATTERN = 0xA5, MAX_BLOCKS = 64 };

typedef struct block {
    unsigned char *base;
    size_t before, bytes;
} block;

static block blocks[MAX_BLOCKS];
static size_t n_blocks;

void *guarded(size_t bytes, size_t shift)
{
    assert_true(n_blocks < MAX_BLOCKS && shift < GUARD);
    block b = {.before = GUARD + shift, .bytes = bytes};
    const size_t total = (b.before + bytes + GUARD + 63) / 64 * 64;
    b.base = aligned_alloc(64, total);
    assert_non_null(b.base);
    memset(b.base, PATTERN, total);
    blocks[n_blocks++] = b;
    return b.base + b.before;
}

static void check_guard(const unsigned char *guard, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (guard[i] != PATTERN)
            fail_msg("a kernel wrote outside of its output");
}

void release_all(void)
{
    for (size_t i = 0; i < n_blocks; i++) {
        const block *b = &blocks[i];
        check_guard(b->base, b->before);
        check_guard(b->base + b->before + b->bytes, GUARD);
        free(b->base);
    }
    n_blocks = 0;
}

/* ---- arrays ------------------------------------------------------------- */

float *floats(size_t n)
{
    return guarded(n * sizeof(float), sizeof(float) * (1 + n_blocks % 5));
}

float *random_floats(size_t n, double low, double high)
{
    float *x = floats(n);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)random_between(low, high);
    return x;
}

float *extreme_floats(size_t n)
{
    static const float special[] = {0.0F,
                                    -0.0F,
                                    INFINITY,
                                    -INFINITY,
                                    NAN,
                                    1.0F,
                                    -1.0F,
                                    0x1p-149F,
                                    -0x1p-149F,
                                    0x1p-126F,
                                    0x1.8p-127F,
                                    0x1p-133F,
                                    3e38F,
                                    -3e38F,
                                    0x1.fffffep127F,
                                    65504.0F,
                                    65519.99F,
                                    65520.0F,
                                    0x1p-24F,
                                    0x1p-25F,
                                    0x1.8p-25F,
                                    1.00390625F /* ties in bf16 */,
                                    1.01171875F,
                                    1.00048828125F /* and in f16 */,
                                    1.00146484375F,
                                    0x1.fffp-15F};
    float *x = floats(n);
    for (size_t i = 0; i < n; i++)
        x[i] = random_u64() % 2 ? special[random_u64() % TEST_COUNT(special)]
                                : (float)random_between(-100.0, 100.0);
    return x;
}

float *copy_floats(const float *x, size_t n)
{
    float *y = floats(n);
    memcpy(y, x, n * sizeof(float));
    return y;
}

/* ---- comparisons -------------------------------------------------------- */

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

bool same_bits(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bits_of(a[i]) != bits_of(b[i]))
            return false;
    return true;
}

void expect_same(const float *got, const float *want, size_t n,
                 const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (!same_bits(&got[i], &want[i], 1) &&
            !(isnan(got[i]) && isnan(want[i])))
            fail_msg("%s, element %zu of %zu: %a, want %a", what, i, n,
                     (double)got[i], (double)want[i]);
}

void expect_near(double got, double want, double bound, const char *what,
                 size_t i)
{
    if (isnan(want) ? isnan(got) : got == want)
        return;
    if (!(fabs(got - want) <= bound))
        fail_msg("%s, element %zu: %.9g, want %.9g within %.3g", what, i, got,
                 want, bound);
}
