/*
 * The CIFAR-100 job. Parts are made in the order of `job` and freed in reverse.
 */
#include "train/cifar100.h"

#include <stdio.h>

#include "autograd/params.h"
#include "base/clock.h"
#include "base/error.h"
#include "lockstep/profile.h"
#include "lockstep/version.h"
#include "parallel/ddp.h"
#include "train/images.h"
#include "train/outcome.h"
#include "train/save.h"
#include "train/validate.h"

enum { BUILT_IN_TRAIN = 5000, BUILT_IN_TEST = 1000 };

typedef struct job {
    ls_group *group;
    const lsi_cifar100_options *options;
    const lsi_cifar100_events *events;
    ls_dataset *train_set, *test_set;
    lsi_images *train_images, *test_images;
    lsi_cifar_net *net;
    ls_ddp *ddp;
    lsi_stepper stepper;
    ls_tape *tape;
    lsi_trainer trainer;
} job;

/* ---- making the parts ---------------------------------------------------- */

enum { USUAL_SLICES = 4 };

/*
 * Slices of a rank's batch. Usually 1, 2 and 4 ranks have 4 in all, and so get
 * the same results.
 */
static int64_t slices_of(const job *j)
{
    const int64_t size = ls_group_size(j->group);
    if (j->options->slices > 0)
        return j->options->slices / size;
    return USUAL_SLICES % size == 0 ? USUAL_SLICES / size : 1;
}

static ls_status check_slices(const job *j)
{
    const int64_t all = j->options->slices;
    const int size = ls_group_size(j->group);
    if (all % size == 0 && slices_of(j) <= LSI_MAX_SLICES)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "%lld slices on %d ranks; they must be a multiple of the "
                    "ranks, at most %d on each",
                    (long long)all, size, LSI_MAX_SLICES);
}

static ls_status open_data(job *j)
{
    const lsi_cifar100_options *const o = j->options;
    if (o->data != NULL) {
        LS_TRY(ls_dataset_cifar100(&j->train_set, o->data, LS_TRAIN));
        LS_TRY(ls_dataset_cifar100(&j->test_set, o->data, LS_TEST));
    } else {
        const int64_t count = o->limit > 0 ? o->limit : BUILT_IN_TRAIN;
        LS_TRY(ls_dataset_synthetic(&j->train_set, count, o->seed, LS_TRAIN));
        LS_TRY(ls_dataset_synthetic(&j->test_set, BUILT_IN_TEST, o->seed,
                                    LS_TEST));
    }
    if (ls_dataset_count(j->train_set) < 1)
        return lsi_fail(LS_ERR_FORMAT, "%s holds no training images", o->data);
    return LS_OK;
}

static ls_status open_images(job *j)
{
    lsi_images_options options = {.count = j->options->limit,
                                  .batch_size = j->options->batch_size,
                                  .prefetch = (int)j->options->prefetch,
                                  .seed = j->options->seed,
                                  .rank = ls_group_rank(j->group),
                                  .size = ls_group_size(j->group),
                                  .slices = (int)slices_of(j)};
    LS_TRY(lsi_images_new(&j->train_images, j->train_set, &options));
    options.count = 0;
    options.slices = 0;
    return lsi_images_new(&j->test_images, j->test_set, &options);
}

/* What a rank does alone before all of them start together. */
static ls_status prepare_alone(job *j)
{
    LS_TRY(lsi_recipe_check(&j->options->recipe));
    LS_TRY(check_slices(j));
    LS_TRY(open_data(j));
    LS_TRY(open_images(j));
    if (j->events->begin == NULL)
        return LS_OK;
    const int64_t available = ls_dataset_count(j->train_set);
    const int64_t limit = j->options->limit;
    return j->events->begin(j->events->context,
                            limit > 0 && limit < available ? limit : available,
                            ls_dataset_count(j->test_set));
}

/* Of the optimizer, in all epochs. */
static int64_t total_steps(const job *j)
{
    const int64_t micro_steps = lsi_images_steps(j->train_images);
    const int64_t each = j->options->accumulate;
    return j->options->epochs * ((micro_steps + each - 1) / each);
}

static ls_status prepare_together(job *j)
{
    const lsi_cifar100_options *const o = j->options;
    const lsi_cifar_net_options net = {.norm = o->norm,
                                       .dropout = o->dropout,
                                       .slices = (int)slices_of(j),
                                       .seed = o->seed};
    LS_TRY(lsi_cifar_net_new(&j->net, j->group, &net));
    const lsi_model *const model = lsi_cifar_net_model(j->net);
    LS_TRY(ls_ddp_new(&j->ddp, j->group, model->params, &o->ddp));
    lsi_ddp_defer_scale(j->ddp);
    LS_TRY(lsi_stepper_init(&j->stepper, model->params, &o->recipe,
                            total_steps(j)));
    if (o->dtype == LS_F16)
        LS_TRY(lsi_stepper_scale_losses(
            &j->stepper, model->params,
            (double)(o->batch_size * o->accumulate * ls_group_size(j->group))));
    LS_TRY(ls_tape_new(&j->tape));
    LS_TRY(ls_tape_set_autocast(j->tape, o->dtype));
    j->trainer = (lsi_trainer){.group = j->group,
                               .model = model,
                               .ddp = j->ddp,
                               .stepper = &j->stepper,
                               .tape = j->tape,
                               .accumulate = o->accumulate,
                               .seed = o->seed,
                               .on_step = j->events->step,
                               .context = j->events->context};
    return LS_OK;
}

