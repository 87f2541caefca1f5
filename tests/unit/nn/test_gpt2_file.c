/*
 * Files with the names and layouts of published GPT-2 weights: matrices of
 * products are (in, out), masks lie among the parameters, and the names may all
 * begin with "transformer.". The logits are compared with loops in double
 * precision over what was written.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lockstep/transformer.h"
#include "testing.h"

enum {
    VOCABULARY = 13,
    CONTEXT = 7,
    LENGTH = 6,
    D = 8,
    FF = 4 * D,
    LAYERS = 2,
    HEADS = 2,
    PER_LAYER = 14,
    MAX_TENSORS = 5 + PER_LAYER * LAYERS,
    NAME_BYTES = 64,
};

/* ---- the file ------------------------------------------------------------ */

/* All that a file holds. */
typedef struct published {
    char names[MAX_TENSORS][NAME_BYTES];
    ls_named_tensor items[MAX_TENSORS];
    size_t n;
    const char *prefix;
    char path[64];
} published;

typedef struct row {
    const char *name;
    int ndim;
    int64_t shape[4];
} row;

static const row whole[] = {
    {"wte.weight", 2, {VOCABULARY, D}},
    {"wpe.weight", 2, {CONTEXT, D}},
    {"ln_f.weight", 1, {D}},
    {"ln_f.bias", 1, {D}},
    {"lm_head.weight", 2, {VOCABULARY, D}}, /* a copy of wte; has no prefix */
};

static const row layer[PER_LAYER] = {
    {"ln_1.weight", 1, {D}},
    {"ln_1.bias", 1, {D}},
    {"attn.bias", 4, {1, 1, CONTEXT, CONTEXT}}, /* masks */
    {"attn.masked_bias", 0, {0}},
    {"attn.c_attn.weight", 2, {D, 3 * D}},
    {"attn.c_attn.bias", 1, {3 * D}},
    {"attn.c_proj.weight", 2, {D, D}},
    {"attn.c_proj.bias", 1, {D}},
    {"ln_2.weight", 1, {D}},
    {"ln_2.bias", 1, {D}},
    {"mlp.c_fc.weight", 2, {D, FF}},
    {"mlp.c_fc.bias", 1, {FF}},
    {"mlp.c_proj.weight", 2, {FF, D}},
    {"mlp.c_proj.bias", 1, {D}},
};

/* Different everywhere, between -1/2 and 1/2. */
static void fill(ls_tensor *tensor, uint32_t seed)
{
    float *x = ls_tensor_data(tensor);
    uint32_t state = seed * 2654435761U + 1U;
    for (int64_t i = 0; i < ls_tensor_count(tensor); i++) {
        state = state * 1664525U + 1013904223U;
        x[i] = (float)(state >> 8) * 0x1p-24F - 0.5F;
    }
}

static void add(published *p, const char *before, const row *r)
{
    ls_named_tensor *item = &p->items[p->n];
    snprintf(p->names[p->n], NAME_BYTES, "%s%s%s",
             strncmp(r->name, "lm_head", 7) == 0 ? "" : p->prefix, before,
             r->name);
    item->name = p->names[p->n];
    assert_ok(ls_tensor_new(&item->tensor, LS_F32, r->ndim, r->shape));
    fill(item->tensor, (uint32_t)p->n);
    p->n++;
}

static void make(published *p, const char *prefix)
{
    *p =
        (published){.prefix = prefix, .path = "/tmp/lockstep-gpt2-file-XXXXXX"};
    const int fd = mkstemp(p->path);
    assert_true(fd >= 0);
    close(fd);
    for (int i = 0; i < LAYERS; i++) {
        char before[16];
        snprintf(before, sizeof before, "h.%d.", i);
        for (size_t k = 0; k < PER_LAYER; k++)
            add(p, before, &layer[k]);
    }
    for (size_t k = 0; k < TEST_COUNT(whole); k++)
        add(p, "", &whole[k]);
}

static void save(const published *p)
{
    static const char *const metadata[] = {"format", "pt", NULL};
    assert_ok(ls_safetensors_save(p->path, p->items, p->n, metadata));
}

static void discard(published *p)
{
    for (size_t i = 0; i < p->n; i++)
        ls_tensor_free(&p->items[i].tensor);
    unlink(p->path);
}

static ls_named_tensor *find(published *p, const char *name)
{
    char full[NAME_BYTES];
    snprintf(full, sizeof full, "%s%s", p->prefix, name);
    for (size_t i = 0; i < p->n; i++) {
        if (strcmp(p->items[i].name, full) == 0)
            return &p->items[i];
    }
    fail_msg("no %s", full);
    return NULL;
}

static const float *of(published *p, const char *name)
{
    return ls_tensor_data(find(p, name)->tensor);
}

static const float *of_layer(published *p, int i, const char *name)
{
    char full[NAME_BYTES];
    snprintf(full, sizeof full, "h.%d.%s", i, name);
    return of(p, full);
}

