#include "train/jobs/classify.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "comm/api/outcome.h"
#include "comm/api/place.h"
#include "lockstep/profile.h"
#include "lockstep/version.h"
#include "model/autograd/params.h"
#include "model/parallel/ddp.h"
#include "train/jobs/image_data.h"
#include "train/jobs/image_file.h"
#include "train/jobs/images.h"
#include "train/jobs/validate.h"
#include "train/slices.h"

/* Time and memory of an epoch, without its checkpoints. */
typedef struct clocks {
    double seconds, peak_bytes; /* before the process resumed */
    int64_t collectives;        /* before the process resumed */
    double begin;
    uint64_t begin_collectives;
} clocks;

/* Parts are made in this order and freed in reverse. */
typedef struct job {
    const lsi_classify_options *options;
    const lsi_classify_events *events;
    lsi_image_data data;
    lsi_images *train_images, *test_images;
    ls_image_net *net;
    int slices; /* of a rank's batch */
    lsi_loop loop;
    lsi_epochs epochs;
    clocks clock;          /* of the current epoch */
    lsi_rank_epoch *ranks; /* of that epoch, on rank 0 */
} job;

/* ---- making the parts ---------------------------------------------------- */

/*
 * Slices of the global batch. By default one per rank, or the network's usual
 * number: with 4, 1, 2 and 4 ranks get the same results. Batch normalization
 * over a rank's own rows cannot be cut.
 */
static int64_t all_slices(const job *j)
{
    const int64_t size = ls_group_size(j->loop.group);
    const int64_t usual = lsi_image_net_slices(j->options->model);
    if (j->options->slices > 0)
        return j->options->slices;
    return usual > 0 && usual % size == 0 && j->options->norm != LSI_NORM_LOCAL
               ? usual
               : size;
}

static ls_status check_slices(job *j)
{
    const int64_t size = ls_group_size(j->loop.group);
    const int64_t all = all_slices(j);
    LS_TRY(lsi_slices_of_rank(
        j->loop.group, all,
        j->options->slices > 0 ? j->options->batch_size * size : INT64_MAX,
        "images", &j->slices));
    if (j->slices == 1 || j->options->norm != LSI_NORM_LOCAL)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "--slices %" PRId64 " on %" PRId64 " rank%s needs "
                    "synchronized batch normalization: --sync-bn off "
                    "normalizes over all images of a rank. Use --sync-bn "
                    "fused, or --slices %" PRId64,
                    all, size, size == 1 ? "" : "s", size);
}

static ls_status open_data(job *j)
{
    const lsi_classify_options *const o = j->options;
    const lsi_image_data_options options = {
        .path = o->data,
        .cifar100 = o->cifar100,
        .size = o->image_size,
        .augment = o->augment,
        .limit = o->limit,
        .seed = o->seed,
        .skip_checksums =
            !o->verify || ls_group_local_rank(j->loop.group) != 0};
    return lsi_image_data_open(&j->data, &options);
}

static ls_status open_images(job *j)
{
    lsi_images_options options = {
        .count = j->options->limit,
        .spread = !j->options->cifar100,
        .batch_size = j->options->batch_size,
        .prefetch = (int)j->options->prefetch,
        .threads = (int)j->options->loader_threads,
        .seed = j->options->seed,
        .rank = lsi_group_place(j->loop.group, ls_group_rank(j->loop.group)),
        .size = ls_group_size(j->loop.group),
        .slices = j->slices};
    LS_TRY(lsi_images_new(&j->train_images, j->data.train, &options));
    options.count = 0;
    options.slices = 0;
    return lsi_images_new(&j->test_images, j->data.val, &options);
}

static int64_t train_images(const job *j)
{
    const int64_t available = ls_dataset_count(j->data.train);
    const int64_t limit = j->options->limit;
    return limit > 0 && limit < available ? limit : available;
}

/* Optimizer steps in all epochs. */
static int64_t total_steps(const job *j)
{
    const int64_t micro_steps = lsi_images_steps(j->train_images);
    const int64_t each = j->options->accumulate;
    return j->options->epochs * ((micro_steps + each - 1) / each);
}

