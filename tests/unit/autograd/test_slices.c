/*
 * Slices of a batch: with whole numbers, whose sums are exact, each slice's
 * buffer holds what its rows alone give, and folding gives the gradient of the
 * batch.
 */
#include "flat.h"
#include "testing.h"

#include <stdlib.h>

#include "base/bits.h"
#include "base/partition.h"
#include "model/autograd/params.h"
#include "model/autograd/tape.h"

enum { BATCH = 7, ROWS = 2, IN = 5, OUT = 3, SIDE = 6, CHANNELS = 3 };

/* A layer with a weight and a bias, and what goes in. */
typedef struct layer {
    ls_params *params;
    ls_tensor *weight, *bias, *x;
    ls_tape *tape;
    bool conv;
} layer;

static void fill(ls_tensor *tensor, int seed)
{
    float *const data = tensor_data(tensor);
    for (int64_t i = 0; i < ls_tensor_count(tensor); i++)
        data[i] = (float)((i * 7 + seed) % 5 - 2);
}

/* Of the batch's rows begin..end-1. */
static layer make(bool conv, int slices, int64_t begin, int64_t end)
{
    const int64_t images[4] = {BATCH, CHANNELS, SIDE, SIDE};
    const int64_t filters[4] = {16, CHANNELS, 3, 3};
    const int64_t rows[3] = {BATCH, ROWS, IN}, matrix[2] = {OUT, IN};
    const ls_init zero = {LS_INIT_CONSTANT, 0, 0};
    layer l = {.conv = conv};
    ls_tensor *all = NULL;
    assert_ok(ls_params_new(&l.params));
    assert_ok(ls_params_set_slices(l.params, slices));
    assert_ok(ls_params_add(l.params, "weight", conv ? 4 : 2,
                            conv ? filters : matrix, zero, &l.weight));
    assert_ok(ls_params_add(l.params, "bias", 1, conv ? filters : matrix, zero,
                            &l.bias));
    assert_ok(ls_params_allocate(l.params, NULL, 0));
    assert_ok(ls_tape_new(&l.tape));
    assert_ok(ls_tensor_new(&all, LS_F32, conv ? 4 : 3, conv ? images : rows));
    fill(all, 3);
    fill(l.weight, 1);
    fill(l.bias, 2);
    assert_ok(ls_tensor_narrow(all, 0, begin, end, &l.x));
    ls_tensor_free(&all);
    return l;
}

static void destroy(layer *l)
{
    ls_tape_free(&l->tape);
    ls_tensor_free(&l->x);
    ls_params_free(&l->params);
}

/* loss = sum of y^2 / 2, so that the gradient depends on the row. */
static ls_tensor *step(const layer *l)
{
    ls_tape_reset(l->tape);
    assert_ok(ls_tape_watch(l->tape, l->x));
    ls_tensor *const y = l->conv ? ls_conv2d(l->tape, l->x, l->weight, l->bias,
                                             &(ls_conv2d_options){.stride = 2})
                                 : ls_linear(l->tape, l->x, l->weight, l->bias);
    ls_tensor *const sum = ls_sum(l->tape, ls_mul(l->tape, y, y));
    assert_ok(ls_backward(l->tape, ls_scale(l->tape, sum, 0.5), 1));
    return ls_tape_grad(l->tape, l->x);
}

static void assert_same(const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (a[i] != b[i])
            fail_msg("%g is not %g, at %lld", (double)a[i], (double)b[i],
                     (long long)i);
}

static float *slice_of(ls_tensor *tensor, int slice)
{
    bool accumulate;
    float *const data = lsi_param_slice(tensor->param, slice, &accumulate);
    assert_true(accumulate);
    return data;
}

/* Two micro-steps of the batch in slices, and of each slice's rows alone. */
static void check_slices(bool conv, int slices)
{
    layer whole = make(conv, slices, 0, BATCH);
    const float *dx = tensor_data(step(&whole));
    for (int j = 0; j < slices; j++) {
        const lsi_range rows = lsi_partition(BATCH, (size_t)slices, (size_t)j);
        if (lsi_range_size(rows) == 0)
            continue;
        layer alone = make(conv, 1, (int64_t)rows.begin, (int64_t)rows.end);
        const ls_tensor *const alone_dx = step(&alone);
        assert_same(slice_of(whole.weight, j),
                    tensor_data(ls_grad(alone.weight)),
                    ls_tensor_count(alone.weight));
        assert_same(slice_of(whole.bias, j), tensor_data(ls_grad(alone.bias)),
                    ls_tensor_count(alone.bias));
        assert_same(dx, tensor_data(alone_dx), ls_tensor_count(alone_dx));
        dx += ls_tensor_count(alone_dx);
        destroy(&alone);
    }
    layer unsliced = make(conv, 1, 0, BATCH);
    step(&unsliced);
    for (int again = 0; again < 2; again++) {
        step(&whole);
        step(&unsliced);
    }
    ls_params_finish_grad(whole.params);
    assert_same(tensor_data(ls_grad(whole.weight)),
                tensor_data(ls_grad(unsliced.weight)),
                ls_tensor_count(whole.weight));
    assert_same(tensor_data(ls_grad(whole.bias)),
                tensor_data(ls_grad(unsliced.bias)),
                ls_tensor_count(whole.bias));
    destroy(&whole);
    destroy(&unsliced);
}

