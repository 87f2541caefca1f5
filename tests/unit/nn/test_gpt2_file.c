/*
 * Files with the names and layouts of published GPT-2 weights: matrices of
 * products are (in, out), masks lie among the parameters, and the names may all
 * begin with "transformer.". The logits are compared with loops in double
 * precision over what was written.
 */
#include <math.h>
#include <stdio.h>

#include "unit/nn/gpt2_model.h"

static const form usual = {8, 2, 1e-5, false};

/* ---- ours ---------------------------------------------------------------- */

typedef struct network {
    ls_params *params;
    ls_transformer *model;
} network;

static network open_network(form f)
{
    const ls_transformer_config config = {.kind = LS_TRANSFORMER_GPT2,
                                          .vocabulary = VOCABULARY,
                                          .context = CONTEXT,
                                          .d_model = f.d,
                                          .d_ff = 4 * f.d,
                                          .layers = LAYERS,
                                          .heads = f.heads,
                                          .norm_eps = f.eps,
                                          .untied_head = f.untied};
    network net = {0};
    assert_ok(ls_params_new(&net.params));
    assert_ok(ls_transformer_new(&net.model, net.params, &config));
    assert_ok(ls_params_allocate(net.params, NULL, 0));
    return net;
}

static void close_network(network *net)
{
    ls_transformer_free(&net->model);
    ls_params_free(&net->params);
}

/*
 * A logit comes out of about ten sums in a row, of 4 d terms at most. A norm
 * then divides each by a deviation of at least a quarter: 8 sqrt(10 4 d) units
 * of the last place, times four.
 */
static void expect_logits(const network *net, const double *wanted)
{
    const double terms =
        10.0 * 4 * (double)ls_transformer_get_config(net->model)->d_model;
    ls_tape *tape = NULL;
    ls_tensor *tokens = NULL;
    assert_ok(ls_tensor_new(&tokens, LS_I64, 2, (const int64_t[]){1, LENGTH}));
    for (int t = 0; t < LENGTH; t++)
        ((int64_t *)tensor_data(tokens))[t] = token_at(t);
    assert_ok(ls_tape_new(&tape));
    ls_tensor *logits = ls_transformer_forward(net->model, tape, tokens);
    assert_ok(ls_tape_status(tape));
    const float *got = tensor_data(logits);
    double largest = 0;
    for (int i = 0; i < LENGTH * VOCABULARY; i++)
        largest = fmax(largest, fabs(wanted[i]));
    const double bound = 4 * 8 * sqrt(terms) * 0x1p-24 * largest;
    for (int i = 0; i < LENGTH * VOCABULARY; i++)
        if (fabs((double)got[i] - wanted[i]) > bound)
            fail_msg("logit %d is %.9g, not %.9g", i, (double)got[i],
                     wanted[i]);
    ls_tape_free(&tape);
    ls_tensor_free(&tokens);
}

/* ---- tests --------------------------------------------------------------- */

static const char *const prefixes[] = {"", "transformer."};

static void expect_loaded(const published *p, const double *wanted)
{
    network net = open_network(p->form);
    published_save(p);
    assert_ok(ls_transformer_load(net.model, p->path));
    expect_logits(&net, wanted);
    close_network(&net);
}

/* Heads of 4 and of 32, an eps that has an effect, a separate head. */
static void logits_are_those_of_the_file(void **state)
{
    (void)state;
    static const form forms[] = {{8, 2, 1e-5, false},
                                 {96, 3, 1e-5, false},
                                 {8, 2, 0.01, false},
                                 {8, 2, 1e-5, true},
                                 {96, 3, 1e-3, true}};
    for (size_t i = 0; i < 2 * TEST_COUNT(forms); i++) {
        published p;
        double wanted[LENGTH * VOCABULARY];
        published_make(&p, prefixes[i % 2], forms[i / 2]);
        published_logits(&p, wanted);
        expect_loaded(&p, wanted);
        published_discard(&p);
    }
}

/* A model of another form computes different logits. */
static void a_form_makes_a_difference(void **state)
{
    (void)state;
    const form forms[] = {{96, 3, 1e-3, true},
                          {96, 2, 1e-3, true},
                          {96, 3, 1e-5, true},
                          {96, 3, 1e-3, false}};
    double first[LENGTH * VOCABULARY], other[LENGTH * VOCABULARY];
    for (size_t i = 0; i < TEST_COUNT(forms); i++) {
        published p;
        double most = 0;
        published_make(&p, "", forms[i]);
        published_logits(&p, i == 0 ? first : other);
        for (int k = 0; k < LENGTH * VOCABULARY && i > 0; k++)
            most = fmax(most, fabs(other[k] - first[k]));
        assert_true(i == 0 || most > 1e-3);
        published_discard(&p);
    }
}

