/*
 * The training loop: the same weights whatever the number of ranks, the same
 * bits from run to run, and how often it communicates.
 */
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "array/compute/threads.h"
#include "epochs_job.h"
#include "lockstep/nn.h"
#include "model/nets/image_net.h"
#include "model/parallel/ddp.h"
#include "train/jobs/images.h"
#include "unit/comm/ranks.h"

/* Sanitizers look at each access, and take twenty times as long. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STEPS = 10, TO_LEARN = 64 };
static const double learned = 0;
#else
enum { STEPS = 50, TO_LEARN = 256 };
static const double learned = 0.2;
#endif

typedef struct plan {
    int64_t samples, batch_size, accumulate, epochs;
    int slices;  /* of a rank; 0: 1 */
    bool smooth; /* see smooth_forward */
    bool dropout;
    lsi_net_norm norm;
    ls_ddp_strategy strategy;
    /* The results, on rank 0. */
    float *weights;
    size_t n_weights;
    uint64_t collectives; /* of one epoch */
    lsi_totals totals;    /* of the last one */
    int64_t reports;
} plan;

/*
 * A network with squares where others clip at zero. Without slices rounding
 * differs with the number of ranks; where it decides a clip or a maximum,
 * gradients differ by their full size. Weights then drift apart as in
 * any two implementations of the same training. Without such corners they stay
 * together, so that a small bound can be asked for.
 */
typedef struct smooth_net {
    lsi_model model;
    ls_conv2d_layer conv;
    ls_linear_layer fc1, fc2;
    ls_sync_bn *bn;
} smooth_net;

typedef struct setup {
    ls_dataset *set;
    lsi_images *images;
    smooth_net smooth;
    ls_image_net *net;
    lsi_loop loop;
    lsi_epochs epochs;
} setup;

static void count_report(void *context, const lsi_progress_report *report)
{
    plan *const p = context;
    CHECK(report->step >= 1 && report->step <= report->steps);
    p->reports++;
}

static ls_tensor *square(ls_tape *tape, ls_tensor *x)
{
    return ls_mul(tape, x, x);
}

static lsi_forward smooth_forward(void *self, ls_tape *tape,
                                  const ls_batch *batch)
{
    const smooth_net *const net = self;
    ls_tensor *x = ls_conv2d_layer_forward(&net->conv, tape,
                                           batch->fields[LS_FIELD_IMAGES]);
    x = ls_flatten(tape, square(tape, x));
    x = ls_linear_layer_forward(&net->fc1, tape, x);
    x = square(tape, ls_sync_bn_forward(net->bn, tape, x, NULL));
    x = ls_linear_layer_forward(&net->fc2, tape, x);
    return (lsi_forward){
        ls_cross_entropy(tape, x, batch->fields[LS_FIELD_LABELS], NULL), x,
        batch->fields[LS_FIELD_LABELS], (double)batch->count};
}

static void make_smooth(smooth_net *net, const plan *p, ls_group *group)
{
    const ls_conv2d_options conv = {.stride = 4};
    const ls_sync_bn_options bn = {.kind = p->norm == LSI_NORM_FUSED
                                               ? LS_SYNC_BN_FUSED
                                               : LS_SYNC_BN_GATHERED,
                                   .momentum = 0.1};
    CHECK_OK(ls_params_new(&net->model.params));
    ls_params *const params = net->model.params;
    CHECK_OK(ls_conv2d_layer_init(&net->conv, params, "conv", 3, 4, 4, &conv));
    CHECK_OK(ls_linear_layer_init(&net->fc1, params, "fc1", 256, 32,
                                  LS_LAYER_DEFAULT));
    CHECK_OK(ls_sync_bn_new(&net->bn, group, params, "bn", 32, &bn));
    CHECK_OK(ls_linear_layer_init(&net->fc2, params, "fc2", 32, 100,
                                  LS_LAYER_DEFAULT));
    CHECK_OK(ls_params_allocate(params, group, 5));
    net->model.self = net;
    net->model.forward = smooth_forward;
}

