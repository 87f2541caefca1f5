/*
 * A custom data source: signals of three shapes, which a function makes when
 * they are read, with different noise in each epoch. Two threads of each rank
 * read ahead of a network that learns to tell the shapes apart.
 *
 *     lockstep run -n 2 -- own_data        on two ranks
 *     own_data                             on one
 */
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/lockstep.h>

enum { SIGNALS = 600, LENGTH = 64, SHAPES = 3, BATCH = 60, EPOCHS = 15 };

static void check(ls_status status)
{
    if (status == LS_OK)
        return;
    fprintf(stderr, "own_data: %s\n", ls_last_error());
    exit(1);
}

/* In [0, 1), from two numbers alone: no state that threads would share. */
static float noise(uint64_t a, uint64_t b)
{
    uint64_t h = (a * 0x9e3779b97f4a7c15U) ^ (b + 0x7f4a7c15U);
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93U;
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93U;
    return (float)(h >> 40) / (float)(1 << 24);
}

/* Field 0 is the signal, field 1 its shape: a ramp, a square or a triangle. */
static ls_status read_signal(void *context, int64_t index, uint64_t epoch,
                             void *const *fields)
{
    float *const signal = fields[0];
    const int64_t shape = index % SHAPES;
    const float phase = noise((uint64_t)index, 0);
    (void)context;
    for (int i = 0; i < LENGTH; i++) {
        float t = phase + (float)i / 32;
        t -= (float)(int)t;
        const float values[SHAPES] = {2 * t - 1, t < 0.5F ? 1 : -1,
                                      t < 0.5F ? 4 * t - 1 : 3 - 4 * t};
        signal[i] = values[shape] +
                    noise((uint64_t)index * LENGTH + (uint64_t)i, epoch + 1) -
                    0.5F;
    }
    *(int64_t *)fields[1] = shape;
    return LS_OK;
}

typedef struct trainer {
    ls_group *group;
    ls_params *params;
    ls_linear_layer first, last;
    ls_ddp *ddp;
    ls_optimizer *adamw;
    ls_tape *tape;
    ls_loader *loader;
} trainer;

static void build(trainer *t, const ls_dataset *signals)
{
    const ls_loader_options ahead = {.batch_size =
                                         BATCH / ls_group_size(t->group),
                                     .prefetch = 4,
                                     .threads = 2};
    const ls_ddp_options how = LS_DDP_OPTIONS_INIT;
    check(ls_params_new(&t->params));
    check(ls_linear_layer_init(&t->first, t->params, "first", LENGTH, 64,
                               LS_LAYER_DEFAULT));
    check(ls_linear_layer_init(&t->last, t->params, "last", 64, SHAPES,
                               LS_LAYER_DEFAULT));
    check(ls_params_allocate(t->params, t->group, 1));
    check(ls_ddp_new(&t->ddp, t->group, t->params, &how));
    ls_adamw_options adamw = LS_ADAMW_OPTIONS_INIT;
    adamw.lr = 0.01;
    check(ls_optimizer_new(&t->adamw, t->params,
                           &(ls_optimizer_spec){.adamw = &adamw}));
    check(ls_tape_new(&t->tape));
    check(ls_loader_new(&t->loader, signals, &ahead));
}

/* The share of the batch's signals that the network knows. */
static double step(trainer *t, const ls_batch *batch)
{
    ls_tensor *const x = batch->fields[0], *const y = batch->fields[1];
    int64_t correct;
    ls_params_zero_grad(t->params);
    ls_tensor *hidden =
        ls_relu(t->tape, ls_linear_layer_forward(&t->first, t->tape, x));
    ls_tensor *logits = ls_linear_layer_forward(&t->last, t->tape, hidden);
    ls_tensor *loss = ls_cross_entropy(t->tape, logits, y, NULL);
    check(ls_ddp_backward(t->ddp, t->tape, loss, (double)batch->count));
    check(ls_optimizer_step(t->adamw, 1.0));
    check(ls_count_correct(logits, y, &correct));
    ls_tape_reset(t->tape);
    return (double)correct / (double)batch->count;
}

static double train_epoch(trainer *t, uint64_t epoch)
{
    static int64_t indices[SIGNALS];
    const ls_sampler share = {.count = SIGNALS,
                              .epoch = epoch,
                              .rank = ls_group_rank(t->group),
                              .size = ls_group_size(t->group),
                              .shuffle = true,
                              .pad = true}; /* equally many steps */
    double sum = 0, mean;
    int steps = 0;
    ls_batch batch;
    check(ls_sampler_fill(&share, indices));
    check(ls_loader_begin(t->loader, epoch, indices, ls_sampler_count(&share)));
    for (;; steps++) {
        check(ls_loader_next(t->loader, &batch));
        if (batch.count == 0)
            break;
        sum += step(t, &batch);
    }
    sum /= (double)steps;
    check(ls_all_reduce(t->group, &sum, &mean, 1, LS_F64, LS_REDUCE_AVG));
    return mean;
}

int main(void)
{
    const ls_field fields[] = {{"signal", LS_F32, 1, {LENGTH}},
                               {"shape", LS_I64, 0, {0}}};
    const ls_dataset_source source = {
        .count = SIGNALS, .fields = fields, .n_fields = 2, .read = read_signal};
    ls_dataset *signals = NULL;
    trainer t = {0};
    double known = 0;
    check(ls_group_from_env(&t.group));
    check(ls_dataset_new(&signals, &source));
    build(&t, signals);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        known = train_epoch(&t, epoch);
        if (ls_group_rank(t.group) == 0)
            printf("epoch %2d  %.1f%% correct\n", (int)epoch, 100 * known);
    }
    ls_loader_free(&t.loader);
    ls_tape_free(&t.tape);
    ls_optimizer_free(&t.adamw);
    ls_ddp_free(&t.ddp);
    ls_params_free(&t.params);
    ls_dataset_free(&signals);
    ls_group_close(&t.group);
    return known > 0.95 ? 0 : 1;
}
