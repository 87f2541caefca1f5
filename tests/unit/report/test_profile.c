/* Profiles of spans that this process records: the names of kernels. */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "array/compute/dense.h"
#include "observe/span_file.h"
#include "report/profile.h"
#include "report/timeline.h"

static char folder[64];

static int begin(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/lockstep-profile-XXXXXX");
    return mkdtemp(folder) != NULL && lsi_span_start(folder) == LS_OK ? 0 : -1;
}

static int end(void **state)
{
    char path[128];
    (void)state;
    lsi_span_stop();
    snprintf(path, sizeof path, "%s/process-%d.lstrace", folder, (int)getpid());
    return remove(path) == 0 ? rmdir(folder) : -1;
}

/* Ends the trace. It marks no steps, so all of it is one. */
static lsi_profile *read_profile(lsi_timeline **timeline)
{
    lsi_profile *profile = NULL;
    const lsi_profile_filter all = {.rank = -1, .warmup = -1};
    lsi_span_stop();
    assert_ok(lsi_timeline_read(folder, timeline));
    assert_ok(lsi_profile_of(*timeline, &all, &profile));
    assert_int_equal(profile->steps, 1);
    return profile;
}

static const lsi_profile_kernel *find_kernel(const lsi_profile *p,
                                             const char *name)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->kernel[i].name, name) == 0)
            return &p->kernel[i];
    return NULL;
}

/* ---- kernels ------------------------------------------------------------- */

/* Both are as wide as a product of halves needs, where the processor has it. */
enum { N = 2, CHANNELS = 64, SIDE = 8, KERNEL = 3 };
enum { IMAGES = N * CHANNELS * SIDE * SIDE };
enum { WEIGHTS = CHANNELS * CHANNELS * KERNEL * KERNEL };

static void check_convolution(ls_dtype dtype)
{
    static float x[IMAGES], y[IMAGES], weight[WEIGHTS];
    static const char *const names[][3] = {
        {"conv2d", "conv2d_backward_data", "conv2d_backward_weight"},
        {"conv2d_bf16", "conv2d_backward_data_bf16",
         "conv2d_backward_weight_bf16"}};
    const lsi_conv2d_shape shape = {.n = N,
                                    .c = CHANNELS,
                                    .h = SIDE,
                                    .w = SIDE,
                                    .o = CHANNELS,
                                    .kh = KERNEL,
                                    .kw = KERNEL,
                                    .stride = 1,
                                    .padding = 1,
                                    .dtype = dtype,
                                    .dsrc_dtype = dtype};
    /* 2 n o c kh kw for each of the places. */
    const uint64_t work =
        2ULL * N * CHANNELS * CHANNELS * KERNEL * KERNEL * SIDE * SIDE;
    lsi_timeline *timeline = NULL;
    lsi_conv2d_plan *plan;
    assert_ok(lsi_conv2d_plan_get(&shape, &plan));
    assert_ok(lsi_conv2d_forward(plan, y, x, weight, NULL));
    assert_ok(lsi_conv2d_backward_data(plan, x, y, weight));
    assert_ok(lsi_conv2d_backward_weight(plan, weight, NULL, x, y, false));
    const bool half = lsi_conv2d_dtype(plan) == LS_BF16;
    lsi_profile *profile = read_profile(&timeline);
    assert_int_equal(profile->n, 3);
    for (int i = 0; i < 3; i++) {
        const lsi_profile_kernel *const kernel =
            find_kernel(profile, names[half][i]);
        assert_non_null(kernel);
        const lsi_profile_sum sum = lsi_profile_total(kernel);
        assert_int_equal(sum.calls, 1);
        assert_int_equal(sum.work, work);
        assert_true(lsi_profile_is_product(kernel->name));
    }
    lsi_profile_free(&profile);
    lsi_timeline_free(&timeline);
}

static void convolutions(void **state)
{
    (void)state;
    check_convolution(LS_F32);
}

/* Compared with the rate of products of their type. */
static void half_convolutions(void **state)
{
    const lsi_profile_peaks peaks = {.f32 = 1e9, .bf16 = 4e9, .bytes = 1e15};
    const lsi_profile_sum sum = {
        .calls = 1, .bytes = 1, .work = 1000, .ns = 1000};
    (void)state;
    check_convolution(LS_BF16);
    assert_float_equal(lsi_profile_of_roofline("conv2d", &sum, &peaks), 1,
                       1e-9);
    assert_float_equal(
        lsi_profile_of_roofline("conv2d_backward_data_bf16", &sum, &peaks),
        0.25, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(convolutions, begin, end),
        cmocka_unit_test_setup_teardown(half_convolutions, begin, end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