/* ---- the model in double precision --------------------------------------- */

/* y = x W + b for every row, W (in, out). */
static void product(double *y, const double *x, const float *w, const float *b,
                    int in, int out)
{
    for (int t = 0; t < LENGTH; t++) {
        for (int o = 0; o < out; o++) {
            double sum = (double)b[o];
            for (int i = 0; i < in; i++)
                sum += x[t * in + i] * (double)w[i * out + o];
            y[t * out + o] = sum;
        }
    }
}

static void norm(double *y, const double *x, const float *w, const float *b)
{
    for (int t = 0; t < LENGTH; t++) {
        double mean = 0, variance = 0;
        for (int i = 0; i < D; i++)
            mean += x[t * D + i] / D;
        for (int i = 0; i < D; i++)
            variance += pow(x[t * D + i] - mean, 2) / D;
        for (int i = 0; i < D; i++)
            y[t * D + i] =
                (x[t * D + i] - mean) / sqrt(variance + 1e-5) * (double)w[i] +
                (double)b[i];
    }
}

/* One head's row t; q, k and v of a place lie behind each other. */
static void attend_row(double *o, const double *qkv, int t, int head)
{
    const int d = D / HEADS, at = head * d;
    double weights[LENGTH], sum = 0;
    for (int s = 0; s <= t; s++) {
        double score = 0;
        for (int i = at; i < at + d; i++)
            score += qkv[t * 3 * D + i] * qkv[s * 3 * D + D + i];
        weights[s] = exp(score / sqrt((double)d));
        sum += weights[s];
    }
    for (int i = at; i < at + d; i++) {
        o[t * D + i] = 0;
        for (int s = 0; s <= t; s++)
            o[t * D + i] += weights[s] / sum * qkv[s * 3 * D + 2 * D + i];
    }
}

static void attend(published *p, int i, double *x)
{
    double y[LENGTH * D], qkv[LENGTH * 3 * D], o[LENGTH * D];
    norm(y, x, of_layer(p, i, "ln_1.weight"), of_layer(p, i, "ln_1.bias"));
    product(qkv, y, of_layer(p, i, "attn.c_attn.weight"),
            of_layer(p, i, "attn.c_attn.bias"), D, 3 * D);
    for (int t = 0; t < LENGTH; t++)
        for (int head = 0; head < HEADS; head++)
            attend_row(o, qkv, t, head);
    product(y, o, of_layer(p, i, "attn.c_proj.weight"),
            of_layer(p, i, "attn.c_proj.bias"), D, D);
    for (int k = 0; k < LENGTH * D; k++)
        x[k] += y[k];
}

/* GELU by the tanh that published models were trained with. */
static double gelu_new(double a)
{
    const double u = sqrt(2.0 / acos(-1.0)) * (a + 0.044715 * a * a * a);
    return 0.5 * a * (1.0 + tanh(u));
}

static void feed_forward(published *p, int i, double *x)
{
    double y[LENGTH * D], h[LENGTH * FF];
    norm(y, x, of_layer(p, i, "ln_2.weight"), of_layer(p, i, "ln_2.bias"));
    product(h, y, of_layer(p, i, "mlp.c_fc.weight"),
            of_layer(p, i, "mlp.c_fc.bias"), D, FF);
    for (int k = 0; k < LENGTH * FF; k++)
        h[k] = gelu_new(h[k]);
    product(y, h, of_layer(p, i, "mlp.c_proj.weight"),
            of_layer(p, i, "mlp.c_proj.bias"), FF, D);
    for (int k = 0; k < LENGTH * D; k++)
        x[k] += y[k];
}

static int token_at(int t)
{
    return 5 * t % VOCABULARY;
}

static void reference(published *p, double *logits)
{
    double x[LENGTH * D], y[LENGTH * D];
    const float *wte = of(p, "wte.weight"), *wpe = of(p, "wpe.weight");
    for (int k = 0; k < LENGTH * D; k++)
        x[k] = (double)wte[token_at(k / D) * D + k % D] + (double)wpe[k];
    for (int i = 0; i < LAYERS; i++) {
        attend(p, i, x);
        feed_forward(p, i, x);
    }
    norm(y, x, of(p, "ln_f.weight"), of(p, "ln_f.bias"));
    for (int t = 0; t < LENGTH; t++) {
        for (int v = 0; v < VOCABULARY; v++) {
            double *sum = &logits[t * VOCABULARY + v];
            *sum = 0;
            for (int i = 0; i < D; i++)
                *sum += y[t * D + i] * (double)wte[v * D + i];
        }
    }
}

/* ---- ours ---------------------------------------------------------------- */

typedef struct network {
    ls_params *params;
    ls_transformer *model;
} network;