static ls_status begin(const job *j)
{
    const lsi_classify_start start = {
        .train_images = train_images(j),
        .val_images = ls_dataset_count(j->data.val),
        .step = j->loop.found != NULL ? ls_checkpoint_step(j->loop.found) : 0,
        .epoch = j->epochs.report.epoch,
        .total_steps = total_steps(j),
        .parameters = ls_params_numel(j->epochs.model->params),
        .recipe = &j->loop.training.recipe,
        .choice = &j->loop.choice,
        .choices = j->loop.choices};
    return j->events->begin(j->events->context, &start);
}

/* ---- checkpoints --------------------------------------------------------- */

/*
 * Samples labels from all over the images: with other data some likely differ.
 */
static void collect_data_config(const job *j, lsi_run_config *config)
{
    enum { LABELS = 1024 };
    int64_t some[LABELS];
    const int64_t n = ls_dataset_count(j->data.train);
    for (int64_t i = 0; i < LABELS; i++)
        some[i] = ls_dataset_label(j->data.train, n * i / LABELS);
    lsi_run_config_int(config, "images to train:", train_images(j));
    lsi_run_config_label(config, "number of training images");
    lsi_run_config_int(config,
                       "images to validate:", ls_dataset_count(j->data.val));
    lsi_run_config_label(config, "number of validation images");
    lsi_run_config_digest(config, "data with labels of sum", some, LABELS);
    lsi_run_config_label(config, "checksum of the labels");
}

/* Digests images from all over the set, for the audit. */
static ls_status digest_images(const job *j)
{
    enum { IMAGES = 256 };
    const ls_dataset *const set = j->data.train;
    const int64_t n = ls_dataset_count(set), some = n < IMAGES ? n : IMAGES;
    void *fields[LS_MAX_FIELDS];
    char *item;
    size_t bytes = 0;
    ls_status status = LS_OK;
    for (size_t f = 0; f < ls_dataset_field_count(set); f++)
        bytes += lsi_dataset_field_bytes(set, f);
    LS_TRY(lsi_alloc(&item, bytes, LS_MEMORY_DATA, "an image to digest"));
    fields[0] = item;
    for (size_t f = 1; f < ls_dataset_field_count(set); f++)
        fields[f] = (char *)fields[f - 1] + lsi_dataset_field_bytes(set, f - 1);
    for (int64_t i = 0; i < some && status == LS_OK; i++) {
        status = ls_dataset_read(set, 0, &(int64_t){n * i / some}, 1, fields);
        if (status == LS_OK)
            lsi_audit_add_data(j->loop.audit, item, bytes);
    }
    lsi_free(item);
    return status;
}

/* Digests all labels and some images, for the audit. */
static ls_status digest_data(const job *j)
{
    if (!lsi_audit_is_wanted(j->loop.audit) ||
        ls_group_rank(j->loop.group) != 0)
        return LS_OK;
    for (int64_t i = 0; i < ls_dataset_count(j->data.train); i++) {
        const int64_t label = ls_dataset_label(j->data.train, i);
        lsi_audit_add_data(j->loop.audit, &label, sizeof(label));
    }
    return digest_images(j);
}

/* Settings without a flag of `train cifar100`. */
static void collect_images_config(const job *j, lsi_run_config *config)
{
    const lsi_classify_options *const o = j->options;
    const lsi_image_config net = lsi_image_data_config(&j->data, o->model);
    lsi_run_config_text(config, "--arch", o->model);
    lsi_run_config_int(config, "classes:", net.classes);
    lsi_run_config_label(config, "number of classes");
    lsi_run_config_int(config, "channels of an image:", net.channels);
    lsi_run_config_label(config, "number of channels of an image");
    lsi_run_config_int(config, "--image-size", net.height);
    lsi_run_config_text(config, "--augment", o->augment ? "on" : "off");
    lsi_run_config_real(config, "--label-smoothing", o->label_smoothing);
}