static void slices_of_linear(void **state)
{
    (void)state;
    for (int slices = 1; slices <= 9; slices++)
        check_slices(false, slices);
}

static void slices_of_conv2d(void **state)
{
    (void)state;
    for (int slices = 1; slices <= 9; slices++)
        check_slices(true, slices);
}

/* Then layers compute y and dx of all slices at once. */
static void portable_slices(void **state)
{
    assert_ok(ls_set_bits(LS_BITS_PORTABLE));
    slices_of_linear(state);
    slices_of_conv2d(state);
    assert_ok(ls_set_bits(LS_BITS_FAST));
}

/* ---- samples ------------------------------------------------------------- */

enum { SAMPLES = 8, LENGTH = 3, WIDTH = 16, WORDS = 11 };

/*
 * A model of sequences with tied words, both norms, a linear layer and dropout.
 * Positions are a table, and a parameter that all samples repeat.
 */
typedef struct text_model {
    ls_params *params;
    ls_tensor *words, *positions, *shift, *token, *gain, *scale, *bias, *weight;
    ls_tape *tape;
    ls_tensor *tokens, *places, *labels;
} text_model;

static ls_tensor *add_param(ls_params *params, const char *name, int ndim,
                            const int64_t *shape)
{
    ls_tensor *out = NULL;
    const ls_init init = {LS_INIT_NORMAL, 0, 0.5};
    assert_ok(ls_params_add(params, name, ndim, shape, init, &out));
    return out;
}

static text_model make_text(int slices)
{
    text_model m = {0};
    const int64_t words[] = {WORDS, WIDTH}, positions[] = {LENGTH, WIDTH};
    const int64_t token[] = {1, 1, WIDTH}, width = WIDTH;
    const int64_t square[] = {WIDTH, WIDTH};
    assert_ok(ls_params_new(&m.params));
    assert_ok(ls_params_set_slices(m.params, slices));
    m.words = add_param(m.params, "words", 2, words);
    m.positions = add_param(m.params, "positions", 2, positions);
    m.shift = add_param(m.params, "shift", 2, positions);
    m.token = add_param(m.params, "token", 3, token);
    m.gain = add_param(m.params, "gain", 1, &width);
    m.scale = add_param(m.params, "scale", 1, &width);
    m.bias = add_param(m.params, "bias", 1, &width);
    m.weight = add_param(m.params, "weight", 2, square);
    assert_ok(ls_params_allocate(m.params, NULL, 7));
    assert_ok(ls_tape_new(&m.tape));
    return m;
}

static void free_text(text_model *m)
{
    ls_tape_free(&m->tape);
    ls_params_free(&m->params);
}

/* The samples' tokens follow from their numbers. */
static void read_samples(text_model *m, const ls_tape_samples *s)
{
    const int64_t shape[] = {s->count, LENGTH}, rows = s->count * (LENGTH + 1);
    assert_ok(ls_tensor_new(&m->tokens, LS_I64, 2, shape));
    assert_ok(ls_tensor_new(&m->places, LS_I64, 2, shape));
    assert_ok(ls_tensor_new(&m->labels, LS_I64, 1, &rows));
    int64_t *tokens = tensor_data(m->tokens), *places = tensor_data(m->places);
    int64_t *labels = tensor_data(m->labels);
    for (int64_t i = 0; i < s->count * LENGTH; i++) {
        const int64_t sample = ls_tape_sample(s, i / LENGTH);
        tokens[i] = (sample * 5 + i % LENGTH) % WORDS;
        places[i] = i % LENGTH;
    }
    for (int64_t i = 0; i < rows; i++)
        labels[i] =
            (ls_tape_sample(s, i / (LENGTH + 1)) + i % (LENGTH + 1)) % WORDS;
}

