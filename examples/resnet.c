/*
 * ResNet-18 on a folder of images, with AdamW and an average of the weights:
 *
 *     lockstep run -n 2 -- resnet photos checkpoints 10 bucketed
 *
 * trains for 10 epochs; called again, on any number of ranks, it resumes.
 */
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/lockstep.h>

enum { SIDE = 32, BATCH = 8 };

static void check(ls_status status)
{
    if (status == LS_OK)
        return;
    fprintf(stderr, "resnet: %s\n", ls_last_error());
    exit(1);
}

typedef struct training {
    ls_group *group;
    ls_image_net *net;
    ls_params *params; /* of the net */
    ls_ddp *ddp;
    ls_optimizer *adamw;
    ls_tape *tape;
} training;

static void step(training *t, const ls_batch *batch)
{
    ls_tensor *x = batch->fields[LS_FIELD_IMAGES],
              *y = batch->fields[LS_FIELD_LABELS];
    ls_params_zero_grad(t->params);
    x = ls_image_net_forward(t->net, t->tape, x);
    ls_tensor *loss = ls_cross_entropy(t->tape, x, y, NULL);
    check(ls_ddp_backward(t->ddp, t->tape, loss, (double)batch->count));
    check(ls_optimizer_step(t->adamw, 1.0));
    ls_tape_reset(t->tape);
}

/* One pass over this rank's share. */
static void train_epoch(training *t, const ls_dataset *images, int64_t epoch)
{
    ls_loader_options options = LS_LOADER_OPTIONS_INIT;
    options.batch_size = BATCH;
    options.prefetch = 2;
    ls_sampler share = {.epoch = (uint64_t)epoch, .shuffle = true};
    share.count = ls_dataset_count(images);
    share.rank = ls_group_rank(t->group);
    share.size = ls_group_size(t->group);
    share.pad = true; /* equally many steps on all ranks */
    const int64_t n = ls_sampler_count(&share);
    int64_t *indices = malloc((size_t)n * sizeof(int64_t));
    ls_loader *loader = NULL;
    ls_batch batch;
    check(ls_sampler_fill(&share, indices));
    check(ls_loader_new(&loader, images, &options));
    check(ls_loader_begin(loader, share.epoch, indices, n));
    while (check(ls_loader_next(loader, &batch)), batch.count > 0)
        step(t, &batch);
    ls_loader_free(&loader);
    free(indices);
}

/* The epoch to go on with. */
static int64_t resume(training *t, const char *folder)
{
    ls_checkpoint *found = NULL;
    const ls_status status = ls_checkpoint_open(&found, t->group, folder);
    if (status == LS_ERR_NOT_FOUND)
        return 0; /* nothing was saved yet */
    check(status);
    check(ls_checkpoint_load(found, t->params, t->adamw));
    const int64_t epoch = ls_checkpoint_step(found);
    ls_checkpoint_close(&found);
    return epoch;
}

static void make(training *t, int64_t classes, const char *strategy)
{
    const ls_image_net_options net = {.name = "resnet18",
                                      .classes = classes,
                                      .channels = 3,
                                      .height = SIDE,
                                      .width = SIDE,
                                      .sync_bn = true,
                                      .seed = 1};
    ls_ddp_options how = LS_DDP_OPTIONS_INIT;
    check(ls_ddp_strategy_parse(strategy, &how.strategy));
    how.bucket_bytes = how.strategy == LS_DDP_BUCKETED ? 4000000 : 0;
    check(ls_image_net_new(&t->net, t->group, &net));
    t->params = ls_image_net_params(t->net);
    check(ls_ddp_new(&t->ddp, t->group, t->params, &how));
    check(ls_optimizer_new(&t->adamw, t->params, NULL));
    check(ls_ema_start(t->adamw, 0.999));
    check(ls_tape_new(&t->tape));
}

int main(int argc, char **argv)
{
    const ls_image_options moved = {.size = SIDE, .flip = true, .pad = 4};
    ls_dataset *images = NULL;
    training t = {0};
    if (argc != 5)
        return 2; /* resnet IMAGES CHECKPOINTS EPOCHS STRATEGY */
    check(ls_group_from_env(&t.group));
    check(ls_dataset_new_images(&images, argv[1], LS_SUBSET_TRAIN, &moved));
    make(&t, ls_dataset_classes(images), argv[4]);
    const ls_checkpoint_parts parts = {.params = t.params,
                                       .optimizer = t.adamw};
    const int64_t epochs = strtol(argv[3], NULL, 10);
    for (int64_t epoch = resume(&t, argv[2]); epoch < epochs; epoch++) {
        train_epoch(&t, images, epoch);
        check(ls_checkpoint_save(t.group, argv[2], epoch + 1, &parts, 2));
        if (ls_group_rank(t.group) == 0)
            printf("epoch %d is done\n", (int)epoch + 1);
    }
    ls_tape_free(&t.tape);
    ls_optimizer_free(&t.adamw);
    ls_ddp_free(&t.ddp);
    ls_image_net_free(&t.net);
    ls_dataset_free(&images);
    ls_group_close(&t.group);
    return 0;
}