static const lsi_model *make_model(setup *s, const plan *p, ls_group *group)
{
    const lsi_image_net_setup net = {.config = LSI_IMAGE_CIFAR100,
                                     .norm = p->norm,
                                     .dropout = p->dropout,
                                     .slices = p->slices,
                                     .seed = 5};
    if (p->smooth) {
        make_smooth(&s->smooth, p, group);
        return &s->smooth.model;
    }
    CHECK_OK(lsi_image_net_new(&s->net, group, &net));
    return lsi_image_net_model(s->net);
}

static const lsi_recipe recipe = {
    .optimizer = "sgd",
    .lr = 0.01,
    .flags = {.momentum = 0.5, .weight_decay = 1e-4, .decay_order = "first"},
    .schedule = "constant"};

/* The loop goes by the address of the model: s must stay where it is. */
static void make(setup *s, const plan *p, ls_group *group)
{
    *s = (setup){0};
    const lsi_images_options images = {.batch_size = p->batch_size,
                                       .seed = 11,
                                       .rank = ls_group_rank(group),
                                       .size = ls_group_size(group),
                                       .slices = p->slices};
    CHECK_OK(ls_dataset_new_synthetic(&s->set, p->samples, 1, LS_SUBSET_TRAIN));
    CHECK_OK(lsi_images_new(&s->images, s->set, &images));
    const lsi_model *const model = make_model(s, p, group);
    ls_ddp_options options = LS_DDP_OPTIONS_INIT;
    options.strategy = p->strategy;
    epochs_job_init(&s->loop, &s->epochs, group, model);
    CHECK_OK(ls_ddp_new(&s->loop.ddp, group, model->params, &options));
    lsi_ddp_defer_scale(s->loop.ddp);
    CHECK_OK(lsi_stepper_init(&s->loop.stepper, model->params, &recipe, 0));
    CHECK_OK(ls_tape_new(&s->loop.tape));
    s->epochs.source = lsi_images_source(s->images);
    s->epochs.accumulate = p->accumulate;
    s->epochs.seed = 5;
}

static void destroy(setup *s)
{
    ls_tape_free(&s->loop.tape);
    lsi_stepper_release(&s->loop.stepper);
    ls_ddp_free(&s->loop.ddp);
    ls_image_net_free(&s->net);
    ls_sync_bn_free(&s->smooth.bn);
    ls_params_free(&s->smooth.model.params);
    lsi_images_free(&s->images);
    ls_dataset_free(&s->set);
}

static uint64_t collectives(const ls_group *group)
{
    ls_group_counters counters;
    ls_group_get_counters(group, &counters);
    return counters.collectives;
}

static void take_weights(plan *p, const setup *s)
{
    const float *const flat =
        ls_params_flat(s->loop.training.params, &p->n_weights);
    p->weights = malloc(p->n_weights * sizeof(float));
    CHECK(p->weights != NULL);
    memcpy(p->weights, flat, p->n_weights * sizeof(float));
}

static void play(ls_group *group, void *opaque)
{
    plan *const p = opaque;
    setup s;
    make(&s, p, group);
    const bool first = ls_group_rank(group) == 0;
    if (first) {
        s.epochs.on_step = count_report;
        s.epochs.context = p;
    }
    for (int64_t epoch = 0; epoch < p->epochs; epoch++) {
        const uint64_t before = collectives(group);
        s.epochs.report = (lsi_progress_report){.epoch = epoch};
        CHECK_OK(epochs_job_run(&s.loop, &s.epochs));
        if (first)
            p->collectives = collectives(group) - before;
    }
    if (first) {
        p->totals = s.epochs.report.totals;
        take_weights(p, &s);
    }
    destroy(&s);
}

static plan run(int ranks, plan p)
{
    p.weights = NULL;
    p.reports = 0;
    run_threads(ranks, play, &p);
    return p;
}

static double largest_difference(const plan *a, const plan *b)
{
    double worst = 0;
    assert_int_equal(a->n_weights, b->n_weights);
    for (size_t i = 0; i < a->n_weights; i++)
        worst =
            fmax(worst, fabs((double)a->weights[i] - (double)b->weights[i]));
    return worst;
}

