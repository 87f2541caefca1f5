/* Distributed validation against a plain pass over all samples. */
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "array/compute/threads.h"
#include "lockstep/nn.h"
#include "model/nets/image_net.h"
#include "train/jobs/validate.h"
#include "unit/comm/ranks.h"

static const lsi_image_net_setup net_options = {.config = LSI_IMAGE_CIFAR100,
                                                .norm = LSI_NORM_FUSED,
                                                .dropout = true,
                                                .seed = 5};

typedef struct plan {
    int64_t count;
    lsi_totals expected; /* from one batch of everything */
    lsi_totals alone;    /* from one rank, in batches */
} plan;

/* All samples in one batch, by the public functions. */
static void play_plain(ls_group *group, void *opaque)
{
    plan *const p = opaque;
    ls_image_net *net = NULL;
    ls_dataset *set = NULL;
    ls_loader *loader = NULL;
    ls_tape *tape = NULL;
    ls_batch batch;
    int64_t indices[64], hits;
    double loss;
    for (int64_t i = 0; i < p->count; i++)
        indices[i] = i;
    CHECK_OK(lsi_image_net_new(&net, group, &net_options));
    CHECK_OK(ls_dataset_new_synthetic(&set, p->count, 1, LS_SUBSET_TEST));
    CHECK_OK(ls_loader_new(&loader, set,
                           &(ls_loader_options){.batch_size = p->count}));
    CHECK_OK(ls_loader_begin(loader, 0, indices, p->count));
    CHECK_OK(ls_loader_next(loader, &batch));
    CHECK(batch.count == p->count);
    CHECK_OK(ls_tape_new(&tape));
    ls_tape_set_training(tape, false);
    const lsi_model *const model = lsi_image_net_model(net);
    const lsi_forward out = model->forward(model->self, tape, &batch);
    CHECK_OK(ls_tensor_item(out.loss, &loss));
    CHECK_OK(
        ls_count_correct(out.logits, batch.fields[LS_FIELD_LABELS], &hits));
    p->expected =
        (lsi_totals){loss * (double)p->count, (double)hits, (double)p->count};
    ls_tape_free(&tape);
    ls_loader_free(&loader);
    ls_dataset_free(&set);
    ls_image_net_free(&net);
}

static void compare(const plan *p, const lsi_totals *totals)
{
    /* The loss of a batch is rounded to single precision. */
    CHECK(totals->weight == (double)p->count);
    CHECK(totals->hits == p->expected.hits);
    CHECK(fabs(lsi_totals_loss(totals) - lsi_totals_loss(&p->expected)) <=
          1e-5);
    CHECK(fabs(lsi_totals_accuracy(totals) -
               p->expected.hits / (double)p->count) <= 1e-12);
}

static void play_distributed(ls_group *group, void *opaque)
{
    plan *const p = opaque;
    ls_image_net *net = NULL;
    ls_dataset *set = NULL;
    lsi_images *images = NULL;
    ls_tape *tape = NULL;
    lsi_validated totals;
    bool agreed = false;
    const lsi_images_options options = {
        .batch_size = 7, .prefetch = 1, .size = 1};
    CHECK_OK(lsi_image_net_new(&net, group, &net_options));
    CHECK_OK(ls_dataset_new_synthetic(&set, p->count, 1, LS_SUBSET_TEST));
    CHECK_OK(lsi_images_new(&images, set, &options));
    CHECK_OK(ls_tape_new(&tape));
    for (int repeat = 0; repeat < 2; repeat++) {
        CHECK_OK(lsi_validate(group, lsi_image_net_model(net), tape, images,
                              &totals, &agreed));
        CHECK(ls_tape_is_training(tape));
        if (ls_group_rank(group) != 0)
            continue;
        compare(p, &totals.all);
        if (ls_group_size(group) == 1)
            p->alone = totals.all;
        CHECK(memcmp(&totals.all, &p->alone, sizeof(lsi_totals)) == 0);
    }
    ls_tape_free(&tape);
    lsi_images_free(&images);
    ls_dataset_free(&set);
    ls_image_net_free(&net);
}

static void test_equals_one_process(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 5, 8};
    static const int64_t counts[] = {48, 37, 3, 1};
    lsi_threads_set(1);
    for (size_t c = 0; c < TEST_COUNT(counts); c++) {
        plan p = {.count = counts[c]};
        run_threads(1, play_plain, &p);
        for (size_t s = 0; s < TEST_COUNT(sizes); s++)
            run_threads(sizes[s], play_distributed, &p);
    }
}

static void test_no_samples(void **state)
{
    (void)state;
    const lsi_totals none = {0};
    assert_true(lsi_totals_loss(&none) == 0);
    assert_true(lsi_totals_accuracy(&none) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_one_process),
        cmocka_unit_test(test_no_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