/* The settings on which the bits of the result depend. */
static void collect_config(const job *j, lsi_run_config *config)
{
    static const char *const norms[] = {[LSI_NORM_FUSED] = "fused",
                                        [LSI_NORM_GATHERED] = "gathered",
                                        [LSI_NORM_LOCAL] = "off"};
    const lsi_classify_options *const o = j->options;
    const int size = ls_group_size(j->loop.group);
    lsi_run_config_text(config, "train", o->name);
    lsi_run_config_text(config, "--data",
                        o->data != NULL ? "given" : "built-in");
    lsi_run_config_int(config, "--seed", (int64_t)o->seed);
    collect_data_config(j, config);
    lsi_run_config_int(config,
                       "--batch-size over all ranks:", o->batch_size * size);
    lsi_run_config_label(config, "batch size over all ranks");
    lsi_run_config_int(config, "--accumulate", o->accumulate);
    lsi_run_config_text(config, "--sync-bn", norms[o->norm]);
    lsi_run_config_int(config, "--slices", all_slices(j));
    lsi_run_config_text(config, "--dtype", ls_dtype_name(o->dtype));
    lsi_run_config_text(config, "--bits", lsi_bits_name(ls_bits_in_use()));
    lsi_run_config_before(config, "fast");
    lsi_run_config_text(config, "--dropout", o->dropout ? "on" : "off");
    if (!o->cifar100)
        collect_images_config(j, config);
    lsi_recipe_describe(&o->recipe, total_steps(j), config);
}

/* Allocates the epochs of each rank, on rank 0. */
static ls_status make_ranks(job *j)
{
    if (ls_group_rank(j->loop.group) != 0)
        return LS_OK;
    return lsi_alloc_zeroed(&j->ranks,
                            (size_t)ls_group_size(j->loop.group) *
                                sizeof(lsi_rank_epoch),
                            LS_MEMORY_OTHER, "the epoch results of all ranks");
}

static void set_training(job *j)
{
    const lsi_classify_options *const o = j->options;
    const int64_t classes = lsi_image_data_config(&j->data, o->model).classes;
    j->loop.training =
        (lsi_training){.ddp = o->ddp,
                       .choose_ddp = o->choose_ddp,
                       .recipe = o->recipe,
                       .total_steps = total_steps(j),
                       .accumulate = o->accumulate,
                       .slices = j->slices,
                       .dtype = o->dtype,
                       .step_weight = (double)(o->batch_size * o->accumulate *
                                               ls_group_size(j->loop.group)),
                       .guess = log((double)classes)};
}

/* Each rank alone: the data, and the settings that follow from them. */
static ls_status prepare(job *j)
{
    LS_TRY(lsi_recipe_check(&j->options->recipe));
    LS_TRY(check_slices(j));
    LS_TRY(make_ranks(j));
    LS_TRY(open_data(j));
    LS_TRY(open_images(j));
    LS_TRY(digest_data(j));
    set_training(j);
    lsi_run_config_int(&j->loop.run, "--epochs", j->options->epochs);
    lsi_run_config_int(&j->loop.run, "--batch-size", j->options->batch_size);
    collect_config(j, &j->loop.resume.config);
    return LS_OK;
}

static uint64_t collectives(const job *j)
{
    ls_group_counters counters;
    ls_group_get_counters(j->loop.group, &counters);
    return counters.collectives;
}

static double peak_bytes(const job *j)
{
    ls_memory_stats memory;
    ls_memory_total(&memory);
    return fmax(j->clock.peak_bytes, (double)memory.peak_bytes);
}

static double seconds(const job *j)
{
    return j->clock.seconds + lsi_clock_seconds() - j->clock.begin;
}

static int64_t epoch_collectives(const job *j)
{
    return j->clock.collectives +
           (int64_t)(collectives(j) - j->clock.begin_collectives);
}

static void start_clocks(job *j)
{
    j->clock.begin = lsi_clock_seconds();
    j->clock.begin_collectives = collectives(j);
}

