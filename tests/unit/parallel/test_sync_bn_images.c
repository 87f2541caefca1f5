/*
 * Synchronised batch normalisation of images against batch_norm of all ranks'
 * images together: values, gradients, running statistics, and how many
 * collectives it makes. A rank of three or more has no images, the others have
 * different numbers.
 */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "lockstep/nn.h"
#include "lockstep/parallel.h"
#include "model/autograd/params.h"
#include "testing.h"
#include "unit/comm/ranks.h"

enum { CHANNELS = 19, H = 5, W = 4, IMAGE = CHANNELS * H * W };

typedef struct options {
    ls_sync_bn_kind kind;
    int slices;
    bool relu;
    bool adds; /* a residual */
} options;

static int images_of(int rank, int size)
{
    return size >= 3 && rank == 1 ? 0 : 2 + rank % 3;
}

static int first_image(int rank, int size)
{
    int first = 0;
    for (int r = 0; r < rank; r++)
        first += images_of(r, size);
    return first;
}

/* Images begin.. of all, drawn by their number in the whole batch. */
static ls_tensor *draw(uint64_t stream, int begin, int n, bool turned)
{
    ls_tensor *out;
    const int64_t shape[] = {n, CHANNELS, turned ? W : H, turned ? H : W};
    CHECK_OK(ls_tensor_new(&out, LS_F32, 4, shape));
    float *data = n > 0 ? tensor_data(out) : NULL;
    for (int i = 0; i < n * IMAGE; i++)
        data[i] = (float)lsi_rng_normal((lsi_rng_key){7, stream}, 0,
                                        (uint64_t)(begin * IMAGE + i));
    return out;
}

/* One normalisation with its loss, the sum of weights times y. */
typedef struct side {
    ls_tape *tape;
    ls_tensor *x, *residual, *weights, *y; /* residual: (N, C, W, H) */
} side;

static side open_side(int begin, int n)
{
    side s = {.x = draw(1, begin, n, false),
              .residual = draw(2, begin, n, true),
              .weights = draw(3, begin, n, false)};
    CHECK_OK(ls_tape_new(&s.tape));
    CHECK_OK(ls_tape_watch(s.tape, s.x));
    CHECK_OK(ls_tape_watch(s.tape, s.residual));
    return s;
}

/* A view, which the operation has to copy for itself. */
static ls_tensor *residual_of(const side *s)
{
    return ls_transpose(s->tape, s->residual, 2, 3);
}

static void finish_side(side *s)
{
    CHECK(s->y != NULL);
    CHECK_OK(ls_backward(
        s->tape, ls_sum(s->tape, ls_mul(s->tape, s->y, s->weights)), 1));
}

static void close_side(side *s)
{
    ls_tape_free(&s->tape);
    ls_tensor_free(&s->x);
    ls_tensor_free(&s->residual);
    ls_tensor_free(&s->weights);
}

static uint64_t collectives(const ls_group *group)
{
    ls_group_counters counters;
    ls_group_get_counters(group, &counters);
    return counters.collectives;
}

static void compare(const char *what, const ls_tensor *got,
                    const ls_tensor *want, int64_t from, double bound)
{
    CHECK(got != NULL && want != NULL);
    const int64_t n = ls_tensor_count(got);
    const float *a = n > 0 ? tensor_data(got) : NULL;
    const float *b = tensor_data(want);
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)a[i] - (double)b[from + i]) <= bound)) {
            fprintf(stderr, "%s[%lld] is %.9g, should be %.9g\n", what,
                    (long long)i, (double)a[i], (double)b[from + i]);
            abort();
        }
}

/*
 * The layer of all ranks and that of one rank, in separate sets: the latter
 * cannot be cut into slices.
 */
typedef struct layers {
    ls_params *params, *alone;
    ls_sync_bn *all;
    ls_batch_norm_layer one;
} layers;

static void fill(ls_params *params)
{
    for (size_t p = 0; p < 2; p++) {
        float *data = tensor_data(ls_params_get(params, p));
        for (int c = 0; c < CHANNELS; c++)
            data[c] = p % 2 == 0 ? 0.5F + (float)(c % 3) * 0.25F
                                 : (float)(c % 5) * 0.125F - 0.25F;
    }
}

static layers make(ls_group *group, const options *o)
{
    layers l = {0};
    CHECK_OK(ls_params_new(&l.params));
    CHECK_OK(ls_params_set_slices(l.params, o->slices));
    CHECK_OK(ls_sync_bn_new(&l.all, group, l.params, "all", CHANNELS,
                            &(ls_sync_bn_options){.kind = o->kind,
                                                  .relu = o->relu,
                                                  .momentum = 0.1}));
    CHECK_OK(ls_params_new(&l.alone));
    CHECK_OK(ls_batch_norm_layer_init(&l.one, l.alone, "one", CHANNELS,
                                      LS_LAYER_DEFAULT));
    CHECK_OK(ls_params_allocate(l.params, NULL, 0));
    CHECK_OK(ls_params_allocate(l.alone, NULL, 0));
    fill(l.params);
    fill(l.alone);
    return l;
}

