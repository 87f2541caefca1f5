/*
 * Profiles of spans that this process records: the names of kernels, and the
 * layers to which they belong.
 */
#include "testing.h"

#include "chunks.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "array/compute/dense.h"
#include "base/cpu.h"
#include "lockstep/nn.h"
#include "lockstep/profile.h"
#include "lockstep/threads.h"
#include "observe/lock.h"
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

/* ---- layers -------------------------------------------------------------- */

/*
 * conv1 (padding 1), conv2 (one filter a channel), fc, and a product with a
 * parameter "head". No gradient of the images is needed.
 */
enum { IN = 3, MIDDLE = 4, CLASSES = 5, LAST = 7 };
enum { FLAT = MIDDLE * SIDE * SIDE };

typedef struct net {
    ls_params *params;
    ls_tape *tape;
    ls_conv2d_layer conv1, conv2;
    ls_linear_layer fc;
    ls_tensor *head, *x;
} net;

static void open_net(net *m, const char *fc)
{
    static const int64_t shape[] = {CLASSES, LAST};
    static const int64_t images[] = {N, IN, SIDE, SIDE};
    const ls_conv2d_options padded = {.padding = 1};
    const ls_conv2d_options apart = {.padding = 1, .groups = MIDDLE};
    assert_ok(ls_params_new(&m->params));
    assert_ok(ls_tape_new(&m->tape));
    assert_ok(ls_conv2d_layer_init(&m->conv1, m->params, "conv1", IN, MIDDLE,
                                   KERNEL, &padded));
    assert_ok(ls_conv2d_layer_init(&m->conv2, m->params, "a.conv2", MIDDLE,
                                   MIDDLE, KERNEL, &apart));
    assert_ok(ls_linear_layer_init(&m->fc, m->params, fc, FLAT, CLASSES,
                                   LS_LAYER_DEFAULT));
    assert_ok(ls_params_add(m->params, "head", 2, shape,
                            (ls_init){LS_INIT_CONSTANT, 1, 0}, &m->head));
    assert_ok(ls_params_allocate(m->params, NULL, 1));
    assert_ok(ls_tensor_zeros(&m->x, LS_F32, 4, images));
}

static void run_net(net *m)
{
    ls_tensor *y = ls_conv2d_layer_forward(&m->conv1, m->tape, m->x);
    y = ls_conv2d_layer_forward(&m->conv2, m->tape, y);
    y = ls_linear_layer_forward(&m->fc, m->tape, ls_flatten(m->tape, y));
    y = ls_matmul(m->tape, y, m->head);
    assert_ok(ls_backward(m->tape, ls_sum(m->tape, y), 1));
    ls_tape_reset(m->tape);
}

static void close_net(net *m)
{
    ls_tensor_free(&m->x);
    ls_tape_free(&m->tape);
    ls_params_free(&m->params);
}

/* Products of a layer in this pass, and their work. */
typedef struct expected_pass {
    const char *layer;
    lsi_layer_pass pass;
    uint64_t work;
} expected_pass;

enum {
    CONV1 = 2 * N * MIDDLE * IN * KERNEL * KERNEL * SIDE * SIDE,
    CONV2 = 2 * N * MIDDLE * KERNEL * KERNEL * SIDE * SIDE,
    FC = 2 * N * FLAT * CLASSES,
    HEAD = 2 * N * CLASSES * LAST
};

static const expected_pass passes[] = {
    {"4x3x3x3 conv1", LSI_PASS_FORWARD, CONV1},
    {"4x3x3x3 conv1", LSI_PASS_WEIGHT, CONV1},
    {"4x1x3x3 a.conv2", LSI_PASS_FORWARD, CONV2},
    {"4x1x3x3 a.conv2", LSI_PASS_DATA, CONV2},
    {"4x1x3x3 a.conv2", LSI_PASS_WEIGHT, CONV2},
    {"5x256 fc", LSI_PASS_FORWARD, FC},
    {"5x256 fc", LSI_PASS_DATA, FC},
    {"5x256 fc", LSI_PASS_WEIGHT, FC},
    {"5x7 head", LSI_PASS_FORWARD, HEAD},
    {"5x7 head", LSI_PASS_DATA, HEAD},
    {"5x7 head", LSI_PASS_WEIGHT, HEAD}};