/* The same samples in each step, dealt to that number of ranks. */
static plan split(plan whole, int ranks)
{
    whole.batch_size /= ranks;
    whole.strategy = ranks == 2 ? LS_DDP_NAIVE : LS_DDP_FLAT;
    whole.norm = ranks == 2 ? LSI_NORM_GATHERED : LSI_NORM_FUSED;
    return whole;
}

/* A global batch of 32. */
static void test_number_of_ranks_does_not_matter(void **state)
{
    (void)state;
    static const int sizes[] = {2, 4, 8};
    const plan whole = {.samples = 32 * STEPS,
                        .batch_size = 32,
                        .accumulate = 1,
                        .epochs = 1,
                        .smooth = true,
                        .norm = LSI_NORM_FUSED,
                        .strategy = LS_DDP_FLAT};
    plan one = run(1, whole);
    assert_int_equal(one.reports, STEPS);
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        plan many = run(sizes[i], split(whole, sizes[i]));
        assert_int_equal(many.reports, STEPS);
        const double difference = largest_difference(&one, &many);
        if (!(difference <= 1e-5))
            fail_msg("%d ranks: weights differ by %g", sizes[i], difference);
        assert_true(many.totals.weight == 32 * STEPS);
        assert_true(fabs(lsi_totals_loss(&many.totals) -
                         lsi_totals_loss(&one.totals)) <= 1e-5);
        free(many.weights);
    }
    free(one.weights);
}

/* The network itself on 1, 2, 4 and 8 ranks: the same weights and losses. */
static void check_same_bits(plan whole)
{
    const int slices = whole.slices;
    plan one = run(1, whole);
    const int64_t batch = whole.batch_size;
    assert_int_equal(one.reports, (whole.samples + batch - 1) / batch);
    for (int ranks = 2; ranks <= slices && batch % ranks == 0; ranks *= 2) {
        plan part = whole;
        part.batch_size /= ranks;
        part.slices = slices / ranks;
        plan many = run(ranks, part);
        assert_true(many.totals.weight == (double)whole.samples);
        assert_int_equal(many.n_weights, one.n_weights);
        assert_memory_equal(many.weights, one.weights,
                            one.n_weights * sizeof(float));
        assert_true(many.totals.loss == one.totals.loss);
        free(many.weights);
    }
    free(one.weights);
}

static void test_same_bits_on_any_number_of_ranks(void **state)
{
    (void)state;
    check_same_bits((plan){.samples = 4 * STEPS - 3, /* the last is short */
                           .batch_size = 4,
                           .accumulate = 1,
                           .slices = 4,
                           .epochs = 1,
                           .dropout = true,
                           .norm = LSI_NORM_FUSED,
                           .strategy = LS_DDP_FLAT});
}

/* Slices of 2 and of 1 image, micro-steps, and another exchange. */
static void test_same_bits_of_uneven_slices(void **state)
{
    (void)state;
    check_same_bits((plan){.samples = 12 * 12,
                           .batch_size = 12,
                           .accumulate = 2,
                           .slices = 8,
                           .epochs = 1,
                           .dropout = true,
                           .norm = LSI_NORM_GATHERED,
                           .strategy = LS_DDP_NAIVE});
}

/* One slice of one image on each of 8 ranks; the last batch leaves some empty.
 */
static void test_same_bits_on_8_ranks(void **state)
{
    (void)state;
    check_same_bits((plan){.samples = 8 * 3 + 5,
                           .batch_size = 8,
                           .accumulate = 1,
                           .slices = 8,
                           .epochs = 1,
                           .dropout = true,
                           .norm = LSI_NORM_FUSED,
                           .strategy = LS_DDP_FLAT});
}

static void test_runs_repeat_bit_for_bit(void **state)
{
    (void)state;
    plan base = {.samples = 90,
                 .batch_size = 8,
                 .accumulate = 2,
                 .epochs = 2,
                 .dropout = true,
                 .norm = LSI_NORM_FUSED,
                 .strategy = LS_DDP_FLAT};
    for (int ranks = 1; ranks <= 3; ranks += 2) {
        plan a = run(ranks, base), b = run(ranks, base);
        assert_memory_equal(a.weights, b.weights, a.n_weights * sizeof(float));
        assert_true(a.totals.loss == b.totals.loss);
        assert_true(a.totals.hits == b.totals.hits);
        free(a.weights);
        free(b.weights);
    }
}

