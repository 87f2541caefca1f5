/*
 * Transformers: sizes, names, initial values, what is refused. Their
 * arithmetic: tests/parity; their files: test_transformer_file.c.
 */
#include <math.h>
#include <stdio.h>

#include "little.h"

enum { BATCH = 2, LENGTH = 5 };

static ls_transformer_config of_kind(ls_transformer_kind kind)
{
    ls_transformer_config config = little;
    config.kind = kind;
    return config;
}

/* ---- sizes --------------------------------------------------------------- */

static void sizes_are_exact(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        long long parameters;
        size_t tensors;
    } sizes[] = {{"small", 128625408, 111}, {"medium", 423183360, 219},
                 {"large", 969411840, 327}, {"xl", 1998235200, 435},
                 {"2.7B", 3406809600, 291}, {"3.4b", 3406809600, 291},
                 {"10B", 12832823808, 453}, {"12.8b", 12832823808, 453},
                 {"gpt2", 124439808, 148}};
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        ls_transformer_config config = LS_TRANSFORMER_CONFIG_INIT;
        ls_params *params = NULL;
        ls_transformer *model = NULL;
        assert_ok(ls_transformer_size(sizes[i].name, &config));
        config.context = config.kind == LS_TRANSFORMER_GPT2 ? 1024 : 16;
        assert_ok(ls_params_new(&params));
        assert_ok(ls_transformer_new(&model, params, &config));
        assert_true(ls_params_numel(params) == sizes[i].parameters);
        assert_int_equal(ls_params_count(params), sizes[i].tensors);
        ls_transformer_free(&model);
        ls_params_free(&params);
    }
}

static void expect_names(const network *net, const char *const *names, size_t n)
{
    assert_int_equal(ls_params_count(net->params), n);
    for (size_t i = 0; i < n; i++)
        assert_string_equal(ls_params_name(net->params, i), names[i]);
}

static void parameters_have_their_order(void **state)
{
    (void)state;
    static const char *const rope[] = {"token_embeddings.weight",
                                       "layers.0.attn.q_proj.weight",
                                       "layers.0.attn.k_proj.weight",
                                       "layers.0.attn.v_proj.weight",
                                       "layers.0.attn.output_proj.weight",
                                       "layers.0.ffn.w1.weight",
                                       "layers.0.ffn.w2.weight",
                                       "layers.0.ffn.w3.weight",
                                       "layers.0.ln1.weight",
                                       "layers.0.ln2.weight",
                                       "ln_final.weight",
                                       "lm_head.weight"};
    static const char *const gpt2[] = {"wte.weight",
                                       "wpe.weight",
                                       "h.0.ln_1.weight",
                                       "h.0.ln_1.bias",
                                       "h.0.attn.c_attn.weight",
                                       "h.0.attn.c_attn.bias",
                                       "h.0.attn.c_proj.weight",
                                       "h.0.attn.c_proj.bias",
                                       "h.0.ln_2.weight",
                                       "h.0.ln_2.bias",
                                       "h.0.mlp.c_fc.weight",
                                       "h.0.mlp.c_fc.bias",
                                       "h.0.mlp.c_proj.weight",
                                       "h.0.mlp.c_proj.bias",
                                       "ln_f.weight",
                                       "ln_f.bias"};
    ls_transformer_config config = of_kind(LS_TRANSFORMER_ROPE);
    config.layers = 1;
    network net = open_network(&config, 0);
    expect_names(&net, rope, TEST_COUNT(rope));
    close_network(&net);
    config.kind = LS_TRANSFORMER_GPT2;
    net = open_network(&config, 0);
    expect_names(&net, gpt2, TEST_COUNT(gpt2));
    close_network(&net);
}

/* ---- initial values ------------------------------------------------------ */

/*
 * A normal distribution cut at three deviations has 0.9866 of its deviation;
 * of n samples the mean square is within five of its deviations, sqrt(2 / n).
 */
static void expect_cut_normal(ls_tensor *tensor, double deviation)
{
    const float *x = tensor_data(tensor);
    const double n = (double)ls_tensor_count(tensor);
    const double cut = 0.97334;
    double squares = 0, sum = 0, most = 0;
    for (int64_t i = 0; i < ls_tensor_count(tensor); i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
        most = fmax(most, fabs((double)x[i]));
    }
    assert_true(most <= 3 * deviation * (1 + 0x1p-23));
    assert_true(most >= 2.5 * deviation);
    assert_true(fabs(sum / n) <= 5 * deviation / sqrt(n));
    assert_true(fabs(squares / n / (deviation * deviation) - cut) <=
                5 * sqrt(2 / n));
}