static ls_status save_with(job *j, const char *ranks, int64_t calls)
{
    char epoch[24], step[24], count[24];
    snprintf(epoch, sizeof(epoch), "%" PRId64, j->epochs.report.epoch);
    snprintf(step, sizeof(step), "%" PRId64, j->epochs.report.step);
    snprintf(count, sizeof(count), "%" PRId64, calls);
    const char *const values[] = {"epoch", epoch,         "micro_step",
                                  step,    "collectives", count,
                                  "ranks", ranks,         NULL};
    return lsi_loop_save(&j->loop, values);
}

static ls_status checkpoint(job *j)
{
    char *ranks = NULL;
    const lsi_partial own = {j->epochs.report.totals, seconds(j),
                             peak_bytes(j)};
    j->clock.seconds = own.seconds;
    j->clock.collectives = epoch_collectives(j);
    LS_TRY(lsi_partial_text(j->loop.group, &own, &ranks));
    const ls_status status = save_with(j, ranks, j->clock.collectives);
    lsi_free(ranks);
    start_clocks(j);
    return status;
}

/* The epoch and the micro-step to go on from. */
static ls_status find_place(job *j)
{
    const ls_checkpoint *const found = j->loop.found;
    lsi_progress_report *const report = &j->epochs.report;
    lsi_partial own;
    const char *const ranks = ls_checkpoint_value(found, "ranks");
    LS_TRY(lsi_resume_number(found, "epoch", &report->epoch));
    LS_TRY(lsi_resume_number(found, "micro_step", &report->step));
    LS_TRY(lsi_resume_number(found, "collectives", &j->clock.collectives));
    LS_TRY(lsi_partial_parse(&own, ranks != NULL ? ranks : "",
                             ls_group_rank(j->loop.group),
                             ls_group_size(j->loop.group)));
    report->totals = own.totals;
    j->clock.seconds = own.seconds;
    j->clock.peak_bytes = own.peak_bytes;
    if (report->epoch < j->options->epochs)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "cannot resume from the checkpoint of step %" PRId64
                    ": it is in epoch %" PRId64 ", but this run has --epochs "
                    "%" PRId64,
                    ls_checkpoint_step(found), report->epoch + 1,
                    j->options->epochs);
}

/* ---- starting ------------------------------------------------------------ */

static lsi_image_net_setup setup_of(const job *j)
{
    const lsi_classify_options *const o = j->options;
    return (lsi_image_net_setup){.config =
                                     lsi_image_data_config(&j->data, o->model),
                                 .norm = o->norm,
                                 .dropout = o->dropout,
                                 .label_smoothing = o->label_smoothing,
                                 .slices = j->slices,
                                 .seed = o->seed};
}

/* Collective. */
static ls_status count_parameters(job *j)
{
    const lsi_image_net_setup net = setup_of(j);
    return lsi_image_net_count(j->loop.group, &net,
                               &j->loop.training.parameters,
                               &j->loop.training.layers);
}

static ls_status make(void *self, ls_params **out)
{
    job *const j = self;
    const lsi_image_net_setup net = setup_of(j);
    LS_TRY(lsi_image_net_new(&j->net, j->loop.group, &net));
    j->epochs.model = lsi_image_net_model(j->net);
    j->epochs.source = lsi_images_source(j->train_images);
    *out = j->epochs.model->params;
    return LS_OK;
}

static void unmake(void *self)
{
    job *const j = self;
    ls_image_net_free(&j->net);
}

static int64_t rehearse(void *self)
{
    job *const j = self;
    return lsi_epochs_rehearse(&j->epochs);
}

static void release(job *j)
{
    lsi_images_free(&j->test_images);
    lsi_images_free(&j->train_images);
    lsi_image_data_free(&j->data);
    lsi_free(j->ranks);
}

/* ---- epochs -------------------------------------------------------------- */