/* The inner function of the recomputed part. */
static ls_tensor *inner(void *context, ls_tape *tape, ls_tensor *const *inputs)
{
    const text_model *const m = context;
    ls_tensor *x = ls_layer_norm(tape, inputs[0], m->scale, m->bias, 1e-5);
    return ls_dropout(tape, ls_linear(tape, x, m->weight, m->bias), 0.3);
}

static ls_tensor *text_loss(text_model *m, int64_t n)
{
    ls_tape *const tape = m->tape;
    const int64_t one[] = {n, 1, WIDTH}, flat[] = {n * (LENGTH + 1), WIDTH};
    ls_tensor *x = ls_add(tape, ls_embedding(tape, m->words, m->tokens),
                          ls_embedding(tape, m->positions, m->places));
    x = ls_mul(tape, ls_add(tape, x, m->shift), m->gain);
    x = ls_concat(tape, (ls_tensor *[]){ls_expand(tape, m->token, 3, one), x},
                  2, 1);
    x = ls_div(tape, ls_dropout(tape, x, 0.25), ls_scalar(tape, 2));
    x = ls_recompute(tape, inner, m, &x, 1);
    x = ls_rms_norm(tape, x, m->gain, 1e-5);
    x = ls_linear(tape, ls_reshape(tape, x, 2, flat), m->words, NULL);
    return ls_cross_entropy(tape, x, m->labels, NULL);
}

/*
 * Two micro-steps of what the ranks with places 0..ranks-1 do, each with its
 * slices; sums[slice of all] and losses of all slices.
 */
static float *run_text(int ranks, int slices, int64_t *count, double *losses)
{
    float *all = NULL;
    for (int place = 0; place < ranks; place++) {
        text_model m = make_text(slices / ranks);
        const ls_tape_samples s = {.count = SAMPLES / ranks,
                                   .place = place,
                                   .places = ranks,
                                   .slices = slices / ranks};
        double own[LSI_MAX_SLICES] = {0};
        assert_ok(ls_tape_set_samples(m.tape, &s));
        ls_tape_set_random(m.tape, 3, 100 + (uint64_t)place, 0);
        for (int micro = 0; micro < 2; micro++) {
            read_samples(&m, &s);
            ls_tensor *const loss = text_loss(&m, s.count);
            const double rows = (double)(s.count * (LENGTH + 1));
            assert_ok(ls_backward(m.tape, loss, rows));
            assert_ok(lsi_tape_add_loss(m.tape, loss, rows, own));
            ls_tape_reset(m.tape);
            ls_tensor_free(&m.tokens);
            ls_tensor_free(&m.places);
            ls_tensor_free(&m.labels);
        }
        size_t n = 0;
        ls_params_flat_grad(m.params, &n);
        *count = (int64_t)n;
        if (all == NULL)
            all = calloc((size_t)slices * n, sizeof(float));
        for (size_t p = 0; p < ls_params_count(m.params); p++) {
            ls_tensor *const param = ls_params_get(m.params, p);
            for (int j = 0; j < s.slices; j++)
                memcpy(all + (size_t)(place + ranks * j) * n +
                           ls_params_offset(m.params, p),
                       slice_of(param, j),
                       (size_t)ls_tensor_count(param) * sizeof(float));
        }
        for (int j = 0; j < s.slices; j++)
            losses[place + ranks * j] = own[j];
        free_text(&m);
    }
    return all;
}

/* A slice has the same gradient, mask and loss on any rank of any number. */
static void slices_do_not_depend_on_ranks(void **state)
{
    (void)state;
    for (int slices = 4; slices <= SAMPLES; slices *= 2) {
        int64_t n = 0;
        double losses[LSI_MAX_SLICES];
        float *const most = run_text(slices, slices, &n, losses);
        for (int ranks = 1; ranks < slices; ranks *= 2) {
            double others[LSI_MAX_SLICES];
            float *const fewer = run_text(ranks, slices, &n, others);
            assert_memory_equal(fewer, most,
                                (size_t)(slices * n) * sizeof(float));
            assert_memory_equal(others, losses,
                                (size_t)slices * sizeof(double));
            free(fewer);
        }
        free(most);
    }
}

/* Then linear layers compute all slices at once. */
static void portable_slices_do_not_depend_on_ranks(void **state)
{
    assert_ok(ls_set_bits(LS_BITS_PORTABLE));
    slices_do_not_depend_on_ranks(state);
    assert_ok(ls_set_bits(LS_BITS_FAST));
}