/*
 * Sums of up to 200 numbers of size 1, in f32 and in another order; the worst
 * is a gradient of weights, which is 200 terms of size 4.
 */
static const double small = 2e-5, large = 4e-4;

static void play(ls_group *group, void *opaque)
{
    const options *o = opaque;
    const int rank = ls_group_rank(group), size = ls_group_size(group);
    const int first = first_image(rank, size), n = images_of(rank, size);
    layers l = make(group, o);
    side mine = open_side(first, n);
    side all = open_side(0, first_image(size, size));
    uint64_t before = collectives(group);
    mine.y = ls_sync_bn_forward(l.all, mine.tape, mine.x,
                                o->adds ? residual_of(&mine) : NULL);
    CHECK(collectives(group) - before == 1);
    before = collectives(group);
    finish_side(&mine);
    CHECK(collectives(group) - before == 1);
    ls_batch_norm_args args = l.one.args;
    args.relu = o->relu;
    args.residual = o->adds ? residual_of(&all) : NULL;
    all.y = ls_batch_norm(all.tape, all.x, &args);
    finish_side(&all);
    compare("y", mine.y, all.y, first * IMAGE, small);
    compare("dx", ls_tape_grad(mine.tape, mine.x),
            ls_tape_grad(all.tape, all.x), first * IMAGE, small);
    if (o->adds)
        compare("dresidual", ls_tape_grad(mine.tape, mine.residual),
                ls_tape_grad(all.tape, all.residual), first * IMAGE, 0);
    for (size_t b = 0; b < 2; b++)
        compare("running", ls_params_buffer(l.params, b),
                ls_params_buffer(l.alone, b), 0, small);
    for (size_t p = 0; p < 2; p++) { /* of this rank's images: their sum */
        ls_tensor *grad = ls_grad(ls_params_get(l.params, p));
        float *sum = tensor_data(grad);
        if (o->slices > 1)
            lsi_params_fold(l.params, p);
        CHECK_OK(
            ls_all_reduce(group, sum, sum, CHANNELS, LS_F32, LS_REDUCE_SUM));
        compare("dparameter", grad, ls_grad(ls_params_get(l.alone, p)), 0,
                large);
    }
    close_side(&mine);
    close_side(&all);
    ls_sync_bn_free(&l.all);
    ls_params_free(&l.alone);
    ls_params_free(&l.params);
}

static void equal_to_the_whole_batch(void **state)
{
    static const int sizes[] = {1, 2, 3, 5};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(sizes); i++)
        for (int k = 0; k < 5; k++)
            run_threads(sizes[i], play,
                        &(options){.kind = k % 2 == 0 ? LS_SYNC_BN_FUSED
                                                      : LS_SYNC_BN_GATHERED,
                                   .slices = k == 4 ? 3 : 1,
                                   .relu = k >= 2,
                                   .adds = k != 0});
}

/* Evaluation is local, and the same as that of batch_norm. */
static void play_evaluation(ls_group *group, void *opaque)
{
    const options *o = opaque;
    layers l = make(group, o);
    side s = open_side(0, 3);
    ls_tape_set_training(s.tape, false);
    const uint64_t before = collectives(group);
    ls_tensor *y = ls_sync_bn_forward(l.all, s.tape, s.x, residual_of(&s));
    CHECK(collectives(group) == before);
    ls_batch_norm_args args = l.one.args;
    args.relu = true;
    args.residual = residual_of(&s);
    compare("y", y, ls_batch_norm(s.tape, s.x, &args), 0, 0);
    close_side(&s);
    ls_sync_bn_free(&l.all);
    ls_params_free(&l.alone);
    ls_params_free(&l.params);
}

static void evaluation_is_local(void **state)
{
    (void)state;
    run_threads(2, play_evaluation, &(options){.slices = 1, .relu = true});
}

/* A rank with images of another number of channels says so to the others. */
static void play_wrong(ls_group *group, void *opaque)
{
    layers l = make(group, opaque);
    side s = open_side(0, 2);
    ls_tensor *wrong;
    CHECK_OK(ls_tensor_zeros(&wrong, LS_F32, 3, (int64_t[]){2, 7, 3}));
    const bool first = ls_group_rank(group) == 0;
    CHECK(ls_sync_bn_forward(l.all, s.tape, first ? wrong : s.x, NULL) == NULL);
    CHECK(strstr(ls_last_error(), "(N, 19, ...)") != NULL);
    ls_tensor_free(&wrong);
    close_side(&s);
    ls_sync_bn_free(&l.all);
    ls_params_free(&l.alone);
    ls_params_free(&l.params);
}

static void wrong_channels_are_everybodys_error(void **state)
{
    (void)state;
    run_threads(2, play_wrong, &(options){.slices = 1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_to_the_whole_batch),
        cmocka_unit_test(evaluation_is_local),
        cmocka_unit_test(wrong_channels_are_everybodys_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