static network open_network(void)
{
    const ls_transformer_config config = {.kind = LS_TRANSFORMER_GPT2,
                                          .vocabulary = VOCABULARY,
                                          .context = CONTEXT,
                                          .d_model = D,
                                          .d_ff = FF,
                                          .layers = LAYERS,
                                          .heads = HEADS};
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
 * A logit comes out of about ten sums in a row, of 32 terms at most, each of
 * which a norm then divides by a deviation that is not below a quarter:
 * 8 sqrt(320) units of the last place, times four.
 */
static void expect_logits(const network *net, const double *wanted)
{
    ls_tape *tape = NULL;
    ls_tensor *tokens = NULL;
    assert_ok(ls_tensor_new(&tokens, LS_I64, 2, (const int64_t[]){1, LENGTH}));
    for (int t = 0; t < LENGTH; t++)
        ((int64_t *)ls_tensor_data(tokens))[t] = token_at(t);
    assert_ok(ls_tape_new(&tape));
    ls_tensor *logits = ls_transformer_forward(net->model, tape, tokens);
    assert_ok(ls_tape_status(tape));
    const float *got = ls_tensor_data(logits);
    double largest = 0;
    for (int i = 0; i < LENGTH * VOCABULARY; i++)
        largest = fmax(largest, fabs(wanted[i]));
    const double bound = 4 * 8 * sqrt(320) * 0x1p-24 * largest;
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
    network net = open_network();
    save(p);
    assert_ok(ls_transformer_load(net.model, p->path));
    expect_logits(&net, wanted);
    close_network(&net);
}

static void logits_are_those_of_the_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(prefixes); i++) {
        published p;
        double wanted[LENGTH * VOCABULARY];
        make(&p, prefixes[i]);
        reference(&p, wanted);
        expect_loaded(&p, wanted);
        discard(&p);
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

/* What is compared is the model of the rounded weights. */
static void half_types_are_widened(void **state)
{
    (void)state;
    static const ls_dtype types[] = {LS_BF16, LS_F16};
    for (size_t i = 0; i < TEST_COUNT(types); i++) {
        published p;
        double exact[LENGTH * VOCABULARY], wanted[LENGTH * VOCABULARY];
        make(&p, prefixes[i]);
        reference(&p, exact);
        for (size_t k = 0; k < p.n; k++)
            convert(&p.items[k].tensor, types[i]);
        save(&p);
        network net = open_network();
        assert_ok(ls_transformer_load(net.model, p.path));
        for (size_t k = 0; k < p.n; k++)
            convert(&p.items[k].tensor, LS_F32);
        reference(&p, wanted);
        assert_true(memcmp(exact, wanted, sizeof exact) != 0);
        expect_logits(&net, wanted);
        close_network(&net);
        discard(&p);
    }
}

/* (out, in): as the parameters lie in memory, and as a checkpoint has them. */
static void matrices_may_be_turned(void **state)
{
    (void)state;
    published p;
    double wanted[LENGTH * VOCABULARY];
    make(&p, "");
    reference(&p, wanted);
    for (size_t i = 0; i < p.n; i++) {
        ls_tensor **tensor = &p.items[i].tensor, *turned = NULL;
        if (p.names[i][0] != 'h' || ls_tensor_ndim(*tensor) != 2)
            continue;
        assert_ok(ls_tensor_transpose(*tensor, 0, 1, &turned));
        ls_tensor_free(tensor);
        *tensor = turned;
    }
    expect_loaded(&p, wanted);
    discard(&p);
}

/* The error has `before`, the name as the file would have it, and `after`. */
static void expect_refused(const published *p, ls_status status,
                           const char *before, const char *name,
                           const char *after)
{
    char part[160];
    network net = open_network();
    snprintf(part, sizeof part, "%s '%s%s'%s", before, p->prefix, name, after);
    save(p);
    assert_error(ls_transformer_load(net.model, p->path), status, part);
    close_network(&net);
}

/* The matrix as torch.nn.Linear would have it. */
static void first_mismatch_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(prefixes); i++) {
        published p;
        make(&p, prefixes[i]);
        ls_named_tensor *fc = find(&p, "h.1.mlp.c_fc.weight");
        ls_tensor_free(&fc->tensor);
        assert_ok(
            ls_tensor_new(&fc->tensor, LS_F32, 2, (const int64_t[]){FF, D}));
        assert_ok(ls_tensor_fill(fc->tensor, 0.0));
        expect_refused(&p, LS_ERR_SHAPE, "tensor", "h.1.mlp.c_fc.weight",
                       " has shape (32, 8), wanted is (8, 32)");
        find(&p, "h.0.ln_2.bias")->name = "other";
        expect_refused(&p, LS_ERR_FORMAT, "has no tensor", "h.0.ln_2.bias", "");
        discard(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_the_file),
        cmocka_unit_test(half_types_are_widened),
        cmocka_unit_test(matrices_may_be_turned),
        cmocka_unit_test(first_mismatch_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