/* The result of training, that of all ranks on rank 0. */
static ls_status end_training(job *j, lsi_epoch *out, lsi_rank_epoch *own)
{
    lsi_totals *const totals = &j->epochs.report.totals;
    own->train_loss = lsi_totals_loss(totals);
    own->train_accuracy = lsi_totals_accuracy(totals);
    own->images = totals->weight;
    LS_TRY(lsi_totals_reduce(totals, j->loop.group));
    own->train_seconds = seconds(j);
    own->waited_seconds = lsi_images_waited(j->train_images);
    out->loss_scale = j->loop.stepper.loss_scale.scale;
    out->skipped = j->loop.stepper.loss_scale.skipped;
    out->compared = lsi_ddp_compared(j->loop.ddp);
    out->train_loss = lsi_totals_loss(totals);
    out->train_accuracy = lsi_totals_accuracy(totals);
    return LS_OK;
}

static ls_status validate(job *j, lsi_epoch *out, lsi_rank_epoch *own)
{
    lsi_validated totals;
    LS_TRY(lsi_stepper_swap_averages(&j->loop.stepper));
    /* Statistics taken by each rank alone differ: rank 0's are the model's. */
    LS_TRY(lsi_ddp_broadcast_buffers(j->loop.ddp));
    LS_TRY(lsi_validate(j->loop.group, j->epochs.model, j->loop.tape,
                        j->test_images, &totals, j->loop.agreed));
    LS_TRY(lsi_stepper_swap_averages(&j->loop.stepper));
    own->val_loss = lsi_totals_loss(&totals.own);
    own->val_accuracy = lsi_totals_accuracy(&totals.own);
    out->val_loss = lsi_totals_loss(&totals.all);
    out->val_accuracy = lsi_totals_accuracy(&totals.all);
    return LS_OK;
}

/*
 * Gathers times and peaks of each rank, and finds the slowest and the largest.
 */
static ls_status compare_ranks(const job *j, lsi_rank_epoch own, lsi_epoch *out)
{
    own.peak_bytes = peak_bytes(j);
    LS_TRY(ls_gather(j->loop.group, &own, j->ranks,
                     sizeof(own) / sizeof(double), LS_F64, 0));
    for (int r = 0; j->ranks != NULL && r < ls_group_size(j->loop.group); r++) {
        const lsi_rank_epoch *const other = &j->ranks[r];
        own.train_seconds = fmax(own.train_seconds, other->train_seconds);
        own.waited_seconds = fmax(own.waited_seconds, other->waited_seconds);
        own.peak_bytes = fmax(own.peak_bytes, other->peak_bytes);
    }
    out->ranks = j->ranks;
    out->train_seconds = own.train_seconds;
    out->waited_seconds = own.waited_seconds;
    out->peak_bytes = (uint64_t)own.peak_bytes;
    if (out->train_seconds > 0)
        out->images_per_second =
            j->epochs.report.totals.weight / out->train_seconds;
    return LS_OK;
}

static void begin_epoch(job *j)
{
    ls_memory_reset_peak();
    start_clocks(j);
    lsi_epochs_begin(&j->epochs);
}

/*
 * Rank 0 alone knows the validation's loss. By the mean with zeros all ranks
 * learn whether it is finite, so all end with the same status.
 */
static ls_status report_epoch(job *j, const lsi_epoch *epoch)
{
    const bool first = ls_group_rank(j->loop.group) == 0;
    double loss = first ? epoch->val_loss : 0;
    LS_TRY(lsi_share_mean(j->loop.group, LS_OK, &loss, j->loop.agreed));
    LS_TRY(lsi_loop_check_validation(&j->loop, first ? epoch->val_loss : loss));
    return j->events->epoch(j->events->context, epoch);
}

static ls_status end_epoch(job *j)
{
    lsi_epoch result = {.epoch = j->epochs.report.epoch};
    lsi_rank_epoch own = {0};
    LS_TRY(end_training(j, &result, &own));
    LS_TRY(validate(j, &result, &own));
    LS_TRY(compare_ranks(j, own, &result));
    result.collectives = (uint64_t)epoch_collectives(j);
    LS_TRY(lsi_loop_report(&j->loop, report_epoch(j, &result)));
    j->epochs.report = (lsi_progress_report){.epoch = result.epoch + 1};
    j->clock = (clocks){0};
    return LS_OK;
}