/*
 * The next product from *i on, NULL: none. A batch of products may consist of
 * single ones, which are skipped.
 */
static const lsi_timeline_span *next_product(const lsi_timeline_process *p,
                                             size_t *i)
{
    while (*i < p->n) {
        const lsi_timeline_span *const s = &p->spans[(*i)++];
        if (s->kind != LSI_SPAN_KERNEL) {
            assert_true(s->kind == LSI_SPAN_STEP || s->id == 0);
            continue;
        }
        while (*i < p->n && p->spans[*i].end <= s->end)
            (*i)++;
        if (lsi_profile_is_product(lsi_timeline_name(p, s)))
            return s;
    }
    return NULL;
}

/* The layer's name, by the id of a kernel. */
static const char *layer_of(const lsi_timeline_process *p,
                            const lsi_timeline_span *s)
{
    assert_in_range(s->id / LSI_PASSES, 1, p->n_names);
    return p->names[s->id / LSI_PASSES - 1];
}

static lsi_timeline_process *read_spans(lsi_timeline **timeline)
{
    lsi_span_stop();
    assert_ok(lsi_timeline_read(folder, timeline));
    assert_int_equal((*timeline)->n, 1);
    assert_ok(lsi_timeline_load((*timeline)->process[0]));
    return (*timeline)->process[0];
}

static void products_name_their_layer(void **state)
{
    net m;
    lsi_timeline *timeline;
    uint64_t found[TEST_COUNT(passes)] = {0};
    (void)state;
    open_net(&m, "fc");
    run_net(&m);
    close_net(&m);
    const lsi_timeline_process *const p = read_spans(&timeline);
    const lsi_timeline_span *s;
    for (size_t i = 0; (s = next_product(p, &i)) != NULL;) {
        for (size_t k = 0; k < TEST_COUNT(passes); k++)
            if (strcmp(passes[k].layer, layer_of(p, s)) == 0 &&
                passes[k].pass == (lsi_layer_pass)(s->id % LSI_PASSES))
                found[k] += s->work;
        if (strcmp(layer_of(p, s), "4x3x3x3 conv1") == 0)
            assert_int_not_equal(s->id % LSI_PASSES, LSI_PASS_DATA);
    }
    for (size_t k = 0; k < TEST_COUNT(passes); k++)
        assert_int_equal(found[k], passes[k].work);
    lsi_timeline_free(&timeline);
}

/* A product that no layer computes has no name, also after one that has. */
static void other_products_name_none(void **state)
{
    static const int64_t shape[] = {3, 3};
    ls_tensor *x;
    net m;
    lsi_timeline *timeline;
    size_t others = 0, own = 0;
    (void)state;
    open_net(&m, "fc");
    run_net(&m);
    assert_ok(ls_tensor_zeros(&x, LS_F32, 2, shape));
    assert_non_null(ls_matmul(m.tape, x, x));
    assert_non_null(ls_linear(m.tape, x, x, NULL));
    ls_tape_reset(m.tape);
    ls_tensor_free(&x);
    close_net(&m);
    const lsi_timeline_process *const p = read_spans(&timeline);
    const lsi_timeline_span *s;
    for (size_t i = 0; (s = next_product(p, &i)) != NULL;) {
        if (s->work != 2 * 3 * 3 * 3)
            continue;
        if (s->id == 0)
            others++;
        else
            own += strcmp(layer_of(p, s), "3x3 linear") == 0;
    }
    assert_int_equal(others, 1);
    assert_int_equal(own, 1);
    lsi_timeline_free(&timeline);
}