static void convert(ls_tensor **tensor, ls_dtype dtype)
{
    ls_tensor *converted = NULL;
    assert_ok(ls_tensor_new(&converted, dtype, ls_tensor_ndim(*tensor),
                            ls_tensor_shape(*tensor)));
    assert_ok(ls_tensor_copy(converted, *tensor));
    ls_tensor_free(tensor);
    *tensor = converted;
}

/* The reference is the model of the rounded weights. */
static void half_types_are_widened(void **state)
{
    (void)state;
    static const ls_dtype types[] = {LS_BF16, LS_F16};
    for (size_t i = 0; i < TEST_COUNT(types); i++) {
        published p;
        double exact[LENGTH * VOCABULARY], wanted[LENGTH * VOCABULARY];
        published_make(&p, prefixes[i], usual);
        published_logits(&p, exact);
        for (size_t k = 0; k < p.n; k++)
            convert(&p.items[k].tensor, types[i]);
        published_save(&p);
        network net = open_network(usual);
        assert_ok(ls_transformer_load(net.model, p.path));
        for (size_t k = 0; k < p.n; k++)
            convert(&p.items[k].tensor, LS_F32);
        published_logits(&p, wanted);
        assert_true(memcmp(exact, wanted, sizeof exact) != 0);
        expect_logits(&net, wanted);
        close_network(&net);
        published_discard(&p);
    }
}

/* (out, in): as the parameters lie in memory, and as a checkpoint has them. */
static void matrices_may_be_turned(void **state)
{
    (void)state;
    published p;
    double wanted[LENGTH * VOCABULARY];
    published_make(&p, "", usual);
    published_logits(&p, wanted);
    for (size_t i = 0; i < p.n; i++) {
        ls_tensor **tensor = &p.items[i].tensor, *turned = NULL;
        if (p.names[i][0] != 'h' || ls_tensor_ndim(*tensor) != 2)
            continue;
        assert_ok(ls_tensor_transpose(*tensor, 0, 1, &turned));
        ls_tensor_free(tensor);
        *tensor = turned;
    }
    expect_loaded(&p, wanted);
    published_discard(&p);
}

/* The error has `before`, the name as the file would have it, and `after`. */
static void expect_refused(const published *p, ls_status status,
                           const char *before, const char *name,
                           const char *after)
{
    char part[160];
    network net = open_network(p->form);
    snprintf(part, sizeof part, "%s '%s%s'%s", before, p->prefix, name, after);
    published_save(p);
    assert_error(ls_transformer_load(net.model, p->path), status, part);
    close_network(&net);
}

/* The matrix as torch.nn.Linear would have it. */
static void first_mismatch_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(prefixes); i++) {
        published p;
        published_make(&p, prefixes[i], usual);
        ls_named_tensor *fc = published_find(&p, "h.1.mlp.c_fc.weight");
        ls_tensor_free(&fc->tensor);
        assert_ok(
            ls_tensor_new(&fc->tensor, LS_F32, 2, (const int64_t[]){32, 8}));
        assert_ok(ls_tensor_fill(fc->tensor, 0.0));
        expect_refused(&p, LS_ERR_SHAPE, "tensor", "h.1.mlp.c_fc.weight",
                       " has shape (32, 8), expected (8, 32)");
        published_find(&p, "h.0.ln_2.bias")->name = "other";
        expect_refused(&p, LS_ERR_FORMAT, "has no tensor", "h.0.ln_2.bias", "");
        published_discard(&p);
    }
}

/* The head differs in its last element, or is not there. */
static void heads_are_compared(void **state)
{
    (void)state;
    form untied = usual;
    untied.untied = true;
    for (size_t i = 0; i < TEST_COUNT(prefixes); i++) {
        published p;
        published_make(&p, prefixes[i], usual);
        ((float *)tensor_data(p.items[p.n - 1].tensor))[13 * 8 - 1] += 1;
        published_save(&p);
        network net = open_network(usual);
        assert_error(ls_transformer_load(net.model, p.path), LS_ERR_FORMAT,
                     "has a separate output head (lm_head.weight differs from "
                     "wte.weight");
        close_network(&net);
        ls_tensor_free(&p.items[--p.n].tensor);
        published_save(&p);
        net = open_network(untied);
        assert_error(ls_transformer_load(net.model, p.path), LS_ERR_FORMAT,
                     "has no tensor 'lm_head.weight'");
        close_network(&net);
        net = open_network(usual);
        assert_ok(ls_transformer_load(net.model, p.path));
        close_network(&net);
        published_discard(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_the_file),
        cmocka_unit_test(a_form_makes_a_difference),
        cmocka_unit_test(heads_are_compared),
        cmocka_unit_test(half_types_are_widened),
        cmocka_unit_test(matrices_may_be_turned),
        cmocka_unit_test(first_mismatch_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
