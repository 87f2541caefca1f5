/*
 * The tiles' exponential, against the double one, at every level.
 */
#include <math.h>

#include "array/kernels/attention/flash.h"
#include "array/kernels/kernels.h"
#include "testing.h"

enum { BATCH = 1000 };

/* Relative error at most 2^-22 where the result is a normal number. */
static void check_range(const lsi_flash_ops *ops, double from, double to)
{
    float x[BATCH], y[BATCH];
    for (int part = 0; part < 200; part++) {
        const double at = from + (to - from) * part / 200;
        for (int i = 0; i < BATCH; i++)
            x[i] = (float)(at + (to - from) / 200 * i / BATCH);
        ops->exp2(y, x, BATCH);
        for (int i = 0; i < BATCH; i++) {
            const double want = exp2((double)x[i]);
            if (!(fabs((double)y[i] - want) <= want * 0x1p-22))
                fail_msg("2^%.9g is %.9g instead of %.9g", (double)x[i],
                         (double)y[i], want);
        }
    }
}

static void check_edges(const lsi_flash_ops *ops)
{
    const float x[] = {0.0F,    1.0F,    -1.0F,  127.0F,    -126.0F,
                       -127.0F, -128.0F, -1e30F, -INFINITY, NAN};
    const float want[] = {1.0F, 2.0F, 0.5F, 0x1p127F, 0x1p-126F,
                          0.0F, 0.0F, 0.0F, 0.0F};
    float y[TEST_COUNT(x)];
    ops->exp2(y, x, TEST_COUNT(x));
    for (size_t i = 0; i < TEST_COUNT(want); i++)
        assert_true(y[i] == want[i]);
    assert_true(isnan(y[TEST_COUNT(want)]));
    /* Below the normal numbers: at most the smallest normal one. */
    for (int i = 0; i <= 150; i++) {
        const float t = -127.5F + 0.01F * (float)i;
        ops->exp2(y, &t, 1);
        assert_true(y[0] >= 0 && y[0] <= 0x1p-126F);
    }
}

static void error_bound(void **state)
{
    (void)state;
    for (int isa = 0; isa < LSI_ISA_COUNT; isa++) {
        lsi_kernels table;
        if (lsi_kernels_at((lsi_isa)isa, &table) != LS_OK)
            continue;
        const lsi_flash_ops *ops = table.flash[0];
        check_range(ops, -126, -20);
        check_range(ops, -20, -1);
        check_range(ops, -1, 1);
        check_range(ops, 1, 127);
        check_edges(ops);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(error_bound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
