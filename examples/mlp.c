/*
 * Data-parallel training in a hundred lines: a network learns which of three
 * rings a point of the plane lies in, and every rank sees its own share of the
 * points.
 *
 *     lockstep run -n 2 -- mlp        on two ranks
 *     mlp                             on one
 *
 * The losses are the same on 1, 2, 3, 4, 6 and 8 ranks.
 */
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/lockstep.h>

enum { POINTS = 960, BATCH = 48, HIDDEN = 32, RINGS = 3, EPOCHS = 20 };

/* Prints what went wrong and ends the rank; the launcher ends the others. */
static void check(ls_status status)
{
    if (status == LS_OK)
        return;
    fprintf(stderr, "mlp: %s\n", ls_last_error());
    exit(1);
}

typedef struct model {
    ls_params *params; /* owns the tensors of the layers */
    ls_linear_layer first, second, last;
} model;

/* Equal seeds: the ranks start with the same weights. */
static void build(model *m, ls_group *group)
{
    check(ls_params_new(&m->params));
    check(ls_linear_layer_init(&m->first, m->params, "first", 2, HIDDEN,
                               LS_LAYER_DEFAULT));
    check(ls_linear_layer_init(&m->second, m->params, "second", HIDDEN, HIDDEN,
                               LS_LAYER_DEFAULT));
    check(ls_linear_layer_init(&m->last, m->params, "last", HIDDEN, RINGS,
                               LS_LAYER_DEFAULT));
    check(ls_params_allocate(m->params, group, 1));
}

static ls_tensor *forward(const model *m, ls_tape *tape, ls_tensor *x)
{
    x = ls_relu(tape, ls_linear_layer_forward(&m->first, tape, x));
    x = ls_relu(tape, ls_linear_layer_forward(&m->second, tape, x));
    return ls_linear_layer_forward(&m->last, tape, x);
}

/* Point `index`: x and y in [-1, 1), from a hash, and the ring it lies in. */
static int64_t point(int64_t index, float xy[2])
{
    for (int i = 0; i < 2; i++) {
        uint64_t h = (uint64_t)(2 * index + i + 1) * 0x9e3779b97f4a7c15U;
        h = (h ^ h >> 31) * 0xd6e8feb86659fd93U;
        xy[i] = (float)(h >> 40) / (float)(1 << 23) - 1;
    }
    const float square = xy[0] * xy[0] + xy[1] * xy[1];
    return square < 0.25F ? 0 : square < 0.75F ? 1 : 2;
}

/* One step on `n` points. Returns the loss on this rank's share of them. */
static double train_step(const model *m, ls_ddp *ddp, ls_optimizer *sgd,
                         ls_tape *tape, const int64_t *indices, int64_t n)
{
    ls_tensor *x = NULL, *y = NULL;
    const int64_t shape[] = {n, 2};
    float *points;
    int64_t *rings;
    double value = 0;
    check(ls_tensor_new(&x, LS_F32, 2, shape));
    check(ls_tensor_new(&y, LS_I64, 1, shape));
    check(ls_tensor_map_f32(x, &points));
    check(ls_tensor_map_i64(y, &rings));
    for (int64_t i = 0; i < n; i++)
        rings[i] = point(indices[i], points + 2 * i);

    ls_params_zero_grad(m->params);
    ls_tensor *loss = ls_cross_entropy(tape, forward(m, tape, x), y, NULL);
    check(ls_ddp_backward(ddp, tape, loss, (double)n));
    check(ls_optimizer_step(sgd, 1.0));
    check(ls_tensor_item(loss, &value));
    ls_tape_reset(tape);
    ls_tensor_free(&x);
    ls_tensor_free(&y);
    return value;
}

/* One pass over the points. Returns the mean loss over all ranks. */
static double train_epoch(const model *m, ls_ddp *ddp, ls_optimizer *sgd,
                          ls_tape *tape, ls_group *group, uint64_t epoch)
{
    static int64_t indices[POINTS];
    const ls_sampler share = {.count = POINTS,
                              .epoch = epoch,
                              .rank = ls_group_rank(group),
                              .size = ls_group_size(group),
                              .shuffle = true,
                              .pad = true}; /* equally many steps */
    const int64_t count = ls_sampler_count(&share);
    /* All ranks together take BATCH points a step, however many they are. */
    const int64_t batch = share.size < BATCH ? BATCH / share.size : 1;
    double sum = 0, mean;
    check(ls_sampler_fill(&share, indices));
    for (int64_t i = 0; i < count; i += batch) {
        const int64_t n = count - i < batch ? count - i : batch;
        sum += train_step(m, ddp, sgd, tape, indices + i, n) * (double)n;
    }
    sum /= (double)count;
    check(ls_all_reduce(group, &sum, &mean, 1, LS_F64, LS_REDUCE_AVG));
    return mean;
}

/* With the name of a file, rank 0 saves the trained model there. */
int main(int argc, char **argv)
{
    ls_group *group = NULL;
    ls_ddp *ddp = NULL;
    ls_optimizer *sgd = NULL;
    ls_tape *tape = NULL;
    model m;
    double first = 0, loss = 0;
    check(ls_group_from_env(&group));
    build(&m, group);
    const ls_ddp_options how = LS_DDP_OPTIONS_INIT;
    check(ls_ddp_new(&ddp, group, m.params, &how));
    const ls_sgd_options options = {.lr = 0.05, .momentum = 0.9};
    check(ls_optimizer_new(&sgd, m.params,
                           &(ls_optimizer_spec){.sgd = &options}));
    check(ls_tape_new(&tape));

    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        loss = train_epoch(&m, ddp, sgd, tape, group, epoch);
        first = epoch == 0 ? loss : first;
        if (ls_group_rank(group) == 0)
            printf("epoch %2d  loss %.4f\n", (int)epoch, loss);
    }

    if (argc > 1 && ls_group_rank(group) == 0)
        check(ls_params_save(m.params, argv[1], NULL));
    ls_tape_free(&tape);
    ls_optimizer_free(&sgd);
    ls_ddp_free(&ddp);
    ls_params_free(&m.params);
    ls_group_close(&group);
    return loss < 0.5 * first ? 0 : 1; /* it should have learned */
}