/* The end of a long name is kept. */
static void long_names(void **state)
{
    char name[200], end[64];
    net m;
    lsi_timeline *timeline;
    size_t found = 0;
    (void)state;
    memset(name, 'n', sizeof name);
    strcpy(name + 150, ".mlp.fc");
    open_net(&m, name);
    run_net(&m);
    close_net(&m);
    memset(end, 'n', sizeof end);
    strcpy(end + 40, ".mlp.fc");
    const lsi_timeline_process *const p = read_spans(&timeline);
    const lsi_timeline_span *s;
    for (size_t i = 0; (s = next_product(p, &i)) != NULL;) {
        if (s->work != FC)
            continue;
        const char *const layer = layer_of(p, s);
        assert_int_equal(strncmp(layer, "5x256 nnn", 9), 0);
        assert_string_equal(layer + strlen(layer) - strlen(end), end);
        found++;
    }
    assert_int_equal(found, 3);
    lsi_timeline_free(&timeline);
}

/* ---- layers of a profile ------------------------------------------------- */

static lsi_profile_sum sum_of(const lsi_profile *p, const expected_pass *pass)
{
    lsi_profile_sum sum = {0};
    for (size_t i = 0; i < p->n_layers; i++)
        if (strcmp(p->layer[i].name, pass->layer) == 0 &&
            p->layer[i].pass == pass->pass) {
            assert_int_equal(sum.calls, 0); /* a row for each product */
            sum = p->layer[i].sum;
        }
    return sum;
}

/* All passes were counted `calls` times, and nothing else. */
static void check_layers(const lsi_timeline *timeline, const char *range,
                         uint64_t calls)
{
    lsi_profile *p = NULL;
    const lsi_profile_filter filter = {
        .range = range, .rank = -1, .warmup = -1};
    assert_ok(lsi_profile_of(timeline, &filter, &p));
    assert_int_equal(p->n_layers, TEST_COUNT(passes));
    for (size_t k = 0; k < TEST_COUNT(passes); k++) {
        const lsi_profile_sum sum = sum_of(p, &passes[k]);
        assert_int_equal(sum.calls, calls);
        assert_int_equal(sum.work, calls * passes[k].work);
        assert_true(sum.ns > 0);
    }
    lsi_profile_free(&p);
}

static void layers_are_counted(void **state)
{
    net m;
    lsi_timeline *timeline;
    (void)state;
    open_net(&m, "fc");
    run_net(&m);
    ls_range_push("later");
    run_net(&m);
    run_net(&m);
    ls_range_pop();
    close_net(&m);
    lsi_span_stop();
    assert_ok(lsi_timeline_read(folder, &timeline));
    check_layers(timeline, NULL, 3);
    check_layers(timeline, "later", 2);
    lsi_timeline_free(&timeline);
}

/* Ids that this version does not write: the kernels count, and no layers. */
static void unknown_ids(void **state)
{
    static const uint64_t ids[] = {1, LSI_PASSES - 1, LSI_PASSES + 3,
                                   UINT64_MAX, LSI_PASSES << 20};
    lsi_timeline *timeline;
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(ids); i++)
        lsi_span_end(LSI_SPAN_KERNEL, "gemm_f32", lsi_span_begin(), 1, 1,
                     ids[i]);
    lsi_profile *p = read_profile(&timeline);
    assert_int_equal(p->n, 1);
    assert_int_equal(lsi_profile_total(&p->kernel[0]).calls, TEST_COUNT(ids));
    assert_int_equal(p->n_layers, 0);
    lsi_profile_free(&p);
    lsi_timeline_free(&timeline);
}

#define MS(n) ((n)*INT64_C(1000000))