/* ---- the job ------------------------------------------------------------- */

static ls_status run_epoch(job *j)
{
    lsi_loop *const l = &j->loop;
    begin_epoch(j);
    while (!lsi_loop_is_ending(l)) {
        const int64_t micro_steps = lsi_epochs_next(&j->epochs);
        if (micro_steps == 0)
            return end_epoch(j);
        LS_TRY(lsi_epochs_step(&j->epochs, micro_steps));
        if (lsi_loop_is_due(l))
            LS_TRY(checkpoint(j));
        lsi_loop_end_step(l);
    }
    return LS_OK;
}

static lsi_forward forward(void *self, int64_t micro_step)
{
    job *const j = self;
    (void)micro_step;
    return lsi_epochs_forward(&j->epochs);
}

static ls_status add(void *self, const lsi_forward *out)
{
    job *const j = self;
    return lsi_epochs_add(&j->epochs, out);
}

/* Images of all epochs; the ranks' last batches may be smaller. */
static int64_t samples(void *self)
{
    const job *const j = self;
    const lsi_progress_report *const r = &j->epochs.report;
    const int64_t images = train_images(j);
    const int64_t seen = r->step * lsi_images_batch_size(j->train_images) *
                         ls_group_size(j->loop.group);
    return r->epoch * images + (seen < images ? seen : images);
}

/* Describes the network, so that another program can make it again. */
static ls_status describe(const job *j, char **out)
{
    const lsi_classify_options *const o = j->options;
    const lsi_image_config net = lsi_image_data_config(&j->data, o->model);
    return lsi_image_file_describe(&net, j->data.train, o->seed, out);
}

/* Unfinished epochs of a stopped run do not count. */
static ls_status save(void *self, const char *path)
{
    const job *const j = self;
    char epochs[24], seed[24], *net;
    snprintf(epochs, sizeof(epochs), "%" PRId64, j->epochs.report.epoch);
    snprintf(seed, sizeof(seed), "%" PRIu64, j->options->seed);
    LS_TRY(describe(j, &net));
    const char *const metadata[] = {
        "lockstep", ls_version_string(), "epochs", epochs, "seed",
        seed,       LSI_IMAGE_NET_KEY,   net,      NULL};
    const ls_status status =
        ls_params_save(j->loop.training.params, path, metadata);
    free(net);
    return status;
}

static ls_status train(job *j)
{
    lsi_loop *const l = &j->loop;
    LS_TRY(lsi_loop_agree(l, prepare(j)));
    LS_TRY(lsi_loop_share(l, count_parameters(j)));
    LS_TRY(lsi_loop_plan(l));
    if (l->found != NULL)
        LS_TRY(lsi_loop_share(l, find_place(j)));
    LS_TRY(lsi_loop_make(l));
    LS_TRY(lsi_loop_share(l, begin(j)));
    LS_TRY(lsi_loop_open(l));
    while (!lsi_loop_is_ending(l) &&
           j->epochs.report.epoch < j->options->epochs)
        LS_TRY(run_epoch(j));
    return lsi_loop_finish(l);
}

ls_status lsi_classify_train(ls_group *group,
                             const lsi_classify_options *options,
                             const lsi_classify_events *events, bool *agreed)
{
    static const lsi_train_job classify = {.make = make,
                                           .unmake = unmake,
                                           .rehearse = rehearse,
                                           .forward = forward,
                                           .add = add,
                                           .samples = samples,
                                           .save = save};
    job j = {.options = options,
             .events = events,
             .epochs = {.loop = &j.loop,
                        .accumulate = options->accumulate,
                        .seed = options->seed,
                        .on_step = events->step,
                        .context = events->context}};
    j.loop = lsi_loop_of(group, &classify, &j, &options->resume, agreed);
    j.loop.keep = options->keep;
    j.loop.audit = options->audit;
    j.loop.on_saved = events->saved;
    j.loop.context = events->context;
    *agreed = false;
    const ls_status status = train(&j);
    lsi_loop_close(&j.loop);
    release(&j);
    return status;
}
