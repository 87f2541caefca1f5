/* Pooling and reorders of whole tensors, over threads. */
#include <math.h>

#include "array/compute/threads.h"
#include "array/kernels/layout.h"
#include "dense.h"

static const lsi_layout layouts[] = {LSI_LAYOUT_PLAIN, LSI_LAYOUT_CHANNELS_LAST,
                                     LSI_LAYOUT_BLOCKED_8,
                                     LSI_LAYOUT_BLOCKED_16};

enum {
    N = 35,
    C = 32,
    H = 10,
    W = 14,
    INPUTS = N * C * H * W,
    OUTPUTS = INPUTS / 4
};

static const int64_t images[] = {N, C, H, W};

static void reorders_go_there_and_back(void **state)
{
    (void)state;
    random_seed(6);
    for (size_t to = 0; to < TEST_COUNT(layouts); to++)
        for (size_t from = 0; from < TEST_COUNT(layouts); from++) {
            const float *x = random_floats(INPUTS, -1, 1);
            float *y = floats(INPUTS), *back = floats(INPUTS);
            assert_ok(
                lsi_reorder(y, layouts[to], x, layouts[from], LS_F32, images));
            assert_ok(lsi_reorder(back, layouts[from], y, layouts[to], LS_F32,
                                  images));
            expect_same(back, x, INPUTS, "there and back");
            assert_int_equal(same_bits(x, y, INPUTS), to == from);
            release_all();
        }
}

/* Halves move as the even ones of the same numbers in f32 do. */
static void halves_lie_as_floats_do(void **state)
{
    (void)state;
    random_seed(11);
    for (size_t to = 0; to < TEST_COUNT(layouts); to++)
        for (size_t from = 0; from < TEST_COUNT(layouts); from++) {
            float *x = floats(INPUTS), *y = floats(INPUTS);
            uint16_t *half_x = guarded(2 * INPUTS, 2),
                     *half_y = guarded(2 * INPUTS, 2);
            for (int i = 0; i < INPUTS; i++)
                x[i] = half_x[i] = (uint16_t)(i * 40503U >> 3);
            assert_ok(
                lsi_reorder(y, layouts[to], x, layouts[from], LS_F32, images));
            assert_ok(lsi_reorder(half_y, layouts[to], half_x, layouts[from],
                                  LS_BF16, images));
            for (int i = 0; i < INPUTS; i++)
                assert_true(y[i] == half_y[i]);
            release_all();
        }
}

static void blocks_must_be_full(void **state)
{
    (void)state;
    float x[24] = {0}, y[24] = {0};
    assert_error(lsi_reorder(y, LSI_LAYOUT_BLOCKED_16, x, LSI_LAYOUT_PLAIN,
                             LS_F32, (int64_t[]){1, 24, 1, 1}),
                 LS_ERR_SHAPE, "channels (24)");
    assert_ok(lsi_reorder(y, LSI_LAYOUT_BLOCKED_16, x, LSI_LAYOUT_PLAIN, LS_F32,
                          (int64_t[]){0, 24, 1, 1}));
}

/* Pools a random tensor in a layout; all outputs are plain. */
static void pool(lsi_layout layout, const float *x, const float *dy, float *y,
                 float *dx)
{
    const lsi_pool2d s = {N, C, H, W, 2, layout};
    float *inner = floats(INPUTS), *dinner = floats(INPUTS);
    uint8_t *index = guarded(OUTPUTS, 1);
    assert_ok(lsi_reorder(inner, layout, x, LSI_LAYOUT_PLAIN, LS_F32, images));
    lsi_max_pool2d_forward(&s, y, index, inner);
    lsi_max_pool2d_backward(&s, dinner, dy, index);
    assert_ok(
        lsi_reorder(dx, LSI_LAYOUT_PLAIN, dinner, layout, LS_F32, images));
}

/* The layout changes nothing, and neither does the number of threads. */
static void layouts_and_threads_agree(void **state)
{
    (void)state;
    random_seed(7);
    const float *x = random_floats(INPUTS, -1, 1);
    const float *dy = random_floats(OUTPUTS, -1, 1);
    float *y = floats(OUTPUTS), *dx = floats(INPUTS);
    float *other_y = floats(OUTPUTS), *other_dx = floats(INPUTS);
    lsi_threads_set(1);
    pool(LSI_LAYOUT_PLAIN, x, dy, y, dx);
    for (int threads = 1; threads <= 3; threads++)
        for (size_t l = 0; l < TEST_COUNT(layouts); l++) {
            lsi_threads_set(threads);
            pool(layouts[l], x, dy, other_y, other_dx);
            expect_same(other_y, y, OUTPUTS, "maxima");
            expect_same(other_dx, dx, INPUTS, "gradient");
        }
    lsi_threads_set(1);
    release_all();
}

static void empty_tensors(void **state)
{
    (void)state;
    float none[1] = {7};
    uint8_t index[1] = {9};
    const lsi_pool2d no_images = {0, 16, 4, 4, 2, LSI_LAYOUT_BLOCKED_16};
    const lsi_pool2d no_channels = {2, 0, 4, 4, 2, LSI_LAYOUT_CHANNELS_LAST};
    lsi_max_pool2d_forward(&no_images, none, index, none);
    lsi_max_pool2d_backward(&no_channels, none, none, index);
    assert_true(none[0] == 7 && index[0] == 9);
}

int main(void)
{
    if (level_is_missing())
        return TEST_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reorders_go_there_and_back),
        cmocka_unit_test(halves_lie_as_floats_do),
        cmocka_unit_test(blocks_must_be_full),
        cmocka_unit_test(layouts_and_threads_agree),
        cmocka_unit_test(empty_tensors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