static void largest_gain_first(void **state)
{
    /* With 100 GFLOP/s in f32 and 400 in bf16: 50%, 125%, 50% and 95%. */
    lsi_profile_layer layers[] = {
        {.name = "a", .kernel = "gemm_f32", .sum = {1, 1, MS(1000), MS(20)}},
        {.name = "b", .kernel = "conv2d", .sum = {1, 1, MS(5000), MS(40)}},
        {.name = "c", .kernel = "conv2d_bf16", .sum = {1, 1, MS(8000), MS(40)}},
        {.name = "d", .kernel = "gemm_f16", .sum = {1, 1, MS(9500), MS(100)}}};
    static const double share[] = {0.5, 0.5, 0.95, 1.25};
    static const double gain_ms[] = {20, 10, 5, 0};
    const lsi_profile_peaks peaks = {.f32 = 100e9, .bf16 = 400e9, .bytes = 1};
    const lsi_profile_peaks unknown = {.f32 = 0};
    lsi_profile p = {.layer = layers, .n_layers = TEST_COUNT(layers)};
    (void)state;
    lsi_profile_sort_layers(&p, &peaks);
    for (size_t i = 0; i < TEST_COUNT(layers); i++) {
        assert_int_equal(layers[i].name[0], "cadb"[i]);
        assert_float_equal(lsi_profile_of_product_rate(&layers[i], &peaks),
                           share[i], 1e-9);
        assert_float_equal(layers[i].gain, MS(gain_ms[i]), 1);
    }
    /* No rate, no gain: by time. */
    lsi_profile_sort_layers(&p, &unknown);
    for (size_t i = 0; i < TEST_COUNT(layers); i++) {
        assert_float_equal(layers[i].gain, 0, 0);
        assert_float_equal(lsi_profile_of_product_rate(&layers[i], &unknown), 0,
                           0);
    }
    assert_int_equal(layers[0].name[0], 'd');
    assert_int_equal(layers[3].name[0], 'a');
}

/* ---- what computed ------------------------------------------------------- */

/* The last number of threads counts, also after spans were written. */
static void threads_and_instructions(void **state)
{
    lsi_isa isa;
    lsi_timeline *timeline;
    net m;
    (void)state;
    open_net(&m, "fc");
    assert_ok(ls_set_threads(1));
    run_net(&m);
    lsi_span_step(lsi_span_begin(), 1);
    lsi_observe_lock();
    lsi_span_flush_all();
    lsi_observe_unlock();
    assert_ok(ls_set_threads(2));
    run_net(&m);
    close_net(&m);
    assert_ok(ls_set_threads(0));
    const lsi_timeline_process *const p = read_spans(&timeline);
    if (lsi_isa_from_env(&isa) != LS_OK)
        isa = lsi_cpu_isa();
    assert_int_equal(p->computing, 2);
    assert_string_equal(p->isa, lsi_isa_name(isa));
    assert_true(p->whole);
    lsi_timeline_free(&timeline);
}

static void read_head(const char *members, int threads, const char *isa)
{
    lsi_timeline_process *p = NULL;
    chunks_bytes b = chunks_begin(members);
    CHUNK(&b, 'C', 10, 20, 30);
    CHUNK(&b, 'C', 20, 40, 60);
    assert_ok(chunks_read(chunks_file(b.data, b.n), &p));
    assert_int_equal(p->computing, threads);
    assert_string_equal(p->isa, isa);
    lsi_timeline_process_free(&p);
}

/* Traces of 0.1.0 have neither. */
static void other_heads(void **state)
{
    lsi_timeline_process *p = NULL;
    const chunks_bytes b = chunks_begin("\"threads\":-1");
    (void)state;
    read_head("\"file\":0", 0, "");
    read_head("\"threads\":8,\"isa\":\"later\"", 8, "later");
    assert_error(chunks_read(chunks_file(b.data, b.n), &p), LS_ERR_FORMAT,
                 "its number of threads is out of range");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(convolutions, begin, end),
        cmocka_unit_test_setup_teardown(half_convolutions, begin, end),
        cmocka_unit_test_setup_teardown(products_name_their_layer, begin, end),
        cmocka_unit_test_setup_teardown(other_products_name_none, begin, end),
        cmocka_unit_test_setup_teardown(long_names, begin, end),
        cmocka_unit_test_setup_teardown(threads_and_instructions, begin, end),
        cmocka_unit_test(other_heads),
        cmocka_unit_test_setup_teardown(layers_are_counted, begin, end),
        cmocka_unit_test_setup_teardown(unknown_ids, begin, end),
        cmocka_unit_test(largest_gain_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