/*
 * Of k micro-steps only the last communicates gradients; batch normalisation
 * communicates twice in each; the totals once. Steps left over still step.
 */
static void check_collectives(ls_ddp_strategy strategy, lsi_net_norm norm,
                              int64_t accumulate)
{
    const plan base = {.samples = 41, /* 2 ranks x batch 3: 7 micro-steps */
                       .batch_size = 3,
                       .accumulate = accumulate,
                       .epochs = 1,
                       .norm = norm,
                       .strategy = strategy};
    plan p = run(2, base);
    const uint64_t micro_steps = 7;
    const uint64_t steps =
        (7 + (uint64_t)accumulate - 1) / (uint64_t)accumulate;
    const uint64_t of_step = strategy == LS_DDP_FLAT ? 1 : 8;
    const uint64_t of_norm = norm == LSI_NORM_LOCAL ? 0 : 2 * micro_steps;
    assert_int_equal(p.reports, micro_steps);
    assert_int_equal(p.collectives, steps * of_step + of_norm + 1);
    assert_true(p.totals.weight == 41);
    free(p.weights);
}

static void test_accumulation_communicates_once(void **state)
{
    (void)state;
    for (int64_t k = 1; k <= 9; k += 2) {
        check_collectives(LS_DDP_FLAT, LSI_NORM_FUSED, k);
        check_collectives(LS_DDP_NAIVE, LSI_NORM_LOCAL, k);
    }
    check_collectives(LS_DDP_FLAT, LSI_NORM_GATHERED, 2);
}

/* Micro-steps that are left at the end of an epoch make a step, too. */
static void test_last_group_steps(void **state)
{
    (void)state;
    const plan base = {.samples = 24,
                       .batch_size = 8,
                       .accumulate = 2,
                       .epochs = 1,
                       .norm = LSI_NORM_FUSED,
                       .strategy = LS_DDP_FLAT};
    plan shorter = base, longer = base;
    shorter.samples = 16; /* the full group alone */
    shorter = run(1, shorter);
    longer = run(1, longer);
    assert_true(largest_difference(&shorter, &longer) > 1e-4);
    free(shorter.weights);
    free(longer.weights);
}

/* More ranks than samples in the last step: some have none. */
static void test_ranks_without_samples(void **state)
{
    (void)state;
    const plan base = {.samples = 33,
                       .batch_size = 16,
                       .accumulate = 1,
                       .epochs = 1,
                       .smooth = true,
                       .norm = LSI_NORM_FUSED,
                       .strategy = LS_DDP_FLAT};
    plan one = run(1, base), many = run(4, split(base, 4));
    assert_true(largest_difference(&one, &many) <= 1e-5);
    assert_true(many.totals.weight == 33);
    free(one.weights);
    free(many.weights);
}

static void test_eight_ranks_learn(void **state)
{
    (void)state;
    const plan base = {.samples = TO_LEARN,
                       .batch_size = 4,
                       .accumulate = 1,
                       .epochs = 1,
                       .norm = LSI_NORM_FUSED,
                       .strategy = LS_DDP_FLAT};
    plan first = run(8, base), more = base;
    more.epochs = 4;
    more = run(8, more);
    assert_true(lsi_totals_loss(&more.totals) <
                lsi_totals_loss(&first.totals) - learned);
    free(first.weights);
    free(more.weights);
}

static int one_thread(void **state)
{
    (void)state;
    lsi_threads_set(1);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_number_of_ranks_does_not_matter),
        cmocka_unit_test(test_same_bits_on_any_number_of_ranks),
        cmocka_unit_test(test_same_bits_of_uneven_slices),
        cmocka_unit_test(test_same_bits_on_8_ranks),
        cmocka_unit_test(test_runs_repeat_bit_for_bit),
        cmocka_unit_test(test_accumulation_communicates_once),
        cmocka_unit_test(test_last_group_steps),
        cmocka_unit_test(test_ranks_without_samples),
        cmocka_unit_test(test_eight_ranks_learn),
    };
    return cmocka_run_group_tests(tests, one_thread, NULL);
}