/* 7 samples of place 1 of 3, in 3 slices: 0, 3, 6; 1, 4; 2, 5. */
static void samples_have_numbers(void **state)
{
    static const int64_t order[] = {0, 3, 6, 1, 4, 2, 5};
    const ls_tape_samples s = {
        .count = 7, .place = 1, .places = 3, .slices = 3};
    (void)state;
    for (int i = 0; i < 7; i++)
        assert_int_equal(ls_tape_sample(&s, i), 1 + 3 * order[i]);
    assert_int_equal(ls_tape_sample(&s, 7), -1);
    assert_int_equal(ls_tape_sample(&s, -1), -1);
    assert_int_equal(ls_tape_sample(&(ls_tape_samples){.count = 3}, 2), 2);
}

/* Masks differ between samples and follow them to other positions. */
static void masks_follow_samples(void **state)
{
    enum { EACH = 64 };
    const int64_t shape[] = {SAMPLES, EACH};
    ls_tape *tape;
    ls_tensor *x;
    (void)state;
    assert_ok(ls_tape_new(&tape));
    assert_ok(ls_tensor_new(&x, LS_F32, 2, shape));
    for (int64_t i = 0; i < (int64_t)SAMPLES * EACH; i++)
        ((float *)tensor_data(x))[i] = 1;
    float masks[2][SAMPLES][EACH];
    for (int turned = 0; turned < 2; turned++) {
        const ls_tape_samples s = {.count = SAMPLES, .slices = turned ? 4 : 1};
        assert_ok(ls_tape_set_samples(tape, &s));
        ls_tape_set_random(tape, 9, 5, 2);
        const float *const y = tensor_data(ls_dropout(tape, x, 0.5));
        for (int64_t i = 0; i < SAMPLES; i++)
            memcpy(masks[turned][ls_tape_sample(&s, i)], y + i * EACH,
                   sizeof(masks[0][0]));
        ls_tape_reset(tape);
    }
    assert_memory_equal(masks[0], masks[1], sizeof(masks[0]));
    for (int i = 1; i < SAMPLES; i++)
        assert_memory_not_equal(masks[0][i], masks[0][i - 1],
                                sizeof(masks[0][0]));
    ls_tensor_free(&x);
    ls_tape_free(&tape);
}

/* ---- refusals ------------------------------------------------------------ */

typedef ls_tensor *(*operation)(const text_model *m, ls_tensor *x);

static ls_tensor *multiply(const text_model *m, ls_tensor *x)
{
    return ls_matmul(m->tape, x, m->weight);
}

static ls_tensor *view(const text_model *m, ls_tensor *x)
{
    return ls_linear(m->tape, x, ls_transpose(m->tape, m->weight, 0, 1), NULL);
}

static ls_tensor *derived(const text_model *m, ls_tensor *x)
{
    ls_tensor *const w = ls_tape_output(m->tape, LS_F32, 2, m->weight->shape);
    assert_ok(ls_tape_watch(m->tape, w));
    return ls_linear(m->tape, x, w, NULL);
}

static ls_tensor *repeated(const text_model *m, ls_tensor *x)
{
    const int64_t shape[] = {1, WIDTH};
    ls_tensor *const row = ls_tape_output(m->tape, LS_F32, 2, shape);
    assert_ok(ls_tape_watch(m->tape, row));
    return ls_add(m->tape, x, row);
}

static ls_tensor *odd_rows(const text_model *m, ls_tensor *x)
{
    return ls_linear(m->tape, ls_narrow(m->tape, x, 0, 0, 3), m->weight, NULL);
}

static ls_tensor *odd_dropout(const text_model *m, ls_tensor *x)
{
    return ls_dropout(m->tape, ls_narrow(m->tape, x, 0, 0, 3), 0.5);
}

/* Silence would give bits that depend on the number of ranks. */
static void operations_without_slices_are_refused(void **state)
{
    static const struct refusal {
        operation op;
        ls_status status;
        const char *words;
    } refusals[] = {
        {multiply, LS_ERR_UNSUPPORTED,
         "matmul cannot cut the gradient of 'weight' into 2 slices"},
        {view, LS_ERR_UNSUPPORTED,
         "linear sums a gradient over the samples of 2 slices"},
        {derived, LS_ERR_UNSUPPORTED, "not a parameter"},
        {repeated, LS_ERR_UNSUPPORTED, "add sums a gradient"},
        {odd_rows, LS_ERR_SHAPE, "3 rows; it must be a multiple of the 4"},
        {odd_dropout, LS_ERR_SHAPE, "dropout: the first dimension has 3 rows"},
    };
    const ls_tape_samples samples = {.count = 4, .slices = 2};
    const int64_t shape[] = {4, WIDTH};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(refusals); i++) {
        text_model m = make_text(2);
        ls_tensor *x = NULL;
        assert_ok(ls_tensor_new(&x, LS_F32, 2, shape));
        memset(tensor_data(x), 0, 4 * WIDTH * sizeof(float));
        assert_ok(ls_tape_set_samples(m.tape, &samples));
        ls_tensor *const y = refusals[i].op(&m, x);
        assert_error(ls_backward(m.tape, ls_sum(m.tape, y), 1),
                     refusals[i].status, refusals[i].words);
        ls_tensor_free(&x);
        free_text(&m);
    }
}