static void initial_values(void **state)
{
    (void)state;
    ls_transformer_config config = of_kind(LS_TRANSFORMER_ROPE);
    config.d_model = 64;
    config.d_ff = 96;
    config.vocabulary = 200;
    network net = open_network(&config, 1);
    for (size_t i = 0; i < ls_params_count(net.params); i++) {
        ls_tensor *p = ls_params_get(net.params, i);
        const int64_t *shape = ls_tensor_shape(p);
        if (i == 0)
            expect_cut_normal(p, 1.0);
        else if (ls_tensor_ndim(p) == 2)
            expect_cut_normal(p, sqrt(2.0 / (double)(shape[0] + shape[1])));
        else
            assert_true(((const float *)tensor_data(p))[63] == 1.0F);
    }
    close_network(&net);
}

/* Not cut, so that among thousands some are beyond three deviations. */
static void expect_normal(ls_tensor *tensor, double deviation)
{
    const float *x = tensor_data(tensor);
    const double n = (double)ls_tensor_count(tensor);
    double squares = 0, sum = 0, most = 0;
    for (int64_t i = 0; i < ls_tensor_count(tensor); i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
        most = fmax(most, fabs((double)x[i]));
    }
    assert_true(most > 3 * deviation);
    assert_true(fabs(sum / n) <= 5 * deviation / sqrt(n));
    assert_true(fabs(squares / n / (deviation * deviation) - 1) <=
                5 * sqrt(2 / n));
}

static void expect_all(ls_tensor *tensor, float value)
{
    for (int64_t i = 0; i < ls_tensor_count(tensor); i++)
        assert_true(((const float *)tensor_data(tensor))[i] == value);
}

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* Those that join the residual stream: 0.02 / sqrt(2 layers) is 0.005. */
static void initial_values_of_gpt2(void **state)
{
    (void)state;
    ls_transformer_config config = of_kind(LS_TRANSFORMER_GPT2);
    config.d_model = 64;
    config.d_ff = 96;
    config.context = 50;
    config.vocabulary = 200;
    config.layers = 8;
    int joining = 0;
    network net = open_network(&config, 1);
    for (size_t i = 0; i < ls_params_count(net.params); i++) {
        ls_tensor *p = ls_params_get(net.params, i);
        const char *name = ls_params_name(net.params, i);
        const bool joins = ends_with(name, ".c_proj.weight");
        joining += joins;
        if (ls_tensor_ndim(p) == 2)
            expect_normal(p, joins ? 0.005 : 0.02);
        else
            expect_all(p, ends_with(name, ".weight") ? 1.0F : 0.0F);
    }
    assert_int_equal(joining, 16);
    close_network(&net);
}

/* ---- forward ------------------------------------------------------------- */

/* Logits for tokens 0, 3, 6, ..., of which the last of a sequence can differ;
 * the caller frees them. */
static ls_tensor *logits_of(const network *net, int64_t last)
{
    ls_tape *tape = NULL;
    ls_tensor *tokens = NULL;
    assert_ok(
        ls_tensor_new(&tokens, LS_I64, 2, (const int64_t[]){BATCH, LENGTH}));
    int64_t *data = tensor_data(tokens);
    for (int i = 0; i < BATCH * LENGTH; i++)
        data[i] = i % LENGTH == LENGTH - 1 ? last : 3 * i % 11;
    assert_ok(ls_tape_new(&tape));
    ls_tensor *logits = ls_transformer_forward(net->model, tape, tokens);
    assert_ok(ls_tape_status(tape));
    ls_tensor_retain(logits);
    ls_tape_free(&tape);
    ls_tensor_free(&tokens);
    return logits;
}

static const float *row_of(ls_tensor *logits, int place)
{
    return (const float *)tensor_data(logits) + place * 11;
}