static void release(job *j)
{
    ls_tape_free(&j->tape);
    lsi_stepper_release(&j->stepper);
    ls_ddp_free(&j->ddp);
    lsi_cifar_net_free(&j->net);
    lsi_images_free(&j->test_images);
    lsi_images_free(&j->train_images);
    ls_dataset_free(&j->test_set);
    ls_dataset_free(&j->train_set);
}

/* ---- epochs -------------------------------------------------------------- */

static uint64_t collectives(const job *j)
{
    ls_group_counters counters;
    ls_group_get_counters(j->group, &counters);
    return counters.collectives;
}

static ls_status train(job *j, lsi_epoch *out, double *images)
{
    const lsi_source source = lsi_images_source(j->train_images);
    const double begin = lsi_clock_seconds();
    lsi_totals totals;
    LS_TRY(lsi_train_epoch(&j->trainer, &source, out->epoch, &totals));
    out->train_seconds = lsi_clock_seconds() - begin;
    out->loss_scale = j->stepper.loss_scale.scale;
    out->skipped = j->stepper.loss_scale.skipped;
    out->train_loss = lsi_totals_loss(&totals);
    out->train_accuracy = lsi_totals_accuracy(&totals);
    *images = totals.weight;
    return LS_OK;
}

static ls_status validate(job *j, lsi_epoch *out)
{
    lsi_totals totals;
    /* Statistics taken by each rank alone differ: rank 0's are the model's. */
    LS_TRY(lsi_ddp_broadcast_buffers(j->ddp));
    LS_TRY(lsi_validate(j->group, j->trainer.model, j->tape, j->test_images,
                        ls_dataset_count(j->test_set), &totals));
    out->val_loss = lsi_totals_loss(&totals);
    out->val_accuracy = lsi_totals_accuracy(&totals);
    return LS_OK;
}

/* What the slowest and the largest rank took. */
static ls_status compare_ranks(const job *j, double images, lsi_epoch *out)
{
    ls_memory_stats memory;
    ls_memory_total(&memory);
    double most[2] = {out->train_seconds, (double)memory.peak_bytes};
    LS_TRY(ls_reduce(j->group, most, most, 2, LS_F64, LS_MAX, 0));
    out->train_seconds = most[0];
    out->peak_bytes = (uint64_t)most[1];
    if (out->train_seconds > 0)
        out->images_per_second = images / out->train_seconds;
    return LS_OK;
}

static ls_status run_epoch(job *j, int64_t epoch, lsi_epoch *out)
{
    lsi_epoch result = {.epoch = epoch};
    const uint64_t before = collectives(j);
    ls_memory_reset_peak();
    double images;
    LS_TRY(train(j, &result, &images));
    LS_TRY(validate(j, &result));
    LS_TRY(compare_ranks(j, images, &result));
    result.collectives = collectives(j) - before;
    *out = result;
    return LS_OK;
}

/* A rank that cannot write what it should tells the others. */
static ls_status announce(const job *j, const lsi_epoch *epoch, bool *agreed)
{
    ls_status own = LS_OK;
    if (j->events->epoch != NULL)
        own = j->events->epoch(j->events->context, epoch);
    return lsi_share_outcome(j->group, own, agreed);
}

static ls_status save(const job *j)
{
    const lsi_cifar100_options *const o = j->options;
    if (o->save == NULL || ls_group_rank(j->group) != 0)
        return LS_OK;
    char epochs[24], seed[24];
    snprintf(epochs, sizeof(epochs), "%lld", (long long)o->epochs);
    snprintf(seed, sizeof(seed), "%llu", (unsigned long long)o->seed);
    const char *const metadata[] = {
        "lockstep", ls_version_string(), "epochs", epochs, "seed", seed, NULL};
    lsi_file_sum sum;
    return lsi_params_save(j->trainer.model->params, o->save, metadata, &sum);
}

static ls_status run(job *j, bool *agreed)
{
    LS_TRY(lsi_share_outcome(j->group, prepare_alone(j), agreed));
    LS_TRY(lsi_share_outcome(j->group, prepare_together(j), agreed));
    for (int64_t epoch = 0; epoch < j->options->epochs; epoch++) {
        lsi_epoch result;
        LS_TRY(run_epoch(j, epoch, &result));
        LS_TRY(announce(j, &result, agreed));
    }
    return lsi_share_outcome(j->group, save(j), agreed);
}

ls_status lsi_cifar100_train(ls_group *group,
                             const lsi_cifar100_options *options,
                             const lsi_cifar100_events *events, bool *agreed)
{
    job j = {.group = group, .options = options, .events = events};
    char message[1024];
    *agreed = false;
    const ls_status status = run(&j, agreed);
    /* To release what ranks share fails, too, if they are not together. */
    snprintf(message, sizeof(message), "%s", ls_last_error());
    release(&j);
    return status == LS_OK ? LS_OK : lsi_fail(status, "%s", message);
}