static void bad_samples_are_errors(void **state)
{
    static const ls_tape_samples bad[] = {{.count = -1},
                                          {.place = 2, .places = 2},
                                          {.place = -1, .places = 2},
                                          {.slices = -1},
                                          {.slices = LSI_MAX_SLICES + 1}};
    text_model m = make_text(2);
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(bad); i++)
        assert_error(ls_tape_set_samples(m.tape, &bad[i]), LS_ERR_ARGUMENT,
                     "ls_tape_set_samples");
    const ls_tape_samples other = {.count = 1, .slices = 4};
    assert_ok(ls_tape_set_samples(m.tape, &other));
    read_samples(&m, &other);
    assert_null(ls_embedding(m.tape, m.words, m.tokens));
    assert_error(ls_tape_status(m.tape), LS_ERR_ARGUMENT,
                 "has 4 slices, but ls_params_set_slices of 'words' has 2");
    ls_tensor_free(&m.tokens);
    ls_tensor_free(&m.places);
    ls_tensor_free(&m.labels);
    free_text(&m);
}

/* ---- folding ------------------------------------------------------------- */

/* 1 + 2^-24 is 1: that 2^-24 + 2^-24 come first shows. */
static void slices_fold_as_ranks_do(void **state)
{
    static const float parts[4] = {1.0F, 0x1p-24F, -1.0F, 0x1p-24F};
    const int64_t n = 1;
    const ls_init zero = {LS_INIT_CONSTANT, 0, 0};
    ls_params *params = NULL;
    ls_tensor *p = NULL;
    bool accumulate;
    (void)state;
    assert_ok(ls_params_new(&params));
    assert_ok(ls_params_set_slices(params, 4));
    assert_ok(ls_params_add(params, "p", 1, &n, zero, &p));
    assert_ok(ls_params_allocate(params, NULL, 0));
    for (int j = 0; j < 4; j++) {
        *lsi_param_slice(p->param, j, &accumulate) = parts[j];
        assert_false(accumulate);
    }
    lsi_params_fold(params, 0);
    assert_true(*(float *)tensor_data(ls_grad(p)) == 0x1p-23F);
    lsi_params_fold(params, 0); /* done already */
    assert_true(*(float *)tensor_data(ls_grad(p)) == 0x1p-23F);

    ls_params_zero_grad(params); /* what nobody has written is zero */
    *lsi_param_slice(p->param, 3, &accumulate) = 5;
    assert_false(accumulate);
    ls_params_finish_grad(params);
    assert_true(*(float *)tensor_data(ls_grad(p)) == 5);
    ls_params_free(&params);
}

static void bad_numbers_of_slices_are_errors(void **state)
{
    ls_params *params = NULL;
    (void)state;
    assert_ok(ls_params_new(&params));
    assert_error(ls_params_set_slices(params, 0), LS_ERR_ARGUMENT, "1 to 64");
    assert_error(ls_params_set_slices(params, LSI_MAX_SLICES + 1),
                 LS_ERR_ARGUMENT, "1 to 64");
    assert_ok(ls_params_allocate(params, NULL, 0));
    assert_error(ls_params_set_slices(params, 2), LS_ERR_STATE, "before");
    ls_params_free(&params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_of_linear),
        cmocka_unit_test(slices_of_conv2d),
        cmocka_unit_test(portable_slices),
        cmocka_unit_test(slices_do_not_depend_on_ranks),
        cmocka_unit_test(portable_slices_do_not_depend_on_ranks),
        cmocka_unit_test(samples_have_numbers),
        cmocka_unit_test(masks_follow_samples),
        cmocka_unit_test(operations_without_slices_are_refused),
        cmocka_unit_test(bad_samples_are_errors),
        cmocka_unit_test(slices_fold_as_ranks_do),
        cmocka_unit_test(bad_numbers_of_slices_are_errors),
    };
    return cmocka_run_group_tests_name("slices", tests, NULL, NULL);
}