static void nothing_looks_ahead(void **state)
{
    (void)state;
    for (int kind = 0; kind < LS_TRANSFORMER_KIND_COUNT; kind++) {
        const ls_transformer_config config = of_kind((ls_transformer_kind)kind);
        network net = open_network(&config, 3);
        ls_tensor *a = logits_of(&net, 1), *b = logits_of(&net, 2);
        for (int place = 0; place < BATCH * LENGTH; place++) {
            const bool same = memcmp(row_of(a, place), row_of(b, place),
                                     11 * sizeof(float)) == 0;
            assert_true(same == (place % LENGTH != LENGTH - 1));
        }
        ls_tensor_free(&a);
        ls_tensor_free(&b);
        close_network(&net);
    }
}

/* Queries and keys change their places alike, so that scores stay. */
static void layouts_of_pairs_agree(void **state)
{
    (void)state;
    ls_transformer_config config = little;
    network net = open_network(&config, 3);
    config.rope_halves = true;
    config.attention = LS_ATTENTION_NAIVE;
    network other = open_network(&config, 3);
    ls_tensor *a = logits_of(&net, 1), *b = logits_of(&other, 1);
    for (int i = 0; i < BATCH * LENGTH * 11; i++) {
        const double x = (double)row_of(a, 0)[i], y = (double)row_of(b, 0)[i];
        assert_true(fabs(x - y) <= 256 * 0x1p-24 * (1 + fabs(x)));
    }
    ls_tensor_free(&a);
    ls_tensor_free(&b);
    close_network(&net);
    close_network(&other);
}

/* ---- what is refused ----------------------------------------------------- */

static void expect_refused(const ls_transformer_config *config,
                           const char *part)
{
    ls_params *params = NULL;
    ls_transformer *model = NULL;
    assert_ok(ls_params_new(&params));
    assert_error(ls_transformer_new(&model, params, config), LS_ERR_ARGUMENT,
                 part);
    assert_null(model);
    ls_params_free(&params);
}

static void configurations_are_checked(void **state)
{
    (void)state;
    ls_transformer_config config = little;
    assert_error(
        ls_transformer_size("huge", &config), LS_ERR_ARGUMENT,
        "unknown model size 'huge'; choose one of: tiny, small, medium");
    config.heads = 3;
    expect_refused(&config, "heads is 3; it must divide d_model, 8");
    config.heads = 8;
    expect_refused(&config, "a head has 1 elements");
    config = little;
    config.vocabulary = 0;
    expect_refused(&config, "vocabulary is 0");
    config = little;
    config.layers = 1 << 21;
    expect_refused(&config, "layers is 2097152");
    config = little;
    config.rope_theta = -1;
    expect_refused(&config, "rope_theta");
    config = little;
    config.norm_eps = -1e-5;
    expect_refused(&config, "norm_eps is -1e-05");
    config.norm_eps = NAN;
    expect_refused(&config, "norm_eps is nan");
    config = little;
    config.kind = (ls_transformer_kind)7;
    expect_refused(&config, "unknown kind 7");
}

static void expect_failure(const network *net, int64_t length, int64_t token,
                           ls_status status, const char *part)
{
    ls_tape *tape = NULL;
    ls_tensor *tokens = NULL;
    assert_ok(ls_tensor_new(&tokens, LS_I64, 2, (const int64_t[]){1, length}));
    assert_ok(ls_tensor_fill(tokens, (double)token));
    assert_ok(ls_tape_new(&tape));
    assert_null(ls_transformer_forward(net->model, tape, tokens));
    assert_error(ls_backward(tape, NULL, 1.0), status, part);
    ls_tape_free(&tape);
    ls_tensor_free(&tokens);
}

static void tokens_are_checked(void **state)
{
    (void)state;
    network net = open_network(&little, 0);
    expect_failure(&net, 7, 0, LS_ERR_SHAPE,
                   "tokens have shape (1, 7); expected (batch, length), where "
                   "length is at most the context, 6");
    expect_failure(&net, 6, 11, LS_ERR_ARGUMENT, "index 0 is 11");
    close_network(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_exact),
        cmocka_unit_test(parameters_have_their_order),
        cmocka_unit_test(initial_values),
        cmocka_unit_test(initial_values_of_gpt2),
        cmocka_unit_test(nothing_looks_ahead),
        cmocka_unit_test(layouts_of_pairs_agree),
        cmocka_unit_test(configurations_are_checked),
        cmocka_unit_test(tokens_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
